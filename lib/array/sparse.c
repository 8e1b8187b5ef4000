/* row_sparse arrays: making them, moving elements into and out of them, adding them up.
 *
 * Data is the rows held, one behind the other in the order of their ids. So rows with neighbouring
 * ids lie as in a default array, and every movement goes by runs of such rows. An array that holds
 * all its rows is one run: its memory is that of a default array.
 */
#include "array/sparse.h"

#include <string.h>

#include "array/row_ids.h"
#include "base/mem.h"
#include "engine/pool.h"

const char *kv_storage_name(kv_storage storage)
{
    return storage == KV_ROW_SPARSE ? "row_sparse" : "default";
}

kv_storage kv_array_storage(const kv_array *a)
{
    return a->storage;
}

int64_t sparse_row(const kv_array *a)
{
    return a->size > 0 && a->ndim > 0 ? a->size / a->shape[0] : a->size;
}

bool sparse_is_full(const kv_array *a)
{
    return a->storage == KV_DEFAULT || a->nrows == a->shape[0];
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* Row ids and data undefined; nrows is in range. */
static int make_rows(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, int64_t nrows,
                     kv_ctx ctx, kv_err *e)
{
    kv_array *a;
    if (ndim < 1)
        return kv_err_set(e, KV_E_SHAPE, "a row_sparse array has rows, so at least one axis");
    int rc = array_header(&a, dtype, ndim, shape, ctx, e);
    if (rc)
        return rc;
    a->memory = ARRAY_OWN;
    a->storage = KV_ROW_SPARSE;
    a->nrows = nrows;
    a->rows = mem_alloc(nrows > 0 ? nrows : 1, sizeof *a->rows, e);
    rc = a->rows ? a->dev->alloc(ctx.id, nrows * sparse_row(a) * kv_dtype_bytes(dtype), &a->data, e)
                 : KV_E_MEMORY;
    if (rc) {
        mem_free(a->rows);
        mem_free(a);
        return rc;
    }
    *out = a;
    return KV_OK;
}

static int check_ids(int ndim, const int64_t *shape, int64_t nrows, const int64_t *ids, kv_err *e)
{
    char text[160];
    if (nrows < 0)
        return kv_err_set(e, KV_E_VALUE, "an array cannot hold %lld rows", (long long)nrows);
    for (int64_t i = 0; i < nrows; i++) {
        if (ndim < 1 || ids[i] < 0 || ids[i] >= shape[0])
            return kv_err_set(e, KV_E_INDEX, "an array of shape %s has no row %lld",
                              kv_shape_text(text, sizeof text, ndim, shape), (long long)ids[i]);
        if (i > 0 && ids[i] <= ids[i - 1])
            return kv_err_set(e, KV_E_VALUE, "row ids ascend and none stands twice: not %lld, %lld",
                              (long long)ids[i - 1], (long long)ids[i]);
    }
    return KV_OK;
}

int kv_array_new_sparse(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape,
                        int64_t nrows, const int64_t *row_ids, kv_ctx ctx, kv_err *e)
{
    kv_array *a;
    int rc = check_ids(ndim, shape, nrows, row_ids, e);
    if (rc || (rc = make_rows(&a, dtype, ndim, shape, nrows, ctx, e)))
        return rc;
    if (nrows > 0)
        memcpy(a->rows, row_ids, (size_t)nrows * sizeof *row_ids);
    rc = a->dev->zero(ctx.id, a->data, nrows * sparse_row(a) * kv_dtype_bytes(dtype), e);
    if (rc) {
        kv_array_unref(a);
        return rc;
    }
    *out = a;
    return KV_OK;
}

int sparse_new_full(kv_array **out, const kv_array *like, kv_ctx ctx, kv_err *e)
{
    if (like->storage == KV_DEFAULT)
        return kv_array_new_raw(out, like->dtype, like->ndim, like->shape, ctx, e);
    int64_t n = like->shape[0];
    int rc = make_rows(out, like->dtype, like->ndim, like->shape, n, ctx, e);
    for (int64_t i = 0; i < n && rc == KV_OK; i++)
        (*out)->rows[i] = i;
    return rc;
}

int sparse_new_rows(kv_array **out, const kv_array *like, int64_t n, const int64_t *row_ids,
                    kv_err *e)
{
    int rc = make_rows(out, like->dtype, like->ndim, like->shape, n, like->ctx, e);
    if (rc == KV_OK && n > 0)
        memcpy((*out)->rows, row_ids, (size_t)n * sizeof *row_ids);
    return rc;
}

int64_t kv_array_nrows(kv_array *a)
{
    engine_wait_read(array_var(a));
    return a->nrows;
}

const int64_t *kv_array_row_ids(kv_array *a)
{
    engine_wait_read(array_var(a));
    return a->rows;
}

/* ---- Moving ---------------------------------------------------------------------------------- */

/* The number of rows from number k on that lie side by side in a default array. */
static int64_t run_length(const int64_t *ids, int64_t k, int64_t n)
{
    int64_t i = k + 1;
    while (i < n && ids[i] == ids[i - 1] + 1)
        i++;
    return i - k;
}

int sparse_move(kv_array *dst, const kv_array *src, kv_err *e)
{
    int64_t row = sparse_row(src), to = kv_dtype_bytes(dst->dtype);
    int64_t from = kv_dtype_bytes(src->dtype);
    if (sparse_is_full(src)) {
        dst->dev->convert(dst->data, dst->dtype, src->data, src->dtype, src->size);
        return KV_OK;
    }
    int rc = dst->dev->zero(dst->ctx.id, dst->data, dst->size * to, e);
    for (int64_t k = 0, n; k < src->nrows && rc == KV_OK; k += n) {
        n = run_length(src->rows, k, src->nrows);
        dst->dev->convert((char *)dst->data + src->rows[k] * row * to, dst->dtype,
                          (const char *)src->data + k * row * from, src->dtype, n * row);
    }
    return rc;
}

/* Whether n elements hold one that is not zero. */
static bool any(const dev_ops *dev, const char *data, kv_dtype dtype, int64_t n)
{
    char is[512];
    int64_t block = (int64_t)sizeof is;
    for (int64_t i = 0; i < n; i += block) {
        int64_t m = n - i < block ? n - i : block;
        dev->convert(is, KV_BOOL, data + i * kv_dtype_bytes(dtype), dtype, m);
        if (memchr(is, 1, (size_t)m))
            return true;
    }
    return false;
}

/* The ids of the rows of a default array that are not all zero, into ids; returns how many. */
static int64_t find_rows(int64_t *ids, const kv_array *a)
{
    int64_t row = sparse_row(a), bytes = row * kv_dtype_bytes(a->dtype), n = 0;
    for (int64_t i = 0; i < a->shape[0]; i++) {
        if (any(a->dev, (const char *)a->data + i * bytes, a->dtype, row))
            ids[n++] = i;
    }
    return n;
}

/* A new array of the rows of src, in dtype and ctx. */
static int gather(kv_array **out, const kv_array *src, const int64_t *ids, int64_t n,
                  kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    bool gaps = src->storage == KV_DEFAULT;
    int64_t row = sparse_row(src), to = kv_dtype_bytes(dtype), from = kv_dtype_bytes(src->dtype);
    int rc = make_rows(out, dtype, src->ndim, src->shape, n, ctx, e);
    if (rc)
        return rc;
    kv_array *a = *out;
    if (n > 0)
        memcpy(a->rows, ids, (size_t)n * sizeof *ids);
    for (int64_t k = 0, m; k < n; k += m) {
        m = gaps ? run_length(ids, k, n) : n;
        a->dev->convert((char *)a->data + k * row * to, dtype,
                        (const char *)src->data + (gaps ? ids[k] : k) * row * from, src->dtype,
                        m * row);
    }
    return KV_OK;
}

static int to_sparse(kv_array **out, const kv_array *src, kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    if (src->storage == KV_ROW_SPARSE)
        return gather(out, src, src->rows, src->nrows, dtype, ctx, e);
    int64_t *ids = mem_alloc(src->size > 0 && src->ndim > 0 ? src->shape[0] : 1, sizeof *ids, e);
    if (!ids)
        return KV_E_MEMORY;
    int64_t n = src->size > 0 && src->ndim > 0 ? find_rows(ids, src) : 0;
    int rc = gather(out, src, ids, n, dtype, ctx, e);
    mem_free(ids);
    return rc;
}

int sparse_replace(kv_array *dst, const kv_array *src, kv_err *e)
{
    kv_array *made;
    int rc = to_sparse(&made, src, dst->dtype, dst->ctx, e);
    if (rc)
        return rc;
    array_swap(dst, made);
    kv_array_unref(made);
    return KV_OK;
}

int kv_array_to_sparse(kv_array **out, kv_array *src, kv_err *e)
{
    kv_array *a;
    int rc = kv_array_new_sparse(&a, src->dtype, src->ndim, src->shape, 0, NULL, src->ctx, e);
    if (rc)
        return rc;
    if ((rc = kv_array_copy(a, src, e))) {
        kv_array_unref(a);
        return rc;
    }
    *out = a;
    return KV_OK;
}

int kv_array_to_dense(kv_array **out, kv_array *src, kv_err *e)
{
    kv_array *a;
    int rc = kv_array_new_raw(&a, src->dtype, src->ndim, src->shape, src->ctx, e);
    if (rc)
        return rc;
    if ((rc = kv_array_copy(a, src, e))) {
        kv_array_unref(a);
        return rc;
    }
    *out = a;
    return KV_OK;
}

static void let_go(void *a)
{
    kv_array_unref(a);
}

int sparse_parts(kv_array **ids, kv_array **data, kv_array *a, kv_err *e)
{
    int64_t shape[KV_MAX_NDIM];
    engine_wait_read(array_var(a));
    memcpy(shape, a->shape, (size_t)a->ndim * sizeof *shape);
    shape[0] = a->nrows;
    int rc = kv_array_wrap(ids, a->rows, KV_INT64, 1, shape, (kv_ctx){KV_CPU, 0}, let_go, a, e);
    if (rc)
        return rc;
    kv_array_ref(a);
    if ((rc = kv_array_wrap(data, a->data, a->dtype, a->ndim, shape, a->ctx, let_go, a, e)))
        kv_array_unref(*ids);
    else
        kv_array_ref(a);
    return rc;
}

/* ---- Some rows ------------------------------------------------------------------------------- */

/* The number of the first of n ascending ids, from number `from` on, that is at least id. The next
 * one wanted mostly lies near the last one found, so the steps begin small and double. */
static int64_t find_from(const int64_t *ids, int64_t from, int64_t n, int64_t id)
{
    int64_t step = 1, low = from, high;
    while (low + step <= n && ids[low + step - 1] < id) {
        low += step;
        step *= 2;
    }
    high = low + step <= n ? low + step - 1 : n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How many ids from number k of a on are those from number at of src on. */
static int64_t common_run(const kv_array *a, int64_t k, const kv_array *src, int64_t at)
{
    int64_t n = 0;
    while (k + n < a->nrows && at + n < src->nrows && a->rows[k + n] == src->rows[at + n])
        n++;
    return n;
}

int sparse_retain(kv_array *a, const kv_array *src, kv_err *e)
{
    int64_t row = sparse_row(src), to = row * kv_dtype_bytes(a->dtype);
    int64_t from = row * kv_dtype_bytes(src->dtype);
    int rc = KV_OK;
    if (src->nrows == 0)
        a->nrows = 0;
    for (int64_t k = 0, at = 0, n; k < a->nrows && rc == KV_OK; k += n) {
        char *dst = (char *)a->data + k * to;
        at = sparse_is_full(src) ? a->rows[k] : find_from(src->rows, at, src->nrows, a->rows[k]);
        n = common_run(a, k, src, at);
        if (n > 0)
            a->dev->convert(dst, a->dtype, (const char *)src->data + at * from, src->dtype,
                            n * row);
        else
            rc = a->dev->zero(a->ctx.id, dst, (n = 1) * to, e);
    }
    return rc;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* The sum of sources that have the dtype of the result. */
static int add_up(kv_array **out, const kv_array *like, const dev_rows *src, int64_t n,
                  kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    int64_t *ids = NULL, count;
    int64_t *room = mem_alloc(n, (size_t)pool_workers() * sizeof *room, e);
    int rc = room ? row_ids_unite(&ids, &count, src, n, like->shape[0], e) : KV_E_MEMORY;
    if (rc == KV_OK)
        rc = make_rows(out, dtype, like->ndim, like->shape, count, ctx, e);
    if (rc == KV_OK) {
        memcpy((*out)->rows, ids, (size_t)count * sizeof *ids);
        (*out)->dev->sum_rows((*out)->data, ids, count, src, n, dtype, sparse_row(like), room);
    }
    mem_free(room);
    mem_free(ids);
    return rc;
}

int sparse_sum(kv_array **out, kv_array *const *values, int64_t n, kv_dtype dtype, kv_ctx ctx,
               kv_err *e)
{
    if (n == 1)
        return to_sparse(out, values[0], dtype, ctx, e);
    kv_array **own = mem_zalloc(n, sizeof *own, e);
    dev_rows *src = own ? mem_alloc(n, sizeof *src, e) : NULL;
    int rc = src ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && rc == KV_OK; i++) {
        own[i] = values[i]->dtype == dtype ? kv_array_ref(values[i]) : NULL;
        if (!own[i])
            rc = to_sparse(&own[i], values[i], dtype, ctx, e);
        if (rc == KV_OK)
            src[i] = (dev_rows){own[i]->rows, own[i]->nrows, own[i]->data};
    }
    if (rc == KV_OK)
        rc = add_up(out, values[0], src, n, dtype, ctx, e);
    for (int64_t i = 0; own && i < n; i++)
        kv_array_unref(own[i]);
    mem_free(src);
    mem_free(own);
    return rc;
}
