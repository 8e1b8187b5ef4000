/* Every optimizer in place on one large float32 array, beside a loop that only reads and writes
 * what the optimizer has to, with the same threads, in turn: prints the fraction of that limit.
 * `kvbench bench --op optimizers` measures them on the arrays of a network. Some are also measured
 * beside a loop of intrinsics that does the same operations (hand.h), and must give the same bits.
 *
 * Those that reduce are measured beside loops written by hand, too (optimizer_loops.h), whose
 * results are compared bit by bit.
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
#include "hand.h"
#include "kvstore.h"
#include "optimizer_loops.h"

#define MAX_ARRAYS 8

/* The same updates by hand: by a loop that reads each array once, or by one of several passes, or
 * by none. */
typedef struct by_hand {
    const hand *once;
    optimizer_loop *passes;
    loops_arrays arrays;
    float *third; /* state of `once` */
    int64_t t;
} by_hand;

static bool is_written(const by_hand *h)
{
    return h->once || h->passes;
}

static float *padded(int64_t n, int64_t row, kv_err *e)
{
    int64_t bytes = (n + LOOPS_PAD + 8 * row) * 4;
    float *x = mem_alloc_data(bytes, e);
    if (x)
        memset(x, 0, (size_t)bytes);
    return x;
}

/* A padded copy of the elements of an array. */
static float *padded_copy(kv_array *a, int64_t row, kv_err *e)
{
    float *x = padded(kv_array_size(a), row, e);
    const void *from;
    if (x && kv_array_read(a, &from, e) == KV_OK)
        memcpy(x, from, (size_t)kv_array_size(a) * 4);
    return x;
}

static int begin_by_hand(by_hand *h, const char *name, kv_array *w, kv_array *g, kv_err *e)
{
    int64_t n = kv_array_size(w), row = n / kv_array_shape(w)[0];
    float **arrays[] = {&h->arrays.state[0],  &h->arrays.state[1],  &h->third,
                        &h->arrays.kept[0],   &h->arrays.kept[1],   &h->arrays.blocks[0],
                        &h->arrays.blocks[1], &h->arrays.blocks[2], NULL};
    *h = (by_hand){.once = hand_find(name),
                   .passes = optimizer_loop_find(name),
                   .arrays = {.n = n, .row = row}};
    if (!is_written(h))
        return KV_OK;
    for (int i = 0; arrays[i]; i++)
        if (!(*arrays[i] = padded(n, row, e)))
            return e->code;
    h->arrays.w = padded_copy(w, row, e);
    h->arrays.g = padded_copy(g, row, e);
    return e->code;
}

static void end_by_hand(by_hand *h)
{
    float *arrays[] = {h->arrays.w,
                       h->arrays.state[0],
                       h->arrays.state[1],
                       h->arrays.kept[0],
                       h->arrays.kept[1],
                       h->arrays.blocks[0],
                       h->arrays.blocks[1],
                       h->arrays.blocks[2],
                       h->third,
                       (float *)(uintptr_t)h->arrays.g};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        mem_free(arrays[i]);
}

static double run_by_hand(by_hand *h)
{
    const loops_arrays *a = &h->arrays;
    double t = stream_now();
    h->t++;
    if (h->passes)
        h->passes(a, h->t);
    if (h->once) {
        hand_arrays arrays = {.w = a->w, .state = {a->state[0], a->state[1], h->third}, .g = a->g};
        hand_run(h->once, &arrays, a->n, h->t);
    }
    return stream_now() - t;
}

/* The same bits as the store's; loops that read once leave out what is behind whole vectors. */
static int compare(const by_hand *h, kv *store, const kv_key *key, kv_array *out, kv_err *e)
{
    int64_t n = h->once ? h->arrays.n / 16 * 16 : h->arrays.n;
    const void *made;
    if (!is_written(h))
        return KV_OK;
    if (kv_pull(store, key, 1, &out, NULL, e) || kv_wait(store, e) || kv_array_read(out, &made, e))
        return e->code;
    if (memcmp(made, h->arrays.w, (size_t)n * 4) != 0)
        return kv_err_set(e, KV_E_VALUE, "the loop by hand has other results");
    return KV_OK;
}

static int measure(const bench_optimizer *o, const char *name, kv_array *w, kv_array *g,
                   stream_mix *mix, int rounds, kv_err *e)
{
    double ours[99], limit[99], loop[99];
    kv *store;
    kv_key key = {1, NULL};
    by_hand h;
    if (begin_by_hand(&h, o->name, w, g, e) || kv_create("local", NULL, 0, &store, e) ||
        kv_init(store, &key, 1, &w, NULL, e) ||
        kv_set_optimizer(store, o->optimizer, o->params, o->nparams, e) ||
        kv_push(store, &key, 1, &g, NULL, e) || kv_wait(store, e))
        return e->code;
    run_by_hand(&h);
    for (int i = 0; i < rounds; i++) {
        double t = stream_now();
        kv_push(store, &key, 1, &g, NULL, e);
        kv_wait(store, e);
        ours[i] = stream_now() - t;
        t = stream_now();
        stream_run(mix, false);
        limit[i] = stream_now() - t;
        loop[i] = run_by_hand(&h);
    }
    if (!e->code)
        compare(&h, store, &key, w, e);
    kv_free(store);
    end_by_hand(&h);
    double ratio = stream_ratio(ours, limit, rounds), of_loop = stream_ratio(ours, loop, rounds);
    printf("%-26s %9.1f %9.1f  %.2f", name, stream_median(ours, rounds) * 1e3,
           stream_median(limit, rounds) * 1e3, ratio);
    if (is_written(&h))
        printf(" %9.1f  %.2f", stream_median(loop, rounds) * 1e3, of_loop);
    printf("\n");
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
    printf("%-26s %9s %9s  of it   loop ms  of it (medians, %d threads)\n", "optimizer", "ours ms",
           "limit ms", pool_workers());
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
