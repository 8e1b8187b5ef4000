/* Sorting along an axis, and what is read off a sorted axis.
 *
 * Sorting is stable and as in NumPy: nan comes last. axis counts from the end when negative. An
 * array without axes is sorted as if it had one element. Errors: index (an axis that is not there),
 * memory, interrupted.
 */
#pragma once

#include "kv_array.h"

/* What sorting gives: the elements, or int64 indices along the axis. */
typedef enum sort_what { SORT_VALUES, SORT_INDICES } sort_what;

/* A new array of a's shape. down: from the largest on, nan first. */
int sort_array(kv_array **out, kv_array *a, sort_what what, int64_t axis, bool down, kv_err *e);

/* The order of n numbers, float32 or float64, of memory of the caller: the index of the smallest
 * first. Returns it in room, sort_order_bytes aligned to 8. -0 equals 0. */
int64_t sort_order_bytes(int64_t n);
const int64_t *sort_order(void *room, const void *x, kv_dtype dtype, int64_t n);

/* The quantiles q[0], q[1], … (0 to 1) along an axis, by linear interpolation in float64; nan where
 * there is one. The result has an axis of nq in front of those that remain; its dtype is that of a
 * mean. Error: value (no elements). */
int sort_quantiles(kv_array **out, kv_array *a, const double *q, int64_t nq, int64_t axis,
                   kv_err *e);

/* The different elements of a, ascending; the places (nan counting as one number) in row-major
 * order of the first of each; how often each is there; and for each element of a the number of its
 * own, in a's shape. first, counts and inverse may be NULL. */
int sort_unique(kv_array **out, kv_array **first, kv_array **inverse, kv_array **counts,
                kv_array *a, kv_err *e);
