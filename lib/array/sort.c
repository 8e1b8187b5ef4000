/* One thread sorts a line of an axis. A line that is longer than a run is cut into runs, which
 * threads sort side by side; then two runs at a time become one, each thread merging a piece of
 * them, until one is left. */
#include "array/sort.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "array/arrange.h"
#include "array/device.h"
#include "array/slice.h"
#include "base/mem.h"
#include "base/stop.h"
#include "cpu/cpu.h"
#include "engine/pool.h"
#include "kv_dtype.h"

/* ---- Items --------------------------------------------------------------------------------------
 *
 * An item is a key, with or without the index of its element. A key is the element as an unsigned
 * number of the same order: an integer with its sign turned, a float whose bits are turned when it
 * is negative; nan is the largest. Where indices are sorted, 0 and -0 are one key. A key of 32 bits
 * and an index share 64 bits, so the key is their upper half.
 *
 * Items are sorted by the bytes of their keys, the lowest byte first: one pass counts, and a pass
 * for each byte brings the items into their order without a comparison. Bytes that are the same in
 * all items are skipped. Short runs are sorted by insertion. */

typedef struct sort_items {
    int64_t bytes; /* of an item */
    /* Makes items of n elements (float32, float64, int32 or int64) whose first has the index `at`.
     * down: their order is reversed. */
    void (*make)(void *items, const void *x, int64_t n, int64_t at, bool down);
    /* Sorts n items; room is for as many. Stable. */
    void (*sort)(void *items, void *room, int64_t n);
    /* Merges na sorted items with nb that came behind them, as far as they give the n items of the
     * result from number `from` on, which are written to `to`. */
    void (*merge)(void *to, const void *a, int64_t na, const void *b, int64_t nb, int64_t from,
                  int64_t n);
    /* The elements, or as int64 the indices, of n items. */
    void (*give)(void *to, const void *items, int64_t n, bool down);
} sort_items;

enum { SHORT = 48 };

typedef struct pair {
    uint64_t key, index;
} pair;

/* ---- Keys ---- */

static inline uint32_t key_i32(int32_t x)
{
    return (uint32_t)x ^ 0x80000000u;
}

static inline uint64_t key_i64(int64_t x)
{
    return (uint64_t)x ^ 0x8000000000000000u;
}

static inline uint32_t key_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT32_MAX : bits ^ ((0 - (bits >> 31)) | 0x80000000u);
}

static inline uint64_t key_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT64_MAX : bits ^ ((0 - (bits >> 63)) | 0x8000000000000000u);
}

static inline int32_t back_i32(uint32_t key)
{
    return (int32_t)(key ^ 0x80000000u);
}

static inline int64_t back_i64(uint64_t key)
{
    return (int64_t)(key ^ 0x8000000000000000u);
}

static inline float back_f32(uint32_t key)
{
    float x;
    key ^= ((key >> 31) - 1) | 0x80000000u;
    memcpy(&x, &key, sizeof x);
    return x;
}

static inline double back_f64(uint64_t key)
{
    double x;
    key ^= ((key >> 63) - 1) | 0x8000000000000000u;
    memcpy(&x, &key, sizeof x);
    return x;
}

/* ---- Sorting and merging ---- */

#define ITSELF(x)  (x)
#define UPPER(x)   ((x) >> 32)
#define OF_PAIR(x) ((x).key)

/* BYTES of a key, which KEY gives. */
#define SORT(name, T, KEY, BYTES)                                                                  \
    static void name##_insert(T *x, int64_t n)                                                     \
    {                                                                                              \
        for (int64_t i = 1; i < n; i++) {                                                          \
            T one = x[i];                                                                          \
            int64_t k = i;                                                                         \
            for (; k > 0 && KEY(one) < KEY(x[k - 1]); k--)                                         \
                x[k] = x[k - 1];                                                                   \
            x[k] = one;                                                                            \
        }                                                                                          \
    }                                                                                              \
    static void name##_sort(void *items, void *room, int64_t n)                                    \
    {                                                                                              \
        T *x = items, *y = room;                                                                   \
        int64_t count[BYTES][256];                                                                 \
        if (n <= SHORT) {                                                                          \
            name##_insert(x, n);                                                                   \
            return;                                                                                \
        }                                                                                          \
        memset(count, 0, sizeof count);                                                            \
        for (int64_t i = 0; i < n; i++)                                                            \
            for (int b = 0; b < BYTES; b++)                                                        \
                count[b][KEY(x[i]) >> (8 * b) & 255]++;                                            \
        for (int b = 0; b < BYTES; b++) {                                                          \
            if (count[b][KEY(x[0]) >> (8 * b) & 255] == n)                                         \
                continue;                                                                          \
            int64_t *to = count[b], sum = 0;                                                       \
            for (int k = 0; k < 256; k++) {                                                        \
                int64_t here = to[k];                                                              \
                to[k] = sum;                                                                       \
                sum += here;                                                                       \
            }                                                                                      \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[to[KEY(x[i]) >> (8 * b) & 255]++] = x[i];                                        \
            T *swap = x;                                                                           \
            x = y;                                                                                 \
            y = swap;                                                                              \
        }                                                                                          \
        if (x != items)                                                                            \
            memcpy(items, x, (size_t)n * sizeof *x);                                               \
    }                                                                                              \
    static void name##_merge(void *to, const void *left, int64_t na, const void *right,            \
                             int64_t nb, int64_t from, int64_t n)                                  \
    {                                                                                              \
        const T *a = left, *b = right;                                                             \
        T *d = to;                                                                                 \
        int64_t low = from > nb ? from - nb : 0, high = from < na ? from : na;                     \
        while (low < high) { /* how many of the first `from` are of a */                           \
            int64_t i = low + (high - low) / 2;                                                    \
            if (KEY(b[from - i - 1]) < KEY(a[i]))                                                  \
                high = i;                                                                          \
            else                                                                                   \
                low = i + 1;                                                                       \
        }                                                                                          \
        int64_t i = low, k = from - low;                                                           \
        while (n > 0 && i < na && k < nb) {                                                        \
            bool second = KEY(b[k]) < KEY(a[i]);                                                   \
            *d++ = second ? b[k] : a[i];                                                           \
            k += second;                                                                           \
            i += !second;                                                                          \
            n--;                                                                                   \
        }                                                                                          \
        memcpy(d, i < na ? a + i : b + k, (size_t)n * sizeof *d);                                  \
    }

SORT(u32, uint32_t, ITSELF, 4)
SORT(u64, uint64_t, ITSELF, 8)
SORT(upper, uint64_t, UPPER, 4)
SORT(pair, pair, OF_PAIR, 8)

/* ---- Elements to items, and back ---- */

#define VALUES(name, E, U)                                                                         \
    static void name##_values(void *items, const void *from, int64_t n, int64_t at, bool down)     \
    {                                                                                              \
        const E *x = from;                                                                         \
        U *item = items, turn = down ? (U)-1 : 0;                                                  \
        for (int64_t i = 0; i < n; i++)                                                            \
            item[i] = key_##name(x[i]) ^ turn;                                                     \
        (void)at;                                                                                  \
    }                                                                                              \
    static void name##_give(void *to, const void *items, int64_t n, bool down)                     \
    {                                                                                              \
        E *x = to;                                                                                 \
        const U *item = items;                                                                     \
        U turn = down ? (U)-1 : 0;                                                                 \
        for (int64_t i = 0; i < n; i++)                                                            \
            x[i] = back_##name(item[i] ^ turn);                                                    \
    }

VALUES(f32, float, uint32_t)
VALUES(i32, int32_t, uint32_t)
VALUES(f64, double, uint64_t)
VALUES(i64, int64_t, uint64_t)

/* + 0 makes 0 of -0. */
#define UPPERS(name, E)                                                                            \
    static void name##_indices(void *items, const void *from, int64_t n, int64_t at, bool down)    \
    {                                                                                              \
        const E *x = from;                                                                         \
        uint64_t *item = items;                                                                    \
        uint32_t turn = down ? UINT32_MAX : 0;                                                     \
        for (int64_t i = 0; i < n; i++)                                                            \
            item[i] = (uint64_t)(key_##name(x[i] + 0) ^ turn) << 32 | (uint64_t)(at + i);          \
    }

UPPERS(f32, float)
UPPERS(i32, int32_t)

#define PAIRS(name, E)                                                                             \
    static void name##_indices(void *items, const void *from, int64_t n, int64_t at, bool down)    \
    {                                                                                              \
        const E *x = from;                                                                         \
        pair *item = items;                                                                        \
        uint64_t turn = down ? UINT64_MAX : 0;                                                     \
        for (int64_t i = 0; i < n; i++)                                                            \
            item[i] = (pair){key_##name(x[i] + 0) ^ turn, (uint64_t)(at + i)};                     \
    }

PAIRS(f64, double)
PAIRS(i64, int64_t)

static void give_uppers(void *to, const void *items, int64_t n, bool down)
{
    int64_t *x = to;
    const uint64_t *item = items;
    (void)down;
    for (int64_t i = 0; i < n; i++)
        x[i] = (int64_t)(item[i] & UINT32_MAX);
}

static void give_pairs(void *to, const void *items, int64_t n, bool down)
{
    int64_t *x = to;
    const pair *item = items;
    (void)down;
    for (int64_t i = 0; i < n; i++)
        x[i] = (int64_t)item[i].index;
}

/* ---- The choice ---- */

/* For the dtypes that elements are sorted in. Indices of float32 and int32 are below 2^32. */
static const sort_items *sort_items_of(kv_dtype dtype, bool indices)
{
    static const sort_items values[] = {
        {4, f32_values, u32_sort, u32_merge, f32_give},
        {8, f64_values, u64_sort, u64_merge, f64_give},
        {4, i32_values, u32_sort, u32_merge, i32_give},
        {8, i64_values, u64_sort, u64_merge, i64_give},
    };
    static const sort_items with_indices[] = {
        {8, f32_indices, upper_sort, upper_merge, give_uppers},
        {16, f64_indices, pair_sort, pair_merge, give_pairs},
        {8, i32_indices, upper_sort, upper_merge, give_uppers},
        {16, i64_indices, pair_sort, pair_merge, give_pairs},
    };
    int i = (dtype == KV_INT32 || dtype == KV_INT64 ? 2 : 0) +
            (dtype == KV_FLOAT64 || dtype == KV_INT64);
    return indices ? &with_indices[i] : &values[i];
}

int64_t sort_order_bytes(int64_t n)
{
    return 2 * n * (int64_t)sizeof(pair);
}

const int64_t *sort_order(void *room, const void *x, kv_dtype dtype, int64_t n)
{
    const sort_items *items = sort_items_of(dtype, true);
    char *behind = (char *)room + n * items->bytes; /* of the sort, then for the indices */
    items->make(room, x, n, 0, false);
    items->sort(room, behind, n);
    items->give(behind, room, n, false);
    return (const int64_t *)(const void *)behind;
}

/* Items of a run, which stay in the L2 cache while they are sorted; and elements that are converted
 * together. */
enum { RUN = 1 << 17, BLOCK = 512 };

typedef struct sort_job {
    const sort_items *items;
    const char *from; /* elements of `dtype`, in lines of n */
    char *to;         /* of `dtype`, or int64 */
    kv_dtype dtype, wide;
    bool indices, down;
    int64_t lines, n, each; /* lines that a thread sorts at once */
    char *room, *other;     /* of each worker, for two lines; of a long line, and as much again */
    int64_t run;            /* items of a run of a long line */
} sort_job;

/* Makes items of n elements from number i of the source on, which is number `at` of its line. */
static void make_items(const sort_job *j, char *items, int64_t i, int64_t n, int64_t at)
{
    double wide[BLOCK];
    int64_t bytes = kv_dtype_bytes(j->dtype);
    if (j->wide == j->dtype) {
        j->items->make(items, j->from + i * bytes, n, at, j->down);
        return;
    }
    for (int64_t k = 0, m; k < n; k += m) {
        m = at_most(n - k, BLOCK);
        convert_elements(wide, j->wide, j->from + (i + k) * bytes, j->dtype, m);
        j->items->make(items + k * j->items->bytes, wide, m, at + k, j->down);
    }
}

/* Writes n items as the elements of the result from number i on. */
static void give_items(const sort_job *j, const char *items, int64_t i, int64_t n)
{
    double wide[BLOCK];
    int64_t bytes = j->indices ? (int64_t)sizeof(int64_t) : kv_dtype_bytes(j->dtype);
    if (j->indices || j->wide == j->dtype) {
        j->items->give(j->to + i * bytes, items, n, j->down);
        return;
    }
    for (int64_t k = 0, m; k < n; k += m) {
        m = at_most(n - k, BLOCK);
        j->items->give(wide, items + k * j->items->bytes, m, j->down);
        convert_elements(j->to + (i + k) * bytes, j->dtype, wide, j->wide, m);
    }
}

/* ---- Many lines ---- */

static int sort_lines(void *arg, int64_t part, int worker, kv_err *e)
{
    sort_job *j = arg;
    int64_t end = at_most(j->lines, (part + 1) * j->each), size = j->n * j->items->bytes;
    char *items = j->room + 2 * size * worker;
    (void)e;
    for (int64_t i = part * j->each; i < end; i++) {
        make_items(j, items, i * j->n, j->n, 0);
        j->items->sort(items, items + size, j->n);
        give_items(j, items, i * j->n, j->n);
    }
    return KV_OK;
}

/* ---- A long line ---- */

/* j->lines is the number of the line here. */
static int sort_run(void *arg, int64_t part, int worker, kv_err *e)
{
    sort_job *j = arg;
    int64_t at = part * RUN, n = at_most(j->n - at, RUN), bytes = j->items->bytes;
    (void)worker, (void)e;
    make_items(j, j->room + at * bytes, j->lines * j->n + at, n, at);
    j->items->sort(j->room + at * bytes, j->other + at * bytes, n);
    return KV_OK;
}

/* A piece of the result of a pair of runs; runs are a multiple of RUN long. */
static int merge_piece(void *arg, int64_t part, int worker, kv_err *e)
{
    sort_job *j = arg;
    int64_t bytes = j->items->bytes, at = part * RUN, begin = at / (2 * j->run) * (2 * j->run);
    int64_t na = at_most(j->n - begin, j->run), nb = at_most(j->n - begin - na, j->run);
    const char *a = j->room + begin * bytes;
    (void)worker, (void)e;
    j->items->merge(j->other + at * bytes, a, na, a + na * bytes, nb, at - begin,
                    at_most(j->n - at, RUN));
    return KV_OK;
}

static int give_piece(void *arg, int64_t part, int worker, kv_err *e)
{
    sort_job *j = arg;
    int64_t at = part * RUN;
    (void)worker, (void)e;
    give_items(j, j->room + at * j->items->bytes, j->lines * j->n + at, at_most(j->n - at, RUN));
    return KV_OK;
}

static int sort_line(sort_job *j, kv_err *e)
{
    int64_t pieces = (j->n + RUN - 1) / RUN;
    TRY(pool_each(pieces, sort_run, j, e));
    for (j->run = RUN; j->run < j->n; j->run *= 2) {
        TRY(pool_each(pieces, merge_piece, j, e));
        char *swap = j->room;
        j->room = j->other;
        j->other = swap;
    }
    return pool_each(pieces, give_piece, j, e);
}

static int sort_all(sort_job *j, int64_t lines, kv_err *e)
{
    bool is_long = j->n > RUN;
    int64_t size = j->n * j->items->bytes;
    char *room = mem_alloc_data((is_long ? 2 : 2 * pool_workers()) * size, e);
    if (!room)
        return KV_E_MEMORY;
    j->room = room;
    j->other = room + size;
    j->lines = lines;
    j->each = j->n < STOP_EVERY ? STOP_EVERY / j->n : 1;
    int rc = is_long ? KV_OK : pool_each((lines + j->each - 1) / j->each, sort_lines, j, e);
    for (j->lines = 0; is_long && j->lines < lines && !rc; j->lines++)
        rc = sort_line(j, e);
    mem_free_data(room);
    return rc;
}

/* ---- Axes ---- */

/* a with an axis as the last one; another reference where it is so already. */
static int axis_last(kv_array **out, kv_array *a, int axis, kv_err *e)
{
    int ndim = kv_array_ndim(a), k = 0;
    int64_t order[KV_MAX_NDIM];
    if (axis == ndim - 1) {
        *out = kv_array_ref(a);
        return KV_OK;
    }
    for (int i = 0; i < ndim; i++)
        if (i != axis)
            order[k++] = i;
    order[k] = axis;
    return arrange_transpose(out, a, order, ndim, e);
}

/* Along the last axis. */
static int sort_last(kv_array **out, kv_array *a, sort_what what, bool down, kv_err *e)
{
    int ndim = kv_array_ndim(a);
    int64_t n = ndim ? kv_array_shape(a)[ndim - 1] : 1;
    kv_dtype dtype = kv_array_dtype(a), wide = dtype;
    if (dtype != KV_FLOAT64 && dtype != KV_INT64)
        wide = kv_dtype_is_float(dtype) ? KV_FLOAT32 : KV_INT32;
    bool indices = what == SORT_INDICES;
    own_array *made = NULL;
    const void *from;
    void *to;
    if (indices && n > UINT32_MAX && wide != KV_FLOAT64)
        wide = kv_dtype_is_float(dtype) ? KV_FLOAT64 : KV_INT64;
    TRY(kv_array_read(a, &from, e));
    TRY(array_make(&made, &to, indices ? KV_INT64 : dtype, ndim, kv_array_shape(a),
                   kv_array_ctx(a), e));
    sort_job j = {.items = sort_items_of(wide, indices),
                  .from = from,
                  .to = to,
                  .dtype = dtype,
                  .wide = wide,
                  .indices = indices,
                  .down = down,
                  .n = n};
    TRY(kv_array_size(a) > 0 ? sort_all(&j, kv_array_size(a) / n, e) : KV_OK);
    return array_hand_out(out, &made);
}

int sort_array(kv_array **out, kv_array *a, sort_what what, int64_t axis, bool down, kv_err *e)
{
    int ndim = kv_array_ndim(a);
    own_array *lines = NULL, *made = NULL;
    if (ndim == 0 && (axis == 0 || axis == -1))
        return sort_last(out, a, what, down, e);
    TRY(arrange_axis(&axis, ndim, e));
    TRY(axis_last(&lines, a, (int)axis, e));
    TRY(sort_last(&made, lines, what, down, e));
    if (axis == ndim - 1)
        return array_hand_out(out, &made);
    array_release(&lines); /* its memory is wanted for what is turned back */
    lines = NULL;
    int64_t order[KV_MAX_NDIM]; /* the last axis goes to where it was */
    for (int i = 0; i < ndim; i++)
        order[i] = i < axis ? i : i == axis ? ndim - 1 : i - 1;
    return arrange_transpose(out, made, order, ndim, e);
}

/* ---- Quantiles ---- */

/* The quantile q of n > 0 ascending numbers, as NumPy interpolates; between 4 and inf it is inf,
 * which NumPy has for a median only. */
static double quantile(const char *x, kv_dtype dtype, int64_t n, double q)
{
    double low, high, at = q * (double)(n - 1), last;
    int64_t bytes = kv_dtype_bytes(dtype), i = (int64_t)floor(at), k = i + 1 < n ? i + 1 : i;
    convert_elements(&low, KV_FLOAT64, x + i * bytes, dtype, 1);
    convert_elements(&high, KV_FLOAT64, x + k * bytes, dtype, 1);
    convert_elements(&last, KV_FLOAT64, x + (n - 1) * bytes, dtype, 1);
    double part = at - (double)i, way = high - low;
    if (last != last)
        return last;
    if (part == 0 || low == high)
        return low;
    if (isinf(way)) /* from or to an infinite number, or too far for a double */
        return low * (1 - part) + high * part;
    return part < 0.5 ? low + way * part : high - way * (1 - part);
}

int sort_quantiles(kv_array **out, kv_array *a, const double *q, int64_t nq, int64_t axis,
                   kv_err *e)
{
    own_array *lines = NULL, *sorted = NULL, *made = NULL;
    int64_t shape[KV_MAX_NDIM + 1] = {nq};
    const void *from;
    void *to;
    int ndim = kv_array_ndim(a);
    kv_dtype dtype = kv_array_dtype(a), real = kv_dtype_is_float(dtype) ? dtype : KV_FLOAT32;
    TRY(ndim ? arrange_axis(&axis, ndim, e) : KV_OK);
    TRY(ndim ? axis_last(&lines, a, (int)axis, e) : KV_OK);
    TRY(sort_last(&sorted, lines ? lines : a, SORT_VALUES, false, e));
    int64_t n = ndim ? kv_array_shape(sorted)[ndim - 1] : 1, bytes = kv_dtype_bytes(dtype);
    for (int i = 0; i + 1 < ndim; i++)
        shape[i + 1] = kv_array_shape(sorted)[i];
    TRY(array_make(&made, &to, real, ndim ? ndim : 1, shape, kv_array_ctx(a), e));
    TRY(kv_array_read(sorted, &from, e));
    int64_t each = nq ? kv_array_size(made) / nq : 0;
    if (n == 0 && kv_array_size(made) > 0)
        return kv_err_set(e, KV_E_VALUE, "an array without elements has no quantile");
    for (int64_t i = 0; i < kv_array_size(made); i++) {
        TRY(stop_check_at(i, e));
        double x = quantile((const char *)from + i % each * n * bytes, dtype, n, q[i / each]);
        convert_elements((char *)to + i * kv_dtype_bytes(real), real, &x, KV_FLOAT64, 1);
    }
    return array_hand_out(out, &made);
}

/* ---- Different elements ---- */

/* Marks the elements of a sorted vector that differ from the one before. */
static int mark_first(kv_array **out, kv_array *sorted, kv_err *e)
{
    double x[BLOCK + 1] = {0};
    int64_t whole[BLOCK + 1] = {0}, n = kv_array_size(sorted);
    kv_dtype dtype = kv_array_dtype(sorted);
    bool real = kv_dtype_is_float(dtype);
    const void *from;
    void *to;
    own_array *made = NULL;
    TRY(kv_array_read(sorted, &from, e));
    TRY(array_make(&made, &to, KV_BOOL, 1, &n, (kv_ctx){KV_CPU, 0}, e));
    for (int64_t i = 0, m; i < n; i += m) {
        bool *mark = (bool *)to + i;
        m = at_most(n - i, BLOCK);
        TRY(stop_check_at(i / BLOCK, e));
        x[0] = x[BLOCK];
        whole[0] = whole[BLOCK];
        convert_elements(real ? (void *)(x + 1) : (void *)(whole + 1), real ? KV_FLOAT64 : KV_INT64,
                         (const char *)from + i * kv_dtype_bytes(dtype), dtype, m);
        for (int64_t k = 1; k <= m; k++)
            mark[k - 1] = real ? x[k] != x[k - 1] && (x[k] == x[k] || x[k - 1] == x[k - 1])
                               : whole[k] != whole[k - 1];
        mark[0] |= i == 0;
    }
    return array_hand_out(out, &made);
}

/* How far each place lies from the next, the last from n. */
static int count_between(kv_array **out, kv_array *places, int64_t n, kv_err *e)
{
    int64_t size = kv_array_size(places);
    const void *from;
    void *to;
    TRY(kv_array_read(places, &from, e));
    own_array *made = NULL;
    TRY(array_make(&made, &to, KV_INT64, 1, &size, kv_array_ctx(places), e));
    const int64_t *at = from;
    for (int64_t i = 0; i < size; i++) {
        TRY(stop_check_at(i, e));
        ((int64_t *)to)[i] = (i + 1 < size ? at[i + 1] : n) - at[i];
    }
    return array_hand_out(out, &made);
}

/* For each element the number of its run: order says where the sorted ones came from. */
static int number_runs(kv_array **out, kv_array *order, kv_array *marks, const kv_array *like,
                       kv_err *e)
{
    const void *from, *mark;
    void *to;
    TRY(kv_array_read(order, &from, e));
    TRY(kv_array_read(marks, &mark, e));
    own_array *made = NULL;
    TRY(array_make(&made, &to, KV_INT64, kv_array_ndim(like), kv_array_shape(like),
                   kv_array_ctx(like), e));
    int64_t run = -1;
    for (int64_t i = 0; i < kv_array_size(order); i++) {
        TRY(stop_check_at(i, e));
        run += ((const bool *)mark)[i];
        ((int64_t *)to)[((const int64_t *)from)[i]] = run;
    }
    return array_hand_out(out, &made);
}

/* The parts of a unique. */
typedef struct unique {
    kv_array *flat, *order, *sorted, *marks, *places;
    kv_array *values, *first, *inverse, *counts; /* NULL where it was given away */
} unique;

static int find_unique(unique *u, kv_array *a, bool first, bool inverse, bool counts, kv_err *e)
{
    int64_t n = kv_array_size(a);
    TRY(arrange_reshape(&u->flat, a, 1, &n, e));
    if (first || inverse) {
        TRY(sort_last(&u->order, u->flat, SORT_INDICES, false, e));
        array_range by_order = {.ids = u->order};
        TRY(array_slice(&u->sorted, u->flat, &by_order, 1, e));
    } else {
        TRY(sort_last(&u->sorted, u->flat, SORT_VALUES, false, e));
    }
    TRY(mark_first(&u->marks, u->sorted, e));
    array_range marked = {.ids = u->marks};
    TRY(array_slice(&u->values, u->sorted, &marked, 1, e));
    TRY(first ? array_slice(&u->first, u->order, &marked, 1, e) : KV_OK);
    TRY(inverse ? number_runs(&u->inverse, u->order, u->marks, a, e) : KV_OK);
    if (!counts)
        return KV_OK;
    TRY(pick_mask(&u->places, u->marks, 1, e));
    return count_between(&u->counts, u->places, n, e);
}

static void unique_release(unique *u)
{
    kv_array *const all[] = {u->flat,   u->order, u->sorted,  u->marks, u->places,
                             u->values, u->first, u->inverse, u->counts};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        kv_array_unref(all[i]);
}

int sort_unique(kv_array **out, kv_array **first, kv_array **inverse, kv_array **counts,
                kv_array *a, kv_err *e)
{
    OWN(unique_release) unique u = {0};
    TRY(find_unique(&u, a, first, inverse, counts, e));
    if (first)
        array_hand_out(first, &u.first);
    if (inverse)
        array_hand_out(inverse, &u.inverse);
    if (counts)
        array_hand_out(counts, &u.counts);
    return array_hand_out(out, &u.values);
}
