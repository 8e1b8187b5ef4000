/* Moving elements between arrays of any storage, and sums of row_sparse arrays. These functions
 * read and write at once: the caller has waited, or runs as an operation of the engine. */
#pragma once

#include "array/device.h"
#include "cpu/cpu.h"
#include "kv_array.h"

/* Elements of one index of the first axis. */
int64_t sparse_row(const kv_array *a);

/* Returns true if a has memory for every element: a row_sparse array is then laid out like a
 * default one. */
static inline bool sparse_is_full(const kv_array *a)
{
    return a->storage == KV_DEFAULT || a->nrows == array_shape(a)[0];
}

/* The elements that a holds: all, or those of its rows. */
static inline int64_t sparse_held(const kv_array *a)
{
    return a->storage == KV_DEFAULT ? a->size : a->nrows * sparse_row(a);
}

/* A new array with memory for every element, contents undefined, of the dtype, shape and storage of
 * `like`. Errors: those of kv_array_new. */
int sparse_new_full(kv_array **out, const kv_array *like, kv_ctx ctx, kv_err *e);

/* dst[i] = src[i], converted, in host memory. dst is full, the shapes are equal, src has any
 * storage. */
void sparse_move(kv_array *dst, const kv_array *src);

/* Makes the row_sparse dst hold the rows of src, converted; of a default src those with an element
 * that is not zero. The shapes are equal. On an error (memory, those of a device) dst is as it was.
 */
int sparse_replace(kv_array *dst, const kv_array *src, kv_err *e);

/* A new row_sparse array of the shape of `like`, of dtype in ctx, with memory for n rows, contents
 * undefined. Takes row_ids, also on failure: from mem_alloc, as for kv_array_new_sparse, and not
 * checked; NULL: memory for n, undefined. Errors: those of kv_array_new. */
int sparse_new_rows(kv_array **out, const kv_array *like, kv_dtype dtype, kv_ctx ctx, int64_t n,
                    int64_t *row_ids, kv_err *e);

/* Before `fresh` is filled and exchanged for `old`: if both have as many rows, fresh gets the
 * memory of old, whose pages are there already, and old that of fresh. ids_too: also the ids. Of
 * both, one shape and dtype, contents are undefined afterwards. */
void sparse_reuse(kv_array *fresh, kv_array *old, bool ids_too);

/* Fills n >= 1 arrays of one shape and dtype, all with as many rows, with those rows of src,
 * row_sparse and of the same shape, whose ids a[0] has; others become zeros. Where src holds no row
 * at all, neither do they afterwards. (MXNet's sparse_retain.) */
void sparse_retain(kv_array *const *a, int64_t n, const kv_array *src);

/* A row_sparse array as two default arrays over its own memory, each with a reference to it: the
 * ids, int64 of shape (n,), and the rows, of shape (n, …). Blocks as a read of a does; a
 * must not be written while they are there. Error: memory. */
int sparse_parts(kv_array **ids, kv_array **data, kv_array *a, kv_err *e);

/* A new row_sparse array of dtype in ctx: the sum of n >= 1 row_sparse arrays of one shape, each
 * converted to dtype first. It holds the rows that any of them holds, also where the sum is zero.
 * Of several, a row begins at 0 and takes its values in their order; a single one is copied.
 * ctx has only host memory; gpu_list.h has sums on other devices. Errors: those of
 * kv_array_new, those of a device that the values are brought from. */
int sparse_sum(kv_array **out, kv_array *const *values, int64_t n, kv_dtype dtype, kv_ctx ctx,
               kv_err *e);

/* ---- Row ids --------------------------------------------------------------------------------- */

/* Row ids: ascending lists of them, which are searched and united, and ids as a caller gives them,
 * in an array of any shape, in any order, some of them several times. */

/* The elements of ids, a default array of integers, or of floats that are whole and lie where every
 * integer is exact (in float32 up to 2^24). Blocks as a read of ids does.
 * Out: *out, which has kv_array_size(ids) places; released with mem_free.
 * Errors: value (row_sparse), dtype (bool; a float that is not whole, or too large), memory. */
int row_ids_read(int64_t **out, kv_array *ids, kv_err *e);

/* The index of the first id outside of 0 to rows - 1, or -1. */
int64_t row_ids_outside(const int64_t *ids, int64_t n, int64_t rows);

/* Returns true if the ids ascend, each once, and all are rows of an array with `rows` rows. */
bool row_ids_ordered(const int64_t *ids, int64_t n, int64_t rows);

/* Puts *n ids, which are rows of such an array, in ascending order, each once, and sets *n to how
 * many are left. Error: memory. */
int row_ids_sort(int64_t *ids, int64_t *n, int64_t rows, kv_err *e);

/* The ids of all n sources, ascending and each once, of arrays with `rows` rows.
 * Out: *ids, released with mem_free, and *count, how many they are. Error: memory. */
int row_ids_unite(int64_t **ids, int64_t *count, const sparse_rows *src, int64_t n, int64_t rows,
                  kv_err *e);
