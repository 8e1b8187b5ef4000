/* Selection: the k-th smallest of the terms of a key, which come chunk by chunk from several
 * threads and are too many to be kept and sorted.
 *
 * Terms have the order of integers, their keys: -0 is as 0, every nan above all. A sweep over all
 * terms counts those below a range and those that equal its ends, and keeps those between the ends,
 * or counts them in bins where they would be too many. A sample of the terms
 * gives a range before the first sweep, so that one sweep is mostly enough. The result is exact
 * whatever the sample was: when the place lies outside of the range, another sweep follows over the
 * rest.
 */
#pragma once

#include "base/kv_err.h"
#include "vm/plan.h"

/* A chunk has at most so many terms. */
#define MERGE_CHUNK 2048

/* The terms that a selection may keep, whatever their number, before it is given room. */
#define MERGE_SELECT_KEEPS ((int64_t)1 << 16)

typedef struct merge_select merge_select;

/* fold: PLAN_ORDER or PLAN_LEAST (vm/plan.h), with its order; n terms in nchunks chunks, float64 if
 * wide. merge_select_room sets how many terms it may keep; until then they are few. Error: memory.
 */
int merge_select_new(merge_select **out, plan_fold fold, int64_t order, bool wide, int64_t n,
                     int64_t nchunks, kv_err *e);
void merge_select_room(merge_select *s, int64_t room);
void merge_select_free(merge_select *s); /* NULL is allowed */

/* Before the first sweep: the size of the sample that it would like; 0: none. Then, if there is a
 * sample, its n terms, and room for as many. */
int64_t merge_select_sample_size(const merge_select *s);
void merge_select_sample(merge_select *s, const void *terms, int64_t n, void *room);

/* A sweep: begin; each chunk once, in any order, from any thread of the pool (worker: its number);
 * end. *more becomes true if another sweep is needed. Error: memory. */
int merge_select_begin(merge_select *s, kv_err *e);
void merge_select_chunk(merge_select *s, int64_t chunk, int worker, const void *terms, int64_t n);
void merge_select_end(merge_select *s, bool *more);

/* The result. Of PLAN_ORDER nan if any term is. */
double merge_select_number(const merge_select *s);

/* Of PLAN_LEAST: the next larger number; nan, which nothing reaches, if the result is inf. */
double merge_select_next(const merge_select *s);

/* Of PLAN_LEAST: the number of elements at the begin of a chunk that are compared with the result;
 * the others are compared with the next larger number. -1: merge_select_cut_in tells, from the
 * chunk's terms. */
int64_t merge_select_cut(const merge_select *s, int64_t chunk);
int64_t merge_select_cut_in(const merge_select *s, const void *terms, int64_t n);
