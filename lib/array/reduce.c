/* Reductions.
 *
 * Axes are brought into the form (outer, n, inner): each of outer * inner results is made of n
 * elements that lie `inner` apart. Elements are widened to the type that the result is made in, a
 * piece at a time. There are two ways through memory. With inner 1 the elements of a result are a
 * run, added one after another; since that is a chain of dependent additions, four blocks of 4096
 * are added side by side, which changes no result. Else whole rows are added to a row of results.
 */
#include "array/reduce.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "array/arrange.h"
#include "array/device.h"
#include "base/mem.h"

/* Results that are worked on together where rows are added: their sums stay in the L1 cache. */
enum { ROW = 512 };

/* ---- Loops ---- */

/* The results so far of `n` columns, and of the current block. */
typedef struct state {
    void *acc;      /* of the type that the result is made in */
    void *block;    /* the same, for sums along rows */
    int64_t *index; /* argmax: where the largest element stands */
} state;

/* Adds n elements at x, the first of which has the index `at`, to one result. Except in the last
 * call for a result n is a multiple of REDUCE_BLOCK. */
typedef void run_fn(state *s, const void *x, int64_t n, int64_t at);
/* Adds x[i], of index `at`, to result i, for n results. */
typedef void row_fn(state *s, const void *x, int64_t n, int64_t at);
/* Adds the current block to each of n results. */
typedef void fold_fn(state *s, int64_t n);

#define PLAIN(x)  (x)
#define SQUARE(x) ((x) * (x))

#define SUM(name, T, TERM)                                                                         \
    static T name##_block(const T *x, int64_t n)                                                   \
    {                                                                                              \
        T sum = 0;                                                                                 \
        for (int64_t i = 0; i < n; i++)                                                            \
            sum += TERM(x[i]);                                                                     \
        return sum;                                                                                \
    }                                                                                              \
    static void name##_run(state *s, const void *from, int64_t n, int64_t at)                      \
    {                                                                                              \
        const T *x = from, *end = x + n;                                                           \
        const int64_t b = REDUCE_BLOCK;                                                            \
        T total = at ? *(T *)s->acc : 0;                                                           \
        for (; end - x >= 4 * b; x += 4 * b) {                                                     \
            T p = 0, q = 0, u = 0, v = 0;                                                          \
            for (int64_t i = 0; i < b; i++) {                                                      \
                p += TERM(x[i]);                                                                   \
                q += TERM(x[i + b]);                                                               \
                u += TERM(x[i + 2 * b]);                                                           \
                v += TERM(x[i + 3 * b]);                                                           \
            }                                                                                      \
            total = total + p + q + u + v;                                                         \
        }                                                                                          \
        for (; x < end; x += b)                                                                    \
            total += name##_block(x, end - x < b ? end - x : b);                                   \
        *(T *)s->acc = total;                                                                      \
    }                                                                                              \
    static void name##_row(state *s, const void *from, int64_t n, int64_t at)                      \
    {                                                                                              \
        const T *restrict x = from;                                                                \
        T *restrict block = s->block;                                                              \
        (void)at;                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                            \
            block[i] += TERM(x[i]);                                                                \
    }                                                                                              \
    static void name##_fold(state *s, int64_t n)                                                   \
    {                                                                                              \
        T *acc = s->acc, *block = s->block;                                                        \
        for (int64_t i = 0; i < n; i++) {                                                          \
            acc[i] += block[i];                                                                    \
            block[i] = 0;                                                                          \
        }                                                                                          \
    }

/* uint64_t for integers, because it wraps. */
SUM(sum_f32, float, PLAIN)
SUM(sum_f64, double, PLAIN)
SUM(sum_i64, uint64_t, PLAIN)
SUM(squares_f32, float, SQUARE)
SUM(squares_f64, double, SQUARE)

/* A nan is taken, and nothing replaces it, for no number compares with it. */
#define BEST(name, T, OP)                                                                          \
    static void name##_run(state *s, const void *from, int64_t n, int64_t at)                      \
    {                                                                                              \
        const T *x = from;                                                                         \
        T best = at ? *(T *)s->acc : x[0];                                                         \
        for (int64_t i = 0; i < n; i++)                                                            \
            best = x[i] OP best || x[i] != x[i] ? x[i] : best;                                     \
        *(T *)s->acc = best;                                                                       \
    }                                                                                              \
    static void name##_row(state *s, const void *from, int64_t n, int64_t at)                      \
    {                                                                                              \
        const T *restrict x = from;                                                                \
        T *restrict best = s->acc;                                                                 \
        for (int64_t i = 0; i < n; i++)                                                            \
            best[i] = at == 0 || x[i] OP best[i] || x[i] != x[i] ? x[i] : best[i];                 \
    }

BEST(max_f32, float, >)
BEST(max_f64, double, >)
BEST(max_i64, int64_t, >)
BEST(min_f32, float, <)
BEST(min_f64, double, <)
BEST(min_i64, int64_t, <)

/* The first nan stays: a second one finds best already a nan. */
#define WHERE_BEST(name, T)                                                                        \
    static void name##_row(state *s, const void *from, int64_t n, int64_t at)                      \
    {                                                                                              \
        const T *x = from;                                                                         \
        T *best = s->acc;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            bool better = x[i] > best[i] || (x[i] != x[i] && best[i] == best[i]);                  \
            if (at == 0 || better) {                                                               \
                best[i] = x[i];                                                                    \
                s->index[i] = at;                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void name##_run(state *s, const void *from, int64_t n, int64_t at)                      \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            name##_row(s, (const T *)from + i, 1, at + i);                                         \
    }

WHERE_BEST(argmax_f32, float)
WHERE_BEST(argmax_f64, double)
WHERE_BEST(argmax_i64, int64_t)

/* ---- Which loop ---- */

typedef struct loop {
    run_fn *run;
    row_fn *row;
    fold_fn *fold; /* NULL where blocks do not matter */
} loop;

enum { F32, F64, I64 };

static const loop loops[][3] = {
    [REDUCE_SUM] = {{sum_f32_run, sum_f32_row, sum_f32_fold},
                    {sum_f64_run, sum_f64_row, sum_f64_fold},
                    {sum_i64_run, sum_i64_row, sum_i64_fold}},
    [REDUCE_MEAN] = {{sum_f32_run, sum_f32_row, sum_f32_fold},
                     {sum_f64_run, sum_f64_row, sum_f64_fold}},
    [REDUCE_NORM] = {{squares_f32_run, squares_f32_row, squares_f32_fold},
                     {squares_f64_run, squares_f64_row, squares_f64_fold}},
    [REDUCE_MAX] = {{max_f32_run, max_f32_row, NULL},
                    {max_f64_run, max_f64_row, NULL},
                    {max_i64_run, max_i64_row, NULL}},
    [REDUCE_MIN] = {{min_f32_run, min_f32_row, NULL},
                    {min_f64_run, min_f64_row, NULL},
                    {min_i64_run, min_i64_row, NULL}},
    [REDUCE_ARGMAX] = {{argmax_f32_run, argmax_f32_row, NULL},
                       {argmax_f64_run, argmax_f64_row, NULL},
                       {argmax_i64_run, argmax_i64_row, NULL}},
};

const char *reduce_name(reduce_op op)
{
    static const char *const names[] = {"sum", "mean", "norm", "max", "min", "argmax"};
    return names[op];
}

static bool averages(reduce_op op)
{
    return op == REDUCE_MEAN || op == REDUCE_NORM;
}

/* The dtype that a result is made in. */
static kv_dtype wide_dtype(reduce_op op, kv_dtype dtype)
{
    if (dtype == KV_FLOAT64)
        return KV_FLOAT64;
    if (kv_dtype_is_float(dtype))
        return KV_FLOAT32;
    return averages(op) ? KV_FLOAT64 : KV_INT64;
}

static kv_dtype result_dtype(reduce_op op, kv_dtype dtype)
{
    if (op == REDUCE_ARGMAX || (op == REDUCE_SUM && dtype == KV_BOOL))
        return KV_INT64;
    return averages(op) && !kv_dtype_is_float(dtype) ? KV_FLOAT32 : dtype;
}

/* ---- The two ways through memory ---- */

typedef struct job {
    const loop *loop;
    const char *src;
    kv_dtype from, wide;
    int64_t outer, n, inner;
    char *acc;      /* outer * inner results, wide */
    int64_t *index; /* as many, or NULL */
} job;

/* n elements of the source from number i on, wide: in place, or converted into scratch. */
static const void *widened(const job *j, int64_t i, int64_t n, void *scratch)
{
    const char *x = j->src + i * kv_dtype_bytes(j->from);
    if (j->from == j->wide)
        return x;
    cpu_dev_ops.convert(scratch, j->wide, x, j->from, n);
    return scratch;
}

static state state_at(const job *j, int64_t result, void *block)
{
    char *acc = j->acc + result * kv_dtype_bytes(j->wide);
    return (state){acc, block, j->index ? j->index + result : NULL};
}

static void reduce_runs(const job *j)
{
    uint64_t scratch[REDUCE_BLOCK];
    int64_t piece = j->from == j->wide ? INT64_MAX : REDUCE_BLOCK;
    for (int64_t o = 0; o < j->outer; o++) {
        state s = state_at(j, o, NULL);
        for (int64_t at = 0, k; at < j->n; at += k) {
            k = j->n - at < piece ? j->n - at : piece;
            j->loop->run(&s, widened(j, o * j->n + at, k, scratch), k, at);
        }
    }
}

/* n rows of w columns, `inner` apart, from element number i of the source on. */
static void reduce_columns(const job *j, int64_t i, int64_t result, int64_t w)
{
    uint64_t scratch[ROW], block[ROW] = {0};
    state s = state_at(j, result, block);
    for (int64_t at = 0; at < j->n; at++) {
        j->loop->row(&s, widened(j, i + at * j->inner, w, scratch), w, at);
        if (j->loop->fold && ((at + 1) % REDUCE_BLOCK == 0 || at + 1 == j->n))
            j->loop->fold(&s, w);
    }
}

static void reduce_rows(const job *j)
{
    for (int64_t o = 0; o < j->outer; o++)
        for (int64_t c = 0; c < j->inner; c += ROW) {
            int64_t w = j->inner - c < ROW ? j->inner - c : ROW;
            reduce_columns(j, o * j->n * j->inner + c, o * j->inner + c, w);
        }
}

/* What remains to be done with the sums: wide is float32 or float64. */
static void finish(reduce_op op, const job *j)
{
    int64_t results = j->outer * j->inner;
    float *f = (float *)(void *)j->acc;
    double *d = (double *)(void *)j->acc;
    bool single = j->wide == KV_FLOAT32;
    for (int64_t i = 0; i < results && op == REDUCE_MEAN; i++) {
        if (single)
            f[i] /= (float)j->n;
        else
            d[i] /= (double)j->n;
    }
    for (int64_t i = 0; i < results && op == REDUCE_NORM; i++) {
        if (single)
            f[i] = sqrtf(f[i]);
        else
            d[i] = sqrt(d[i]);
    }
}

/* ---- Axes ---- */

/* Several axes: a with them last, as one. The result is (kept axes…, n). */
static int gather_axes(kv_array **out, kv_array *a, const bool *reduced, kv_err *e)
{
    int ndim = kv_array_ndim(a), k = 0;
    int64_t order[KV_MAX_NDIM], shape[KV_MAX_NDIM], n = 1;
    for (int i = 0; i < ndim; i++)
        if (!reduced[i]) {
            shape[k] = kv_array_shape(a)[i];
            order[k++] = i;
        }
    int kept = k;
    for (int i = 0; i < ndim; i++)
        if (reduced[i]) {
            order[k++] = i;
            if (__builtin_mul_overflow(n, kv_array_shape(a)[i], &n))
                return kv_err_set(e, KV_E_SHAPE, "these axes have more than 2^63 elements");
        }
    kv_array *moved;
    int rc = arrange_transpose(&moved, a, order, ndim, e);
    if (rc)
        return rc;
    shape[kept] = n;
    rc = arrange_reshape(out, moved, kept + 1, shape, e);
    kv_array_unref(moved);
    return rc;
}

/* Everything but axes: a as (outer, n, inner), and the shape of the result. */
static int reduce_job(kv_array **out, kv_array *a, reduce_op op, job *j, int ndim,
                      const int64_t *shape, kv_err *e)
{
    int64_t results = 1;
    kv_array *made;
    const void *src;
    void *dst;
    kv_dtype from = kv_array_dtype(a), to = result_dtype(op, from);
    int rc = kv_array_new_raw(&made, to, ndim, shape, kv_array_ctx(a), e);
    if (rc)
        return rc;
    results = kv_array_size(made);
    if (results && j->n == 0 && op > REDUCE_NORM)
        rc = kv_err_set(e, KV_E_VALUE, "%s() of no elements has no value", reduce_name(op));
    j->from = from;
    j->wide = wide_dtype(op, from);
    j->loop = &loops[op][j->wide == KV_FLOAT32 ? F32 : j->wide == KV_FLOAT64 ? F64 : I64];
    if (!rc && !(rc = kv_array_read(a, &src, e)) && !(rc = kv_array_write(made, &dst, e))) {
        j->src = src;
        j->acc = mem_zalloc(results, sizeof(double), e);
        j->index = op == REDUCE_ARGMAX ? dst : NULL;
        if (!j->acc)
            rc = KV_E_MEMORY;
    }
    if (!rc && results) {
        if (j->inner == 1)
            reduce_runs(j);
        else
            reduce_rows(j);
        finish(op, j);
        if (op != REDUCE_ARGMAX)
            cpu_dev_ops.convert(dst, to, j->acc, j->wide, results);
    }
    mem_free(j->acc);
    if (rc)
        kv_array_unref(made);
    else
        *out = made;
    return rc;
}

static int64_t product(const int64_t *shape, int from, int to)
{
    uint64_t n = 1;
    for (int i = from; i < to; i++)
        n *= (uint64_t)shape[i];
    return (int64_t)n;
}

int reduce_array(kv_array **out, kv_array *a, reduce_op op, const int64_t *axes, int naxes,
                 kv_err *e)
{
    int ndim = kv_array_ndim(a), kept = 0, axis = 0;
    bool reduced[KV_MAX_NDIM] = {false};
    int64_t shape[KV_MAX_NDIM];
    const int64_t *sizes = kv_array_shape(a);
    job j = {0};
    if (!axes) {
        j.outer = j.inner = 1;
        j.n = kv_array_size(a);
        return reduce_job(out, a, op, &j, 0, NULL, e);
    }
    for (int i = 0; i < naxes; i++) {
        int64_t at = axes[i];
        int rc = arrange_axis(&at, ndim, e);
        if (rc)
            return rc;
        if (reduced[at])
            return kv_err_set(e, KV_E_VALUE, "axis %lld is named twice", (long long)axes[i]);
        reduced[at] = true;
        axis = (int)at;
    }
    for (int i = 0; i < ndim; i++)
        if (!reduced[i])
            shape[kept++] = sizes[i];
    if (naxes == 0) {
        j.outer = kv_array_size(a);
        j.n = j.inner = 1;
        return reduce_job(out, a, op, &j, kept, shape, e);
    }
    if (naxes == 1) {
        j.outer = product(sizes, 0, axis);
        j.n = sizes[axis];
        j.inner = product(sizes, axis + 1, ndim);
        return reduce_job(out, a, op, &j, kept, shape, e);
    }
    kv_array *moved;
    int rc = gather_axes(&moved, a, reduced, e);
    if (rc)
        return rc;
    j.outer = product(shape, 0, kept);
    j.n = kv_array_shape(moved)[kept];
    j.inner = 1;
    rc = reduce_job(out, moved, op, &j, kept, shape, e);
    kv_array_unref(moved);
    return rc;
}
