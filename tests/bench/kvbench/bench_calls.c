/* The store of a row, its calls, and the comparison with its twin. */
#include "bench_calls.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

/* ---- Making ---- */

/* Keys of the type device move to the GPU of their values with the first push. */
static bool keys_move(const bench_arrays *r)
{
    return bench_place_is_gpu(r->place) && !r->place->home;
}

static int make_store(kv **store, const bench_arrays *r, bench_case c, kv_err *e)
{
    const bench_optimizer *o = c.op.optimizer;
    const char *compression = c.op.push ? r->data->compression : NULL;
    kv_opt opts[] = {{"type", compression}, {"threshold", "0.5"}};
    bool device = compression || (r->place->n > 0 && !r->place->home);
    kv_array **values = r->values[0].arrays;
    if (kv_create(device ? "device" : "local", NULL, 0, store, e) ||
        (compression && kv_set_gradient_compression(*store, opts, 2, e)) ||
        kv_init(*store, r->keys, r->shapes.n, values, NULL, e) ||
        (o && kv_set_optimizer(*store, o->optimizer, o->params, o->nparams, e)) ||
        (!c.op.push && keys_move(r) && kv_push(*store, r->keys, r->shapes.n, values, NULL, e)))
        return e->code;
    return kv_wait(*store, e);
}

static int make_pairs(bench_pairs *p, const bench_arrays *r, const bench_set *sets, int n,
                      kv_err *e)
{
    p->keys = mem_alloc(r->shapes.n * n, sizeof *p->keys, e);
    p->arrays = mem_alloc(r->shapes.n * n, sizeof *p->arrays, e);
    if (!p->keys || !p->arrays)
        return KV_E_MEMORY;
    for (int64_t k = 0; k < r->shapes.n; k++)
        for (int v = 0; v < n; v++, p->n++) {
            p->keys[p->n] = r->keys[k];
            p->arrays[p->n] = sets[v].arrays[k];
        }
    return KV_OK;
}

int bench_calls_init(bench_calls *c, bench_arrays *r, bench_case which, kv_err *e)
{
    bool push = which.op.push, pull = which.op.pull;
    *c = (bench_calls){.arrays = r, .which = which};
    int code = bench_arrays_need(r, push ? which.n : 1, pull ? which.n : 0, 0, e);
    if (code == KV_OK)
        code = make_store(&c->store, r, which, e);
    if (code == KV_OK && push)
        code = make_pairs(&c->push, r, r->values, which.n, e);
    if (code == KV_OK && pull)
        code = make_pairs(&c->pull, r, r->outs, which.n, e);
    return code;
}

void bench_calls_release(bench_calls *c)
{
    kv_free(c->store);
    mem_free(c->push.keys);
    mem_free(c->push.arrays);
    mem_free(c->pull.keys);
    mem_free(c->pull.arrays);
    *c = (bench_calls){0};
}

int bench_calls_run(bench_calls *c, kv_err *e)
{
    const bench_pairs *in = &c->push, *out = &c->pull;
    bench_op op = c->which.op;
    if (op.joined)
        kv_pushpull(c->store, in->keys, in->n, in->arrays, out->keys, out->n, out->arrays, NULL, e);
    else if ((!op.push || !kv_push(c->store, in->keys, in->n, in->arrays, NULL, e)) && op.pull)
        kv_pull(c->store, out->keys, out->n, out->arrays, NULL, e);
    return e->code ? e->code : kv_wait(c->store, e);
}

/* ---- Comparing ---- */

enum { SAMPLES = 61 };

static bool same(const void *got, const void *expected, int64_t item, bench_op op)
{
    float x, y;
    bench_exact exact = op.optimizer ? op.optimizer->exact : BENCH_EXACT;
    if (exact == BENCH_EXACT)
        return memcmp(got, expected, (size_t)item) == 0;
    if (item != sizeof x) /* halves that random numbers or norms went into are not comparable */
        return true;
    memcpy(&x, got, sizeof x);
    memcpy(&y, expected, sizeof y);
    return exact == BENCH_NORMS ? fabsf(x - y) <= 1e-3f * (1 + fabsf(y)) : isfinite(x);
}

/* The array of key k beside the one of the twin, at places from its first to its last element. */
static int compare_array(const bench_calls *c, int64_t k, kv_array *array, kv_array *small,
                         int64_t *checked, kv_err *e)
{
    const void *got, *expected;
    int64_t item = kv_dtype_bytes(c->arrays->data->dtype), n = kv_array_size(array);
    int64_t samples = n < SAMPLES ? n : SAMPLES;
    if (kv_array_read(array, &got, e) || kv_array_read(small, &expected, e))
        return e->code;
    for (int64_t s = 0; s < samples; s++) {
        int64_t i = samples == 1 ? 0 : (n - 1) / (samples - 1) * s;
        if (s == samples - 1)
            i = n - 1;
        if (!same((const char *)got + i * item,
                  (const char *)expected + (i + k) % BENCH_PERIOD * item, item, c->which.op)) {
            char name[64];
            bench_op_name(name, c->which.op);
            return kv_err_set(e, KV_E_INTERNAL,
                              "%s (%s): element %lld of array %lld is not what it should be", name,
                              c->arrays->data->name, (long long)i, (long long)k);
        }
    }
    *checked += samples;
    return KV_OK;
}

/* With norms of whole arrays only the largest array is about like the small one. */
static bool comparable(const bench_calls *c, int64_t k)
{
    const bench_optimizer *o = c->which.op.optimizer;
    return !o || o->exact != BENCH_NORMS || k == c->arrays->largest;
}

static int pull_one(kv_array **out, const bench_calls *c, int64_t k, kv_err *e)
{
    const bench_shape *s = &c->arrays->shapes.items[k];
    if (kv_array_new_raw(out, c->arrays->data->dtype, s->ndim, s->shape, (kv_ctx){0}, e) ||
        kv_pull(c->store, &c->arrays->keys[k], 1, out, NULL, e))
        return e->code;
    return kv_wait(c->store, e);
}

static int compare_stored(const bench_calls *c, const bench_calls *twin, int64_t k,
                          int64_t *checked, kv_err *e)
{
    kv_array *large = NULL, *small = NULL;
    if (pull_one(&large, c, k, e) == KV_OK && pull_one(&small, twin, 0, e) == KV_OK)
        compare_array(c, k, large, small, checked, e);
    kv_array_unref(large);
    kv_array_unref(small);
    return e->code;
}

int bench_calls_compare(bench_calls *c, bench_calls *twin, int64_t *checked, kv_err *e)
{
    int64_t n = c->arrays->shapes.n, some[] = {0, c->arrays->largest, n - 1};
    int code = KV_OK;
    for (int v = 0; v < c->which.n && c->which.op.pull; v++)
        for (int64_t k = 0; k < n && code == KV_OK; k++)
            if (comparable(c, k))
                code = compare_array(c, k, c->arrays->outs[v].arrays[k],
                                     twin->arrays->outs[v].arrays[0], checked, e);
    for (int i = 0; i < 3 && !c->which.op.pull && code == KV_OK; i++)
        if (comparable(c, some[i]))
            code = compare_stored(c, twin, some[i], checked, e);
    return code;
}
