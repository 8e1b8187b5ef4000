/* Gradients as codes of one or two bits.
 *
 * The plain loops say what happens to an element. With AVX2 they are only the tail. Where codes are
 * made or read, 32 elements at a time are compared, and the masks of the comparisons packed to
 * bytes; compilers do not find that packing, hence by hand. Where only the sum is wanted nothing is
 * packed, and a vector is a step. The codes are 1/16 or 1/32 of the elements, so what counts is to
 * read and write the elements at the speed of the memory: many of them are written around the
 * caches.
 *
 * Example, 2 bits, threshold 0.5: 0.5, 0.25, -0.5, 1.0 have the codes 11 00 10 11, one byte, 0xcb,
 * and leave the residual 0, 0.25, 0, 0.5.
 */
#include "cpu/quantise.h"

#include <stdbool.h>
#include <string.h>

/* ---- One element at a time ---- */

/* Elements from … to n - 1; from is the first of a byte. */
static void encode_2bit(uint8_t *codes, float *residual, const float *src, float t, int64_t from,
                        int64_t n)
{
    for (int64_t i = from; i < n; i++) {
        float r = residual[i] + src[i];
        int code = r >= t ? 3 : r <= -t ? 2 : 0;
        residual[i] = code == 3 ? r - t : code == 2 ? r + t : r;
        codes[i / 4] = (uint8_t)((i % 4 ? codes[i / 4] : 0) | code << (6 - 2 * (i % 4)));
    }
}

static void encode_1bit(uint8_t *codes, float *residual, const float *src, float t, int64_t from,
                        int64_t n)
{
    for (int64_t i = from; i < n; i++) {
        float r = residual[i] + src[i];
        int code = r > t;
        residual[i] = code ? r - 1 : r + 1;
        codes[i / 8] = (uint8_t)((i % 8 ? codes[i / 8] : 0) | code << (7 - i % 8));
    }
}

/* What an element's code stands for. */
static float decoded(const uint8_t *codes, dev_code code, float t, int64_t i)
{
    if (code == DEV_CODE_1BIT)
        return codes[i / 8] >> (7 - i % 8) & 1 ? 1.0f : -1.0f;
    int two = codes[i / 4] >> (6 - 2 * (i % 4)) & 3;
    return two == 3 ? t : two == 2 ? -t : 0.0f;
}

/* What an element stands for whose residual and gradient add up to r. */
static inline float carried(float r, dev_code code, float t)
{
    if (code == DEV_CODE_1BIT)
        return r > t ? 1.0f : -1.0f;
    return r >= t ? t : r <= -t ? -t : 0.0f;
}

static void sum_from(float *dst, const float *sum, float *residual, const float *src, dev_code code,
                     float t, int64_t from, int64_t n)
{
    for (int64_t i = from; i < n; i++) {
        float r = residual[i] + src[i], q = carried(r, code, t);
        residual[i] = r - q;
        dst[i] = sum[i] + q;
    }
}

static void encode_from(uint8_t *codes, float *residual, const float *src, dev_code code, float t,
                        int64_t from, int64_t n)
{
    int64_t used = (n * code + 7) / 8;
    if (code == DEV_CODE_1BIT)
        encode_1bit(codes, residual, src, t, from, n);
    else
        encode_2bit(codes, residual, src, t, from, n);
    memset(codes + used, 0, (size_t)(dev_code_bytes(code, n) - used));
}

void quantise_encode_plain(void *codes, float *residual, const float *src, dev_code code,
                           float threshold, int64_t n)
{
    encode_from(codes, residual, src, code, threshold, 0, n);
}

void quantise_decode_plain(float *dst, const void *codes, dev_code code, float threshold, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = decoded(codes, code, threshold, i);
}

void quantise_decode_add_plain(float *dst, const void *codes, dev_code code, float threshold,
                               int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] += decoded(codes, code, threshold, i);
}

void quantise_sum_plain(float *dst, const float *sum, float *residual, const float *src,
                        dev_code code, float threshold, int64_t n)
{
    sum_from(dst, sum, residual, src, code, threshold, 0, n);
}

/* ---- Many elements at a time ---- */

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))

/* From here on the elements do not fit a core's own cache, and a write around it is cheaper. */
enum { STREAM_FROM = 1 << 18, STEP = 32 };

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

/* Other threads see what was written around the caches before whatever is written next. */
static inline void end_stream(bool stream)
{
    if (stream)
        _mm_sfence();
}

/* Where stream is a constant, one of the two stores. */
AVX2 static inline void put(float *at, __m256 x, bool stream)
{
    if (stream)
        _mm256_stream_ps(at, x);
    else
        _mm256_storeu_ps(at, x);
}

/* How many elements were done; stream is constant where these are called. */
AVX2 static inline __attribute__((always_inline)) int64_t
encode_2bit_steps(uint8_t *codes, float *residual, const float *src, float t, int64_t n,
                  bool stream)
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
            put(at, _mm256_sub_ps(r, step), stream);
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

AVX2 static inline __attribute__((always_inline)) int64_t
encode_1bit_steps(uint8_t *codes, float *residual, const float *src, float t, int64_t n,
                  bool stream)
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
            put(at, _mm256_add_ps(r, step), stream);
            mask[k] = _mm256_castps_si256(up);
        }
        __m256i bytes = _mm256_permutevar8x32_epi32(pack(mask), halves);
        int bits = _mm256_movemask_epi8(_mm256_shuffle_epi8(bytes, turned));
        memcpy(codes + i / 8, &bits, sizeof bits);
    }
    return i;
}

/* A loop for each code and each way to put the residuals. */
AVX2 static int64_t encode_avx2(uint8_t *codes, float *residual, const float *src, dev_code code,
                                float t, int64_t n)
{
    bool stream = n >= STREAM_FROM && is_aligned(residual);
    int64_t done;
    if (code == DEV_CODE_1BIT)
        done = stream ? encode_1bit_steps(codes, residual, src, t, n, true)
                      : encode_1bit_steps(codes, residual, src, t, n, false);
    else
        done = stream ? encode_2bit_steps(codes, residual, src, t, n, true)
                      : encode_2bit_steps(codes, residual, src, t, n, false);
    end_stream(stream);
    return done;
}

/* What 8 elements stand for. */
AVX2 static inline __m256 carried_avx2(__m256 r, dev_code code, float t)
{
    const __m256 plus = _mm256_set1_ps(t), minus = _mm256_set1_ps(-t);
    if (code == DEV_CODE_1BIT)
        return _mm256_blendv_ps(_mm256_set1_ps(-1), _mm256_set1_ps(1),
                                _mm256_cmp_ps(r, plus, _CMP_GT_OQ));
    return _mm256_or_ps(_mm256_and_ps(_mm256_cmp_ps(r, plus, _CMP_GE_OQ), plus),
                        _mm256_and_ps(_mm256_cmp_ps(r, minus, _CMP_LE_OQ), minus));
}

/* How many elements were done; code and both ways to put are constant where this is called. */
AVX2 static inline __attribute__((always_inline)) int64_t
sum_steps(float *dst, const float *sum, float *residual, const float *src, dev_code code, float t,
          int64_t n, bool far_residual, bool far_dst)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 r = _mm256_add_ps(_mm256_loadu_ps(residual + i), _mm256_loadu_ps(src + i));
        __m256 q = carried_avx2(r, code, t);
        put(residual + i, _mm256_sub_ps(r, q), far_residual);
        put(dst + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), q), far_dst);
    }
    return i;
}

/* A loop for each code and each way to put. */
AVX2 static int64_t sum_avx2(float *dst, const float *sum, float *residual, const float *src,
                             dev_code code, float t, int64_t n, bool far)
{
    const dev_code one = DEV_CODE_1BIT, two = DEV_CODE_2BIT;
    bool is_one = code == DEV_CODE_1BIT, stream = far && is_aligned(residual);
    int64_t done;
    if (stream && dst != sum && is_aligned(dst))
        done = is_one ? sum_steps(dst, sum, residual, src, one, t, n, true, true)
                      : sum_steps(dst, sum, residual, src, two, t, n, true, true);
    else if (stream)
        done = is_one ? sum_steps(dst, sum, residual, src, one, t, n, true, false)
                      : sum_steps(dst, sum, residual, src, two, t, n, true, false);
    else
        done = is_one ? sum_steps(dst, sum, residual, src, one, t, n, false, false)
                      : sum_steps(dst, sum, residual, src, two, t, n, false, false);
    end_stream(stream);
    return done;
}

AVX512 static inline void put_line(float *at, __m512 x, bool stream)
{
    if (stream)
        _mm512_stream_ps(at, x);
    else
        _mm512_storeu_ps(at, x);
}

/* What 16 elements stand for. */
AVX512 static inline __m512 carried_avx512(__m512 r, dev_code code, float t)
{
    const __m512 plus = _mm512_set1_ps(t), minus = _mm512_set1_ps(-t);
    if (code == DEV_CODE_1BIT)
        return _mm512_mask_mov_ps(_mm512_set1_ps(-1), _mm512_cmp_ps_mask(r, plus, _CMP_GT_OQ),
                                  _mm512_set1_ps(1));
    __m512 up = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(r, plus, _CMP_GE_OQ), plus);
    return _mm512_mask_mov_ps(up, _mm512_cmp_ps_mask(r, minus, _CMP_LE_OQ), minus);
}

/* The loop of sum_steps with whole lines of the cache: a line that is written around it in two
 * halves costs more. */
AVX512 static inline __attribute__((always_inline)) int64_t
sum_lines(float *dst, const float *sum, float *residual, const float *src, dev_code code, float t,
          int64_t n, bool far_residual, bool far_dst)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 r = _mm512_add_ps(_mm512_loadu_ps(residual + i), _mm512_loadu_ps(src + i));
        __m512 q = carried_avx512(r, code, t);
        put_line(residual + i, _mm512_sub_ps(r, q), far_residual);
        put_line(dst + i, _mm512_add_ps(_mm512_loadu_ps(sum + i), q), far_dst);
    }
    return i;
}

AVX512 static int64_t sum_avx512(float *dst, const float *sum, float *residual, const float *src,
                                 dev_code code, float t, int64_t n, bool far)
{
    const dev_code one = DEV_CODE_1BIT, two = DEV_CODE_2BIT;
    bool is_one = code == DEV_CODE_1BIT, stream = far && is_aligned(residual);
    int64_t done;
    if (stream && dst != sum && is_aligned(dst))
        done = is_one ? sum_lines(dst, sum, residual, src, one, t, n, true, true)
                      : sum_lines(dst, sum, residual, src, two, t, n, true, true);
    else if (stream)
        done = is_one ? sum_lines(dst, sum, residual, src, one, t, n, true, false)
                      : sum_lines(dst, sum, residual, src, two, t, n, true, false);
    else
        done = is_one ? sum_lines(dst, sum, residual, src, one, t, n, false, false)
                      : sum_lines(dst, sum, residual, src, two, t, n, false, false);
    end_stream(stream);
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

typedef enum put_how { PUT_STORE, PUT_STREAM, PUT_ADD } put_how;

/* Decodes what fills whole steps; how is constant where this is called. */
AVX2 static inline __attribute__((always_inline)) int64_t
decode_steps(float *dst, const uint8_t *codes, dev_code code, float t, int64_t n, put_how how)
{
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m256 out[4];
        if (code == DEV_CODE_1BIT)
            take_1bit(out, codes, i);
        else
            take_2bit(out, codes, i, t);
        for (int k = 0; k < 4; k++) {
            float *at = dst + i + 8 * k;
            if (how == PUT_ADD)
                put(at, _mm256_add_ps(_mm256_loadu_ps(at), out[k]), false);
            else
                put(at, out[k], how == PUT_STREAM);
        }
    }
    return i;
}

/* A loop for each code and each way to put the elements. */
AVX2 static int64_t decode_avx2(float *dst, const uint8_t *codes, dev_code code, float t, int64_t n,
                                bool add)
{
    const dev_code one = DEV_CODE_1BIT, two = DEV_CODE_2BIT;
    bool is_one = code == DEV_CODE_1BIT;
    if (add)
        return is_one ? decode_steps(dst, codes, one, t, n, PUT_ADD)
                      : decode_steps(dst, codes, two, t, n, PUT_ADD);
    if (n < STREAM_FROM || !is_aligned(dst))
        return is_one ? decode_steps(dst, codes, one, t, n, PUT_STORE)
                      : decode_steps(dst, codes, two, t, n, PUT_STORE);
    int64_t done = is_one ? decode_steps(dst, codes, one, t, n, PUT_STREAM)
                          : decode_steps(dst, codes, two, t, n, PUT_STREAM);
    end_stream(true);
    return done;
}
#else
static bool has_avx2(void)
{
    return false;
}

static bool has_avx512(void)
{
    return false;
}

#define encode_avx2(codes, residual, src, code, t, n)        0
#define sum_avx2(dst, sum, residual, src, code, t, n, far)   ((void)(far), 0)
#define sum_avx512(dst, sum, residual, src, code, t, n, far) ((void)(far), 0)
#define decode_avx2(dst, codes, code, t, n, add)             0
#endif

void quantise_encode(void *codes, float *residual, const float *src, dev_code code, float threshold,
                     int64_t n)
{
    int64_t done = has_avx2() ? encode_avx2(codes, residual, src, code, threshold, n) : 0;
    encode_from(codes, residual, src, code, threshold, done, n);
}

void quantise_decode(float *dst, const void *codes, dev_code code, float threshold, int64_t n)
{
    int64_t done = has_avx2() ? decode_avx2(dst, codes, code, threshold, n, false) : 0;
    for (int64_t i = done; i < n; i++)
        dst[i] = decoded(codes, code, threshold, i);
}

void quantise_decode_add(float *dst, const void *codes, dev_code code, float threshold, int64_t n)
{
    int64_t done = has_avx2() ? decode_avx2(dst, codes, code, threshold, n, true) : 0;
    for (int64_t i = done; i < n; i++)
        dst[i] += decoded(codes, code, threshold, i);
}

void quantise_sum(float *dst, const float *sum, float *residual, const float *src, dev_code code,
                  float threshold, int64_t n, bool far)
{
    int64_t done = 0;
    if (has_avx512())
        done = sum_avx512(dst, sum, residual, src, code, threshold, n, far);
    if (has_avx2()) /* what is left, or all of it */
        done += sum_avx2(dst + done, sum + done, residual + done, src + done, code, threshold,
                         n - done, far);
    sum_from(dst, sum, residual, src, code, threshold, done, n);
}
