/* A few lines of the source at a time, to each place in turn: they are read from memory once and
 * stay in the L1 cache meanwhile, and each place is written in order, line by line. Places that do
 * not begin at the same byte of a line are filled one after the other, block by block. */
#include "cpu/spread.h"

#include <string.h>

enum { LINE = 64, LINES = 4, BLOCK = 4096 };

/* bytes of whole lines; every place begins one. */
typedef void lines_fn(char *const *dst, int64_t ndst, const char *src, int64_t bytes);

/* STORE moves one line from s to d. */
#define SPREAD(name, attribute, STORE)                                                             \
    attribute static void name(char *const *dst, int64_t ndst, const char *src, int64_t bytes)     \
    {                                                                                              \
        for (int64_t i = 0, n; i < bytes; i += n) {                                                \
            n = bytes - i < LINES * LINE ? bytes - i : LINES * LINE;                               \
            for (int64_t j = 0; j < ndst; j++)                                                     \
                for (int64_t k = i; k < i + n; k += LINE)                                          \
                    STORE(dst[j] + k, src + k);                                                    \
        }                                                                                          \
    }

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define STORE_512(d, s) _mm512_stream_si512((void *)(d), _mm512_loadu_si512((const void *)(s)))

/* A line of which all 64 bytes come at once, or nearly, leaves for memory without waiting. */
static inline void store_128(char *d, const char *s)
{
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)s);
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(s + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(s + 32));
    __m128i e = _mm_loadu_si128((const __m128i *)(const void *)(s + 48));
    _mm_stream_si128((__m128i *)(void *)d, a);
    _mm_stream_si128((__m128i *)(void *)(d + 16), b);
    _mm_stream_si128((__m128i *)(void *)(d + 32), c);
    _mm_stream_si128((__m128i *)(void *)(d + 48), e);
}

SPREAD(spread_512, __attribute__((target("avx512f"))), STORE_512)
SPREAD(spread_128, , store_128)

static lines_fn *choose(void)
{
    return __builtin_cpu_supports("avx512f") ? spread_512 : spread_128;
}

/* Other threads see streamed stores in order only behind a fence. */
static void fence(void)
{
    _mm_sfence();
}

#else

#define STORE_ANY(d, s) memcpy(d, s, LINE)
SPREAD(spread_any, , STORE_ANY)

static lines_fn *choose(void)
{
    return spread_any;
}

static void fence(void)
{
}

#endif

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* All places begin at the same byte of a line. */
static void spread(lines_fn *fill, char *const *dst, int64_t ndst, const char *src, int64_t bytes)
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
    lines_fn *fill = choose();
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
    fence();
}
