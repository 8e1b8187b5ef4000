/* Products of matrices and vectors beside OpenBLAS with as many threads, in turn: prints the speed
 * of both and ours as a fraction of theirs. OpenBLAS is opened when it runs (Debian: libopenblas0);
 * without it ours stands alone. Its multiply-adds round once, so it can be twice as fast as
 * products and sums that are rounded each.
 *
 *     dot [ROUNDS]
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/dot.h"
#include "engine/pool.h"
#include "kvbench/bench_stream.h"

/* cblas.h: the numbers of its enums. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111 };
typedef void sgemm(int, int, int, int m, int n, int k, float, const float *, int, const float *,
                   int, float, float *, int);
typedef void dgemm(int, int, int, int m, int n, int k, double, const double *, int,
                   const double *, int, double, double *, int);

typedef struct peer {
    sgemm *f32;
    dgemm *f64;
} peer;

static peer open_peer(void)
{
    peer p = {0};
    void *library = dlopen("libopenblas.so.0", RTLD_NOW);
    void *threads = library ? dlsym(library, "openblas_set_num_threads") : NULL;
    void *f32 = library ? dlsym(library, "cblas_sgemm") : NULL;
    void *f64 = library ? dlsym(library, "cblas_dgemm") : NULL;
    void (*set)(int) = NULL;
    if (!threads || !f32 || !f64) {
        printf("without OpenBLAS: %s\n", library ? "it lacks a function" : dlerror());
        return p;
    }
    memcpy(&set, &threads, sizeof set);
    memcpy(&p.f32, &f32, sizeof p.f32);
    memcpy(&p.f64, &f64, sizeof p.f64);
    set(pool_workers());
    return p;
}

static kv_array *matrix(kv_dtype dtype, int64_t n, int64_t m, kv_err *e)
{
    kv_array *a = NULL;
    void *x = NULL;
    if (kv_array_new_raw(&a, dtype, 2, (int64_t[]){n, m}, (kv_ctx){0}, e) ||
        kv_array_write(a, &x, e))
        return NULL;
    for (int64_t i = 0; i < n * m; i++) {
        double value = (double)(i * 37 % 101 - 50) / 7;
        if (dtype == KV_FLOAT32)
            ((float *)x)[i] = (float)value;
        else
            ((double *)x)[i] = value;
    }
    return a;
}

static void run_peer(const peer *p, kv_dtype dtype, const void *a, const void *b, void *c, int n,
                     int depth, int m)
{
    if (dtype == KV_FLOAT32)
        p->f32(ROW_MAJOR, AS_IT_IS, AS_IT_IS, n, m, depth, 1, a, depth, b, m, 0, c, m);
    else
        p->f64(ROW_MAJOR, AS_IT_IS, AS_IT_IS, n, m, depth, 1, a, depth, b, m, 0, c, m);
}

static int measure(const peer *p, kv_dtype dtype, int n, int depth, int m, int rounds, kv_err *e)
{
    double ours[99], theirs[99], flops = 2.0 * n * depth * m;
    kv_array *a = matrix(dtype, n, depth, e), *b = matrix(dtype, depth, m, e);
    kv_array *c = matrix(dtype, n, m, e), *made = NULL;
    const void *x, *y;
    void *z;
    if (e->code || kv_array_read(a, &x, e) || kv_array_read(b, &y, e) || kv_array_write(c, &z, e))
        return e->code;
    for (int i = -1; i < rounds; i++) { /* the first warms up */
        double t = stream_now();
        if (dot_arrays(&made, a, b, dtype, e))
            return e->code;
        ours[i < 0 ? 0 : i] = stream_now() - t;
        kv_array_unref(made);
        t = stream_now();
        if (p->f32)
            run_peer(p, dtype, x, y, z, n, depth, m);
        theirs[i < 0 ? 0 : i] = stream_now() - t;
    }
    double ratio = stream_ratio(ours, theirs, rounds); /* the medians sort the pairs */
    printf("%-8s %5d x %5d x %5d %9.1f", kv_dtype_name(dtype), n, depth, m,
           flops / stream_median(ours, rounds) * 1e-9);
    if (p->f32)
        printf(" %9.1f  %.2f", flops / stream_median(theirs, rounds) * 1e-9, ratio);
    putchar('\n');
    kv_array_unref(a);
    kv_array_unref(b);
    kv_array_unref(c);
    return KV_OK;
}

int main(int argc, char **argv)
{
    static const int sizes[][3] = {{64, 64, 64},      {256, 256, 256}, {1000, 1000, 1000},
                                   {2000, 2000, 2000}, {2000, 10, 2000}, {64, 20000, 64},
                                   {1, 4000, 4000},   {4000, 4000, 1}};
    int rounds = argc > 1 ? atoi(argv[1]) : 9;
    kv_err e = {0};
    peer p = open_peer();
    if (rounds < 1 || rounds > 99)
        return 2;
    printf("%-8s %21s %9s %9s  of theirs (GFLOP/s, medians, %d threads)\n", "dtype",
           "rows x depth x columns", "ours", "OpenBLAS", pool_workers());
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            if (measure(&p, k ? KV_FLOAT64 : KV_FLOAT32, sizes[i][0], sizes[i][1], sizes[i][2],
                        rounds, &e)) {
                fprintf(stderr, "%s\n", e.text);
                return 1;
            }
    return 0;
}
