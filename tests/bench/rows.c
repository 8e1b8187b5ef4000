/* row_sparse values beside loops that gather, add and scatter the same rows, in turn, so that the
 * ratio holds on a busy machine: the sum of values beside a plain loop in one thread, and W6, calls
 * of a store whose keys are such rows, beside loops with the store's threads.
 *
 *     rows [ROWS [HELD [ROUNDS]]]     a value holds HELD of ROWS rows of 16 float32, at random
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/sparse.h"
#include "base/mem.h"
#include "bench/bench_stream.h"
#include "engine/pool.h"
#include "kvstore.h"

enum { ROW = 16, MOST = 8, STORED = 2, MAX_ROUNDS = 99, PART = 4096 };

static const kv_key key = {6, NULL};
static int64_t rows = 10000000, held = 1000000;
static int rounds = 5;
static float *table; /* rows x ROW, what the loops gather from and scatter to */

static void must(int code, const kv_err *e)
{
    if (code == KV_OK)
        return;
    fprintf(stderr, "rows: %s\n", e->text);
    exit(1);
}

/* ---- Arrays ---- */

/* Element j of row i of every value. */
static float element(int64_t i, int j)
{
    return (float)((i * ROW + j) % 1000) / 8;
}

/* A value with these rows: as element says, or with `all` in every place. */
static kv_array *make_value(const int64_t *ids, int64_t n, float all)
{
    kv_err e = {0};
    kv_array *a = NULL;
    void *data;
    must(kv_array_new_sparse(&a, KV_FLOAT32, 2, (int64_t[]){rows, ROW}, n, ids, (kv_ctx){0}, &e),
         &e);
    must(kv_array_write_rows(a, &data, &e), &e);
    for (int64_t i = 0; i < n * ROW; i++)
        ((float *)data)[i] = all != 0 ? all : element(ids[i / ROW], (int)(i % ROW));
    return a;
}

/* held of rows, ascending, each once: every row is taken with the chance that is left. */
static int64_t *make_ids(uint64_t seed)
{
    kv_err e = {0};
    int64_t *ids = mem_alloc(held, sizeof *ids, &e), n = 0;
    must(e.code, &e);
    for (int64_t i = 0; i < rows && n < held; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if ((int64_t)((seed >> 33) % (uint64_t)(rows - i)) < held - n)
            ids[n++] = i;
    }
    return ids;
}

static void show(const char *name, double *ours, double *loop)
{
    double ratio = stream_ratio(ours, loop, rounds); /* the medians sort the pairs */
    printf("%-32s %9.1f %9.1f  %.2f\n", name, stream_median(ours, rounds) * 1e3,
           stream_median(loop, rounds) * 1e3, ratio);
}

/* ---- Sums ---- */

/* total[ids[k]] += value[k] */
static void plain_loop(float *restrict total, const int64_t *restrict ids,
                       const float *restrict value, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        for (int j = 0; j < ROW; j++)
            total[ids[k] * ROW + j] += value[k * ROW + j];
}

static double time_plain(kv_array *const *values, int n)
{
    double t = stream_now();
    for (int i = 0; i < n; i++)
        plain_loop(table, values[i]->rows, values[i]->data, values[i]->nrows);
    return stream_now() - t;
}

static double time_sum(kv_array *const *values, int n)
{
    kv_err e = {0};
    kv_array *sum;
    double t = stream_now();
    must(sparse_sum(&sum, values, n, KV_FLOAT32, (kv_ctx){0}, &e), &e);
    t = stream_now() - t;
    kv_array_unref(sum);
    return t;
}

static void measure_sums(kv_array *const *values)
{
    for (int n = 2; n <= MOST; n *= 2) {
        double ours[MAX_ROUNDS], loop[MAX_ROUNDS];
        char name[64];
        time_sum(values, n);
        for (int i = 0; i < rounds; i++) {
            ours[i] = time_sum(values, n);
            loop[i] = time_plain(values, n);
        }
        snprintf(name, sizeof name, "%d values, %lld of %lld rows", n, (long long)held,
                 (long long)rows);
        show(name, ours, loop);
    }
}

/* ---- Calls of a store ---- */

typedef struct w6 {
    const char *name;
    int nvalues, nouts; /* n values are pushed, or n outs pulled */
    bool optimizer;
    kv *store;
    kv_array *values[STORED], *outs[STORED], *ids[STORED];
    int pushes;
} w6;

/* One part of the loop: rows of the values are added up into those of the table, or rows of the
 * table copied to the outs. A push of one value without an optimizer only copies. */
static void loop_part(void *arg, int64_t part, int worker)
{
    const w6 *w = arg;
    const int64_t *ids = w->values[0]->rows;
    int64_t from = part * PART, to = from + PART < held ? from + PART : held;
    bool copies = w->nvalues == 1 && !w->optimizer;
    (void)worker;
    for (int64_t k = from; k < to; k++) {
        float *at = table + ids[k] * ROW, sum[ROW] = {0};
        for (int v = 0; v < w->nvalues; v++)
            for (int j = 0; j < ROW; j++)
                sum[j] += ((float *)w->values[v]->data)[k * ROW + j];
        if (copies)
            at = (float *)w->outs[0]->data + k * ROW;
        for (int j = 0; j < ROW && w->nvalues > 0; j++)
            at[j] = copies ? sum[j] : at[j] + sum[j];
        for (int v = 0; v < w->nouts; v++)
            memcpy((float *)w->outs[v]->data + k * ROW, at, sizeof sum);
    }
}

static double time_loop(w6 *w)
{
    double t = stream_now();
    pool_run((held + PART - 1) / PART, loop_part, w);
    return stream_now() - t;
}

static double time_store(w6 *w)
{
    const kv_key keys[STORED] = {key, key};
    kv_err e = {0};
    double t = stream_now();
    if (w->nvalues > 0)
        must(kv_push(w->store, keys, w->nvalues, w->values, NULL, &e), &e);
    else
        must(kv_row_sparse_pull(w->store, keys, w->nouts, w->ids, w->outs, NULL, &e), &e);
    must(kv_wait(w->store, &e), &e);
    w->pushes += w->nvalues > 0;
    return stream_now() - t;
}

/* Rows begin as ones. Pushed, they are the sum of the values, or with sgd less by 0.01 of it. */
static void check(w6 *w)
{
    kv_err e = {0};
    must(kv_row_sparse_pull(w->store, &key, 1, w->ids, w->outs, NULL, &e), &e);
    must(kv_wait(w->store, &e), &e);
    const float *got = w->outs[0]->data;
    for (int64_t i = 0; i < held * ROW; i++) {
        float sum = element(w->values[0]->rows[i / ROW], (int)(i % ROW)) * (float)w->nvalues;
        float right = w->optimizer ? 1 - 0.01f * sum * (float)w->pushes : w->nvalues ? sum : 1;
        if (!(fabsf(got[i] - right) <= 1e-4f * (1 + fabsf(right)))) {
            fprintf(stderr, "rows: %s: element %lld is %g, not %g\n", w->name, (long long)i,
                    (double)got[i], (double)right);
            exit(1);
        }
    }
}

static void measure_store(w6 w, kv_array *all)
{
    kv_err e = {0};
    double ours[MAX_ROUNDS], loop[MAX_ROUNDS];
    must(kv_create("local", NULL, 0, &w.store, &e), &e);
    must(kv_init(w.store, &key, 1, &all, NULL, &e), &e);
    if (w.optimizer)
        must(kv_set_optimizer(w.store, "sgd", NULL, 0, &e), &e);
    time_store(&w);
    time_loop(&w);
    for (int i = 0; i < rounds; i++) {
        ours[i] = time_store(&w);
        loop[i] = time_loop(&w);
    }
    check(&w);
    kv_free(w.store);
    show(w.name, ours, loop);
}

static void measure_w6(const int64_t *ids)
{
    static const w6 calls[] = {{.name = "push of 1", .nvalues = 1},
                               {.name = "push of 2", .nvalues = 2},
                               {.name = "pull of 1", .nouts = 1},
                               {.name = "pull of 2", .nouts = 2},
                               {.name = "sgd of 1", .nvalues = 1, .optimizer = true}};
    kv_err e = {0};
    kv_array *wanted, *all;
    void *data;
    int64_t *every = mem_alloc(rows, sizeof *every, &e);
    must(e.code, &e);
    for (int64_t i = 0; i < rows; i++)
        every[i] = i;
    all = make_value(every, rows, 1);
    mem_free(every);
    must(kv_array_new(&wanted, KV_INT64, 1, &held, (kv_ctx){0}, &e), &e);
    must(kv_array_write(wanted, &data, &e), &e);
    memcpy(data, ids, (size_t)held * sizeof *ids);
    w6 w = {0};
    for (int v = 0; v < STORED; v++) {
        w.values[v] = make_value(ids, held, 0);
        w.outs[v] = make_value(ids, held, 1);
        w.ids[v] = wanted;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        w6 call = calls[i];
        memcpy(call.values, w.values, sizeof w.values);
        memcpy(call.outs, w.outs, sizeof w.outs);
        memcpy(call.ids, w.ids, sizeof w.ids);
        measure_store(call, all);
    }
    for (int v = 0; v < STORED; v++) {
        kv_array_unref(w.values[v]);
        kv_array_unref(w.outs[v]);
    }
    kv_array_unref(wanted);
    kv_array_unref(all);
}

int main(int argc, char **argv)
{
    kv_err e = {0};
    kv_array *values[MOST];
    int64_t *ids[MOST];
    rows = argc > 1 ? atoll(argv[1]) : rows;
    held = argc > 2 ? atoll(argv[2]) : held;
    rounds = argc > 3 ? atoi(argv[3]) : rounds;
    table = mem_alloc_data(rows * ROW * 4, &e);
    if (!table || rounds < 1 || rounds > MAX_ROUNDS || held > rows)
        return 1;
    memset(table, 0, (size_t)rows * ROW * 4);
    for (int i = 0; i < MOST; i++) {
        ids[i] = make_ids((uint64_t)i + 1);
        values[i] = make_value(ids[i], held, 0);
    }
    printf("%-32s %9s %9s  of the loop (medians, %d threads)\n", "row_sparse", "ours ms", "loop ms",
           pool_workers());
    measure_sums(values);
    for (int i = 0; i < MOST; i++)
        kv_array_unref(values[i]);
    measure_w6(ids[0]);
    for (int i = 0; i < MOST; i++)
        mem_free(ids[i]);
    mem_free_data(table);
    return 0;
}
