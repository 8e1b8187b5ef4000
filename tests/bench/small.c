/* What small things cost, measured with the public header alone: calls over 100,000 keys of 16
 * floats that no cache holds, beside a loop that touches the same lines of memory, and calls of one
 * key of 16 floats.
 *
 *     small [--quick]
 *     small --pushes NAME N [KEYS FLOATS VALUES]
 *                                N pushes of one value of 2 floats, for valgrind to count
 *
 * The loop reads and writes what a call of the store cannot do without: of each array the first
 * line of its header, which it reads, and its elements, with the next arrays asked for ahead, on
 * one thread or on as many as the store has, whichever is faster. The two run in turn, so that
 * their ratio holds on a busy machine; before each a walk over other memory empties the caches.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvstore.h"
#include "measure.h"

enum { FLOATS = 16, LINE = 64, AHEAD = 12, MOST_ROUNDS = 99, MOST_THREADS = 64 };
enum { OTHER_BYTES = 128 << 20 }; /* larger than the caches */

static int64_t nkeys = 100000, ncalls = 2000000;
static int rounds = 21;

static void must(int code, const kv_err *e)
{
    if (code == KV_OK)
        return;
    fprintf(stderr, "small: %s\n", e->text);
    exit(1);
}

static void *block_of(size_t bytes)
{
    void *block = calloc(1, bytes);
    if (!block) {
        fputs("small: no memory\n", stderr);
        exit(1);
    }
    return block;
}

/* ---- Arrays ---- */

/* One array a key, and where its elements are. */
typedef struct set {
    kv_array **arrays;
    float **data;
} set;

/* Made in the given order, which decides where in memory the arrays come to lie. */
static set make_set(const int64_t *order, float value)
{
    const int64_t shape[] = {FLOATS};
    kv_err e = {0};
    set s = {block_of((size_t)nkeys * sizeof *s.arrays), block_of((size_t)nkeys * sizeof *s.data)};
    for (int64_t i = 0; i < nkeys; i++) {
        int64_t k = order[i];
        void *data = NULL;
        must(kv_array_new(&s.arrays[k], KV_FLOAT32, 1, shape, (kv_ctx){0}, &e), &e);
        must(kv_array_write(s.arrays[k], &data, &e), &e);
        s.data[k] = data;
        for (int j = 0; j < FLOATS; j++)
            s.data[k][j] = value + (float)(k % 1000);
    }
    return s;
}

static void free_set(set *s)
{
    for (int64_t k = 0; k < nkeys; k++)
        kv_array_unref(s->arrays[k]);
    free(s->arrays);
    free(s->data);
}

static int64_t *make_order(int scattered)
{
    int64_t *order = block_of((size_t)nkeys * sizeof *order);
    uint64_t seed = 7;
    for (int64_t i = 0; i < nkeys; i++) {
        int64_t j = scattered ? (int64_t)(next_random(&seed) % (uint64_t)(i + 1)) : i;
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

/* ---- The loop ---- */

typedef enum calls { PUSH, PULL, PUSHPULL } calls;

typedef struct lines {
    const set *a, *b, *stored;
    calls what;
    int64_t from, to;
} lines;

static void ask(const set *s, int64_t k)
{
    __builtin_prefetch(s->arrays[k]);
    __builtin_prefetch(s->data[k], 1);
}

static void *run_lines(void *arg)
{
    const lines *l = arg;
    for (int64_t k = l->from; k < l->to; k++) {
        if (k + AHEAD < l->to) {
            ask(l->a, k + AHEAD);
            ask(l->b, k + AHEAD);
            ask(l->stored, k + AHEAD);
        }
        float *a = l->a->data[k], *b = l->b->data[k], *stored = l->stored->data[k];
        (void)*(const volatile char *)l->a->arrays[k];
        (void)*(const volatile char *)l->b->arrays[k];
        (void)*(const volatile char *)l->stored->arrays[k];
        for (int j = 0; l->what != PULL && j < FLOATS; j++)
            stored[j] = a[j] + b[j];
        if (l->what != PUSH) {
            memcpy(a, stored, FLOATS * sizeof *a);
            memcpy(b, stored, FLOATS * sizeof *b);
        }
    }
    return NULL;
}

static int threads(void)
{
    cpu_set_t mine;
    const char *said = getenv("KVSTORE_THREADS");
    int n = said ? atoi(said) : sched_getaffinity(0, sizeof mine, &mine) ? 1 : CPU_COUNT(&mine);
    return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n;
}

static void run_loop(const lines *all, int n)
{
    lines part[MOST_THREADS];
    pthread_t thread[MOST_THREADS];
    for (int i = 0; i < n; i++) {
        part[i] = *all;
        part[i].from = nkeys * i / n;
        part[i].to = nkeys * (i + 1) / n;
        if (i > 0 && pthread_create(&thread[i], NULL, run_lines, &part[i])) {
            fputs("small: no thread\n", stderr);
            exit(1);
        }
    }
    run_lines(&part[0]);
    for (int i = 1; i < n; i++)
        pthread_join(thread[i], NULL);
}

static void empty_caches(void)
{
    static char *other;
    if (!other)
        other = block_of(OTHER_BYTES);
    for (size_t i = 0; i < OTHER_BYTES; i += LINE)
        other[i]++;
}

/* ---- 100,000 keys in a call ---- */

static void show_keys(const char *what, double *ours, double *alone, double *shared)
{
    double ratio[MOST_ROUNDS], sorted[2][MOST_ROUNDS];
    memcpy(sorted[0], alone, sizeof sorted[0]);
    memcpy(sorted[1], shared, sizeof sorted[1]);
    const double *loop = median(sorted[0], rounds) < median(sorted[1], rounds) ? alone : shared;
    for (int i = 0; i < rounds; i++)
        ratio[i] = loop[i] / ours[i];
    double each = 1e9 / (double)nkeys;
    memcpy(sorted[0], loop, sizeof sorted[0]);
    printf("%-44s %8.1f ns a key %8.1f in the loop on %s   %.2f of its speed\n", what,
           median(ours, rounds) * each, median(sorted[0], rounds) * each,
           loop == alone ? "one thread" : "all threads", median(ratio, rounds));
    fflush(stdout);
}

static int call_once(kv *store, const kv_key *keys, int64_t n, kv_array **arrays, calls what,
                     kv_err *e)
{
    return what == PUSH   ? kv_push(store, keys, n, arrays, NULL, e)
           : what == PULL ? kv_pull(store, keys, n, arrays, NULL, e)
                          : kv_pushpull(store, keys, n, arrays, NULL, 0, NULL, NULL, e);
}

static double time_call(kv *store, const kv_key *keys, kv_array **arrays, calls what)
{
    kv_err e = {0};
    empty_caches();
    double began = now();
    must(call_once(store, keys, 2 * nkeys, arrays, what, &e), &e);
    must(kv_wait(store, &e), &e);
    return now() - began;
}

static double time_loop(const lines *l, int nthreads)
{
    empty_caches();
    double began = now();
    run_loop(l, nthreads);
    return now() - began;
}

static void time_keys(const char *what, kv *store, const kv_key *keys, const lines *l)
{
    double ours[MOST_ROUNDS] = {0}, alone[MOST_ROUNDS] = {0}, shared[MOST_ROUNDS] = {0};
    kv_array **arrays = block_of(2 * (size_t)nkeys * sizeof *arrays);
    for (int64_t k = 0; k < nkeys; k++) {
        arrays[2 * k] = l->a->arrays[k];
        arrays[2 * k + 1] = l->b->arrays[k];
    }
    time_call(store, keys, arrays, l->what);
    for (int i = 0; i < rounds; i++) {
        ours[i] = time_call(store, keys, arrays, l->what);
        alone[i] = time_loop(l, 1);
        shared[i] = time_loop(l, threads());
    }
    show_keys(what, ours, alone, shared);
    free(arrays);
}

/* Each key holds the sum of what make_set gave the two values that were pushed. */
static void check_sums(kv *store, const kv_key *each, const set *outs)
{
    kv_err e = {0};
    must(kv_pull(store, each, nkeys, outs->arrays, NULL, &e), &e);
    must(kv_wait(store, &e), &e);
    for (int64_t k = 0; k < nkeys; k++)
        for (int j = 0; j < FLOATS; j++)
            if (outs->data[k][j] != 3 + 2 * (float)(k % 1000)) {
                fprintf(stderr, "small: key %lld holds %g\n", (long long)k, outs->data[k][j]);
                exit(1);
            }
}

static void time_many_keys(int scattered)
{
    kv_err e = {0};
    kv *store = NULL;
    int64_t *order = make_order(scattered);
    set a = make_set(order, 1), b = make_set(order, 2), c = make_set(order, 0);
    kv_key *keys = block_of(2 * (size_t)nkeys * sizeof *keys);
    kv_key *each = block_of((size_t)nkeys * sizeof *each);
    for (int64_t k = 0; k < nkeys; k++)
        keys[2 * k].id = keys[2 * k + 1].id = each[k].id = k;
    must(kv_create("local", NULL, 0, &store, &e), &e);
    must(kv_init(store, each, nkeys, a.arrays, NULL, &e), &e);
    time_keys(scattered ? "push of 2, arrays all over the memory" : "push of 2", store, keys,
              &(lines){.a = &a, .b = &b, .stored = &c});
    time_keys(scattered ? "pull to 2, arrays all over the memory" : "pull to 2", store, keys,
              &(lines){.a = &c, .b = &b, .stored = &a, .what = PULL});
    check_sums(store, each, &c);
    time_keys(scattered ? "pushpull of 2, arrays all over the memory" : "pushpull of 2", store,
              keys, &(lines){.a = &c, .b = &b, .stored = &a, .what = PUSHPULL});
    kv_free(store);
    free_set(&a);
    free_set(&b);
    free_set(&c);
    free(keys);
    free(each);
    free(order);
}

/* ---- One key in a call ---- */

static void show_calls(const char *what, double *seconds)
{
    double s = median(seconds, rounds) / (double)ncalls;
    printf("%-44s %8.1f ns a call %7.2f million a second\n", what, s * 1e9, 1e-6 / s);
    fflush(stdout);
}

static void time_calls(const char *name, kv *store, const kv_key *key, kv_array *a, calls what)
{
    double seconds[MOST_ROUNDS];
    kv_err e = {0};
    for (int i = -1; i < rounds; i++) {
        double began = now();
        for (int64_t n = 0; n < ncalls / rounds; n++)
            must(call_once(store, key, 1, &a, what, &e), &e);
        if (i >= 0)
            seconds[i] = (now() - began) * rounds;
    }
    show_calls(name, seconds);
}

static void time_one_key(void)
{
    const int64_t shape[] = {FLOATS};
    kv_err e = {0};
    for (int text = 0; text < 2; text++) {
        kv_key key = {.id = text ? 0 : 3, .name = text ? "weight" : NULL};
        kv *store = NULL;
        kv_array *a = NULL;
        must(kv_create("local", NULL, 0, &store, &e), &e);
        must(kv_array_new(&a, KV_FLOAT32, 1, shape, (kv_ctx){0}, &e), &e);
        must(kv_init(store, &key, 1, &a, NULL, &e), &e);
        time_calls(text ? "push of one text key" : "push of one key", store, &key, a, PUSH);
        time_calls(text ? "pull of one text key" : "pull of one key", store, &key, a, PULL);
        time_calls(text ? "pushpull of one text key" : "pushpull of one key", store, &key, a,
                   PUSHPULL);
        kv_array_unref(a);
        kv_free(store);
    }
}

/* Keys such as redis-benchmark uses, one of all at random a call. */
static void time_look_ups(void)
{
    enum { NAME = 32 };
    const int64_t shape[] = {FLOATS};
    double seconds[MOST_ROUNDS];
    uint64_t seed = 11;
    kv_err e = {0};
    kv *store = NULL;
    kv_array *a = NULL;
    char *names = block_of((size_t)nkeys * NAME);
    kv_key *keys = block_of((size_t)nkeys * sizeof *keys);
    kv_array **same = block_of((size_t)nkeys * sizeof *same);
    must(kv_array_new(&a, KV_FLOAT32, 1, shape, (kv_ctx){0}, &e), &e);
    for (int64_t k = 0; k < nkeys; k++) {
        keys[k].name = names + k * NAME;
        snprintf(names + k * NAME, NAME, "key:%012lld", (long long)k);
        same[k] = a;
    }
    must(kv_create("local", NULL, 0, &store, &e), &e);
    must(kv_init(store, keys, nkeys, same, NULL, &e), &e);
    for (int i = -1; i < rounds; i++) {
        double began = now();
        for (int64_t n = 0; n < ncalls / rounds; n++) {
            const kv_key *key = &keys[next_random(&seed) % (uint64_t)nkeys];
            must(kv_pull(store, key, 1, &a, NULL, &e), &e);
        }
        if (i >= 0)
            seconds[i] = (now() - began) * rounds;
    }
    show_calls("pull of one text key of 100,000, at random", seconds);
    kv_free(store);
    kv_array_unref(a);
    free(names);
    free(keys);
    free(same);
}

/* ---- Pushes that are counted ---- */

/* Pushes by an optimizer of so many values of floats to each of some keys. */
static void only_push(const char *optimizer, int64_t pushes, int64_t distinct, int64_t floats,
                      int64_t values)
{
    int64_t n = distinct * values;
    kv_err e = {0};
    kv *store = NULL;
    kv_key *keys = block_of((size_t)n * sizeof *keys);
    kv_array **arrays = block_of((size_t)n * sizeof *arrays);
    for (int64_t k = 0; k < n; k++) {
        void *data = NULL;
        keys[k].id = k % distinct;
        must(kv_array_new(&arrays[k], KV_FLOAT32, 1, &floats, (kv_ctx){0}, &e), &e);
        must(kv_array_write(arrays[k], &data, &e), &e);
        for (int64_t i = 0; i < floats; i++)
            ((float *)data)[i] = 1e-3f * (float)(1 + (i + k) % 17);
    }
    must(kv_create("local", NULL, 0, &store, &e), &e);
    must(kv_init(store, keys, distinct, arrays, NULL, &e), &e);
    must(kv_set_optimizer(store, optimizer, NULL, 0, &e), &e);
    for (int64_t i = 0; i < pushes; i++) {
        must(kv_push(store, keys, n, arrays, NULL, &e), &e);
        must(kv_wait(store, &e), &e);
    }
    kv_free(store);
    for (int64_t k = 0; k < n; k++)
        kv_array_unref(arrays[k]);
    free(arrays);
    free(keys);
}

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[1], "--pushes") == 0) {
        only_push(argv[2], atoi(argv[3]), argc > 4 ? atoi(argv[4]) : 1,
                  argc > 5 ? atoi(argv[5]) : 2, argc > 6 ? atoi(argv[6]) : 1);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
        nkeys = 5000;
        ncalls = 5000;
        rounds = 3;
    }
    time_many_keys(0);
    time_many_keys(1);
    time_one_key();
    time_look_ups();
    return 0;
}
