/* Streaming stores, in whole lines of the cache. The sum of a few float32 arrays, which is what
 * training pushes, goes from registers to memory; everything else is made block by block in the L1
 * cache and copied from there. */
#include "cpu/stream.h"

#include <string.h>

#include "cpu/convert.h"
#include "cpu/sum.h"

enum { BLOCK = 1024, LINE = 64, MOST_DIRECT = 5 };

#if defined(__x86_64__)
#include <emmintrin.h>

void stream_lines(char *dst, const char *src, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(src + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(src + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(src + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(src + i + 48));
        _mm_stream_si128((__m128i *)(void *)(dst + i), a);
        _mm_stream_si128((__m128i *)(void *)(dst + i + 16), b);
        _mm_stream_si128((__m128i *)(void *)(dst + i + 32), c);
        _mm_stream_si128((__m128i *)(void *)(dst + i + 48), d);
    }
}

/* d = ((s[0] + s[1]) + …), k of them; d is aligned, n a multiple of a line's elements. */
#define SUM_LINES(k, more)                                                                         \
    static void sum_lines_##k(float *d, const float *const *s, int64_t n)                          \
    {                                                                                              \
        for (int64_t i = 0; i < n; i += 4) {                                                       \
            __m128 x = _mm_add_ps(_mm_loadu_ps(s[0] + i), _mm_loadu_ps(s[1] + i));                 \
            more _mm_stream_ps(d + i, x);                                                          \
        }                                                                                          \
    }
#define ADD(j) x = _mm_add_ps(x, _mm_loadu_ps(s[j] + i));

SUM_LINES(2, )
SUM_LINES(3, ADD(2))
SUM_LINES(4, ADD(2) ADD(3))
SUM_LINES(5, ADD(2) ADD(3) ADD(4))

static void sum_lines(float *d, const float *const *s, int64_t k, int64_t n)
{
    void (*const sums[])(float *, const float *const *, int64_t) = {sum_lines_2, sum_lines_3,
                                                                    sum_lines_4, sum_lines_5};
    sums[k - 2](d, s, n);
}

/* Other threads see streamed stores in order only behind a fence. */
void stream_fence(void)
{
    _mm_sfence();
}

#else

void stream_lines(char *dst, const char *src, int64_t bytes)
{
    memcpy(dst, src, (size_t)bytes);
}

static void sum_lines(float *d, const float *const *s, int64_t k, int64_t n)
{
    sum_elements(d, (const void *const *)s, k, KV_FLOAT32, n);
}

void stream_fence(void)
{
}

#endif

/* Bytes before the first line that begins in dst. */
static int64_t head_bytes(const void *dst, int64_t bytes)
{
    int64_t head = -(int64_t)(uintptr_t)dst & (LINE - 1);
    return head < bytes ? head : bytes;
}

static void copy(char *dst, const char *src, int64_t bytes)
{
    int64_t head = head_bytes(dst, bytes), lines = (bytes - head) / LINE * LINE;
    memcpy(dst, src, (size_t)head);
    stream_lines(dst + head, src + head, lines);
    memcpy(dst + head + lines, src + head + lines, (size_t)(bytes - head - lines));
}

void stream_convert(void *dst, kv_dtype to, const void *src, kv_dtype from, int64_t n)
{
    char block[BLOCK * 8];
    int64_t wide = kv_dtype_bytes(to), narrow = kv_dtype_bytes(from);
    if (to == from && to != KV_BOOL) {
        copy(dst, src, n * wide);
    } else {
        for (int64_t i = 0; i < n; i += BLOCK) {
            int64_t m = n - i < BLOCK ? n - i : BLOCK;
            convert_elements(block, to, (const char *)src + i * narrow, from, m);
            copy((char *)dst + i * wide, block, m * wide);
        }
    }
    stream_fence();
}

/* A dst whose elements do not lie at multiples of their size has no whole lines of them. */
static bool is_direct(const void *dst, int64_t nsrc, kv_dtype dtype)
{
    return dtype == KV_FLOAT32 && nsrc > 1 && nsrc <= MOST_DIRECT && (uintptr_t)dst % 4 == 0;
}

static void sum_direct(float *dst, const void *const *src, int64_t nsrc, int64_t n)
{
    const float *s[MOST_DIRECT];
    const void *at[MOST_DIRECT];
    int64_t head = head_bytes(dst, n * 4) / 4, lines = (n - head) / (LINE / 4) * (LINE / 4);
    for (int64_t j = 0; j < nsrc; j++)
        s[j] = (const float *)src[j] + head;
    sum_elements(dst, src, nsrc, KV_FLOAT32, head);
    sum_lines(dst + head, s, nsrc, lines);
    for (int64_t j = 0; j < nsrc; j++)
        at[j] = s[j] + lines;
    sum_elements(dst + head + lines, at, nsrc, KV_FLOAT32, n - head - lines);
}

void stream_sum(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n)
{
    char block[BLOCK * 8];
    const void *stack[64];
    int64_t bytes = kv_dtype_bytes(dtype);
    if (nsrc == 1) {
        stream_convert(dst, dtype, src[0], dtype, n);
        return;
    }
    if (nsrc > 64) {
        sum_elements(dst, src, nsrc, dtype, n);
        return;
    }
    if (is_direct(dst, nsrc, dtype)) {
        sum_direct(dst, src, nsrc, n);
    } else {
        for (int64_t i = 0; i < n; i += BLOCK) {
            int64_t m = n - i < BLOCK ? n - i : BLOCK;
            for (int64_t j = 0; j < nsrc; j++)
                stack[j] = (const char *)src[j] + i * bytes;
            sum_elements(block, stack, nsrc, dtype, m);
            copy((char *)dst + i * bytes, block, m * bytes);
        }
    }
    stream_fence();
}
