/* The ten rounds on sixteen counters side by side. A vector holds a word of eight or four counters,
 * each in the lower half of 64 bits, which is what the multiplication of vectors takes; the upper
 * halves are left as they come. */
#include "merge/merge_draw.h"

#include <string.h>

#include "base/compiler.h"
#include "base/xxh64.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))
#endif

enum { LANES = 16, WORDS = 4, ROUNDS = 10 };

/* Salmon et al. 2011: the multipliers, and the increments of the key in each round. */
static const uint32_t multiplier[] = {0xD2511F53u, 0xCD9E8D57u};
static const uint32_t step[] = {0x9E3779B9u, 0xBB67AE85u};

merge_draw_key merge_draw_key_of(int64_t seed, const char *key, int64_t stream)
{
    uint64_t parts[] = {xxh64(key, strlen(key)), (uint64_t)stream};
    uint64_t hash = xxh64(parts, sizeof parts), s = (uint64_t)seed;
    return (merge_draw_key){{(uint32_t)s, (uint32_t)(s >> 32)},
                            {(uint32_t)hash, (uint32_t)(hash >> 32)}};
}

static void draw_any(merge_draw_words out, const merge_draw_key *k, uint64_t counter)
{
    for (int l = 0; l < LANES; l++) {
        uint64_t at = counter + (uint64_t)l;
        uint32_t k0 = k->seed[0], k1 = k->seed[1];
        uint32_t w[WORDS] = {(uint32_t)at, (uint32_t)(at >> 32), k->hash[0], k->hash[1]};
        for (int round = 0; round < ROUNDS; round++) {
            uint64_t a = (uint64_t)multiplier[0] * w[0], b = (uint64_t)multiplier[1] * w[2];
            w[0] = (uint32_t)(b >> 32) ^ w[1] ^ k0;
            w[1] = (uint32_t)b;
            w[2] = (uint32_t)(a >> 32) ^ w[3] ^ k1;
            w[3] = (uint32_t)a;
            k0 += step[0];
            k1 += step[1];
        }
        for (int i = 0; i < WORDS; i++)
            out[i][l] = w[i];
    }
}

#if defined(__x86_64__)
/* The same for two vectors of eight counters, whose operations do not wait for each other. */
AVX512 static void draw_512(merge_draw_words out, const merge_draw_key *k, uint64_t counter)
{
    __m512i m0 = _mm512_set1_epi64(multiplier[0]), m1 = _mm512_set1_epi64(multiplier[1]);
    __m512i w[2][WORDS];
    for (int v = 0; v < 2; v++) {
        w[v][0] = _mm512_add_epi64(_mm512_set1_epi64((int64_t)counter + 8 * v),
                                   _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
        w[v][1] = _mm512_srli_epi64(w[v][0], 32);
        w[v][2] = _mm512_set1_epi64(k->hash[0]);
        w[v][3] = _mm512_set1_epi64(k->hash[1]);
    }
    uint32_t k0 = k->seed[0], k1 = k->seed[1];
    for (int round = 0; round < ROUNDS; round++) {
        __m512i x0 = _mm512_set1_epi64(k0), x1 = _mm512_set1_epi64(k1);
        for (int v = 0; v < 2; v++) {
            __m512i a = _mm512_mul_epu32(w[v][0], m0), b = _mm512_mul_epu32(w[v][2], m1);
            w[v][0] = _mm512_srli_epi64(b, 32) ^ w[v][1] ^ x0;
            w[v][1] = b;
            w[v][2] = _mm512_srli_epi64(a, 32) ^ w[v][3] ^ x1;
            w[v][3] = a;
        }
        k0 += step[0];
        k1 += step[1];
    }
    for (int i = 0; i < WORDS; i++)
        for (int v = 0; v < 2; v++)
            _mm256_storeu_si256((__m256i *)(void *)&out[i][8 * v], _mm512_cvtepi64_epi32(w[v][i]));
}

AVX2 static void draw_256(merge_draw_words out, const merge_draw_key *k, uint64_t counter)
{
    __m256i m0 = _mm256_set1_epi64x(multiplier[0]), m1 = _mm256_set1_epi64x(multiplier[1]);
    __m256i even = _mm256_set_epi32(0, 0, 0, 0, 6, 4, 2, 0);
    for (int v = 0; v < LANES; v += 8) {
        __m256i w[2][WORDS];
        for (int u = 0; u < 2; u++) {
            w[u][0] = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)counter + v + 4 * u),
                                       _mm256_set_epi64x(3, 2, 1, 0));
            w[u][1] = _mm256_srli_epi64(w[u][0], 32);
            w[u][2] = _mm256_set1_epi64x(k->hash[0]);
            w[u][3] = _mm256_set1_epi64x(k->hash[1]);
        }
        uint32_t k0 = k->seed[0], k1 = k->seed[1];
        for (int round = 0; round < ROUNDS; round++) {
            __m256i x0 = _mm256_set1_epi64x(k0), x1 = _mm256_set1_epi64x(k1);
            for (int u = 0; u < 2; u++) {
                __m256i a = _mm256_mul_epu32(w[u][0], m0), b = _mm256_mul_epu32(w[u][2], m1);
                w[u][0] = _mm256_srli_epi64(b, 32) ^ w[u][1] ^ x0;
                w[u][1] = b;
                w[u][2] = _mm256_srli_epi64(a, 32) ^ w[u][3] ^ x1;
                w[u][3] = a;
            }
            k0 += step[0];
            k1 += step[1];
        }
        for (int i = 0; i < WORDS; i++)
            for (int u = 0; u < 2; u++)
                _mm_storeu_si128(
                    (__m128i *)(void *)&out[i][v + 4 * u],
                    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(w[u][i], even)));
    }
}
#endif

merge_drawer *merge_draw_way(int i)
{
    if (i == 0)
        return draw_any;
#if defined(__x86_64__)
    if (i == 1 && __builtin_cpu_supports("avx2"))
        return draw_256;
    if (i == 2 && __builtin_cpu_supports("avx512f"))
        return draw_512;
#endif
    return NULL;
}

static merge_drawer *best_drawer(void)
{
    int i = 0;
    while (merge_draw_way(i + 1))
        i++;
    return merge_draw_way(i);
}

/* Groups whose words are drawn before any is converted: a load from memory that was just stored in
 * pieces of another size would stall. */
enum { TOGETHER = 8 };

#define DRAW(name, T)                                                                              \
    CPU_CLONES static void name##_numbers(T *restrict out, const uint32_t *restrict word,          \
                                          int64_t n)                                               \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = (T)(int32_t)(word[i] >> 8) * (T)0x1p-24;                                      \
    }                                                                                              \
                                                                                                   \
    void name(T *out, const merge_draw_key *k, int64_t group, int64_t ngroups)                     \
    {                                                                                              \
        merge_drawer *draw = best_drawer();                                                        \
        merge_draw_words word[TOGETHER];                                                           \
        for (int64_t left = ngroups; left > 0; left -= TOGETHER) {                                 \
            int64_t n = left < TOGETHER ? left : TOGETHER;                                         \
            for (int64_t g = 0; g < n; g++)                                                        \
                draw(word[g], k, (uint64_t)(group + g) * LANES);                                   \
            name##_numbers(out, word[0][0], n *MERGE_DRAW_GROUP);                                  \
            group += n;                                                                            \
            out += n * MERGE_DRAW_GROUP;                                                           \
        }                                                                                          \
    }

DRAW(merge_draw_f32, float)
DRAW(merge_draw_f64, double)
