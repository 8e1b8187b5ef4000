/* Integers of tensors: a loop a type and direction, made by macros. */
#include "checkpoint/tensor_integer.h"

#include <math.h>
#include <stdbool.h>

#include "base/compiler.h"

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
    CPU_CLONES static void name(void *restrict dst, const void *restrict src, int64_t n)           \
    {                                                                                              \
        to *restrict d = dst;                                                                      \
        const from *restrict s = src;                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] = (expression);                                                                   \
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
 * even, as the processor does unless told otherwise. */
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

typedef void conversion_fn(void *restrict dst, const void *restrict src, int64_t n);
typedef int64_t checked_fn(void *restrict dst, const void *restrict src, int64_t n);

#define ROW(t, name, ...)                                                                          \
    [t] = {name##_to_f32, name##_to_f64, name##_to_i64, name##_to_u64,                             \
           name##_from_f64, name##_from_i64, name##_from_u64},
static const struct {
    conversion_fn *to_f32, *to_f64;
    checked_fn *to_i64, *to_u64, *from_f64, *from_i64, *from_u64;
} loops[TENSOR_NSAFE] = {INTEGERS(ROW)};

void integer_to_f32(tensor_type t, float *restrict dst, const void *restrict src, int64_t n)
{
    loops[t].to_f32(dst, src, n);
}

void integer_to_f64(tensor_type t, double *restrict dst, const void *restrict src, int64_t n)
{
    loops[t].to_f64(dst, src, n);
}

int64_t integer_to_i64(tensor_type t, int64_t *restrict dst, const void *restrict src, int64_t n)
{
    return loops[t].to_i64(dst, src, n);
}

int64_t integer_to_u64(tensor_type t, uint64_t *restrict dst, const void *restrict src, int64_t n)
{
    return loops[t].to_u64(dst, src, n);
}

int64_t integer_from_f64(tensor_type t, void *restrict dst, const double *restrict src, int64_t n)
{
    return loops[t].from_f64(dst, src, n);
}

int64_t integer_from_i64(tensor_type t, void *restrict dst, const int64_t *restrict src, int64_t n)
{
    return loops[t].from_i64(dst, src, n);
}

int64_t integer_from_u64(tensor_type t, void *restrict dst, const uint64_t *restrict src, int64_t n)
{
    return loops[t].from_u64(dst, src, n);
}

/* From 2^53 on the last 11 bits become one. */
CPU_CLONES void integer_odd_u64(double *restrict dst, const uint64_t *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = src[i], odd = (x & ~UINT64_C(0x7ff)) | ((x & 0x7ff) ? 0x800 : 0);
        dst[i] = (double)(x < UINT64_C(1) << 53 ? x : odd);
    }
}
