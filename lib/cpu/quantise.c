/* Gradients as codes of one or two bits.
 *
 * The plain loops say what happens to an element. With AVX2 they are only the tail. Where codes are
 * made or read, 32 elements at a time are compared, and the masks of the comparisons packed to
 * bytes; compilers do not find that packing, hence by hand. Where only the sum is wanted nothing is
 * packed, and all gradients are added up in one pass. The codes are 1/16 or 1/32 of the elements,
 * so what counts is to read and write the elements at the speed of the memory.
 *
 * Example, 2 bits, threshold 0.5: 0.5, 0.25, -0.5, 1.0 have the codes 11 00 10 11, one byte, 0xcb,
 * and leave the residual 0, 0.25, 0, 0.5.
 */
#include <stdbool.h>
#include <string.h>

#include "cpu/cpu.h"

/* ---- One element at a time ---- */

/* The number that an element's code means. */
static float decoded(const uint8_t *codes, quantise_code code, float t, int64_t i)
{
    if (code == QUANTISE_1BIT)
        return codes[i / 8] >> (7 - i % 8) & 1 ? 1.0f : -1.0f;
    int two = codes[i / 4] >> (6 - 2 * (i % 4)) & 3;
    return two == 3 ? t : two == 2 ? -t : 0.0f;
}

/* The number that the code means of an element whose residual and gradient add up to r. */
static inline float carried(float r, quantise_code code, float t)
{
    if (code == QUANTISE_1BIT)
        return r > t ? 1.0f : -1.0f;
    return r >= t ? t : r <= -t ? -t : 0.0f;
}

static void sum_from(float *dst, const float *sum, float *const *residual, const float *const *src,
                     int64_t nsrc, quantise_code code, float t, int64_t from, int64_t n)
{
    for (int64_t i = from; i < n; i++) {
        float total = sum ? sum[i] : 0;
        for (int64_t j = 0; j < nsrc; j++) {
            float r = residual[j][i] + src[j][i], q = carried(r, code, t);
            residual[j][i] = r - q;
            total += q;
        }
        dst[i] = total;
    }
}

/* Elements from … to n - 1; from is the first of a byte. */
static void encode_from(uint8_t *codes, float *residual, const float *src, quantise_code code,
                        float t, int64_t from, int64_t n)
{
    int64_t first = from * code / 8;
    memset(codes + first, 0, (size_t)(quantise_bytes(code, n) - first));
    for (int64_t i = from; i < n; i++) {
        float r = residual[i] + src[i], q = carried(r, code, t);
        int bits = code == QUANTISE_1BIT ? q > 0 : q > 0 ? 3 : q < 0 ? 2 : 0;
        residual[i] = r - q;
        codes[i * code / 8] |= (uint8_t)(bits << (8 - code - i * code % 8));
    }
}

/* ---- Many elements at a time ---- */

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))

/* From here on the elements do not fit a core's own cache, and a write around it is cheaper. */
enum { STREAM_FROM = 1 << 18, STEP = 32 };

/* Vectors of a sum in registers, in which quantise_sum takes its sources in turn. */
enum { SUMS = 4 };

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

/* Four masks of 8 elements as 32 bytes, -1 or 0 each. Packing works within halves: the bytes are
 * those of elements 0-3, 8-11, 16-19, 24-27, then 4-7, 12-15, … */
AVX2 static inline __m256i pack(const __m256i m[4])
{
    return _mm256_packs_epi16(_mm256_packs_epi32(m[0], m[1]), _mm256_packs_epi32(m[2], m[3]));
}

static bool is_aligned(const float *at)
{
    return (uintptr_t)at % sizeof(__m512) == 0;
}

/* Orders the stores past the caches before later stores, for other threads. */
static inline void end_stream(bool stream)
{
    if (stream)
        _mm_sfence();
}

/* The number of elements that were done. Residuals were just read, and ordinary stores of them
 * measured faster than stores past the caches. */
AVX2 static int64_t encode_2bit(uint8_t *codes, float *residual, const float *src, float t,
                                int64_t n)
{
    const __m256 plus = _mm256_set1_ps(t), minus = _mm256_set1_ps(-t);
    const __m256i three = _mm256_set1_epi32(3), two = _mm256_set1_epi32(2);
    /* the four codes of a byte, added up in two steps */
    const __m256i by_4_1 = _mm256_set1_epi16(0x0104), by_16_1 = _mm256_set1_epi32(0x00010010);
    const __m256i lowest = _mm256_set1_epi32(0x0c080400);
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m256i code[4];
        for (int k = 0; k < 4; k++) {
            float *at = residual + i + 8 * k;
            __m256 r = _mm256_add_ps(_mm256_loadu_ps(at), _mm256_loadu_ps(src + i + 8 * k));
            __m256 up = _mm256_cmp_ps(r, plus, _CMP_GE_OQ),
                   down = _mm256_cmp_ps(r, minus, _CMP_LE_OQ);
            __m256 step = _mm256_or_ps(_mm256_and_ps(up, plus), _mm256_and_ps(down, minus));
            _mm256_storeu_ps(at, _mm256_sub_ps(r, step));
            code[k] = _mm256_or_si256(_mm256_and_si256(_mm256_castps_si256(up), three),
                                      _mm256_and_si256(_mm256_castps_si256(down), two));
        }
        __m256i bytes = _mm256_madd_epi16(_mm256_maddubs_epi16(pack(code), by_4_1), by_16_1);
        bytes = _mm256_shuffle_epi8(bytes, lowest);
        _mm_storel_epi64(
            (void *)(codes + i / 4),
            _mm_unpacklo_epi8(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
    }
    return i;
}

AVX2 static int64_t encode_1bit(uint8_t *codes, float *residual, const float *src, float t,
                                int64_t n)
{
    const __m256 limit = _mm256_set1_ps(t), one = _mm256_set1_ps(1), sign = _mm256_set1_ps(-0.0f);
    /* the first element of each 8 has the highest bit */
    const __m256i halves = _mm256_setr_epi32(4, 0, 5, 1, 6, 2, 7, 3);
    const __m256i turned = _mm256_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 3,
                                            2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m256i mask[4];
        for (int k = 0; k < 4; k++) {
            float *at = residual + i + 8 * k;
            __m256 r = _mm256_add_ps(_mm256_loadu_ps(at), _mm256_loadu_ps(src + i + 8 * k));
            __m256 up = _mm256_cmp_ps(r, limit, _CMP_GT_OQ);
            __m256 step = _mm256_or_ps(one, _mm256_and_ps(up, sign));
            _mm256_storeu_ps(at, _mm256_add_ps(r, step));
            mask[k] = _mm256_castps_si256(up);
        }
        __m256i bytes = _mm256_permutevar8x32_epi32(pack(mask), halves);
        int bits = _mm256_movemask_epi8(_mm256_shuffle_epi8(bytes, turned));
        memcpy(codes + i / 8, &bits, sizeof bits);
    }
    return i;
}

AVX2 static int64_t encode_avx2(uint8_t *codes, float *residual, const float *src,
                                quantise_code code, float t, int64_t n)
{
    return code == QUANTISE_1BIT ? encode_1bit(codes, residual, src, t, n)
                                 : encode_2bit(codes, residual, src, t, n);
}

/* Vectors of 512 or 256 bits, which may begin at any element. */
#define VECTOR(bits) __attribute__((vector_size((bits) / 8), aligned(4), may_alias))
typedef float floats_512 VECTOR(512), floats_256 VECTOR(256);
typedef int32_t words_512 VECTOR(512), words_256 VECTOR(256);

#define LOAD(bits, at)     (*(const floats_##bits *)(const void *)(at))
#define STREAM_512(at, x)  _mm512_stream_ps(at, (__m512)(x))
#define STREAM_256(at, x)  _mm256_stream_ps(at, (__m256)(x))
#define STORE(bits, at, x) (*(floats_##bits *)(void *)(at) = (x))

/* a where the comparison holds, else b, as bits. */
#define CHOSEN(bits, is, a, b)                                                                     \
    (((words_##bits)(is) & (words_##bits)(a)) | (~(words_##bits)(is) & (words_##bits)(b)))

/* The arguments of quantise_sum. */
typedef struct sum_job {
    float *dst;
    const float *sum;
    float *const *residual;
    const float *const *src;
    int64_t nsrc, n;
    float t;
    bool stream; /* dst goes past the caches */
} sum_job;

/* The same as sum_from for what fills whole vectors; returns how many elements that are. A chunk of
 * SUMS vectors takes all sources in turn, so that its sums are registers and each array is read or
 * written some lines at a time. A line that is written around the caches in two halves costs more,
 * hence also vectors of 512 bits. count and code are constant where a chunk is called. */
#define SUM_VECTORS(bits, HAS)                                                                     \
    HAS static inline __attribute__((always_inline)) void chunk_##bits(                            \
        const sum_job *w, int64_t i, const int count, const quantise_code code)                    \
    {                                                                                              \
        const int64_t lanes = (bits) / 32;                                                         \
        const floats_##bits zero = {0}, one = zero + 1, plus = zero + w->t, minus = zero - w->t;   \
        floats_##bits total[SUMS], q;                                                              \
        for (int k = 0; k < count; k++)                                                            \
            total[k] = w->sum ? LOAD(bits, w->sum + i + k * lanes) : zero;                         \
        for (int64_t j = 0; j < w->nsrc; j++) {                                                    \
            float *residual = w->residual[j] + i;                                                  \
            const float *src = w->src[j] + i;                                                      \
            for (int k = 0; k < count; k++) {                                                      \
                floats_##bits r = LOAD(bits, residual + k * lanes) + LOAD(bits, src + k * lanes);  \
                if (code == QUANTISE_1BIT)                                                         \
                    q = (floats_##bits)CHOSEN(bits, r > plus, one, -one);                          \
                else                                                                               \
                    q = (floats_##bits)(((words_##bits)(r >= plus) & (words_##bits)plus) |         \
                                        ((words_##bits)(r <= minus) & (words_##bits)minus));       \
                STORE(bits, residual + k * lanes, r - q);                                          \
                total[k] += q;                                                                     \
            }                                                                                      \
        }                                                                                          \
        for (int k = 0; k < count; k++)                                                            \
            if (w->stream)                                                                         \
                STREAM_##bits(w->dst + i + k * lanes, total[k]);                                   \
            else                                                                                   \
                STORE(bits, w->dst + i + k * lanes, total[k]);                                     \
    }                                                                                              \
                                                                                                   \
    HAS static inline __attribute__((always_inline))                                               \
    int64_t chunks_##bits(const sum_job *w, const quantise_code code)                              \
    {                                                                                              \
        const int64_t lanes = (bits) / 32;                                                         \
        int64_t i = 0;                                                                             \
        for (; i + SUMS * lanes <= w->n; i += SUMS * lanes)                                        \
            chunk_##bits(w, i, SUMS, code);                                                        \
        for (; i + lanes <= w->n; i += lanes)                                                      \
            chunk_##bits(w, i, 1, code);                                                           \
        return i;                                                                                  \
    }                                                                                              \
                                                                                                   \
    HAS static int64_t sum_##bits(const sum_job *w, quantise_code code)                            \
    {                                                                                              \
        return code == QUANTISE_1BIT ? chunks_##bits(w, QUANTISE_1BIT)                             \
                                     : chunks_##bits(w, QUANTISE_2BIT);                            \
    }

SUM_VECTORS(512, AVX512)
SUM_VECTORS(256, AVX2)

static int64_t sum_vectors(float *dst, const float *sum, float *const *residual,
                           const float *const *src, int64_t nsrc, quantise_code code, float t,
                           int64_t n, bool far)
{
    sum_job w = {dst, sum, residual, src, nsrc, n, t, far && dst != sum && is_aligned(dst)};
    int64_t done = has_avx512() ? sum_512(&w, code) : has_avx2() ? sum_256(&w, code) : 0;
    end_stream(w.stream);
    return done;
}

/* The word of codes that begins at that byte, in every lane. */
AVX2 static inline __m256i word_of(const uint8_t *codes, int64_t byte)
{
    int word;
    memcpy(&word, codes + byte, sizeof word);
    return _mm256_set1_epi32(word);
}

/* 32 elements of 2 bits: shifts bring each lane's code down, and choose among four numbers. */
AVX2 static inline void take_2bit(__m256 out[4], const uint8_t *codes, int64_t i, float t)
{
    const __m256 numbers = _mm256_setr_ps(0, 0, -t, t, 0, 0, -t, t);
    const __m256i first = _mm256_setr_epi32(6, 4, 2, 0, 14, 12, 10, 8);
    const __m256i second = _mm256_setr_epi32(22, 20, 18, 16, 30, 28, 26, 24);
    for (int k = 0; k < 4; k += 2) {
        __m256i word = word_of(codes, i / 4 + 2 * k);
        out[k] = _mm256_permutevar_ps(numbers, _mm256_srlv_epi32(word, first));
        out[k + 1] = _mm256_permutevar_ps(numbers, _mm256_srlv_epi32(word, second));
    }
}

/* 32 elements of 1 bit: the inverse of each lane's bit becomes the sign of 1. */
AVX2 static inline void take_1bit(__m256 out[4], const uint8_t *codes, int64_t i)
{
    const __m256i one = _mm256_castps_si256(_mm256_set1_ps(1)), sign = _mm256_set1_epi32(INT32_MIN);
    const __m256i word = word_of(codes, i / 8);
    const __m256i first = _mm256_setr_epi32(24, 25, 26, 27, 28, 29, 30, 31);
    for (int k = 0; k < 4; k++) {
        __m256i shift = _mm256_sub_epi32(first, _mm256_set1_epi32(8 * k));
        __m256i bit = _mm256_andnot_si256(_mm256_sllv_epi32(word, shift), sign);
        out[k] = _mm256_castsi256_ps(_mm256_or_si256(one, bit));
    }
}

AVX2 static inline void put(float *at, __m256 x, bool stream)
{
    if (stream)
        _mm256_stream_ps(at, x);
    else
        _mm256_storeu_ps(at, x);
}

/* Decodes what fills whole steps; code and stream are constant where this is called. */
AVX2 static inline __attribute__((always_inline)) int64_t
decode_steps(float *dst, const uint8_t *codes, quantise_code code, float t, int64_t n, bool stream)
{
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m256 out[4];
        if (code == QUANTISE_1BIT)
            take_1bit(out, codes, i);
        else
            take_2bit(out, codes, i, t);
        for (int k = 0; k < 4; k++)
            put(dst + i + 8 * k, out[k], stream);
    }
    end_stream(stream);
    return i;
}

AVX2 static int64_t decode_avx2(float *dst, const uint8_t *codes, quantise_code code, float t,
                                int64_t n)
{
    bool stream = n >= STREAM_FROM && is_aligned(dst);
    if (code == QUANTISE_1BIT)
        return stream ? decode_steps(dst, codes, QUANTISE_1BIT, t, n, true)
                      : decode_steps(dst, codes, QUANTISE_1BIT, t, n, false);
    return stream ? decode_steps(dst, codes, QUANTISE_2BIT, t, n, true)
                  : decode_steps(dst, codes, QUANTISE_2BIT, t, n, false);
}
#else
static bool has_avx2(void)
{
    return false;
}

#define encode_avx2(codes, residual, src, code, t, n)               0
#define sum_vectors(dst, sum, residual, src, nsrc, code, t, n, far) ((void)(far), 0)
#define decode_avx2(dst, codes, code, t, n)                         0
#endif

void quantise_encode(void *codes, float *residual, const float *src, quantise_code code,
                     float threshold, int64_t n)
{
    int64_t done = has_avx2() ? encode_avx2(codes, residual, src, code, threshold, n) : 0;
    encode_from(codes, residual, src, code, threshold, done, n);
}

void quantise_decode(float *dst, const void *codes, quantise_code code, float threshold, int64_t n)
{
    int64_t done = has_avx2() ? decode_avx2(dst, codes, code, threshold, n) : 0;
    for (int64_t i = done; i < n; i++)
        dst[i] = decoded(codes, code, threshold, i);
}

void quantise_sum(float *dst, const float *sum, float *const *residual, const float *const *src,
                  int64_t nsrc, quantise_code code, float threshold, int64_t n, bool far)
{
    int64_t done = sum_vectors(dst, sum, residual, src, nsrc, code, threshold, n, far);
    sum_from(dst, sum, residual, src, nsrc, code, threshold, done, n);
}
