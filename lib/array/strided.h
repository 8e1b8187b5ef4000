/* Copying between layouts: the one loop behind slices, transposes, joins and broadcasts.
 *
 * A layout gives each axis a stride, the number of elements from one index to the next. A stride
 * may be negative (a reversed axis) or 0 (one element read for every index: a broadcast). Memory is
 * host memory.
 */
#ifndef ARRAY_STRIDED_H
#define ARRAY_STRIDED_H

#include <stdbool.h>
#include <stdint.h>

/* dst[i, j, …] = src[i, j, …] for every index of shape, elements of 1, 2, 4 or 8 bytes. dst and src
 * point at the elements of index 0, 0, …; strides are in elements; at most KV_MAX_NDIM axes. The
 * regions do not overlap. False: may_stop is true, stop_asked said so, and elements are missing. */
bool strided_copy(void *dst, const int64_t *dst_strides, const void *src,
                  const int64_t *src_strides, int ndim, const int64_t *shape, int64_t bytes,
                  bool may_stop);

/* The strides of elements in row-major order without gaps. Without elements all are 0, since the
 * sizes beside a 0 may have a product beyond 64 bits. */
void strided_rows(int64_t *strides, int ndim, const int64_t *shape);

#endif
