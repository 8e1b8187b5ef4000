/* Arrays: a dtype, a shape, a context and memory, counted.
 *
 * Storage. A default array has memory for every element. A row_sparse one has memory for some rows,
 * which are indices of its first axis; the others are zeros. Functions say what they do with it;
 * kv_array_read, and with it all that reads elements one behind the other, refuses it.
 *
 * Ownership. kv_array_new and kv_array_wrap give the caller one reference; every reference is given
 * back with kv_array_unref. A store takes references of its own, so a handle may be released as
 * soon as a call that took it has returned.
 *
 * Order. A store's operations on an array are scheduled (see kvstore.h). kv_array_read waits until
 * what writes the array has ended; kv_array_write also waits for what reads it. Memory obtained
 * from either is the array's own: elements in row-major order, without gaps.
 *
 * NULL. A function that returns a kv_code refuses a NULL that it needs (usage). The others need an
 * array; only kv_array_ref and kv_array_unref take NULL.
 *
 * This header is public; it is installed beside kvstore.h, which includes it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_dtype.h"
#include "kv_err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A context: which device holds the data. Several cpu(i) are labels on one memory, so that programs
 * for several devices run on any machine. All zero is cpu(0). */
typedef enum kv_device { KV_CPU = 0, KV_GPU = 1 } kv_device;

typedef struct kv_ctx {
    int32_t device; /* a kv_device */
    int32_t id;     /* 0 to KV_CTX_MAX */
} kv_ctx;

#define KV_CTX_MAX 65535
#define KV_CTX_TEXT 16 /* bytes that "gpu(65535)" and its NUL need */

bool kv_ctx_same(kv_ctx a, kv_ctx b);
/* Writes "gpu(1)" into out and returns out. */
const char *kv_ctx_text(char out[KV_CTX_TEXT], kv_ctx ctx);

#define KV_MAX_NDIM 32

/* The text of a shape as messages show it: (2, 3), (4,), (). Returns out; long ones are cut. */
const char *kv_shape_text(char *out, int size, int ndim, const int64_t *shape);

typedef struct kv_array kv_array;

/* A new array, all zero. Contexts: cpu(i); gpu(i) where a GPU plugin or virtual GPUs are in use.
 * shape: ndim (0 to KV_MAX_NDIM) sizes of at least 0; ndim 0 holds one number.
 * Errors: shape (a negative size, a product beyond 2^63 bytes), unsupported (context), memory. */
int kv_array_new(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, kv_ctx ctx,
                 kv_err *e);

/* The same with the contents undefined, for a caller that writes every element. */
int kv_array_new_raw(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, kv_ctx ctx,
                     kv_err *e);

/* An array over the caller's memory, which must stay valid, and unchanged except through the array,
 * until done(arg) is called: when the last reference is gone and no operation of a store uses the
 * array, so perhaps on another thread. done may be NULL. Of a GPU that is not virtual it is memory
 * of that GPU, whose work on it must have ended. Errors as above. */
int kv_array_wrap(kv_array **out, void *data, kv_dtype dtype, int ndim, const int64_t *shape,
                  kv_ctx ctx, void (*done)(void *arg), void *arg, kv_err *e);

/* Adds a reference and returns a. NULL gives NULL. */
kv_array *kv_array_ref(kv_array *a);

/* Gives a reference back; the last one releases the array once nothing uses it. NULL is allowed. */
void kv_array_unref(kv_array *a);

kv_dtype kv_array_dtype(const kv_array *a);
int kv_array_ndim(const kv_array *a);
const int64_t *kv_array_shape(const kv_array *a); /* ndim sizes, borrowed */
int64_t kv_array_size(const kv_array *a);         /* elements */
int64_t kv_array_bytes(const kv_array *a);        /* of its memory, row ids included: of a default
                                                     array elements times bytes an element */
kv_ctx kv_array_ctx(const kv_array *a);
int64_t kv_array_refs(const kv_array *a);         /* references, the store's included */

/* The elements in host memory, to read until the reference is given back. Blocks until what writes
 * the array has ended. Those of a GPU are brought from it, so ask again when they have changed
 * there. Errors: unsupported (a row_sparse array), peer (what should have come from another machine
 * did not; kv_wait says why). */
int kv_array_read(kv_array *a, const void **data, kv_err *e);

/* Waits some `ms` milliseconds for what writes the array, of any storage: *there is false if that
 * has not ended. So a caller can look at its own signals between two waits. Errors: value (ms is
 * negative), peer as above. */
int kv_array_await(kv_array *a, int ms, bool *there, kv_err *e);

/* The elements in host memory, to write. Blocks until what reads or writes the array has ended. The
 * caller must hold the only reference (kv_array_refs is 1); error value otherwise. Error:
 * unsupported (a row_sparse array). */
int kv_array_write(kv_array *a, void **data, kv_err *e);

/* dst[i] = src[i], converted to dst's dtype (see kvstore.h on conversions), across contexts.
 * Shapes must be equal, or both arrays have one element: error shape. Blocks as read of src and
 * write of dst do, but dst may have other references: their holders see the change. Either may be
 * row_sparse; such a dst then holds the rows that src holds, or of a default src those with an
 * element that is not zero. */
int kv_array_copy(kv_array *dst, kv_array *src, kv_err *e);

/* A new array with the contents and the storage of src, in dtype and ctx. Blocks as a read of src
 * does. */
int kv_array_dup(kv_array **out, kv_array *src, kv_dtype dtype, kv_ctx ctx, kv_err *e);

/* The same elements under another shape of the same size; shares the memory with src.
 * Errors: shape, unsupported (a row_sparse src), memory. */
int kv_array_view(kv_array **out, kv_array *src, int ndim, const int64_t *shape, kv_err *e);

/* Returns true if two arrays have the same number of axes and the same sizes. */
bool kv_array_same_shape(const kv_array *a, const kv_array *b);

/* ---- row_sparse ------------------------------------------------------------------------------ */

typedef enum kv_storage { KV_DEFAULT = 0, KV_ROW_SPARSE = 1 } kv_storage;

const char *kv_storage_name(kv_storage storage); /* "default", "row_sparse" */
kv_storage kv_array_storage(const kv_array *a);

/* A new row_sparse array that holds nrows rows, all zero; nrows may be 0. row_ids: which, ascending
 * and each once, from 0 to shape[0] - 1; they are copied. ndim is at least 1.
 * Errors: those of kv_array_new, index (an id out of range), value (ids in another order). */
int kv_array_new_sparse(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape,
                        int64_t nrows, const int64_t *row_ids, kv_ctx ctx, kv_err *e);

/* The number of rows that a holds, and their ids in ascending order, borrowed until a is written.
 * Both block as a read does. A default array holds none that way: 0 and NULL. */
int64_t kv_array_nrows(kv_array *a);
const int64_t *kv_array_row_ids(kv_array *a);

/* The rows that a row_sparse array holds, in host memory: one behind the other in the order of the
 * ids, each row's elements in row-major order. They block as kv_array_read and kv_array_write do,
 * and the latter has the same condition. Errors: unsupported (a default array), value. */
int kv_array_read_rows(kv_array *a, const void **data, kv_err *e);
int kv_array_write_rows(kv_array *a, void **data, kv_err *e);

/* A new array of that storage with the contents of src, of its dtype and in its context; a copy
 * also where src has that storage already. Rows of a default src that hold only zeros are left out
 * of a row_sparse array. Errors: shape (no axis), memory. */
int kv_array_to_dense(kv_array **out, kv_array *src, kv_err *e);
int kv_array_to_sparse(kv_array **out, kv_array *src, kv_err *e);

#ifdef __cplusplus
}
#endif
