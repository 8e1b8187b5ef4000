/* The term at a place of the sorted order, of terms that come chunk by chunk from several threads,
 * and are not kept.
 *
 * Terms are compared as whole numbers that have their order: -0 as 0, and every nan above all. A
 * sweep over the terms counts those below a range, and those that equal its ends, and keeps those
 * within it, or counts them in bins when they would be too many. A sample of the terms tells a
 * range before the first sweep, so that mostly one sweep is enough: the number is the exact one
 * whatever the sample was. After a range that missed, bins narrow what is left.
 */
#ifndef MERGE_MERGE_SELECT_H
#define MERGE_MERGE_SELECT_H

#include "base/kv_err.h"
#include "vm/plan.h"

/* A chunk has at most so many terms. */
#define MERGE_CHUNK 2048

typedef struct merge_select merge_select;

/* fold: PLAN_ORDER or PLAN_LEAST, with its order; of nchunks chunks with n terms together, float64
 * if wide. It keeps at most `room` terms, which are few unless they are set. Error: memory. */
int merge_select_new(merge_select **out, plan_fold fold, int64_t order, bool wide, int64_t n,
                     int64_t nchunks, kv_err *e);
void merge_select_room(merge_select *s, int64_t room);
void merge_select_free(merge_select *s); /* NULL is allowed */

/* Before the first sweep: how many sampled terms it would like; 0: none. Then, if there is a
 * sample, its terms, which may be changed. */
int64_t merge_select_sample_size(const merge_select *s);
void merge_select_sample(merge_select *s, void *terms, int64_t n);

/* A sweep: begin; each chunk once, in any order, from any worker of the pool; end. *more: another
 * sweep is needed. Error: memory. */
int merge_select_begin(merge_select *s, kv_err *e);
void merge_select_chunk(merge_select *s, int64_t chunk, int worker, const void *terms, int64_t n);
void merge_select_end(merge_select *s, bool *more);

/* The term. Of PLAN_ORDER nan if any is. */
double merge_select_number(const merge_select *s);

/* Of PLAN_LEAST: the next larger number; nan, which nothing reaches, if the term is inf. */
double merge_select_next(const merge_select *s);

/* Of PLAN_LEAST: how many elements of a chunk, from its first on, are compared with the term; the
 * others with the next number. -1: it is up to place merge_select_cut_in of the chunk's terms. */
int64_t merge_select_cut(const merge_select *s, int64_t chunk);
int64_t merge_select_cut_in(const merge_select *s, const void *terms, int64_t n);

#endif
