/* Keys are made until each server has those that are needed, as the description of the cluster
 * tells: the keys of a rank are pulled by one call. */
#include "bench_link.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "bench_stream.h"
#include "session/result.h"

enum {
    MANY = 64,        /* small keys of a rank */
    WARM = 8,         /* pulls that are not timed */
    MOST_TRIES = 100, /* keys that are made for one that lies where it is wanted */
    SMALL = 1 << 14,  /* elements of 8 bytes: of half a record, so that there are no more records */
    ONE = 1,
    ALONE = 64,       /* small pulls, one behind the other, of one run */
};

typedef struct target {
    bench_link link;
    kv_key small[MANY], large;
    int nsmall;
    bool has_large;
    int64_t kept;
} target;

typedef struct links {
    kv *store;
    target *t;
    int n, cap;
    kv_array *outs[MANY], *large;
} links;

/* ---- Ranks ---- */

static int count_rank(void *arg, const kv_field *f, int n, kv_err *e)
{
    (void)e;
    *(int *)arg += n > 0 && f[0].name != NULL;
    return KV_OK;
}

static int note_rank(void *arg, const kv_field *f, int n, kv_err *e)
{
    links *l = arg;
    (void)e;
    if (strcmp(field_text(f, n, "role"), "worker") == 0 ||
        strcmp(field_text(f, n, "link"), "self") == 0 || l->n == l->cap)
        return KV_OK;
    target *t = &l->t[l->n++];
    t->link.rank = (int)field_number(f, n, "rank");
    t->kept = field_number(f, n, "keys");
    snprintf(t->link.host, sizeof t->link.host, "%s", field_text(f, n, "host"));
    snprintf(t->link.link, sizeof t->link.link, "%s", field_text(f, n, "link"));
    return KV_OK;
}

static int find_ranks(links *l, kv_err *e)
{
    if (kv_describe(l->store, "cluster", count_rank, &l->cap, e))
        return e->code;
    l->t = mem_zalloc(l->cap, sizeof *l->t, e);
    if (!l->t || kv_describe(l->store, "cluster", note_rank, l, e))
        return e->code;
    if (l->n > 0)
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED, "there is no link to measure: no other rank of the job serves");
    return kv_err_hint(e, "kvbench launch -n 2 -c 'bench --link', or -n 1 -s 1"), KV_E_UNSUPPORTED;
}

/* ---- Keys ---- */

/* The rank whose count of keys has grown. */
typedef struct grown {
    links *l;
    target *t;
} grown;

static int note_keys(void *arg, const kv_field *f, int n, kv_err *e)
{
    grown *g = arg;
    (void)e;
    for (int i = 0; i < g->l->n; i++) {
        target *t = &g->l->t[i];
        int64_t keys = field_number(f, n, "keys");
        if (t->link.rank != field_number(f, n, "rank") || keys <= t->kept)
            continue;
        t->kept = keys;
        g->t = t;
    }
    return KV_OK;
}

/* Makes a key, and gives the rank that has it; NULL: this one. */
static int make_key(links *l, int64_t elements, kv_key *key, target **t, kv_err *e)
{
    kv_array *a = NULL;
    grown g = {.l = l};
    int rc = kv_array_new(&a, KV_FLOAT64, 1, &elements, (kv_ctx){0}, e);
    if (!rc)
        rc = kv_init(l->store, key, 1, &a, NULL, e);
    kv_array_unref(a);
    if (!rc)
        rc = kv_describe(l->store, "cluster", note_keys, &g, e);
    *t = g.t;
    return rc;
}

static bool lack_keys(const links *l, bool large)
{
    for (int i = 0; i < l->n; i++)
        if (large ? !l->t[i].has_large : l->t[i].nsmall < MANY)
            return true;
    return false;
}

static int make_keys(links *l, bool large, int32_t *id, kv_err *e)
{
    int left = MOST_TRIES * (large ? 1 : MANY);
    for (; lack_keys(l, large) && left > 0; left--) {
        kv_key key = {.id = (*id)++};
        target *t;
        if (make_key(l, large ? SMALL : ONE, &key, &t, e))
            return e->code;
        if (t && large) {
            t->large = key;
            t->has_large = true;
        } else if (t && t->nsmall < MANY) {
            t->small[t->nsmall++] = key;
        }
    }
    return left > 0 ? KV_OK
                    : kv_err_set(e, KV_E_INTERNAL, "some rank that serves gets no keys");
}

static int make_outs(links *l, kv_err *e)
{
    int64_t small = ONE, large = SMALL;
    for (int i = 0; i < MANY; i++)
        if (kv_array_new(&l->outs[i], KV_FLOAT64, 1, &small, (kv_ctx){0}, e))
            return e->code;
    return kv_array_new(&l->large, KV_FLOAT64, 1, &large, (kv_ctx){0}, e);
}

/* ---- Times ---- */

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds of a pull of n keys, until it has ended: the least of `times`, since whatever else
 * the machine does only makes it longer. */
static int time_pulls(links *l, const kv_key *keys, kv_array **outs, int n, int times, double *ns,
                      kv_err *e)
{
    *ns = HUGE_VAL;
    for (int i = 0; i < times; i++) {
        double from = now_ns();
        if (kv_pull(l->store, keys, n, outs, NULL, e) || kv_wait(l->store, e))
            return e->code;
        double took = now_ns() - from;
        *ns = took < *ns ? took : *ns;
    }
    return KV_OK;
}

/* The same for pushes of all small keys. */
static int time_pushes(links *l, const kv_key *keys, int times, double *ns, kv_err *e)
{
    *ns = HUGE_VAL;
    for (int i = 0; i < times; i++) {
        double from = now_ns();
        if (kv_push(l->store, keys, MANY, l->outs, NULL, e) || kv_wait(l->store, e))
            return e->code;
        double took = now_ns() - from;
        *ns = took < *ns ? took : *ns;
    }
    return KV_OK;
}

/* One run gives one number of each of these. */
typedef struct run {
    double alone, many, large, pushes;
} run;

static int time_once(links *l, const target *t, bool quick, run *r, kv_err *e)
{
    kv_array *large = l->large;
    int times = quick ? 4 : ALONE;
    if (time_pulls(l, t->small, l->outs, 1, times, &r->alone, e) ||
        time_pulls(l, t->small, l->outs, MANY, quick ? 2 : 16, &r->many, e) ||
        time_pushes(l, t->small, quick ? 2 : 16, &r->pushes, e))
        return e->code;
    return time_pulls(l, &t->large, &large, 1, quick ? 2 : 32, &r->large, e);
}

static double positive(double x)
{
    return x > 0 ? x : 0;
}

/* Medians of the runs. */
static int measure(links *l, target *t, int runs, bool quick, kv_err *e)
{
    double *x = mem_alloc(4 * runs, sizeof *x, e);
    run r;
    int rc = x ? KV_OK : KV_E_MEMORY;
    for (int i = 0; i < WARM && !rc; i++)
        rc = time_once(l, t, true, &r, e);
    for (int i = 0; i < runs && !rc; i++) {
        rc = time_once(l, t, quick, &r, e);
        x[i] = r.alone;
        x[runs + i] = (r.many - r.alone) / (MANY - 1);
        x[2 * runs + i] = (r.large - r.alone) / ((SMALL - ONE) * 8.0);
        x[3 * runs + i] = r.pushes / MANY;
    }
    if (!rc) {
        bench_link *b = &t->link;
        b->alone_ns = stream_median(x, runs);
        b->one_ns = positive(stream_median(x + runs, runs));
        b->gap_ns = positive(stream_median(x + 2 * runs, runs));
        b->push_ns = stream_median(x + 3 * runs, runs);
        b->overhead_ns = b->one_ns / 2;
        b->latency_ns = positive(b->alone_ns / 2 - 2 * b->overhead_ns);
    }
    mem_free(x);
    return rc;
}

/* ---- The whole ---- */

static int measure_all(links *l, bench_link **out, int *n, int runs, bool quick, kv_err *e)
{
    int32_t id = 0;
    bench_switch threads;
    int rc = find_ranks(l, e);
    if (!rc)
        rc = kv_set_optimizer(l->store, "sgd", NULL, 0, e);
    if (!rc)
        rc = bench_switch_run(&threads, runs, quick, e);
    if (!rc && !(rc = make_keys(l, false, &id, e)) && !(rc = make_keys(l, true, &id, e)))
        rc = make_outs(l, e);
    if (!rc && !(*out = mem_alloc(l->n, sizeof **out, e)))
        rc = KV_E_MEMORY;
    for (int i = 0; i < l->n && !rc; i++) {
        rc = measure(l, &l->t[i], runs, quick, e);
        l->t[i].link.threads = threads;
        (*out)[(*n)++] = l->t[i].link;
    }
    return rc;
}

int bench_link_run(bench_link **out, int *n, int runs, bool quick, kv_err *e)
{
    links l = {0};
    *out = NULL;
    *n = 0;
    int rc = kv_create("dist_async", NULL, 0, &l.store, e);
    if (rc == KV_E_UNSUPPORTED) {
        kv_err why = *e;
        *e = (kv_err){0};
        kv_err_set(e, rc, "bench --link measures in a job of several ranks: %s", why.text);
        kv_err_hint(e, "kvbench launch -n 1 -s 1 -c 'bench --link'");
    }
    if (!rc && kv_rank(l.store) == 0)
        rc = measure_all(&l, out, n, runs, quick, e);
    if (!rc)
        rc = kv_barrier(l.store, e);
    for (int i = 0; i < MANY; i++)
        kv_array_unref(l.outs[i]);
    kv_array_unref(l.large);
    kv_free(l.store);
    mem_free(l.t);
    return rc;
}
