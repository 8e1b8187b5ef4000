/* ASSIGN, C callbacks and rules. */
#include "core/updater.h"

#include <string.h>

#include "array/mirror.h"
#include "array/sparse.h"
#include "array/sparse_gpu.h"
#include "base/mem.h"
#include "core/call_gpu.h"
#include "core/call_outs.h"
#include "core/call_trace.h"
#include "core/compress.h"
#include "core/slot_state.h"

/* ---- The updater itself ---- */

int updater_init_rule(updater *u, const kv_rule *rule, const kv_opt *params, int nparams, kv_err *e)
{
    optimizer *made;
    int rc = optimizer_new(&made, rule, params, nparams, e);
    if (rc == KV_OK)
        *u = (updater){.kind = UPDATER_RULE, .optimizer = made};
    return rc;
}

void updater_release(updater *u)
{
    optimizer_free(u->optimizer);
    if (u->done)
        u->done(u->arg);
    *u = (updater){0};
}

const char *updater_name(const updater *u)
{
    switch (u->kind) {
    case UPDATER_ASSIGN:
        return "assign";
    case UPDATER_CALLBACK:
        return "callback";
    case UPDATER_RULE:
        return u->optimizer->rule->ast->nnames ? u->optimizer->rule->ast->names[0] : "rule";
    }
    return "";
}

/* ---- Before a push ---- */

/* What a push has beside its groups, behind call.update. */
typedef struct push {
    updater updater; /* as it is now */
    optimizer_draft draft;
    optimizer_step *steps; /* one a group, of a rule that is not constant; */
    int64_t nsteps;        /* prepared so far */
    const printed_to *to;  /* who gets the lines that the steps print; NULL where there are none */
} push;

enum { KEPT_STEPS = 256 << 10 }; /* 84 MB; more are given back after the call */

static void release_push(call *c)
{
    push *p = c->update.state;
    for (int64_t i = 0; i < p->nsteps; i++)
        optimizer_release_step(&p->steps[i]);
    if (c->steps_cap > KEPT_STEPS) {
        mem_free(c->steps);
        c->steps = NULL;
        c->steps_cap = 0;
    }
    mem_free(p);
}

static int new_push_state(call *c, const updater *u, kv_err *e)
{
    push *p = mem_alloc(1, sizeof *p, e);
    if (!p)
        return KV_E_MEMORY;
    p->updater = *u;
    p->steps = NULL;
    p->nsteps = 0;
    p->to = NULL;
    c->update = (call_part){p, release_push};
    return KV_OK;
}

static int prepare_group(call *c, int64_t i, kv_err *e)
{
    push *p = c->update.state;
    optimizer *o = p->updater.optimizer;
    call_group *g = &c->groups[i];
    slot *s = call_slot(c, g);
    if (o->constant) {
        g->update = optimizer_constant(o, &p->draft, s, &g->t, e);
        return g->update ? KV_OK : kv_err_key(e, slot_own_key(s));
    }
    int rc = optimizer_prepare(o, &p->draft, s, g->ctx, g->sparse, &p->steps[i], e);
    if (!rc && ++p->nsteps)
        rc = printed_make(&p->steps[i].printed, &p->steps[i].made->u, s, g->sum, e);
    g->update = rc ? NULL : &p->steps[i].made->u;
    return rc;
}

enum { AHEAD_STATES = 2 }; /* of a key, that are asked for ahead: few optimizers have more */

/* Asks for what the groups that come next keep: headers, then the states, then their headers. */
static void look_ahead_states(const call *c, int64_t i)
{
    const slot *s = i + 2 * CALL_AHEAD < c->ngroups ? call_slot(c, &c->groups[i + 2 * CALL_AHEAD])
                                                    : NULL;
    if (s && s->stored)
        call_prefetch(s->stored);
    if (s && s->state)
        __builtin_prefetch(s->state);
    s = i + CALL_AHEAD < c->ngroups ? call_slot(c, &c->groups[i + CALL_AHEAD]) : NULL;
    for (int j = 0; s && s->state && j < AHEAD_STATES; j++)
        if (s->state->arrays[j])
            __builtin_prefetch(s->state->arrays[j]);
}

static int prepare_rule(call *c, kv_err *e)
{
    push *p = c->update.state;
    int rc = KV_OK;
    if (!p->updater.optimizer->constant) {
        rc = mem_grow(&c->steps, &c->steps_cap, c->ngroups, sizeof *c->steps, e);
        p->steps = c->steps;
    }
    optimizer_begin(p->updater.optimizer, &p->draft);
    for (int64_t i = 0; i < c->ngroups && !rc; i++) {
        look_ahead_states(c, i);
        rc = prepare_group(c, i, e);
    }
    return rc;
}

/* Arrays of the shape and dtype of what a group stores, in the context where it will stand. */
static int prepare_callback(call *c, engine_var *callbacks, kv_err *e)
{
    c->owns = true;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        const kv_array *like = g->target;
        int rc = sparse_new_full(&g->result, like, g->ctx, e);
        if (!rc && g->sparse)
            g->input = kv_array_ref(g->sum);
        else if (!rc)
            rc = kv_array_new_raw(&g->input, like->dtype, like->ndim, like->shape, g->ctx, e);
        if (rc)
            return rc;
    }
    c->uses[c->op.nuses++] = (engine_use){.var = callbacks, .write = true};
    c->op.foreign = true;
    return KV_OK;
}

/* ---- row_sparse ---- */

/* Makes the elements of values current in host memory. */
static int bring_values(kv_array *const *values, int64_t n, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < n && !rc; i++)
        rc = mirror_host(values[i], MIRROR_READ, e);
    return rc;
}

/* How much memory a sum of row_sparse values takes depends on their rows, so it is made now, before
 * anything is written; those of keys on GPUs are only listed. A rule reads a single value of the
 * right dtype where it is. */
static int sum_sparse(const call *c, call_group *g, bool rule, sparse_sums *listed, kv_err *e)
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
    int rc = listed->sums.gpu ? KV_OK : sparse_sums_begin(listed, e);
    return rc ? rc : sparse_sums_add(listed, &g->sum, values, g->n, dtype, g->ctx, e);
}

/* The sum of dense copies. */
static int sum_copies(kv_array **out, call *c, const call_group *g, kv_array **copies, kv_err *e)
{
    const kv_array *stored = call_slot(c, g)->stored, *like = stored ? stored : copies[0];
    const void **data = c->data + g->first;
    for (int64_t i = 0; i < g->n; i++)
        data[i] = copies[i]->data;
    int rc = apply_reserve(&c->work, 1, g->n, 0, 0, e);
    if (!rc)
        rc = kv_array_new_raw(out, like->dtype, like->ndim, like->shape, g->ctx, e);
    apply_values v = {copies, data, g->n, g->same_dtype, NULL};
    if (!rc)
        apply_sum(*out, &v, 0, like->size, false, &c->work, 0);
    return rc;
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
    kv_array *sum = NULL;
    apply_values v = {c->values + g->first, c->data + g->first, g->n, g->same_dtype, NULL};
    int rc = apply_reserve(&c->work, 1, g->n, 0, 0, e);
    for (int64_t i = 0; i < g->n && !rc; i++)
        engine_wait_read(array_var(v.items[i]));
    if (!rc)
        rc = bring_values(v.items, g->n, e);
    if (!rc)
        rc = kv_array_new_raw(&sum, stored->dtype, stored->ndim, stored->shape, g->ctx, e);
    if (rc)
        return rc;
    apply_sum(sum, &v, 0, sum->size, false, &c->work, 0);
    rc = kv_array_to_sparse(&g->sum, sum, e);
    kv_array_unref(sum);
    return rc;
}

static int prepare_sparse_group(call *c, call_group *g, updater_kind kind, sparse_sums *listed,
                                kv_err *e)
{
    const kv_array *stored = call_slot(c, g)->stored;
    int rc = g->mixed ? sum_mixed(c, g, e) : KV_OK;
    if (rc)
        return rc;
    if (g->sparse)
        rc = sum_sparse(c, g, kind == UPDATER_RULE, listed, e);
    else if (kind == UPDATER_ASSIGN && stored && stored->storage == KV_ROW_SPARSE)
        rc = sum_to_sparse(c, g, e);
    if (!rc && kind == UPDATER_ASSIGN && g->sum) {
        g->fresh = g->sum;
        g->sum = NULL;
    }
    return rc;
}

static int prepare_sparse(call *c, updater_kind kind, kv_err *e)
{
    sparse_sums listed = {0};
    int rc = KV_OK;
    c->owns |= c->sparse;
    for (int64_t i = 0; c->sparse && i < c->ngroups && !rc; i++)
        rc = prepare_sparse_group(c, &c->groups[i], kind, &listed, e);
    if (listed.sums.gpu) {
        rc = rc ? rc : sparse_sums_run(&listed, e);
        sparse_sums_release(&listed);
    }
    return rc;
}

/* ---- How the work is cut ---- */

static call_share share_rule(const call_group *g)
{
    const rule_update *u = g->update;
    const int64_t *rows = u->rows_present && g->sum ? g->sum->rows : NULL;
    bool copies = g->source != NULL, full = !copies || sparse_is_full(g->source);
    if (!u->plan)
        return copies ? CALL_WHOLE : CALL_NOTHING;
    if (plan_splits(u->plan, rows) && full)
        return CALL_SPLIT;
    return copies || plan_is_parallel(g->target->size) ? CALL_WHOLE : CALL_UNIT;
}

static call_share share_of(const call_group *g, updater_kind kind)
{
    switch (kind) {
    case UPDATER_ASSIGN:
        return g->target ? CALL_SPLIT : CALL_NOTHING;
    case UPDATER_CALLBACK:
        return CALL_WHOLE;
    case UPDATER_RULE:
        return share_rule(g);
    }
    return CALL_NOTHING;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int prepare_work(call *c, updater_kind kind, kv_err *e)
{
    int64_t part = 0, whole = 0;
    bool split = true;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        g->share = (uint8_t)share_of(g, kind);
        split &= g->share == CALL_SPLIT;
        const plan *p = g->update ? g->update->plan : NULL;
        if (p && g->share == CALL_WHOLE)
            whole = larger(whole, apply_plan_bytes(p, g->target->size, g->n));
        else if (p)
            part = larger(part,
                          apply_plan_bytes(p, g->share == CALL_SPLIT ? 1 : g->target->size, g->n));
    }
    if (!split)
        call_drop_outs(c);
    int rc = call_cut_work(c, e);
    int workers = c->ncuts > 1 ? pool_workers() : 1;
    return rc ? rc : apply_reserve(&c->work, workers, c->max_values, part, whole, e);
}

int updater_prepare(updater *u, call *c, engine_var *callbacks, kv_err *e)
{
    int rc = prepare_sparse(c, u->kind, e);
    if (!rc && u->kind != UPDATER_ASSIGN)
        rc = new_push_state(c, u, e);
    if (!rc && u->kind == UPDATER_CALLBACK)
        rc = prepare_callback(c, callbacks, e);
    if (!rc && u->kind == UPDATER_RULE)
        rc = prepare_rule(c, e);
    if (!rc && c->gpus)
        rc = call_gpu_prepare(c, e);
    return rc ? rc : prepare_work(c, u->kind, e);
}

/* ---- The store's part ---- */

bool updater_commit(call *c, const printed_to *to)
{
    push *p = c->update.state;
    optimizer *o = p ? p->updater.optimizer : NULL;
    bool prints = false;
    for (int64_t i = 0; i < c->ngroups; i++) {
        slot *s = call_slot(c, &c->groups[i]);
        if (o)
            look_ahead_states(c, i);
        s->pushes++;
        if (!o)
            continue;
        if (!p->steps) {
            s->updates = c->groups[i].t;
            continue;
        }
        optimizer_commit_step(o, &p->steps[i], s);
        prints |= to->line && p->steps[i].made->u.printed.len > 0;
    }
    if (o)
        optimizer_commit(o, &p->draft);
    if (prints)
        p->to = to;
    call_commit(c);
    return prints;
}

/* ---- The element work ---- */

/* Chunks of a rule's work between two copies to the outs: with values and states they are small
 * beside the cache next to a processor, and many beside what a plan costs to set up. */
enum { SPREAD_CHUNKS = 4 };

static apply_values values_of(const call *c, const call_group *g)
{
    return (apply_values){c->values + g->first, c->data + g->first, g->n, g->same_dtype, g->sum};
}

static const optimizer_step *step_of(const call *c, const call_group *g)
{
    const push *p = c->update.state;
    return p->steps ? &p->steps[g - c->groups] : NULL;
}

/* The arrays that a rule works on. */
static void rule_arrays(const call *c, const call_group *g, plan_arrays *a)
{
    const push *p = c->update.state;
    const optimizer_step *step = step_of(c, g);
    kv_array *held = step && step->weight_master ? step->weight_master : g->target;
    *a = (plan_arrays){.stored = held->data,
                       .stored_dtype = kv_array_dtype(held),
                       .weight = g->target->data,
                       .weight_dtype = kv_array_dtype(g->target),
                       .far = call_is_far(c, g->target->size),
                       .seed = p->updater.optimizer->seed ^ slot_hash(&g->key),
                       .t = step ? step->t : g->t};
    if (!step)
        return;
    for (int i = 0; i < step->nstates; i++)
        a->states[i] = step->states[i].data;
    printed_arrays(&step->printed, a);
}

bool updater_rule_arrays(const call *c, const call_group *g, updater_arrays *out)
{
    const push *p = c->update.state;
    if (!p || p->updater.kind != UPDATER_RULE || !g->update || !g->update->plan)
        return false;
    const optimizer_step *step = step_of(c, g);
    *out = (updater_arrays){.held = g->target};
    rule_arrays(c, g, &out->plan);
    if (!step)
        return true;
    out->held = step->weight_master ? step->weight_master : g->target;
    out->prints = step->printed.n > 0;
    for (int i = 0; i < step->nstates; i++) {
        if (!step->states[i].array)
            continue;
        out->items[out->n] = step->states[i].array;
        out->number[out->n++] = i;
    }
    return true;
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

/* Outs are filled from what the caches still hold. */
static void update_range(call *c, const call_group *g, int64_t from, int64_t n, int worker)
{
    apply_values v = values_of(c, g);
    int64_t block = g->nouts > 0 ? SPREAD_CHUNKS * PLAN_CHUNK : n;
    plan_arrays a;
    rule_arrays(c, g, &a);
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

/* A range of one group that is split. */
static void run_range(call *c, const call_group *g, int64_t from, int64_t n, int worker)
{
    if (c->update.state)
        update_range(c, g, from, n, worker);
    else
        sum_range(c, g, from, n, worker);
}

/* All of a group by a rule. */
static void run_rule(call *c, call_group *g, int worker)
{
    apply_values v = values_of(c, g);
    plan_arrays a;
    if (g->source)
        apply_copy(g->target, g->source);
    if (!g->update->plan)
        return;
    rule_arrays(c, g, &a);
    apply_plan(g->update->plan, g->target, &v, g->update->rows_present, &a, &c->work, worker);
}

/* Compressed values are summed first. Where the sum is what is stored that is all. */
static bool run_compressed(const call *c, const call_group *g, int64_t from, int64_t n)
{
    if (c->compress.state)
        compress_part(c, g, from, n);
    return c->compress.state && !c->update.state;
}

static inline void run_item(call *c, call_group *g, int64_t from, int64_t n, int worker)
{
    if (g->share == CALL_SPLIT)
        run_range(c, g, from, n, worker);
    else if (g->share == CALL_UNIT)
        run_rule(c, g, worker);
}

/* The same for a profile. */
static __attribute__((noinline)) void run_item_traced(call *c, call_group *g, int64_t from,
                                                      int64_t n, int worker)
{
    int64_t begin = call_trace_begin(c);
    run_item(c, g, from, n, worker);
    if (g->share == CALL_SPLIT || g->share == CALL_UNIT)
        call_trace_part(c, begin, c->update.state ? "update" : "sum", &g->key, g->target, from, n);
}

/* Asks for what the groups that come next will touch: headers first, then elements. */
static void look_ahead(const call *c, int64_t i, int64_t last)
{
    if (i + 2 * CALL_AHEAD < last && c->groups[i + 2 * CALL_AHEAD].target)
        call_prefetch(c->groups[i + 2 * CALL_AHEAD].target);
    if (i + CALL_AHEAD >= last)
        return;
    const call_group *g = &c->groups[i + CALL_AHEAD];
    const optimizer_step *step = c->update.state ? step_of(c, g) : NULL;
    if (g->target)
        __builtin_prefetch(g->target->data, 1);
    for (int64_t j = 0; j < g->n && j < CALL_AHEAD_ARRAYS; j++)
        __builtin_prefetch(c->data[g->first + j]);
    for (int j = 0; step && j < step->nstates && j < AHEAD_STATES; j++)
        __builtin_prefetch(step->states[j].data, 1);
}

static void run_part(void *arg, int64_t part, int worker)
{
    call *c = arg;
    const call_cut *cut = &c->cuts[part], *end = cut + 1;
    int64_t last = end->item + (end->from > 0), from = cut->from;
    for (int64_t i = cut->item; i < last; i++, from = 0) {
        call_group *g = &c->groups[i];
        look_ahead(c, i, last);
        if (g->share == CALL_NOTHING || g->share == CALL_ON_GPU)
            continue;
        int64_t n = (i == end->item ? end->from : g->target->size) - from;
        if (run_compressed(c, g, from, n))
            continue;
        if (c->op.trace)
            run_item_traced(c, g, from, n, worker);
        else
            run_item(c, g, from, n, worker);
    }
    call_end_groups(c, cut->item, last);
}

/* ---- C callbacks ---- */

/* The old array stays as it was. */
static int refused(call_group *g, int rc, kv_err *why, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    if (g->source)
        apply_copy(g->target, g->source);
    if (!why->code)
        kv_err_set(why, rc > 0 && rc < KV_NCODES ? (kv_code)rc : KV_E_VALUE,
                   "the updater refused key %s (code %d)", slot_key_text(text, &g->key), rc);
    kv_err_key(why, &g->key);
    if (e && !e->code)
        *e = *why;
    return why->code;
}

/* A result that the callback holds on to cannot give its elements away. */
static int run_callback(call *c, call_group *g, kv_err *e)
{
    const push *p = c->update.state;
    apply_values v = values_of(c, g);
    kv_err why = {0};
    int64_t begin = call_trace_begin(c), summed;
    if (!g->sparse)
        apply_sum(g->input, &v, 0, g->input->size, false, &c->work, 0);
    call_trace_part(c, begin, "sum", &g->key, g->input, 0, g->input->size);
    summed = call_trace_begin(c);
    apply_copy(g->result, g->source ? g->source : g->target);
    int rc = p->updater.call(p->updater.arg, &g->key, g->input, g->result, &why);
    call_trace_part(c, summed, "update", &g->key, g->result, 0, g->result->size);
    if (rc)
        return refused(g, rc, &why, e);
    if (kv_array_refs(g->result) > 1)
        apply_copy(g->target, g->result);
    else
        array_swap(g->target, g->result);
    return KV_OK;
}

/* Groups that take all threads, or none but this one, in their order. A callback's refusal concerns
 * its own key: the others are updated all the same. */
static int run_whole(call *c, kv_err *e)
{
    const push *p = c->update.state;
    int first = KV_OK, rc;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        if (g->share != CALL_WHOLE)
            continue;
        if (p->updater.kind == UPDATER_RULE) {
            int64_t begin = call_trace_begin(c);
            run_rule(c, g, 0);
            call_trace_part(c, begin, "update", &g->key, g->target, 0, g->target->size);
        } else if ((rc = run_callback(c, g, e)) && !first) {
            first = rc;
        }
        call_end_uses(c, i, 1);
    }
    return first;
}

/* What the updates printed, when all of them have happened. */
static int deliver(const call *c, kv_err *e)
{
    const push *p = c->update.state;
    int first = KV_OK;
    for (int64_t i = 0; p->to && i < c->ngroups; i++) {
        int rc = printed_lines(&p->steps[i].printed, &p->steps[i].made->u, p->to, first ? NULL : e);
        first = first ? first : rc;
    }
    return first;
}

int updater_end(const call *c, kv_err *e)
{
    return c->update.state ? deliver(c, e) : KV_OK;
}

int updater_run(call *c, kv_err *e)
{
    if (c->ncuts == 1)
        run_part(c, 0, 0);
    else
        pool_run(c->ncuts, run_part, c);
    if (!c->update.state)
        return KV_OK;
    int rc = run_whole(c, e);
    return rc ? rc : deliver(c, e);
}

/* ---- Batches ---- */

bool updater_is_plain(const updater *u, const slot *s)
{
    optimizer_draft d;
    int64_t t;
    if (u->kind != UPDATER_RULE)
        return u->kind == UPDATER_ASSIGN;
    optimizer_begin(u->optimizer, &d);
    return optimizer_known(u->optimizer, &d, s, &t) != NULL;
}

int updater_begin_batches(const updater *u, call *c, int64_t max_values, kv_err *e)
{
    bool rule = u->kind == UPDATER_RULE;
    int64_t part = rule ? optimizer_known_bytes(u->optimizer, max_values) : 0;
    int rc = apply_reserve(&c->work, 1, max_values, part, 0, e);
    if (rc || !rule || (rc = new_push_state(c, u, e)))
        return rc;
    push *p = c->update.state;
    optimizer_begin(u->optimizer, &p->draft);
    return KV_OK;
}

void updater_run_batch(call *c)
{
    push *p = c->update.state;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        slot *s = call_slot(c, g);
        g->share = CALL_SPLIT;
        s->pushes++;
        if (!p)
            continue;
        g->update = optimizer_known(p->updater.optimizer, &p->draft, s, &g->t);
        s->updates = g->t;
    }
    run_part(c, 0, 0);
}

void updater_end_batches(const updater *u, const call *c)
{
    const push *p = c->update.state;
    if (p && p->draft.num_update > u->optimizer->num_update)
        u->optimizer->num_update = p->draft.num_update;
}
