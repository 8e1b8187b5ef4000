/* The steps of a push: the inputs of each key's update, the update that the rule makes of them, and
 * the states that it needs; prepared in a draft, then committed. */
#include "core/optimizer.h"

#include <stddef.h>
#include <string.h>

#include "array/device.h"
#include "array/mirror.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "core/apply.h"
#include "core/image.h"

/* ---- Rates and counts ------------------------------------------------------------------------ */

/* The multiplier of the key, else of its name, else 1. */
static double multiplier(const optimizer_table *t, const char *key, const char *name)
{
    int64_t at = optimizer_table_find(t, key);
    if (at < 0)
        at = optimizer_table_find(t, name);
    return at < 0 ? 1 : t->numbers[at];
}

/* The count of the next update of a slot, which the draft notes. */
static int64_t next_count(const optimizer *o, optimizer_draft *d, const slot *s)
{
    int64_t begin = rule_value(&o->binding, RULE_BEGIN_NUM_UPDATE).u.integer;
    int64_t t = (s->updates ? s->updates : begin) + 1;
    if (t > d->num_update)
        d->num_update = t;
    return t;
}

static double base_rate(const optimizer *o, optimizer_draft *d)
{
    host rate = rule_value(&o->binding, RULE_LEARNING_RATE);
    if (o->scheduled)
        return lr_schedule_rate(&d->schedule, d->num_update);
    return host_is_number(rate) ? host_number(rate) : 0.01;
}

double optimizer_rate(const optimizer *o)
{
    optimizer_draft d = o->now;
    return base_rate(o, &d);
}

int optimizer_check(const optimizer *o, kv_err *e)
{
    host numbers[PLAN_MAX_STATES] = {{0}};
    const optimizer_params *p = o->params;
    if (!o->rule->builtin || o->scheduled || p->names.n || p->lr_mult.n || p->wd_mult.n)
        return KV_OK;
    kv_err why = {0};
    rule_update u;
    const double rate = optimizer_rate(o);
    const rule_given g = {.t = 1,
                          .lr = rate,
                          .base_lr = rate,
                          .wd = host_number(rule_value(&o->binding, RULE_WD)),
                          .dtype = KV_FLOAT32,
                          .row = 1,
                          .size = 1,
                          .numbers = numbers};
    int rc = rule_case_make(&o->binding, &g, false, &u, NULL, &why);
    if (rc == KV_OK)
        rule_update_release(&u);
    if (rc != KV_E_VALUE || why.line > 0) /* it may be one of this key, or of its first update */
        return KV_OK;
    *e = why;
    return rc;
}

/* Sets key, name, count and rates of the next update of a slot. */
static void give_rates(const optimizer *o, optimizer_draft *d, const slot *s, rule_given *g)
{
    char number[NUM_TEXT_MAX];
    kv_key seen = *slot_own_key(s);
    bool tables = o->params->names.n || o->params->lr_mult.n || o->params->wd_mult.n;
    const char *key = tables ? image_key(number, &seen) : seen.name;
    int64_t at = optimizer_table_find(&o->params->names, key);
    g->key = seen;
    g->name = at < 0 ? NULL : o->params->names.texts[at];
    const char *name = g->name;
    if (!o->rule->ast->counts_after)
        g->t = next_count(o, d, s);
    g->base_lr = base_rate(o, d);
    g->lr = g->base_lr * multiplier(&o->params->lr_mult, key, name);
    g->wd =
        host_number(rule_value(&o->binding, RULE_WD)) * multiplier(&o->params->wd_mult, key, name);
    if (o->rule->ast->counts_after)
        g->t = next_count(o, d, s);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

void optimizer_begin(const optimizer *o, optimizer_draft *d)
{
    *d = o->now;
}

bool optimizer_has_master(const optimizer *o, const slot *s)
{
    kv_dtype dtype = kv_array_dtype(s->stored);
    return (dtype == KV_FLOAT16 || dtype == KV_BFLOAT16) &&
           rule_value(&o->binding, RULE_MULTI_PRECISION).u.integer;
}

static int64_t row_length(const kv_array *a)
{
    int64_t n = 1;
    for (int i = 1; i < kv_array_ndim(a); i++)
        n *= kv_array_shape(a)[i];
    return n;
}

/* The inputs of the next update of a slot. numbers: room for the states that are numbers. */
static rule_given give_all(const optimizer *o, optimizer_draft *d, const slot *s, bool sparse_input,
                           host *numbers)
{
    rule_given g = {.dtype = kv_array_dtype(s->stored),
                    .sparse_input = sparse_input,
                    .sparse_stored = kv_array_storage(s->stored) == KV_ROW_SPARSE,
                    .row = row_length(s->stored),
                    .size = s->stored->size};
    if (s->part && s->part->given) {
        /* of a part: as the pushing process sent them */
        g = *s->part->given;
        char number[NUM_TEXT_MAX];
        int64_t at = optimizer_table_find(&o->params->names, image_key(number, &s->part->key));
        memcpy(numbers, s->part->numbers, (size_t)o->nstates * sizeof *numbers);
        g.key = s->part->key;
        g.name = at < 0 ? NULL : o->params->names.texts[at];
        g.numbers = numbers;
        return g;
    }
    g.master = optimizer_has_master(o, s);
    give_rates(o, d, s, &g);
    /* the values of the states that are numbers: the key's, and the shared ones */
    g.have = s->state ? s->state->have : 0;
    for (int i = 0; i < o->nstates; i++) {
        if (o->states[i].how == STATE_SHARED) {
            g.have = (g.have & ~(1u << i)) | (d->have & 1u << i);
            numbers[i] = d->shared[i];
        } else if (s->state && o->states[i].how == STATE_KEY) {
            numbers[i] = s->state->numbers[i];
        }
    }
    g.numbers = numbers;
    return g;
}

void optimizer_unref_update(made_update *m)
{
    int64_t left = m ? __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) : 1;
    if (left > 0)
        return;
    kv_assert(left == 0, "an update is given back %lld times too often", (long long)-left);
    rule_update_release(&m->u);
    rule_case_unref(m->of);
    mem_free(m);
}

/* The update of other keys that these inputs have as well, or NULL. */
static made_update *find_recent(const optimizer *o, const rule_given *g, bool plans)
{
    for (int i = 0; i < OPTIMIZER_RECENT; i++) {
        made_update *m = o->recent[i];
        bool fits = m && rule_case_fits(m->of, g, plans) && (!plans || m->u.plan || m->u.skipped);
        if (fits && rule_case_same(m->of, &m->given, g))
            return m;
    }
    return NULL;
}

static made_update *new_update(rule_case *of, const rule_given *g, int64_t pool_bytes, kv_err *e)
{
    made_update *m = mem_alloc((int64_t)sizeof *m + pool_bytes, 1, e);
    if (!m)
        return NULL;
    m->refs = 1;
    m->of = of;
    m->given = *g;
    m->given.key.name = m->given.name = NULL;
    m->given.numbers = NULL;
    return m;
}

/* The update that a case makes. *out is NULL if none of those that are kept serves. */
static int update_of_case(const optimizer *o, const rule_given *g, bool plans, made_update **out,
                          kv_err *e)
{
    *out = NULL;
    for (int i = 0; i < OPTIMIZER_CASES && o->cases[i]; i++) {
        rule_case *c = o->cases[i];
        if (!rule_case_fits(c, g, plans))
            continue;
        made_update *m = new_update(c, g, plans ? rule_case_pool_bytes(c) : 0, e);
        if (!m)
            return KV_E_MEMORY;
        if (rule_case_update(c, &o->binding, g, &m->u, plans ? m->pool : NULL)) {
            rule_case_ref(c);
            *out = m;
            return KV_OK;
        }
        mem_free(m);
    }
    return KV_OK;
}

/* The update of a rule that is compiled for these inputs, and a new case if there can be one. */
static int compile(optimizer *o, const rule_given *g, bool plans, made_update **out, kv_err *e)
{
    rule_case *c = NULL;
    own_mem made_update *m = new_update(NULL, g, 0, e);
    if (!m)
        return KV_E_MEMORY;
    TRY(rule_case_make(&o->binding, g, plans, &m->u, &c, e));
    o->ncompiled++;
    if (c) {
        m->of = rule_case_ref(c);
        rule_case_unref(o->cases[o->next_case]);
        o->cases[o->next_case] = c;
        o->next_case = (o->next_case + 1) % OPTIMIZER_CASES;
    }
    *out = m;
    m = NULL;
    return KV_OK;
}

/* The update of a slot: that of another key, or one of a case, or one that the rule is compiled
 * for. plans: this process runs it. */
static int make_update(optimizer *o, optimizer_draft *d, const slot *s, bool sparse_input,
                       bool plans, optimizer_step *step, kv_err *e)
{
    host numbers[PLAN_MAX_STATES] = {{0}};
    rule_given g = give_all(o, d, s, sparse_input, numbers);
    made_update *m = find_recent(o, &g, plans);
    step->t = g.t;
    step->made = m;
    if (m) {
        __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
        return KV_OK;
    }
    int rc = update_of_case(o, &g, plans, &m, e);
    if (!rc && !m)
        rc = compile(o, &g, plans, &m, e);
    if (rc)
        return kv_err_key(e, slot_own_key(s)), rc;
    step->made = m;
    if (m->of && rule_case_same(m->of, &g, &g)) {
        /* other keys may use it; it takes the place of the oldest */
        made_update **at = &o->recent[o->next_recent];
        optimizer_unref_update(*at);
        *at = m;
        m->refs++;
        o->next_recent = (o->next_recent + 1) % OPTIMIZER_RECENT;
    }
    return KV_OK;
}

const rule_update *optimizer_known(const optimizer *o, optimizer_draft *d, const slot *s,
                                   int64_t *t)
{
    host numbers[PLAN_MAX_STATES] = {{0}};
    if (s->state || o->scheduled || optimizer_has_master(o, s))
        return NULL;
    rule_given g = give_all(o, d, s, false, numbers);
    const made_update *m = find_recent(o, &g, true);
    *t = g.t;
    bool plain = m && m->u.plan && !m->u.skipped && !m->u.states;
    return plain && plan_splits(m->u.plan, NULL) ? &m->u : NULL;
}

int64_t optimizer_known_bytes(const optimizer *o, int64_t nvalues)
{
    int64_t most = 0;
    for (int i = 0; i < OPTIMIZER_RECENT; i++) {
        const made_update *m = o->recent[i];
        int64_t bytes = m && m->u.plan ? apply_plan_bytes(m->u.plan, 1, nvalues) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Like the weight, or one number a row or column; of the type the rule computes in. */
optimizer_form optimizer_state_form(const optimizer *o, int i, const slot *s)
{
    static const int64_t one = 1;
    kv_dtype dtype = kv_array_dtype(s->stored);
    int ndim = kv_array_ndim(s->stored);
    const int64_t *shape = kv_array_shape(s->stored);
    if (i < 0)
        return (optimizer_form){KV_FLOAT32, ndim, shape};
    dtype = prog_dtype(prog_type_of(dtype));
    if (o->states[i].how == STATE_ROW)
        return (optimizer_form){dtype, 1, ndim ? shape : &one};
    if (o->states[i].how == STATE_COLUMN)
        return (optimizer_form){dtype, ndim > 1 ? ndim - 1 : 1, ndim > 1 ? shape + 1 : &one};
    return (optimizer_form){dtype, ndim, shape};
}

/* Fills a new state with the number that its elements begin with, rounded once. */
static void fill(kv_array *a, host x)
{
    char one[8];
    int64_t bytes = kv_dtype_bytes(a->dtype);
    kv_dtype from = x.kind == HOST_FLOAT ? KV_FLOAT64 : KV_INT64;
    mirror_host(a, MIRROR_WRITE, NULL); /* nothing is brought, so it does not fail */
    convert_elements(one, a->dtype, &x.u, from, 1);
    for (int64_t i = 0; i < a->size; i++)
        memcpy((char *)a->data + i * bytes, one, (size_t)bytes);
}

/* A copy of an array that a transaction holds too, or that lies elsewhere. */
static int private_copy(const slot *s, kv_ctx ctx, kv_array *a, kv_array **out, kv_err *e)
{
    if (!kv_assert(a, "a key of %lld elements has a state without an array",
                   (long long)s->stored->size))
        return kv_assert_report(e);
    if (kv_array_refs(a) == 1 && kv_ctx_same(kv_array_ctx(a), ctx))
        return KV_OK;
    engine_wait_read(array_var(s->stored)); /* states are written together with the weight */
    return kv_array_dup(out, a, kv_array_dtype(a), ctx, e);
}

/* Allocates the states and the master that an update writes: new ones, or copies of those that may
 * not be written where they are. */
static int allocate(const optimizer *o, const slot *s, kv_ctx ctx, optimizer_step *step, kv_err *e)
{
    const rule_update *u = &step->made->u;
    bool master = optimizer_has_master(o, s);
    uint32_t have = s->state ? s->state->have : 0;
    if (!s->state && !master && !u->states)
        return KV_OK;
    if (!s->state && !(step->fresh = mem_zalloc(1, sizeof *step->fresh, e)))
        return KV_E_MEMORY;
    for (int i = 0; i < o->nstates; i++) {
        bool array = o->states[i].how != STATE_KEY && o->states[i].how != STATE_SHARED;
        if (array && (u->states & ~have) >> i & 1) {
            optimizer_form f = optimizer_state_form(o, i, s);
            TRY(kv_array_new(&step->states[i].fresh, f.dtype, f.ndim, f.shape, ctx, e));
            if (u->fills >> i & 1)
                fill(step->states[i].fresh, u->numbers[i]);
        } else if (array && u->states >> i & 1)
            TRY(private_copy(s, ctx, s->state->arrays[i], &step->states[i].fresh, e));
    }
    if (master && !(s->state && s->state->master)) {
        /* The float32 copy of a half-precision weight, which may be row_sparse and lack rows. */
        const kv_array *like = s->stored;
        kv_array *made;
        TRY(kv_array_new_raw(&made, KV_FLOAT32, kv_array_ndim(like), kv_array_shape(like), ctx, e));
        TRY(array_give(kv_array_copy(made, s->stored, e), &step->master, made));
    } else if (master)
        TRY(private_copy(s, ctx, s->state->master, &step->master, e));
    return KV_OK;
}

/* Sets a step to zero, as far as it is used. */
static void begin_step(const optimizer *o, optimizer_step *step)
{
    memset(step, 0, offsetof(optimizer_step, states));
    step->nstates = o->nstates;
    memset(step->states, 0, (size_t)o->nstates * sizeof *step->states);
}

/* Hands the shared numbers of an update on to the next key. */
static void share(const optimizer *o, optimizer_draft *d, const rule_update *u)
{
    for (int i = 0; i < o->nstates; i++) {
        if (o->states[i].how != STATE_SHARED || !(u->states >> i & 1))
            continue;
        d->shared[i] = u->numbers[i];
        d->have |= 1u << i;
    }
}

int optimizer_follow(optimizer *o, optimizer_draft *d, const slot *s, bool sparse_input,
                     optimizer_step *step, rule_given *given, host *numbers, kv_err *e)
{
    optimizer_draft before = *d;
    begin_step(o, step);
    *given = give_all(o, &before, s, sparse_input, numbers);
    int rc = make_update(o, d, s, sparse_input, false, step, e);
    if (!rc && !s->state && step->made->u.states &&
        !(step->fresh = mem_zalloc(1, sizeof *step->fresh, e)))
        rc = KV_E_MEMORY;
    if (rc) {
        optimizer_release_step(step);
        return rc;
    }
    given->key.name = given->name = NULL;
    given->numbers = NULL;
    share(o, d, &step->made->u);
    return KV_OK;
}

int optimizer_prepare(optimizer *o, optimizer_draft *d, const slot *s, kv_ctx ctx,
                      bool sparse_input, optimizer_step *step, kv_err *e)
{
    begin_step(o, step);
    int rc = make_update(o, d, s, sparse_input, true, step, e);
    if (!rc)
        rc = allocate(o, s, ctx, step, e);
    if (rc) {
        optimizer_release_step(step);
        return rc;
    }
    share(o, d, &step->made->u);
    return KV_OK;
}

void optimizer_commit_step(optimizer *o, optimizer_step *step, slot *s)
{
    kv_assert(!s->state || !step->fresh, "a key that has states (0x%x) is given new ones",
              s->state ? s->state->have : 0);
    /* The arrays that the update works on. One that is skipped may still print its states. */
    for (int i = 0; i < o->nstates; i++) {
        kv_array *old = s->state ? s->state->arrays[i] : NULL;
        kv_array *a = step->states[i].fresh ? step->states[i].fresh : old;
        if (a && (step->made->u.states >> i & 1 || step->made->u.nprints > 0)) {
            step->states[i].array = a;
            step->states[i].data = a->data;
        }
    }
    step->weight_master = step->master ? step->master : s->state ? s->state->master : NULL;
    if (!s->state) {
        s->state = step->fresh;
        step->fresh = NULL;
    }
    slot_state *state = s->state;
    s->updates = step->t;
    if (!state || step->made->u.skipped)
        return;
    state->have |= step->made->u.states;
    for (int i = 0; i < o->nstates; i++) {
        if (step->states[i].fresh) {
            kv_array_unref(state->arrays[i]);
            state->arrays[i] = step->states[i].fresh;
            step->states[i].fresh = NULL;
        }
        if (o->states[i].how == STATE_KEY && step->made->u.states >> i & 1)
            state->numbers[i] = step->made->u.numbers[i];
    }
    if (step->master) {
        kv_array_unref(state->master);
        state->master = step->master;
        step->master = NULL;
    }
}

void optimizer_commit(optimizer *o, const optimizer_draft *d)
{
    o->now = *d;
}

void optimizer_release_step(optimizer_step *step)
{
    optimizer_unref_update(step->made);
    printed *p = &step->printed;
    for (int64_t i = 0; i < p->n; i++)
        kv_array_unref(p->arrays[i]);
    mem_free(p->arrays);
    *p = (printed){0};
    slot_state_free(step->fresh);
    kv_array_unref(step->master);
    for (int i = 0; i < step->nstates; i++)
        kv_array_unref(step->states[i].fresh);
}
