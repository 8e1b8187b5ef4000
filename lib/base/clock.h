/* A clock that only goes forward, for durations and deadlines. */
#pragma once

#include <stdint.h>
#include <time.h>

/* Nanoseconds, and milliseconds, since a moment that stays the same while the machine runs. */
static inline int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t clock_ms(void)
{
    return clock_ns() / 1000000;
}

/* The moment `ns` nanoseconds from now, for functions that wait until a moment of a clock that they
 * are given: pthread_cond_clockwait, sem_clockwait, with CLOCK_MONOTONIC. No other function waits
 * until a moment: the clock of those may be set, which would end a wait too soon or not at all. */
static inline struct timespec clock_after(int64_t ns)
{
    int64_t at = clock_ns() + ns;
    return (struct timespec){.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
}
