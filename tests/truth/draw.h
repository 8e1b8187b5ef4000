/* Random numbers of one run, by its seed and its number: any run can be repeated by itself. */
#pragma once

#include <math.h>
#include <stdint.h>

#include "base/philox.h"

typedef struct draws {
    uint64_t seed, run, at;
} draws;

static inline philox draw_words(draws *d)
{
    return philox_at(d->seed, PHILOX_FUNCTIONS, d->run, d->at++);
}

/* 0 … n - 1 */
static inline int64_t draw_below(draws *d, int64_t n)
{
    return (int64_t)philox_below(draw_words(d), (uint64_t)n);
}

/* Returns true in so many of 100 cases. */
static inline int draw_chance(draws *d, int percent)
{
    return draw_below(d, 100) < percent;
}

static inline double draw_uniform(draws *d, double low, double high)
{
    return low + (high - low) * philox_uniform53(draw_words(d));
}

/* 10 to a uniform power. */
static inline double draw_scale(draws *d, double low, double high)
{
    return pow(10, draw_uniform(d, low, high));
}

static inline double draw_normal(draws *d)
{
    return philox_normal(draw_words(d));
}
