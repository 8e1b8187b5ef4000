/* Parts of arrays: a[1], a[0:2, 1], a[::-1], a[[4, 2]], a[a > 0]. As in Python: negative indices
 * count from the end, the bounds of a range are cut to the axis, and an index drops its axis. As in
 * NumPy: arrays of indices pair up, and the axes of what they pick stand where the first of them
 * stood, or in front of all when a slice lies between them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_array.h"

/* A selection of one axis: one index, from:to:step, or several indices. All zero is the whole
 * axis. */
typedef struct array_range {
    bool is_index, has_from, has_to;
    bool is_new;      /* no axis of the array, but one of size 1 in the result */
    bool is_rest;     /* all axes that the others leave, whole; one range at most */
    int64_t index;    /* is_index */
    int64_t from, to; /* valid when has_from, has_to */
    int64_t step;     /* 0 stands for 1 */
    kv_array *ids;    /* (optional, borrowed) indices: integers, or floats that are whole. A bool
                         array selects the elements of as many axes as it has */
} array_range;

/* The indices from, from + step, …, n of them. */
typedef struct array_span {
    int64_t from, step, n;
} array_span;

/* The indices that a range, not a single index, takes of an axis of len. */
array_span array_range_span(const array_range *r, int64_t len);

/* A new array on a's context: the part that n ranges, one for each of the first axes, take of a.
 * The other axes are taken whole. Errors: index (out of range, more ranges than axes), dtype (ids
 * that are not whole), shape (ids that do not pair up, a mask of another shape), memory,
 * interrupted. */
int array_slice(kv_array **out, kv_array *a, const array_range *ranges, int n, kv_err *e);

/* Writes src, converted and broadcast, into that part of a. Of ids that are there twice the last
 * wins. The caller is a's only holder (see kv_array_write). Errors: as above, shape (src does not
 * broadcast to the part), value. */
int array_assign_slice(kv_array *a, const array_range *ranges, int n, kv_array *src, kv_err *e);

/* ---- Indices that are arrays ----
 *
 * They become offsets (places): an int64 array with the distance of each picked element from the
 * first of its axis. Offsets along several axes are added up. */

/* The places of ids along an axis of len, whose indices lie `stride` apart: an array of ids' shape.
 * ids are integers, or floats that are whole; negative ones count from the end. Errors: index (out
 * of range), dtype (not whole), memory, interrupted. */
int pick_ids(kv_array **places, kv_array *ids, int axis, int64_t len, int64_t stride, kv_err *e);

/* The places, in order, where the elements of `mask` are not 0, counted in elements of it and times
 * stride: an array with one axis. Errors: memory, interrupted. */
int pick_mask(kv_array **places, kv_array *mask, int64_t stride, kv_err *e);

/* Adds `more` to *places, both broadcast to their common shape. *places NULL: it becomes more.
 * Takes the caller's reference of more, also on failure. Errors: shape, memory, interrupted. */
int pick_join(kv_array **places, kv_array *more, kv_err *e);

/* The index along an axis of len, whose indices lie `stride` apart, of each place: a new array.
 * Errors: memory, interrupted. */
int pick_index(kv_array **out, kv_array *places, int64_t len, int64_t stride, kv_err *e);
