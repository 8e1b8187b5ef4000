/* Quantising and dequantising one large array beside loops that only read and write the same bytes,
 * with the same threads, in turn: prints the fraction of the better limit, that with plain stores
 * (p) or with streaming ones (s).
 *
 *     quantise [ELEMENTS [ROUNDS]]
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cpu/cpu.h"
#include "engine/pool.h"
#include "measure.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define PART (1 << 18)

typedef struct work {
    float *residual, *src, *dst;
    char *codes;
    int64_t n;
    quantise_code code;
} work;

typedef void part_fn(void *arg, int64_t part, int worker);

static int64_t part_size(const work *w, int64_t part)
{
    int64_t left = w->n - part * PART;
    return left < PART ? left : PART;
}

static void *part_codes(const work *w, int64_t part)
{
    return w->codes + part * quantise_bytes(w->code, PART);
}

static void encode(void *arg, int64_t part, int worker)
{
    const work *w = arg;
    (void)worker;
    quantise_encode(part_codes(w, part), w->residual + part * PART, w->src + part * PART, w->code,
                    0.5f, part_size(w, part));
}

static void decode(void *arg, int64_t part, int worker)
{
    const work *w = arg;
    (void)worker;
    quantise_decode(w->dst + part * PART, part_codes(w, part), w->code, 0.5f, part_size(w, part));
}

/* A number that depends on all codes of a part. */
static float read_codes(const work *w, int64_t part)
{
    const uint32_t *codes = part_codes(w, part);
    int64_t words = quantise_bytes(w->code, part_size(w, part)) / 4;
    uint32_t all = 0;
    for (int64_t i = 0; i < words; i++)
        all |= codes[i];
    return all ? 1 : 0;
}

/* A store that first reads what it overwrites, and one that does not: which is faster depends on
 * the machine, so the limit is the better of two loops. */
#ifdef __AVX__
enum { LANES = 8 };
typedef __m256 lanes;

static inline void put(float *at, lanes x, bool streaming)
{
    if (streaming)
        _mm256_stream_ps(at, x);
    else
        _mm256_store_ps(at, x);
}
#else
enum { LANES = 1 };
typedef float lanes;

static inline void put(float *at, lanes x, bool streaming)
{
    (void)streaming;
    *at = x;
}
#endif

/* d[i] += s[i]; or where s is NULL and d is only written, d[i] = x. */
static inline __attribute__((always_inline)) void move(float *d, const float *s, float x,
                                                       bool reads, bool streaming, int64_t n)
{
    const lanes all = x - (lanes){0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes y = all;
        if (s)
            y = *(const lanes *)(const void *)(s + i);
        if (reads)
            y += *(const lanes *)(const void *)(d + i);
        put(d + i, y, streaming);
    }
    for (; i < n; i++)
        d[i] = (reads ? d[i] : 0) + (s ? s[i] : x);
#ifdef __AVX__
    _mm_sfence();
#endif
}

/* The elements that quantising reads and writes, and as many bytes as its codes. */
static inline __attribute__((always_inline)) void move_encode(const work *w, int64_t part,
                                                              bool streaming)
{
    int64_t n = part_size(w, part);
    move(w->residual + part * PART, w->src + part * PART, 0, true, streaming, n);
    memset(part_codes(w, part), (int)part, (size_t)quantise_bytes(w->code, n));
}

static void encode_plain(void *arg, int64_t part, int worker)
{
    (void)worker;
    move_encode(arg, part, false);
}

static void encode_streaming(void *arg, int64_t part, int worker)
{
    (void)worker;
    move_encode(arg, part, true);
}

static inline __attribute__((always_inline)) void move_decode(const work *w, int64_t part,
                                                              bool streaming)
{
    move(w->dst + part * PART, NULL, read_codes(w, part), false, streaming, part_size(w, part));
}

static void decode_plain(void *arg, int64_t part, int worker)
{
    (void)worker;
    move_decode(arg, part, false);
}

static void decode_streaming(void *arg, int64_t part, int worker)
{
    (void)worker;
    move_decode(arg, part, true);
}

static double timed(part_fn *run, work *w)
{
    double t = now();
    pool_run((w->n + PART - 1) / PART, run, w);
    return now() - t;
}

static double median_of(const double *x, int n)
{
    double sorted[99];
    memcpy(sorted, x, (size_t)n * sizeof *x);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    return sorted[n / 2];
}

/* Ratios are of what ran in turn. */
static void report(quantise_code code, const char *name, const double *ours, const double *plain,
                   const double *streaming, int n)
{
    bool streams = median_of(streaming, n) < median_of(plain, n);
    const double *limit = streams ? streaming : plain;
    double ratio[99];
    for (int i = 0; i < n; i++)
        ratio[i] = limit[i] / ours[i];
    printf("%d bit %-19s %9.1f %9.1f %c  %.2f\n", (int)code, name, median_of(ours, n) * 1e3,
           median_of(limit, n) * 1e3, streams ? 's' : 'p', median_of(ratio, n));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        part_fn *ours, *plain, *streaming;
    } cases[] = {{"quantise", encode, encode_plain, encode_streaming},
                 {"dequantise", decode, decode_plain, decode_streaming}};
    work w = {.n = argc > 1 ? atoll(argv[1]) : 25557032};
    int rounds = argc > 2 ? atoi(argv[2]) : 15;
    kv_err e = {0};
    if (w.n < 1 || rounds < 1 || rounds > 99)
        return 2;
    w.residual = mem_alloc_data(w.n * 4, &e);
    w.src = mem_alloc_data(w.n * 4, &e);
    w.dst = mem_alloc_data(w.n * 4, &e);
    w.codes = mem_alloc_data(quantise_bytes(QUANTISE_2BIT, w.n) + PART, &e);
    if (e.code)
        return 1;
    memset(w.dst, 0, (size_t)w.n * 4);
    printf("%-25s %9s %9s    of the limit (medians, %d threads)\n", "", "ours ms", "limit ms",
           pool_workers());
    for (int c = 0; c < 4; c++) {
        double ours[99], plain[99], streaming[99];
        w.code = c < 2 ? QUANTISE_2BIT : QUANTISE_1BIT;
        for (int64_t i = 0; i < w.n; i++)
            w.src[i] = (float)(i * 7919 % 1999 - 999) * 1e-3f, w.residual[i] = 0;
        timed(encode, &w);
        for (int i = 0; i < rounds; i++) {
            plain[i] = timed(cases[c % 2].plain, &w);
            ours[i] = timed(cases[c % 2].ours, &w);
            streaming[i] = timed(cases[c % 2].streaming, &w);
        }
        report(w.code, cases[c % 2].name, ours, plain, streaming, rounds);
    }
    return 0;
}
