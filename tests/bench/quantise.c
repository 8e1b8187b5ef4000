/* Quantising and dequantising one large array beside loops that only read and write the same bytes,
 * with the same threads, in turn: prints the fraction of that limit.
 *
 *     quantise [ELEMENTS [ROUNDS]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "array/device.h"
#include "base/mem.h"
#include "engine/pool.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define PART (1 << 18)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct work {
    float *residual, *src, *dst;
    char *codes;
    int64_t n;
    dev_code code;
} work;

typedef void part_fn(void *arg, int64_t part, int worker);

static int64_t part_size(const work *w, int64_t part)
{
    int64_t left = w->n - part * PART;
    return left < PART ? left : PART;
}

static void *part_codes(const work *w, int64_t part)
{
    return w->codes + part * dev_code_bytes(w->code, PART);
}

static void encode(void *arg, int64_t part, int worker)
{
    const work *w = arg;
    (void)worker;
    cpu_dev_ops.quantise(part_codes(w, part), w->residual + part * PART, w->src + part * PART,
                         w->code, 0.5f, part_size(w, part));
}

static void decode(void *arg, int64_t part, int worker)
{
    const work *w = arg;
    (void)worker;
    cpu_dev_ops.dequantise(w->dst + part * PART, part_codes(w, part), w->code, 0.5f,
                           part_size(w, part));
}

static void decode_add(void *arg, int64_t part, int worker)
{
    const work *w = arg;
    (void)worker;
    cpu_dev_ops.dequantise_add(w->dst + part * PART, part_codes(w, part), w->code, 0.5f,
                               part_size(w, part));
}

/* A number that depends on all codes of a part. */
static float read_codes(const work *w, int64_t part)
{
    const uint32_t *codes = part_codes(w, part);
    int64_t words = dev_code_bytes(w->code, part_size(w, part)) / 4;
    uint32_t all = 0;
    for (int64_t i = 0; i < words; i++)
        all |= codes[i];
    return all ? 1 : 0;
}

/* The elements that quantising reads and writes, and as many bytes as its codes. */
static void encode_limit(void *arg, int64_t part, int worker)
{
    const work *w = arg;
    float *r = w->residual + part * PART;
    const float *g = w->src + part * PART;
    int64_t n = part_size(w, part);
    (void)worker;
    for (int64_t i = 0; i < n; i++)
        r[i] += g[i];
    memset(part_codes(w, part), (int)part, (size_t)dev_code_bytes(w->code, n));
}

static void decode_add_limit(void *arg, int64_t part, int worker)
{
    const work *w = arg;
    float *d = w->dst + part * PART;
    int64_t n = part_size(w, part);
    float sum = read_codes(w, part);
    (void)worker;
    for (int64_t i = 0; i < n; i++)
        d[i] += sum;
}

/* Plain stores first read what they overwrite; where the processor has others, they are the limit.
 */
static void fill(float *d, float x, int64_t n)
{
#ifdef __x86_64__
    for (int64_t i = 0; i + 4 <= n; i += 4)
        _mm_stream_ps(d + i, _mm_set1_ps(x));
    _mm_sfence();
#else
    for (int64_t i = 0; i < n; i++)
        d[i] = x;
#endif
}

static void decode_limit(void *arg, int64_t part, int worker)
{
    const work *w = arg;
    int64_t n = part_size(w, part);
    float sum = read_codes(w, part);
    (void)worker;
    fill(w->dst + part * PART, sum, n);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double timed(part_fn *run, work *w)
{
    double t = now();
    pool_run((w->n + PART - 1) / PART, run, w);
    return now() - t;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        part_fn *ours, *limit;
    } cases[] = {{"quantise", encode, encode_limit},
                 {"dequantise", decode, decode_limit},
                 {"dequantise and add", decode_add, decode_add_limit}};
    work w = {.n = argc > 1 ? atoll(argv[1]) : 25557032};
    int rounds = argc > 2 ? atoi(argv[2]) : 15;
    kv_err e = {0};
    if (w.n < 1 || rounds < 1 || rounds > 99)
        return 2;
    w.residual = mem_alloc_data(w.n * 4, &e);
    w.src = mem_alloc_data(w.n * 4, &e);
    w.dst = mem_alloc_data(w.n * 4, &e);
    w.codes = mem_alloc_data(dev_code_bytes(DEV_CODE_2BIT, w.n) + PART, &e);
    if (e.code)
        return 1;
    memset(w.dst, 0, (size_t)w.n * 4);
    printf("%-25s %9s %9s  of the limit (medians, %d threads)\n", "", "ours ms", "limit ms",
           pool_workers());
    for (int c = 0; c < 6; c++) {
        double ours[99], limit[99], ratio[99];
        w.code = c < 3 ? DEV_CODE_2BIT : DEV_CODE_1BIT;
        for (int64_t i = 0; i < w.n; i++)
            w.src[i] = (float)(i * 7919 % 1999 - 999) * 1e-3f, w.residual[i] = 0;
        timed(encode, &w);
        for (int i = 0; i < rounds; i++) {
            limit[i] = timed(cases[c % 3].limit, &w);
            ours[i] = timed(cases[c % 3].ours, &w);
            ratio[i] = limit[i] / ours[i];
        }
        qsort(ours, (size_t)rounds, sizeof *ours, by_size);
        qsort(limit, (size_t)rounds, sizeof *limit, by_size);
        qsort(ratio, (size_t)rounds, sizeof *ratio, by_size);
        printf("%d bit %-19s %9.1f %9.1f  %.2f\n", (int)w.code, cases[c % 3].name,
               ours[rounds / 2] * 1e3, limit[rounds / 2] * 1e3, ratio[rounds / 2]);
    }
    return 0;
}
