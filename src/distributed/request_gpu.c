/* Requests of arrays on GPUs with memory of their own.
 *
 * Codes are made where the source is, and only they are brought; so are the elements of small
 * sources, all of a GPU together. Large sources come into their place in host memory one behind the
 * other, and their first chunks are sent while the rest comes. Replies are written into the memory
 * of the first out's GPU as they come, and go from there to the other outs.
 */
#include <string.h>

#include "array/mirror.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "distributed/request.h"

enum {
    SMALL = 256 << 10, /* bytes: to copy as many takes about as long as to start a copy */
    ALIGN = 16,        /* of the sources that are copied together */
    WORD = 4           /* zeros behind codes: see request_push.c */
};

bool request_has_gpus(const request *rq)
{
    bool has = false;
    for (int64_t i = 0; i < rq->nitems && !rq->pulls && !has; i++)
        has = mirror_has(rq->items[i].source);
    for (int64_t i = 0; i < rq->nouts && !has; i++)
        has = mirror_has(rq->outs[i]);
    return has;
}

/* ---- Together ---- */

static int64_t source_bytes(const request_item *c)
{
    return c->place.size * kv_dtype_bytes(c->dtype);
}

static bool is_staged(const request *rq, const request_item *c)
{
    return mirror_has(c->source) && c->source->storage == KV_DEFAULT &&
           (rq->codes.code || source_bytes(c) < SMALL);
}

/* Bytes that are brought of one, and where the next begins. */
static int64_t staged_bytes(const request *rq, const request_item *c)
{
    return rq->codes.code ? quantise_bytes((quantise_code)rq->codes.code, c->place.size)
                          : source_bytes(c);
}

static int64_t aligned_bytes(const request *rq, const request_item *c)
{
    return (staged_bytes(rq, c) + WORD + ALIGN - 1) / ALIGN * ALIGN;
}

/* The sources of one GPU that are copied together: one launch, then one copy. */
typedef struct stage {
    const gpu_ops *gpu;
    int id;
    gpu_job *jobs;
    const void **src;
    void **more; /* residuals */
    int64_t n, bytes;
    char *block;
} stage;

static int add_job(stage *s, const request *rq, const request_item *c, kv_err *e)
{
    void *from = NULL;
    TRY(c->old ? mirror_copy(c->residual, c->old, e) : KV_OK);
    if (rq->codes.code)
        TRY(mirror_device(c->residual, MIRROR_CHANGE, &s->more[s->n], e));
    TRY(mirror_device(c->source, MIRROR_READ, &from, e));
    s->src[s->n] = from;
    s->jobs[s->n] = (gpu_job){.dst = s->block + s->bytes,
                              .n = c->place.size,
                              .src = &s->src[s->n],
                              .nsrc = 1,
                              .more = &s->more[s->n],
                              .nmore = rq->codes.code ? 1 : 0,
                              .threshold = rq->codes.threshold,
                              .to = c->dtype,
                              .from = c->dtype,
                              .code = (quantise_code)rq->codes.code};
    s->n++;
    s->bytes += aligned_bytes(rq, c);
    return KV_OK;
}

/* Copies the small sources of one GPU to `to`. */
static int run_stage(stage *s, request *rq, char *to, kv_err *e)
{
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        if (!is_staged(rq, c) || mirror_gpu(c->source) != s->id)
            continue;
        c->staged = to + s->bytes;
        TRY(add_job(s, rq, c, e));
    }
    TRY(s->gpu->run(s->id, rq->codes.code ? GPU_QUANTISE : GPU_CONVERT, s->jobs, s->n, e));
    TRY(s->gpu->copy_out(s->id, to, s->block, s->bytes, e));
    for (int64_t i = 0; i < rq->nitems; i++) {
        const request_item *c = &rq->items[i];
        if (c->staged >= to && c->staged < to + s->bytes)
            memset(c->staged + staged_bytes(rq, c), 0, WORD);
    }
    return KV_OK;
}

/* Copies the `count` small sources of GPU id, of `bytes` together. */
static int stage_on(request *rq, int id, int64_t count, int64_t bytes, char *to, kv_err *e)
{
    stage s = {.gpu = gpu_find(e), .id = id};
    void *block = NULL;
    if (!s.gpu)
        return KV_E_UNSUPPORTED;
    s.jobs = mem_alloc(count, sizeof *s.jobs, e);
    s.src = mem_alloc(count, sizeof *s.src, e);
    s.more = mem_alloc(count, sizeof *s.more, e);
    int rc = s.jobs && s.src && s.more ? s.gpu->alloc(id, bytes, &block, e) : KV_E_MEMORY;
    s.block = block;
    if (!rc)
        rc = run_stage(&s, rq, to, e);
    kv_assert(rc || (s.n == count && s.bytes == bytes),
              "gpu(%d) stages %lld bytes of %lld sources, and %lld of %lld were measured", id,
              (long long)s.bytes, (long long)s.n, (long long)bytes, (long long)count);
    if (block)
        s.gpu->free(id, block);
    mem_free(s.more);
    mem_free(s.src);
    mem_free(s.jobs);
    return rc;
}

int request_stage(request *rq, kv_err *e)
{
    int64_t count[GPU_MOST] = {0}, bytes[GPU_MOST] = {0}, all = 0, at = 0;
    for (int64_t i = 0; i < rq->nitems && !rq->pulls; i++) {
        const request_item *c = &rq->items[i];
        if (!is_staged(rq, c))
            continue;
        count[mirror_gpu(c->source)]++;
        bytes[mirror_gpu(c->source)] += aligned_bytes(rq, c);
        all += aligned_bytes(rq, c);
    }
    if (all == 0)
        return KV_OK;
    rq->staged = mem_alloc(all, 1, e);
    if (!rq->staged)
        return KV_E_MEMORY;
    for (int id = 0; id < GPU_MOST; at += bytes[id++])
        if (count[id] > 0)
            TRY(stage_on(rq, id, count[id], bytes[id], rq->staged + at, e));
    return KV_OK;
}

/* ---- One behind the other ---- */

static bool is_streamed(const request *rq, const request_item *c)
{
    return !rq->pulls && !rq->sums && mirror_has(c->source) && !c->staged && !c->blob;
}

bool request_expect_streamed(request *rq)
{
    bool has = false;
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        if (!is_streamed(rq, c))
            continue;
        c->here = 0;
        has = true;
    }
    return has;
}

static void told(void *arg, int64_t bytes)
{
    request_item *c = arg;
    __atomic_store_n(&c->here, bytes, __ATOMIC_RELEASE);
    net_wake();
}

void request_bring(request *rq)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        if (!is_streamed(rq, c))
            continue;
        if (!rc)
            rc = mirror_host_gradually(c->source, told, c, &rq->bring_error);
        if (rc)
            told(c, -1);
    }
}

/* ---- Outs ---- */

int request_place_outs(request *rq, kv_err *e)
{
    if (rq->nouts == 0)
        return KV_OK;
    rq->blocks = mem_zalloc(rq->nouts, sizeof *rq->blocks, e);
    if (!rq->blocks)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < rq->nitems && (rq->pulls || rq->sums); i++) {
        const request_item *c = &rq->items[i];
        for (int64_t j = c->first; j < c->first + c->n; j++) {
            const kv_array *out = rq->outs[j];
            bool there = mirror_has(out) && (kv_dtype)out->dtype == c->dtype &&
                         out->storage == KV_DEFAULT;
            TRY(there ? mirror_device(out, MIRROR_WRITE, &rq->blocks[j], e)
                      : mirror_host(out, MIRROR_WRITE, e));
        }
    }
    return KV_OK;
}

bool request_has_outs_here(const request *rq, const request_item *c)
{
    bool has = !rq->blocks;
    for (int64_t i = c->first; i < c->first + c->n && !has; i++)
        has = !rq->blocks[i];
    return has;
}

/* The first out that is written on its GPU, or -1. */
static int64_t first_out(const request *rq, const request_item *c)
{
    for (int64_t i = c->first; rq->blocks && i < c->first + c->n; i++)
        if (rq->blocks[i])
            return i;
    return -1;
}

/* Copies the elements that the first out received to the other outs. */
static int spread(const gpu_ops *gpu, const request *rq, const request_item *c, int64_t first,
                  int64_t at, int64_t bytes, kv_err *e)
{
    const char *from = (const char *)rq->blocks[first] + at;
    for (int64_t i = first + 1; i < c->first + c->n; i++)
        if (rq->blocks[i] && rq->blocks[i] != rq->blocks[first])
            TRY(gpu->copy(mirror_gpu(rq->outs[i]), (char *)rq->blocks[i] + at,
                          mirror_gpu(rq->outs[first]), from, bytes, e));
    return KV_OK;
}

int request_write_outs(const request *rq, const request_item *c, int64_t at, const void *data,
                       int64_t bytes, kv_err *e)
{
    int64_t first = first_out(rq, c);
    const gpu_ops *gpu = first < 0 || bytes == 0 ? NULL : gpu_find(e);
    if (!gpu)
        return KV_OK;
    TRY(gpu->copy_in(mirror_gpu(rq->outs[first]), (char *)rq->blocks[first] + at, data, bytes, e));
    return spread(gpu, rq, c, first, at, bytes, e);
}

int request_write_codes(const request *rq, const request_item *c, int64_t at, const push_codes *how,
                        const void *codes, int64_t n, kv_err *e)
{
    int64_t first = first_out(rq, c), bytes = quantise_bytes((quantise_code)how->code, n);
    const gpu_ops *gpu = first < 0 || n == 0 ? NULL : gpu_find(e);
    if (!gpu)
        return KV_OK;
    int id = mirror_gpu(rq->outs[first]);
    void *block;
    TRY(gpu->alloc(id, bytes, &block, e));
    const void *src = block;
    gpu_job job = {.dst = (char *)rq->blocks[first] + at,
                   .n = n,
                   .src = &src,
                   .nsrc = 1,
                   .threshold = how->threshold,
                   .code = (quantise_code)how->code};
    int rc = gpu->copy_in(id, block, codes, bytes, e);
    if (!rc)
        rc = gpu->run(id, GPU_DEQUANTISE, &job, 1, e);
    gpu->free(id, block);
    return rc ? rc : spread(gpu, rq, c, first, at, n * (int64_t)sizeof(float), e);
}
