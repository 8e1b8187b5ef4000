/* A few lines of the source at a time, to each place in turn: they are read from memory once and
 * stay in the L1 cache meanwhile, and each place is written in order, line by line. Places that do
 * not begin at the same byte of a line are filled one after the other, block by block. */
#include "cpu/spread.h"

#include <string.h>

#include "cpu/stream.h"

enum { LINE = 64, SOME_BYTES = 4 * LINE, BLOCK = 4096 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Copies whole lines past the caches; dst begins one. */
typedef void lines_fn(char *dst, const char *src, int64_t bytes);

/* Copies whole lines to places that all begin one. */
typedef void fill_fn(char *const *dst, int64_t ndst, const char *src, int64_t bytes);

/* copy is constant where this is called. */
static inline __attribute__((always_inline)) void
fill_by(lines_fn *copy, char *const *dst, int64_t ndst, const char *src, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += SOME_BYTES)
        for (int64_t j = 0; j < ndst; j++)
            copy(dst[j] + i, src + i, least(bytes - i, SOME_BYTES));
}

static void fill_any(char *const *dst, int64_t ndst, const char *src, int64_t bytes)
{
    fill_by(stream_lines, dst, ndst, src, bytes);
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f")))

/* A line of which all 64 bytes come at once leaves for memory without waiting. */
AVX512 static inline void lines_512(char *dst, const char *src, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += LINE)
        _mm512_stream_si512((void *)(dst + i), _mm512_loadu_si512((const void *)(src + i)));
}

AVX512 static void fill_512(char *const *dst, int64_t ndst, const char *src, int64_t bytes)
{
    fill_by(lines_512, dst, ndst, src, bytes);
}

static fill_fn *choose(void)
{
    return __builtin_cpu_supports("avx512f") ? fill_512 : fill_any;
}

#else

static fill_fn *choose(void)
{
    return fill_any;
}

#endif

/* All places begin at the same byte of a line. */
static void spread(fill_fn *fill, char *const *dst, int64_t ndst, const char *src, int64_t bytes)
{
    enum { AT_ONCE = 16 };
    char *at[AT_ONCE];
    int64_t head = least(-(int64_t)(uintptr_t)dst[0] & (LINE - 1), bytes);
    int64_t lines = (bytes - head) / LINE * LINE, tail = bytes - head - lines;
    for (int64_t first = 0; first < ndst; first += AT_ONCE) {
        int64_t n = least(ndst - first, AT_ONCE);
        for (int64_t j = 0; j < n; j++) {
            at[j] = dst[first + j] + head;
            memcpy(dst[first + j], src, (size_t)head);
            memcpy(at[j] + lines, src + head + lines, (size_t)tail);
        }
        fill(at, n, src + head, lines);
    }
}

void spread_far(void *const *dst, int64_t ndst, const void *src, int64_t bytes)
{
    fill_fn *fill = choose();
    char *const *d = (char *const *)dst;
    uintptr_t apart = 0;
    for (int64_t j = 1; j < ndst; j++)
        apart |= ((uintptr_t)dst[j] ^ (uintptr_t)dst[0]) & (LINE - 1);
    if (apart == 0 && ndst > 0)
        spread(fill, d, ndst, src, bytes);
    for (int64_t i = 0; apart && i < bytes; i += BLOCK)
        for (int64_t j = 0; j < ndst; j++) {
            char *to = d[j] + i;
            spread(fill, &to, 1, (const char *)src + i, least(bytes - i, BLOCK));
        }
    stream_fence();
}
