/* Contexts of a benchmark, and copies on GPUs. */
#include "bench_place.h"

#include <stdio.h>

#include "array/device.h"
#include "array/mirror.h"

/* Larger than what a GPU caches, so a copy can as well go over a block of this size again. */
#define BLOCK_MOST ((int64_t)1 << 30)

kv_ctx bench_place_of(const bench_place *p, int v)
{
    return p->n > 0 ? p->ctx[v % p->n] : (kv_ctx){0};
}

bool bench_place_is_gpu(const bench_place *p)
{
    return p->n > 0 && mirror_needed(p->ctx[0]);
}

int bench_place_wait(const bench_place *p, kv_err *e)
{
    int code = KV_OK;
    if (!bench_place_is_gpu(p))
        return KV_OK;
    const gpu_ops *gpu = gpu_find(e);
    for (int i = 0; i < p->n && gpu && !code; i++)
        code = gpu->wait(p->ctx[i].id, e);
    return gpu ? code : e->code;
}

int bench_place_name(char out[128], const bench_place *p, kv_err *e)
{
    gpu_facts facts;
    snprintf(out, 128, p->n > 0 && p->ctx[0].device == KV_GPU ? "virtual" : "cpu");
    if (!bench_place_is_gpu(p))
        return KV_OK;
    const gpu_ops *gpu = gpu_find(e);
    if (!gpu || gpu->facts(p->ctx[0].id, &facts, e))
        return e->code;
    snprintf(out, 128, "%s", facts.name);
    return KV_OK;
}

int64_t bench_place_available(const bench_place *p)
{
    kv_err unused = {0};
    int64_t bytes = 0;
    const gpu_ops *gpu = bench_place_is_gpu(p) ? gpu_find(&unused) : NULL;
    return gpu && gpu->room(p->ctx[0].id, &bytes, &unused) == KV_OK ? bytes : 0;
}

/* ---- Copies ---- */

static int64_t block_of(const bench_traffic *t)
{
    int64_t most = t->bytes / 2 > t->each ? t->bytes / 2 : t->each;
    return most < 1 ? 1 : most < BLOCK_MOST ? most : BLOCK_MOST;
}

int64_t bench_copies_need(const bench_traffic *t)
{
    return 2 * block_of(t);
}

int bench_copies_init(bench_copies *c, const bench_place *place, const bench_traffic *t, kv_err *e)
{
    *c = (bench_copies){.place = *place, .traffic = *t, .block = block_of(t)};
    const gpu_ops *gpu = gpu_find(e);
    for (int i = 0; gpu && i < place->n && e->code == KV_OK; i++) {
        int id = place->ctx[i].id;
        if (gpu->alloc(id, c->block, &c->from[i], e) == KV_OK &&
            gpu->alloc(id, c->block, &c->to[i], e) == KV_OK)
            gpu->zero(id, c->from[i], c->block, e);
    }
    return e->code;
}

void bench_copies_release(bench_copies *c)
{
    kv_err unused = {0};
    const gpu_ops *gpu = c->place.n > 0 ? gpu_find(&unused) : NULL;
    for (int i = 0; gpu && i < c->place.n; i++) {
        gpu->free(c->place.ctx[i].id, c->from[i]);
        gpu->free(c->place.ctx[i].id, c->to[i]);
    }
    *c = (bench_copies){0};
}

static int64_t some_of(const bench_copies *c, int64_t bytes)
{
    return bytes < c->block ? bytes : c->block;
}

/* From the i-th device to the j-th. */
static int copy(const bench_copies *c, const gpu_ops *gpu, int j, int i, int64_t bytes, kv_err *e)
{
    int code = KV_OK;
    for (; bytes > 0 && !code; bytes -= some_of(c, bytes))
        code = gpu->copy(c->place.ctx[j].id, c->to[j], c->place.ctx[i].id, c->from[i],
                         some_of(c, bytes), e);
    return code;
}

static int carry(const bench_copies *c, const gpu_ops *gpu, int i, bool out, kv_err *e)
{
    int64_t bytes = c->traffic.each;
    int code = KV_OK;
    for (; bytes > 0 && !code; bytes -= some_of(c, bytes))
        code = gpu->carry(c->place.ctx[i].id, out ? c->from[i] : c->to[i], some_of(c, bytes), out,
                          e);
    return code;
}

/* One value, or out, of every key. *rest: bytes that remain for the device of the keys. */
static int move_one(const bench_copies *c, const gpu_ops *gpu, int v, bool out, int64_t *rest,
                    kv_err *e)
{
    int i = v % c->place.n;
    if (c->place.home)
        return carry(c, gpu, i, !out, e);
    if (c->place.ctx[i].id == c->place.ctx[0].id)
        return KV_OK;
    *rest -= c->traffic.each;
    return copy(c, gpu, out ? i : 0, out ? 0 : i, c->traffic.each, e);
}

int bench_copies_run(bench_copies *c, kv_err *e)
{
    const gpu_ops *gpu = gpu_find(e);
    const bench_traffic *t = &c->traffic;
    int64_t rest = t->bytes;
    int code = gpu ? KV_OK : e->code;
    for (int v = 0; v < t->nvalues && !code; v++)
        code = move_one(c, gpu, v, false, &rest, e);
    for (int v = 0; v < t->nouts && !code; v++)
        code = move_one(c, gpu, v, true, &rest, e);
    if (!code && !c->place.home)
        code = copy(c, gpu, 0, 0, rest / 2, e);
    return code ? code : bench_place_wait(&c->place, e);
}
