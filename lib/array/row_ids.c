/* Reading, checking, sorting and uniting row ids. Many ids of few rows are sorted by
 * marking each in a map of bits, few ids of many rows by comparing them. */
#include "array/row_ids.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "engine/pool.h"

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
    kv_array *wide = NULL;
    const void *data;
    if (ids->storage != KV_DEFAULT) {
        kv_err_set(e, KV_E_VALUE, "row ids stand in a default array, not in a row_sparse one");
        kv_err_hint(e, "kv_array_to_dense makes one");
        return KV_E_VALUE;
    }
    if (dtype == KV_BOOL)
        return kv_err_set(e, KV_E_DTYPE, "row ids are integers, not bool");
    bool as_it_is = dtype == KV_INT64 && ids->ctx.device == KV_CPU;
    int rc = as_it_is
                 ? KV_OK
                 : kv_array_dup(&wide, ids, floats ? KV_FLOAT64 : KV_INT64, (kv_ctx){KV_CPU, 0}, e);
    if (rc)
        return rc;
    int64_t *made = NULL;
    if ((rc = kv_array_read(as_it_is ? ids : wide, &data, e)) == KV_OK &&
        !(made = mem_alloc_data(ids->size * (int64_t)sizeof *made, e)))
        rc = KV_E_MEMORY;
    if (rc == KV_OK && floats)
        rc = from_floats(made, data, ids->size, dtype, e);
    else if (rc == KV_OK && ids->size > 0)
        memcpy(made, data, (size_t)ids->size * sizeof *made);
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

/* The sign of `wrong` gathers what is wrong: a negative id, one behind the last row, a step that is
 * not upwards. Differences wrap only where a negative id was seen. */
bool row_ids_ordered(const int64_t *ids, int64_t n, int64_t rows)
{
    uint64_t wrong = 0, last = (uint64_t)rows - 1, before = UINT64_MAX;
    for (int64_t i = 0; i < n; i++) {
        uint64_t id = (uint64_t)ids[i];
        wrong |= id | (last - id) | (id - before - 1);
        before = id;
    }
    return wrong >> 63 == 0;
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

/* The rows that are marked, counted from `first`, in ascending order. Returns how many they are. */
static int64_t list_marks(int64_t *ids, const uint64_t *marks, int64_t words, int64_t first)
{
    int64_t n = 0;
    for (int64_t w = 0; w < words; w++)
        for (uint64_t left = marks[w]; left; left &= left - 1)
            ids[n++] = first + w * 64 + __builtin_ctzll(left);
    return n;
}

static int sort_by_marks(int64_t *ids, int64_t *n, int64_t rows, kv_err *e)
{
    int64_t words = rows / 64 + 1;
    uint64_t *marks = mem_zalloc(words, sizeof *marks, e);
    if (!marks)
        return KV_E_MEMORY;
    int64_t given = *n;
    mark(marks, ids, given);
    *n = list_marks(ids, marks, words, 0);
    kv_assert(*n <= given, "%lld ids are sorted into %lld", (long long)given, (long long)*n);
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

/* Many ids are united window by window of the rows: what the sources have there is marked in a map
 * that stays in the L1 cache, or copied where all of them have the same. Threads take parts of some
 * windows, first to count, then to write. */
enum { WINDOW = 32768, MOST_PARTS = 256 };

typedef struct union_job {
    const sparse_rows *src;
    int64_t n, rows;
    int64_t part;              /* rows of a part: whole windows */
    int64_t first[MOST_PARTS]; /* how many ids a part has, then where they begin */
    int64_t *cursors;          /* n a worker: the next id of each source */
    int64_t *ids;              /* NULL while counting */
} union_job;

/* The number of ids before `end`, if these are the same in all sources, else -1. */
static int64_t same_before(const union_job *j, const int64_t *cursor, int64_t end)
{
    const sparse_rows *src = j->src;
    const int64_t *ids = src->ids + cursor[0];
    int64_t n = row_ids_find(src->ids, cursor[0], src->n, end) - cursor[0];
    for (int64_t i = 1; i < j->n; i++) {
        int64_t k = cursor[i] + n;
        if (k > src[i].n || (k < src[i].n && src[i].ids[k] < end) ||
            memcmp(src[i].ids + cursor[i], ids, (size_t)n * sizeof *ids) != 0)
            return -1;
    }
    return n;
}

/* The ids of one window into ids, unless it is NULL. Returns how many. */
static int64_t unite_window(const union_job *j, int64_t *cursor, int64_t first, int64_t *ids)
{
    uint64_t marks[WINDOW / 64] = {0};
    int64_t end = first + WINDOW, same = same_before(j, cursor, end);
    if (same >= 0 && ids)
        memcpy(ids, j->src->ids + cursor[0], (size_t)same * sizeof *ids);
    for (int64_t i = 0; i < j->n; i++) {
        const sparse_rows *s = &j->src[i];
        int64_t k = cursor[i];
        for (; same < 0 && k < s->n && s->ids[k] < end; k++)
            marks[(s->ids[k] - first) / 64] |= (uint64_t)1 << (s->ids[k] % 64);
        cursor[i] = same < 0 ? k : k + same;
    }
    if (same >= 0)
        return same;
    return ids ? list_marks(ids, marks, WINDOW / 64, first) : count_marks(marks, WINDOW / 64);
}

static void unite_part(void *arg, int64_t part, int worker)
{
    union_job *j = arg;
    int64_t *cursor = j->cursors + worker * j->n, n = 0;
    int64_t from = part * j->part, end = j->rows - from < j->part ? j->rows : from + j->part;
    for (int64_t i = 0; i < j->n; i++)
        cursor[i] = row_ids_find(j->src[i].ids, 0, j->src[i].n, from);
    for (int64_t first = from; first < end; first += WINDOW)
        n += unite_window(j, cursor, first, j->ids ? j->ids + j->first[part] + n : NULL);
    if (!j->ids)
        j->first[part] = n;
}

static int unite_by_marks(int64_t **ids, int64_t *count, const sparse_rows *src, int64_t n,
                          int64_t rows, kv_err *e)
{
    int64_t windows = rows / WINDOW + 1, each = windows / MOST_PARTS + 1;
    int64_t nparts = (windows + each - 1) / each, all = 0;
    if (!kv_assert(nparts <= MOST_PARTS, "%lld rows make %lld parts", (long long)rows,
                   (long long)nparts))
        return kv_assert_report(e);
    union_job j = {.src = src, .n = n, .rows = rows, .part = each * WINDOW};
    if (!(j.cursors = mem_alloc(n, (size_t)pool_workers() * sizeof *j.cursors, e)))
        return KV_E_MEMORY;
    pool_run(nparts, unite_part, &j);
    for (int64_t i = 0; i < nparts; i++) {
        int64_t has = j.first[i];
        j.first[i] = all;
        all += has;
    }
    *count = all;
    if ((*ids = j.ids = mem_alloc_data(all * (int64_t)sizeof **ids, e)))
        pool_run(nparts, unite_part, &j);
    mem_free(j.cursors);
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
static int64_t merge(int64_t *out, int64_t *spare, const sparse_rows *src, int64_t n)
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

int row_ids_unite(int64_t **ids, int64_t *count, const sparse_rows *src, int64_t n, int64_t rows,
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
