/* Rows of arrays on GPUs with memory of their own: their ids are in host memory, so the host says
 * which row goes where, and the elements stay on the device. What many arrays need is gathered
 * first, and is one launch on each device.
 *
 * These functions work at once, as those of sparse.h.
 */
#ifndef ARRAY_SPARSE_GPU_H
#define ARRAY_SPARSE_GPU_H

#include "array/gpu_list.h"

/* ---- Sums ---- */

/* Sums in the making. */
typedef struct sparse_sums {
    gpu_list converts, sums;
} sparse_sums;

/* Errors: unsupported (no GPUs). */
int sparse_sums_begin(sparse_sums *s, kv_err *e);

/* What sparse_sum gives, in a ctx on a GPU, with elements that sparse_sums_run makes. Values
 * elsewhere are copied there. The values stay as they are until then.
 * Errors: those of kv_array_new. */
int sparse_sums_add(sparse_sums *s, kv_array **out, kv_array *const *values, int64_t n,
                    kv_dtype dtype, kv_ctx ctx, kv_err *e);

/* Errors: memory, those of a device. */
int sparse_sums_run(sparse_sums *s, kv_err *e);

void sparse_sums_release(sparse_sums *s);

/* ---- Some rows ---- */

/* Rows in the making. */
typedef struct sparse_picks {
    gpu_list gathers, converts;
    struct sparse_pick *out; /* copies from the device where the rows were */
    int64_t nout, out_cap;
} sparse_picks;

/* Errors: unsupported (no GPUs). */
int sparse_picks_begin(sparse_picks *p, kv_err *e);

/* What sparse_retain does, of a src whose elements are on a GPU; the n arrays are anywhere, and get
 * their elements from sparse_picks_run. Only those rows leave the device.
 * Errors: memory, those of a device. */
int sparse_picks_add(sparse_picks *p, kv_array *const *a, int64_t n, const kv_array *src,
                     kv_err *e);

/* Errors: memory, those of a device. */
int sparse_picks_run(sparse_picks *p, kv_err *e);

void sparse_picks_release(sparse_picks *p);

#endif
