/* Conversions of tensors, in blocks that stay in the L1 cache.
 *
 * Numbers in memory are float, double, int64_t or uint64_t. Every type is decoded to those that
 * hold it, and encoded from each; between two types a block goes through the narrowest that is
 * exact. Floats narrower than F32 are made only of float32; other numbers are first rounded to odd
 * there, so that they round once (head of cpu/convert.c). Data that do not lie at multiples of
 * their element's size are copied to a block that does.
 */
#include "checkpoint/tensor_codec.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stop.h"
#include "cpu/cpu.h"
#include "cpu/half.h"
#include "io/scalar.h"

/* Elements a block: a multiple of every run. */
enum { BLOCK = 1024 };

/* Numbers in memory. */
typedef enum number_kind { NUMBER_F32, NUMBER_F64, NUMBER_I64, NUMBER_U64 } number_kind;

static const struct {
    int bytes;
    tensor_type type; /* of the same bytes */
    kv_dtype dtype;   /* none for NUMBER_U64 */
} numbers[] = {
    [NUMBER_F32] = {4, TENSOR_F32, KV_FLOAT32},
    [NUMBER_F64] = {8, TENSOR_F64, KV_FLOAT64},
    [NUMBER_I64] = {8, TENSOR_I64, KV_INT64},
    [NUMBER_U64] = {8, TENSOR_U64, KV_DTYPE_END},
};

enum { NUMBER_KINDS = sizeof numbers / sizeof *numbers };

/* Room for a block of any type or kind of numbers. */
typedef union block {
    char data[BLOCK * 8];
    double f64[BLOCK]; /* aligns it */
} block;

/* The types that have no dtype of their own. */
typedef void small_loop(uint8_t *restrict, const uint8_t *restrict, int64_t);
static const struct {
    void (*widen)(float *restrict dst, const uint8_t *restrict codes, int64_t n);
    void (*narrow)(uint8_t *restrict codes, const float *restrict src, int64_t n);
    small_loop *unpack, *pack; /* NULL: a code is a byte, and there is a nan */
} small[TENSOR_NSAFE] = {
    [TENSOR_F8_E5M2] = {small_widen_e5m2, small_narrow_e5m2, NULL, NULL},
    [TENSOR_F8_E4M3] = {small_widen_e4m3, small_narrow_e4m3, NULL, NULL},
    [TENSOR_F8_E8M0] = {small_widen_e8m0, small_narrow_e8m0, NULL, NULL},
    [TENSOR_F8_E4M3FNUZ] = {small_widen_e4m3fnuz, small_narrow_e4m3fnuz, NULL, NULL},
    [TENSOR_F8_E5M2FNUZ] = {small_widen_e5m2fnuz, small_narrow_e5m2fnuz, NULL, NULL},
    [TENSOR_F6_E3M2] = {small_widen_e3m2, small_narrow_e3m2, small_unpack_6, small_pack_6},
    [TENSOR_F6_E2M3] = {small_widen_e2m3, small_narrow_e2m3, small_unpack_6, small_pack_6},
    [TENSOR_F4] = {small_widen_e2m1, small_narrow_e2m1, small_unpack_4, small_pack_4},
};

bool tensor_fits_f32(tensor_type t)
{
    return t < TENSOR_NSAFE && t != TENSOR_F64 &&
           (!tensor_type_is_integer(t) || tensor_type_run_bytes(t) <= 2);
}

/* The bytes that n elements touch; unlike tensor_type_bytes, n may end within one. */
static int64_t touched_bytes(tensor_type t, int64_t n)
{
    int64_t run = tensor_type_run(t);
    return (n * tensor_type_run_bytes(t) + run - 1) / run;
}

static bool is_aligned(const void *data, tensor_type t)
{
    int64_t bytes = tensor_type_run(t) == 1 ? tensor_type_run_bytes(t) : 1;
    return (uintptr_t)data % (uintptr_t)bytes == 0;
}

/* ---- Integers -------------------------------------------------------------------------------- */

/* A loop a type and direction, made by macros. */

/* Type, name here, type in C, whether signed, smallest, and largest number. */
#define INTEGERS(X)                                                                                \
    X(TENSOR_BOOL, bool, uint8_t, false, 0, 1)                                                     \
    X(TENSOR_U8, u8, uint8_t, false, 0, UINT8_MAX)                                                 \
    X(TENSOR_I8, i8, int8_t, true, INT8_MIN, INT8_MAX)                                             \
    X(TENSOR_I16, i16, int16_t, true, INT16_MIN, INT16_MAX)                                        \
    X(TENSOR_U16, u16, uint16_t, false, 0, UINT16_MAX)                                             \
    X(TENSOR_I32, i32, int32_t, true, INT32_MIN, INT32_MAX)                                        \
    X(TENSOR_U32, u32, uint32_t, false, 0, UINT32_MAX)                                             \
    X(TENSOR_I64, i64, int64_t, true, INT64_MIN, INT64_MAX)                                        \
    X(TENSOR_U64, u64, uint64_t, false, 0, UINT64_MAX)

/* A file may have any byte for a bool. */
#define READ(t, x) ((t) == TENSOR_BOOL ? (x) != 0 : (x))

#define CONVERSION(name, to, from, expression)                                                     \
    CPU_CLONES static int64_t name(void *restrict dst, const void *restrict src, int64_t n)        \
    {                                                                                              \
        to *restrict d = dst;                                                                      \
        const from *restrict s = src;                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] = (expression);                                                                   \
        return -1;                                                                                 \
    }

#define TO_FLOATS(t, name, type, is_signed, low, high)                                             \
    CONVERSION(name##_to_f32, float, type, (float)READ(t, s[i]))                                   \
    CONVERSION(name##_to_f64, double, type, (double)READ(t, s[i]))

/* A loop that stops at the first element whose number x, a `between`, is not `fits`. CLONES is
 * CPU_CLONES where the processor may have an instruction for it. */
#define CHECKED(CLONES, name, to, from, between, value, fits)                                      \
    CLONES static int64_t name(void *restrict dst, const void *restrict src, int64_t n)            \
    {                                                                                              \
        to *restrict d = dst;                                                                      \
        const from *restrict s = src;                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            between x = (between)(value);                                                          \
            if (!(fits))                                                                           \
                return i;                                                                          \
            d[i] = (to)x;                                                                          \
        }                                                                                          \
        return -1;                                                                                 \
    }

/* Between 64 bits with a sign and without, what does not fit has its highest bit set. */
#define TO_INTEGERS(t, name, type, is_signed, low, high)                                           \
    CHECKED(, name##_to_i64, int64_t, type, int64_t, READ(t, s[i]), (is_signed) || x >= 0)         \
    CHECKED(, name##_to_u64, uint64_t, type, int64_t, READ(t, s[i]), !(is_signed) || x >= 0)

/* (high) / 2 + 1, doubled, is high + 1 without overflow, and exact as float64. rint rounds half to
 * even, the default of the processor. */
#define FROM_NUMBERS(t, name, type, is_signed, low, high)                                          \
    CHECKED(CPU_CLONES, name##_from_f64, type, double, double,                                     \
            (t) == TENSOR_BOOL ? s[i] : rint(s[i]),                                                \
            (t) == TENSOR_BOOL ? x == 0 || x == 1                                                  \
                               : x >= (double)(low) && x < 2 * (double)((high) / 2 + 1))           \
    CHECKED(, name##_from_i64, type, int64_t, int64_t, s[i],                                       \
            x >= (int64_t)(low) && (x < 0 || (uint64_t)x <= (uint64_t)(high)))                     \
    CHECKED(, name##_from_u64, type, uint64_t, uint64_t, s[i], x <= (uint64_t)(high))

INTEGERS(TO_FLOATS)
INTEGERS(TO_INTEGERS)
INTEGERS(FROM_NUMBERS)

/* To and from each kind of numbers: to floats rounded to nearest even, exact up to 24 and 53 bits.
 * The others return the first element that the destination does not hold, where they stop, or -1.
 * From float64 the nearest integer is taken, half to even; a bool holds 0 and 1 only. Elements lie
 * at multiples of their size. */
typedef int64_t conversion(void *restrict dst, const void *restrict src, int64_t n);
#define ROW(t, name, ...)                                                                          \
    [t] = {{name##_to_f32, name##_to_f64, name##_to_i64, name##_to_u64},                           \
           {NULL, name##_from_f64, name##_from_i64, name##_from_u64}},
static const struct {
    conversion *to[NUMBER_KINDS], *from[NUMBER_KINDS];
} integers[TENSOR_NSAFE] = {INTEGERS(ROW)};

/* dst[i] = src[i] rounded to odd as a float64 (head of cpu/convert.c): rounding that again, to a
 * float of at most 40 bits of significand, gives what rounding src[i] once gives. From 2^53 on the
 * last 11 bits become one. */
CPU_CLONES static void odd_u64(double *restrict dst, const uint64_t *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = src[i], odd = (x & ~UINT64_C(0x7ff)) | ((x & 0x7ff) ? 0x800 : 0);
        dst[i] = (double)(x < UINT64_C(1) << 53 ? x : odd);
    }
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* In functions of blocks n is at most BLOCK, and data are aligned. */
static void decode_small(float *out, tensor_type t, const void *data, int64_t n)
{
    uint8_t codes[BLOCK];
    if (small[t].unpack) {
        small[t].unpack(codes, data, n);
        data = codes;
    }
    small[t].widen(out, data, n);
}

static void decode_float(void *out, number_kind to, tensor_type t, const void *data, int64_t n)
{
    kv_dtype dtype = KV_FLOAT32;
    float x[BLOCK];
    if (!small[t].widen) {
        tensor_type_dtype(t, &dtype);
        convert_elements(out, numbers[to].dtype, data, dtype, n);
    } else if (to == NUMBER_F32) {
        decode_small(out, t, data, n);
    } else {
        decode_small(x, t, data, n);
        convert_elements(out, KV_FLOAT64, x, KV_FLOAT32, n);
    }
}

static int64_t decode_block(void *out, number_kind to, tensor_type t, const void *data, int64_t n)
{
    if (tensor_type_is_integer(t))
        return integers[t].to[to](out, data, n);
    decode_float(out, to, t, data, n);
    return -1;
}

/* Any n, at any address. */
static int64_t decode(void *out, number_kind to, tensor_type t, const void *data, int64_t n)
{
    block copy;
    bool aligned = is_aligned(data, t);
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t k = at_most(BLOCK, n - i);
        const void *from = (const char *)data + touched_bytes(t, i);
        if (!aligned)
            from = memcpy(&copy, from, (size_t)touched_bytes(t, k));
        int64_t bad = decode_block((char *)out + i * numbers[to].bytes, to, t, from, k);
        if (bad >= 0)
            return i + bad;
    }
    return -1;
}

void tensor_decode_f32(float *out, tensor_type t, const void *data, int64_t n)
{
    bool pairs = t == TENSOR_C64;
    decode(out, NUMBER_F32, pairs ? TENSOR_F32 : t, data, pairs ? 2 * n : n);
}

void tensor_decode_f64(double *out, tensor_type t, const void *data, int64_t n)
{
    bool pairs = t == TENSOR_C64;
    decode(out, NUMBER_F64, pairs ? TENSOR_F32 : t, data, pairs ? 2 * n : n);
}

int64_t tensor_decode_i64(int64_t *out, tensor_type t, const void *data, int64_t n)
{
    return decode(out, NUMBER_I64, t, data, n);
}

int64_t tensor_decode_u64(uint64_t *out, tensor_type t, const void *data, int64_t n)
{
    return decode(out, NUMBER_U64, t, data, n);
}

/* ---- Encoding -------------------------------------------------------------------------------- */

static int64_t encode_small(void *data, tensor_type t, const float *x, int64_t n)
{
    uint8_t codes[BLOCK];
    if (!small[t].pack) {
        small[t].narrow(data, x, n);
        return -1;
    }
    small[t].narrow(codes, x, n);
    small[t].pack(data, codes, n);
    return small_first_nan(x, n);
}

static int64_t encode_float(void *data, tensor_type t, const void *x, number_kind from, int64_t n)
{
    kv_dtype dtype = KV_FLOAT32;
    float odd[BLOCK];
    if (small[t].narrow) {
        if (from != NUMBER_F32)
            convert_to_odd(odd, x, numbers[from].dtype, n);
        return encode_small(data, t, from == NUMBER_F32 ? x : odd, n);
    }
    tensor_type_dtype(t, &dtype);
    convert_elements(data, dtype, x, numbers[from].dtype, n);
    return -1;
}

static int64_t encode_integer(void *data, tensor_type t, const void *x, number_kind from, int64_t n)
{
    double wide[BLOCK];
    if (from != NUMBER_F32)
        return integers[t].from[from](data, x, n);
    convert_elements(wide, KV_FLOAT64, x, KV_FLOAT32, n);
    return integers[t].from[NUMBER_F64](data, wide, n);
}

static int64_t encode_block(void *data, tensor_type t, const void *x, number_kind from, int64_t n)
{
    double odd[BLOCK];
    if (tensor_type_is_integer(t))
        return encode_integer(data, t, x, from, n);
    if (from != NUMBER_U64)
        return encode_float(data, t, x, from, n);
    if (t == TENSOR_F64)
        return integers[TENSOR_U64].to[NUMBER_F64](data, x, n);
    odd_u64(odd, x, n);
    return encode_float(data, t, odd, NUMBER_F64, n);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* Where the losses of a conversion go. */
typedef struct counting {
    tensor_loss *loss; /* NULL: nobody asks */
    bool whole;        /* the numbers come from an integer type */
    int64_t from;      /* the first element, for loss->first */
} counting;

/* The largest number of a float type; its integers from -exact to exact are all numbers of it; from
 * `beyond` on a number is not rounded to the largest, but cut to it. 0: by its codes. */
static const struct {
    double most, exact, beyond;
} ranges[TENSOR_NSAFE] = {
    [TENSOR_F4] = {6, 4, 7},
    [TENSOR_F6_E2M3] = {7.5, 7, 7.75},
    [TENSOR_F6_E3M2] = {28, 8, 30},
    [TENSOR_F8_E5M2] = {57344, 8, 0},
    [TENSOR_F8_E4M3] = {448, 16, 0},
    [TENSOR_F8_E4M3FNUZ] = {240, 16, 0},
    [TENSOR_F8_E5M2FNUZ] = {57344, 8, 0},
    [TENSOR_F16] = {65504, 2048, 0},
    [TENSOR_BF16] = {0x1.fep127, 256, 0},
    [TENSOR_F32] = {0x1.fffffep127, 0x1p24, 0},
    [TENSOR_F64] = {0x1.fffffffffffffp1023, 0x1p53, 0},
};

/* Returns true if a magnitude is above `most`, or a number is nan: as integers, without the sign,
 * bits have the order of magnitudes. */
#define BEYOND(name, T, word, magnitude)                                                           \
    CPU_CLONES static bool beyond_##name(const T *x, int64_t n, T most)                            \
    {                                                                                              \
        word limit, found = 0;                                                                     \
        memcpy(&limit, &most, sizeof limit);                                                       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            word bits;                                                                             \
            memcpy(&bits, &x[i], sizeof bits);                                                     \
            found |= limit - (bits & magnitude);                                                   \
        }                                                                                          \
        return found < 0;                                                                          \
    }
BEYOND(f32, float, int32_t, INT32_MAX)
BEYOND(f64, double, int64_t, INT64_MAX)

static bool beyond_i64(const int64_t *x, int64_t n, double most)
{
    bool found = false;
    for (int64_t i = 0; i < n; i++)
        found |= x[i] > (int64_t)most || x[i] < -(int64_t)most;
    return found;
}

static bool beyond_u64(const uint64_t *x, int64_t n, double most)
{
    bool found = false;
    for (int64_t i = 0; i < n; i++)
        found |= x[i] > (uint64_t)most;
    return found;
}

/* Returns false if no number of a block can be lost, which a look at their sizes tells. */
static bool may_lose(tensor_type t, const void *x, number_kind from, int64_t n, bool whole)
{
    double most = whole ? ranges[t].exact : ranges[t].most;
    if (t == TENSOR_F8_E8M0)
        return true;
    switch (from) {
    case NUMBER_F32:
        return beyond_f32(x, n, (float)most);
    case NUMBER_F64:
        return beyond_f64(x, n, most);
    case NUMBER_I64:
        return beyond_i64(x, n, most < 0x1p62 ? most : 0x1p62);
    case NUMBER_U64:
        return beyond_u64(x, n, most < 0x1p62 ? most : 0x1p62);
    }
    return true;
}

/* A long double holds every number of each kind. */
static long double number_of(const void *x, number_kind from, int64_t i)
{
    switch (from) {
    case NUMBER_F32:
        return ((const float *)x)[i];
    case NUMBER_F64:
        return ((const double *)x)[i];
    case NUMBER_I64:
        return ((const int64_t *)x)[i];
    case NUMBER_U64:
        return ((const uint64_t *)x)[i];
    }
    return 0;
}

/* Compares n numbers with what they became. */
static void count_losses(const counting *c, tensor_type t, const void *data, const void *x,
                         number_kind from, int64_t first, int64_t n)
{
    double became[BLOCK];
    bool whole = c->whole || from == NUMBER_I64 || from == NUMBER_U64;
    if (tensor_type_is_integer(t) ? whole : !may_lose(t, x, from, n, whole))
        return;
    decode_block(became, NUMBER_F64, t, data, n);
    for (int64_t i = 0; i < n; i++) {
        long double was = number_of(x, from, i);
        int64_t *count = !isfinite(was)     ? NULL
                         : isnan(became[i]) ? &c->loss->nan
                         : isinf(became[i]) ? &c->loss->inf
                         : ranges[t].beyond > 0 && fabsl(was) >= ranges[t].beyond
                             ? &c->loss->saturated
                         : was == became[i] ? NULL
                         : whole            ? &c->loss->rounded
                         : tensor_type_is_integer(t)    ? &c->loss->fraction
                                            : NULL;
        if (count && c->loss->first < 0)
            c->loss->first = c->from + first + i;
        *(count ? count : &(int64_t){0}) += 1;
    }
}

/* Any n, at any address. */
static int64_t encode(void *data, tensor_type t, const void *x, number_kind from, int64_t n,
                      counting c)
{
    block copy;
    bool aligned = is_aligned(data, t);
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t k = at_most(BLOCK, n - i);
        char *to = (char *)data + touched_bytes(t, i);
        const char *numbers_at = (const char *)x + i * numbers[from].bytes;
        int64_t bad = encode_block(aligned ? to : copy.data, t, numbers_at, from, k);
        if (bad >= 0)
            return i + bad;
        if (c.loss)
            count_losses(&c, t, aligned ? to : copy.data, numbers_at, from, i, k);
        if (!aligned)
            memcpy(to, &copy, (size_t)touched_bytes(t, k));
    }
    return -1;
}

/* ---- From type to type ----------------------------------------------------------------------- */

/* The numbers that hold all of `from`. */
static number_kind numbers_between(tensor_type to, tensor_type from)
{
    if (tensor_fits_f32(from) && !(tensor_type_is_integer(from) && tensor_type_is_integer(to)))
        return NUMBER_F32;
    if (from == TENSOR_F64)
        return NUMBER_F64;
    return from == TENSOR_U64 ? NUMBER_U64 : NUMBER_I64;
}

int64_t tensor_convert(void *dst, tensor_type to, const void *src, tensor_type from, int64_t n)
{
    return tensor_convert_counting(dst, to, src, from, n, NULL);
}

int64_t tensor_convert_counting(void *dst, tensor_type to, const void *src, tensor_type from,
                                int64_t n, tensor_loss *loss)
{
    counting c = {.loss = loss, .whole = tensor_type_is_integer(from)};
    block between;
    number_kind kind = numbers_between(to, from);
    int64_t bad = from == TENSOR_BOOL ? scalar_not_bool(src, n) : -1;
    if (bad >= 0)
        return bad;
    if (to == from) {
        memcpy(dst, src, (size_t)touched_bytes(to, n));
        return -1;
    }
    if (to == numbers[kind].type && is_aligned(dst, to)) /* which holds all of them */
        return decode(dst, kind, from, src, n);
    if (from == numbers[kind].type && is_aligned(src, from))
        return encode(dst, to, src, kind, n, c);
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t k = at_most(BLOCK, n - i);
        decode(&between, kind, from, (const char *)src + touched_bytes(from, i), k);
        c.from = i;
        bad = encode((char *)dst + touched_bytes(to, i), to, &between, kind, k, c);
        if (bad >= 0)
            return i + bad;
    }
    return -1;
}

bool tensor_encode_finite(void *data, const float *x, int64_t n)
{
    return half_narrow_bf16_finite(data, x, n);
}

int64_t tensor_to_array(void *array, tensor_type t, const void *data, int64_t n)
{
    kv_dtype dtype;
    if (!tensor_type_dtype(t, &dtype))
        return 0;
    return tensor_convert(array, tensor_type_of(dtype), data, t, n);
}

/* ---- What fits ------------------------------------------------------------------------------- */

enum { TRIED = 1024 };

/* The first of n numbers, TRIED at most, that becomes an infinity or does not fit; -1: none. */
static int64_t first_lost(const void *data, tensor_type from, tensor_type to, int64_t n)
{
    double unused[TRIED];
    tensor_loss loss = {.first = -1};
    int64_t wrong = tensor_convert_counting(unused, to, data, from, n, &loss);
    if (wrong >= 0 || (loss.inf == 0 && loss.nan == 0))
        return wrong;
    for (int64_t i = 0; i < n; i++) { /* loss.first may be one that is rounded */
        tensor_loss one = {.first = -1};
        tensor_convert_counting(unused, to, (const char *)data + tensor_type_bytes(from, i), from,
                                1, &one);
        if (one.inf || one.nan)
            return i;
    }
    return -1;
}

int tensor_check_fits(kv_array *a, kv_dtype dtype, const char *name, kv_err *e)
{
    const char *data;
    kv_dtype has = kv_array_dtype(a);
    tensor_type from = tensor_type_of(has), to = tensor_type_of(dtype);
    int64_t n = kv_array_size(a), lost = -1, at = 0;
    TRY(kv_array_read(a, (const void **)&data, e));
    if (dtype == KV_BOOL)
        return KV_OK;
    int rc = KV_OK;
    for (; at < n && lost < 0 && !(rc = stop_check_at(at, e)); at += TRIED)
        lost =
            first_lost(data + at * kv_dtype_bytes(has), from, to, at_most(n - at, TRIED));
    if (rc || lost < 0)
        return rc;
    char text[NUM_TEXT_MAX];
    double x;
    int64_t whole;
    at += lost - TRIED;
    data += at * kv_dtype_bytes(has);
    if (kv_dtype_is_float(has)) {
        tensor_decode_f64(&x, from, data, 1);
        num_plain(text, x, NUM_BINARY64);
    } else {
        tensor_decode_i64(&whole, from, data, 1);
        text[num_int(text, whole)] = '\0';
    }
    kv_err_set(e, KV_E_VALUE, "%s: element %lld is %s, which does not fit %s", name, (long long)at,
               text, kv_dtype_name(dtype));
    kv_err_hint(e, "without dtype=, astype(\"%s\") converts all of them", kv_dtype_name(dtype));
    return e->code;
}
