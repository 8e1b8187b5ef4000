/* Copies from stored arrays. */
#include "core/pull.h"

#include "array/sparse.h"
#include "base/compiler.h"
#include "base/kv_assert.h"
#include "core/call_gpu.h"
#include "core/call_trace.h"

static int prepare(call *c, kv_err *e)
{
    int rc = call_find_pairs(c, false, e);
    return rc ? rc : call_cut_work(c, e);
}

/* Elements that are copied into every out of a key before the next ones: small beside a cache. */
enum { BLOCK = 4096 };

/* One range of one key. */
static void copy_range(call *c, const call_group *g, int64_t from, int64_t n)
{
    apply_outs outs = {c->values + g->first, g->n};
    int64_t block = g->n > 1 ? BLOCK : n;
    for (int64_t i = from, end = from + n; i < end; i += block)
        apply_spread_part(&outs, g->target, i, end - i < block ? end - i : block,
                          call_is_far(c, n));
}

static void copy_whole(call *c, const call_group *g)
{
    for (int64_t j = 0; j < g->n; j++)
        sparse_move(c->values[g->first + j], g->target);
}

/* Prefetches what the groups that come next will touch: headers first, then elements. */
static void look_ahead(const call *c, int64_t i, int64_t last)
{
    if (i + 2 * CALL_AHEAD < last) {
        const call_group *g = &c->groups[i + 2 * CALL_AHEAD];
        call_prefetch(g->target);
        for (int64_t j = 0; j < g->n && j < CALL_AHEAD_ARRAYS; j++)
            call_prefetch(c->values[g->first + j]);
    }
    if (i + CALL_AHEAD < last) {
        const call_group *g = &c->groups[i + CALL_AHEAD];
        prefetch(g->target->data);
        for (int64_t j = 0; j < g->n && j < CALL_AHEAD_ARRAYS; j++)
            prefetch_write(c->values[g->first + j]->data);
    }
}

static void pull_part(void *arg, int64_t part, int worker)
{
    call *c = arg;
    const call_cut *cut = &c->cuts[part], *end = cut + 1;
    int64_t last = end->item + (end->from > 0), from = cut->from;
    (void)worker;
    for (int64_t i = cut->item; i < last; i++, from = 0) {
        const call_group *g = &c->groups[i];
        int64_t n = (i == end->item ? end->from : g->target->size) - from;
        if (g->work == CALL_ON_GPU)
            continue;
        look_ahead(c, i, last);
        int64_t begin = call_trace_begin(c);
        if (g->work == CALL_COPY)
            copy_range(c, g, from, n);
        else
            copy_whole(c, g);
        call_trace_part(c, begin, "copy", &g->key, c->values[g->first], from, n);
    }
    if (!c->op.repeats)
        call_end_groups(c, cut->item, last);
}

/* An array that several pairs write holds the last of them. */
static int run(call *c, kv_err *e)
{
    bool all = false;
    int rc = c->gpus ? call_gpu_pull(c, &all, e) : KV_OK;
    if (rc || all)
        return rc;
    if (c->op.repeats)
        for (int64_t i = 0; i < c->ncuts; i++)
            pull_part(c, i, 0);
    else
        pool_run(c->ncuts, pull_part, c);
    return KV_OK;
}

static void prepare_batch(call *c)
{
    int rc = call_find_pairs(c, false, NULL);
    kv_assert(rc == KV_OK, "a batch of %lld pairs fails (%s), and all pairs were checked",
              (long long)c->nvalues, kv_code_name(rc));
}

static void run_batch(call *c)
{
    pull_part(c, 0, 0);
}

const call_ops pull_ops = {.name = "pull",
                           .prepare = prepare,
                           .run = run,
                           .prepare_batch = prepare_batch,
                           .run_batch = run_batch};
