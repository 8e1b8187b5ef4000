/* Streaming stores, in whole lines of the cache. Sums go from registers to memory; conversions are
 * made block by block in the L1 cache and copied from there. */
#include "cpu/stream.h"

#include <string.h>

#include "cpu/convert.h"
#include "cpu/lines.h"
#include "cpu/sum.h"

enum { BLOCK = 1024, LINE = 64, MOST_SOURCES = 64 };

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

/* Each source from that many bytes on. */
static void sources_from(const void **at, const void *const *src, int64_t nsrc, int64_t offset)
{
    for (int64_t j = 0; j < nsrc; j++)
        at[j] = (const char *)src[j] + offset;
}

void stream_sum(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n)
{
    const void *at[MOST_SOURCES];
    int64_t bytes = kv_dtype_bytes(dtype);
    if (nsrc == 1) {
        stream_convert(dst, dtype, src[0], dtype, n);
        return;
    }
    /* A dst whose elements do not lie at multiples of their size has no whole lines of them. */
    if (nsrc > MOST_SOURCES || (uintptr_t)dst % (uintptr_t)bytes != 0) {
        sum_elements(dst, src, nsrc, dtype, n);
        return;
    }
    int64_t done = head_bytes(dst, n * bytes) / bytes;
    sum_elements(dst, src, nsrc, dtype, done);
    sources_from(at, src, nsrc, done * bytes);
    done += lines_sum((char *)dst + done * bytes, at, nsrc, dtype, n - done, true);
    stream_fence();
    sources_from(at, src, nsrc, done * bytes);
    sum_elements((char *)dst + done * bytes, at, nsrc, dtype, n - done);
}
