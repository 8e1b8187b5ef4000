/* The element part of a push: from the values of one key to its new stored array.
 *
 * Everything happens block by block in one pass: each value is read once from the caller's memory,
 * and the stored array is written once. Each value is converted to the stored dtype, the sum is
 * taken left to right, and a rule sees that sum, rounded to the stored dtype.
 *
 * This is the way of host memory; keys on a GPU take that of call_gpu.c.
 */
#pragma once

#include "kv_array.h"
#include "vm/plan.h"

/* Scratch memory of a push, kept from call to call: for each worker, or for one key on all of them.
 * All zero is empty. */
typedef struct apply_work {
    char *memory;
    int64_t bytes;
    int64_t each; /* a worker's bytes */
} apply_work;

/* Room for `workers` workers at keys of max_values values and programs of part_bytes scratch, and
 * for one whose program needs whole_bytes. Error: memory. */
int apply_reserve(apply_work *w, int workers, int64_t max_values, int64_t part_bytes,
                  int64_t whole_bytes, kv_err *e);

void apply_work_release(apply_work *w);

/* The values of one key in one push. */
typedef struct apply_values {
    kv_array *const *items;
    const void *const *data; /* the elements of each */
    int64_t n;               /* at least 1 */
    bool same_dtype;         /* all have the dtype of the result */
    const kv_array *sum;     /* NULL, or of row_sparse values the sum: it is read in their place */
} apply_values;

/* dst = src, converted, for the elements from … from + n - 1; both have memory for every element.
 * far: what is written is too much to stay in a cache. */
void apply_copy_part(kv_array *dst, const kv_array *src, int64_t from, int64_t n, bool far);

/* Arrays that receive a copy of the stored elements, or of the sum. */
typedef struct apply_outs {
    kv_array *const *items;
    int64_t n;
} apply_outs;

/* Elements from … from + n - 1 of src to every out, converted; those of an out that is src itself
 * are there. src is read from memory once if n is small beside a cache. */
void apply_spread_part(const apply_outs *outs, const kv_array *src, int64_t from, int64_t n,
                       bool far);

/* dst = the sum of the values, elements from … from + n - 1. */
void apply_sum(kv_array *dst, const apply_values *v, int64_t from, int64_t n, bool far,
               const apply_work *w, int worker);

/* The same, and every out receives the sum too, while it is in the cache. An out may be one of the
 * values: its elements are written when they have been added. */
void apply_sum_spread(kv_array *dst, const apply_outs *outs, const apply_values *v, int64_t from,
                      int64_t n, bool far, const apply_work *w, int worker);

/* Bytes of scratch that a plan needs for size elements; 1 for parts of any size. */
int64_t apply_plan_bytes(const plan *p, int64_t size, int64_t nvalues);

/* A rule's plan on the arrays in a, whose input is the sum of the values, rounded to the dtype of
 * stored. present: only the rows that a row_sparse sum holds take part. Fills the rest of a. The
 * first takes elements from … from + n - 1 of a plan that can be split, on this thread. */
void apply_plan_part(const plan *p, kv_array *stored, const apply_values *v, plan_arrays *a,
                     int64_t from, int64_t n, const apply_work *w, int worker);
void apply_plan(const plan *p, kv_array *stored, const apply_values *v, bool present,
                plan_arrays *a, const apply_work *w, int worker);
