/* Sums, largest and smallest of the terms of a chunk, in float64. */
#ifndef MERGE_MERGE_FOLD_H
#define MERGE_MERGE_FOLD_H

#include "vm/plan.h"

/* What a reduction of nothing gives: 0, -inf, inf. */
double merge_fold_begin(plan_fold fold);

/* a and b reduced; nan if either is. */
double merge_fold_join(plan_fold fold, double a, double b);

/* n terms, float32 or float64, reduced to one: term i goes to lane i % 32, then the lanes are
 * joined from the first to the last. fold: below PLAN_FOLDS. */
double merge_fold_chunk(plan_fold fold, bool wide, const void *terms, int64_t n);

#endif
