/* Conversions between all dtypes.
 *
 * Between the seven types that C has, each pair is one plain loop, made by the macros below. The
 * two half types go through float32 in blocks that stay in the L1 cache: widening is exact, and
 * narrowing must round once, so what is wider than float32 is first rounded to odd there: the last
 * bit of an inexact float32 is made 1, which keeps it off every tie and on the right side of it
 * (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms using
 * rounding to odd"). float32 has more than two digits more than either half type, as that needs.
 */
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "cpu/half.h"

/* Elements a block: 4 KB of float32, small beside any L1 cache. */
enum { BLOCK = 1024 };

/* bool is read as a byte, so that other bytes than 0 and 1 in a caller's memory mean true too. */
#define C_TYPES(X, to)                                                                             \
    X(to, KV_FLOAT32, float, FLOAT)                                                                \
    X(to, KV_FLOAT64, double, FLOAT)                                                               \
    X(to, KV_UINT8, uint8_t, INT)                                                                  \
    X(to, KV_INT32, int32_t, INT)                                                                  \
    X(to, KV_INT8, int8_t, INT)                                                                    \
    X(to, KV_INT64, int64_t, INT)                                                                  \
    X(to, KV_BOOL, uint8_t, BOOL)

/* To float or double, from whatever kind: rounds once. */
#define READ_FLOAT(x) (x)
#define READ_INT(x)   (x)
#define READ_BOOL(x)  ((x) != 0)

/* Float to integer: clamp in binary64, which holds every float32 and the bounds of 32 bits. */
static inline double clamp(double x, double low, double high)
{
    double y = x < low ? low : x > high ? high : x;
    return x == x ? y : 0;
}

/* binary64 has no 2^63 - 1: clamp to the number below 2^63, then correct larger inputs. */
static inline int64_t saturate(double x)
{
    int64_t y = (int64_t)clamp(x, -0x1p63, 0x1.fffffffffffffp62);
    return x >= 0x1p63 ? INT64_MAX : y;
}

#define U8_FLOAT(x)  ((uint8_t)clamp(x, 0, 255))
#define I8_FLOAT(x)  ((int8_t)clamp(x, -128, 127))
#define I32_FLOAT(x) ((int32_t)clamp(x, -2147483648.0, 2147483647.0))
#define I64_FLOAT(x) saturate(x)
#define U8_INT(x)    ((uint8_t)(x))
#define I8_INT(x)    ((int8_t)(x))
#define I32_INT(x)   ((int32_t)(x))
#define I64_INT(x)   ((int64_t)(x))
#define U8_BOOL(x)   ((x) != 0)
#define I8_BOOL(x)   ((x) != 0)
#define I32_BOOL(x)  ((x) != 0)
#define I64_BOOL(x)  ((x) != 0)

#define LOOP(name, to, from, expression)                                                           \
    CPU_CLONES static void name(void *restrict dst, const void *restrict src, int64_t n)           \
    {                                                                                              \
        to *restrict d = dst;                                                                      \
        const from *restrict s = src;                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] = (expression);                                                                   \
    }

/* One loop from every type to each of the seven. */
#define TO_FLOAT(to, id, type, kind)  LOOP(to##_of_##id, float, type, (float)READ_##kind(s[i]))
#define TO_DOUBLE(to, id, type, kind) LOOP(to##_of_##id, double, type, (double)READ_##kind(s[i]))
#define TO_UINT8(to, id, type, kind)  LOOP(to##_of_##id, uint8_t, type, U8_##kind(s[i]))
#define TO_INT32(to, id, type, kind)  LOOP(to##_of_##id, int32_t, type, I32_##kind(s[i]))
#define TO_INT8(to, id, type, kind)   LOOP(to##_of_##id, int8_t, type, I8_##kind(s[i]))
#define TO_INT64(to, id, type, kind)  LOOP(to##_of_##id, int64_t, type, I64_##kind(s[i]))
#define TO_BOOL(to, id, type, kind)   LOOP(to##_of_##id, uint8_t, type, s[i] != 0)

C_TYPES(TO_FLOAT, f32)
C_TYPES(TO_DOUBLE, f64)
C_TYPES(TO_UINT8, u8)
C_TYPES(TO_INT32, i32)
C_TYPES(TO_INT8, i8)
C_TYPES(TO_INT64, i64)
C_TYPES(TO_BOOL, truth)

typedef void loop_fn(void *restrict dst, const void *restrict src, int64_t n);

/* loops[to][from] for the seven types. */
#define ENTRY(to, id, type, kind) [id] = to##_of_##id,
static loop_fn *const loops[KV_DTYPE_END][KV_DTYPE_END] = {
    [KV_FLOAT32] = {C_TYPES(ENTRY, f32)}, [KV_FLOAT64] = {C_TYPES(ENTRY, f64)},
    [KV_UINT8] = {C_TYPES(ENTRY, u8)},    [KV_INT32] = {C_TYPES(ENTRY, i32)},
    [KV_INT8] = {C_TYPES(ENTRY, i8)},     [KV_INT64] = {C_TYPES(ENTRY, i64)},
    [KV_BOOL] = {C_TYPES(ENTRY, truth)},
};

/* x as a float32, rounded to odd. The nearest float32 is off by less than a unit, so that when it
 * is inexact and even, the odd one is its neighbour on the side of x. */
static inline float to_odd(double x)
{
    float near = (float)x;
    uint32_t u = bits_of(near);
    double ax = x < 0 ? -x : x, anear = near < 0 ? -(double)near : (double)near;
    uint32_t odd = anear > ax ? u - 1 : u + 1;
    return float_of(anear != ax && !(u & 1) ? odd : u);
}

/* An integer of 64 bits as a double, rounded to odd: beyond 2^53 its last 11 bits become one. */
static inline double int_to_odd(int64_t x)
{
    int64_t odd = (x & ~INT64_C(0x7ff)) | ((x & 0x7ff) ? 0x800 : 0);
    return (double)(x > -(INT64_C(1) << 53) && x < INT64_C(1) << 53 ? x : odd);
}

LOOP(odd_of_f64, float, double, to_odd(s[i]))
LOOP(odd_of_i32, float, int32_t, to_odd(s[i]))
LOOP(odd_of_i64, float, int64_t, to_odd(int_to_odd(s[i])))

static void widen(float *dst, const void *src, kv_dtype from, int64_t n)
{
    if (from == KV_FLOAT16)
        half_widen_f16(dst, src, n);
    else
        half_widen_bf16(dst, src, n);
}

static void narrow(void *dst, kv_dtype to, const float *src, int64_t n)
{
    if (to == KV_FLOAT16)
        half_narrow_f16(dst, src, n);
    else
        half_narrow_bf16(dst, src, n);
}

/* The loop from a dtype to a float32 that may still be narrowed without rounding twice. */
static loop_fn *odd_loop(kv_dtype from)
{
    switch (from) {
    case KV_FLOAT64:
        return odd_of_f64;
    case KV_INT32:
        return odd_of_i32;
    case KV_INT64:
        return odd_of_i64;
    case KV_FLOAT32:
    case KV_FLOAT16:
    case KV_BFLOAT16:
    case KV_UINT8:
    case KV_INT8:
    case KV_BOOL:
        break; /* exact */
    }
    return loops[KV_FLOAT32][from];
}

void convert_to_odd(float *dst, const void *src, kv_dtype from, int64_t n)
{
    odd_loop(from)(dst, src, n);
}

static bool is_half(kv_dtype dtype)
{
    return dtype == KV_FLOAT16 || dtype == KV_BFLOAT16;
}

static void convert_in_blocks(char *dst, kv_dtype to, const char *src, kv_dtype from, int64_t n)
{
    float block[BLOCK];
    int64_t to_bytes = kv_dtype_bytes(to), from_bytes = kv_dtype_bytes(from);
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t k = at_most(n - i, BLOCK);
        if (is_half(from))
            widen(block, src + i * from_bytes, from, k);
        else
            convert_to_odd(block, src + i * from_bytes, from, k);
        if (is_half(to))
            narrow(dst + i * to_bytes, to, block, k);
        else
            loops[to][KV_FLOAT32](dst + i * to_bytes, block, k);
    }
}

void convert_elements(void *dst, kv_dtype to, const void *src, kv_dtype from, int64_t n)
{
    if (to == from && to != KV_BOOL)
        memcpy(dst, src, (size_t)(n * kv_dtype_bytes(to)));
    else if (loops[to][from])
        loops[to][from](dst, src, n);
    else if (to == KV_FLOAT32)
        widen(dst, src, from, n);
    else if (from == KV_FLOAT32)
        narrow(dst, to, src, n);
    else
        convert_in_blocks(dst, to, src, from, n);
}
