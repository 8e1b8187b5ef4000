/* float16 and bfloat16.
 *
 * float16 has 1 sign, 5 exponent (bias 15) and 10 fraction bits; bfloat16 is the upper half of a
 * float32. Both are handled as bits. float16 uses the processor's F16C instructions where they are
 * there; the software below gives the same bits, those of nan included.
 */
#include "cpu/half.h"

#include <stdbool.h>

#include "base/compiler.h"
#include "cpu/float_bits.h"

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

/* Every processor with AVX2 has F16C, which some compilers cannot ask for. */
static bool has_f16c(void)
{
    return __builtin_cpu_supports("avx2");
}

/* The compiler does not turn the software into these instructions, hence by hand. */
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
static bool has_f16c(void)
{
    return false;
}

#define widen_f16c  half_widen_f16_soft
#define narrow_f16c half_narrow_f16_soft
#endif

void half_widen_f16(float *restrict dst, const uint16_t *restrict src, int64_t n)
{
    if (has_f16c())
        widen_f16c(dst, src, n);
    else
        half_widen_f16_soft(dst, src, n);
}

void half_narrow_f16(uint16_t *restrict dst, const float *restrict src, int64_t n)
{
    if (has_f16c())
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

CPU_CLONES static void narrow_bf16(uint16_t *restrict dst, const float *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = bits_of(src[i]);
        uint32_t rounded = u + 0x7fff + (u >> 16 & 1), quiet = u | 0x00400000;
        dst[i] = (uint16_t)(((u & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16);
    }
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

__attribute__((target("avx512f"))) static int64_t narrow_bf16_512(uint16_t *dst, const float *src,
                                                                  int64_t n)
{
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i a = round_bf16(src + i), b = round_bf16(src + i + 16);
        _mm256_storeu_si256((void *)(dst + i), a);
        _mm256_storeu_si256((void *)(dst + i + 16), b);
    }
    return i;
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}
#else
#define widen_bf16_512(dst, src, n)  0
#define narrow_bf16_512(dst, src, n) 0

static bool has_avx512(void)
{
    return false;
}
#endif

void half_widen_bf16(float *restrict dst, const uint16_t *restrict src, int64_t n)
{
    int64_t done = has_avx512() ? widen_bf16_512(dst, src, n) : 0;
    widen_bf16(dst + done, src + done, n - done);
}

void half_narrow_bf16(uint16_t *restrict dst, const float *restrict src, int64_t n)
{
    int64_t done = has_avx512() ? narrow_bf16_512(dst, src, n) : 0;
    narrow_bf16(dst + done, src + done, n - done);
}
