/* Pieces of two tensors are compared first; then come the walks over them and what is reported of
 * each key. */
#include "tensors/tensor_diff.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/tensor_codec.h"
#include "tensors/number_loops.h"
#include "tensors/walk.h"

/* The differences of a piece, or of several pieces. Begin with DIFF_SUMS_NONE. */
typedef struct diff_sums {
    int64_t unequal, finite; /* elements; pairs of finite numbers */
    int64_t where, first;    /* of `most`, and of the first that is not equal; -1: none */
    double most;
    uint64_t most_int; /* instead of `most` where diff_is_exact */
    uint64_t ulps;
    double differences, a, b, product; /* sums of (a - b)^2, a^2, b^2, a * b */
    bool same;                         /* by its bytes: nothing else was looked at */
} diff_sums;

/* Powers of two by which numbers are multiplied before they are squared. */
typedef struct diff_scales {
    double differences, a, b;
} diff_scales;

#define DIFF_SUMS_NONE ((diff_sums){.where = -1, .first = -1})

/* Equal pieces of one dtype are told by their bytes; others are compared block by block. Words of 8
 * bytes that are the same on both sides add nothing but their squares to the sums, the same to all
 * three of the cosine; words that differ are collected until they fill a block, which is decoded.
 * Blocks of finite numbers go through the loops of number_loops.h, and those with a nan or an
 * infinity, which are rare, element by element. */

/* How two types are compared. */
typedef enum method {
    METHOD_BITS,    /* quantised: by runs */
    METHOD_INTEGER, /* two integer types that float32 and float64 do not both hold exactly */
    METHOD_F32,
    METHOD_F64
} method;

/* The same block of both sides. */
typedef struct blocks {
    tensor_type t[2];
    const void *data[2];
    int64_t n, from;       /* its elements, and the first of them */
    const int32_t *places; /* of each `per` elements, behind from; NULL: they are in a row */
    int64_t per;
    int width; /* numbers an element: 2 of C64 */
    bool wide; /* the numbers are float64 */
    bool ulps; /* they have units in the last place in common */
    union {
        float f32[DIFF_BLOCK * 2];
        double f64[DIFF_BLOCK];
    } a, b;
    /* The elements as integers, or the numbers in their order, where ulps are asked for one by one.
     */
    int64_t order_a[DIFF_BLOCK * 2], order_b[DIFF_BLOCK * 2];
} blocks;

/* ---- Types ----------------------------------------------------------------------------------- */

/* Quantised types are compared by bits. */
static bool diff_has_numbers(tensor_type t)
{
    return tensor_type_kind(t) != TENSOR_KIND_QUANTISED;
}

static method method_of(tensor_type a, tensor_type b)
{
    if (!diff_has_numbers(a))
        return METHOD_BITS;
    if (tensor_type_is_integer(a) && tensor_type_is_integer(b) &&
        (a != b || tensor_type_run_bytes(a) == 8))
        return METHOD_INTEGER;
    return (tensor_fits_f32(a) || a == TENSOR_C64) && (tensor_fits_f32(b) || b == TENSOR_C64)
               ? METHOD_F32
               : METHOD_F64;
}

/* Returns true if differences of these types are integers: no float holds their numbers exactly. */
static bool diff_is_exact(tensor_type a, tensor_type b)
{
    return method_of(a, b) == METHOD_INTEGER;
}

/* Returns true if elements of these types have units in the last place in common. */
static bool diff_has_ulps(tensor_type a, tensor_type b)
{
    tensor_kind kind = tensor_type_kind(a);
    return a == b && (kind == TENSOR_KIND_FLOAT || kind == TENSOR_KIND_COMPLEX);
}

static int bits_of(tensor_type t)
{
    return (int)(tensor_type_run_bytes(t) * 8 / tensor_type_run(t)) / (t == TENSOR_C64 ? 2 : 1);
}

/* The codes of n elements of fewer than 8 bits. */
static void unpack(uint8_t *codes, const uint8_t *data, int64_t n, int bits)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * bits;
        unsigned two = data[at / 8] | (unsigned)(at % 8 + bits > 8 ? data[at / 8 + 1] : 0) << 8;
        codes[i] = (uint8_t)(two >> at % 8 & ((1u << bits) - 1));
    }
}

/* n elements as integers in the order of their numbers, a unit in the last place apart. */
static void order_of(int64_t *out, tensor_type t, const void *data, int64_t n)
{
    uint8_t codes[DIFF_BLOCK];
    int bits = bits_of(t);
    if (bits < 8) {
        unpack(codes, data, n, bits);
        data = codes;
    }
    /* The powers of two of F8_E8M0 have no sign. */
    diff_order(out, data, t == TENSOR_C64 ? 2 * n : n, t == TENSOR_F8_E8M0 ? 16 : bits,
               bits < 8 ? 1 : bits / 8);
}

/* The largest distance of n elements that are not nan. */
static uint64_t farthest(tensor_type t, const void *a, const void *b, int64_t n)
{
    uint8_t codes[2][DIFF_BLOCK];
    int bits = bits_of(t);
    if (bits < 8) {
        unpack(codes[0], a, n, bits);
        unpack(codes[1], b, n, bits);
        a = codes[0];
        b = codes[1];
    }
    return diff_farthest(a, b, t == TENSOR_C64 ? 2 * n : n, t == TENSOR_F8_E8M0 ? 16 : bits,
                         bits < 8 ? 1 : bits / 8);
}

/* ---- Elements -------------------------------------------------------------------------------- */

/* Where element i of a block is in its tensor. */
static int64_t place_of(const blocks *x, int64_t i)
{
    return x->from + (x->places ? x->places[i / x->per] + i % x->per : i);
}

/* A difference that is larger than those so far. */
static void note(diff_sums *p, double size, int64_t where)
{
    if (p->where < 0 || size > p->most || (isnan(size) && !isnan(p->most))) {
        p->most = size;
        p->where = where;
    }
}

static double number_at(const void *x, int64_t i, bool wide)
{
    return wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

/* How far number k of both sides are apart in ulps; of nan there is no distance. */
static uint64_t apart(const blocks *x, int64_t k)
{
    int64_t a = x->order_a[k], b = x->order_b[k];
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* Whether number k is equal; the order is there when it is asked for. */
static bool passes(const diff_options *o, const blocks *x, int64_t k)
{
    double a = number_at(&x->a, k, x->wide), b = number_at(&x->b, k, x->wide);
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return a == b;
    return fabs(a - b) <= o->atol + o->rtol * fabs(b) ||
           (x->ulps && o->has_ulps && apart(x, k) <= o->ulps);
}

static void find_order(blocks *x)
{
    if (!x->ulps)
        return;
    order_of(x->order_a, x->t[0], x->data[0], x->n);
    order_of(x->order_b, x->t[1], x->data[1], x->n);
}

/* Numbers, some of them not finite. Sums are of the pairs in which both are finite. */
static void add_each(diff_sums *p, blocks *x)
{
    find_order(x);
    for (int64_t k = 0; k < x->n * x->width; k++) {
        double a = number_at(&x->a, k, x->wide), b = number_at(&x->b, k, x->wide);
        bool same = a == b || (isnan(a) && isnan(b));
        uint64_t far = x->ulps && !isnan(a) && !isnan(b) ? apart(x, k) : 0;
        p->ulps = far > p->ulps ? far : p->ulps;
        note(p, same ? 0 : fabs(a - b), place_of(x, k / x->width));
        if (!isfinite(a) || !isfinite(b))
            continue;
        p->finite++;
        p->differences += (a - b) * (a - b);
        p->a += a * a;
        p->b += b * b;
        p->product += a * b;
    }
}

/* The first of the largest differences of a block, which is `most`. */
static void find_most(diff_sums *p, const blocks *x, double most)
{
    for (int64_t k = 0; k < x->n * x->width; k++) {
        if (fabs(number_at(&x->a, k, x->wide) - number_at(&x->b, k, x->wide)) == most) {
            note(p, most, place_of(x, k / x->width));
            return;
        }
    }
}

/* Adds the numbers to the lanes if all are finite. Whether those of float32 are shows in the sums:
 * their squares do not overflow in float64. */
static bool add_lanes(diff_lanes *lanes, blocks *x, double *most)
{
    int64_t m = x->n * x->width, padded = (m + STAT_LANES - 1) / STAT_LANES * STAT_LANES;
    size_t size = x->wide ? sizeof(double) : sizeof(float);
    if (x->wide && !(stat_finite_f64(x->a.f64, m) && stat_finite_f64(x->b.f64, m)))
        return false;
    memset((char *)&x->a + (size_t)m * size, 0, (size_t)(padded - m) * size);
    memset((char *)&x->b + (size_t)m * size, 0, (size_t)(padded - m) * size);
    diff_lanes before = *lanes;
    *most = x->wide ? diff_add_f64(lanes, x->a.f64, x->b.f64, padded)
                    : diff_add_f32(lanes, x->a.f32, x->b.f32, padded);
    bool finite = x->wide || isfinite(stat_total(lanes->a) + stat_total(lanes->b));
    if (!finite)
        *lanes = before;
    return finite;
}

/* Numbers that are all finite; the largest of their differences is `most`. */
static void add_finite(diff_sums *p, const blocks *x, double most)
{
    uint64_t far = x->ulps ? farthest(x->t[0], x->data[0], x->data[1], x->n) : 0;
    p->ulps = far > p->ulps ? far : p->ulps;
    p->finite += x->n * x->width;
    if (p->where < 0 || most > p->most)
        find_most(p, x, most);
}

/* How many elements a tolerance does not make equal. */
static int64_t count_beyond(const diff_options *o, blocks *x, bool finite)
{
    int64_t m = x->n * x->width, beyond = 1;
    if (finite)
        beyond = x->wide ? diff_beyond_f64(x->a.f64, x->b.f64, m, o->rtol, o->atol)
                         : diff_beyond_f32(x->a.f32, x->b.f32, m, o->rtol, o->atol);
    if (beyond == 0 || (finite && x->width == 1 && !(x->ulps && o->has_ulps)))
        return beyond;
    if (finite && o->has_ulps)
        find_order(x); /* else add_each has done so */
    /* How many elements are not equal, one by one. */
    int64_t unequal = 0;
    for (int64_t i = 0; i < x->n; i++) {
        bool pass = true;
        for (int64_t k = i * x->width; k < (i + 1) * x->width; k++)
            pass &= passes(o, x, k);
        unequal += !pass;
    }
    return unequal;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* The first element of n, of so many bits each, with other bits than in b; -1: there is none. */
static int64_t first_unequal(const uint8_t *a, const uint8_t *b, int64_t bytes, int64_t bits)
{
    for (int64_t i = 0; i < bytes; i++)
        if (a[i] != b[i])
            return (i * 8 + __builtin_ctz((unsigned)(a[i] ^ b[i]))) / bits;
    return -1;
}

/* How many of n elements have other bits. */
static int64_t unequal_bits(tensor_type t, const void *a, const void *b, int64_t n)
{
    uint8_t codes[2][DIFF_BLOCK];
    int64_t bits = tensor_type_run_bytes(t) * 8 / tensor_type_run(t);
    if (bits >= 8)
        return diff_unequal(a, b, n, (int)(bits / 8));
    unpack(codes[0], a, n, (int)bits);
    unpack(codes[1], b, n, (int)bits);
    return diff_unequal(codes[0], codes[1], n, 1);
}

/* Runs of quantised numbers; all elements of one that differs count. */
static void add_bits(diff_sums *p, const blocks *x)
{
    int64_t run = tensor_type_run(x->t[0]), bytes = tensor_type_run_bytes(x->t[0]);
    const char *a = x->data[0], *b = x->data[1];
    for (int64_t i = 0; i < x->n; i += run, a += bytes, b += bytes) {
        if (memcmp(a, b, (size_t)bytes) == 0)
            continue;
        p->unequal += run;
        p->first = p->first < 0 ? x->from + i : p->first;
    }
}

__extension__ typedef __int128 i128;

/* Decodes integers; those of U64 as their bits. */
static void decode_integers(int64_t *out, tensor_type t, const void *data, int64_t n)
{
    if (t == TENSOR_U64)
        memcpy(out, data, (size_t)n * sizeof *out);
    else
        tensor_decode_i64(out, t, data, n);
}

static i128 integer_of(tensor_type t, int64_t bits)
{
    return t == TENSOR_U64 ? (i128)(uint64_t)bits : (i128)bits;
}

/* A long double has the 64 bits of the widest integers on the processors that have such a type;
 * elsewhere it is as good as a double. */
static bool is_beyond(const diff_options *o, long double difference, long double b)
{
    return difference > (long double)o->atol + (long double)o->rtol * (b < 0 ? -b : b);
}

static void add_integers(diff_sums *p, diff_lanes *lanes, const diff_options *o, blocks *x)
{
    int64_t padded = (x->n + STAT_LANES - 1) / STAT_LANES * STAT_LANES;
    decode_integers(x->order_a, x->t[0], x->data[0], x->n);
    decode_integers(x->order_b, x->t[1], x->data[1], x->n);
    for (int64_t i = 0; i < x->n; i++) {
        i128 a = integer_of(x->t[0], x->order_a[i]), b = integer_of(x->t[1], x->order_b[i]);
        i128 size = a > b ? a - b : b - a;
        uint64_t far = size > UINT64_MAX ? UINT64_MAX : (uint64_t)size;
        p->unequal += o->tolerance ? is_beyond(o, (long double)far, (long double)b) : far != 0;
        p->differences += (double)far * (double)far;
        if (p->where < 0 || far > p->most_int) {
            p->most_int = far;
            p->where = place_of(x, i);
        }
        x->a.f64[i] = (double)a;
        x->b.f64[i] = (double)b;
    }
    for (int64_t i = x->n; i < padded; i++)
        x->a.f64[i] = x->b.f64[i] = 0;
    diff_add_f64(lanes, x->a.f64, x->b.f64, padded);
    memset(lanes->differences, 0, sizeof lanes->differences); /* they are exact in p */
    p->finite += x->n;
}

/* Whether an integer of 64 bits, which a float64 need not hold, is compared with a float. */
static bool is_mixed(const tensor_type *t)
{
    return tensor_type_is_integer(t[0]) != tensor_type_is_integer(t[1]) &&
           tensor_type_run_bytes(t[tensor_type_is_integer(t[0]) ? 0 : 1]) == 8;
}

/* How many of such pairs differ by more than the tolerance. */
static int64_t count_mixed(const diff_options *o, const blocks *x)
{
    int k = tensor_type_is_integer(x->t[0]) ? 0 : 1;
    const double *floats = k ? x->a.f64 : x->b.f64;
    int64_t integers[DIFF_BLOCK], beyond = 0;
    decode_integers(integers, x->t[k], x->data[k], x->n);
    for (int64_t i = 0; i < x->n; i++) {
        long double whole = (long double)integer_of(x->t[k], integers[i]), other = floats[i];
        long double far = whole > other ? whole - other : other - whole;
        beyond += !isfinite(floats[i]) || is_beyond(o, far, k ? whole : other);
    }
    return beyond;
}

static void add_numbers(diff_sums *p, diff_lanes *lanes, const diff_options *o, blocks *x)
{
    int64_t unequal;
    double most;
    if (x->wide) {
        tensor_decode_f64(x->a.f64, x->t[0], x->data[0], x->n);
        tensor_decode_f64(x->b.f64, x->t[1], x->data[1], x->n);
    } else {
        tensor_decode_f32(x->a.f32, x->t[0], x->data[0], x->n);
        tensor_decode_f32(x->b.f32, x->t[1], x->data[1], x->n);
    }
    bool finite = add_lanes(lanes, x, &most);
    if (finite)
        add_finite(p, x, most);
    else
        add_each(p, x);
    if (o->tolerance && is_mixed(x->t)) {
        unequal = count_mixed(o, x);
    } else if (o->tolerance) {
        unequal = count_beyond(o, x, finite);
    } else {
        unequal = unequal_bits(x->t[0], x->data[0], x->data[1], x->n);
        int64_t bits = tensor_type_run_bytes(x->t[0]) * 8 / tensor_type_run(x->t[0]);
        if (unequal && p->first < 0)
            p->first =
                place_of(x, first_unequal(x->data[0], x->data[1], (x->n * bits + 7) / 8, bits));
    }
    p->unequal += unequal;
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Whether a block of such elements is whole words, and a word of zeros has no squares. */
static bool has_words(const tensor_type *t)
{
    return t[0] == t[1] && diff_has_numbers(t[0]) && tensor_type_run(t[0]) == 1 &&
           t[0] != TENSOR_F8_E8M0;
}

/* The sum of the squares of a block; not finite: there is none. */
static double squares_of(blocks *x, const void *data)
{
    double sum;
    if (x->t[0] == TENSOR_BF16) {
        sum = diff_squares_bf16(data, DIFF_BLOCK);
        return sum < 0x1p-70 ? INFINITY : sum;
    }
    if (tensor_fits_f32(x->t[0]) || x->t[0] == TENSOR_C64) {
        const float *numbers = data;
        if (x->t[0] != TENSOR_F32 && x->t[0] != TENSOR_C64) {
            tensor_decode_f32(x->a.f32, x->t[0], data, DIFF_BLOCK);
            numbers = x->a.f32;
        }
        return diff_squares_f32(numbers, (int64_t)DIFF_BLOCK * x->width);
    }
    tensor_decode_f64(x->a.f64, x->t[0], data, DIFF_BLOCK);
    return diff_squares_f64(x->a.f64, DIFF_BLOCK);
}

/* A piece while it is compared. */
typedef struct comparing {
    diff_sums *p;
    const diff_options *o;
    const walk_piece *piece;
    method how;
    diff_lanes lanes;
    blocks x;
    int64_t cap, waiting;          /* words */
    uint64_t words[2][DIFF_BLOCK]; /* those that differ, until they fill a block */
    int32_t places[DIFF_BLOCK];    /* in the piece, of their first elements */
} comparing;

static void add_block(comparing *c)
{
    switch (c->how) {
    case METHOD_BITS:
        add_bits(c->p, &c->x);
        break;
    case METHOD_INTEGER:
        add_integers(c->p, &c->lanes, c->o, &c->x);
        break;
    case METHOD_F32:
    case METHOD_F64:
        add_numbers(c->p, &c->lanes, c->o, &c->x);
        break;
    }
}

static void add_waiting(comparing *c)
{
    if (c->waiting == 0)
        return;
    c->x.data[0] = c->words[0];
    c->x.data[1] = c->words[1];
    c->x.n = c->waiting * c->x.per;
    c->x.from = c->piece->first;
    c->x.places = c->places;
    add_block(c);
    c->waiting = 0;
}

/* The whole block from element i on. False: it is one to decode, since most words differ, or since
 * the squares of the others have no sum. */
static bool add_words(comparing *c, int64_t i, const char *const *data)
{
    uint64_t same[DIFF_BLOCK];
    uint16_t others[DIFF_BLOCK];
    int64_t per = c->x.per, n = diff_words(same, others, data[0], data[1], c->cap);
    double squares = n > c->cap / 2 ? INFINITY : squares_of(&c->x, same);
    if (!isfinite(squares))
        return false;
    if (c->waiting + n > c->cap)
        add_waiting(c);
    for (int64_t k = 0; k < n; k++, c->waiting++) {
        memcpy(&c->words[0][c->waiting], data[0] + 8 * others[k], 8);
        memcpy(&c->words[1][c->waiting], data[1] + 8 * others[k], 8);
        c->places[c->waiting] = (int32_t)(i + others[k] * per);
    }
    c->p->finite += (DIFF_BLOCK - n * per) * c->x.width;
    c->p->a += squares;
    c->p->b += squares;
    c->p->product += squares;
    return true;
}

/* Adds the differences of a piece to p. */
static void diff_piece(diff_sums *p, const diff_options *o, const tensor_type *t,
                       const walk_piece *piece)
{
    comparing c;
    blocks *x = &c.x;
    bool words = has_words(t);
    c.p = p;
    c.o = o;
    c.piece = piece;
    c.how = method_of(t[0], t[1]);
    memset(&c.lanes, 0, sizeof c.lanes);
    memcpy(x->t, t, sizeof x->t);
    x->width = t[0] == TENSOR_C64 ? 2 : 1;
    x->wide = c.how == METHOD_F64;
    x->ulps = diff_has_ulps(t[0], t[1]);
    x->per = words ? 8 / tensor_type_run_bytes(t[0]) : 1;
    c.cap = DIFF_BLOCK / x->per;
    c.waiting = 0;
    for (int64_t i = 0; i < piece->n; i += DIFF_BLOCK) {
        const char *data[2];
        for (int k = 0; k < 2; k++)
            data[k] = (const char *)piece->data[k] + tensor_type_bytes(t[k], i);
        if (words && piece->n - i >= DIFF_BLOCK && add_words(&c, i, data))
            continue;
        add_waiting(&c);
        x->n = piece->n - i < DIFF_BLOCK ? piece->n - i : DIFF_BLOCK;
        x->from = piece->first + i;
        x->places = NULL;
        x->data[0] = data[0];
        x->data[1] = data[1];
        add_block(&c);
    }
    add_waiting(&c);
    p->differences += stat_total(c.lanes.differences);
    p->a += stat_total(c.lanes.a);
    p->b += stat_total(c.lanes.b);
    p->product += stat_total(c.lanes.product);
}

/* ---- Scales ---------------------------------------------------------------------------------- */

/* A sum from 2^-960 on lacks nothing that float64 would show, whatever squares became 0. */
static double scale_of(double sum)
{
    return !isfinite(sum) ? 0x1p-600 : sum < 0x1p-960 ? 0x1p600 : 1;
}

/* The scales with which sums are to be made again, since float64 does not hold squares of the
 * numbers; all 1: they are right as they are. Then diff_scaled adds to p, of a piece, those sums
 * alone that have a scale: differences; or a, b and product, if one of them has. */
static diff_scales diff_scales_of(const diff_sums *p, tensor_type a, tensor_type b)
{
    diff_scales s = {1, 1, 1};
    if (method_of(a, b) == METHOD_F64 && p->finite > 0)
        s = (diff_scales){p->most != 0 ? scale_of(p->differences) : 1, scale_of(p->a),
                          scale_of(p->b)};
    return s;
}

static void diff_scaled(diff_sums *p, const diff_scales *s, const tensor_type *t,
                        const walk_piece *piece)
{
    double a[DIFF_BLOCK], b[DIFF_BLOCK], scale = s->differences;
    diff_sums sums = DIFF_SUMS_NONE;
    for (int64_t i = 0; i < piece->n; i += DIFF_BLOCK) {
        int64_t n = piece->n - i < DIFF_BLOCK ? piece->n - i : DIFF_BLOCK;
        tensor_decode_f64(a, t[0], (const char *)piece->data[0] + tensor_type_bytes(t[0], i), n);
        tensor_decode_f64(b, t[1], (const char *)piece->data[1] + tensor_type_bytes(t[1], i), n);
        for (int64_t k = 0; k < n; k++) {
            if (!isfinite(a[k]) || !isfinite(b[k]))
                continue;
            double d = scale > 1 ? (a[k] - b[k]) * scale : a[k] * scale - b[k] * scale;
            double x = a[k] * s->a, y = b[k] * s->b;
            sums.differences += d * d;
            sums.a += x * x;
            sums.b += y * y;
            sums.product += x * y;
        }
    }
    if (scale != 1)
        p->differences += sums.differences;
    if (s->a == 1 && s->b == 1)
        return;
    p->a += sums.a;
    p->b += sums.b;
    p->product += sums.product;
}

/* Returns true if both sides of a piece, of types t, have the same type and bytes. */
static bool diff_same_bytes(const tensor_type *t, const walk_piece *p)
{
    return t[0] == t[1] &&
           memcmp(p->data[0], p->data[1], (size_t)tensor_type_bytes(t[0], p->n)) == 0;
}

/* Adds those of p, a later piece of the same tensors, to all. */
static void diff_join(diff_sums *all, const diff_sums *p)
{
    all->unequal += p->unequal;
    all->finite += p->finite;
    all->ulps = p->ulps > all->ulps ? p->ulps : all->ulps;
    all->differences += p->differences;
    all->a += p->a;
    all->b += p->b;
    all->product += p->product;
    if (all->first < 0)
        all->first = p->first;
    if (p->where >= 0 && (all->where < 0 || p->most > all->most || p->most_int > all->most_int ||
                          (isnan(p->most) && !isnan(all->most)))) {
        all->where = p->where;
        all->most = p->most;
        all->most_int = p->most_int;
    }
}

/* ---- Walks ----------------------------------------------------------------------------------- */

/* What a walk adds to the sums: all; equal pieces of keys that differ, whose squares are missing;
 * squares again, where float64 does not hold them. */
typedef enum pass { PASS_ALL, PASS_SAME, PASS_SCALED } pass;

typedef struct diffs {
    pass pass;
    checkpoint *inputs[2];
    tensor_difference *pairs;
    const diff_options *o;
    atomic_bool *found; /* of each pair, with brief: it differs */
    bool *partly;       /* of each pair: it differs and has equal pieces */
    diff_sums *sums;     /* of each pair: those so far */
    diff_scales *scales; /* of each pair, for the last walk */
} diffs;

/* ---- Pieces ---------------------------------------------------------------------------------- */

static const tensor_info *tensor_of(const diffs *d, int64_t pair, int side)
{
    return checkpoint_at(d->inputs[side], side ? d->pairs[pair].b : d->pairs[pair].a);
}

static int add_piece(void *arg, const walk_piece *piece, int worker, kv_err *e)
{
    const diffs *d = arg;
    const tensor_type t[] = {tensor_of(d, piece->tensor, 0)->type,
                             tensor_of(d, piece->tensor, 1)->type};
    diff_sums p = DIFF_SUMS_NONE;
    (void)worker, (void)e;
    if (d->o->brief && atomic_load_explicit(&d->found[piece->tensor], memory_order_relaxed))
        return KV_OK;
    bool same = d->pass != PASS_SCALED && diff_same_bytes(t, piece);
    if (d->pass == PASS_SCALED)
        diff_scaled(&p, &d->scales[piece->tensor], t, piece);
    else if (same == (d->pass == PASS_SAME))
        diff_piece(&p, d->o, t, piece);
    p.same = same && d->pass == PASS_ALL;
    if (d->o->brief && p.unequal)
        atomic_store_explicit(&d->found[piece->tensor], true, memory_order_relaxed);
    if (piece->result)
        *(diff_sums *)piece->result = p;
    return KV_OK;
}

/* The parts of a key, in order. A second walk adds to what the first one found. */
static void end_tensor(void *arg, int64_t pair, const void *results, int64_t n)
{
    diffs *d = arg;
    const diff_sums *parts = results;
    diff_sums *all = &d->sums[pair];
    bool same = false;
    for (int64_t i = 0; i < n; i++) {
        diff_join(all, &parts[i]);
        same |= parts[i].same;
    }
    d->partly[pair] = all->unequal > 0 && same && diff_has_numbers(tensor_of(d, pair, 0)->type);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The state by names, shapes and dtypes only; DIFF_SAME: the data are to be compared. */
static diff_state state_of(const diffs *d, int64_t i)
{
    const tensor_difference *pair = &d->pairs[i];
    if (pair->a < 0 || pair->b < 0)
        return pair->a < 0 ? DIFF_ONLY_B : DIFF_ONLY_A;
    const tensor_info *a = tensor_of(d, i, 0), *b = tensor_of(d, i, 1);
    if (!tensor_same_shape(a->ndim, a->shape, b->ndim, b->shape))
        return DIFF_SHAPE;
    kv_dtype unused;
    bool numbers = tensor_type_dtype(a->type, &unused) && tensor_type_dtype(b->type, &unused);
    return a->type == b->type || (d->o->tolerance && numbers) ? DIFF_SAME : DIFF_DTYPE;
}

/* The scales of pairs that need any, and their sums from none; *any becomes true if there are such.
 */
static void begin_scaled(diffs *d, int64_t n, bool *any)
{
    *any = false;
    for (int64_t i = 0; i < n; i++) {
        diff_sums *p = &d->sums[i];
        d->partly[i] = false;
        d->scales[i] = (diff_scales){1, 1, 1};
        if (d->pairs[i].state != DIFF_SAME || p->unequal == 0 || d->o->brief)
            continue;
        d->scales[i] = diff_scales_of(p, tensor_of(d, i, 0)->type, tensor_of(d, i, 1)->type);
        bool both = d->scales[i].a != 1 || d->scales[i].b != 1;
        if (d->scales[i].differences != 1)
            p->differences = 0;
        if (both)
            p->a = p->b = p->product = 0;
        d->partly[i] = both || d->scales[i].differences != 1;
        *any |= d->partly[i];
    }
}

/* Walks over the pairs that are to be compared, or those that `partly` tells. */
static int walk_pairs(diffs *d, int64_t n, pass which,
                      void (*progress)(void *arg, int64_t done, int64_t all), void *arg, kv_err *e)
{
    d->pass = which;
    own_mem int64_t *at = mem_alloc(n, 2 * sizeof *at, e);
    if (!at)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        bool take = which != PASS_ALL ? d->partly[i] : d->pairs[i].state == DIFF_SAME;
        at[2 * i] = take ? d->pairs[i].a : -1;
        at[2 * i + 1] = take ? d->pairs[i].b : -1;
    }
    const walk w = {.inputs = d->inputs,
                    .ninputs = 2,
                    .at = at,
                    .ntensors = n,
                    .piece = add_piece,
                    .arg = d,
                    .result_bytes = d->o->brief ? 0 : sizeof(diff_sums),
                    .end = end_tensor,
                    .progress = progress,
                    .progress_arg = arg};
    return walk_run(&w, e);
}

static void end_pair(const diffs *d, int64_t i)
{
    tensor_difference *out = &d->pairs[i];
    const diff_sums *p = &d->sums[i];
    const tensor_info *a = tensor_of(d, i, 0), *b = tensor_of(d, i, 1);
    if (p->unequal == 0 && !(d->o->brief && d->found[i]))
        return;
    out->state = DIFF_VALUES;
    if (d->o->brief)
        return;
    out->equal = (double)(a->elements - p->unequal) / (double)a->elements;
    out->has_numbers = diff_has_numbers(a->type);
    out->is_integer = tensor_type_is_integer(a->type) && tensor_type_is_integer(b->type);
    out->max_abs = p->most;
    out->max_int = diff_is_exact(a->type, b->type) ? p->most_int : (uint64_t)0;
    if (out->is_integer && !diff_is_exact(a->type, b->type))
        out->max_int = (uint64_t)p->most;
    out->where = p->most == 0 && p->most_int == 0 && p->first >= 0 ? p->first : p->where;
    out->has_ulps = diff_has_ulps(a->type, b->type) && p->finite > 0;
    out->ulps = p->ulps;
    out->left_out = out->is_integer || !out->has_numbers ? 0 : a->elements - p->finite;
    out->rms =
        p->finite ? sqrt(p->differences / (double)p->finite) / d->scales[i].differences : NAN;
    double norm = sqrt(p->b) / d->scales[i].b;
    out->rel = p->finite ? sqrt(p->differences) / d->scales[i].differences / norm : NAN;
    out->rel = p->finite && p->differences == 0 ? 0 : out->rel;
    /* Rounding may lead beyond 1. Of equal numbers it is 1, unless a * b leaves the range. */
    double both = p->a * p->b;
    double x = isnormal(both) ? p->product / sqrt(both) : p->product / sqrt(p->a) / sqrt(p->b);
    out->cosine = x > 1 ? 1 : x < -1 ? -1 : x;
    if (out->has_numbers && !isfinite(out->max_abs)) { /* no finite number says how far they are */
        out->rel = out->max_abs;
        out->rms = p->differences > 0 ? out->rms : out->max_abs;
        out->cosine = p->differences > 0 ? out->cosine : NAN;
    }
    const double sizes[] = {[DIFF_BY_MAX] = out->is_integer ? (double)out->max_int : out->max_abs,
                            [DIFF_BY_RMS] = out->rms,
                            [DIFF_BY_REL] = out->rel,
                            [DIFF_BY_ULPS] = (double)out->ulps,
                            [DIFF_BY_EQUAL] = 1 - out->equal,
                            [DIFF_BY_COSINE] = 1 - out->cosine};
    out->size = sizes[d->o->sort];
    if (!out->has_numbers || isnan(out->size))
        out->size = INFINITY;
}

int tensor_diffs(tensor_difference *pairs, int64_t n, checkpoint *a, checkpoint *b,
                 const diff_options *o, void (*progress)(void *arg, int64_t done, int64_t all),
                 void *arg, kv_err *e)
{
    own_mem atomic_bool *found = mem_zalloc(n, sizeof *found, e);
    own_mem bool *partly = mem_zalloc(n, sizeof *partly, e);
    own_mem diff_sums *sums = mem_alloc(n, sizeof *sums, e);
    own_mem diff_scales *scales = mem_alloc(n, sizeof *scales, e);
    if (!found || !partly || !sums || !scales)
        return KV_E_MEMORY;
    diffs d = {.inputs = {a, b},
               .pairs = pairs,
               .o = o,
               .found = found,
               .partly = partly,
               .sums = sums,
               .scales = scales};
    bool again = false;
    for (int64_t i = 0; i < n; i++) {
        const tensor_difference p = pairs[i];
        pairs[i] = (tensor_difference){.a = p.a, .b = p.b, .name = p.name, .where = -1};
        pairs[i].state = state_of(&d, i);
        sums[i] = DIFF_SUMS_NONE;
    }
    TRY(walk_pairs(&d, n, PASS_ALL, progress, arg, e));
    for (int64_t i = 0; i < n; i++)
        again |= partly[i];
    TRY(again ? walk_pairs(&d, n, PASS_SAME, NULL, NULL, e) : KV_OK);
    begin_scaled(&d, n, &again);
    TRY(again ? walk_pairs(&d, n, PASS_SCALED, NULL, NULL, e) : KV_OK);
    for (int64_t i = 0; i < n; i++)
        if (pairs[i].state == DIFF_SAME)
            end_pair(&d, i);
    return KV_OK;
}

/* How much a difference weighs, without its size. */
static int weight(diff_state state)
{
    switch (state) {
    case DIFF_ONLY_A:
    case DIFF_ONLY_B:
    case DIFF_SHAPE:
    case DIFF_DTYPE:
        return 2;
    case DIFF_VALUES:
        return 1;
    case DIFF_SAME:
        break;
    }
    return 0;
}

int tensor_diff_order(const tensor_difference *x, const tensor_difference *y)
{
    if (weight(x->state) != weight(y->state))
        return weight(x->state) > weight(y->state) ? -1 : 1;
    if (isfinite(x->max_abs) != isfinite(y->max_abs))
        return isfinite(x->max_abs) ? 1 : -1;
    return x->size > y->size ? -1 : x->size < y->size ? 1 : 0;
}
