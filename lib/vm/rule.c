/* Rules: from a checked rule to the plan for one key.
 *
 * Host lines run here, in order. Element lines become operations of a program as they are met: a
 * name that holds an element stands for a value of the program, so reading what an earlier line
 * wrote costs nothing, and `stored` is written to memory once, at the end. Two walks over
 * expressions do it: `evaluate` for host values, `element` for elements.
 */
#include "vm/rule.h"

#include <math.h>
#include <string.h>

#include "vm/element.h"
#include "vm/rule_env.h"

/* ---- One run --------------------------------------------------------------------------------- */

/* What a name holds that was made of whole arrays when only the present rows are read. */
#define STALE (-2)

typedef struct run {
    const rule_binding *binding;
    const rule_given *given;
    rule_env env;
    arena memory;        /* names and new texts */
    bool by_rows, whole; /* a reduction or state of rows; a reduction of the whole array */
    int draws;           /* of normal() */
    int offset;          /* PLAN_PRESENT behind `rows present` */
    kv_dtype dtype, stored_dtype;
    prog_type type; /* T: what element lines compute in */
    prog_builder *b;
    rule_update *u;
    kv_err *e;
} run;

static int refuse(run *r, const ast *node, int rc)
{
    source_at(r->binding->src, node->pos, node->end, r->e);
    return rc;
}

#define REFUSE(r, node, code, ...)                                                                 \
    source_err((r)->binding->src, (node)->pos, (node)->end, (r)->e, code, __VA_ARGS__)

/* ---- Host values ----------------------------------------------------------------------------- */

static int evaluate(run *r, const ast *node, host *out);

/* Python's `and` and `or`: one of the two operands. */
static int evaluate_choice(run *r, const ast *node, host *out)
{
    int rc = evaluate(r, node->kid[0], out);
    if (rc || host_truth(*out) == (node->op == OP_OR))
        return rc;
    return evaluate(r, node->kid[1], out);
}

static int evaluate_all(run *r, const ast *node, host **out)
{
    *out = arena_alloc(&r->memory, sizeof **out * (node->n ? node->n : 1), r->e);
    int rc = *out ? KV_OK : KV_E_MEMORY;
    for (uint32_t i = 0; i < node->n && !rc; i++)
        rc = evaluate(r, node->kid[i], &(*out)[i]);
    return rc;
}

static int keep_text(run *r, buf *text, host *out)
{
    int rc = buf_check(text, r->e);
    const char *kept = rc ? NULL : arena_text(&r->memory, buf_text(text), text->len, r->e);
    buf_release(text);
    *out = host_text(kept);
    return kept ? KV_OK : KV_E_MEMORY;
}

/* TEXT % (a, b) */
static int evaluate_format(run *r, const ast *node, const char *fmt, host *out)
{
    host *values;
    int rc = evaluate_all(r, node->kid[1], &values);
    if (rc)
        return rc;
    buf text = {0};
    rc = host_format(&text, fmt, values, (int)node->kid[1]->n, r->e);
    if (rc) {
        buf_release(&text);
        return refuse(r, node, rc);
    }
    return keep_text(r, &text, out);
}

static int evaluate_binary(run *r, const ast *node, host *out)
{
    host x, y;
    int rc = evaluate(r, node->kid[0], &x);
    if (!rc && x.kind == HOST_TEXT && node->op == OP_MOD && node->kid[1]->kind == AST_TUPLE)
        return evaluate_format(r, node, x.u.text, out);
    if (!rc)
        rc = evaluate(r, node->kid[1], &y);
    if (rc)
        return rc;
    rc = host_binary((ast_op)node->op, x, y, out, &r->memory, r->e);
    return rc ? refuse(r, node, rc) : KV_OK;
}

static int evaluate_pieces(run *r, const ast *node, host *out)
{
    buf text = {0};
    int rc = KV_OK;
    for (uint32_t i = 0; i < node->n && !rc; i++) {
        const ast *piece = node->kid[i];
        host x;
        rc = evaluate(r, piece->kind == AST_FIELD ? piece->kid[0] : piece, &x);
        if (!rc && piece->kind != AST_FIELD)
            buf_add(&text, x.u.text);
        else if (!rc && (rc = host_format_field(&text, x, piece->u.text, r->e)))
            refuse(r, piece, rc);
    }
    if (!rc)
        return keep_text(r, &text, out);
    buf_release(&text);
    return rc;
}

static int evaluate_call(run *r, const ast *node, host *out)
{
    host *args;
    const element_function *f = element_called(node);
    if (f->traits & FN_ASKS) {
        bool input = strcmp(node->kid[0]->u.text, "input") == 0;
        *out = host_bool(input ? r->given->sparse_input : r->given->sparse_stored);
        return KV_OK;
    }
    int rc = evaluate_all(r, node, &args);
    if (rc)
        return rc;
    /* host values are binary64 as they are */
    if (f->kind == FN_F64) {
        *out = args[0];
        return KV_OK;
    }
    rc = host_call(node->u.text, args, (int)node->n, out, r->e);
    return rc ? refuse(r, node, rc) : KV_OK;
}

static int evaluate(run *r, const ast *node, host *out)
{
    host x;
    int rc;
    switch (node->kind) {
    case AST_NAME:
        *out = rule_env_find(&r->env, node->u.text)->number;
        return KV_OK;
    case AST_FTEXT:
        return evaluate_pieces(r, node, out);
    case AST_CALL:
        return evaluate_call(r, node, out);
    case AST_UNARY:
        if ((rc = evaluate(r, node->kid[0], &x)))
            return rc;
        rc = host_unary((ast_op)node->op, x, out, r->e);
        return rc ? refuse(r, node, rc) : KV_OK;
    case AST_BINARY:
        if (node->op == OP_AND || node->op == OP_OR)
            return evaluate_choice(r, node, out);
        return evaluate_binary(r, node, out);
    default: /* literals; rule_check leaves no other kinds */
        *out = host_literal(node);
        return KV_OK;
    }
}

/* ---- Elements -------------------------------------------------------------------------------- */

/* What an expression among elements gave: a value of the program, or a text or none. */
typedef struct operand {
    bool other;
    host host;    /* when other */
    prog_value v; /* else */
} operand;

static int element(run *r, const ast *node, prog_type type, operand *out);

/* A host number among elements: rounded once to T, and held in `type`. */
static int from_host(run *r, const ast *node, host x, prog_type type, operand *out)
{
    *out = (operand){.other = !host_is_number(x), .host = x, .v = -1};
    if (out->other)
        return KV_OK;
    if (r->type == PROG_I64) {
        int64_t whole = x.u.integer;
        if (x.kind == HOST_FLOAT && !element_is_whole(x.u.number, &whole)) {
            REFUSE(r, node, KV_E_DTYPE, "a rule on a key of %s reads only whole numbers",
                   kv_dtype_name(r->dtype));
            return kv_err_hint(r->e, "keep the key as float32 to compute with fractions");
        }
        if (!element_holds(r->dtype, whole))
            return REFUSE(r, node, KV_E_VALUE, "%lld does not fit into %s", (long long)whole,
                          kv_dtype_name(r->dtype));
        x = host_int(whole);
    }
    out->v = x.kind == HOST_FLOAT ? prog_const(r->b, r->type, x.u.number)
                                  : prog_const_int(r->b, r->type, x.u.integer);
    out->v = prog_cast(r->b, type, out->v);
    return KV_OK;
}

/* A result: of an integer key it wraps to the key's dtype at once. */
static prog_value settled(run *r, prog_value v)
{
    return r->type == PROG_I64 ? prog_narrow(r->b, r->dtype, v) : v;
}

static prog_value apply(run *r, prog_op op, prog_value x, prog_value y, prog_value z)
{
    return settled(r, prog_apply(r->b, op, x, y, z));
}

/* A division or root of integers would have to leave them. */
static int refuse_integer(run *r, const ast *node, const char *what)
{
    REFUSE(r, node, KV_E_DTYPE, "a rule on a key of %s computes in integers, which have no %s",
           kv_dtype_name(r->dtype), what);
    return kv_err_hint(r->e, "keep the key as float32 to compute with fractions");
}

static int need_number(run *r, const ast *node, operand x)
{
    if (!x.other)
        return KV_OK;
    return REFUSE(r, node, KV_E_DTYPE, "%s cannot be computed with arrays",
                  x.host.kind == HOST_TEXT ? "a text" : "none");
}

/* An element, which must be a number. */
static int number(run *r, const ast *node, prog_type type, prog_value *out)
{
    operand x;
    int rc = element(r, node, type, &x);
    if (!rc)
        rc = need_number(r, node, x);
    *out = x.v;
    return rc;
}

/* A comparison in which a text or none stands, so no element: its answer is a number. */
static int compare_others(run *r, const ast *node, operand x, operand y, prog_type type,
                          operand *out)
{
    host answer;
    host left = x.other ? x.host : host_int(0), right = y.other ? y.host : host_int(0);
    int rc = host_binary((ast_op)node->op, left, right, &answer, &r->memory, r->e);
    return rc ? refuse(r, node, rc) : from_host(r, node, answer, type, out);
}

static int element_binary(run *r, const ast *node, prog_type type, operand *out)
{
    operand x, y;
    int rc = element(r, node->kid[0], type, &x);
    if (!rc)
        rc = element(r, node->kid[1], type, &y);
    if (rc)
        return rc;
    bool compares = node->op >= OP_EQ && node->op <= OP_GE;
    if (compares && (x.other || y.other))
        return compare_others(r, node, x, y, type, out);
    rc = need_number(r, node->kid[0], x);
    if (!rc)
        rc = need_number(r, node->kid[1], y);
    if (!rc && type == PROG_I64 && node->op == OP_DIV)
        rc = refuse_integer(r, node, "`/`");
    *out = (operand){.v = rc ? -1 : apply(r, element_op((ast_op)node->op), x.v, y.v, -1)};
    return rc;
}

static int element_unary(run *r, const ast *node, prog_type type, operand *out)
{
    int rc = element(r, node->kid[0], type, out);
    /* -none is none */
    if (rc || (out->other && out->host.kind == HOST_NONE && node->op != OP_NOT) ||
        (!out->other && node->op == OP_POS))
        return rc;
    if ((rc = need_number(r, node->kid[0], *out)))
        return rc;
    out->v = apply(r, node->op == OP_NEG ? PROG_NEG : PROG_NOT, out->v, -1, -1);
    return KV_OK;
}

static prog_value constant(run *r, prog_type type, double x)
{
    return prog_const(r->b, type, x);
}

/* clip(x, c): to -c .. c, but only for c > 0. */
static int clip_both(run *r, prog_type type, prog_value x, operand c, operand *out)
{
    *out = (operand){.v = x};
    if (c.other)
        return KV_OK;
    prog_value above = apply(r, PROG_GT, c.v, constant(r, type, 0), -1);
    /* -c is no number of an unsigned dtype, but a bound all the same */
    prog_value low = prog_apply(r->b, PROG_NEG, c.v, -1, -1);
    prog_value clipped = apply(r, PROG_CLIP, x, low, c.v);
    out->v = apply(r, PROG_WHERE, above, clipped, x);
    return KV_OK;
}

/* The bound of a clip; the one that never binds when there is none. */
static prog_value bound(run *r, prog_type type, operand b, double none)
{
    if (!b.other)
        return b.v;
    if (type != PROG_I64)
        return constant(r, type, none);
    return prog_const_int(r->b, type, none < 0 ? INT64_MIN : INT64_MAX);
}

static int element_clip(run *r, const ast *node, prog_type type, operand *out)
{
    prog_value x;
    operand b[2];
    int rc = number(r, node->kid[0], type, &x);
    for (uint32_t i = 1; i < node->n && !rc; i++) {
        rc = element(r, node->kid[i], type, &b[i - 1]);
        if (!rc && b[i - 1].other && b[i - 1].host.kind == HOST_TEXT)
            rc = need_number(r, node->kid[i], b[i - 1]);
    }
    if (rc)
        return rc;
    if (node->n == 2)
        return clip_both(r, type, x, b[0], out);
    *out = (operand){.v = apply(r, PROG_CLIP, x, bound(r, type, b[0], -INFINITY),
                                bound(r, type, b[1], INFINITY))};
    return KV_OK;
}

/* f64(e): e in binary64, rounded once to T. */
static int element_f64(run *r, const ast *node, prog_type type, operand *out)
{
    if (type == PROG_I64)
        return refuse_integer(r, node, "`f64`");
    prog_value x;
    int rc = number(r, node->kid[0], PROG_F64, &x);
    *out = (operand){.v = prog_cast(r->b, type, prog_cast(r->b, r->type, x))};
    return rc;
}

/* sum, norm and rowmean: one number, for the whole array or for its row. */
static int element_reduce(run *r, const ast *node, const element_function *f, prog_type type,
                          operand *out)
{
    prog_value x;
    bool mean = f->kind == FN_ROWMEAN, norm = f->kind == FN_NORM;
    if (type == PROG_I64)
        return refuse_integer(r, node, f->name);
    int rc = number(r, node->kid[0], type, &x);
    if (rc)
        return rc;
    *(mean ? &r->by_rows : &r->whole) = true;
    prog_value term = norm ? prog_apply(r->b, PROG_MUL, x, x, -1) : x;
    prog_value sum = plan_sum(r->b, term, r->offset != 0);
    if (norm)
        sum = prog_apply(r->b, PROG_SQRT, sum, -1, -1);
    if (mean)
        sum = prog_apply(r->b, PROG_DIV, sum, prog_const(r->b, type, (double)r->given->row), -1);
    *out = (operand){.v = sum};
    return KV_OK;
}

/* normal(sigma): drawn anew for every element and update. */
static int element_normal(run *r, const ast *node, prog_type type, operand *out)
{
    prog_value sigma;
    if (type == PROG_I64)
        return refuse_integer(r, node, "`normal`");
    int rc = number(r, node->kid[0], type, &sigma);
    if (rc)
        return rc;
    if (r->draws == PLAN_MAX_DRAWS)
        return REFUSE(r, node, KV_E_VALUE, "a rule draws at most %d times", PLAN_MAX_DRAWS);
    int slot = PLAN_NORMAL + r->offset + r->draws++;
    prog_value z = prog_cast(r->b, type, prog_load(r->b, slot, prog_dtype(r->type), r->type));
    *out = (operand){.v = prog_apply(r->b, PROG_MUL, z, sigma, -1)};
    return KV_OK;
}

/* A function that is one operation. */
static int element_operation(run *r, const ast *node, const element_function *f, prog_type type,
                             operand *out)
{
    prog_value v[3] = {-1, -1, -1};
    if (f->kind == FN_FRACTION && type == PROG_I64)
        return refuse_integer(r, node, f->name);
    int rc = KV_OK, arity = prog_op_arity(f->op);
    for (int i = 0; i < (int)node->n && !rc; i++) {
        int at = i < arity ? i : 1;
        rc = number(r, node->kid[i], type, &v[at]);
        /* min and max of more than two: from left to right */
        if (!rc && arity == 2 && i > 0)
            v[0] = apply(r, f->op, v[0], v[1], -1);
    }
    if (!rc)
        *out = (operand){.v = arity == 2 ? v[0] : apply(r, f->op, v[0], v[1], v[2])};
    return rc;
}

/* What is known before the arrays are read: literals, texts, and what is asked about them. */
static int element_host(run *r, const ast *node, prog_type type, operand *out)
{
    host x;
    int rc = evaluate(r, node, &x);
    return rc ? rc : from_host(r, node, x, type, out);
}

static int element_call(run *r, const ast *node, prog_type type, operand *out)
{
    const element_function *f = element_called(node);
    switch (f->kind) {
    case FN_CLIP:
        return element_clip(r, node, type, out);
    case FN_ENDSWITH:
    case FN_SPARSE:
        return element_host(r, node, type, out);
    case FN_F64:
        return element_f64(r, node, type, out);
    case FN_SUM:
    case FN_NORM:
    case FN_ROWMEAN:
        return element_reduce(r, node, f, type, out);
    case FN_NORMAL:
        return element_normal(r, node, type, out);
    default: /* the operations */
        return element_operation(r, node, f, type, out);
    }
}

/* An expression in `type`, which is T, or binary64 inside f64. What names no element is computed in
 * it too, operator by operator; names and literals of host numbers are rounded to T first. */
static int element(run *r, const ast *node, prog_type type, operand *out)
{
    *out = (operand){.v = -1};
    switch (node->kind) {
    case AST_NAME: {
        const rule_name *n = rule_env_find(&r->env, node->u.text);
        if (!n->element)
            return from_host(r, node, n->number, type, out);
        if (n->at == STALE)
            return REFUSE(r, node, KV_E_USAGE, "`%s` was made before `rows present`", n->text);
        out->v = prog_cast(r->b, type, n->at);
        return KV_OK;
    }
    case AST_UNARY:
        return element_unary(r, node, type, out);
    case AST_BINARY:
        return element_binary(r, node, type, out);
    case AST_CALL:
        return element_call(r, node, type, out);
    default: /* literals and texts */
        return element_host(r, node, type, out);
    }
}

/* ---- Statements ------------------------------------------------------------------------------ */

static int run_block(run *r, const ast *block, bool *ended);

/* A host number where elements stand: itself, and as a value of the program. */
static int host_value(run *r, const ast *node, host *x, prog_value *out)
{
    operand v;
    int rc = evaluate(r, node, x);
    if (!rc)
        rc = from_host(r, node, *x, r->type, &v);
    if (!rc)
        rc = need_number(r, node, v);
    if (!rc)
        *out = v.v;
    return rc;
}

/* A row state holds one number a row. */
static int need_row_number(run *r, const ast *node, const rule_name *n, prog_value x)
{
    if (n->kind != RULE_NAME_STATE || n->how != STATE_ROW || x < 0 || plan_is_number(r->b, x))
        return KV_OK;
    REFUSE(r, node, KV_E_USAGE, "state %s is one number a row, and this is an array", n->text);
    return kv_err_hint(r->e, "for example: rowmean(x)");
}

/* Whether an expression among elements gives an array, not one number for all or for each row. */
static bool is_array(const run *r, const ast *node)
{
    bool array = false;
    if (node->kind == AST_NAME) {
        const rule_name *n = rule_env_find(&r->env, node->u.text);
        bool state = n->kind == RULE_NAME_STATE && n->element;
        return n->array || n->kind == RULE_NAME_STORED || (state && n->how == STATE_ARRAY) ||
               (n->kind == RULE_NAME_GIVEN && n->element);
    }
    const element_function *f = element_called(node);
    if (f && f->traits & (FN_DRAWS | FN_REDUCES | FN_ASKS))
        return f->traits & FN_DRAWS;
    for (uint32_t i = 0; i < node->n && !array; i++)
        array = node->kid[i] && is_array(r, node->kid[i]);
    return array;
}

static int run_set(run *r, const ast *node)
{
    rule_name *n = rule_env_find(&r->env, node->u.text);
    host x;
    n->array = n->element && is_array(r, node->kid[0]);
    if (!n->element)
        return evaluate(r, node->kid[0], &n->number);
    /* a host expression is computed as one even where its name holds elements elsewhere */
    if (!rule_env_is_element(&r->env, node->kid[0]))
        return host_value(r, node->kid[0], &x, &n->at);
    int rc = number(r, node->kid[0], r->type, &n->at);
    return rc ? rc : need_row_number(r, node, n, n->at);
}

/* ---- States ---------------------------------------------------------------------------------- */

static prog_value load_state_at(run *r, const rule_name *n, int offset)
{
    if (n->how == STATE_ROW)
        return plan_row_state(r->b, n->state, r->type);
    return prog_load(r->b, PLAN_STATE + n->state + offset, prog_dtype(r->type), r->type);
}

static prog_value load_state(run *r, const rule_name *n)
{
    return load_state_at(r, n, r->offset);
}

static bool is_zero(const ast *initial)
{
    return !initial || (initial->kind == AST_INT && initial->u.integer == 0) ||
           (initial->kind == AST_FLOAT && initial->u.number == 0);
}

/* The rows that are absent in its first update have a state's first value too. From here on those
 * that are present are read and written by themselves. Nothing has loaded them before, so that the
 * load stands behind the store. */
static void begin_absent(run *r, rule_name *n)
{
    prog_value whole = plan_whole(r->b, n->begin);
    if (n->how == STATE_ROW) {
        prog_store(r->b, PLAN_ROW_BEGIN + n->state, prog_dtype(r->type), whole);
        return;
    }
    prog_store(r->b, PLAN_STATE + n->state, prog_dtype(r->type), whole);
    n->at = load_state(r, n);
}

/* What a new array of a state begins with: zeros, a number that it comes filled with, or what the
 * first update computes with. */
static int begin_state(run *r, rule_name *n, const ast *initial)
{
    int rc;
    prog_value checked;
    if (!rule_env_is_element(&r->env, initial)) {
        rc = host_value(r, initial, &r->u->numbers[n->state], &checked);
        r->u->fills |= 1u << n->state;
        n->at = load_state(r, n);
        return rc;
    }
    rc = number(r, initial, r->type, &n->begin);
    if (!rc)
        rc = need_row_number(r, initial, n, n->begin);
    n->at = n->begin;
    if (!rc && r->offset)
        begin_absent(r, n);
    return rc;
}

/* A state exists from the first update that declares it. */
static int run_state(run *r, const ast *node)
{
    rule_name *n = rule_env_find(&r->env, node->u.text);
    const ast *initial = node->n > 0 ? node->kid[0] : NULL;
    bool have = r->given->have >> n->state & 1;
    r->u->states |= 1u << n->state;
    if (n->element) {
        r->by_rows |= n->how == STATE_ROW;
        if (!have && !is_zero(initial))
            return begin_state(r, n, initial);
        n->at = load_state(r, n);
        return KV_OK;
    }
    n->number = have ? r->given->numbers[n->state] : host_int(0);
    return have || !initial ? KV_OK : evaluate(r, initial, &n->number);
}

/* What a name stands for in the present rows. */
static int enter_rows(run *r, const ast *node, rule_name *n)
{
    bool stored = n->kind == RULE_NAME_STORED, state = n->kind == RULE_NAME_STATE;
    prog_value before = n->begin;
    if (stored)
        before = prog_load(r->b, PLAN_STORED, r->stored_dtype, r->type);
    else if (state && n->begin < 0)
        before = load_state_at(r, n, 0);
    if ((stored || state) && n->at != before)
        return REFUSE(r, node, KV_E_USAGE, "`%s` was written before `rows present`", n->text);
    if (stored)
        n->at = prog_load(r->b, PLAN_STORED + PLAN_PRESENT, r->stored_dtype, r->type);
    else if (state && n->begin >= 0)
        begin_absent(r, n);
    else if (state)
        n->at = load_state(r, n);
    else if (n->kind == RULE_NAME_GIVEN)
        n->at = prog_load(r->b, PLAN_INPUT + PLAN_PRESENT, r->dtype, r->type);
    else if (!plan_is_number(r->b, n->at))
        n->at = STALE;
    return KV_OK;
}

/* From here on only the rows that a row_sparse input holds are read and written. */
static int run_rows(run *r, const ast *node)
{
    int rc = KV_OK;
    if (!r->given->sparse_input || r->offset)
        return KV_OK;
    r->offset = PLAN_PRESENT;
    r->u->rows_present = true;
    for (int i = 0; i < r->env.n && !rc; i++)
        if (r->env.names[i].element && r->env.names[i].at >= 0)
            rc = enter_rows(r, node, &r->env.names[i]);
    return rc;
}

/* ---- Other statements ------------------------------------------------------------------------ */

/* The dtype that people see: halves that nothing was done to are halves, and numbers of an integer
 * key are of its dtype. */
static kv_dtype printed_dtype(const run *r, prog_value x)
{
    return r->type == PROG_I64 ? r->dtype : prog_value_dtype(r->b, x);
}

/* Has the plan keep x, as it is now, for the line that is being printed. */
static int print_elements(run *r, const ast *node, prog_value x)
{
    rule_update *u = r->u;
    int slot = (int)u->nprints;
    int64_t integer = 0;
    double fraction = 0;
    if (slot == PLAN_MAX_PRINTS)
        return REFUSE(r, node, KV_E_VALUE, "a rule prints at most %d arrays", PLAN_MAX_PRINTS);
    if (mem_grow(&u->prints, &u->prints_cap, slot + 1, sizeof *u->prints, r->e))
        return KV_E_MEMORY;
    rule_print *p = &u->prints[u->nprints++];
    *p = (rule_print){
        .at = u->printed.len, .dtype = prog_dtype(r->type), .extent = RULE_EACH_ELEMENT};
    if (is_array(r, node)) {
        p->dtype = printed_dtype(r, x);
        p->present = r->offset != 0;
        prog_store(r->b, PLAN_PRINT + slot + r->offset, p->dtype, x);
    } else if (prog_value_known(r->b, x, &fraction, &integer)) {
        p->extent = RULE_ONE;
        p->known = true;
        p->value = r->type == PROG_I64 ? host_int(integer) : host_float(fraction);
    } else {
        p->extent = r->by_rows ? RULE_EACH_ROW : RULE_ONE;
        p->present = r->by_rows && r->offset;
        prog_store(r->b, (p->present ? PLAN_ROW_PRINT_PRESENT : PLAN_ROW_PRINT) + slot, p->dtype,
                   x);
    }
    return KV_OK;
}

static int print_one(run *r, const ast *node)
{
    host x;
    operand v = {.other = true};
    bool elements = rule_env_is_element(&r->env, node);
    int rc = elements ? element(r, node, r->type, &v) : evaluate(r, node, &x);
    if (!rc && elements && !v.other)
        return print_elements(r, node, v.v);
    if (!rc)
        host_print(&r->u->printed, elements ? v.host : x, false);
    return rc;
}

static int run_print(run *r, const ast *node)
{
    int rc = KV_OK;
    for (uint32_t i = 0; i < node->n && !rc; i++) {
        if (i > 0)
            buf_char(&r->u->printed, ' ');
        rc = print_one(r, node->kid[i]);
    }
    buf_char(&r->u->printed, '\n');
    return rc ? rc : buf_check(&r->u->printed, r->e);
}

/* The text of `fail` is the error; its place is the statement that caused the update. */
static int run_fail(run *r, const ast *node)
{
    host x;
    int rc = evaluate(r, node->kid[0], &x);
    if (rc)
        return rc;
    buf text = {0};
    host_print(&text, x, false);
    rc = kv_err_set(r->e, KV_E_VALUE, "%s", buf_text(&text));
    buf_release(&text);
    return rc;
}

static int run_if(run *r, const ast *node, bool *ended)
{
    host x;
    int rc = evaluate(r, node->kid[0], &x);
    if (rc)
        return rc;
    const ast *taken = host_truth(x) ? node->kid[1] : node->n > 2 ? node->kid[2] : NULL;
    if (!taken)
        return KV_OK;
    return taken->kind == RULE_IF ? run_if(r, taken, ended) : run_block(r, taken, ended);
}

static int run_statement(run *r, const ast *node, bool *ended)
{
    switch (node->kind) {
    case RULE_SET:
        return run_set(r, node);
    case RULE_STATE:
        return run_state(r, node);
    case RULE_ROWS:
        return run_rows(r, node);
    case RULE_IF:
        return run_if(r, node, ended);
    case RULE_PRINT:
        return run_print(r, node);
    case RULE_FAIL:
        return run_fail(r, node);
    default: /* RULE_SKIP */
        r->u->skipped = *ended = true;
        return KV_OK;
    }
}

static int run_block(run *r, const ast *block, bool *ended)
{
    int rc = KV_OK;
    for (uint32_t i = 0; i < block->n && !rc && !*ended; i++)
        rc = run_statement(r, block->kid[i], ended);
    return rc;
}

/* ---- The whole rule -------------------------------------------------------------------------- */

static void give(run *r, const char *name, host x)
{
    rule_env_find(&r->env, name)->number = x;
}

static void set_given(run *r)
{
    const rule_given *given = r->given;
    const rule_binding *b = r->binding;
    const char *key = given->key.name, *name = given->name ? given->name : key;
    for (int i = 0; i < b->rule->nparams; i++)
        give(r, b->rule->params[i].name, b->values[i]);
    give(r, "key", key ? host_text(key) : host_int(given->key.id));
    give(r, "name", host_text(name ? name : ""));
    give(r, "t", host_int(given->t));
    give(r, "lr", host_float(given->lr));
    give(r, "wd", host_float(given->wd));
    give(r, "base_lr", host_float(given->base_lr));
    give(r, "rescale_grad", rule_value(b, RULE_RESCALE_GRAD));
    give(r, "clip_gradient", rule_value(b, RULE_CLIP_GRADIENT));
    rule_env_find(&r->env, "stored")->at = prog_load(r->b, PLAN_STORED, r->stored_dtype, r->type);
    rule_env_find(&r->env, "input")->at = prog_load(r->b, PLAN_INPUT, r->dtype, r->type);
}

/* What the lines left in stored and the states goes back to them. */
static void store_results(run *r)
{
    prog_value stored = rule_env_find(&r->env, "stored")->at;
    for (int i = 0; i < r->env.n; i++) {
        const rule_name *n = &r->env.names[i];
        if (n->kind != RULE_NAME_STATE || !(r->u->states >> n->state & 1))
            continue;
        if (!n->element)
            r->u->numbers[n->state] = n->number;
        else if (n->how == STATE_ROW)
            prog_store(r->b, PLAN_ROW_STATE + n->state, prog_dtype(r->type), n->at);
        else
            prog_store(r->b, PLAN_STATE + n->state + r->offset, prog_dtype(r->type), n->at);
    }
    prog_store(r->b, PLAN_STORED + r->offset, r->stored_dtype, stored);
    if (r->given->master)
        prog_store(r->b, PLAN_WEIGHT + r->offset, r->dtype, stored);
}

/* A text would have to outlive the lines that made it. */
static int check_numbers(run *r)
{
    const rule_ast *rule = r->binding->rule;
    for (int i = 0; i < r->env.n; i++) {
        const rule_name *n = &r->env.names[i];
        if (n->kind == RULE_NAME_STATE && r->u->states >> n->state & 1 && !n->element &&
            n->number.kind == HOST_TEXT)
            return source_err(r->binding->src, rule->pos, rule->end, r->e, KV_E_DTYPE,
                              "the state `%s` holds a number, not a text", n->text);
    }
    return KV_OK;
}

static int run_rule(run *r)
{
    bool ended = false;
    const rule_ast *rule = r->binding->rule;
    set_given(r);
    int rc = run_block(r, rule->body, &ended);
    bool prints = r->u->nprints > 0;
    if (rc || (ended && !prints) || (rc = check_numbers(r)))
        return rc;
    if (r->by_rows && r->whole)
        return source_err(r->binding->src, rule->pos, rule->end, r->e, KV_E_UNSUPPORTED,
                          "a rule reduces rows or whole arrays, not both");
    if (!ended)
        store_results(r);
    return plan_make(&r->u->plan, r->b, r->type, r->by_rows, r->e);
}

int rule_update_make(const rule_binding *b, const rule_given *given, rule_update *u, kv_err *e)
{
    kv_err unused = {0};
    run r = {.binding = b,
             .given = given,
             .dtype = given->dtype,
             .stored_dtype = given->master ? KV_FLOAT32 : given->dtype,
             .type = prog_type_of(given->dtype),
             .u = u,
             .e = e ? e : &unused};
    *u = (rule_update){0};
    int rc = rule_env_init(&r.env, b->rule, &r.memory, r.e);
    if (!rc && !(r.b = prog_builder_new(r.e)))
        rc = KV_E_MEMORY;
    if (!rc)
        rc = run_rule(&r);
    prog_builder_free(r.b);
    arena_release(&r.memory);
    if (rc)
        rule_update_release(u);
    return rc;
}

void rule_update_release(rule_update *u)
{
    buf_release(&u->printed);
    mem_free(u->prints);
    plan_free(u->plan);
    *u = (rule_update){0};
}
