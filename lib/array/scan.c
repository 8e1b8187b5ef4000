/* Running sums. A line is cut into pieces: their sums are made side by side, and then each piece,
 * which begins with the sum of those before it. Where an axis is not the last one, some columns are
 * taken together, row by row. */
#include "array/reduce.h"

#include <stddef.h>

#include "array/arrange.h"
#include "array/device.h"
#include "base/mem.h"
#include "base/stop.h"
#include "cpu/cpu.h"
#include "engine/pool.h"

/* Elements that are converted together; columns that are; elements of a piece of a line; sums of a
 * piece that run side by side. */
enum { BLOCK = 512, COLUMNS = 128, PIECE = STOP_EVERY, LANES = 8 };

typedef union number {
    double f;
    uint64_t i;
} number;

typedef struct scan_job {
    const char *from;
    char *to;
    kv_dtype dtype, out, wide; /* wide: float64, or int64, which wraps */
    int64_t n, inner;
    int64_t lines, pieces; /* lines of n elements, and pieces of one, when inner is 1 */
    int64_t columns; /* groups of columns, when it is more */
    number *carry;         /* of each piece: its sum, then that of those before it */
} scan_job;

static void widen(const scan_job *j, void *to, int64_t i, int64_t n)
{
    convert_elements(to, j->wide, j->from + i * kv_dtype_bytes(j->dtype), j->dtype, n);
}

static void narrow(const scan_job *j, int64_t i, const void *from, int64_t n)
{
    convert_elements(j->to + i * kv_dtype_bytes(j->out), j->out, from, j->wide, n);
}

#define SUMS(name, T, member)                                                                      \
    static void name##_total(number *sum, const void *from, int64_t n)                             \
    {                                                                                              \
        const T *x = from;                                                                         \
        T lane[LANES] = {0};                                                                       \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= n; i += LANES)                                                         \
            for (int k = 0; k < LANES; k++)                                                        \
                lane[k] += x[i + k];                                                               \
        for (; i < n; i++)                                                                         \
            lane[0] += x[i];                                                                       \
        for (int k = 0; k < LANES; k++)                                                            \
            sum->member += lane[k];                                                                \
    }                                                                                              \
    static void name##_run(number *sum, void *from, int64_t n)                                     \
    {                                                                                              \
        T *x = from, all = sum->member;                                                            \
        for (int64_t i = 0; i < n; i++)                                                            \
            x[i] = all += x[i];                                                                    \
        sum->member = all;                                                                         \
    }                                                                                              \
    static void name##_row(void *sums, const void *from, int64_t n)                                \
    {                                                                                              \
        T *restrict sum = sums;                                                                    \
        const T *restrict x = from;                                                                \
        for (int64_t c = 0; c < n; c++)                                                            \
            sum[c] += x[c];                                                                        \
    }

SUMS(f64, double, f)
SUMS(i64, uint64_t, i)

/* Sums a piece of a line. */
static int total_piece(void *arg, int64_t part, int worker, kv_err *e)
{
    scan_job *j = arg;
    number block[BLOCK];
    int64_t begin = part % j->pieces * PIECE, end = at_most(j->n, begin + PIECE);
    int64_t line = part / j->pieces * j->n;
    (void)worker, (void)e;
    for (int64_t i = begin, n; i < end; i += n) {
        n = at_most(end - i, BLOCK);
        widen(j, block, line + i, n);
        (j->wide == KV_FLOAT64 ? f64_total : i64_total)(&j->carry[part], block, n);
    }
    return KV_OK;
}

static void run_piece(const scan_job *j, int64_t part)
{
    number block[BLOCK], sum = j->carry ? j->carry[part] : (number){0};
    int64_t begin = part % j->pieces * PIECE, end = at_most(j->n, begin + PIECE);
    int64_t line = part / j->pieces * j->n;
    for (int64_t i = begin, n; i < end; i += n) {
        n = at_most(end - i, BLOCK);
        widen(j, block, line + i, n);
        (j->wide == KV_FLOAT64 ? f64_run : i64_run)(&sum, block, n);
        narrow(j, line + i, block, n);
    }
}

/* One piece, or of short lines as many as make one. */
static int run_pieces(void *arg, int64_t part, int worker, kv_err *e)
{
    scan_job *j = arg;
    int64_t each = j->n < PIECE ? PIECE / j->n : 1, all = j->lines * j->pieces;
    (void)worker, (void)e;
    for (int64_t i = part * each; i < all && i < (part + 1) * each; i++)
        run_piece(j, i);
    return KV_OK;
}

/* A group of columns, from the first row to the last. */
static int run_columns(void *arg, int64_t part, int worker, kv_err *e)
{
    scan_job *j = arg;
    number sums[COLUMNS] = {{0}}, row[COLUMNS];
    int64_t c = part % j->columns * COLUMNS, w = at_most(j->inner - c, COLUMNS);
    (void)worker;
    for (int64_t i = 0; i < j->n; i++) {
        int64_t at = (part / j->columns * j->n + i) * j->inner + c;
        TRY(i % (STOP_EVERY / COLUMNS) ? KV_OK : stop_check(e));
        widen(j, row, at, w);
        (j->wide == KV_FLOAT64 ? f64_row : i64_row)(sums, row, w);
        narrow(j, at, sums, w);
    }
    return KV_OK;
}

static int scan_lines(scan_job *j, kv_err *e)
{
    int64_t each = j->n < PIECE ? PIECE / j->n : 1;
    own_mem number *carry = NULL;
    j->pieces = (j->n + PIECE - 1) / PIECE;
    if (j->pieces > 1) {
        if (!(carry = j->carry = mem_zalloc(j->lines * j->pieces, sizeof *j->carry, e)))
            return KV_E_MEMORY;
        TRY(pool_each(j->lines * j->pieces, total_piece, j, e));
        number sum = {0}, own;
        for (int64_t i = 0; i < j->lines * j->pieces; i++) {
            if (i % j->pieces == 0)
                sum = (number){0};
            own = j->carry[i];
            j->carry[i] = sum;
            (j->wide == KV_FLOAT64 ? f64_run : i64_run)(&sum, &own, 1);
        }
    }
    return pool_each((j->lines * j->pieces + each - 1) / each, run_pieces, j, e);
}

int scan_sum(kv_array **out, kv_array *a, int64_t axis, kv_dtype to, kv_err *e)
{
    int ndim = kv_array_ndim(a);
    int64_t outer = 1;
    const void *src;
    void *dst;
    own_array *made = NULL;
    scan_job j = {.dtype = kv_array_dtype(a), .out = to, .n = 1, .inner = 1};
    j.wide = kv_dtype_is_float(to) ? KV_FLOAT64 : KV_INT64;
    TRY(ndim ? arrange_axis(&axis, ndim, e) : KV_OK);
    TRY(kv_array_read(a, &src, e));
    TRY(array_make(&made, &dst, to, ndim, kv_array_shape(a), kv_array_ctx(a), e));
    if (kv_array_size(a) == 0)
        return array_hand_out(out, &made);
    j.from = src;
    j.to = dst;
    for (int i = 0; i < ndim; i++)
        *(i < axis ? &outer : i == axis ? &j.n : &j.inner) *= kv_array_shape(a)[i];
    j.columns = (j.inner + COLUMNS - 1) / COLUMNS;
    j.lines = outer;
    TRY(j.inner > 1 ? pool_each(outer * j.columns, run_columns, &j, e) : scan_lines(&j, e));
    return array_hand_out(out, &made);
}
