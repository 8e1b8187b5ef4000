/* The loops of reductions, in float64: of plans by steps (vm/plan_grid.c), and of merges. */
#pragma once

#include "vm/plan.h"

/* What a reduction of nothing gives: 0, -inf, inf. */
double kernel_fold_begin(plan_fold fold);

/* a and b reduced; nan if either is. */
static inline double kernel_fold_sum(double a, double b)
{
    return a + b;
}

static inline double kernel_fold_max(double a, double b)
{
    return ((b > a) | (b != b)) ? b : a;
}

static inline double kernel_fold_min(double a, double b)
{
    return ((b < a) | (b != b)) ? b : a;
}

double kernel_fold_join(plan_fold fold, double a, double b);

/* n numbers, float32 or float64, reduced to one: element i goes to lane i % 8, then the lanes are
 * joined from the first to the last. The second is for the chunks of a merge, which goes over files
 * and wants more lanes: the bits of updaters depend on 8, those of merges on 32. */
double kernel_fold_row(plan_fold fold, prog_type type, const void *x, int64_t n);
double kernel_fold_chunk(plan_fold fold, prog_type type, const void *x, int64_t n);

/* to[j] joined with x[j], for n numbers. */
void kernel_fold_each(plan_fold fold, prog_type type, double *to, const void *x, int64_t n);
