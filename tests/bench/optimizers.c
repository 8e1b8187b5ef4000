/* Every optimizer in place on one large float32 array, beside a loop that only reads and writes
 * what the optimizer has to, with the same threads, in turn: prints the fraction of that limit.
 * `kvbench bench --op optimizers` measures them on the arrays of a network.
 *
 * What groupadagrad does depends on how long a row is: it is measured on a two-axis weight, with
 * rows of ROW elements, 64 unless told.
 *
 *     optimizers [ELEMENTS [ROUNDS [NAME [ROW]]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kvbench/bench_op.h"
#include "kvbench/bench_stream.h"
#include "engine/pool.h"
#include "kvstore.h"

#define MAX_ARRAYS 8

static int measure(const bench_optimizer *o, const char *name, kv_array *w, kv_array *g,
                   stream_mix *mix, int rounds, kv_err *e)
{
    double ours[99], limit[99];
    kv *store;
    kv_key key = {1, NULL};
    if (kv_create("local", NULL, 0, &store, e) || kv_init(store, &key, 1, &w, NULL, e) ||
        kv_set_optimizer(store, o->optimizer, o->params, o->nparams, e) ||
        kv_push(store, &key, 1, &g, NULL, e) || kv_wait(store, e))
        return e->code;
    for (int i = 0; i < rounds; i++) {
        double t = stream_now();
        kv_push(store, &key, 1, &g, NULL, e);
        kv_wait(store, e);
        ours[i] = stream_now() - t;
        t = stream_now();
        stream_run(mix, false);
        limit[i] = stream_now() - t;
    }
    kv_free(store);
    printf("%-26s %9.1f %9.1f  %.2f\n", name, stream_median(ours, rounds) * 1e3,
           stream_median(limit, rounds) * 1e3, stream_ratio(ours, limit, rounds));
    return e->code;
}

/* The weight and the gradient, of one axis or (row > 0) of two. */
static int make_arrays(kv_array **w, kv_array **g, int64_t n, int64_t row, kv_err *e)
{
    int64_t shape[] = {row > 0 ? n / row : n, row};
    int ndim = row > 0 ? 2 : 1;
    void *x;
    *w = *g = NULL;
    if (kv_array_new(w, KV_FLOAT32, ndim, shape, (kv_ctx){0}, e) ||
        kv_array_new(g, KV_FLOAT32, ndim, shape, (kv_ctx){0}, e) || kv_array_write(*g, &x, e))
        return e->code;
    for (int64_t i = 0; i < kv_array_size(*g); i++)
        ((float *)x)[i] = (float)(i % 1000) * 1e-4f;
    return KV_OK;
}

int main(int argc, char **argv)
{
    int64_t n = argc > 1 ? atoll(argv[1]) : 25557032, bytes = n * 4;
    int rounds = argc > 2 ? atoi(argv[2]) : 7;
    kv_err e = {0};
    int64_t row = argc > 4 ? atoll(argv[4]) : 64;
    kv_array *flat_w, *flat_g, *w, *g;
    void *room[MAX_ARRAYS];
    stream_cut cut;
    if (rounds < 1 || rounds > 99 || row < 1 || row > n || stream_cut_init(&cut, &bytes, 1, &e))
        return 2;
    for (int a = 0; a < MAX_ARRAYS; a++) {
        room[a] = mem_alloc_data(bytes, &e);
        memset(room[a], 0, (size_t)bytes);
    }
    if (make_arrays(&flat_w, &flat_g, n, 0, &e) || make_arrays(&w, &g, n, row, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    printf("%-26s %9s %9s  of it (medians, %d threads)\n", "optimizer", "ours ms", "limit ms",
           pool_workers());
    for (const bench_optimizer *o = bench_optimizers; o->name; o++) {
        if (argc > 3 && strcmp(argv[3], o->name) != 0)
            continue;
        stream_mix mix = {.cut = &cut, .nread = 1 + o->again, .nboth = o->both};
        for (int a = 0; a < o->both; a++)
            mix.both[a] = &room[a];
        for (int a = 0; a < mix.nread; a++)
            mix.read[a] = &room[(o->both + a) % MAX_ARRAYS];
        char name[64];
        bool by_rows = strcmp(o->name, "groupadagrad") == 0;
        if (by_rows)
            snprintf(name, sizeof name, "%s, rows of %lld", o->name, (long long)row);
        if (measure(o, by_rows ? name : o->name, by_rows ? w : flat_w, by_rows ? g : flat_g, &mix,
                    rounds, &e)) {
            fprintf(stderr, "%s: %s\n", o->name, e.text);
            return 1;
        }
    }
    return 0;
}
