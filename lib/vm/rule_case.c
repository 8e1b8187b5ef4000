/* Cases of a rule: noting the steps of host lines, and taking them again for another push. */
#include "vm/rule_case.h"

#include <string.h>

#include "base/kv_assert.h"
#include "vm/element.h"
#include "vm/prog.h"

/* ---- Noting ---------------------------------------------------------------------------------- */

rule_case *rule_case_begin(rule_run *r)
{
    rule_case *c = mem_zalloc(1, sizeof *c, NULL);
    if (!c)
        return NULL;
    c->refs = 1;
    c->nvalues = CASE_INPUTS;
    c->given = *r->given;
    c->given.key.name = c->given.name = NULL;
    c->given.numbers = NULL;
    c->plans = r->plans;
    c->numbers.kernels = r->b->kernels;
    c->numbers.memory = &c->memory;
    r->b->numbers = &c->numbers;
    return c;
}

static inline host input_of(const rule_given *g, int which)
{
    const char *key = g->key.name;
    switch (which) {
    case CASE_KEY:
        return key ? host_text(key) : host_int(g->key.id);
    case CASE_NAME:
        return host_text(g->name ? g->name : key ? key : "");
    case CASE_T:
        return host_int(g->t);
    case CASE_LR:
        return host_float(g->lr);
    case CASE_WD:
        return host_float(g->wd);
    case CASE_BASE_LR:
        return host_float(g->base_lr);
    case CASE_SIZE:
        return host_int(g->size);
    case CASE_ROWS:
        return host_int(g->size / (g->row > 0 ? g->row : 1));
    case CASE_COLUMNS:
        return host_int(g->row > 0 ? g->row : 1);
    default: /* CASE_STATE and on */
        return g->numbers[which - CASE_STATE];
    }
}

host rule_case_input(const rule_run *r, int which)
{
    host x = input_of(r->given, which);
    x.varies = 0;
    if (r->note) {
        x.varies = (uint32_t)which;
        r->note->values[which] = x;
        /* a state goes on to the next push even where nothing else reads it */
        r->note->reads |= which >= CASE_STATE ? 1u << which : 0;
    }
    return x;
}

/* The place of a new value, or 0. */
static int16_t add_value(rule_case *c, host x)
{
    x.varies = 0;
    if (c->nvalues == CASE_VALUES) {
        c->failed = true;
        return 0;
    }
    c->values[c->nvalues] = x;
    return (int16_t)c->nvalues++;
}

/* Without memory for it, the case fails. */
static void add_link(rule_case *c, case_links *to, int16_t value, int16_t of)
{
    c->failed |=
        arena_grow(&c->memory, &to->items, &to->cap, to->n, sizeof *to->items, NULL) != KV_OK;
    if (c->failed)
        return;
    to->items[to->n].value = value;
    to->items[to->n++].of = of;
}

host rule_case_param(const rule_run *r, int param)
{
    const rule_binding *b = r->binding;
    rule_case *c = r->note;
    host x = b->values[param];
    bool varies = b->varies && b->varies[param];
    if (!c || c->failed || !(varies || host_is_number(x)))
        return x;
    if (!varies) {
        x.varies = CASE_FIXED | (uint32_t)add_value(c, x);
        return x;
    }
    int16_t value = add_value(c, x);
    add_link(c, &c->params, value, (int16_t)param);
    x.varies = c->failed ? 0 : (uint32_t)value;
    return x;
}

/* The place of a value that stands there, or of a literal. */
static int16_t place_of(rule_case *c, host x)
{
    if (x.varies & CASE_FIXED)
        return (int16_t)(x.varies - CASE_FIXED);
    if (x.varies) {
        c->reads |= x.varies < CASE_INPUTS ? 1u << x.varies : 0;
        return (int16_t)x.varies;
    }
    if (x.kind == HOST_TEXT) /* the memory that it is in ends with the run */
        x.u.text = arena_text(&c->memory, x.u.text, strlen(x.u.text), NULL);
    if (x.kind == HOST_TEXT && !x.u.text)
        c->failed = true;
    return add_value(c, x);
}

static void add_step(rule_case *c, case_step x)
{
    if (c->failed || arena_grow(&c->memory, &c->steps, &c->steps_cap, c->nsteps, sizeof x, NULL))
        c->failed = true;
    else
        c->steps[c->nsteps++] = x;
}

/* The place of x as a float. */
static int16_t float_of(rule_case *c, host x)
{
    if (!rule_case_varies(x) || x.kind == HOST_FLOAT)
        return place_of(c, x.kind == HOST_FLOAT ? x : host_float(host_number(x)));
    int16_t from = place_of(c, x), to = add_value(c, host_float(0));
    add_step(c, (case_step){.what = CASE_FLOAT, .to = to, .of = {from}});
    return to;
}

/* The step for floats that an operator on them and integers is, or what. */
static case_what quicker(case_what what, int op, const host *args)
{
    bool floats = args[0].kind == HOST_FLOAT || (what == CASE_BINARY && args[1].kind == HOST_FLOAT);
    bool compares = op >= OP_EQ && op <= OP_GE; /* integers exactly */
    if (what != CASE_BINARY || compares || !floats || !host_is_number(args[0]) ||
        !host_is_number(args[1]))
        return what;
    return op == OP_ADD   ? CASE_ADD
           : op == OP_SUB ? CASE_SUB
           : op == OP_MUL ? CASE_MUL
           : op == OP_DIV ? CASE_DIV
                          : CASE_FLOATS;
}

void rule_case_note(rule_run *r, case_what what, int op, const host *args, int n, host *out)
{
    rule_case *c = r->note;
    bool varies = false, fixed = false;
    out->varies = 0;
    for (int i = 0; i < n; i++) {
        varies |= rule_case_varies(args[i]);
        fixed |= args[i].varies != 0;
    }
    if (c && !r->rc && !varies && fixed && host_is_number(*out))
        out->varies = CASE_FIXED | (uint32_t)add_value(c, *out);
    if (!c || r->rc || !varies)
        return;
    /* a new text would need memory of its own */
    bool makes_text = what == CASE_BINARY && !(op >= OP_EQ && op <= OP_GE) &&
                      (args[0].kind == HOST_TEXT || args[1].kind == HOST_TEXT);
    c->failed |= n > CASE_OPERANDS || makes_text;
    if (c->failed)
        return;
    case_step step = {.what = (uint8_t)quicker(what, op, args), .op = (uint8_t)op, .n = (uint8_t)n};
    for (int i = 0; i < n; i++)
        step.of[i] = step.what < CASE_FLOAT ? float_of(c, args[i]) : place_of(c, args[i]);
    step.to = add_value(c, *out);
    add_step(c, step);
    out->varies = (uint32_t)step.to;
}

void rule_case_branch(rule_run *r, host x)
{
    if (r->note && !r->rc && rule_case_varies(x))
        add_step(r->note, (case_step){.what = CASE_BRANCH,
                                      .op = host_truth(x),
                                      .of = {place_of(r->note, x)}});
}

prog_value rule_case_give(rule_run *r, host x, prog_value v)
{
    rule_case *c = r->note;
    prog_number k = {0};
    bool literal = !rule_case_varies(x) && (r->exponent || r->by_rows || !x.varies);
    if (!c || c->failed || r->rc || v < 0 || literal)
        return v;
    prog_value_known(r->b, v, &k.number, &k.integer);
    prog_type type = prog_value_type(r->b, v);
    for (int64_t i = 0; i < c->gifts.n; i++)
        if (c->gifts.items[i].value == (int16_t)x.varies &&
            c->numbers.entries[c->gifts.items[i].of - 1].type == type)
            return prog_given(r->b, c->gifts.items[i].of, type, k);
    prog_entry made = {.how = NUMBER_GIVEN, .type = (uint8_t)type};
    int16_t value = place_of(c, x), number = prog_numbers_add(&c->numbers, &made);
    c->failed |= !number;
    add_link(c, &c->gifts, value, number);
    return c->failed ? v : prog_given(r->b, number, type, k);
}

/* Takes over what the update is, and which of its numbers vary. */
static void keep_update(rule_case *c, rule_update *u)
{
    for (int i = 0; i < PLAN_MAX_STATES; i++) {
        host *x = &u->numbers[i];
        if (rule_case_varies(*x))
            add_link(c, &c->results, place_of(c, *x), (int16_t)i);
        x->varies = 0;
    }
    c->failed |= u->nprints > 0 || u->printed.len > 0;
    if (c->failed)
        return;
    c->u = *u;
    plan_ref(u->plan);
}

rule_case *rule_case_end(rule_run *r, int rc)
{
    rule_case *c = r->note;
    if (!c)
        return NULL;
    c->failed |= rc || c->numbers.failed || c->numbers.n >= CASE_VALUES;
    c->shaped = r->steps;
    keep_update(c, r->u);
    if (!c->failed)
        return c;
    rule_case_unref(c);
    return NULL;
}

void rule_case_unref(rule_case *c)
{
    int64_t left = c ? __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) : 1;
    if (left > 0)
        return;
    kv_assert(left == 0, "a case is given back %lld times too often", (long long)-left);
    plan_free(c->u.plan);
    arena_release(&c->memory);
    mem_free(c);
}

rule_case *rule_case_ref(rule_case *c)
{
    __atomic_fetch_add(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

/* ---- Taking the steps again ------------------------------------------------------------------ */

bool rule_case_fits(const rule_case *c, const rule_given *g, bool plans)
{
    const rule_given *own = &c->given;
    return own->dtype == g->dtype && own->master == g->master &&
           own->sparse_input == g->sparse_input && own->sparse_stored == g->sparse_stored &&
           own->have == g->have && (c->plans || !plans) &&
           (!c->shaped || (own->row == g->row && own->size == g->size));
}

static bool same_double(double a, double b)
{
    /* NOLINTNEXTLINE: the bits are meant, so that NaN is itself and -0 is not 0 */
    return memcmp(&a, &b, sizeof a) == 0;
}

bool rule_case_same(const rule_case *c, const rule_given *a, const rule_given *b)
{
    const uint32_t shape = 1u << CASE_SIZE | 1u << CASE_ROWS | 1u << CASE_COLUMNS;
    const uint32_t known =
        1u << CASE_T | 1u << CASE_LR | 1u << CASE_WD | 1u << CASE_BASE_LR | shape;
    uint32_t reads = c->reads;
    return !(reads & ~known) && (!(reads & 1u << CASE_T) || a->t == b->t) &&
           (!(reads & 1u << CASE_LR) || same_double(a->lr, b->lr)) &&
           (!(reads & 1u << CASE_WD) || same_double(a->wd, b->wd)) &&
           (!(reads & 1u << CASE_BASE_LR) || same_double(a->base_lr, b->base_lr)) &&
           (!(reads & shape) || (a->row == b->row && a->size == b->size));
}

/* Puts an input in its place, if it is of the kind that the case has it of. */
static bool take_input(host *to, host x)
{
    to->u = x.u;
    return to->kind == x.kind;
}

static bool take_inputs(const rule_case *c, const rule_binding *b, const rule_given *g,
                        host *values)
{
    for (uint32_t left = c->reads; left; left &= left - 1) {
        int which = __builtin_ctz(left);
        if (!take_input(&values[which], input_of(g, which)))
            return false;
    }
    for (int64_t i = 0; i < c->params.n; i++)
        if (!take_input(&values[c->params.items[i].value], b->values[c->params.items[i].of]))
            return false;
    return true;
}

/* A step that works on values of any kind. */
static bool take_general(const case_step *s, host *values)
{
    host args[CASE_OPERANDS], out;
    int rc = KV_OK;
    for (int i = 0; i < s->n; i++)
        args[i] = values[s->of[i]];
    if (s->what == CASE_UNARY)
        rc = host_unary((ast_op)s->op, args[0], &out, NULL);
    else if (s->what == CASE_BINARY)
        rc = host_binary((ast_op)s->op, args[0], args[1], &out, NULL, NULL);
    else
        rc = host_apply(&element_functions[s->op], args, s->n, &out, NULL);
    if (rc || out.kind != values[s->to].kind)
        return false;
    values[s->to].u = out.u;
    return true;
}

static bool take_step(const case_step *s, host *values)
{
    const host *x = &values[s->of[0]], *y = &values[s->of[1]];
    double *to = &values[s->to].u.number;
    switch ((case_what)s->what) {
    case CASE_ADD:
        *to = x->u.number + y->u.number;
        return true;
    case CASE_SUB:
        *to = x->u.number - y->u.number;
        return true;
    case CASE_MUL:
        *to = x->u.number * y->u.number;
        return true;
    case CASE_DIV:
        *to = x->u.number / y->u.number;
        return y->u.number != 0; /* an error of host numbers */
    case CASE_FLOATS:
        return host_float_binary((ast_op)s->op, x->u.number, y->u.number, to, NULL) == KV_OK;
    case CASE_FLOAT:
        *to = (double)x->u.integer;
        return true;
    case CASE_BRANCH:
        return host_truth(*x) == s->op;
    case CASE_BINARY:
    case CASE_UNARY:
    case CASE_CALL:
        return take_general(s, values);
    }
    return false;
}

/* A host number among elements, as rule_from_host rounds it. */
static bool round_number(const rule_case *c, prog_type type, host x, prog_number *out)
{
    if (type == PROG_I64) {
        int64_t whole = x.u.integer;
        if (x.kind == HOST_FLOAT && !element_is_whole(x.u.number, &whole))
            return false;
        out->integer = whole;
        return element_holds(c->given.dtype, whole);
    }
    if (x.kind == HOST_FLOAT)
        out->number = type == PROG_F32 ? (float)x.u.number : x.u.number;
    else
        out->number = type == PROG_F32 ? (float)x.u.integer : (double)x.u.integer;
    return true;
}

bool rule_case_update(const rule_case *c, const rule_binding *b, const rule_given *g,
                      rule_update *u, uint64_t *pool)
{
    host values[CASE_VALUES];
    prog_number numbers[CASE_VALUES + 1];
    numbers[0] = (prog_number){0}; /* the operand that an entry has not */
    memcpy(values, c->values, (size_t)c->nvalues * sizeof *values);
    if (!take_inputs(c, b, g, values))
        return false;
    for (int64_t i = 0; i < c->nsteps; i++)
        if (!take_step(&c->steps[i], values))
            return false;
    for (int64_t i = 0; i < c->gifts.n; i++) {
        int16_t number = c->gifts.items[i].of;
        prog_type type = (prog_type)c->numbers.entries[number - 1].type;
        if (!round_number(c, type, values[c->gifts.items[i].value], &numbers[number]))
            return false;
    }
    if (pool && !prog_numbers_fill(&c->numbers, numbers))
        return false;
    *u = c->u;
    for (int64_t i = 0; i < c->results.n; i++)
        u->numbers[c->results.items[i].of] = values[c->results.items[i].value];
    u->plan = pool ? plan_ref(c->u.plan) : NULL;
    u->pool = pool;
    if (u->plan)
        plan_fill_pool(u->plan, numbers, pool);
    return true;
}

int64_t rule_case_pool_bytes(const rule_case *c)
{
    return c->u.plan ? plan_pool_bytes(c->u.plan) : 0;
}
