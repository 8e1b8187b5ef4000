/* Every optimizer in place on one large float32 array, beside a loop that only reads and writes
 * what the optimizer has to, with the same threads, in turn: prints the fraction of that limit.
 *
 *     optimizers [ELEMENTS [ROUNDS [NAME]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "engine/pool.h"
#include "kvstore.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What an optimizer must read and write once for each element: arrays that are read and written,
 * and arrays that are only read (the gradient; the weight again in a second pass). */
static const struct {
    const char *name;
    kv_opt opts[2];
    int nopts, both, only;
} cases[] = {
    {"sgd", {{0}}, 0, 1, 1},
    {"sgd", {{"momentum", "0.9"}}, 1, 2, 1},
    {"nag", {{"momentum", "0.9"}}, 1, 2, 1},
    {"signum", {{0}}, 0, 2, 1},
    {"dcasgd", {{0}}, 0, 2, 1},
    {"ftml", {{0}}, 0, 4, 1},
    {"lars", {{"momentum", "0.9"}}, 1, 2, 3},
    {"lamb", {{0}}, 0, 3, 3},
    {"adam", {{0}}, 0, 3, 1},
    {"adamw", {{0}}, 0, 3, 1},
    {"adabelief", {{0}}, 0, 3, 1},
    {"lans", {{0}}, 0, 3, 4},
    {"adagrad", {{0}}, 0, 2, 1},
    {"adadelta", {{0}}, 0, 3, 1},
    {"rmsprop", {{0}}, 0, 2, 1},
    {"rmsprop", {{"centered", "true"}}, 1, 4, 1},
    {"ftrl", {{0}}, 0, 3, 1},
    {"adamax", {{0}}, 0, 3, 1},
    {"nadam", {{0}}, 0, 3, 1},
    {"test", {{0}}, 0, 2, 1},
};

#define MAX_ARRAYS 8
#define PART       65536

typedef struct stream {
    float *both[MAX_ARRAYS];
    const float *only[MAX_ARRAYS];
    int nboth, nonly;
    int64_t n;
} stream;

/* The fastest that the processor can do, or it would be no limit. */
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#endif
static void add(float *to, const float *x, int64_t n)
{
    _Pragma("GCC ivdep") for (int64_t k = 0; k < n; k++) to[k] += x[k];
}

static void stream_part(void *arg, int64_t part, int worker)
{
    const stream *s = arg;
    int64_t from = part * PART, to = from + PART < s->n ? from + PART : s->n;
    float sum[1024] = {0};
    (void)worker;
    /* block by block, so that each array is touched once and adds stay in the cache */
    for (int64_t i = from; i < to; i += 1024) {
        int64_t m = to - i < 1024 ? to - i : 1024;
        for (int a = 0; a < s->nonly; a++)
            add(sum, s->only[a] + i, m);
        for (int a = 0; a < s->nboth; a++)
            add(s->both[a] + i, sum, m);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int64_t n = argc > 1 ? atoll(argv[1]) : 25557032;
    int rounds = argc > 2 ? atoi(argv[2]) : 7;
    kv_err e = {0};
    kv_array *w, *g;
    float *room[MAX_ARRAYS];
    void *x;
    kv_key key = {1, NULL};
    for (int a = 0; a < MAX_ARRAYS; a++) {
        room[a] = mem_alloc_data(n * 4, &e);
        memset(room[a], 0, (size_t)n * 4);
    }
    if (kv_array_new(&w, KV_FLOAT32, 1, &n, (kv_ctx){0}, &e) ||
        kv_array_new(&g, KV_FLOAT32, 1, &n, (kv_ctx){0}, &e) || kv_array_write(g, &x, &e))
        return 1;
    for (int64_t i = 0; i < n; i++)
        ((float *)x)[i] = (float)(i % 1000) * 1e-4f;
    printf("%-22s %9s %9s  of the limit (medians, %d threads)\n", "optimizer", "ours ms",
           "limit ms", pool_workers());
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        if (argc > 3 && strcmp(argv[3], cases[c].name) != 0)
            continue;
        double ours[99], limit[99], ratio[99];
        kv *store;
        stream s = {.nboth = cases[c].both, .nonly = cases[c].only, .n = n};
        for (int a = 0; a < s.nboth; a++)
            s.both[a] = room[a];
        for (int a = 0; a < s.nonly; a++)
            s.only[a] = room[(s.nboth + a) % MAX_ARRAYS];
        if (kv_create("local", NULL, 0, &store, &e) || kv_init(store, &key, 1, &w, NULL, &e) ||
            kv_set_optimizer(store, cases[c].name, cases[c].opts, cases[c].nopts, &e) ||
            kv_push(store, &key, 1, &g, NULL, &e) || kv_wait(store, &e)) {
            fprintf(stderr, "%s: %s\n", cases[c].name, e.text);
            return 1;
        }
        for (int i = 0; i < rounds; i++) {
            double t = now();
            kv_push(store, &key, 1, &g, NULL, &e);
            kv_wait(store, &e);
            ours[i] = now() - t;
            t = now();
            pool_run((n + PART - 1) / PART, stream_part, &s);
            limit[i] = now() - t;
            ratio[i] = limit[i] / ours[i];
        }
        kv_free(store);
        qsort(ours, (size_t)rounds, sizeof *ours, by_size);
        qsort(limit, (size_t)rounds, sizeof *limit, by_size);
        qsort(ratio, (size_t)rounds, sizeof *ratio, by_size);
        char name[64];
        snprintf(name, sizeof name, "%s%s%s", cases[c].name, cases[c].nopts ? " " : "",
                 cases[c].nopts ? cases[c].opts[0].name : "");
        printf("%-22s %9.1f %9.1f  %.2f\n", name, ours[rounds / 2] * 1e3, limit[rounds / 2] * 1e3,
               ratio[rounds / 2]);
    }
    return 0;
}
