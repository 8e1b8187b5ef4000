/* Statistics: blocks of a piece are decoded to float32 or float64, whichever holds the numbers of
 * the type, and added to lanes; pieces are joined. */
#include "tensors/tensor_stat.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/tensor_codec.h"
#include "tensors/number_loops.h"
#include "tensors/walk.h"

/* The statistics of a piece, or of several joined. */
typedef struct part {
    int64_t finite, zeros, nan, inf;
    double low, high;
    double sum;
    double near, rest; /* the mean is their sum, which need not have the digits of rest */
    double squares;    /* the sum of squares of deviations from the mean */
    /* The four are scaled. */
    uint64_t low_bits, high_bits; /* of I64 and U64, whose numbers are not all in low and high */
} part;

typedef struct stats {
    checkpoint *c;
    const int64_t *tensors;
    const double *scale; /* of each tensor, a power of 2; NULL: 1 */
    tensor_stat *out;
} stats;

/* A piece while it is added up. */
typedef struct adding {
    part p;
    stat_lanes lanes;
    bool has_near;
    double near, scale;
    union {
        float f32[STAT_BLOCK];
        double f64[STAT_BLOCK];
    } clean;
} adding;

bool tensor_stat_can(tensor_type t)
{
    kv_dtype unused;
    return tensor_type_dtype(t, &unused);
}

/* ---- A piece --------------------------------------------------------------------------------- */

/* A block of float32, or of float64 when wide: what is not finite, and what is missing in the last
 * lanes, becomes `near`, which changes neither sums nor range. */
static void add_cleaned(adding *a, const void *x, int64_t n, bool wide)
{
    int64_t nan = 0, inf = 0, lanes = (n + STAT_LANES - 1) / STAT_LANES * STAT_LANES;
    double near = a->has_near ? a->near : 0;
    if (wide)
        stat_clean_f64(a->clean.f64, x, n, near, &nan, &inf);
    else
        stat_clean_f32(a->clean.f32, x, n, (float)near, &nan, &inf);
    a->p.nan += nan;
    a->p.inf += inf;
    if (!a->has_near)
        return;
    for (int64_t i = n; i < lanes && wide; i++)
        a->clean.f64[i] = near;
    for (int64_t i = n; i < lanes && !wide; i++)
        a->clean.f32[i] = (float)near;
    if (wide)
        stat_add_f64(&a->lanes, a->clean.f64, lanes, near * a->scale, a->scale);
    else
        stat_add_f32(&a->lanes, a->clean.f32, lanes, near);
    a->p.finite += n - nan - inf;
    if (near == 0)
        a->lanes.zeros -= nan + inf + lanes - n;
}

/* float32 that may be not finite: whether they are shows in the sums, without a loop of its own. */
static bool add_f32(adding *a, const float *x, int64_t n)
{
    stat_lanes before = a->lanes;
    double squares = 0;
    stat_add_f32(&a->lanes, x, n, a->near);
    for (int j = 0; j < STAT_LANES; j++)
        squares += a->lanes.squares[j];
    if (!isfinite(squares))
        a->lanes = before;
    return isfinite(squares);
}

/* A block of BF16, without a copy. False: it is one to decode. */
static bool add_bf16(adding *a, const void *codes, int64_t n)
{
    float low, high, first;
    int64_t zeros;
    if (n % STAT_LANES != 0 || !stat_range_bf16(&low, &high, &zeros, codes, n))
        return false;
    if (!a->has_near) {
        tensor_decode_f32(&first, TENSOR_BF16, codes, 1);
        a->near = first;
        a->has_near = true;
    }
    stat_add_bf16(&a->lanes, codes, n, a->near);
    a->lanes.lowest = low < a->lanes.lowest ? low : a->lanes.lowest;
    a->lanes.highest = high > a->lanes.highest ? high : a->lanes.highest;
    a->lanes.zeros += zeros;
    a->p.finite += n;
    return true;
}

static void end_piece(adding *a)
{
    part *p = &a->p;
    double n = (double)p->finite, sum = stat_total(a->lanes.sum);
    p->zeros = a->lanes.zeros;
    p->low = a->lanes.lowest;
    p->high = a->lanes.highest;
    if (p->finite == 0)
        return;
    p->near = a->near * a->scale;
    p->sum = p->near * n + sum; /* exact for small integers, as the sum of deviations is */
    p->rest = sum / n;
    p->squares = stat_total(a->lanes.squares) - sum * (sum / n);
    if (p->squares < 0)
        p->squares = 0;
}

/* The exact range of a block of 64-bit integers. */
static void add_range(part *p, tensor_type t, const void *data, int64_t n, bool first)
{
    if (t == TENSOR_I64) {
        int64_t x[STAT_BLOCK], low, high, old_low = (int64_t)p->low_bits,
                                          old_high = (int64_t)p->high_bits;
        memcpy(x, data, (size_t)n * sizeof *x);
        stat_range_i64(&low, &high, x, n);
        p->low_bits = (uint64_t)(first || low < old_low ? low : old_low);
        p->high_bits = (uint64_t)(first || high > old_high ? high : old_high);
    } else {
        uint64_t x[STAT_BLOCK], low, high;
        memcpy(x, data, (size_t)n * sizeof *x);
        stat_range_u64(&low, &high, x, n);
        p->low_bits = first || low < p->low_bits ? low : p->low_bits;
        p->high_bits = first || high > p->high_bits ? high : p->high_bits;
    }
}

/* n elements at data, a block or less. */
static void add_data(adding *a, tensor_type t, const void *data, int64_t n, bool first)
{
    union {
        float f32[STAT_BLOCK];
        double f64[STAT_BLOCK];
    } numbers;
    bool wide = !tensor_fits_f32(t);
    const void *x = &numbers;
    if (t == TENSOR_BF16 && add_bf16(a, data, n))
        return;
    if ((t == TENSOR_F32 || t == TENSOR_F64) && (uintptr_t)data % (wide ? 8 : 4) == 0)
        x = data;
    else if (wide)
        tensor_decode_f64(numbers.f64, t, data, n);
    else
        tensor_decode_f32(numbers.f32, t, data, n);
    if (t == TENSOR_I64 || t == TENSOR_U64)
        add_range(&a->p, t, data, n, first);
    if (!a->has_near) {
        /* The first finite element is what deviations are taken from. */
        for (int64_t i = 0; i < n && !a->has_near; i++) {
            a->near = wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
            a->has_near = isfinite(a->near);
        }
    }
    bool whole = a->has_near && n % STAT_LANES == 0;
    if (whole && wide && (whole = stat_finite_f64(x, n)))
        stat_add_f64(&a->lanes, x, n, a->near * a->scale, a->scale);
    else if (whole)
        whole = add_f32(a, x, n);
    if (whole)
        a->p.finite += n;
    else
        add_cleaned(a, x, n, wide);
}

static int add_piece(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    const stats *s = arg;
    const tensor_info *t = checkpoint_at(s->c, s->tensors[p->tensor]);
    adding a;
    (void)worker, (void)e;
    memset(&a.p, 0, sizeof a.p);
    a.lanes = (stat_lanes){.lowest = INFINITY, .highest = -INFINITY};
    a.has_near = false;
    a.near = 0;
    a.scale = s->scale ? s->scale[p->tensor] : 1;
    for (int64_t i = 0; i < p->n; i += STAT_BLOCK) {
        int64_t n = p->n - i < STAT_BLOCK ? p->n - i : STAT_BLOCK;
        add_data(&a, t->type, (const char *)p->data[0] + tensor_type_bytes(t->type, i), n, i == 0);
    }
    end_piece(&a);
    *(part *)p->result = a.p;
    return KV_OK;
}

/* ---- A tensor -------------------------------------------------------------------------------- */

static void join(part *a, const part *b, tensor_type t)
{
    double na = (double)a->finite, nb = (double)b->finite;
    double apart = (b->near - a->near) + (b->rest - a->rest);
    a->zeros += b->zeros;
    a->nan += b->nan;
    a->inf += b->inf;
    a->low = b->low < a->low ? b->low : a->low;
    a->high = b->high > a->high ? b->high : a->high;
    bool is_signed = t == TENSOR_I64;
    if (is_signed ? (int64_t)b->low_bits < (int64_t)a->low_bits : b->low_bits < a->low_bits)
        a->low_bits = b->low_bits;
    if (is_signed ? (int64_t)b->high_bits > (int64_t)a->high_bits : b->high_bits > a->high_bits)
        a->high_bits = b->high_bits;
    a->finite += b->finite;
    a->sum += b->sum;
    if (b->finite == 0)
        return;
    if (na == 0) {
        a->near = b->near;
        a->rest = b->rest;
        a->squares = b->squares;
        return;
    }
    a->rest += apart * (nb / (na + nb));
    a->squares += b->squares + apart * apart * (na * (nb / (na + nb)));
}

/* An element; x is its value unless it is a 64-bit integer. */
static stat_number number_of(tensor_type t, double x, uint64_t bits)
{
    if (!tensor_type_is_integer(t))
        return (stat_number){.x = x + 0.0}; /* not -0: which of both comes first depends on lanes */
    if (t != TENSOR_I64 && t != TENSOR_U64)
        bits = (uint64_t)(int64_t)x;
    bool negative = t != TENSOR_U64 && (int64_t)bits < 0;
    return (stat_number){
        .is_integer = true, .negative = negative, .magnitude = negative ? 0 - bits : bits};
}

static void end_tensor(void *arg, int64_t tensor, const void *results, int64_t n)
{
    const stats *s = arg;
    const part *parts = results;
    tensor_type t = checkpoint_at(s->c, s->tensors[tensor])->type;
    tensor_stat *out = &s->out[tensor];
    double scale = s->scale ? s->scale[tensor] : 1;
    part all = parts[0];
    for (int64_t i = 1; i < n; i++)
        join(&all, &parts[i], t);
    out->finite = all.finite;
    out->zeros = all.zeros;
    out->nan = all.nan;
    out->inf = all.inf;
    if (all.finite == 0)
        return;
    out->min = number_of(t, all.low, all.low_bits);
    out->max = number_of(t, all.high, all.high_bits);
    /* The number with the larger magnitude, without its sign. */
    bool first = out->min.is_integer ? out->min.magnitude > out->max.magnitude
                                     : fabs(out->min.x) > fabs(out->max.x);
    stat_number most = first ? out->min : out->max;
    most.negative = false;
    most.x = fabs(most.x);
    out->absmax = most;
    out->mean = all.sum / (double)all.finite / scale;
    out->std = sqrt(all.squares / (double)all.finite) / scale;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Walks over the tensors whose numbers in the list stand in `which`. */
static int walk_some(stats *s, int64_t n, void (*progress)(void *arg, int64_t done, int64_t all),
                     void *arg, kv_err *e)
{
    own_mem int64_t *at = mem_alloc(n, sizeof *at, e);
    if (!at)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        const tensor_info *t = checkpoint_at(s->c, s->tensors[i]);
        bool can = tensor_stat_can(t->type) && (!s->scale || s->scale[i] != 1);
        at[i] = can ? s->tensors[i] : -1;
    }
    const walk w = {.inputs = &s->c,
                    .ninputs = 1,
                    .at = at,
                    .ntensors = n,
                    .piece = add_piece,
                    .arg = s,
                    .result_bytes = sizeof(part),
                    .end = end_tensor,
                    .progress = progress,
                    .progress_arg = arg};
    return walk_run(&w, e);
}

/* Squares of float64 beyond these overflow, or vanish. */
#define LARGE 0x1p450
#define SMALL 0x1p-450

/* The power of 2 that brings such numbers near 1; 1 for any other. */
static double scale_of(const tensor_stat *s)
{
    int exponent;
    if (s->finite == 0 || s->absmax.is_integer || s->absmax.x == 0 ||
        (s->absmax.x < LARGE && s->absmax.x > SMALL))
        return 1;
    frexp(s->absmax.x, &exponent);
    return ldexp(1, exponent < -1000 ? 1000 : exponent > 1000 ? -1000 : -exponent);
}

int tensor_stats(tensor_stat *out, checkpoint *c, const int64_t *tensors, int64_t n,
                 void (*progress)(void *arg, int64_t done, int64_t all), void *arg, kv_err *e)
{
    stats s = {.c = c, .tensors = tensors, .out = out};
    for (int64_t i = 0; i < n; i++) {
        const tensor_info *t = checkpoint_at(c, tensors[i]);
        out[i] = (tensor_stat){.has_numbers = tensor_stat_can(t->type), .elements = t->elements};
    }
    TRY(walk_some(&s, n, progress, arg, e));
    bool again = false;
    own_mem double *scale = mem_alloc(n, sizeof *scale, e);
    if (!scale)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        scale[i] = scale_of(&out[i]);
        again |= scale[i] != 1;
    }
    s.scale = scale;
    return again ? walk_some(&s, n, NULL, NULL, e) : KV_OK;
}
