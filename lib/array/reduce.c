/* Reductions.
 *
 * Axes are brought into the form (outer, n, inner): each of outer * inner results is made of n
 * elements that lie `inner` apart. A pass makes one partial result of every block of REDUCE_BLOCK
 * of them; further passes do the same to the partial results until one is left. There are two ways
 * through memory: with inner 1 a block is a run, else it is made of whole rows, for some columns at
 * a time. The order in which numbers are added is the same both ways.
 */
#include "array/reduce.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "array/arrange.h"
#include "array/device.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "base/stop.h"
#include "cpu/cpu.h"
#include "engine/pool.h"

/* Sums of a block that run side by side, since an addition would wait for the one before. */
enum { LANES = 16 };

/* Columns that are worked on together where rows are added: their lanes take 64 KB, but one lane is
 * worked on at a time. Rows of at most NARROW columns go to all lanes at once. */
enum { ROW = 512, NARROW = 128 };

/* ---- Loops ---- */

/* Makes the partial result of n elements at x, the first having the index `at`; y: as many
 * other factors, or their mean, or x. */
typedef void run_fn(void *to, const void *x, const void *y, int64_t n, int64_t at);
/* Takes w elements at x, of index `at`, each into its lane; first: the lanes hold nothing yet. y:
 * as many means, for a loop that needs them. */
typedef void row_fn(void *lanes, const void *x, const void *y, int64_t w, bool first, int64_t at);
/* Adds LANES rows of w lanes into the first. */
typedef void fold_fn(void *lanes, int64_t w);

/* The loop of a pass. */
typedef struct loop {
    kv_dtype read; /* the type of its elements; of a further pass that of partial results */
    int64_t bytes; /* of a partial result */
    run_fn *run;
    row_fn *row;
    fold_fn *fold;            /* NULL means that there is one lane */
    const struct loop *again; /* the loop for the partial results */
} loop;

#define PLAIN(x, y)   (x)
#define SQUARE(x, y)  ((x) * (x))
#define PRODUCT(x, y) ((x) * (y))

/* Four elements at any address, and four lanes. */
#define FOUR(T, name)                                                                              \
    typedef T name __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias))
FOUR(float, f32x4);
FOUR(double, f64x4);
FOUR(int32_t, i32x4);
FOUR(uint8_t, u8x4);
FOUR(uint64_t, u64x4);

/* Element i goes to lane i % LANES as far as there are whole rows of lanes. Lane l and lane l + 8
 * are added, then l + 4, … The elements behind them are added to that one by one. */
#define SUM(name, S, S4, W, W4, TERM)                                                              \
    CPU_CLONES static void name##_run(void *to, const void *left, const void *right, int64_t n,    \
                                      int64_t at)                                                  \
    {                                                                                              \
        const S *x = left, *y = right;                                                             \
        W4 v[LANES / 4] = {{0}};                                                                   \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= n; i += LANES)                                                         \
            for (int k = 0; k < LANES / 4; k++) {                                                  \
                W4 a = __builtin_convertvector(*(const S4 *)(x + i + 4 * k), W4);                  \
                W4 b = __builtin_convertvector(*(const S4 *)(y + i + 4 * k), W4);                  \
                v[k] += TERM(a, b);                                                                \
                (void)b;                                                                           \
            }                                                                                      \
        v[0] = (v[0] + v[2]) + (v[1] + v[3]);                                                      \
        W sum = (v[0][0] + v[0][2]) + (v[0][1] + v[0][3]);                                         \
        for (; i < n; i++)                                                                         \
            sum += TERM((W)x[i], (W)y[i]);                                                         \
        *(W *)to = sum;                                                                            \
        (void)at;                                                                                  \
    }                                                                                              \
    CPU_CLONES static void name##_row(void *lanes, const void *from, const void *y, int64_t w,     \
                                      bool first, int64_t at)                                      \
    {                                                                                              \
        const S *restrict x = from;                                                                \
        W *restrict sum = lanes;                                                                   \
        for (int64_t c = 0; c < w && first; c++)                                                   \
            sum[c] = 0;                                                                            \
        for (int64_t c = 0; c < w; c++)                                                            \
            sum[c] += TERM((W)x[c], (W)x[c]);                                                      \
        (void)y, (void)at;                                                                         \
    }

/* uint64_t for integers, because it wraps. */
SUM(sum_f32, float, f32x4, double, f64x4, PLAIN)
SUM(sum_f64, double, f64x4, double, f64x4, PLAIN)
SUM(sum_i64, uint64_t, u64x4, uint64_t, u64x4, PLAIN)
SUM(sum_i32, int32_t, i32x4, uint64_t, u64x4, PLAIN)
SUM(sum_bool, uint8_t, u8x4, uint64_t, u64x4, PLAIN)
SUM(squares_f32, float, f32x4, double, f64x4, SQUARE)
SUM(squares_f64, double, f64x4, double, f64x4, SQUARE)
SUM(products_f32, float, f32x4, double, f64x4, PRODUCT)
SUM(products_f64, double, f64x4, double, f64x4, PRODUCT)
SUM(products_i64, uint64_t, u64x4, uint64_t, u64x4, PRODUCT)

/* Squares of what lies between elements and their mean, which is y, or for each column its own. */
#define DEVIATIONS(name, S, S4)                                                                    \
    CPU_CLONES static void name##_run(void *to, const void *left, const void *mean, int64_t n,     \
                                      int64_t at)                                                  \
    {                                                                                              \
        const S *x = left;                                                                         \
        double m = *(const double *)mean, sum;                                                     \
        f64x4 v[LANES / 4] = {{0}};                                                                \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= n; i += LANES)                                                         \
            for (int k = 0; k < LANES / 4; k++) {                                                  \
                f64x4 a = __builtin_convertvector(*(const S4 *)(x + i + 4 * k), f64x4) - m;        \
                v[k] += a * a;                                                                     \
            }                                                                                      \
        v[0] = (v[0] + v[2]) + (v[1] + v[3]);                                                      \
        sum = (v[0][0] + v[0][2]) + (v[0][1] + v[0][3]);                                           \
        for (; i < n; i++)                                                                         \
            sum += SQUARE((double)x[i] - m, );                                                     \
        *(double *)to = sum;                                                                       \
        (void)at;                                                                                  \
    }                                                                                              \
    CPU_CLONES static void name##_row(void *lanes, const void *from, const void *means, int64_t w, \
                                      bool first, int64_t at)                                      \
    {                                                                                              \
        const S *restrict x = from;                                                                \
        const double *restrict m = means;                                                          \
        double *restrict sum = lanes;                                                              \
        for (int64_t c = 0; c < w && first; c++)                                                   \
            sum[c] = 0;                                                                            \
        for (int64_t c = 0; c < w; c++)                                                            \
            sum[c] += SQUARE((double)x[c] - m[c], );                                               \
        (void)at;                                                                                  \
    }

DEVIATIONS(deviations_f32, float, f32x4)
DEVIATIONS(deviations_f64, double, f64x4)

#define PROD(name, S, W)                                                                           \
    static void name##_run(void *to, const void *from, const void *y, int64_t n, int64_t at)       \
    {                                                                                              \
        const S *x = from;                                                                         \
        W product = 1;                                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            product *= (W)x[i];                                                                    \
        *(W *)to = product;                                                                        \
        (void)y, (void)at;                                                                         \
    }                                                                                              \
    static void name##_row(void *lanes, const void *from, const void *y, int64_t w, bool first,    \
                           int64_t at)                                                             \
    {                                                                                              \
        const S *restrict x = from;                                                                \
        W *restrict product = lanes;                                                               \
        for (int64_t c = 0; c < w; c++)                                                            \
            product[c] = (first ? 1 : product[c]) * (W)x[c];                                       \
        (void)y, (void)at;                                                                         \
    }

PROD(prod_f32, float, double)
PROD(prod_f64, double, double)
PROD(prod_i64, uint64_t, uint64_t)

/* The same of lanes in rows. */
#define FOLD(name, W)                                                                              \
    static void name(void *lanes, int64_t w)                                                       \
    {                                                                                              \
        W *lane = lanes;                                                                           \
        for (int64_t h = LANES / 2; h > 0; h /= 2)                                                 \
            for (int64_t c = 0; c < h * w; c++)                                                    \
                lane[c] += lane[h * w + c];                                                        \
    }

FOLD(fold_f64, double)
FOLD(fold_i64, uint64_t)

/* A nan is taken, and nothing replaces it, for no number compares with it. A run is taken as rows
 * of WIDE columns, which is what the vectoriser understands. */
enum { WIDE = 64 };

#define BEST(name, T, OP)                                                                          \
    CPU_CLONES static void name##_row(void *lanes, const void *from, const void *y, int64_t w,     \
                                      bool first, int64_t at)                                      \
    {                                                                                              \
        const T *restrict x = from;                                                                \
        T *restrict best = lanes;                                                                  \
        for (int64_t c = 0; c < w; c++)                                                            \
            best[c] = first || x[c] OP best[c] || x[c] != x[c] ? x[c] : best[c];                   \
        (void)y, (void)at;                                                                         \
    }                                                                                              \
    static void name##_run(void *to, const void *from, const void *y, int64_t n, int64_t at)       \
    {                                                                                              \
        const T *x = from;                                                                         \
        T lanes[WIDE], best = x[0];                                                                \
        int64_t i = 0;                                                                             \
        for (; i + WIDE <= n; i += WIDE)                                                           \
            name##_row(lanes, x + i, y, WIDE, i == 0, at);                                         \
        for (int k = 0; i > 0 && k < WIDE; k++)                                                    \
            best = lanes[k] OP best || lanes[k] != lanes[k] ? lanes[k] : best;                     \
        for (; i < n; i++)                                                                         \
            best = x[i] OP best || x[i] != x[i] ? x[i] : best;                                     \
        *(T *)to = best;                                                                           \
    }

BEST(max_f32, float, >)
BEST(max_f64, double, >)
BEST(max_i64, int64_t, >)
BEST(min_f32, float, <)
BEST(min_f64, double, <)
BEST(min_i64, int64_t, <)

/* The best element and where it stands; its index is first, so that indices lie 16 bytes apart.
 * The first nan stays: a second one finds that the best already is one. E: elements, or partial
 * results of a pass before, whose indices stand in them. */
#define WHERE(name, T, E, VALUE, INDEX, OP)                                                        \
    static void name##_row(void *lanes, const void *from, const void *y, int64_t w, bool first,    \
                           int64_t at)                                                             \
    {                                                                                              \
        const E *x = from;                                                                         \
        T *best = lanes;                                                                           \
        for (int64_t c = 0; c < w; c++) {                                                          \
            bool first_nan = VALUE(x[c]) != VALUE(x[c]) && best[c].value == best[c].value;         \
            if (first || VALUE(x[c]) OP best[c].value || first_nan)                                \
                best[c] = (T){INDEX(x[c], at), VALUE(x[c])};                                       \
        }                                                                                          \
        (void)y, (void)at;                                                                         \
    }

/* Of partial results, which are few. */
#define WHERE_AGAIN(name, E)                                                                       \
    static void name##_run(void *to, const void *from, const void *y, int64_t n, int64_t at)       \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            name##_row(to, (const E *)from + i, y, 1, i == 0, at + i);                             \
    }

/* Of elements in a run: the best of all is found first, and then the first that is it. */
#define WHERE_RUN(name, T, E, best_run)                                                            \
    CPU_CLONES static void name##_run(void *to, const void *from, const void *y, int64_t n,        \
                                      int64_t at)                                                  \
    {                                                                                              \
        const E *x = from;                                                                         \
        E best;                                                                                    \
        int64_t i = 0;                                                                             \
        best_run(&best, from, y, n, at);                                                           \
        for (int found = 0; i + WIDE <= n; i += WIDE) {                                            \
            for (int k = 0; k < WIDE; k++)                                                         \
                found += (x[i + k] == best) | (x[i + k] != x[i + k]);                              \
            if (found)                                                                             \
                break;                                                                             \
        }                                                                                          \
        while (x[i] != best && x[i] == x[i])                                                       \
            i++;                                                                                   \
        *(T *)to = (T){at + i, best};                                                              \
    }

typedef struct where_f64 {
    int64_t index;
    double value;
} where_f64;

typedef struct where_i64 {
    int64_t index, value;
} where_i64;

#define ELEMENT(x)      (x)
#define AT(x, at)       (at)
#define VALUE_OF(x)     ((x).value)
#define INDEX_OF(x, at) ((x).index)

WHERE(argmax_f32, where_f64, float, ELEMENT, AT, >)
WHERE(argmin_f32, where_f64, float, ELEMENT, AT, <)
WHERE(argmax_f64, where_f64, double, ELEMENT, AT, >)
WHERE(argmax_i64, where_i64, int64_t, ELEMENT, AT, >)
WHERE(argmin_f64, where_f64, double, ELEMENT, AT, <)
WHERE(argmin_i64, where_i64, int64_t, ELEMENT, AT, <)
WHERE(again_max_f64, where_f64, where_f64, VALUE_OF, INDEX_OF, >)
WHERE(again_max_i64, where_i64, where_i64, VALUE_OF, INDEX_OF, >)
WHERE(again_min_f64, where_f64, where_f64, VALUE_OF, INDEX_OF, <)
WHERE(again_min_i64, where_i64, where_i64, VALUE_OF, INDEX_OF, <)
WHERE_RUN(argmax_f32, where_f64, float, max_f32_run)
WHERE_RUN(argmin_f32, where_f64, float, min_f32_run)
WHERE_RUN(argmax_f64, where_f64, double, max_f64_run)
WHERE_RUN(argmin_f64, where_f64, double, min_f64_run)
WHERE_RUN(argmax_i64, where_i64, int64_t, max_i64_run)
WHERE_RUN(argmin_i64, where_i64, int64_t, min_i64_run)
WHERE_AGAIN(again_max_f64, where_f64)
WHERE_AGAIN(again_max_i64, where_i64)
WHERE_AGAIN(again_min_f64, where_f64)
WHERE_AGAIN(again_min_i64, where_i64)

/* ---- The choice of a loop ---- */

#define LOOP(name, type, W, fold, next)                                                            \
    static const loop name = {type, sizeof(W), name##_run, name##_row, fold, &(next)}

LOOP(sum_f64, KV_FLOAT64, double, fold_f64, sum_f64);
LOOP(sum_f32, KV_FLOAT32, double, fold_f64, sum_f64);
LOOP(sum_i64, KV_INT64, uint64_t, fold_i64, sum_i64);
LOOP(sum_i32, KV_INT32, uint64_t, fold_i64, sum_i64);
LOOP(sum_bool, KV_BOOL, uint64_t, fold_i64, sum_i64);
LOOP(squares_f64, KV_FLOAT64, double, fold_f64, sum_f64);
LOOP(squares_f32, KV_FLOAT32, double, fold_f64, sum_f64);
LOOP(products_f64, KV_FLOAT64, double, fold_f64, sum_f64);
LOOP(products_f32, KV_FLOAT32, double, fold_f64, sum_f64);
LOOP(products_i64, KV_INT64, uint64_t, fold_i64, sum_i64);
LOOP(max_f32, KV_FLOAT32, float, NULL, max_f32);
LOOP(max_f64, KV_FLOAT64, double, NULL, max_f64);
LOOP(max_i64, KV_INT64, int64_t, NULL, max_i64);
LOOP(min_f32, KV_FLOAT32, float, NULL, min_f32);
LOOP(min_f64, KV_FLOAT64, double, NULL, min_f64);
LOOP(min_i64, KV_INT64, int64_t, NULL, min_i64);
LOOP(deviations_f64, KV_FLOAT64, double, fold_f64, sum_f64);
LOOP(deviations_f32, KV_FLOAT32, double, fold_f64, sum_f64);
LOOP(prod_f64, KV_FLOAT64, double, NULL, prod_f64);
LOOP(prod_f32, KV_FLOAT32, double, NULL, prod_f64);
LOOP(prod_i64, KV_INT64, uint64_t, NULL, prod_i64);
LOOP(again_max_f64, KV_FLOAT64, where_f64, NULL, again_max_f64);
LOOP(again_max_i64, KV_INT64, where_i64, NULL, again_max_i64);
LOOP(again_min_f64, KV_FLOAT64, where_f64, NULL, again_min_f64);
LOOP(again_min_i64, KV_INT64, where_i64, NULL, again_min_i64);
LOOP(argmax_f32, KV_FLOAT32, where_f64, NULL, again_max_f64);
LOOP(argmin_f32, KV_FLOAT32, where_f64, NULL, again_min_f64);
LOOP(argmax_f64, KV_FLOAT64, where_f64, NULL, again_max_f64);
LOOP(argmax_i64, KV_INT64, where_i64, NULL, again_max_i64);
LOOP(argmin_f64, KV_FLOAT64, where_f64, NULL, again_min_f64);
LOOP(argmin_i64, KV_INT64, where_i64, NULL, again_min_i64);

enum { F32, F64, I64 };

static const loop *const loops[][3] = {
    [REDUCE_SUM] = {&sum_f32, &sum_f64, &sum_i64},
    [REDUCE_PROD] = {&prod_f32, &prod_f64, &prod_i64},
    [REDUCE_MEAN] = {&sum_f32, &sum_f64, &sum_f64},
    [REDUCE_VAR] = {&deviations_f32, &deviations_f64, &deviations_f64},
    [REDUCE_STD] = {&deviations_f32, &deviations_f64, &deviations_f64},
    [REDUCE_NORM] = {&squares_f32, &squares_f64, &squares_f64},
    [REDUCE_ANY] = {NULL, NULL, &sum_bool},
    [REDUCE_ALL] = {NULL, NULL, &sum_bool},
    [REDUCE_MAX] = {&max_f32, &max_f64, &max_i64},
    [REDUCE_MIN] = {&min_f32, &min_f64, &min_i64},
    [REDUCE_ARGMAX] = {&argmax_f32, &argmax_f64, &argmax_i64},
    [REDUCE_ARGMIN] = {&argmin_f32, &argmin_f64, &argmin_i64},
};

static const loop *loop_for(reduce_op op, kv_dtype dtype)
{
    if (op == REDUCE_SUM && (dtype == KV_INT32 || dtype == KV_BOOL))
        return dtype == KV_BOOL ? &sum_bool : &sum_i32;
    return loops[op][dtype == KV_FLOAT64 ? F64 : kv_dtype_is_float(dtype) ? F32 : I64];
}

const char *reduce_name(reduce_op op)
{
    static const char *const names[] = {"sum", "prod", "mean", "var", "std",    "norm",
                                        "any", "all",  "max",  "min", "argmax", "argmin"};
    return names[op];
}

/* Returns true for what counts elements that are not 0. */
static bool asks_truth(reduce_op op)
{
    return op == REDUCE_ANY || op == REDUCE_ALL;
}

static kv_dtype result_dtype(reduce_op op, kv_dtype dtype)
{
    if (op == REDUCE_MAX || op == REDUCE_MIN)
        return dtype;
    if (asks_truth(op))
        return KV_BOOL;
    if (op == REDUCE_ARGMAX || op == REDUCE_ARGMIN)
        return KV_INT64;
    if (kv_dtype_is_float(dtype))
        return dtype;
    return op == REDUCE_SUM || op == REDUCE_PROD ? KV_INT64 : KV_FLOAT32;
}

/* ---- The two ways through memory ---- */

/* One pass: partial results of blocks, in the order (outer, blocks, inner). */
typedef struct pass {
    const loop *loop;
    const char *src, *other; /* other: the second factor, of n elements */
    const double *means;     /* (optional) outer * inner, for loops that need them */
    int64_t bytes; /* of an element at src */
    kv_dtype from; /* its dtype; converted to loop->read unless it is that or a partial result */
    bool converts;
    int64_t outer, n, inner, blocks;
    char *to;
    int64_t columns, each; /* pieces of ROW columns; pieces of work that a thread takes at once */
} pass;

/* n elements of the source from number i on, as the loop reads them: in place, or in scratch. */
static const void *widened(const pass *p, int64_t i, int64_t n, void *scratch)
{
    const char *x = p->src + i * p->bytes;
    if (!p->converts)
        return x;
    convert_elements(scratch, p->loop->read, x, p->from, n);
    return scratch;
}

static void reduce_run(const pass *p, int64_t o, int64_t b, int64_t n)
{
    uint64_t scratch[REDUCE_BLOCK];
    int64_t at = b * REDUCE_BLOCK;
    const void *x = widened(p, o * p->n + at, n, scratch);
    const void *y = p->other ? p->other + at * p->bytes : x;
    if (p->means)
        y = p->means + o;
    p->loop->run(p->to + (o * p->blocks + b) * p->loop->bytes, x, y, n, at);
}

/* w columns from column c on. When these are all, and few, the rows of LANES lanes lie one behind
 * the other and are taken at once. Else lane by lane, so that the sums stay in the L1 cache. */
static void reduce_rows(const pass *p, int64_t o, int64_t b, int64_t n, int64_t c, int64_t w)
{
    uint64_t scratch[LANES * NARROW], lanes[LANES * ROW];
    int64_t at = b * REDUCE_BLOCK, bytes = p->loop->bytes, first = (o * p->n + at) * p->inner + c;
    const double *means = p->means ? p->means + o * p->inner + c : NULL;
    int64_t whole = p->loop->fold ? n - n % LANES : 0; /* rows that go to lanes */
    bool together = w == p->inner && w <= NARROW && !means;
    for (int64_t i = 0; i < whole && together; i += LANES)
        p->loop->row(lanes, widened(p, first + i * p->inner, LANES * w, scratch), NULL, LANES * w,
                     i == 0, at + i);
    for (int64_t lane = 0; lane < LANES && !together; lane++)
        for (int64_t i = lane; i < whole; i += LANES)
            p->loop->row((char *)lanes + lane * w * bytes,
                         widened(p, first + i * p->inner, w, scratch), means, w, i < LANES, at + i);
    if (whole)
        p->loop->fold(lanes, w);
    for (int64_t i = whole; i < n; i++)
        p->loop->row(lanes, widened(p, first + i * p->inner, w, scratch), means, w, i == 0, at + i);
    memcpy(p->to + ((o * p->blocks + b) * p->inner + c) * bytes, lanes, (size_t)(w * bytes));
}

static int run_part(void *arg, int64_t part, int worker, kv_err *e)
{
    const pass *p = arg;
    int64_t at = part * p->each, all = p->outer * p->blocks * p->columns;
    int64_t c = at % p->columns, b = at / p->columns % p->blocks, o = at / p->columns / p->blocks;
    (void)worker, (void)e;
    for (int64_t left = at_most(all - at, p->each); left > 0; left--) {
        int64_t n = at_most(p->n - b * REDUCE_BLOCK, REDUCE_BLOCK);
        if (p->inner == 1)
            reduce_run(p, o, b, n);
        else
            reduce_rows(p, o, b, n, c * ROW, at_most(p->inner - c * ROW, ROW));
        if (++c == p->columns) {
            c = 0;
            o += ++b == p->blocks;
            b = b == p->blocks ? 0 : b;
        }
    }
    return KV_OK;
}

/* Runs p into a new block. Errors: memory, interrupted. */
static int run_pass(pass *p, kv_err *e)
{
    int64_t results = p->outer * p->inner;
    int64_t size = at_most(p->n, REDUCE_BLOCK) * at_most(p->inner, ROW);
    p->blocks = (p->n + REDUCE_BLOCK - 1) / REDUCE_BLOCK;
    p->columns = (p->inner + ROW - 1) / ROW;
    p->each = size < STOP_EVERY ? STOP_EVERY / size : 1;
    p->to = mem_alloc(results * p->blocks, (size_t)p->loop->bytes, e);
    if (!p->to)
        return KV_E_MEMORY;
    return pool_each((p->outer * p->blocks * p->columns + p->each - 1) / p->each, run_part, p, e);
}

/* The results of a pass and of those behind it, in *made: outer * inner of loop->bytes. */
static int run_passes(pass p, void **made, kv_err *e)
{
    char *before = NULL;
    int rc = run_pass(&p, e);
    while (!rc && p.blocks > 1) {
        mem_free(before);
        before = p.to;
        p = (pass){.loop = p.loop->again,
                   .src = before,
                   .bytes = p.loop->bytes,
                   .outer = p.outer,
                   .n = p.blocks,
                   .inner = p.inner};
        rc = run_pass(&p, e);
    }
    mem_free(before);
    if (rc)
        mem_free(p.to);
    else
        *made = p.to;
    return rc;
}

/* Makes n results of what the passes gave, which it changes, and of the count of their elements. */
static void finish(reduce_op op, void *dst, kv_dtype to, const loop *l, char *from, int64_t n,
                   int64_t count, double ddof)
{
    double *d = (double *)(void *)from, divisor = (double)count;
    const int64_t *whole = (const int64_t *)(const void *)from;
    if (op == REDUCE_ARGMAX || op == REDUCE_ARGMIN) {
        for (int64_t i = 0; i < n; i++)
            memcpy((int64_t *)dst + i, from + i * l->bytes, sizeof(int64_t));
        return;
    }
    if (asks_truth(op)) {
        for (int64_t i = 0; i < n; i++)
            ((bool *)dst)[i] = op == REDUCE_ANY ? whole[i] > 0 : whole[i] == count;
        return;
    }
    if (op == REDUCE_VAR || op == REDUCE_STD)
        divisor = divisor > ddof ? divisor - ddof : 0;
    for (int64_t i = 0; i < n && op >= REDUCE_MEAN && op <= REDUCE_STD; i++)
        d[i] /= divisor;
    for (int64_t i = 0; i < n && (op == REDUCE_STD || op == REDUCE_NORM); i++)
        d[i] = sqrt(d[i]);
    convert_elements(dst, to, from, l->again->read, n);
}

int reduce_products(void *to, const void *a, const void *b, kv_dtype dtype, int64_t n,
                    int64_t depth, kv_err *e)
{
    const loop *l = dtype == KV_FLOAT32   ? &products_f32
                    : dtype == KV_FLOAT64 ? &products_f64
                                          : &products_i64;
    pass p = {.loop = l,
              .src = a,
              .other = b,
              .bytes = kv_dtype_bytes(dtype),
              .outer = n,
              .n = depth,
              .inner = 1};
    own_mem void *sums = NULL;
    int rc = depth > 0                                   ? run_passes(p, &sums, e)
             : (sums = mem_zalloc(n, sizeof(double), e)) ? KV_OK
                                                         : KV_E_MEMORY;
    if (!rc)
        convert_elements(to, dtype, sums, l->again->read, n);
    return rc;
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
    TRY(arrange_transpose(&moved, a, order, ndim, e));
    shape[kept] = n;
    int rc = arrange_reshape(out, moved, kept + 1, shape, e);
    kv_array_unref(moved);
    return rc;
}

/* The job of a reduction: a as (outer, n, inner), and the shape of the result. */
typedef struct layout {
    int64_t outer, n, inner;
    int ndim;
    int64_t shape[KV_MAX_NDIM];
} layout;

/* Partial results of all passes over src: zeros, or ones, where there is no element. */
static int make_sums(void **sums, pass p, reduce_op op, kv_err *e)
{
    int64_t results = p.outer * p.inner;
    if (p.n > 0)
        return run_passes(p, sums, e);
    if (!(*sums = mem_zalloc(results, (size_t)p.loop->bytes, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < results && op == REDUCE_PROD; i++) {
        if (p.loop->read == KV_INT64)
            ((int64_t *)*sums)[i] = 1;
        else
            ((double *)*sums)[i] = 1;
    }
    return KV_OK;
}

/* The means of all results, for the deviations from them. */
static int make_means(void **means, pass p, kv_err *e)
{
    p.loop = loop_for(REDUCE_MEAN, p.from);
    int rc = make_sums(means, p, REDUCE_MEAN, e);
    double *d = *means;
    for (int64_t i = 0; i < p.outer * p.inner && !rc; i++)
        d[i] /= (double)p.n;
    return rc;
}

static int reduce_job(kv_array **out, kv_array *a, reduce_op op, const layout *l, double ddof,
                      kv_err *e)
{
    own_array *made = NULL;
    own_mem void *sums = NULL, *means = NULL;
    const void *src;
    void *dst;
    kv_dtype to = result_dtype(op, kv_array_dtype(a));
    TRY(array_make(&made, &dst, to, l->ndim, l->shape, kv_array_ctx(a), e));
    int64_t results = kv_array_size(made);
    if (results && l->n == 0 && op >= REDUCE_MAX)
        return kv_err_set(e, KV_E_VALUE, "%s() of no elements has no value", reduce_name(op));
    pass p = {.loop = loop_for(op, kv_array_dtype(a)),
              .from = kv_array_dtype(a),
              .bytes = kv_dtype_bytes(kv_array_dtype(a)),
              .outer = l->outer,
              .n = l->n,
              .inner = l->inner};
    p.converts = p.from != p.loop->read;
    TRY(kv_array_read(a, &src, e));
    if (!results)
        return array_hand_out(out, &made);
    p.src = src;
    if (op == REDUCE_VAR || op == REDUCE_STD)
        TRY(make_means(&means, p, e));
    p.means = means;
    TRY(make_sums(&sums, p, op, e));
    for (int64_t i = 0, n; i < results; i += n) {
        n = at_most(results - i, STOP_EVERY);
        TRY(stop_check(e));
        finish(op, (char *)dst + i * kv_dtype_bytes(to), to, p.loop,
               (char *)sums + i * p.loop->bytes, n, p.n, ddof);
    }
    return array_hand_out(out, &made);
}

static int64_t product(const int64_t *shape, int from, int to)
{
    uint64_t n = 1;
    for (int i = from; i < to; i++)
        n *= (uint64_t)shape[i];
    return (int64_t)n;
}

/* The axes that are reduced, all where axes is NULL; *axis: one of them. */
static int find_axes(bool *reduced, int *axis, int ndim, const int64_t *axes, int naxes, kv_err *e)
{
    for (int i = 0; i < ndim && !axes; i++)
        reduced[i] = true;
    for (int i = 0; i < naxes && axes; i++) {
        int64_t at = axes[i];
        TRY(arrange_axis(&at, ndim, e));
        if (reduced[at])
            return kv_err_set(e, KV_E_VALUE, "axis %lld is named twice", (long long)axes[i]);
        reduced[at] = true;
        *axis = (int)at;
    }
    return KV_OK;
}

/* a is of bool where the truth of elements is asked. */
static int reduce_axes(kv_array **out, kv_array *a, reduce_op op, const int64_t *axes, int naxes,
                       const reduce_how *how, kv_err *e)
{
    int ndim = kv_array_ndim(a), axis = 0;
    bool reduced[KV_MAX_NDIM] = {false}, keepdims = how && how->keepdims;
    const int64_t *sizes = kv_array_shape(a);
    double ddof = how ? how->ddof : 0;
    layout l = {.outer = 1, .inner = 1};
    TRY(find_axes(reduced, &axis, ndim, axes, naxes, e));
    for (int i = 0; i < ndim; i++)
        if (!reduced[i] || keepdims)
            l.shape[l.ndim++] = reduced[i] ? 1 : sizes[i];
    if (!axes) {
        l.n = kv_array_size(a);
        return reduce_job(out, a, op, &l, ddof, e);
    }
    if (naxes == 0) {
        l.outer = kv_array_size(a);
        l.n = 1;
        return reduce_job(out, a, op, &l, ddof, e);
    }
    if (naxes == 1) {
        l.outer = product(sizes, 0, axis);
        l.n = sizes[axis];
        l.inner = product(sizes, axis + 1, ndim);
        return reduce_job(out, a, op, &l, ddof, e);
    }
    kv_array *moved;
    TRY(gather_axes(&moved, a, reduced, e));
    int last = kv_array_ndim(moved) - 1;
    l.outer = product(kv_array_shape(moved), 0, last);
    l.n = kv_array_shape(moved)[last];
    int rc = reduce_job(out, moved, op, &l, ddof, e);
    kv_array_unref(moved);
    return rc;
}

/* ---- The ends of float64 --------------------------------------------------------------------- */

/* Powers of two that keep squares, and sums of 2^63 elements, within the range of float64. */
enum { FAR = 600, NEAR = 500 };

/* The power of two that the elements behind a result are scaled by, so that nothing in between
 * overflows or vanishes; 0: the result stands. */
static int far_by(reduce_op op, double x)
{
    bool root = op == REDUCE_STD || op == REDUCE_NORM;
    return !isfinite(x) ? -FAR : root && fabs(x) < ldexp(1, -NEAR) ? FAR : 0;
}

/* Replaces the results of `made` that want the scale 2^by by those of a * 2^by, which is exact. */
static int reduce_scaled(kv_array *made, kv_array *a, int by, reduce_op op, const int64_t *axes,
                         int naxes, const reduce_how *how, kv_err *e)
{
    own_array *scaled = NULL, *again = NULL;
    const void *from;
    void *to;
    int64_t n = kv_array_size(a);
    TRY(array_make(&scaled, &to, KV_FLOAT64, kv_array_ndim(a), kv_array_shape(a), kv_array_ctx(a),
                   e));
    TRY(kv_array_read(a, &from, e));
    for (int64_t i = 0; i < n; i++) {
        TRY(stop_check_at(i, e));
        ((double *)to)[i] = ((const double *)from)[i] * ldexp(1, by);
    }
    TRY(reduce_axes(&again, scaled, op, axes, naxes, how, e));
    TRY(kv_array_read(again, &from, e));
    TRY(kv_array_write(made, &to, e));
    for (int64_t i = 0; i < kv_array_size(made); i++) {
        double *x = (double *)to + i, y = ((const double *)from)[i];
        if (far_by(op, *x) == by && isfinite(y))
            *x = ldexp(y, op == REDUCE_VAR ? -2 * by : -by);
    }
    return KV_OK;
}

/* Makes results again whose sums, or sums of squares, left the range of float64 in between. */
static int mend_far(kv_array *made, kv_array *a, reduce_op op, const int64_t *axes, int naxes,
                    const reduce_how *how, kv_err *e)
{
    const void *data;
    bool over = false, under = false;
    TRY(kv_array_read(made, &data, e));
    for (int64_t i = 0; i < kv_array_size(made); i++) {
        int by = far_by(op, ((const double *)data)[i]);
        over |= by < 0;
        under |= by > 0;
    }
    TRY(over ? reduce_scaled(made, a, -FAR, op, axes, naxes, how, e) : KV_OK);
    return under ? reduce_scaled(made, a, FAR, op, axes, naxes, how, e) : KV_OK;
}

int reduce_array(kv_array **out, kv_array *a, reduce_op op, const int64_t *axes, int naxes,
                 const reduce_how *how, kv_err *e)
{
    own_array *truth = NULL;
    if (!asks_truth(op) || kv_array_dtype(a) == KV_BOOL) {
        int rc = reduce_axes(out, a, op, axes, naxes, how, e);
        if (rc || kv_array_dtype(a) != KV_FLOAT64 || op < REDUCE_MEAN || op > REDUCE_NORM ||
            !(rc = mend_far(*out, a, op, axes, naxes, how, e)))
            return rc;
        kv_array_unref(*out);
        *out = NULL;
        return rc;
    }
    TRY(arrange_copy(&truth, a, KV_BOOL, kv_array_ctx(a), e));
    return reduce_axes(out, truth, op, axes, naxes, how, e);
}
