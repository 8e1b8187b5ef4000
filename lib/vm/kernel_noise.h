/* The loops over words of Philox, a part of kernel_loops.h: normal() of noise.h, and uniform().
 * KERNEL_VECTOR: bytes of a vector.
 *
 * A product of two words of 32 bits needs a lane of 64. Compilers widen the words of each round and
 * narrow its products again, with a shuffle for each, which takes three times as long as the
 * products. Here the words stay in lanes of 64 bits through all rounds: what stands above them is
 * ignored by the next product, and cut off at the end.
 */
#ifdef KERNEL_VECTOR

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "vm/noise.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

typedef arith_bits noise_lanes __attribute__((vector_size(KERNEL_VECTOR)));

/* The products of the low halves. */
static inline noise_lanes noise_multiply(noise_lanes a, noise_lanes b)
{
#if KERNEL_VECTOR == 64
    return (noise_lanes)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif KERNEL_VECTOR == 32
    return (noise_lanes)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
    return (noise_lanes)_mm_mul_epu32((__m128i)a, (__m128i)b);
#endif
}

/* Makes the words of the NOISE_LANES blocks that follow `counter`, which is that of the first one;
 * only the low halves count. */
static void noise_blocks(arith_bits words[4][NOISE_LANES], philox counter, arith_bits seed)
{
    enum { LANES = sizeof(noise_lanes) / sizeof(arith_bits) };
    const noise_lanes zero = {0}, multiply0 = zero + PHILOX_MULTIPLY_0,
                      multiply1 = zero + PHILOX_MULTIPLY_1;
    noise_lanes place;
    for (int l = 0; l < LANES; l++)
        place[l] = (arith_bits)l;
    for (int at = 0; at < NOISE_LANES; at += LANES) {
        noise_lanes a = place + (counter.word[0] + (unsigned)at), b = zero + counter.word[1];
        noise_lanes c = zero + counter.word[2], d = zero + counter.word[3];
        unsigned key0 = (unsigned)seed, key1 = (unsigned)(seed >> 32);
        for (int i = 0; i < PHILOX_ROUNDS; i++) {
            noise_lanes p = noise_multiply(a, multiply0), q = noise_multiply(c, multiply1);
            a = (q >> 32) ^ b ^ (zero + key0);
            b = q;
            c = (p >> 32) ^ d ^ (zero + key1);
            d = p;
            key0 += PHILOX_STEP_0;
            key1 += PHILOX_STEP_1;
        }
        /* The builtin is a store; memcpy itself would be a call that checks the bounds. */
        __builtin_memcpy(&words[0][at], &a, sizeof a);
        __builtin_memcpy(&words[1][at], &b, sizeof b);
        __builtin_memcpy(&words[2][at], &c, sizeof c);
        __builtin_memcpy(&words[3][at], &d, sizeof d);
    }
}
#else
static void noise_blocks(arith_bits words[4][NOISE_LANES], philox counter, arith_bits seed)
{
    for (unsigned l = 0; l < NOISE_LANES; l++) {
        philox x = counter;
        x.word[0] += l;
        x = philox_rounds(x, (unsigned)seed, (unsigned)(seed >> 32));
        for (int w = 0; w < 4; w++)
            words[w][l] = x.word[w];
    }
}
#endif

/* The numbers of a group: noise_normal of NOISE_GROUP elements. */
static void noise_group(float *to, arith_bits seed, arith_bits draw, arith_bits group)
{
    arith_bits words[4][NOISE_LANES];
    noise_blocks(words, philox_counter(PHILOX_RULES, draw, group * NOISE_LANES), seed);
    NO_CARRY for (int l = 0; l < NOISE_LANES; l++)
    {
        noise_pair((unsigned)words[0][l], (unsigned)words[1][l], &to[l], &to[NOISE_LANES + l]);
    }
    NO_CARRY for (int l = 0; l < NOISE_LANES; l++)
    {
        noise_pair((unsigned)words[2][l], (unsigned)words[3][l], &to[2 * NOISE_LANES + l],
                   &to[3 * NOISE_LANES + l]);
    }
}

static void normals(float *to, uint64_t seed, uint64_t draw, uint64_t from, int64_t n)
{
    float group[NOISE_GROUP];
    while (n > 0) {
        int64_t skip = (int64_t)(from % NOISE_GROUP), m = NOISE_GROUP - skip;
        m = m < n ? m : n;
        noise_group(m == NOISE_GROUP ? to : group, seed, draw, from / NOISE_GROUP);
        for (int64_t i = 0; i < m && m < NOISE_GROUP; i++)
            to[i] = group[skip + i];
        to += m;
        from += (uint64_t)m;
        n -= m;
    }
}

#define UNIFORMS(name, T)                                                                          \
    static void name(T *to, uint64_t seed, philox counter, int64_t ngroups)                        \
    {                                                                                              \
        for (; ngroups > 0; ngroups--, to += NOISE_GROUP) {                                        \
            arith_bits words[4][NOISE_LANES];                                                      \
            noise_blocks(words, counter, seed);                                                    \
            for (int w = 0; w < 4; w++)                                                            \
                NO_CARRY for (int l = 0; l < NOISE_LANES; l++)                                     \
                {                                                                                  \
                    to[w * NOISE_LANES + l] = (T)(int)((unsigned)words[w][l] >> 8) * (T)0x1p-24;   \
                }                                                                                  \
            counter.word[0] += NOISE_LANES;                                                        \
            counter.word[1] += counter.word[0] == 0;                                               \
        }                                                                                          \
    }

UNIFORMS(uniform_floats, float)
UNIFORMS(uniform_doubles, double)

static void uniforms(void *to, bool wide, uint64_t seed, uint64_t hash, uint64_t group,
                     int64_t ngroups)
{
    uint64_t at = group * NOISE_LANES;
    philox counter = {{(unsigned)at, (unsigned)(at >> 32), (unsigned)hash, (unsigned)(hash >> 32)}};
    if (wide)
        uniform_doubles(to, seed, counter, ngroups);
    else
        uniform_floats(to, seed, counter, ngroups);
}

#endif
