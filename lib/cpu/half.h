/* Floats smaller than float32, to and from float32, many at a time.
 *
 * float16 and bfloat16: narrowing rounds to nearest, half to even; nan stays nan with the leading
 * bits of its payload. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The bits of a float32, and back. */
static inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

void half_widen_f16(float *restrict dst, const uint16_t *restrict src, int64_t n);
void half_narrow_f16(uint16_t *restrict dst, const float *restrict src, int64_t n);
void half_widen_bf16(float *restrict dst, const uint16_t *restrict src, int64_t n);
void half_narrow_bf16(uint16_t *restrict dst, const float *restrict src, int64_t n);

/* The same; returns true if all codes are of finite numbers. */
bool half_narrow_bf16_finite(uint16_t *restrict dst, const float *restrict src, int64_t n);

/* The conversions of float16 without the instructions of the processor, for machines that lack
 * them; shared so that tests compare both. */
void half_widen_f16_soft(float *restrict dst, const uint16_t *restrict src, int64_t n);
void half_narrow_f16_soft(uint16_t *restrict dst, const float *restrict src, int64_t n);

/* Floats of 8, 6 and 4 bits, to and from float32, many at a time. A code is one float in the low
 * bits of a byte; those of 6 and 4 bits are packed and unpacked apart.
 *
 * Widening is exact, and any nan becomes the quiet one with its sign. Narrowing rounds to nearest,
 * half to even. A number too large becomes infinity in e5m2, nan in e4m3, both fnuz and e8m0, and
 * the largest number in e3m2, e2m3 and e2m1, which have no nan either: look for it first. e8m0 has
 * powers of two only: 0 and negative numbers become nan, positive ones below 2^-127 become 2^-127,
 * and 1.5 becomes 2, because ties go to the even significand, which is 2 halves and not 1. Between
 * 2^-127 and 2^-126 everything rounds up, as in ml_dtypes. */
#define SMALL_FLOATS(X)                                                                            \
    X(e5m2)                                                                                        \
    X(e4m3)                                                                                        \
    X(e4m3fnuz)                                                                                    \
    X(e5m2fnuz)                                                                                    \
    X(e8m0)                                                                                        \
    X(e3m2)                                                                                        \
    X(e2m3)                                                                                        \
    X(e2m1)

#define SMALL_FLOAT_LOOPS(f)                                                                       \
    void small_widen_##f(float *restrict dst, const uint8_t *restrict codes, int64_t n);           \
    void small_narrow_##f(uint8_t *restrict codes, const float *restrict src, int64_t n);
SMALL_FLOATS(SMALL_FLOAT_LOOPS)
#undef SMALL_FLOAT_LOOPS

/* Code i is bits i * w and on of the data, read as one little-endian number; n codes take
 * (n * w + 7) / 8 bytes; the last one is filled with 0. */
void small_unpack_6(uint8_t *restrict codes, const uint8_t *restrict data, int64_t n);
void small_pack_6(uint8_t *restrict data, const uint8_t *restrict codes, int64_t n);
void small_unpack_4(uint8_t *restrict codes, const uint8_t *restrict data, int64_t n);
void small_pack_4(uint8_t *restrict data, const uint8_t *restrict codes, int64_t n);

/* The first nan of n floats, or -1. */
int64_t small_first_nan(const float *src, int64_t n);
