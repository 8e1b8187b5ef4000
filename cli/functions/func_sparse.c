/* Functions that make row_sparse arrays, and those that bring arrays into another storage. */
#include "functions/func.h"

#include <stdlib.h>
#include <string.h>

#include "array/arrange.h"
#include "array/sparse.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/suggest.h"
#include "cpu/cpu.h"

static int parse_storage(value v, kv_storage *out, kv_err *e)
{
    static const char *const names[] = {"default", "row_sparse"};
    const char *name;
    int rc = function_text(v, "a storage", &name, e);
    if (rc)
        return rc;
    int i = NAME_AMONG(name, names);
    if (i < 0) {
        kv_err_set(e, KV_E_VALUE, "there is no storage \"%.40s\"", name);
        return kv_err_hint(e, "default, row_sparse"), KV_E_VALUE;
    }
    *out = (kv_storage)i;
    return KV_OK;
}

/* An array in another storage, as itself when it has it. */
static int stored_as(value *out, kv_array *a, kv_storage storage, kv_err *e)
{
    kv_array *made = NULL;
    if (kv_array_storage(a) == storage)
        return value_array(out, kv_array_ref(a), e);
    int rc = (storage == KV_ROW_SPARSE ? kv_array_to_sparse : kv_array_to_dense)(&made, a, e);
    return function_give(out, &made, rc, e);
}

int func_dense(function_args *args, value *out, kv_err *e)
{
    return stored_as(out, args->array, KV_DEFAULT, e);
}

int func_tostype(function_args *args, value *out, kv_err *e)
{
    kv_storage storage;
    int rc = parse_storage(args->v[1], &storage, e);
    return rc ? rc : stored_as(out, args->array, storage, e);
}

/* ---- What a row_sparse array holds ---- */

/* data, and indices: a copy of one of the two parts, which share the memory of the array. */
int func_rows_part(function_args *args, value *out, kv_err *e)
{
    kv_array *ids, *data, *copy = NULL;
    if (kv_array_storage(args->array) != KV_ROW_SPARSE) {
        kv_err_set(e, KV_E_DTYPE, "%s is of row_sparse arrays, and this one is default",
                   args->function->name);
        return kv_err_hint(e, "a.tostype('row_sparse')"), KV_E_DTYPE;
    }
    int rc = sparse_parts(&ids, &data, args->array, e);
    if (rc)
        return rc;
    kv_array *part = FUNCTION_VARIANT(args) ? ids : data;
    rc = kv_array_dup(&copy, part, kv_array_dtype(part), kv_array_ctx(args->array), e);
    kv_array_unref(ids);
    kv_array_unref(data);
    return function_give(out, &copy, rc, e);
}

int func_stype(function_args *args, value *out, kv_err *e)
{
    return value_text(out, kv_storage_name(kv_array_storage(args->array)), e);
}

/* zeros(shape, stype="row_sparse") and zeros("row_sparse", shape): no row is held. */
int func_zeros(function_args *args, value *out, kv_err *e)
{
    kv_storage storage = KV_DEFAULT;
    int ndim = 0, rc = KV_OK;
    int64_t shape[KV_MAX_NDIM];
    kv_array *a;
    kv_dtype dtype;
    kv_ctx ctx;
    if (args->given[3])
        rc = parse_storage(args->v[3], &storage, e);
    if (rc || (rc = function_shape(args->v[0], &ndim, shape, e)) ||
        (rc = function_dtype(args->v[1], KV_FLOAT32, &dtype, e)) ||
        (rc = function_ctx(args->v[2], &ctx, e)) || (rc = session_ctx(args->session, ctx, e)))
        return rc;
    rc = storage == KV_ROW_SPARSE ? kv_array_new_sparse(&a, dtype, ndim, shape, 0, NULL, ctx, e)
                                  : arrange_zeros(&a, dtype, ndim, shape, ctx, e);
    return rc ? rc : value_array(out, a, e);
}

/* ---- row_sparse(data, row_ids, shape) ---- */

/* A row as it is given: its id, and which of the rows of data it is. */
typedef struct given_row {
    int64_t id, at;
} given_row;

static int by_id(const void *a, const void *b)
{
    const given_row *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->at > y->at) - (x->at < y->at);
}

/* Row ids: whole numbers in a list, a tuple or an array of any dtype. */
static int read_ids(given_row **out, int64_t *n, value v, kv_err *e)
{
    kv_array *given;
    int64_t *ids = NULL;
    int rc = v.kind == VALUE_ARRAY ? value_to_array(&given, v, e)
                                   : value_numbers_array(&given, v, KV_FLOAT64, (kv_ctx){0}, e);
    if (rc)
        return rc;
    rc = row_ids_read(&ids, given, e);
    *n = kv_array_size(given);
    kv_array_unref(given);
    given_row *rows = rc ? NULL : mem_alloc(*n, sizeof *rows, e);
    if (!rc && !rows)
        rc = KV_E_MEMORY;
    for (int64_t i = 0; i < *n && !rc; i++)
        rows[i] = (given_row){ids[i], i};
    mem_free(ids);
    if (!rc)
        *out = rows;
    return rc;
}

/* data has one row for each id, and rows as the shape says. */
static int check_data(const kv_array *data, int64_t nrows, int ndim, const int64_t *shape,
                      kv_err *e)
{
    char have[160], want[160];
    int64_t need[KV_MAX_NDIM] = {nrows};
    bool fits = ndim > 0 && kv_array_ndim(data) == ndim;
    if (nrows == 0 && kv_array_size(data) == 0) /* [] has no axes to look at */
        return KV_OK;
    for (int i = 0; i < ndim; i++) {
        need[i] = i ? shape[i] : nrows;
        fits = fits && kv_array_shape(data)[i] == need[i];
    }
    if (fits)
        return KV_OK;
    return kv_err_set(e, KV_E_SHAPE,
                      "the data of %lld rows of an array of shape %s have shape %s, "
                      "not %s",
                      (long long)nrows, kv_shape_text(want, sizeof want, ndim, shape),
                      kv_shape_text((char[160]){0}, 160, ndim, need),
                      kv_shape_text(have, sizeof have, kv_array_ndim(data), kv_array_shape(data)));
}

/* The rows of data as an array of that shape. Ids may come in any order, and more than once: what
 * has one id is added, in the order given. */
static int make_rows(kv_array **out, kv_array *data, given_row *rows, int64_t n, int ndim,
                     const int64_t *shape, kv_err *e)
{
    kv_array *a = NULL;
    int64_t *ids = mem_alloc(n, sizeof *ids, e), nrows = 0;
    const void **src = mem_alloc(n, sizeof *src, e), *from;
    void *to;
    int rc = ids && src ? KV_OK : KV_E_MEMORY;
    qsort(rows, (size_t)n, sizeof *rows, by_id);
    for (int64_t i = 0; i < n && !rc; i++)
        if (nrows == 0 || ids[nrows - 1] != rows[i].id)
            ids[nrows++] = rows[i].id;
    if (!rc)
        rc = kv_array_new_sparse(&a, kv_array_dtype(data), ndim, shape, nrows, ids,
                                 kv_array_ctx(data), e);
    if (!rc && !(rc = kv_array_read(data, &from, e)))
        rc = kv_array_write_rows(a, &to, e);
    int64_t bytes = n > 0 ? kv_array_bytes(data) / n : 0;
    int64_t elements = n > 0 ? kv_array_size(data) / n : 0;
    for (int64_t i = 0, k; !rc && i < n && !(rc = stop_check_at(i, e)); i += k) {
        for (k = 0; i + k < n && rows[i + k].id == rows[i].id; k++)
            src[k] = (const char *)from + rows[i + k].at * bytes;
        sum_elements(to, src, k, kv_array_dtype(data), elements);
        to = (char *)to + bytes;
    }
    mem_free(src);
    mem_free(ids);
    if (rc)
        kv_array_unref(a);
    else
        *out = a;
    return rc;
}

int func_row_sparse(function_args *args, value *out, kv_err *e)
{
    int ndim;
    int64_t shape[KV_MAX_NDIM], n;
    given_row *rows;
    kv_array *made = NULL;
    if (!args->given[1] && !args->given[2])
        return stored_as(out, args->array, KV_ROW_SPARSE, e);
    if (!args->given[1] || !args->given[2]) {
        kv_err_set(e, KV_E_USAGE, "row_sparse takes an array, or data, row_ids and shape");
        return kv_err_hint(e, "row_sparse(ones(2, 3), [0, 4], (5, 3)) has rows 0 and 4 of five"),
               KV_E_USAGE;
    }
    int rc = function_shape(args->v[2], &ndim, shape, e);
    if (rc || (rc = read_ids(&rows, &n, args->v[1], e)))
        return rc;
    if (!(rc = check_data(args->array, n, ndim, shape, e)))
        rc = make_rows(&made, args->array, rows, n, ndim, shape, e);
    mem_free(rows);
    return function_give(out, &made, rc, e);
}
