/* ASSIGN, C callbacks and rules. */
#include "core/updater.h"

#include <string.h>

#include "array/sparse.h"
#include "base/mem.h"

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

static int prepare_group(updater_push *p, int64_t i, kv_err *e)
{
    optimizer *o = p->updater->optimizer;
    call_group *g = &p->call->groups[i];
    slot *s = call_slot(p->call, g);
    if (o->constant)
        return (g->update = optimizer_constant(o, &p->draft, s, &g->t, e)) ? KV_OK
                                                                           : kv_err_key(e, &s->key);
    int rc = optimizer_prepare(o, &p->draft, s, g->sparse, &p->steps[i], e);
    if (!rc)
        rc = printed_make(&p->steps[i].printed, &p->steps[i].own, s, g->sum, e);
    g->update = rc ? NULL : &p->steps[i].own;
    return rc;
}

static int prepare_rule(updater_push *p, int64_t *program_bytes, kv_err *e)
{
    call *c = p->call;
    if (!p->updater->optimizer->constant &&
        !(p->steps = mem_zalloc(c->ngroups, sizeof *p->steps, e)))
        return KV_E_MEMORY;
    optimizer_begin(p->updater->optimizer, &p->draft);
    for (int64_t i = 0; i < c->ngroups; i++) {
        int rc = prepare_group(p, i, e);
        if (rc)
            return rc;
        const call_group *g = &c->groups[i];
        if (!g->update->plan)
            continue;
        int64_t bytes = apply_plan_bytes(g->update->plan, call_slot(c, g)->stored->size, g->n);
        *program_bytes = bytes > *program_bytes ? bytes : *program_bytes;
    }
    return KV_OK;
}

/* Arrays of the shape and dtype of what a group stores, in the context where it will stand. */
static int prepare_callback(call *c, kv_err *e)
{
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        const kv_array *like = call_slot(c, g)->stored;
        int rc = sparse_new_full(&g->result, like, g->ctx, e);
        if (!rc && g->sparse)
            g->input = kv_array_ref(g->sum);
        else if (!rc)
            rc = kv_array_new_raw(&g->input, like->dtype, like->ndim, like->shape, g->ctx, e);
        if (rc)
            return rc;
    }
    return KV_OK;
}

/* ---- row_sparse ---- */

/* How much memory a sum of row_sparse values takes depends on their rows, so it is made now, before
 * anything is written. A rule reads a single value of the right dtype where it is. */
static int sum_sparse(const updater_push *p, call_group *g, kv_err *e)
{
    const kv_array *stored = call_slot(p->call, g)->stored;
    kv_array *const *values = p->call->values + g->first;
    for (int64_t i = 0; i < g->n; i++) {
        int rc = engine_wait_read(array_var(values[i]), e);
        if (rc)
            return rc;
    }
    if (g->n == 1 && g->same_dtype && p->updater->kind == UPDATER_RULE) {
        g->sum = kv_array_ref(values[0]);
        return KV_OK;
    }
    return sparse_sum(&g->sum, values, g->n, stored ? stored->dtype : values[0]->dtype, g->ctx, e);
}

/* ASSIGN of default values to a key that is row_sparse: the sum loses its rows of zeros. */
static int sum_to_sparse(const updater_push *p, call_group *g, kv_err *e)
{
    const call *c = p->call;
    const kv_array *stored = call_slot(c, g)->stored;
    kv_array *sum = NULL;
    apply_values v = {c->values + g->first, c->data + g->first, g->n, g->same_dtype, NULL};
    int rc = apply_reserve(p->work, g->n, 0, e);
    for (int64_t i = 0; i < g->n && !rc; i++)
        rc = engine_wait_read(array_var(v.items[i]), e);
    if (!rc)
        rc = kv_array_new_raw(&sum, stored->dtype, stored->ndim, stored->shape, g->ctx, e);
    if (rc)
        return rc;
    apply_sum(sum, &v, p->work);
    rc = kv_array_to_sparse(&g->sum, sum, e);
    kv_array_unref(sum);
    return rc;
}

static int prepare_sparse(const updater_push *p, kv_err *e)
{
    for (int64_t i = 0; i < p->call->ngroups; i++) {
        call_group *g = &p->call->groups[i];
        const kv_array *stored = call_slot(p->call, g)->stored;
        bool assign = p->updater->kind == UPDATER_ASSIGN;
        int rc = KV_OK;
        if (g->sparse)
            rc = sum_sparse(p, g, e);
        else if (assign && stored && stored->storage == KV_ROW_SPARSE)
            rc = sum_to_sparse(p, g, e);
        if (rc)
            return rc;
    }
    return KV_OK;
}

int updater_prepare(updater_push *p, updater *u, call *c, apply_work *work, kv_err *e)
{
    *p = (updater_push){.updater = u, .call = c, .work = work};
    int64_t program_bytes = 0;
    int rc = prepare_sparse(p, e);
    if (rc)
        return rc;
    switch (u->kind) {
    case UPDATER_ASSIGN:
        break;
    case UPDATER_CALLBACK:
        rc = prepare_callback(c, e);
        break;
    case UPDATER_RULE:
        rc = prepare_rule(p, &program_bytes, e);
        break;
    }
    return rc ? rc : apply_reserve(work, c->max_values, program_bytes, e);
}

/* ---- The element work ---- */

/* Keeps the result of a callback. An array that the callback holds on to cannot become the stored
 * one: its contents are copied then. */
static void keep_result(slot *s, call_group *g)
{
    if (kv_array_refs(g->result) > 1) {
        apply_copy(g->fresh ? g->fresh : s->stored, g->result);
        return;
    }
    kv_array_unref(g->fresh);
    g->fresh = g->result;
    g->result = NULL;
}

/* The rest of a group whose callback refused: the old array stays where it is. */
static int refused(const updater_push *p, call_group *g, int rc, kv_err *why, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    const kv_key *key = &call_slot(p->call, g)->key;
    kv_array_unref(g->fresh);
    g->fresh = NULL;
    if (!why->code)
        kv_err_set(why, rc > 0 && rc < KV_NCODES ? (kv_code)rc : KV_E_VALUE,
                   "the updater refused key %s (code %d)", slot_key_text(text, key), rc);
    kv_err_key(why, key);
    if (e && !e->code)
        *e = *why;
    return why->code;
}

static int run_callback(updater_push *p, call_group *g, const apply_values *v, kv_err *e)
{
    slot *s = call_slot(p->call, g);
    kv_err why = {0};
    if (!g->sparse)
        apply_sum(g->input, v, p->work);
    apply_copy(g->result, s->stored);
    int rc = p->updater->call(p->updater->arg, &s->key, g->input, g->result, &why);
    if (rc)
        return refused(p, g, rc, &why, e);
    keep_result(s, g);
    return KV_OK;
}

/* The arrays that a rule works on: those that the slot has, and those that the step adds. */
static void rule_arrays(const slot *s, kv_array *stored, const optimizer_step *step, plan_arrays *a)
{
    const slot_state *state = s->state;
    kv_array *master = step && step->master ? step->master : state ? state->master : NULL;
    kv_array *held = master ? master : stored;
    a->stored = held->data;
    a->stored_dtype = kv_array_dtype(held);
    a->weight = stored->data;
    a->weight_dtype = kv_array_dtype(stored);
    for (int i = 0; i < PLAN_MAX_STATES; i++) {
        const kv_array *old = state ? state->arrays[i] : NULL;
        const kv_array *one = step && step->arrays[i] ? step->arrays[i] : old;
        a->states[i] = one ? one->data : NULL;
    }
}

static void run_rule(updater_push *p, call_group *g, const apply_values *v)
{
    slot *s = call_slot(p->call, g);
    kv_array *stored = g->fresh ? g->fresh : s->stored;
    optimizer_step *step = p->steps ? &p->steps[g - p->call->groups] : NULL;
    plan_arrays a;
    if (g->fresh)
        apply_copy(g->fresh, s->stored);
    if (!g->update->plan)
        return;
    rule_arrays(s, stored, step, &a);
    if (step)
        printed_arrays(&step->printed, &a);
    a.seed = p->updater->optimizer->seed ^ slot_hash(&s->key);
    a.t = step ? step->t : g->t;
    apply_plan(g->update->plan, stored, v, g->update->rows_present, p->work, &a);
}

static void assign(const updater_push *p, call_group *g, const apply_values *v)
{
    if (g->sum)
        g->fresh = g->sum;
    else
        apply_sum(g->fresh ? g->fresh : call_slot(p->call, g)->stored, v, p->work);
    g->sum = NULL;
}

static int run_group(updater_push *p, call_group *g, kv_err *e)
{
    const call *c = p->call;
    apply_values v = {c->values + g->first, c->data + g->first, g->n, g->same_dtype, g->sum};
    switch (p->updater->kind) {
    case UPDATER_ASSIGN:
        assign(p, g, &v);
        return KV_OK;
    case UPDATER_CALLBACK:
        return run_callback(p, g, &v, e);
    case UPDATER_RULE:
        run_rule(p, g, &v);
        return KV_OK;
    }
    return KV_OK;
}

int updater_run(updater_push *p, kv_err *e)
{
    /* A callback's refusal concerns its own key: the others are updated all the same. */
    int first = KV_OK;
    for (int64_t i = 0; i < p->call->ngroups; i++) {
        int rc = run_group(p, &p->call->groups[i], e);
        if (first == KV_OK)
            first = rc;
    }
    return first;
}

/* ---- After a push ---- */

int updater_finish(updater_push *p, const printed_to *to, kv_err *e)
{
    optimizer *o = p->updater->optimizer;
    int first = KV_OK;
    for (int64_t i = 0; i < p->call->ngroups; i++) {
        slot *s = call_slot(p->call, &p->call->groups[i]);
        s->pushes++;
        if (o && !p->steps)
            s->updates = p->call->groups[i].t;
        if (!p->steps)
            continue;
        optimizer_commit_step(o, &p->steps[i], s);
        int rc = printed_lines(&p->steps[i].printed, &p->steps[i].own, to, e);
        first = first ? first : rc;
    }
    if (o)
        optimizer_commit(o, &p->draft);
    updater_cancel(p);
    return first;
}

void updater_cancel(updater_push *p)
{
    for (int64_t i = 0; p->steps && i < p->call->ngroups; i++)
        optimizer_release_step(&p->steps[i]);
    mem_free(p->steps);
    p->steps = NULL;
}
