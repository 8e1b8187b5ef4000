/* The sum of several arrays, left to right.
 *
 * A loop adds up to four sources, in order, to a first one. More sources take several loops, one
 * block of elements at a time, so that the running sum stays in the L1 cache: each source is read
 * from memory once, and the result leaves the cache once. The half types keep the running sum in
 * float32 and are rounded at the end: whole lines of them in the registers of lines.c, and here
 * what that leaves.
 */
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "cpu/half.h"
#include "cpu/lines.h"

enum { BLOCK = 1024, MORE = 4 };

/* d may be a: element i depends only on element i. */
#define LOOP(sum) NO_CARRY for (int64_t i = 0; i < n; i++) d[i] = (sum)

/* d = a + s[0] + … + s[k - 1], k being 1 to MORE. Integers are added as unsigned numbers, which
 * wrap; ADD says how. */
#define SUM(name, type, ADD)                                                                       \
    CPU_CLONES static void name(void *dst, const void *first, const void *const *s, int k,         \
                                int64_t n)                                                         \
    {                                                                                              \
        type *d = dst;                                                                             \
        const type *a = first, *b = s[0], *c = s[k > 1 ? 1 : 0];                                   \
        const type *f = s[k > 2 ? 2 : 0], *g = s[k > 3 ? 3 : 0];                                   \
        if (k == 1)                                                                                \
            LOOP((type)ADD(a[i], b[i]));                                                           \
        else if (k == 2)                                                                           \
            LOOP((type)ADD(ADD(a[i], b[i]), c[i]));                                                \
        else if (k == 3)                                                                           \
            LOOP((type)ADD(ADD(ADD(a[i], b[i]), c[i]), f[i]));                                     \
        else                                                                                       \
            LOOP((type)ADD(ADD(ADD(ADD(a[i], b[i]), c[i]), f[i]), g[i]));                          \
    }

#define PLUS(x, y)   ((x) + (y))
#define EITHER(x, y) (((x) | (y)) != 0)

SUM(sum_f32, float, PLUS)
SUM(sum_f64, double, PLUS)
SUM(sum_8, uint8_t, PLUS)
SUM(sum_32, uint32_t, PLUS)
SUM(sum_64, uint64_t, PLUS)
SUM(sum_bool, uint8_t, EITHER)

typedef void sum_fn(void *dst, const void *first, const void *const *s, int k, int64_t n);

static sum_fn *const sums[KV_DTYPE_END] = {
    [KV_FLOAT32] = sum_f32, [KV_FLOAT64] = sum_f64, [KV_UINT8] = sum_8,   [KV_INT8] = sum_8,
    [KV_INT32] = sum_32,    [KV_INT64] = sum_64,    [KV_BOOL] = sum_bool,
};

/* Up to MORE + 1 sources are one loop, which needs no blocks. */
static void sum_in_blocks(char *dst, const void *const *src, int64_t nsrc, kv_dtype dtype,
                          int64_t n)
{
    int64_t bytes = kv_dtype_bytes(dtype), block = BLOCK;
    if (nsrc <= MORE + 1) {
        sums[dtype](dst, src[0], src + 1, (int)nsrc - 1, n);
        return;
    }
    for (int64_t i = 0; i < n; i += block) {
        int64_t count = n - i < block ? n - i : block, offset = i * bytes;
        const void *first = (const char *)src[0] + offset;
        for (int64_t done = 1; done < nsrc; done += MORE) {
            const void *s[MORE];
            int k = nsrc - done < MORE ? (int)(nsrc - done) : MORE;
            for (int j = 0; j < k; j++)
                s[j] = (const char *)src[done + j] + offset;
            sums[dtype](dst + offset, first, s, k, count);
            first = dst + offset;
        }
    }
}

typedef void widen_fn(float *restrict dst, const uint16_t *restrict src, int64_t n);
typedef void narrow_fn(uint16_t *restrict dst, const float *restrict src, int64_t n);

static void sum_halves(uint16_t *dst, const void *const *src, int64_t nsrc, kv_dtype dtype,
                       int64_t n)
{
    widen_fn *widen = dtype == KV_FLOAT16 ? half_widen_f16 : half_widen_bf16;
    narrow_fn *narrow = dtype == KV_FLOAT16 ? half_narrow_f16 : half_narrow_bf16;
    float total[BLOCK], term[BLOCK];
    const void *terms[] = {term};
    void *place = dst;
    for (int64_t i = lines_sum(&place, 1, src, nsrc, dtype, n, false); i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        widen(total, (const uint16_t *)src[0] + i, count);
        for (int64_t j = 1; j < nsrc; j++) {
            widen(term, (const uint16_t *)src[j] + i, count);
            sum_f32(total, total, terms, 1, count);
        }
        narrow(dst + i, total, count);
    }
}

void sum_elements(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n)
{
    if (nsrc == 1) {
        if (dst != src[0])
            convert_elements(dst, dtype, src[0], dtype, n);
        return;
    }
    switch (dtype) {
    case KV_FLOAT16:
    case KV_BFLOAT16:
        sum_halves(dst, src, nsrc, dtype, n);
        break;
    case KV_FLOAT32:
    case KV_FLOAT64:
    case KV_UINT8:
    case KV_INT32:
    case KV_INT8:
    case KV_INT64:
    case KV_BOOL:
        sum_in_blocks(dst, src, nsrc, dtype, n);
        break;
    }
}

/* ---- Stores past the caches ------------------------------------------------------------------
 *
 * They write whole lines. Sums go from registers to memory; conversions are made
 * block by block in the L1 cache and copied from there. */

enum { BLOCK_BYTES = 4096, LINE = 64, STREAM_SOURCES = 64 };

/* Bytes before the first line that begins in dst. */
static int64_t head_bytes(const void *dst, int64_t bytes)
{
    return at_most(-(int64_t)(uintptr_t)dst & (LINE - 1), bytes);
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
            lines_copy(dst[j] + i, src + i, at_most(end - i, SOME_BYTES));
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
            copy(&to, 1, (const char *)src + i, at_most(bytes - i, BLOCK_BYTES));
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
            int64_t m = at_most(n - i, BLOCK);
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
