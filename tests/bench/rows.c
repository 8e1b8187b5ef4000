/* Calls of a store whose key is row_sparse, beside loops that gather, add and scatter the same rows
 * with as many threads, in turn, so that the ratio holds on a busy machine. Of the project only the
 * public header is used.
 *
 *     rows [ELEMENTS [EVERY [ROUNDS [WIDTH...]]]]
 *
 * A key of ELEMENTS float32 is made of rows of WIDTH; one of EVERY rows, at random, is in the
 * values and in the outs. Row ids of a value ascend. Those of a pull ascend too, or come in any
 * order, in which the loop takes them. Loops count what cannot be avoided: one that makes an array
 * writes its row ids as well.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kvstore.h"
#include "measure.h"

enum { STORED = 2, MAX_ROUNDS = 99, MAX_THREADS = 256, PART = 1 << 16 };

static const kv_key key = {6, NULL};
static const float rate = 0.01f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;

/* The size of everything: rows of `row` elements, of which `held` are worked on. */
static int64_t rows, row, held;
static int rounds = 9, nthreads;
static float *table, *mean, *variance; /* rows x row: what the loops gather from and scatter to */
static float *made[STORED];            /* held x row: what they make, with these ids */
static int64_t *made_ids[STORED];

static void must(int code, const kv_err *e)
{
    if (code == KV_OK)
        return;
    fprintf(stderr, "rows: %s\n", e->text);
    exit(1);
}

/* Zeros, in large pages as those of the library's arrays. */
static void *memory(int64_t n, size_t size)
{
    void *block = NULL;
    if (posix_memalign(&block, 2 << 20, (size_t)n * size + 1)) {
        fprintf(stderr, "rows: out of memory\n");
        exit(1);
    }
    madvise(block, (size_t)n * size, MADV_HUGEPAGE);
    memset(block, 0, (size_t)n * size);
    return block;
}

/* ---- Arrays ---- */

/* Element j of row i of every value. */
static float element(int64_t i, int64_t j)
{
    return (float)((i * row + j) % 1000) / 8;
}

/* A value with these rows: as element says, or with `all` in every place. */
static kv_array *make_value(const int64_t *ids, int64_t n, float all)
{
    kv_err e = {0};
    kv_array *a = NULL;
    void *data;
    int64_t shape[] = {rows, row};
    must(kv_array_new_sparse(&a, KV_FLOAT32, 2, shape, n, ids, (kv_ctx){0}, &e), &e);
    must(kv_array_write_rows(a, &data, &e), &e);
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; j < row; j++)
            ((float *)data)[k * row + j] = all != 0 ? all : element(ids[k], j);
    return a;
}

static kv_array *make_ids_array(const int64_t *ids)
{
    kv_err e = {0};
    kv_array *a = NULL;
    void *data;
    must(kv_array_new(&a, KV_INT64, 1, &held, (kv_ctx){0}, &e), &e);
    must(kv_array_write(a, &data, &e), &e);
    memcpy(data, ids, (size_t)held * sizeof *ids);
    return a;
}

/* held of rows, ascending, each once: every row is taken with the chance that is left. */
static int64_t *make_ids(uint64_t seed)
{
    int64_t *ids = memory(held, sizeof *ids), n = 0;
    for (int64_t i = 0; i < rows && n < held; i++)
        if ((int64_t)(next_random(&seed) % (uint64_t)(rows - i)) < held - n)
            ids[n++] = i;
    return ids;
}

static int64_t *shuffled(const int64_t *ids)
{
    uint64_t seed = 9;
    int64_t *out = memory(held, sizeof *out);
    memcpy(out, ids, (size_t)held * sizeof *out);
    for (int64_t k = held - 1; k > 0; k--) {
        int64_t other = (int64_t)(next_random(&seed) % (uint64_t)(k + 1)), id = out[k];
        out[k] = out[other];
        out[other] = id;
    }
    return out;
}

/* ---- The loops ---- */

/* A case: what a call of the store does, and the loop beside it. */
typedef struct work {
    const char *name;
    void (*loop)(const struct work *w, int64_t from, int64_t to);
    int nvalues, nouts; /* so many values are pushed, or outs pulled */
    const char *optimizer;
    const int64_t *ids;
    bool any_order;
    kv *store;
    kv_array *values[STORED], *outs[STORED], *wanted[STORED];
    const float *data[STORED]; /* of the values */
    int pushes;
} work;

static void copy_values(const work *w, int64_t from, int64_t to)
{
    memcpy(made_ids[0] + from, w->ids + from, (size_t)(to - from) * sizeof *w->ids);
    memcpy(made[0] + from * row, w->data[0] + from * row, (size_t)((to - from) * row) * 4);
}

static void add_values(const work *w, int64_t from, int64_t to)
{
    for (int64_t k = from; k < to; k++) {
        float *restrict at = table + w->ids[k] * row;
        const float *restrict a = w->data[0] + k * row, *restrict b = w->data[1] + k * row;
        for (int64_t j = 0; j < row; j++)
            at[j] += a[j] + b[j];
    }
}

static void gather(const work *w, int64_t from, int64_t to)
{
    for (int v = 0; v < w->nouts; v++)
        memcpy(made_ids[v] + from, w->ids + from, (size_t)(to - from) * sizeof *w->ids);
    for (int64_t k = from; k < to; k++)
        for (int v = 0; v < w->nouts; v++)
            memcpy(made[v] + k * row, table + w->ids[k] * row, (size_t)row * 4);
}

static void step_sgd(const work *w, int64_t from, int64_t to)
{
    for (int64_t k = from; k < to; k++) {
        float *restrict at = table + w->ids[k] * row;
        const float *restrict g = w->data[0] + k * row;
        for (int64_t j = 0; j < row; j++)
            at[j] -= rate * g[j];
    }
}

static void step_adam(const work *w, int64_t from, int64_t to)
{
    for (int64_t k = from; k < to; k++) {
        int64_t first = w->ids[k] * row;
        float *restrict at = table + first, *restrict m = mean + first;
        float *restrict v = variance + first;
        const float *restrict g = w->data[0] + k * row;
        for (int64_t j = 0; j < row; j++) {
            m[j] = beta1 * m[j] + (1 - beta1) * g[j];
            v[j] = beta2 * v[j] + (1 - beta2) * (g[j] * g[j]);
            at[j] -= rate * m[j] / (sqrtf(v[j]) + epsilon);
        }
    }
}

/* Threads take parts of a loop until none is left. */
typedef struct sharing {
    const work *w;
    int64_t part;
    _Atomic int64_t next;
} sharing;

static void *take_parts(void *arg)
{
    sharing *s = arg;
    for (int64_t from; (from = atomic_fetch_add(&s->next, s->part)) < held;)
        s->w->loop(s->w, from, held - from < s->part ? held : from + s->part);
    return NULL;
}

static double time_loop(const work *w)
{
    pthread_t threads[MAX_THREADS];
    sharing s = {.w = w, .part = PART / row > 0 ? PART / row : 1};
    int n = 0;
    double t = now();
    while (n + 1 < nthreads && pthread_create(&threads[n], NULL, take_parts, &s) == 0)
        n++;
    take_parts(&s);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    return now() - t;
}

/* ---- The store ---- */

static double time_store(work *w)
{
    const kv_key keys[STORED] = {key, key};
    kv_err e = {0};
    double t = now();
    if (w->nvalues > 0)
        must(kv_push(w->store, keys, w->nvalues, w->values, NULL, &e), &e);
    else
        must(kv_row_sparse_pull(w->store, keys, w->nouts, w->wanted, w->outs, NULL, &e), &e);
    must(kv_wait(w->store, &e), &e);
    w->pushes += w->nvalues > 0;
    return now() - t;
}

/* What a row that began as ones holds after the pushes, in the precision of doubles. */
static double expected(const work *w, double sum)
{
    double at = 1, m = 0, v = 0;
    if (w->nvalues == 0 || !w->optimizer)
        return w->nvalues > 0 ? sum : 1;
    for (int t = 1; t <= w->pushes; t++) {
        bool adam = strcmp(w->optimizer, "adam") == 0;
        double lr = rate * sqrt(1 - pow((double)beta2, t)) / (1 - pow((double)beta1, t));
        m = (double)beta1 * m + (1 - (double)beta1) * sum;
        v = (double)beta2 * v + (1 - (double)beta2) * sum * sum;
        at -= adam ? lr * m / (sqrt(v) + (double)epsilon) : rate * sum;
    }
    return at;
}

static void check(work *w)
{
    kv_err e = {0};
    const void *data;
    must(kv_row_sparse_pull(w->store, &key, 1, w->wanted, w->outs, NULL, &e), &e);
    must(kv_wait(w->store, &e), &e);
    const int64_t *ids = kv_array_row_ids(w->outs[0]);
    must(kv_array_nrows(w->outs[0]) == held ? kv_array_read_rows(w->outs[0], &data, &e) : 1, &e);
    for (int64_t i = 0; i < held * row; i++) {
        double sum = element(ids[i / row], i % row) * (float)w->nvalues;
        double right = expected(w, sum), got = ((const float *)data)[i];
        if (!(fabs(got - right) <= 1e-4 * (1 + fabs(right)))) {
            fprintf(stderr, "rows: %s: element %lld is %g, not %g\n", w->name, (long long)i, got,
                    right);
            exit(1);
        }
    }
}

/* ---- Figures ---- */

static void measure(work w, kv_array *all)
{
    kv_err e = {0};
    double ours[MAX_ROUNDS], loop[MAX_ROUNDS], ratio[MAX_ROUNDS];
    const kv_opt params[] = {{"learning_rate", "0.01"}};
    must(kv_create("local", NULL, 0, &w.store, &e), &e);
    must(kv_init(w.store, &key, 1, &all, NULL, &e), &e);
    if (w.optimizer)
        must(kv_set_optimizer(w.store, w.optimizer, params, 1, &e), &e);
    time_store(&w);
    time_loop(&w);
    for (int i = 0; i < rounds; i++) {
        ours[i] = time_store(&w);
        loop[i] = time_loop(&w);
        ratio[i] = loop[i] / ours[i];
    }
    check(&w);
    kv_free(w.store);
    printf("%s, %*lld floats, %-9s %9.2f %9.2f  %.2f\n", w.name, 13 - (int)strlen(w.name),
           (long long)row, w.any_order ? "any order" : "ascending", median(ours, rounds) * 1e3,
           median(loop, rounds) * 1e3, median(ratio, rounds));
    fflush(stdout);
}

static kv_array *make_all(void)
{
    int64_t *every = memory(rows, sizeof *every);
    for (int64_t i = 0; i < rows; i++)
        every[i] = i;
    kv_array *all = make_value(every, rows, 1);
    free(every);
    return all;
}

static void measure_width(int64_t elements, int64_t every)
{
    static const work works[] = {
        {.name = "push of 1", .loop = copy_values, .nvalues = 1},
        {.name = "push of 2", .loop = add_values, .nvalues = 2},
        {.name = "sgd of 1", .loop = step_sgd, .nvalues = 1, .optimizer = "sgd"},
        {.name = "adam of 1", .loop = step_adam, .nvalues = 1, .optimizer = "adam"},
        {.name = "pull of 1", .loop = gather, .nouts = 1},
        {.name = "pull of 2", .loop = gather, .nouts = 2},
        {.name = "pull of 1", .loop = gather, .nouts = 1, .any_order = true},
        {.name = "pull of 2", .loop = gather, .nouts = 2, .any_order = true}};
    rows = elements / row;
    held = rows / every;
    int64_t *ids = make_ids(1), *mixed = shuffled(ids);
    kv_array *all = make_all(), *wanted[] = {make_ids_array(ids), make_ids_array(mixed)};
    work each = {0};
    for (int v = 0; v < STORED; v++) {
        kv_err e = {0};
        const void *data;
        each.values[v] = make_value(ids, held, 0);
        each.outs[v] = make_value(ids, held, 1);
        must(kv_array_read_rows(each.values[v], &data, &e), &e);
        each.data[v] = data;
    }
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        work w = works[i];
        w.ids = w.any_order ? mixed : ids;
        for (int v = 0; v < STORED; v++) {
            w.values[v] = each.values[v];
            w.data[v] = each.data[v];
            w.outs[v] = each.outs[v];
            w.wanted[v] = wanted[w.any_order];
        }
        measure(w, all);
    }
    for (int v = 0; v < STORED; v++) {
        kv_array_unref(each.values[v]);
        kv_array_unref(each.outs[v]);
        kv_array_unref(wanted[v]);
    }
    kv_array_unref(all);
    free(ids);
    free(mixed);
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"1", "16", "64", "512"};
    int64_t elements = argc > 1 ? atoll(argv[1]) : 1 << 26, every = argc > 2 ? atoll(argv[2]) : 4;
    rounds = argc > 3 ? atoi(argv[3]) : rounds;
    int nwidths = argc > 4 ? argc - 4 : 4;
    cpu_set_t may;
    if (elements < 1 || every < 1 || rounds < 1 || rounds > MAX_ROUNDS)
        return 2;
    nthreads = sched_getaffinity(0, sizeof may, &may) == 0 ? CPU_COUNT(&may) : 1;
    nthreads = nthreads < MAX_THREADS ? nthreads : MAX_THREADS;
    table = memory(elements, 4);
    mean = memory(elements, 4);
    variance = memory(elements, 4);
    for (int v = 0; v < STORED; v++) {
        made[v] = memory(elements / every, 4);
        made_ids[v] = memory(elements / every, 8);
    }
    printf("%-32s %9s %9s  of the loop (medians, %d threads)\n", "row_sparse", "ours ms", "loop ms",
           nthreads);
    for (int i = 0; i < nwidths; i++) {
        row = atoll(argc > 4 ? argv[4 + i] : usual[i]);
        if (row < 1 || row > elements / every)
            return 2;
        measure_width(elements, every);
    }
    for (int v = 0; v < STORED; v++) {
        free(made[v]);
        free(made_ids[v]);
    }
    free(variance);
    free(mean);
    free(table);
    return 0;
}
