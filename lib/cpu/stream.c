/* Stores past the caches, in whole lines. Sums go from registers to memory; conversions are made
 * block by block in the L1 cache and copied from there. */
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/lines.h"

enum { BLOCK = 1024, BLOCK_BYTES = 4096, LINE = 64, STREAM_SOURCES = 64 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Bytes before the first line that begins in dst. */
static int64_t head_bytes(const void *dst, int64_t bytes)
{
    return least(-(int64_t)(uintptr_t)dst & (LINE - 1), bytes);
}

/* Copies to places that all begin at the same byte of a line. A few lines of the source go to each
 * place in turn, so that they are read from memory once and stay in the L1 cache meanwhile. */
static void copy(char *const *dst, int64_t ndst, const char *src, int64_t bytes)
{
    enum { SOME_BYTES = 4 * LINE };
    int64_t head = head_bytes(dst[0], bytes), end = bytes - (bytes - head) % LINE;
    for (int64_t j = 0; j < ndst; j++) {
        memcpy(dst[j], src, (size_t)head);
        memcpy(dst[j] + end, src + end, (size_t)(bytes - end));
    }
    for (int64_t i = head; i < end; i += SOME_BYTES)
        for (int64_t j = 0; j < ndst; j++)
            lines_copy(dst[j] + i, src + i, least(end - i, SOME_BYTES));
}

/* Returns true if all places begin at the same byte of a line. */
static bool are_alike(void *const *dst, int64_t ndst)
{
    uintptr_t apart = 0;
    for (int64_t j = 1; j < ndst; j++)
        apart |= ((uintptr_t)dst[j] ^ (uintptr_t)dst[0]) & (LINE - 1);
    return apart == 0;
}

void stream_copies(void *const *dst, int64_t ndst, const void *src, int64_t bytes)
{
    char *const *d = (char *const *)dst;
    bool alike = are_alike(dst, ndst);
    if (alike && ndst > 0)
        copy(d, ndst, src, bytes);
    /* Other places are filled one after the other, block by block. */
    for (int64_t i = 0; !alike && i < bytes; i += BLOCK_BYTES)
        for (int64_t j = 0; j < ndst; j++) {
            char *to = d[j] + i;
            copy(&to, 1, (const char *)src + i, least(bytes - i, BLOCK_BYTES));
        }
    lines_fence();
}

void stream_convert(void *dst, kv_dtype to, const void *src, kv_dtype from, int64_t n)
{
    char block[BLOCK * 8], *d = dst;
    int64_t wide = kv_dtype_bytes(to), narrow = kv_dtype_bytes(from);
    if (to == from && to != KV_BOOL) {
        copy(&d, 1, src, n * wide);
    } else {
        for (int64_t i = 0; i < n; i += BLOCK, d += BLOCK * wide) {
            int64_t m = least(n - i, BLOCK);
            convert_elements(block, to, (const char *)src + i * narrow, from, m);
            copy(&d, 1, block, m * wide);
        }
    }
    lines_fence();
}

/* The sum of n elements from byte `offset` on to each place, for what fills no whole lines. */
static void sum_rest(char *const *dst, int64_t ndst, const void *const *src, int64_t nsrc,
                     kv_dtype dtype, int64_t offset, int64_t n)
{
    const void *at[STREAM_SOURCES];
    for (int64_t j = 0; j < nsrc; j++)
        at[j] = (const char *)src[j] + offset;
    sum_elements(dst[0] + offset, at, nsrc, dtype, n);
    for (int64_t j = 1; j < ndst; j++)
        memcpy(dst[j] + offset, dst[0] + offset, (size_t)(n * kv_dtype_bytes(dtype)));
}

bool stream_sums(void *const *dst, int64_t ndst, const void *const *src, int64_t nsrc,
                 kv_dtype dtype, int64_t n)
{
    char *const *d = (char *const *)dst;
    const void *at[STREAM_SOURCES];
    void *to[STREAM_PLACES];
    int64_t bytes = kv_dtype_bytes(dtype);
    /* A place whose elements do not lie at multiples of their size has no whole lines of them. */
    if (nsrc < 2 || nsrc > STREAM_SOURCES || ndst > STREAM_PLACES || !are_alike(dst, ndst) ||
        (uintptr_t)dst[0] % (uintptr_t)bytes != 0)
        return false;
    int64_t done = head_bytes(dst[0], n * bytes) / bytes;
    sum_rest(d, ndst, src, nsrc, dtype, 0, done);
    for (int64_t j = 0; j < nsrc; j++)
        at[j] = (const char *)src[j] + done * bytes;
    for (int64_t j = 0; j < ndst; j++)
        to[j] = d[j] + done * bytes;
    done += lines_sum(to, ndst, at, nsrc, dtype, n - done, true);
    lines_fence();
    sum_rest(d, ndst, src, nsrc, dtype, done * bytes, n - done);
    return true;
}

void stream_sum(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n)
{
    if (nsrc == 1)
        stream_convert(dst, dtype, src[0], dtype, n);
    else if (!stream_sums(&dst, 1, src, nsrc, dtype, n))
        sum_elements(dst, src, nsrc, dtype, n);
}
