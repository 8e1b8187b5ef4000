/* The elements of arrays in another arrangement: other shapes, other orders, several arrays as one.
 *
 * Every function gives a new array of the same dtype (joins: of the one given) on the context of
 * its first source, with memory of its own. Axes count from 0, and from the end when negative; an
 * axis that is not there is an error (index). All of them can fail for memory, and end early where
 * base/stop.h says so.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_array.h"

/* Makes *axis, -ndim to ndim - 1, one from 0 on. Error: index. */
int arrange_axis(int64_t *axis, int ndim, kv_err *e);

/* kv_array_new and kv_array_dup, in pieces. */
int arrange_zeros(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, kv_ctx ctx,
                  kv_err *e);
int arrange_copy(kv_array **out, kv_array *a, kv_dtype dtype, kv_ctx ctx, kv_err *e);

/* a in this dtype: another reference, or a copy in its context. */
int arrange_as(kv_array **out, kv_array *a, kv_dtype dtype, kv_err *e);

/* The same elements in row-major order under another shape; one size may be -1, which is then
 * found. Error: shape (another number of elements). */
int arrange_reshape(kv_array **out, kv_array *a, int ndim, const int64_t *shape, kv_err *e);

/* Axis i of the result is axis order[i] of a, which has ndim axes; order NULL reverses them.
 * Errors: shape (n is not ndim), value (an axis twice). */
int arrange_transpose(kv_array **out, kv_array *a, const int64_t *order, int n, kv_err *e);

/* a repeated to a larger shape: axes are matched from the last, and those of size 1 or missing
 * repeat. Error: shape. */
int arrange_broadcast(kv_array **out, kv_array *a, int ndim, const int64_t *shape, kv_err *e);

/* The shape that both arrays broadcast to. Error: shape. */
int arrange_common(int *ndim, int64_t shape[KV_MAX_NDIM], const kv_array *a, const kv_array *b,
                   kv_err *e);

/* n >= 1 arrays behind each other along an axis, converted to dtype; all sizes but that along axis
 * are equal. Error: shape. */
int arrange_concat(kv_array **out, kv_array *const *a, int64_t n, int64_t axis, kv_dtype dtype,
                   kv_err *e);

/* n >= 1 arrays of one shape along a new axis. Error: shape. */
int arrange_stack(kv_array **out, kv_array *const *a, int64_t n, int64_t axis, kv_dtype dtype,
                  kv_err *e);

/* Each index of an axis `times` times: [1, 1, 2, 2]. Error: value (times < 0),
 * shape (too large). */
int arrange_repeat(kv_array **out, kv_array *a, int64_t times, int64_t axis, kv_err *e);

/* The whole array times[i] times along axis i: [1, 2, 1, 2]. Axes are matched from the last; where
 * a or times has fewer, the missing are 1. Errors: as for repeat. */
int arrange_tile(kv_array **out, kv_array *a, const int64_t *times, int n, kv_err *e);

/* The dtype of the result of two arrays, the smallest that holds both: of two floats the wider, of
 * float16 and bfloat16 float32, of an integer and a float that float, of uint8 and int8 int32, of
 * bool and any other the other. */
kv_dtype promote_dtypes(kv_dtype a, kv_dtype b);

/* Copying between layouts: the one loop behind slices, transposes, joins and broadcasts.
 *
 * A layout gives each axis a stride, the number of elements from one index to the next. A stride
 * may be negative (a reversed axis) or 0 (one element read for every index: a broadcast). Memory is
 * host memory. */

/* dst[i, j, …] = src[i, j, …] for every index of shape, elements of 1, 2, 4 or 8 bytes. dst and src
 * point at the elements of index 0, 0, …; strides are in elements; at most KV_MAX_NDIM axes. The
 * regions do not overlap. False: may_stop is true, stop_asked said so, and elements are missing. */
bool strided_copy(void *dst, const int64_t *dst_strides, const void *src,
                  const int64_t *src_strides, int ndim, const int64_t *shape, int64_t bytes,
                  bool may_stop);

/* The strides of elements in row-major order without gaps. Without elements all are 0, since the
 * sizes beside a 0 may have a product beyond 64 bits. */
void strided_rows(int64_t *strides, int ndim, const int64_t *shape);
