/* The operation push: it decides how each group is worked on, and works on its elements. */
#include <string.h>

#include "array/gpu_list.h"
#include "array/mirror.h"
#include "array/sparse.h"
#include "base/compiler.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/call.h"
#include "core/store.h"

/* ---- Sums of row_sparse values ----
 *
 * How much memory such a sum takes depends on the rows of the values, so the sum is made while the
 * push may still fail. */

/* Makes the elements of values current in host memory. */
static int bring_values(kv_array *const *values, int64_t n, kv_err *e)
{
    for (int64_t i = 0; i < n; i++)
        TRY(mirror_host(values[i], MIRROR_READ, e));
    return KV_OK;
}

/* Sums of keys on GPUs are only listed. A rule reads a single value of the right dtype in place. */
static int sum_sparse(const call *c, call_group *g, bool rule, gpu_list *listed, kv_err *e)
{
    const kv_array *stored = call_slot(c, g)->stored;
    kv_array *const *values = c->values + g->first;
    for (int64_t i = 0; i < g->n; i++)
        engine_wait_read(array_var(values[i]));
    kv_dtype dtype = stored ? stored->dtype : values[0]->dtype;
    if (g->n == 1 && g->same_dtype && rule) {
        g->sum = kv_array_ref(values[0]);
        return KV_OK;
    }
    if (!mirror_needed(g->ctx))
        return sparse_sum(&g->sum, values, g->n, dtype, g->ctx, e);
    TRY(listed->gpu ? KV_OK : gpu_list_begin(listed, e));
    return sparse_gpu_sum(listed, &g->sum, values, g->n, dtype, g->ctx, e);
}

/* The sum of dense copies. */
static int sum_copies(kv_array **out, call *c, const call_group *g, kv_array **copies, kv_err *e)
{
    const kv_array *stored = call_slot(c, g)->stored, *like = stored ? stored : copies[0];
    const void **data = c->data + g->first;
    for (int64_t i = 0; i < g->n; i++)
        data[i] = copies[i]->data;
    TRY(apply_reserve(&c->work, 1, g->n, 0, 0, e));
    TRY(kv_array_new_raw(out, like->dtype, like->ndim, array_shape(like), g->ctx, e));
    apply_values v = {copies, data, g->n, g->same_dtype, NULL};
    apply_sum(*out, &v, 0, like->size, false, &c->work, 0);
    return KV_OK;
}

/* Values of both storages: their sum, a default array, becomes the one value of the group. */
static int sum_mixed(call *c, call_group *g, kv_err *e)
{
    if (c->values != c->list)
        memcpy(c->list, c->values, (size_t)c->nvalues * sizeof *c->list);
    c->values = c->list;
    kv_array **copies = mem_zalloc(g->n, sizeof *copies, e);
    int rc = copies ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < g->n && !rc; i++)
        rc = kv_array_to_dense(&copies[i], c->list[g->first + i], e);
    if (!rc)
        rc = bring_values(copies, g->n, e);
    if (!rc)
        rc = sum_copies(&g->dense, c, g, copies, e);
    for (int64_t i = 0; copies && i < g->n; i++)
        kv_array_unref(copies[i]);
    mem_free(copies);
    if (rc)
        return rc;
    c->list[g->first] = g->dense;
    c->data[g->first] = g->dense->data;
    g->n = 1;
    g->same_dtype = true;
    return KV_OK;
}

/* ASSIGN of default values to a key that is row_sparse: the sum loses its rows of zeros. */
static int sum_to_sparse(call *c, call_group *g, kv_err *e)
{
    const kv_array *stored = call_slot(c, g)->stored;
    own_array *sum = NULL;
    apply_values v = {c->values + g->first, c->data + g->first, g->n, g->same_dtype, NULL};
    TRY(apply_reserve(&c->work, 1, g->n, 0, 0, e));
    for (int64_t i = 0; i < g->n; i++)
        engine_wait_read(array_var(v.items[i]));
    TRY(bring_values(v.items, g->n, e));
    TRY(kv_array_new_raw(&sum, stored->dtype, stored->ndim, array_shape(stored), g->ctx, e));
    apply_sum(sum, &v, 0, sum->size, false, &c->work, 0);
    return kv_array_to_sparse(&g->sum, sum, e);
}

static int prepare_sparse_group(call *c, call_group *g, updater_kind kind, gpu_list *listed,
                                kv_err *e)
{
    const kv_array *stored = call_slot(c, g)->stored;
    TRY(g->mixed ? sum_mixed(c, g, e) : KV_OK);
    if (g->sparse)
        TRY(sum_sparse(c, g, kind == UPDATER_RULE, listed, e));
    else if (kind == UPDATER_ASSIGN && stored && stored->storage == KV_ROW_SPARSE)
        TRY(sum_to_sparse(c, g, e));
    if (kind == UPDATER_ASSIGN && g->sum) {
        g->fresh = g->sum;
        g->sum = NULL;
    }
    return KV_OK;
}

/* Makes the sums of the groups that have row_sparse values or a row_sparse key, and waits for the
 * values where an operation writes them. Behind it such a group has a sum of rows, a fresh array or
 * one dense value. */
static int push_sum_sparse(call *c, kv_err *e)
{
    updater_kind kind = c->store->updater.kind;
    own_gpu_list listed = {0};
    c->owns = true;
    for (int64_t i = 0; i < c->ngroups; i++)
        TRY(prepare_sparse_group(c, &c->groups[i], kind, &listed, e));
    return gpu_list_run(&listed, e);
}

/* ---- Before the push ---- */

static call_work rule_work(const call_group *g)
{
    const rule_update *u = g->update;
    const int64_t *rows = u->rows_present && g->sum ? array_rows(g->sum) : NULL;
    bool copies = g->source != NULL, full = !copies || sparse_is_full(g->source);
    if (!u->plan)
        return copies ? CALL_RULE_WHOLE : CALL_NOTHING;
    if (plan_splits(u->plan, rows) && full)
        return CALL_RULE;
    return copies || plan_is_parallel(g->target->size) ? CALL_RULE_WHOLE : CALL_RULE_UNIT;
}

/* The one decision how a group is worked on, before GPUs take what they can. Values that are
 * compressed are summed by compress.c in any case; with ASSIGN that is all. */
static call_work work_of(const call_group *g, updater_kind kind, bool compressed)
{
    switch (kind) {
    case UPDATER_ASSIGN:
        if (!g->target) /* the sum of rows is the new array */
            return CALL_NOTHING;
        return compressed ? CALL_CODES : CALL_SUM;
    case UPDATER_CALLBACK:
        return CALL_CALLBACK;
    case UPDATER_RULE:
        return rule_work(g);
    }
    return CALL_NOTHING;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Decides the work of all groups, cuts it into parts and takes its scratch memory. */
static int prepare_work(call *c, kv_err *e)
{
    updater_kind kind = c->store->updater.kind;
    int64_t part = 0, whole = 0;
    bool split = true, compressed = c->compress.state;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        g->work = (uint8_t)work_of(g, kind, compressed);
        split &= call_is_split(g);
        const plan *p = g->update ? g->update->plan : NULL;
        if (p && g->work == CALL_RULE_WHOLE)
            whole = larger(whole, apply_plan_bytes(p, g->target->size, g->n));
        else if (p)
            part = larger(part, apply_plan_bytes(p, call_is_split(g) ? 1 : g->target->size, g->n));
    }
    if (!split)
        call_drop_outs(c);
    TRY(call_cut_work(c, e));
    int workers = c->ncuts > 1 ? pool_workers() : 1;
    return apply_reserve(&c->work, workers, c->max_values, part, whole, e);
}

/* Does every step of a push that can fail, except the updater in C. */
static int prepare(call *c, kv_err *e)
{
    kv *s = c->store;
    bool assigns = s->updater.kind == UPDATER_ASSIGN;
    int flags = assigns ? CALL_CREATE : CALL_UPDATE;
    if (s->follows_gpus)
        flags |= CALL_FOLLOW_GPU;
    if (c->results && s->updater.kind != UPDATER_CALLBACK && !s->compression.code)
        call_expect_outs(c);
    TRY(call_group_pairs(c, flags, e));
    if (s->check_push)
        TRY(s->check_push(c, e));
    if (c->results)
        call_take_outs(c);
    TRY(compress_prepare(&s->compression, assigns, c, e));
    if (c->sparse)
        TRY(push_sum_sparse(c, e));
    TRY(updater_prepare(c, e));
    if (c->gpus)
        TRY(call_gpu_prepare(c, e));
    TRY(prepare_work(c, e));
    if (c->nouts > 0)
        call_trace_rename(c, "pushpull");
    return KV_OK;
}

static bool commit(call *c)
{
    compress_commit(c);
    bool prints = updater_commit(c);
    call_commit(c);
    c->store->changes++; /* also when a callback refuses: it does so for its own key only */
    return prints;
}

/* ---- The elements ---- */

static apply_values values_of(const call *c, const call_group *g)
{
    return (apply_values){c->values + g->first, c->data + g->first, g->n, g->same_dtype, g->sum};
}

static void sum_range(call *c, const call_group *g, int64_t from, int64_t n, int worker)
{
    apply_values v = values_of(c, g);
    bool far = call_is_far(c, n);
    if (g->nouts == 0) {
        apply_sum(g->target, &v, from, n, far, &c->work, worker);
        return;
    }
    apply_outs outs = {c->outs + g->first_out, g->nouts};
    apply_sum_spread(g->target, &outs, &v, from, n, far, &c->work, worker);
}

/* Outs are filled chunk by chunk, while the elements are in the caches. */
static void update_range(call *c, const call_group *g, int64_t from, int64_t n, int worker)
{
    apply_values v = values_of(c, g);
    int64_t block = g->nouts > 0 ? PLAN_CHUNK : n;
    plan_arrays a = {0};
    updater_plan_arrays(c, g, &a);
    for (int64_t i = from, end = from + n, m; i < end; i += m) {
        m = end - i < block ? end - i : block;
        if (g->source)
            apply_copy_part(g->target, g->source, i, m, false);
        apply_plan_part(g->update->plan, g->target, &v, &a, i, m, &c->work, worker);
        if (g->nouts > 0)
            apply_spread_part(&(apply_outs){c->outs + g->first_out, g->nouts}, g->target, i, m,
                              call_is_far(c, m));
    }
}

/* Runs the rule on all elements of a group. */
static void run_rule(call *c, call_group *g, int worker)
{
    apply_values v = values_of(c, g);
    plan_arrays a = {0};
    if (g->source)
        sparse_move(g->target, g->source);
    if (!g->update->plan)
        return;
    updater_plan_arrays(c, g, &a);
    apply_plan(g->update->plan, g->target, &v, g->update->rows_present, &a, &c->work, worker);
}

/* Prefetches what the groups that come next will touch: headers first, then elements. */
static void look_ahead(const call *c, int64_t i, int64_t last)
{
    if (i + 2 * CALL_AHEAD < last && c->groups[i + 2 * CALL_AHEAD].target)
        call_prefetch(c->groups[i + 2 * CALL_AHEAD].target);
    if (i + CALL_AHEAD >= last)
        return;
    const call_group *g = &c->groups[i + CALL_AHEAD];
    const optimizer_step *step = updater_step(c, g);
    if (g->target)
        prefetch_write(g->target->data);
    for (int64_t j = 0; j < g->n && j < CALL_AHEAD_ARRAYS; j++)
        prefetch(c->data[g->first + j]);
    for (int j = 0; step && j < step->nstates && j < UPDATER_AHEAD_STATES; j++)
        prefetch_write(step->states[j].data);
}

static void run_part(void *arg, int64_t part, int worker)
{
    call *c = arg;
    const call_cut *cut = &c->cuts[part], *end = cut + 1;
    int64_t last = end->item + (end->from > 0), from = cut->from;
    for (int64_t i = cut->item; i < last; i++, from = 0) {
        call_group *g = &c->groups[i];
        look_ahead(c, i, last);
        if (!call_has_parts(g))
            continue;
        int64_t n = (i == end->item ? end->from : g->target->size) - from;
        if (c->compress.state)
            compress_part(c, g, from, n);
        if (g->work == CALL_CODES)
            continue;
        int64_t begin = call_trace_begin(c);
        if (g->work == CALL_SUM)
            sum_range(c, g, from, n, worker);
        else if (g->work == CALL_RULE)
            update_range(c, g, from, n, worker);
        else
            run_rule(c, g, worker);
        call_trace_part(c, begin, g->work == CALL_SUM ? "sum" : "update", &g->key, g->target, from,
                        n);
    }
    call_end_groups(c, cut->item, last);
}

/* ---- Updaters in C ---- */

/* Takes the error of an updater in C that refused a key. The old array stays as it was. */
static int refused(call_group *g, int rc, kv_err *why, kv_err *e)
{
    if (g->source)
        sparse_move(g->target, g->source);
    if (!why->code)
        kv_err_set(why, rc > 0 && rc < KV_NCODES ? (kv_code)rc : KV_E_VALUE,
                   "the updater refused key %s (code %d)", SLOT_KEY(&g->key), rc);
    kv_err_key(why, &g->key);
    if (e && !e->code)
        *e = *why;
    return why->code;
}

/* A result that the callback holds on to cannot give its elements away. */
static int run_callback(call *c, call_group *g, kv_err *e)
{
    const updater *u = &((const updater_part *)c->update.state)->updater;
    apply_values v = values_of(c, g);
    kv_err why = {0};
    int64_t begin = call_trace_begin(c), summed;
    kv_assert(g->input && g->result && g->result->size == g->target->size,
              "group %lld runs a callback, and prepare_callback made no arrays for it",
              (long long)(g - c->groups));
    if (!g->sparse)
        apply_sum(g->input, &v, 0, g->input->size, false, &c->work, 0);
    call_trace_part(c, begin, "sum", &g->key, g->input, 0, g->input->size);
    summed = call_trace_begin(c);
    sparse_move(g->result, g->source ? g->source : g->target);
    int rc = u->call(u->arg, &g->key, g->input, g->result, &why);
    call_trace_part(c, summed, "update", &g->key, g->result, 0, g->result->size);
    if (rc)
        return refused(g, rc, &why, e);
    if (kv_array_refs(g->result) > 1)
        sparse_move(g->target, g->result);
    else
        array_swap(g->target, g->result);
    return KV_OK;
}

/* Groups that take all threads, or none but this one, in their order. A callback's refusal concerns
 * its own key: the others are updated all the same. */
static int run_whole(call *c, kv_err *e)
{
    int first = KV_OK, rc;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        if (g->work == CALL_RULE_WHOLE) {
            int64_t begin = call_trace_begin(c);
            run_rule(c, g, 0);
            call_trace_part(c, begin, "update", &g->key, g->target, 0, g->target->size);
        } else if (g->work != CALL_CALLBACK) {
            continue;
        } else if ((rc = run_callback(c, g, e)) && !first) {
            first = rc;
        }
        call_end_uses(c, i, 1);
    }
    return first;
}

static int run(call *c, kv_err *e)
{
    bool all = false;
    int rc = c->gpus ? call_gpu_push(c, &all, e) : KV_OK;
    if (!rc && !all) {
        if (c->compress.state)
            compress_whole(c);
        if (c->ncuts == 1)
            run_part(c, 0, 0);
        else
            pool_run(c->ncuts, run_part, c);
        if (c->update.state)
            rc = run_whole(c, e);
    }
    return rc || !c->update.state ? rc : updater_print(c, e);
}

/* ---- Batches ---- */

static bool fits(const kv *store, const slot *s, const kv_array *a)
{
    return !store->compression.code && updater_is_plain(&store->updater, s) &&
           kv_array_refs(s->stored) == 1 && !(store->follows_gpus && a->ctx.device == KV_GPU);
}

static int begin_batches(call *c, kv_err *e)
{
    return updater_begin_batches(c, BATCH_VALUES, e);
}

static void prepare_batch(call *c)
{
    if (c->results)
        call_expect_outs(c);
    int rc = call_group_pairs(c, CALL_UPDATE, NULL);
    kv_assert(rc == KV_OK, "a batch of %lld pairs fails (%s), and all pairs were checked",
              (long long)c->nvalues, kv_code_name(rc));
    if (c->results)
        call_take_outs(c);
    kv_assert(!c->results || c->nouts > 0,
              "%lld outs receive nothing from their batch, and no pull follows it",
              (long long)c->nvalues);
}

static void run_batch(call *c)
{
    updater_commit_batch(c);
    call_work work = c->update.state ? CALL_RULE : CALL_SUM;
    for (int64_t i = 0; i < c->ngroups; i++)
        c->groups[i].work = (uint8_t)work;
    run_part(c, 0, 0);
}

const call_ops push_ops = {.name = "push",
                           .prepare = prepare,
                           .commit = commit,
                           .run = run,
                           .fits = fits,
                           .begin_batches = begin_batches,
                           .prepare_batch = prepare_batch,
                           .run_batch = run_batch,
                           .end_batches = updater_end_batches};
