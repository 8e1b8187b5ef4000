/* row_sparse arrays: making them, moving elements into and out of them, adding them up.
 *
 * Data is the rows held, one behind the other in the order of their ids. So rows with neighbouring
 * ids lie as in a default array, and every movement goes by runs of such rows. An array that holds
 * all its rows is one run: its memory is that of a default array.
 */
#include "array/sparse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "array/mirror.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "engine/pool.h"

/* ---- Row ids --------------------------------------------------------------------------------- */

/* Reading, checking, sorting and uniting row ids. Many ids of few rows are sorted by
 * marking each in a map of bits, few ids of many rows by comparing them. */

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

static int from_floats(int64_t *out, const double *x, int64_t n, kv_dtype dtype, kv_err *e)
{
    double limit = exact_limit(dtype);
    for (int64_t i = 0; i < n; i++) {
        if (fabs(x[i]) <= limit && x[i] == trunc(x[i])) {
            out[i] = (int64_t)x[i];
            continue;
        }
        char number[NUM_TEXT_MAX];
        num_plain(number, x[i], NUM_BINARY64);
        if (x[i] != trunc(x[i]) || isinf(x[i]))
            return kv_err_set(e, KV_E_DTYPE, "a row id is a whole number, not %s", number);
        kv_err_set(e, KV_E_DTYPE, "the row id %s is too large for %s, which is exact up to %lld",
                   number, kv_dtype_name(dtype), (long long)exact_limit(dtype));
        return kv_err_hint(e, "int64 holds every row id"), KV_E_DTYPE;
    }
    return KV_OK;
}

int row_ids_read(int64_t **out, kv_array *ids, kv_err *e)
{
    kv_dtype dtype = ids->dtype;
    bool floats = kv_dtype_is_float(dtype);
    own_array *wide = NULL;
    const void *data;
    if (ids->storage != KV_DEFAULT) {
        kv_err_set(e, KV_E_VALUE, "row ids stand in a default array, not in a row_sparse one");
        kv_err_hint(e, "kv_array_to_dense makes one");
        return KV_E_VALUE;
    }
    if (dtype == KV_BOOL)
        return kv_err_set(e, KV_E_DTYPE, "row ids are integers, not bool");
    bool as_it_is = dtype == KV_INT64 && ids->ctx.device == KV_CPU;
    TRY(as_it_is
            ? KV_OK
            : kv_array_dup(&wide, ids, floats ? KV_FLOAT64 : KV_INT64, (kv_ctx){KV_CPU, 0}, e));
    own_mem int64_t *made = NULL;
    TRY(kv_array_read(as_it_is ? ids : wide, &data, e));
    if (!(made = mem_alloc_data(ids->size * (int64_t)sizeof *made, e)))
        return KV_E_MEMORY;
    if (floats)
        TRY(from_floats(made, data, ids->size, dtype, e));
    else if (ids->size > 0)
        memcpy(made, data, (size_t)ids->size * sizeof *made);
    *out = made;
    made = NULL;
    return KV_OK;
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
    for (int64_t i = 0; i < given; i++)
        marks[ids[i] / 64] |= (uint64_t)1 << (ids[i] % 64);
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

/* ---- Arrays ---------------------------------------------------------------------------------- */

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
    return a->size > 0 && a->ndim > 0 ? a->size / array_shape(a)[0] : a->size;
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* Takes nrows ids, NULL after a failure to allocate them. Data
 * undefined. */
static int make_rows(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, int64_t nrows,
                     int64_t *ids, kv_ctx ctx, kv_err *e)
{
    kv_array *a;
    int rc = ids ? KV_OK : KV_E_MEMORY;
    if (!rc && ndim < 1)
        rc = kv_err_set(e, KV_E_SHAPE, "a row_sparse array has rows, so at least one axis");
    if (rc || (rc = array_header(&a, dtype, ndim, shape, ctx, e))) {
        mem_free(ids);
        return rc;
    }
    kv_assert(nrows >= 0 && nrows <= shape[0], "an array of %lld rows holds %lld",
              (long long)shape[0], (long long)nrows);
    a->memory = ARRAY_OWN;
    a->storage = KV_ROW_SPARSE;
    a->nrows = nrows;
    a->rows = ids;
    rc = array_alloc(a, nrows * sparse_row(a) * kv_dtype_bytes(dtype), NULL, e);
    if (rc) {
        mem_free(ids);
        mem_free(a);
        return rc;
    }
    *out = a;
    return KV_OK;
}

/* Room for n ids, or NULL. */
static int64_t *new_ids(int64_t n, kv_err *e)
{
    int64_t most = INT64_MAX / (int64_t)sizeof(int64_t);
    return mem_alloc_data(n <= most ? n * (int64_t)sizeof(int64_t) : -1, e);
}

static int check_ids(int ndim, const int64_t *shape, int64_t nrows, const int64_t *ids, kv_err *e)
{
    char text[160];
    int rc = ndim > 0 ? arg_given(shape, "shape", e) : KV_OK;
    if (nrows < 0)
        return kv_err_set(e, KV_E_VALUE, "an array cannot hold %lld rows", (long long)nrows);
    if (rc || (nrows > 0 && (rc = arg_given(ids, "row_ids", e))))
        return rc;
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
    TRY(arg_given(out, "out", e));
    TRY(check_ids(ndim, shape, nrows, row_ids, e));
    TRY(make_rows(&a, dtype, ndim, shape, nrows, new_ids(nrows, e), ctx, e));
    if (nrows > 0)
        memcpy(a->rows, row_ids, (size_t)nrows * sizeof *row_ids);
    memset(a->data, 0, (size_t)(nrows * sparse_row(a) * kv_dtype_bytes(dtype)));
    *out = a;
    return KV_OK;
}

int sparse_new_full(kv_array **out, const kv_array *like, kv_ctx ctx, kv_err *e)
{
    if (like->storage == KV_DEFAULT)
        return kv_array_new_raw(out, like->dtype, like->ndim, array_shape(like), ctx, e);
    int64_t n = array_shape(like)[0];
    int rc = make_rows(out, like->dtype, like->ndim, array_shape(like), n, new_ids(n, e), ctx, e);
    for (int64_t i = 0; i < n && rc == KV_OK; i++)
        (*out)->rows[i] = i;
    return rc;
}

int sparse_new_rows(kv_array **out, const kv_array *like, kv_dtype dtype, kv_ctx ctx, int64_t n,
                    int64_t *row_ids, kv_err *e)
{
    row_ids = row_ids ? row_ids : new_ids(n, e);
    return make_rows(out, dtype, like->ndim, array_shape(like), n, row_ids, ctx, e);
}

void sparse_reuse(kv_array *fresh, kv_array *old, bool ids_too)
{
    if (fresh->nrows != old->nrows)
        return;
    kv_assert(fresh->dtype == old->dtype && fresh->size == old->size,
              "an array of %lld elements takes the memory of one of %lld", (long long)fresh->size,
              (long long)old->size);
    array_swap(fresh, old);
    int64_t *ids = fresh->rows;
    if (!ids_too) {
        fresh->rows = old->rows;
        old->rows = ids;
    }
}

int64_t kv_array_nrows(kv_array *a)
{
    engine_wait_read(array_var(a));
    return array_nrows(a);
}

const int64_t *kv_array_row_ids(kv_array *a)
{
    engine_wait_read(array_var(a));
    return array_rows(a);
}

/* ---- Moving ---------------------------------------------------------------------------------- */

void sparse_move(kv_array *dst, const kv_array *src)
{
    int64_t row = sparse_row(src), to = kv_dtype_bytes(dst->dtype);
    int64_t from = kv_dtype_bytes(src->dtype);
    if (sparse_is_full(src)) {
        convert_elements(dst->data, dst->dtype, src->data, src->dtype, src->size);
        return;
    }
    memset(dst->data, 0, (size_t)(dst->size * to));
    for (int64_t k = 0, n; k < src->nrows; k += n) {
        /* These rows lie side by side in a default array. */
        int64_t i = k + 1;
        while (i < src->nrows && src->rows[i] == src->rows[i - 1] + 1)
            i++;
        n = i - k;
        convert_elements((char *)dst->data + src->rows[k] * row * to, dst->dtype,
                         (const char *)src->data + k * row * from, src->dtype, n * row);
    }
}

/* Returns true if one of n elements is not zero. */
static bool any(const char *data, kv_dtype dtype, int64_t n)
{
    char is[512];
    int64_t block = (int64_t)sizeof is;
    for (int64_t i = 0; i < n; i += block) {
        int64_t m = n - i < block ? n - i : block;
        convert_elements(is, KV_BOOL, data + i * kv_dtype_bytes(dtype), dtype, m);
        if (memchr(is, 1, (size_t)m))
            return true;
    }
    return false;
}

/* The ids of the rows of a default array that are not all zero, into ids; returns how many. */
static int64_t find_rows(int64_t *ids, const kv_array *a)
{
    int64_t row = sparse_row(a), bytes = row * kv_dtype_bytes(a->dtype), n = 0;
    for (int64_t i = 0; i < array_shape(a)[0]; i++) {
        if (any((const char *)a->data + i * bytes, a->dtype, row))
            ids[n++] = i;
    }
    return n;
}

/* ---- Filling --------------------------------------------------------------------------------- */

enum {
    FILL_PART_BYTES = 256 << 10, /* of each array, in one part */
    FILL_BLOCK_BYTES = 16 << 10, /* and in a block, so that a second array finds rows in a cache */
    FILL_BLOCK_ROWS = 1024,      /* of a block at most */
    FILL_FAR_BYTES = 4 << 20     /* as in core/call_run.c: larger than the caches of a processor */
};

/* Arrays of one length, and the rows that they shall hold. */
typedef struct filling {
    kv_array *const *to;
    int64_t n;
    const int64_t *ids;
    int64_t nids;
    const kv_array *src;
    int64_t row, block, part; /* elements of a row; rows of a block and of a part */
    bool far;
} filling;

/* The place in src where n ids from number k on lie side by side, or -1. cursor: the place of the
 * ids before, then of these. */
static int64_t find_run(const filling *f, int64_t k, int64_t n, int64_t *cursor)
{
    const kv_array *src = f->src;
    const int64_t *ids = f->ids + k;
    if (sparse_is_full(src))
        return ids[n - 1] - ids[0] == n - 1 ? ids[0] : -1;
    int64_t at = *cursor = row_ids_find(src->rows, *cursor, src->nrows, ids[0]);
    const int64_t *there = src->rows + at;
    bool same =
        there == ids || (src->nrows - at >= n && memcmp(there, ids, (size_t)n * sizeof *ids) == 0);
    return same ? at : -1;
}

/* The numbers in src of these ids, into room or where they are. */
static const int64_t *find_places(int64_t *room, const filling *f, int64_t k, int64_t n,
                                  int64_t *cursor)
{
    const kv_array *src = f->src;
    int64_t at = *cursor;
    if (sparse_is_full(src))
        return f->ids + k;
    for (int64_t i = 0; i < n; i++) {
        int64_t id = f->ids[k + i];
        at = row_ids_find(src->rows, at, src->nrows, id);
        room[i] = at < src->nrows && src->rows[at] == id ? at : -1;
    }
    *cursor = at;
    return room;
}

static void fill_block(const filling *f, int64_t k, int64_t n, int64_t *cursor)
{
    int64_t room[FILL_BLOCK_ROWS], run = find_run(f, k, n, cursor);
    const int64_t *at = run < 0 ? find_places(room, f, k, n, cursor) : NULL;
    const kv_array *src = f->src;
    const char *from = (const char *)src->data + run * f->row * kv_dtype_bytes(src->dtype);
    for (int64_t i = 0; i < f->n; i++) {
        kv_array *a = f->to[i];
        char *to = (char *)a->data + k * f->row * kv_dtype_bytes(a->dtype);
        if (at)
            gather_rows(to, a->dtype, src->data, src->dtype, at, n,
                        at == room ? 0 : f->nids - k - n, f->row, f->far);
        else
            (f->far ? stream_convert : convert_elements)(to, a->dtype, from, src->dtype,
                                                         n * f->row);
    }
}

static void fill_part(void *arg, int64_t part, int worker)
{
    const filling *f = arg;
    int64_t from = part * f->part, end = f->nids - from < f->part ? f->nids : from + f->part;
    int64_t cursor = 0;
    (void)worker;
    for (int64_t i = 0; i < f->n; i++)
        if (f->to[i]->rows != f->ids)
            (f->far ? stream_convert : convert_elements)(f->to[i]->rows + from, KV_INT64,
                                                         f->ids + from, KV_INT64, end - from);
    for (int64_t k = from; k < end; k += f->block)
        fill_block(f, k, end - k < f->block ? end - k : f->block, &cursor);
}

/* Fills n arrays with memory for nids rows: with these ids, and the rows of src that have them. */
static void fill(kv_array *const *to, int64_t n, const int64_t *ids, int64_t nids,
                 const kv_array *src)
{
    for (int64_t i = 0; i < n; i++)
        mirror_host(to[i], MIRROR_WRITE, NULL); /* nothing is brought, so it does not fail */
    filling f = {.to = to, .n = n, .ids = ids, .nids = nids, .src = src, .row = sparse_row(src)};
    int64_t bytes = f.row * kv_dtype_bytes(to[0]->dtype);
    bytes = bytes > 0 ? bytes : 1;
    f.block =
        FILL_BLOCK_BYTES / bytes < FILL_BLOCK_ROWS ? FILL_BLOCK_BYTES / bytes : FILL_BLOCK_ROWS;
    f.block = f.block > 0 ? f.block : 1;
    f.part = FILL_PART_BYTES / bytes;
    f.part = f.part > f.block ? f.part / f.block * f.block : f.block;
    f.far = nids > FILL_FAR_BYTES / bytes;
    pool_run((nids + f.part - 1) / f.part, fill_part, &f);
}

/* A new array of the rows of src, in dtype and ctx. */
static int gather(kv_array **out, const kv_array *src, const int64_t *ids, int64_t n,
                  kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    kv_array *a;
    TRY(make_rows(&a, dtype, src->ndim, array_shape(src), n, new_ids(n, e), ctx, e));
    int rc = KV_OK;
    if (ids == array_rows(src) && mirror_can_copy(a, src)) {
        memcpy(a->rows, ids, (size_t)n * sizeof *ids);
        rc = mirror_copy(a, src, e);
    } else if ((rc = mirror_host(src, MIRROR_READ, e)) == KV_OK) {
        fill(&a, 1, ids, n, src);
    }
    return array_give(rc, out, a);
}

static int to_sparse(kv_array **out, const kv_array *src, kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    if (src->storage == KV_ROW_SPARSE)
        return gather(out, src, src->rows, src->nrows, dtype, ctx, e);
    own_mem int64_t *ids =
        mem_alloc(src->size > 0 && src->ndim > 0 ? array_shape(src)[0] : 1, sizeof *ids, e);
    if (!ids)
        return KV_E_MEMORY;
    TRY(mirror_host(src, MIRROR_READ, e));
    int64_t n = src->size > 0 && src->ndim > 0 ? find_rows(ids, src) : 0;
    return gather(out, src, ids, n, dtype, ctx, e);
}

int sparse_replace(kv_array *dst, const kv_array *src, kv_err *e)
{
    kv_array *made;
    kv_assert(dst->storage == KV_ROW_SPARSE && dst->size == src->size,
              "rows of %lld elements replace %lld elements", (long long)src->size,
              (long long)dst->size);
    TRY(to_sparse(&made, src, dst->dtype, dst->ctx, e));
    array_swap(dst, made);
    kv_array_unref(made);
    return KV_OK;
}

int kv_array_to_sparse(kv_array **out, kv_array *src, kv_err *e)
{
    kv_array *a;
    TRY(arg_given(out, "out", e));
    TRY(arg_given(src, "src", e));
    TRY(kv_array_new_sparse(&a, src->dtype, src->ndim, array_shape(src), 0, NULL, src->ctx, e));
    return array_give(kv_array_copy(a, src, e), out, a);
}

int kv_array_to_dense(kv_array **out, kv_array *src, kv_err *e)
{
    kv_array *a;
    TRY(arg_given(out, "out", e));
    TRY(arg_given(src, "src", e));
    TRY(kv_array_new_raw(&a, src->dtype, src->ndim, array_shape(src), src->ctx, e));
    return array_give(kv_array_copy(a, src, e), out, a);
}

static void let_go(void *a)
{
    kv_array_unref(a);
}

int sparse_parts(kv_array **ids, kv_array **data, kv_array *a, kv_err *e)
{
    int64_t shape[KV_MAX_NDIM];
    engine_wait_read(array_var(a));
    memcpy(shape, array_shape(a), (size_t)a->ndim * sizeof *shape);
    shape[0] = a->nrows;
    kv_ctx ctx = mirror_of(a) ? (kv_ctx){KV_CPU, 0} : a->ctx; /* their memory is the host's */
    TRY(mirror_host(a, MIRROR_READ, e));
    int rc = kv_array_wrap(ids, a->rows, KV_INT64, 1, shape, (kv_ctx){KV_CPU, 0}, let_go, a, e);
    if (rc)
        return rc;
    kv_array_ref(a);
    if ((rc = kv_array_wrap(data, a->data, a->dtype, a->ndim, shape, ctx, let_go, a, e))) {
        kv_array_unref(*ids);
        *ids = NULL;
    } else {
        kv_array_ref(a);
    }
    return rc;
}

/* ---- Some rows ------------------------------------------------------------------------------- */

void sparse_retain(kv_array *const *a, int64_t n, const kv_array *src)
{
    kv_assert(n > 0 && a[0]->size == src->size, "rows of %lld elements go to %lld arrays of %lld",
              (long long)src->size, (long long)n, (long long)(n > 0 ? a[0]->size : 0));
    if (array_nrows(src) > 0)
        fill(a, n, a[0]->rows, a[0]->nrows, src);
    for (int64_t i = 0; i < n && array_nrows(src) == 0; i++)
        a[i]->nrows = 0;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Returns true if all sources may hold the same rows: as many, and the same last one. */
static bool look_alike(const sparse_rows *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (src[i].n == 0 || src[i].n != src->n || src[i].ids[src->n - 1] != src->ids[src->n - 1])
            return false;
    return true;
}

/* The sum of sources that have the dtype of the result, if they hold the same rows; else *out stays
 * NULL. */
static int add_up_same(kv_array **out, const kv_array *like, const sparse_rows *src, int64_t n,
                       kv_dtype dtype, kv_ctx ctx, void *room, kv_err *e)
{
    kv_array *a;
    int64_t row = sparse_row(like);
    if (row == 0 || !look_alike(src, n))
        return KV_OK;
    TRY(make_rows(&a, dtype, like->ndim, array_shape(like), src->n, new_ids(src->n, e), ctx, e));
    if (sum_same_rows(a->data, a->rows, src, n, dtype, row, room))
        *out = a;
    else
        kv_array_unref(a);
    return KV_OK;
}

/* The sum of sources that have the dtype of the result. */
static int add_up(kv_array **out, const kv_array *like, const sparse_rows *src, int64_t n,
                  kv_dtype dtype, kv_ctx ctx, void *room, kv_err *e)
{
    int64_t *ids, count;
    *out = NULL;
    int rc = add_up_same(out, like, src, n, dtype, ctx, room, e);
    if (rc || *out || (rc = row_ids_unite(&ids, &count, src, n, array_shape(like)[0], e)))
        return rc;
    rc = make_rows(out, dtype, like->ndim, array_shape(like), count, ids, ctx, e);
    if (rc == KV_OK)
        sum_rows((*out)->data, ids, count, src, n, dtype, sparse_row(like), room);
    return rc;
}

int sparse_sum(kv_array **out, kv_array *const *values, int64_t n, kv_dtype dtype, kv_ctx ctx,
               kv_err *e)
{
    if (n == 1)
        return to_sparse(out, values[0], dtype, ctx, e);
    kv_array **own = mem_zalloc(n, sizeof *own, e);
    sparse_rows *src = own ? mem_alloc(n, sizeof *src, e) : NULL;
    int64_t *room = src ? mem_alloc(n + 1, (size_t)pool_workers() * sizeof *room, e) : NULL;
    int rc = room ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && rc == KV_OK; i++) {
        if ((rc = mirror_host(values[i], MIRROR_READ, e)))
            break;
        own[i] = values[i]->dtype == dtype ? kv_array_ref(values[i]) : NULL;
        if (!own[i])
            rc = to_sparse(&own[i], values[i], dtype, ctx, e);
        if (rc == KV_OK)
            src[i] = (sparse_rows){own[i]->rows, own[i]->nrows, own[i]->data};
    }
    if (rc == KV_OK)
        rc = add_up(out, values[0], src, n, dtype, ctx, room, e);
    for (int64_t i = 0; own && i < n; i++)
        kv_array_unref(own[i]);
    mem_free(room);
    mem_free(src);
    mem_free(own);
    return rc;
}
