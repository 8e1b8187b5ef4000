/* Indices that are arrays, as offsets (places): an int64 array with the distance of each picked
 * element from the first of its axis. Offsets along several axes are added up. */
#ifndef ARRAY_PICK_H
#define ARRAY_PICK_H

#include "kv_array.h"

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

#endif
