/* Floats of 8, 6 and 4 bits.
 *
 * All but e8m0 are a sign, an exponent and a fraction, and differ in the numbers of a small_format,
 * which the compiler folds into each loop. Arithmetic instead of tables, because the vectoriser
 * turns it into a few instructions for 8 elements, and looks up tables one element at a time.
 * Source: the OCP specifications of 8-bit floating point and of microscaling formats; for fnuz,
 * Noune et al. 2022, "8-bit Numerical Formats for Deep Neural Networks".
 */
#include "cpu/small_float.h"

#include <stdbool.h>
#include <string.h>

#include "base/clones.h"
#include "cpu/float_bits.h"

/* Codes here are without the sign. */
typedef struct small_format {
    int fraction, bias; /* bits of the fraction, bias of the exponent */
    int sign;           /* the sign's bit */
    uint32_t largest;   /* code of the largest finite number */
    uint32_t over, nan; /* codes of a number too large and of nan */
    bool fnuz;          /* the code of -0 is nan, and there is neither -0 nor infinity */
} small_format;

/* The power of two as float32: the bits of a normal number. */
static inline uint32_t power_bits(int exponent)
{
    return (uint32_t)(127 + exponent) << 23;
}

/* Subnormal codes are converted as integers: multiplying a subnormal float32, as the float16 loops
 * do, takes some processors a hundred times as long. */
static inline float widen(uint32_t code, small_format f)
{
    uint32_t magnitude = code & ((1u << f.sign) - 1);
    uint32_t sign = (code >> f.sign) << 31;
    float small = (float)(int32_t)magnitude * float_of(power_bits(1 - f.bias - f.fraction));
    uint32_t normal = (magnitude << (23 - f.fraction)) + power_bits(-f.bias);
    uint32_t m = magnitude < 1u << f.fraction ? bits_of(small) : normal;
    m = !f.fnuz && magnitude > f.largest ? 0x7fc00000 : m;
    m = f.over != f.nan && f.over > f.largest && magnitude == f.over ? 0x7f800000 : m;
    m = f.fnuz && code == 0x80 ? 0x7fc00000 : m;
    return float_of(sign | m);
}

/* The cases of narrow_f16 in half.c. Small numbers are those below the smallest normal one: adding
 * 2^23 units of the last place makes the float unit round there. */
static inline uint32_t narrow(float x, small_format f)
{
    int shift = 23 - f.fraction;
    uint32_t u = bits_of(x), m = u & 0x7fffffff;
    uint32_t least = power_bits(1 - f.bias), unit = power_bits(24 - f.bias - f.fraction);
    uint32_t half = (1u << (shift - 1)) - 1 + (m >> shift & 1);
    uint32_t normal = (m - power_bits(-f.bias) + half) >> shift;
    uint32_t small = bits_of(float_of(m < least ? m : 0) + float_of(unit)) - unit;
    uint32_t code = m < least ? small : normal;
    code = code > f.largest ? f.over : code;
    code = m > 0x7f800000 ? f.nan : code;
    uint32_t sign = (u >> 31) << f.sign;
    return f.fnuz && (code & 0x7f) == 0 ? code : code | sign;
}

#define FORMAT(name, ...)                                                                          \
    static inline float widen_##name(uint32_t code)                                                \
    {                                                                                              \
        return widen(code, (small_format){__VA_ARGS__});                                           \
    }                                                                                              \
    static inline uint32_t narrow_##name(float x)                                                  \
    {                                                                                              \
        return narrow(x, (small_format){__VA_ARGS__});                                             \
    }

/* fraction, bias, sign, largest, over, nan, fnuz */
FORMAT(e5m2, 2, 15, 7, 0x7b, 0x7c, 0x7e, false)
FORMAT(e4m3, 3, 7, 7, 0x7e, 0x7f, 0x7f, false)
FORMAT(e4m3fnuz, 3, 8, 7, 0x7f, 0x80, 0x80, true)
FORMAT(e5m2fnuz, 2, 16, 7, 0x7f, 0x80, 0x80, true)
FORMAT(e3m2, 2, 3, 5, 0x1f, 0x1f, 0, false)
FORMAT(e2m3, 3, 1, 5, 0x1f, 0x1f, 0, false)
FORMAT(e2m1, 1, 1, 3, 7, 7, 0, false)

/* 2^-127 is a subnormal float32. */
static inline float widen_e8m0(uint32_t code)
{
    uint32_t power = code ? code << 23 : 0x00400000;
    return float_of(code == 0xff ? 0x7fc00000 : power);
}

/* Adding half a unit carries into the exponent. The bits of a float32 below 2^-126 are no exponent
 * and fraction, but all above 2^-127 carry as well, and 2^-127 itself must not. What is not above
 * 0, less 1, is a large number. */
static inline uint32_t narrow_e8m0(float x)
{
    uint32_t u = bits_of(x), code = (u + 0x00400000 - (u == 0x00400000)) >> 23;
    return u - 1 < 0x7f800000 ? code : 0xff;
}

/* The formulas work on 32 bits, and bytes are copied to and from those apart: the vectoriser would
 * do comparisons with the bytes as they are, and spend its time on moving the results of these. */
enum { CHUNK = 256 };

#define LOOPS(f)                                                                                   \
    CPU_CLONES void small_widen_##f(float *restrict dst, const uint8_t *restrict codes,            \
                                    int64_t n)                                                     \
    {                                                                                              \
        uint32_t chunk[CHUNK];                                                                     \
        for (int64_t i = 0; i < n; i += CHUNK) {                                                   \
            int64_t k = n - i < CHUNK ? n - i : CHUNK;                                             \
            for (int64_t j = 0; j < k; j++)                                                        \
                chunk[j] = codes[i + j];                                                           \
            for (int64_t j = 0; j < k; j++)                                                        \
                dst[i + j] = widen_##f(chunk[j]);                                          \
        }                                                                                          \
    }                                                                                              \
    CPU_CLONES void small_narrow_##f(uint8_t *restrict codes, const float *restrict src,           \
                                     int64_t n)                                                    \
    {                                                                                              \
        uint32_t chunk[CHUNK];                                                                     \
        for (int64_t i = 0; i < n; i += CHUNK) {                                                   \
            int64_t k = n - i < CHUNK ? n - i : CHUNK;                                             \
            for (int64_t j = 0; j < k; j++)                                                        \
                chunk[j] = narrow_##f(src[i + j]);                                         \
            for (int64_t j = 0; j < k; j++)                                                        \
                codes[i + j] = (uint8_t)chunk[j];                                                  \
        }                                                                                          \
    }

SMALL_FLOATS(LOOPS)

CPU_CLONES void small_unpack_4(uint8_t *restrict codes, const uint8_t *restrict data, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++) {
        codes[2 * i] = data[i] & 15;
        codes[2 * i + 1] = data[i] >> 4;
    }
    if (n % 2)
        codes[n - 1] = data[n / 2] & 15;
}

CPU_CLONES void small_pack_4(uint8_t *restrict data, const uint8_t *restrict codes, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++)
        data[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
    if (n % 2)
        data[n / 2] = codes[n - 1];
}

/* Four codes of 6 bits are a number of 3 bytes. */
static inline void unpack_four(uint8_t *codes, const uint8_t *data)
{
    uint32_t v = data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16;
    for (int j = 0; j < 4; j++)
        codes[j] = v >> (6 * j) & 63;
}

static inline void pack_four(uint8_t *data, const uint8_t *codes)
{
    uint32_t v = 0;
    for (int j = 0; j < 4; j++)
        v |= (uint32_t)codes[j] << (6 * j);
    for (int j = 0; j < 3; j++)
        data[j] = (uint8_t)(v >> (8 * j));
}

void small_unpack_6(uint8_t *restrict codes, const uint8_t *restrict data, int64_t n)
{
    uint8_t last[3] = {0}, some[4];
    int64_t rest = n % 4;
    for (int64_t i = 0; i < n / 4; i++)
        unpack_four(codes + 4 * i, data + 3 * i);
    memcpy(last, data + n / 4 * 3, (size_t)(rest * 6 + 7) / 8);
    unpack_four(some, last);
    memcpy(codes + n - rest, some, (size_t)rest);
}

void small_pack_6(uint8_t *restrict data, const uint8_t *restrict codes, int64_t n)
{
    uint8_t last[3], some[4] = {0};
    int64_t rest = n % 4;
    for (int64_t i = 0; i < n / 4; i++)
        pack_four(data + 3 * i, codes + 4 * i);
    memcpy(some, codes + n - rest, (size_t)rest);
    pack_four(last, some);
    memcpy(data + n / 4 * 3, last, (size_t)(rest * 6 + 7) / 8);
}

CPU_CLONES static bool any_nan(const float *src, int64_t n)
{
    int32_t any = 0;
    for (int64_t i = 0; i < n; i++)
        any |= src[i] != src[i];
    return any;
}

int64_t small_first_nan(const float *src, int64_t n)
{
    if (any_nan(src, n))
        for (int64_t i = 0; i < n; i++)
            if (src[i] != src[i])
                return i;
    return -1;
}
