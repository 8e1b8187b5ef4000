/* The sum of row_sparse values beside a plain loop that gathers, adds and scatters: each value is
 * added row by row to a default array of zeros. In turn, so that the ratio holds on a busy machine.
 *
 *     rows [ROWS [HELD [ROUNDS]]]     a value holds HELD of ROWS rows of 16 float32, at random
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "array/sparse.h"
#include "base/mem.h"
#include "engine/pool.h"

enum { ROW = 16, MOST = 8, MAX_ROUNDS = 99 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

/* held of rows, ascending, each once: every row is taken with the chance that is left. */
static kv_array *make_value(int64_t rows, int64_t held, uint64_t seed)
{
    kv_err e = {0};
    kv_array *a = NULL;
    void *data;
    int64_t *ids = mem_alloc(held, sizeof *ids, &e), n = 0;
    for (int64_t i = 0; ids && i < rows && n < held; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if ((int64_t)((seed >> 33) % (uint64_t)(rows - i)) < held - n)
            ids[n++] = i;
    }
    if (!ids ||
        kv_array_new_sparse(&a, KV_FLOAT32, 2, (int64_t[]){rows, ROW}, n, ids, (kv_ctx){0}, &e) ||
        kv_array_write_rows(a, &data, &e)) {
        fprintf(stderr, "rows: %s\n", e.text);
        exit(1);
    }
    for (int64_t i = 0; i < n * ROW; i++)
        ((float *)data)[i] = (float)(i % 1000) * 1e-3f;
    mem_free(ids);
    return a;
}

/* total[ids[k]] += value[k] */
static void plain_loop(float *restrict total, const int64_t *restrict ids,
                       const float *restrict value, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        for (int j = 0; j < ROW; j++)
            total[ids[k] * ROW + j] += value[k * ROW + j];
}

static double time_plain(float *total, kv_array *const *values, int n)
{
    double t = now();
    for (int i = 0; i < n; i++)
        plain_loop(total, values[i]->rows, values[i]->data, values[i]->nrows);
    return now() - t;
}

static double time_sum(kv_array *const *values, int n)
{
    kv_err e = {0};
    kv_array *sum;
    double t = now();
    if (sparse_sum(&sum, values, n, KV_FLOAT32, (kv_ctx){0}, &e)) {
        fprintf(stderr, "rows: %s\n", e.text);
        exit(1);
    }
    t = now() - t;
    kv_array_unref(sum);
    return t;
}

int main(int argc, char **argv)
{
    int64_t rows = argc > 1 ? atoll(argv[1]) : 10000000;
    int64_t held = argc > 2 ? atoll(argv[2]) : 1000000;
    int rounds = argc > 3 ? atoi(argv[3]) : 5;
    kv_err e = {0};
    kv_array *values[MOST];
    float *total = mem_alloc_data(rows * ROW * 4, &e);
    if (!total || rounds < 1 || rounds > MAX_ROUNDS || held > rows)
        return 1;
    memset(total, 0, (size_t)rows * ROW * 4);
    for (int i = 0; i < MOST; i++)
        values[i] = make_value(rows, held, (uint64_t)i + 1);
    printf("%-32s %9s %9s  of the loop (medians, %d threads)\n", "row_sparse sum", "ours ms",
           "loop ms", pool_workers());
    for (int n = 2; n <= MOST; n *= 2) {
        double ours[MAX_ROUNDS], loop[MAX_ROUNDS], ratio[MAX_ROUNDS];
        char name[64];
        time_sum(values, n);
        for (int i = 0; i < rounds; i++) {
            ours[i] = time_sum(values, n);
            loop[i] = time_plain(total, values, n);
            ratio[i] = loop[i] / ours[i];
        }
        snprintf(name, sizeof name, "%d values, %lld of %lld rows", n, (long long)held,
                 (long long)rows);
        printf("%-32s %9.1f %9.1f  %.2f\n", name, median(ours, rounds) * 1e3,
               median(loop, rounds) * 1e3, median(ratio, rounds));
    }
    for (int i = 0; i < MOST; i++)
        kv_array_unref(values[i]);
    mem_free_data(total);
    return 0;
}
