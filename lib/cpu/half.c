/* float16 and bfloat16.
 *
 * float16 has 1 sign, 5 exponent (bias 15) and 10 fraction bits; bfloat16 is the upper half of a
 * float32. Both are handled as bits. float16 uses the processor's F16C instructions where they are
 * there; the software below gives the same bits, those of nan included.
 */
#include "cpu/half.h"

#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"

/* The exponent is rebased by a multiplication, which is exact and normalises subnormal numbers. */
static inline float widen_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    float finite = float_of(magnitude << 13) * 0x1p112f;
    uint32_t quiet = magnitude > 0x7c00 ? 0x00400000 : 0;
    uint32_t special = 0x7f800000 | (magnitude & 0x3ff) << 13 | quiet;
    return float_of(sign | (magnitude < 0x7c00 ? bits_of(finite) : special));
}

/* Three cases: too large, nan and infinity; normal, where adding half a unit less one, plus the
 * last bit kept, carries into the exponent when it must; and results below 2^-14, where adding 0.5
 * makes the float unit round at 2^-24. */
static inline uint16_t narrow_f16(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
    uint32_t special = m > 0x7f800000 ? 0x7e00 | (m >> 13 & 0x3ff) : 0x7c00;
    uint32_t normal = (m - 0x38000000 + 0xfff + (m >> 13 & 1)) >> 13;
    uint32_t small = bits_of(float_of(m < 0x38800000 ? m : 0) + 0.5f) - 0x3f000000;
    uint32_t result = m >= 0x47800000 ? special : m >= 0x38800000 ? normal : small;
    return (uint16_t)(sign | result);
}

CPU_CLONES void half_widen_f16_soft(float *restrict dst, const uint16_t *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = widen_f16(src[i]);
}

CPU_CLONES void half_narrow_f16_soft(uint16_t *restrict dst, const float *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = narrow_f16(src[i]);
}

#ifdef __x86_64__
#include <immintrin.h>

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

/* The compiler does not turn the software into these instructions, hence by hand. Every processor
 * with AVX2 has F16C, which some compilers cannot ask for. */
__attribute__((target("avx2,f16c"))) static void widen_f16c(float *dst, const uint16_t *src,
                                                            int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(src + i))));
    for (; i < n; i++)
        dst[i] = _cvtsh_ss(src[i]);
}

__attribute__((target("avx2,f16c"))) static void narrow_f16c(uint16_t *dst, const float *src,
                                                             int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(dst + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        dst[i] = _cvtss_sh(src[i], _MM_FROUND_TO_NEAREST_INT);
}
#else
static bool has_avx2(void)
{
    return false;
}

#define widen_f16c  half_widen_f16_soft
#define narrow_f16c half_narrow_f16_soft
#endif

void half_widen_f16(float *restrict dst, const uint16_t *restrict src, int64_t n)
{
    if (has_avx2())
        widen_f16c(dst, src, n);
    else
        half_widen_f16_soft(dst, src, n);
}

void half_narrow_f16(uint16_t *restrict dst, const float *restrict src, int64_t n)
{
    if (has_avx2())
        narrow_f16c(dst, src, n);
    else
        half_narrow_f16_soft(dst, src, n);
}

/* ---- bfloat16 -------------------------------------------------------------------------------- */

CPU_CLONES static void widen_bf16(float *restrict dst, const uint16_t *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = float_of((uint32_t)src[i] << 16);
}

/* *top becomes the largest of the codes without their signs, and of itself. */
CPU_CLONES static void narrow_bf16(uint16_t *restrict dst, const float *restrict src, int64_t n,
                                   uint16_t *restrict top)
{
    uint16_t most = *top;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = bits_of(src[i]);
        uint32_t rounded = u + 0x7fff + (u >> 16 & 1), quiet = u | 0x00400000;
        dst[i] = (uint16_t)(((u & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16);
        uint16_t size = dst[i] & 0x7fff;
        most = size > most ? size : most;
    }
    *top = most;
}

#ifdef __x86_64__
/* The compiler widens and packs in twice as many instructions. Returns how many elements are done.
 */
__attribute__((target("avx512f"))) static int64_t widen_bf16_512(float *dst, const uint16_t *src,
                                                                 int64_t n)
{
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m512i a = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(src + i)));
        __m512i b = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(src + i + 16)));
        _mm512_storeu_si512(dst + i, _mm512_slli_epi32(a, 16));
        _mm512_storeu_si512(dst + i + 16, _mm512_slli_epi32(b, 16));
    }
    return i;
}

__attribute__((target("avx512f"))) static inline __m256i round_bf16(const float *src)
{
    __m512 x = _mm512_loadu_ps(src);
    __m512i u = _mm512_castps_si512(x), last = _mm512_srli_epi32(u, 16) & _mm512_set1_epi32(1);
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), last);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x00400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

/* The largest of 16 sizes of codes. */
__attribute__((target("avx2"))) static uint16_t largest_of(__m256i sizes)
{
    uint16_t size[16], most = 0;
    _mm256_storeu_si256((void *)size, sizes);
    for (int l = 0; l < 16; l++)
        most = size[l] > most ? size[l] : most;
    return most;
}

__attribute__((target("avx512f"))) static int64_t narrow_bf16_512(uint16_t *dst, const float *src,
                                                                  int64_t n, uint16_t *top)
{
    const __m256i size = _mm256_set1_epi16(0x7fff);
    __m256i most = _mm256_setzero_si256();
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i a = round_bf16(src + i), b = round_bf16(src + i + 16);
        most = _mm256_max_epu16(_mm256_max_epu16(most, a & size), b & size);
        _mm256_storeu_si256((void *)(dst + i), a);
        _mm256_storeu_si256((void *)(dst + i + 16), b);
    }
    *top = largest_of(most);
    return i;
}

__attribute__((target("avx2"))) static int64_t widen_bf16_256(float *dst, const uint16_t *src,
                                                              int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(src + i)));
        _mm256_storeu_si256((void *)(dst + i), _mm256_slli_epi32(a, 16));
    }
    return i;
}

__attribute__((target("avx2"))) static inline __m256i round_bf16_256(const float *src)
{
    __m256 x = _mm256_loadu_ps(src);
    __m256i u = _mm256_castps_si256(x), last = _mm256_srli_epi32(u, 16) & _mm256_set1_epi32(1);
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), last);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    rounded = _mm256_blendv_epi8(rounded, u | _mm256_set1_epi32(0x00400000), nan);
    return _mm256_srli_epi32(rounded, 16);
}

__attribute__((target("avx2"))) static int64_t narrow_bf16_256(uint16_t *dst, const float *src,
                                                               int64_t n, uint16_t *top)
{
    const __m256i size = _mm256_set1_epi16(0x7fff);
    __m256i most = _mm256_setzero_si256();
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i both = _mm256_packus_epi32(round_bf16_256(src + i), round_bf16_256(src + i + 8));
        most = _mm256_max_epu16(most, both & size);
        _mm256_storeu_si256((void *)(dst + i), _mm256_permute4x64_epi64(both, 0xd8));
    }
    *top = largest_of(most);
    return i;
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}
#else
#define widen_bf16_512(dst, src, n)       0
#define narrow_bf16_512(dst, src, n, top) 0
#define widen_bf16_256(dst, src, n)       0
#define narrow_bf16_256(dst, src, n, top) 0

static bool has_avx512(void)
{
    return false;
}
#endif

void half_widen_bf16(float *restrict dst, const uint16_t *restrict src, int64_t n)
{
    int64_t done = has_avx512() ? widen_bf16_512(dst, src, n)
                   : has_avx2() ? widen_bf16_256(dst, src, n)
                                : 0;
    widen_bf16(dst + done, src + done, n - done);
}

bool half_narrow_bf16_finite(uint16_t *restrict dst, const float *restrict src, int64_t n)
{
    uint16_t top = 0;
    int64_t done = has_avx512() ? narrow_bf16_512(dst, src, n, &top)
                   : has_avx2() ? narrow_bf16_256(dst, src, n, &top)
                                : 0;
    narrow_bf16(dst + done, src + done, n - done, &top);
    return top < 0x7f80;
}

void half_narrow_bf16(uint16_t *restrict dst, const float *restrict src, int64_t n)
{
    half_narrow_bf16_finite(dst, src, n);
}

/* ---- Floats of 8, 6 and 4 bits -----------------------------------------------------------------
 *
 * Most formats have the numbers of some float16 times a power of two, so they are widened by the
 * instructions for float16. Narrowing is arithmetic on bits: the formats differ in the numbers of
 * a small_format, which the compiler folds into each loop. There are no tables: the
 * vectoriser looks those up one element at a time.
 * Source: the OCP specifications of 8-bit floating point and of microscaling formats; for fnuz,
 * Noune et al. 2022, "8-bit Numerical Formats for Deep Neural Networks".
 */

/* The formulas below work on 32 or 16 bits, and bytes are copied to or from those apart: else the
 * vectoriser does comparisons with the bytes, and spends its time on moving their results. */
enum { CHUNK = 512 };

/* ---- Widening -------------------------------------------------------------------------------- */

CPU_CLONES static void copy_codes(uint16_t *restrict dst, const uint8_t *restrict codes, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = codes[i];
}

CPU_CLONES static void multiply(float *x, float factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

/* The sign and the rest of a code, moved to those of a float16. Moving the exponent to another bias
 * is a multiplication of the float32, where subnormal numbers have become normal ones. */
#define HALF_SIGN(c, bit)           (((c) >> (bit)&1) << 15)
#define HALF_REST(c, bit, fraction) (((c) & ((1 << (bit)) - 1)) << (10 - (fraction)))
#define HALF(c, bit, fraction)      (HALF_SIGN(c, bit) | HALF_REST(c, bit, fraction))
#define HALF_NAN(c)                 (HALF_SIGN(c, 7) | 0x7e00)

#define WIDEN_AS_HALF(name, half, factor)                                                          \
    CPU_CLONES static void halves_of_##name(uint16_t *x, int64_t n)                                \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            uint16_t c = x[i];                                                                     \
            x[i] = (uint16_t)(half);                                                               \
        }                                                                                          \
    }                                                                                              \
    void small_widen_##name(float *restrict dst, const uint8_t *restrict codes, int64_t n)         \
    {                                                                                              \
        uint16_t chunk[CHUNK];                                                                     \
        for (int64_t i = 0; i < n; i += CHUNK) {                                                   \
            int64_t k = at_most(n - i, CHUNK);                                                     \
            copy_codes(chunk, codes + i, k);                                                       \
            halves_of_##name(chunk, k);                                                            \
            half_widen_f16(dst + i, chunk, k);                                                     \
            if ((factor) != 1)                                                                     \
                multiply(dst + i, factor, k);                                                      \
        }                                                                                          \
    }

WIDEN_AS_HALF(e5m2, (c & 0x7f) > 0x7c ? HALF_NAN(c) : HALF(c, 7, 2), 1)
WIDEN_AS_HALF(e4m3, (c & 0x7f) == 0x7f ? HALF_NAN(c) : HALF(c, 7, 3), 0x1p8f)
WIDEN_AS_HALF(e4m3fnuz, c == 0x80 ? HALF_NAN(c) : HALF(c, 7, 3), 0x1p7f)
WIDEN_AS_HALF(e3m2, HALF(c, 5, 2), 0x1p12f)
WIDEN_AS_HALF(e2m3, HALF(c, 5, 3), 0x1p14f)
WIDEN_AS_HALF(e2m1, HALF(c, 3, 1), 0x1p14f)

/* The largest numbers of e5m2fnuz have the exponent of infinity in float16. Subnormal ones are
 * converted as integers: some processors take a hundred times as long for a subnormal float32. */
static inline float widen_e5m2fnuz(uint32_t code)
{
    uint32_t magnitude = code & 0x7f, sign = code >> 7 << 31;
    uint32_t small = bits_of((float)(int32_t)magnitude * 0x1p-17f);
    uint32_t normal = (magnitude << 21) + ((127 - 16) << 23);
    return float_of(code == 0x80 ? 0xffc00000 : sign | (magnitude < 4 ? small : normal));
}

/* 2^-127 is a subnormal float32. */
static inline float widen_e8m0(uint32_t code)
{
    uint32_t power = code ? code << 23 : 0x00400000;
    return float_of(code == 0xff ? 0x7fc00000 : power);
}

#define WIDEN(name)                                                                                \
    CPU_CLONES void small_widen_##name(float *restrict dst, const uint8_t *restrict codes,         \
                                       int64_t n)                                                  \
    {                                                                                              \
        uint32_t chunk[CHUNK];                                                                     \
        for (int64_t i = 0; i < n; i += CHUNK) {                                                   \
            int64_t k = at_most(n - i, CHUNK);                                                     \
            for (int64_t j = 0; j < k; j++)                                                        \
                chunk[j] = codes[i + j];                                                           \
            for (int64_t j = 0; j < k; j++)                                                        \
                dst[i + j] = widen_##name(chunk[j]);                                               \
        }                                                                                          \
    }

WIDEN(e5m2fnuz)
WIDEN(e8m0)

/* ---- Narrowing ------------------------------------------------------------------------------- */

/* Codes here are without the sign. */
typedef struct small_format {
    int fraction, bias; /* bits of the fraction, bias of the exponent */
    int sign;           /* the sign's bit */
    uint32_t largest;   /* code of the largest finite number */
    uint32_t over, nan; /* codes of a number too large and of nan */
    bool fnuz;          /* there is no -0 */
} small_format;

/* The power of two as float32: the bits of a normal number. */
static inline uint32_t power_bits(int exponent)
{
    return (uint32_t)(127 + exponent) << 23;
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

/* Adding half a unit carries into the exponent. The bits of a float32 below 2^-126 are no exponent
 * and fraction, but all above 2^-127 carry as well, and 2^-127 itself must not. What is not above
 * 0, less 1, is a large number. */
static inline uint32_t narrow_e8m0(float x)
{
    uint32_t u = bits_of(x), code = (u + 0x00400000 - (u == 0x00400000)) >> 23;
    return u - 1 < 0x7f800000 ? code : 0xff;
}

#define NARROW(name, code)                                                                         \
    CPU_CLONES void small_narrow_##name(uint8_t *restrict codes, const float *restrict src,        \
                                        int64_t n)                                                 \
    {                                                                                              \
        uint32_t chunk[CHUNK];                                                                     \
        for (int64_t i = 0; i < n; i += CHUNK) {                                                   \
            int64_t k = at_most(n - i, CHUNK);                                                     \
            for (int64_t j = 0; j < k; j++)                                                        \
                chunk[j] = code;                                                                   \
            for (int64_t j = 0; j < k; j++)                                                        \
                codes[i + j] = (uint8_t)chunk[j];                                                  \
        }                                                                                          \
    }

#define FORMAT(...) narrow(src[i + j], (small_format){__VA_ARGS__})
/* fraction, bias, sign, largest, over, nan, fnuz */
NARROW(e5m2, FORMAT(2, 15, 7, 0x7b, 0x7c, 0x7e, false))
NARROW(e4m3, FORMAT(3, 7, 7, 0x7e, 0x7f, 0x7f, false))
NARROW(e4m3fnuz, FORMAT(3, 8, 7, 0x7f, 0x80, 0x80, true))
NARROW(e5m2fnuz, FORMAT(2, 16, 7, 0x7f, 0x80, 0x80, true))
NARROW(e3m2, FORMAT(2, 3, 5, 0x1f, 0x1f, 0, false))
NARROW(e2m3, FORMAT(3, 1, 5, 0x1f, 0x1f, 0, false))
NARROW(e2m1, FORMAT(1, 1, 3, 7, 7, 0, false))
NARROW(e8m0, narrow_e8m0(src[i + j]))

/* ---- Packing --------------------------------------------------------------------------------- */

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

/* ---- nan ------------------------------------------------------------------------------------- */

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
