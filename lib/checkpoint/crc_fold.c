/* Folding. A text is a polynomial over the bits, and its CRC-32 the rest of a division by P =
 * 0x104C11DB7. A part that k bits follow can be replaced by its product with x^k mod P, added to
 * what stands there: the rest of the division stays. So four registers of 128 bits go through the
 * text, each replaced by an addition to the next four, until one is left. In CRC-32 the bits of a
 * byte are in the other order, hence the constants: x^(k + 32) and x^(k - 32) mod P for the two
 * halves of a register, with their 33 bits reversed. Source: V. Gopal and others, Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009. */
#include "checkpoint/crc_fold.h"

#ifdef __x86_64__

#include <immintrin.h>

bool crc_fold_there(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse2");
}

#define WITH_PCLMUL __attribute__((target("pclmul,sse2")))

static inline __m128i load(const char *data)
{
    return _mm_loadu_si128((const __m128i *)data);
}

/* Replaces x, by the two constants of a distance, in a text that has `next` there. */
WITH_PCLMUL static inline __m128i fold(__m128i x, __m128i constants, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(x, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(x, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

WITH_PCLMUL void crc_fold(unsigned char out[16], uint32_t crc, const void *data, int64_t n)
{
    const __m128i by_512 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4);
    const __m128i by_128 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    const char *at = data, *end = at + n;
    __m128i x[4];
    for (int i = 0; i < 4; i++)
        x[i] = load(at + 16 * i);
    /* The CRC so far is added to the first bits. */
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)~crc));
    for (at += 64; end - at >= 64; at += 64) {
        for (int i = 0; i < 4; i++)
            x[i] = fold(x[i], by_512, load(at + 16 * i));
    }
    for (int i = 1; i < 4; i++)
        x[i] = fold(x[i - 1], by_128, x[i]);
    for (; at < end; at += 16)
        x[3] = fold(x[3], by_128, load(at));
    _mm_storeu_si128((__m128i *)out, x[3]);
}

#else

bool crc_fold_there(void)
{
    return false;
}

void crc_fold(unsigned char out[16], uint32_t crc, const void *data, int64_t n)
{
    (void)out, (void)crc, (void)data, (void)n;
}

#endif
