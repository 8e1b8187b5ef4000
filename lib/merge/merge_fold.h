/* Sums, largest and smallest of the terms of a chunk, in float64. Rules of updaters have fewer
 * lanes (vm/kernel_fold.h), on which their bits depend; a merge goes over files, and wants more. */
#ifndef MERGE_MERGE_FOLD_H
#define MERGE_MERGE_FOLD_H

#include "vm/plan.h"

/* n terms, float32 or float64, reduced to one: term i goes to lane i % MERGE_LANES, then the lanes
 * are joined from the first to the last. fold: below PLAN_FOLDS. */
double merge_fold_chunk(plan_fold fold, bool wide, const void *terms, int64_t n);

/* The second half of it: MERGE_LANES lanes joined from the first to the last. */
#define MERGE_LANES 32
double merge_fold_lanes(plan_fold fold, const double *lanes);

#endif
