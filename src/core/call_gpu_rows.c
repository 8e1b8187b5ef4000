/* From groups to lists: what must be brought or added up first, then the rules, then the outs. */
#include "core/call_gpu_rows.h"

#include "array/mirror.h"
#include "array/sparse.h"
#include "array/sparse_gpu.h"
#include "core/call_gpu.h"
#include "core/call_trace.h"
#include "core/updater.h"
#include "vm/plan_gpu_rows.h"

/* What one device is given of a call. */
typedef struct work {
    call *call;
    int id;
    gpu_list sums; /* of default values */
    plan_gpu_rows_item *items;
    int64_t n, cap;
} work;

bool call_gpu_rows_is(const call_group *g)
{
    const plan *p = g->update ? g->update->plan : NULL;
    return p && g->target && (g->sum || (!g->sparse && plan_gpu_rows_is_by_row(p)));
}

/* The rows that the input of a group has. */
static plan_input rows_of(const call_group *g)
{
    if (!g->sum || sparse_is_full(g->sum))
        return PLAN_INPUT_ALL;
    return g->update->rows_present ? PLAN_INPUT_PRESENT : PLAN_INPUT_SPREAD;
}

int call_gpu_rows_prepare(const call_group *g, kv_err *e)
{
    const plan *p = g->update->plan;
    if (!mirror_has(g->target) || !plan_gpu_rows_possible(p))
        return KV_OK;
    return plan_gpu_rows_prepare(gpu_find(e), mirror_gpu(g->target), p, rows_of(g), e);
}

/* ---- What can be done there ---- */

/* Asked once a push, before it changes anything. */
static bool can(const call *c, const call_group *g)
{
    updater_arrays u;
    if (!call_gpu_rows_is(g) || !plan_gpu_rows_possible(g->update->plan) || c->compress.state ||
        !mirror_has(g->target) || g->target->size == 0 || (!g->sum && !g->same_dtype))
        return false;
    if (!updater_rule_arrays(c, g, &u) || u.prints)
        return false;
    int id = mirror_gpu(g->target);
    bool there = mirror_gpu(u.held) == id;
    for (int i = 0; i < u.n; i++)
        there &= mirror_gpu(u.items[i]) == id;
    return there;
}

/* Whether a device was given the group, by this part. */
static bool is_here(const call_group *g)
{
    return g->share == CALL_ON_GPU && call_gpu_rows_is(g);
}

/* ---- What a rule works on ---- */

/* Where the elements of an array lie on the device; those elsewhere are copied there. */
static int place(work *w, const kv_array *a, const void **out, kv_err *e)
{
    void *block;
    int64_t n = a->storage == KV_DEFAULT ? a->size : a->nrows * sparse_row(a);
    int rc;
    if (mirror_gpu(a) == w->id) {
        rc = mirror_device(a, MIRROR_READ, &block, e);
    } else {
        rc = gpu_list_block_new(&w->sums, w->id, n * kv_dtype_bytes((kv_dtype)a->dtype), &block, e);
        if (!rc)
            rc = mirror_send(a, w->sums.gpu, w->id, block, e);
    }
    *out = block;
    return rc;
}

/* The sum of default values, in a block of its own; one of them is read where it is. */
static int add_sum(work *w, const call_group *g, const void **out, kv_err *e)
{
    kv_array *const *values = w->call->values + g->first;
    kv_dtype dtype = (kv_dtype)values[0]->dtype;
    const void **src = arena_alloc(&w->sums.memory, (size_t)g->n * sizeof *src, e);
    void *block;
    int rc = src ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < g->n && !rc; i++)
        rc = place(w, values[i], &src[i], e);
    *out = src ? src[0] : NULL;
    if (rc || g->n == 1)
        return rc;
    rc = gpu_list_block_new(&w->sums, w->id, values[0]->size * kv_dtype_bytes(dtype), &block, e);
    *out = block;
    gpu_job job = {.dst = block, .n = values[0]->size, .src = src, .nsrc = g->n, .to = dtype};
    return rc ? rc : gpu_list_add(&w->sums, w->id, &job, e);
}

/* The arrays in the device, and what the plan must know beside. */
static int find_arrays(work *w, const call_group *g, plan_arrays **out, kv_err *e)
{
    plan_arrays *a = *out = arena_alloc(&w->sums.memory, sizeof *a, e);
    int rc = a ? call_gpu_rule_arrays(w->call, g, a, e) : KV_E_MEMORY;
    if (!rc)
        a->row = sparse_row(g->target);
    return rc;
}

/* For each row of the key which of the sum's it is, or -1. */
static int find_places(work *w, const call_group *g, const int64_t **out, kv_err *e)
{
    int64_t n = g->target->size / sparse_row(g->target);
    int64_t *places = arena_alloc(&w->sums.memory, (size_t)n * sizeof *places, e);
    if (!places)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        places[i] = -1;
    for (int64_t k = 0; k < g->sum->nrows; k++)
        places[g->sum->rows[k]] = k;
    *out = places;
    return KV_OK;
}

static int add_group(work *w, const call_group *g, kv_err *e)
{
    plan_gpu_rows_item item = {.plan = g->update->plan, .rows = rows_of(g)};
    plan_arrays *a;
    int rc = find_arrays(w, g, &a, e);
    if (!rc)
        rc = g->sum ? place(w, g->sum, &item.input, e) : add_sum(w, g, &item.input, e);
    if (!rc && g->sum) {
        item.ids = g->sum->rows;
        item.nids = g->sum->nrows;
    }
    if (!rc && plan_gpu_rows_has_places(item.plan, item.rows))
        rc = find_places(w, g, &item.places, e);
    if (rc || (rc = mem_grow(&w->items, &w->cap, w->n + 1, sizeof *w->items, e)))
        return rc;
    item.arrays = a;
    w->items[w->n++] = item;
    return KV_OK;
}

/* ---- A push ---- */

static int fill_outs(const call *c, const call_group *g, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < g->nouts && !rc; i++)
        rc = array_fill(c->outs[g->first_out + i], g->target, e);
    return rc;
}

static int push_on(call *c, const gpu_ops *gpu, int id, kv_err *e)
{
    work w = {.call = c, .id = id, .sums = {.gpu = gpu, .work = GPU_SUM}};
    int64_t begin = call_trace_begin(c);
    int rc = KV_OK;
    for (int64_t i = 0; i < c->ngroups && !rc; i++)
        if (is_here(&c->groups[i]) && mirror_gpu(c->groups[i].target) == id)
            rc = add_group(&w, &c->groups[i], e);
    if (!rc)
        rc = gpu_list_run(&w.sums, e);
    if (!rc)
        rc = plan_gpu_rows_run(gpu, id, w.items, w.n, e);
    if (!rc)
        call_trace_device(c, begin, "update", gpu, id);
    gpu_list_release(&w.sums);
    mem_free(w.items);
    return rc;
}

int call_gpu_rows_push(call *c, kv_err *e)
{
    bool used[GPU_MOST] = {false};
    const gpu_ops *gpu = gpu_find(e);
    int rc = gpu ? KV_OK : KV_E_UNSUPPORTED;
    for (int64_t i = 0; i < c->ngroups && !rc; i++) {
        call_group *g = &c->groups[i];
        if (!can(c, g))
            continue;
        g->share = CALL_ON_GPU;
        used[mirror_gpu(g->target)] = true;
    }
    for (int id = 0; id < GPU_MOST && !rc; id++)
        if (used[id])
            rc = push_on(c, gpu, id, e);
    for (int64_t i = 0; i < c->ngroups && !rc; i++)
        if (is_here(&c->groups[i]))
            rc = fill_outs(c, &c->groups[i], e);
    return rc;
}
