/* Blocks of GGUF's types. In the comments d, m are halves, s are small scales, and a field of n
 * bytes is name[n], in the order of the block. Sources: gguf-py's quants.py, ggml's layouts. */
#include "checkpoint/tensor_codec.h"

#include <string.h>

#include "base/compiler.h"

/* ---- Fields ---------------------------------------------------------------------------------- */

/* The functions of this part become a part of each loop, with its instructions. */
#define PART static inline __attribute__((always_inline))

PART float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A half as a float. The product is exact, also of halves below the normal range. */
PART float half_at(const uint8_t *p)
{
    uint32_t h = p[0] | (uint32_t)p[1] << 8, sign = (h & 0x8000) << 16, rest = (h & 0x7FFF) << 13;
    uint32_t bits;
    float x = of_bits(rest) * 0x1p112f;
    memcpy(&bits, &x, sizeof bits);
    return of_bits(sign | ((h & 0x7C00) == 0x7C00 ? rest | 0x7F800000 : bits));
}

PART uint32_t word_at(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* 32 codes of 4 bits: the low halves of all bytes come first. */
PART void nibbles(uint8_t *restrict q, const uint8_t *restrict qs)
{
    for (int i = 0; i < 16; i++) {
        q[i] = qs[i] & 15;
        q[i + 16] = qs[i] >> 4;
    }
}

/* 256 codes of 2 bits: of each 32 bytes first the lowest bits of all. */
PART void pairs(uint8_t *restrict q, const uint8_t *restrict qs)
{
    for (int half = 0; half < 2; half++)
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 32; i++)
                q[128 * half + 32 * k + i] = qs[32 * half + i] >> 2 * k & 3;
}

/* The fifth bits of 32 codes. */
PART void add_bits(uint8_t *restrict q, uint32_t bits)
{
    for (int i = 0; i < 32; i++)
        q[i] |= (uint8_t)((bits >> i & 1) << 4);
}

/* Eight scales and eight minima of 6 bits, of Q4_K and Q5_K. */
PART void six_bits(uint8_t *restrict scale, uint8_t *restrict min, const uint8_t *restrict s)
{
    for (int j = 0; j < 4; j++) {
        scale[j] = s[j] & 63;
        min[j] = s[j + 4] & 63;
        scale[j + 4] = (uint8_t)((s[j + 8] & 15) + (s[j] >> 2 & 48));
        min[j + 4] = (uint8_t)((s[j + 8] >> 4) + (s[j + 4] >> 2 & 48));
    }
}

/* ---- Loops over blocks ----------------------------------------------------------------------- */

/* A function that decodes n blocks; its body is for one, whose numbers are out[0] and on. */
#define BLOCKS(name, elements, bytes)                                                              \
    PART void name##_block(float *restrict out, const uint8_t *restrict p);                        \
    CPU_CLONES static void name(float *restrict out, const uint8_t *restrict data, int64_t n)      \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            name##_block(out + i * (elements), data + i * (bytes));                                \
    }                                                                                              \
    PART void name##_block(float *restrict out, const uint8_t *restrict p)

/* 32 codes of 4 bits with a fifth one where `high` has them, and a minimum or a middle. */
PART void q45(float *restrict out, const uint8_t *p, const uint8_t *high, const uint8_t *qs,
              bool has_min, int middle)
{
    uint8_t q[32];
    float d = half_at(p), m = has_min ? half_at(p + 2) : 0;
    nibbles(q, qs);
    if (high)
        add_bits(q, word_at(high));
    for (int i = 0; i < 32; i++)
        out[i] = has_min ? d * (float)q[i] + m : d * (float)(q[i] - middle);
}

/* d, qs[16] */
BLOCKS(q4_0, 32, 18)
{
    q45(out, p, NULL, p + 2, false, 8);
}

/* d, m, qs[16] */
BLOCKS(q4_1, 32, 20)
{
    q45(out, p, NULL, p + 4, true, 0);
}

/* d, qh[4], qs[16] */
BLOCKS(q5_0, 32, 22)
{
    q45(out, p, p + 2, p + 6, false, 16);
}

/* d, m, qh[4], qs[16] */
BLOCKS(q5_1, 32, 24)
{
    q45(out, p, p + 4, p + 8, true, 0);
}

/* d, q[32] */
BLOCKS(q8_0, 32, 34)
{
    float d = half_at(p);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)p[2 + i] * d;
}

/* s[16], qs[64], d, dmin */
BLOCKS(q2_k, 256, 84)
{
    uint8_t q[256];
    float d = half_at(p + 80), dmin = half_at(p + 82);
    pairs(q, p + 16);
    for (int g = 0; g < 16; g++) {
        float scale = d * (float)(p[g] & 15), min = dmin * (float)(p[g] >> 4);
        for (int i = 0; i < 16; i++)
            out[16 * g + i] = scale * (float)q[16 * g + i] - min;
    }
}

/* hm[32], qs[64], s[12], d */
BLOCKS(q3_k, 256, 110)
{
    uint8_t q[256];
    const uint8_t *s = p + 96;
    float d = half_at(p + 108);
    pairs(q, p + 32);
    for (int g = 0; g < 16; g++) {
        int low = s[g % 8] >> 4 * (g / 8) & 15, high = s[8 + g % 4] >> 2 * (g / 4) & 3;
        float scale = d * (float)(low + 16 * high - 32);
        for (int i = 0; i < 16; i++) {
            int bit = p[16 * (g % 2) + i] >> g / 2 & 1;
            out[16 * g + i] = scale * (float)(q[16 * g + i] - 4 * (1 - bit));
        }
    }
}

/* d, dmin, s[12], qs[128]; Q5_K: d, dmin, s[12], qh[32], qs[128] */
PART void q45_k(float *restrict out, const uint8_t *restrict p, const uint8_t *high,
                const uint8_t *restrict qs)
{
    uint8_t scale[8], min[8];
    float d = half_at(p), dmin = half_at(p + 2);
    six_bits(scale, min, p + 4);
    for (int j = 0; j < 8; j++) {
        float by = d * (float)scale[j], less = dmin * (float)min[j];
        for (int i = 0; i < 32; i++) {
            int q = qs[32 * (j / 2) + i] >> 4 * (j % 2) & 15;
            if (high)
                q += (high[i] >> j & 1) << 4;
            out[32 * j + i] = by * (float)q - less;
        }
    }
}

BLOCKS(q4_k, 256, 144)
{
    q45_k(out, p, NULL, p + 16);
}

BLOCKS(q5_k, 256, 176)
{
    q45_k(out, p, p + 16, p + 48);
}

/* ql[128], qh[64], s[16], d */
BLOCKS(q6_k, 256, 210)
{
    uint8_t q[256];
    float d = half_at(p + 208);
    pairs(q, p + 128);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 32; i++)
            q[32 * j + i] = (uint8_t)(q[32 * j + i] << 4 |
                                      (p[64 * (j / 4) + 32 * (j % 2) + i] >> 4 * (j / 2 % 2) & 15));
    for (int g = 0; g < 16; g++) {
        float scale = d * (float)(int8_t)p[192 + g];
        for (int i = 0; i < 16; i++)
            out[16 * g + i] = scale * (float)(q[16 * g + i] - 32);
    }
}

/* What the codes of IQ4 mean. */
static const float uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};

/* d, qs[16] */
BLOCKS(iq4_nl, 32, 18)
{
    uint8_t q[32];
    float d = half_at(p);
    nibbles(q, p + 2);
    for (int i = 0; i < 32; i++)
        out[i] = d * uneven[q[i]];
}

/* d, sh[2], sl[4], qs[128] */
BLOCKS(iq4_xs, 256, 136)
{
    float d = half_at(p);
    int high = p[2] | p[3] << 8;
    for (int j = 0; j < 8; j++) {
        uint8_t q[32];
        int s = (p[4 + j / 2] >> 4 * (j % 2) & 15) + 16 * (high >> 2 * j & 3);
        float scale = d * (float)(s - 32);
        nibbles(q, p + 8 + 16 * j);
        for (int i = 0; i < 32; i++)
            out[32 * j + i] = scale * uneven[q[i]];
    }
}

/* Digit p of base 3 of n bytes: a byte is a fraction of 256, and five digits fit into it. */
PART void digits(float *restrict out, float d, const uint8_t *restrict bytes, int n, int count)
{
    for (int k = 0, power = 1; k < count; k++, power *= 3)
        for (int i = 0; i < n; i++)
            out[n * k + i] = d * (float)(((uint8_t)(bytes[i] * power) * 3 >> 8) - 1);
}

/* qs[48], qh[4], d */
BLOCKS(tq1_0, 256, 54)
{
    float d = half_at(p + 52);
    digits(out, d, p, 32, 5);
    digits(out + 160, d, p + 32, 16, 5);
    digits(out + 240, d, p + 48, 4, 4);
}

/* qs[64], d */
BLOCKS(tq2_0, 256, 66)
{
    uint8_t q[256];
    float d = half_at(p + 64);
    pairs(q, p);
    for (int i = 0; i < 256; i++)
        out[i] = d * (float)(q[i] - 1);
}

/* Twice the numbers of E2M1; code 8 is +0 in GGUF. */
static const float twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* x, qs[16] */
BLOCKS(mxfp4, 32, 17)
{
    uint8_t q[32];
    float d = of_bits(p[0] < 2 ? UINT32_C(0x00200000) << p[0] : (uint32_t)(p[0] - 1) << 23);
    nibbles(q, p + 1);
    for (int i = 0; i < 32; i++)
        out[i] = d * twice[q[i]];
}

/* x[4], qs[32]: 16 numbers have a scale, the half of an E4M3 without sign, and 8 bytes */
BLOCKS(nvfp4, 64, 36)
{
    for (int b = 0; b < 4; b++) {
        uint32_t x = p[b] & 127;
        float d = p[b] == 127 ? 0 : of_bits(x << 20) * 0x1p119f;
        for (int i = 0; i < 8; i++) {
            out[16 * b + i] = d * twice[p[4 + 8 * b + i] & 15];
            out[16 * b + 8 + i] = d * twice[p[4 + 8 * b + i] >> 4];
        }
    }
}

/* ---- The table ------------------------------------------------------------------------------- */

static void (*const loops[TENSOR_TYPE_END])(float *restrict, const uint8_t *restrict, int64_t) = {
    [TENSOR_Q4_0] = q4_0,   [TENSOR_Q4_1] = q4_1,     [TENSOR_Q5_0] = q5_0,
    [TENSOR_Q5_1] = q5_1,   [TENSOR_Q8_0] = q8_0,     [TENSOR_Q2_K] = q2_k,
    [TENSOR_Q3_K] = q3_k,   [TENSOR_Q4_K] = q4_k,     [TENSOR_Q5_K] = q5_k,
    [TENSOR_Q6_K] = q6_k,   [TENSOR_IQ4_NL] = iq4_nl, [TENSOR_IQ4_XS] = iq4_xs,
    [TENSOR_TQ1_0] = tq1_0, [TENSOR_TQ2_0] = tq2_0,   [TENSOR_MXFP4] = mxfp4,
    [TENSOR_NVFP4] = nvfp4};

bool gguf_blocks_can(tensor_type t)
{
    return loops[t] != NULL;
}

void gguf_blocks_decode(float *restrict out, tensor_type t, const void *restrict data, int64_t n)
{
    loops[t](out, data, n);
}
