/* The updater and its part in a push: ASSIGN, C callbacks and rules. */
#include "core/updater.h"

#include <string.h>

#include "array/mirror.h"
#include "array/sparse.h"
#include "base/compiler.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/store.h"
#include "io/print.h"

/* ---- The updater itself ---- */

int updater_init_rule(updater *u, const kv_rule *rule, const kv_opt *params, int nparams, kv_err *e)
{
    optimizer *made;
    TRY(optimizer_new(&made, rule, params, nparams, e));
    *u = (updater){.kind = UPDATER_RULE, .optimizer = made};
    return KV_OK;
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

/* ---- Printed lines ---- */

static int make_one(kv_array **out, const rule_print *p, const slot *s, const kv_array *sum,
                    kv_err *e)
{
    const kv_array *like = s->stored;
    int ndim = kv_array_ndim(like);
    int64_t shape[KV_MAX_NDIM] = {1}; /* a key without axes counts as one row */
    if (ndim > 0)
        memcpy(shape, kv_array_shape(like), (size_t)ndim * sizeof *shape);
    if (p->present)
        shape[0] = array_nrows(sum);
    switch (p->extent) {
    case RULE_EACH_ELEMENT:
        break;
    case RULE_EACH_ROW:
        ndim = 1;
        break;
    case RULE_ONE:
        ndim = 0;
        break;
    }
    TRY(kv_array_new(out, p->dtype, ndim, shape,
                     mirror_has(like) ? (kv_ctx){KV_CPU, 0} : kv_array_ctx(like), e));
    if (p->known)
        convert_elements((*out)->data, p->dtype, &p->value.u,
                         p->value.kind == HOST_FLOAT ? KV_FLOAT64 : KV_INT64, 1);
    return KV_OK;
}

/* Makes the arrays for an update of s. sum: the row_sparse input, or NULL. Error: memory;
 * optimizer_release_step releases *p all the same. */
static int printed_make(printed *p, const rule_update *u, const slot *s, const kv_array *sum,
                        kv_err *e)
{
    *p = (printed){0};
    if (u->nprints == 0)
        return KV_OK;
    if (!(p->arrays = mem_zalloc(u->nprints, sizeof *p->arrays, e)))
        return KV_E_MEMORY;
    p->n = u->nprints;
    for (int64_t i = 0; i < p->n; i++)
        TRY(make_one(&p->arrays[i], &u->prints[i], s, sum, e));
    return KV_OK;
}

static void add_text(void *to, const char *text, size_t n)
{
    buf_put(to, text, n);
}

static int show(buf *out, kv_array *a, const printed_to *to, kv_err *e)
{
    print_style style = print_style_default();
    return to->show ? to->show(to->show_arg, a, add_text, out, e) : print_array(out, a, &style, e);
}

/* Delivers the lines. Errors: memory, those of show. */
static int printed_lines(const printed *p, const rule_update *u, const printed_to *to, kv_err *e)
{
    own_buf out = {0};
    size_t done = 0;
    if (!to->line || u->printed.len == 0)
        return KV_OK;
    for (int64_t i = 0; i < p->n; i++) {
        buf_put(&out, u->printed.data + done, u->prints[i].at - done);
        done = u->prints[i].at;
        TRY(show(&out, p->arrays[i], to, e));
    }
    buf_put(&out, u->printed.data + done, u->printed.len - done);
    TRY(buf_check(&out, e));
    char *line = out.data, *end; /* whole lines, each with its newline */
    for (; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        to->line(to->arg, line);
    }
    return KV_OK;
}

/* ---- Before a push ---- */

enum { KEPT_STEPS = 256 << 10 }; /* of 448 bytes: 112 MiB; more are given back after the call */

static void release_part(call *c)
{
    updater_part *p = c->update.state;
    for (int64_t i = 0; i < p->nsteps; i++)
        optimizer_release_step(&p->steps[i]);
    if (c->steps_cap > KEPT_STEPS) {
        mem_free(c->steps);
        c->steps = NULL;
        c->steps_cap = 0;
    }
    mem_free(p);
}

static int new_part(call *c, kv_err *e)
{
    updater_part *p = mem_alloc(1, sizeof *p, e);
    if (!p)
        return KV_E_MEMORY;
    p->updater = c->store->updater;
    p->steps = NULL;
    p->nsteps = 0;
    p->to = NULL;
    c->update = (call_part){p, release_part};
    return KV_OK;
}

/* Prefetches the slots of the groups that come next, in stages: headers, then the states, then
 * their headers. */
static void look_ahead_states(const call *c, int64_t i)
{
    const slot *s = i + 2 * CALL_AHEAD < c->ngroups ? call_slot(c, &c->groups[i + 2 * CALL_AHEAD])
                                                    : NULL;
    if (s && s->stored)
        call_prefetch(s->stored);
    if (s && s->state)
        prefetch(s->state);
    s = i + CALL_AHEAD < c->ngroups ? call_slot(c, &c->groups[i + CALL_AHEAD]) : NULL;
    for (int j = 0; s && s->state && j < UPDATER_AHEAD_STATES; j++)
        if (s->state->arrays[j])
            prefetch(s->state->arrays[j]);
}

static int prepare_rule(call *c, kv_err *e)
{
    updater_part *p = c->update.state;
    TRY(mem_grow(&c->steps, &c->steps_cap, c->ngroups, sizeof *c->steps, e));
    p->steps = c->steps;
    optimizer_begin(p->updater.optimizer, &p->draft);
    for (int64_t i = 0; i < c->ngroups; i++) {
        look_ahead_states(c, i);
        call_group *g = &c->groups[i];
        slot *s = call_slot(c, g);
        TRY(optimizer_prepare(p->updater.optimizer, &p->draft, s, g->ctx, g->sparse, &p->steps[i],
                              e));
        p->nsteps++;
        TRY(printed_make(&p->steps[i].printed, &p->steps[i].made->u, s, g->sum, e));
        g->update = &p->steps[i].made->u;
    }
    return KV_OK;
}

/* Arrays of the shape and dtype of a group's stored array, in the context that it will have. */
static int prepare_callback(call *c, kv_err *e)
{
    c->owns = true;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        const kv_array *like = g->target;
        TRY(sparse_new_full(&g->result, like, g->ctx, e));
        if (g->sparse)
            g->input = kv_array_ref(g->sum);
        else
            TRY(kv_array_new_raw(&g->input, like->dtype, like->ndim, array_shape(like), g->ctx, e));
    }
    c->uses[c->op.nuses++] = (engine_use){.var = &c->store->callbacks, .write = true};
    c->op.foreign = true;
    return KV_OK;
}

int updater_prepare(call *c, kv_err *e)
{
    updater_kind kind = c->store->updater.kind;
    if (kind == UPDATER_ASSIGN)
        return KV_OK;
    TRY(new_part(c, e));
    return kind == UPDATER_CALLBACK ? prepare_callback(c, e) : prepare_rule(c, e);
}

/* ---- The store's part ---- */

bool updater_commit(call *c)
{
    updater_part *p = c->update.state;
    optimizer *o = p ? p->updater.optimizer : NULL;
    bool prints = false;
    kv_assert(!o || !p->steps || p->nsteps == c->ngroups, "%lld of %lld keys have a step",
              (long long)(p ? p->nsteps : 0), (long long)c->ngroups);
    for (int64_t i = 0; i < c->ngroups; i++) {
        slot *s = call_slot(c, &c->groups[i]);
        if (o)
            look_ahead_states(c, i);
        s->pushes++;
        if (!o)
            continue;
        optimizer_commit_step(o, &p->steps[i], s);
        prints |= c->store->print.line && p->steps[i].made->u.printed.len > 0;
    }
    if (o)
        optimizer_commit(o, &p->draft);
    if (prints)
        p->to = &c->store->print;
    return prints;
}

/* ---- Arrays and lines of an update ---- */

void updater_plan_arrays(const call *c, const call_group *g, plan_arrays *a)
{
    const updater_part *p = c->update.state;
    const optimizer_step *step = updater_step(c, g);
    kv_array *held = step && step->weight_master ? step->weight_master : g->target;
    a->pool = g->update->pool;
    a->stored = held->data;
    a->stored_dtype = (kv_dtype)held->dtype;
    a->weight = g->target->data;
    a->weight_dtype = (kv_dtype)g->target->dtype;
    a->far = call_is_far(c, g->target->size);
    a->seed = p->updater.optimizer->seed ^ slot_hash(&g->key);
    a->t = step ? step->t : g->t;
    if (!step)
        return;
    for (int i = 0; i < step->nstates; i++)
        a->states[i] = step->states[i].data;
    /* Sets the arrays that the plan writes the printed values to. */
    for (int64_t i = 0; i < step->printed.n; i++) {
        a->prints[i] = step->printed.arrays[i]->data;
        a->print_dtypes[i] = step->printed.arrays[i]->dtype;
    }
}

bool updater_rule_arrays(const call *c, const call_group *g, updater_arrays *out)
{
    const updater_part *p = c->update.state;
    if (!p || p->updater.kind != UPDATER_RULE || !g->update || !g->update->plan)
        return false;
    const optimizer_step *step = updater_step(c, g);
    out->held = step && step->weight_master ? step->weight_master : g->target;
    out->prints = step && step->printed.n > 0;
    out->n = 0;
    for (int i = 0; step && i < step->nstates; i++) {
        if (!step->states[i].array)
            continue;
        out->items[out->n] = step->states[i].array;
        out->number[out->n++] = i;
    }
    return true;
}

int updater_print(const call *c, kv_err *e)
{
    const updater_part *p = c->update.state;
    int first = KV_OK;
    kv_assert(!p || !p->to || p->nsteps == c->ngroups, "%lld of %lld keys have lines to print",
              (long long)(p ? p->nsteps : 0), (long long)c->ngroups);
    for (int64_t i = 0; p && p->to && i < c->ngroups; i++) {
        int rc = printed_lines(&p->steps[i].printed, &p->steps[i].made->u, p->to, first ? NULL : e);
        first = first ? first : rc;
    }
    return first;
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

int updater_begin_batches(call *c, int64_t max_values, kv_err *e)
{
    const updater *u = &c->store->updater;
    bool rule = u->kind == UPDATER_RULE;
    int64_t part = rule ? optimizer_known_bytes(u->optimizer, max_values) : 0;
    TRY(apply_reserve(&c->work, 1, max_values, part, 0, e));
    if (!rule)
        return KV_OK;
    TRY(new_part(c, e));
    updater_part *p = c->update.state;
    optimizer_begin(u->optimizer, &p->draft);
    return KV_OK;
}

void updater_commit_batch(call *c)
{
    updater_part *p = c->update.state;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        slot *s = call_slot(c, g);
        s->pushes++;
        if (!p)
            continue;
        g->update = optimizer_known(p->updater.optimizer, &p->draft, s, &g->t);
        kv_assert(g->update, "a key of %lld elements has no update, and updater_is_plain found one",
                  (long long)g->target->size);
        s->updates = g->t;
    }
}

void updater_end_batches(call *c)
{
    optimizer *o = c->store->updater.optimizer;
    const updater_part *p = c->update.state;
    if (p && p->draft.num_update > o->now.num_update)
        o->now.num_update = p->draft.num_update;
}
