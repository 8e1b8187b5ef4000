/* Reading, checking and sorting row ids. Many ids of few rows are sorted by marking each in a map
 * of bits, few ids of many rows by comparing them. */
#include "array/row_ids.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

/* ---- Reading --------------------------------------------------------------------------------- */

/* The integers up to this size, and no others, are exact in a dtype of floats. */
static double exact_limit(kv_dtype dtype)
{
    switch (dtype) {
    case KV_FLOAT64:
        return 0x1p53;
    case KV_FLOAT32:
        return 0x1p24;
    case KV_FLOAT16:
        return 0x1p11;
    case KV_BFLOAT16:
        return 0x1p8;
    case KV_UINT8:
    case KV_INT8:
    case KV_INT32:
    case KV_INT64:
    case KV_BOOL:
        break;
    }
    return 0;
}

static int float_error(double x, kv_dtype dtype, kv_err *e)
{
    char number[NUM_TEXT_MAX];
    num_plain(number, x, NUM_BINARY64);
    if (x != trunc(x) || isinf(x))
        return kv_err_set(e, KV_E_DTYPE, "a row id is a whole number, not %s", number);
    kv_err_set(e, KV_E_DTYPE, "the row id %s is too large for %s, which is exact up to %lld",
               number, kv_dtype_name(dtype), (long long)exact_limit(dtype));
    kv_err_hint(e, "int64 holds every row id");
    return KV_E_DTYPE;
}

static int from_floats(int64_t *out, const double *x, int64_t n, kv_dtype dtype, kv_err *e)
{
    double limit = exact_limit(dtype);
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(x[i]) <= limit) || x[i] != trunc(x[i]))
            return float_error(x[i], dtype, e);
        out[i] = (int64_t)x[i];
    }
    return KV_OK;
}

int row_ids_read(int64_t **out, kv_array *ids, kv_err *e)
{
    kv_dtype dtype = ids->dtype;
    bool floats = kv_dtype_is_float(dtype);
    kv_array *wide;
    const void *data;
    if (ids->storage != KV_DEFAULT) {
        kv_err_set(e, KV_E_VALUE, "row ids stand in a default array, not in a row_sparse one");
        kv_err_hint(e, "kv_array_to_dense makes one, in kvctl dense(ids)");
        return KV_E_VALUE;
    }
    if (dtype == KV_BOOL)
        return kv_err_set(e, KV_E_DTYPE, "row ids are integers, not bool");
    int rc = kv_array_dup(&wide, ids, floats ? KV_FLOAT64 : KV_INT64, (kv_ctx){KV_CPU, 0}, e);
    if (rc)
        return rc;
    int64_t *made = NULL;
    if ((rc = kv_array_read(wide, &data, e)) == KV_OK &&
        !(made = mem_alloc(wide->size, sizeof *made, e)))
        rc = KV_E_MEMORY;
    if (rc == KV_OK && floats)
        rc = from_floats(made, data, wide->size, dtype, e);
    else if (rc == KV_OK)
        memcpy(made, data, (size_t)wide->size * sizeof *made);
    kv_array_unref(wide);
    if (rc)
        mem_free(made);
    else
        *out = made;
    return rc;
}

/* ---- Checking and sorting -------------------------------------------------------------------- */

int64_t row_ids_outside(const int64_t *ids, int64_t n, int64_t rows)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= rows)
            return i;
    return -1;
}

static bool is_sorted(const int64_t *ids, int64_t n)
{
    int64_t i = 1;
    while (i < n && ids[i - 1] < ids[i])
        i++;
    return i >= n;
}

static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* ---- Marks: a bit for each row says whether it is among the ids ---- */

static void mark(uint64_t *marks, const int64_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        marks[ids[i] / 64] |= (uint64_t)1 << (ids[i] % 64);
}

static int64_t count_marks(const uint64_t *marks, int64_t words)
{
    int64_t n = 0;
    for (int64_t w = 0; w < words; w++)
        n += __builtin_popcountll(marks[w]);
    return n;
}

/* The rows that are marked, in ascending order. Returns how many they are. */
static int64_t list_marks(int64_t *ids, const uint64_t *marks, int64_t words)
{
    int64_t n = 0;
    for (int64_t w = 0; w < words; w++)
        for (uint64_t left = marks[w]; left; left &= left - 1)
            ids[n++] = w * 64 + __builtin_ctzll(left);
    return n;
}

static int sort_by_marks(int64_t *ids, int64_t *n, int64_t rows, kv_err *e)
{
    int64_t words = rows / 64 + 1;
    uint64_t *marks = mem_zalloc(words, sizeof *marks, e);
    if (!marks)
        return KV_E_MEMORY;
    mark(marks, ids, *n);
    *n = list_marks(ids, marks, words);
    mem_free(marks);
    return KV_OK;
}

int row_ids_sort(int64_t *ids, int64_t *n, int64_t rows, kv_err *e)
{
    int64_t kept = 0;
    if (is_sorted(ids, *n))
        return KV_OK;
    if (rows / 64 <= *n)
        return sort_by_marks(ids, n, rows, e);
    qsort(ids, (size_t)*n, sizeof *ids, by_id);
    for (int64_t i = 0; i < *n; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            ids[kept++] = ids[i];
    *n = kept;
    return KV_OK;
}

/* ---- Several lists --------------------------------------------------------------------------- */

static int unite_by_marks(int64_t **ids, int64_t *count, const dev_rows *src, int64_t n,
                          int64_t rows, kv_err *e)
{
    int64_t words = rows / 64 + 1;
    uint64_t *marks = mem_zalloc(words, sizeof *marks, e);
    if (!marks)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        mark(marks, src[i].ids, src[i].n);
    *count = count_marks(marks, words);
    if ((*ids = mem_alloc(*count, sizeof **ids, e)))
        list_marks(*ids, marks, words);
    mem_free(marks);
    return *ids ? KV_OK : KV_E_MEMORY;
}

/* The ids of a and b; returns how many. */
static int64_t merge_two(int64_t *out, const int64_t *a, int64_t na, const int64_t *b, int64_t nb)
{
    int64_t n = 0;
    while (na > 0 && nb > 0) {
        int64_t id = *a < *b ? *a : *b;
        out[n++] = id;
        na -= *a == id;
        a += *a == id;
        nb -= *b == id;
        b += *b == id;
    }
    memcpy(out + n, na > 0 ? a : b, (size_t)(na + nb) * sizeof *out);
    return n + na + nb;
}

/* The ids of all n sources. out and spare have room for those of each source. */
static int64_t merge(int64_t *out, int64_t *spare, const dev_rows *src, int64_t n)
{
    if (n == 1) {
        memcpy(out, src->ids, (size_t)src->n * sizeof *out);
        return src->n;
    }
    int64_t half = n / 2, before = 0;
    for (int64_t i = 0; i < half; i++)
        before += src[i].n;
    int64_t left = merge(spare, out, src, half);
    int64_t right = merge(spare + before, out + before, src + half, n - half);
    return merge_two(out, spare, left, spare + before, right);
}

int row_ids_unite(int64_t **ids, int64_t *count, const dev_rows *src, int64_t n, int64_t rows,
                  kv_err *e)
{
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total += src[i].n;
    if (rows / 64 <= total)
        return unite_by_marks(ids, count, src, n, rows, e);
    if (!(*ids = mem_alloc(total, 2 * sizeof **ids, e)))
        return KV_E_MEMORY;
    *count = merge(*ids, *ids + total, src, n);
    return KV_OK;
}
