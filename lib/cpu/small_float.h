/* Floats of 8, 6 and 4 bits, to and from float32, many at a time. A code is one float in the low
 * bits of a byte; those of 6 and 4 bits are packed and unpacked apart.
 *
 * Widening is exact, and any nan becomes the quiet one with its sign. Narrowing rounds to nearest,
 * half to even. A number too large becomes infinity in e5m2, nan in e4m3, both fnuz and e8m0, and
 * the largest number in e3m2, e2m3 and e2m1, which have no nan either: look for it first. e8m0 has
 * powers of two only: 0 and negative numbers become nan, positive ones below 2^-127 become 2^-127,
 * and 1.5 becomes 2, because ties go to the even significand, which is 2 halves and not 1. Between
 * 2^-127 and 2^-126 everything rounds up, as ml_dtypes has it.
 */
#ifndef CPU_SMALL_FLOAT_H
#define CPU_SMALL_FLOAT_H

#include <stdint.h>

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
 * (n * w + 7) / 8 bytes, the last of which is filled with 0. */
void small_unpack_6(uint8_t *restrict codes, const uint8_t *restrict data, int64_t n);
void small_pack_6(uint8_t *restrict data, const uint8_t *restrict codes, int64_t n);
void small_unpack_4(uint8_t *restrict codes, const uint8_t *restrict data, int64_t n);
void small_pack_4(uint8_t *restrict data, const uint8_t *restrict codes, int64_t n);

/* The first nan of n floats, or -1. */
int64_t small_first_nan(const float *src, int64_t n);

#endif
