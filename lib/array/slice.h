/* Parts of arrays: a[1], a[0:2, 1], a[::-1]. As in Python: negative indices count from the end, the
 * bounds of a range are cut to the axis, and an index drops its axis. */
#ifndef ARRAY_SLICE_H
#define ARRAY_SLICE_H

#include <stdbool.h>

#include "kv_array.h"

/* A selection of one axis: one index, or from:to:step. All zero is the whole axis. */
typedef struct array_range {
    bool is_index, has_from, has_to;
    int64_t index;    /* is_index */
    int64_t from, to; /* valid when has_from, has_to */
    int64_t step;     /* 0 stands for 1 */
} array_range;

/* The indices from, from + step, …, n of them. */
typedef struct array_span {
    int64_t from, step, n;
} array_span;

/* The indices that a range, which is no index, takes of an axis of len. */
array_span array_range_span(const array_range *r, int64_t len);

/* A new array on a's context: the part that n ranges, one for each of the first axes, take of a.
 * The other axes are taken whole. Errors: index (out of range, more ranges than axes), memory,
 * interrupted. */
int array_slice(kv_array **out, kv_array *a, const array_range *ranges, int n, kv_err *e);

/* Writes src, converted and broadcast, into that part of a. The caller is a's only holder (see
 * kv_array_write). Errors: index, shape (src does not broadcast to the part), value, memory. */
int array_assign_slice(kv_array *a, const array_range *ranges, int n, kv_array *src, kv_err *e);

#endif
