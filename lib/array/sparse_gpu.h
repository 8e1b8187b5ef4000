/* Rows of arrays on GPUs with memory of their own: their ids are in host memory, so the host says
 * which row goes where, and the elements stay on the device. Work on many arrays is gathered in a
 * list, which makes their elements when it runs; the sources stay as they are until then.
 *
 * These functions work at once, as those of sparse.h.
 */
#ifndef ARRAY_SPARSE_GPU_H
#define ARRAY_SPARSE_GPU_H

#include "array/gpu_list.h"

/* The array that sparse_sum makes, in a ctx on a GPU. Values elsewhere are copied there. Errors:
 * those of kv_array_new. */
int sparse_gpu_sum(gpu_list *l, kv_array **out, kv_array *const *values, int64_t n, kv_dtype dtype,
                   kv_ctx ctx, kv_err *e);

/* Does the work of sparse_retain for a src whose elements are on a GPU; the n arrays are anywhere.
 * Only the rows that they keep leave the device. Errors: memory, those of a device. */
int sparse_gpu_retain(gpu_list *l, kv_array *const *a, int64_t n, const kv_array *src, kv_err *e);

#endif
