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

/* The value of a name that was made of whole arrays, once only the present rows are read. */
#define STALE (-2)

/* The first failure stays in rc: everything after it gives none, or -1, from which nothing else is
 * made. */
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
    bool ended; /* by `skip` */
    prog_value path; /* in a block of which it is known late whether it runs: whether; else -1 */
    prog_value skip; /* whether a `skip` in such a block was met, or -1 */
    int rc;
    kv_err *e;
} run;

static void refuse(run *r, const ast *node, int rc)
{
    source_at(r->binding->src, node->pos, node->end, r->e);
    r->rc = rc;
}

#define REFUSE(r, node, code, ...)                                                                 \
    ((r)->rc = source_err((r)->binding->src, (node)->pos, (node)->end, (r)->e, code, __VA_ARGS__))

/* ---- Host values ----------------------------------------------------------------------------- */

static host evaluate(run *r, const ast *node);

/* Python's `and` and `or`: one of the two operands. */
static host evaluate_choice(run *r, const ast *node)
{
    host x = evaluate(r, node->kid[0]);
    return host_truth(x) == (node->op == OP_OR) ? x : evaluate(r, node->kid[1]);
}

/* The values of all children; NULL after a failure. */
static host *evaluate_all(run *r, const ast *node)
{
    host *values = arena_alloc(&r->memory, sizeof *values * (node->n ? node->n : 1), r->e);
    if (!values)
        r->rc = KV_E_MEMORY;
    for (uint32_t i = 0; i < node->n && !r->rc; i++)
        values[i] = evaluate(r, node->kid[i]);
    return r->rc ? NULL : values;
}

static host keep_text(run *r, buf *text)
{
    const char *kept =
        buf_check(text, r->e) ? NULL : arena_text(&r->memory, buf_text(text), text->len, r->e);
    buf_release(text);
    if (!kept)
        r->rc = KV_E_MEMORY;
    return kept ? host_text(kept) : host_none();
}

/* TEXT % (a, b) */
static host evaluate_format(run *r, const ast *node, const char *fmt)
{
    host *values = evaluate_all(r, node->kid[1]);
    buf text = {0};
    int rc = values ? host_format(&text, fmt, values, (int)node->kid[1]->n, r->e) : KV_OK;
    if (rc)
        refuse(r, node, rc);
    if (!r->rc)
        return keep_text(r, &text);
    buf_release(&text);
    return host_none();
}

static host evaluate_binary(run *r, const ast *node)
{
    host x = evaluate(r, node->kid[0]), out = host_none();
    if (x.kind == HOST_TEXT && node->op == OP_MOD && node->kid[1]->kind == AST_TUPLE)
        return evaluate_format(r, node, x.u.text);
    host y = evaluate(r, node->kid[1]);
    int rc = r->rc ? KV_OK : host_binary((ast_op)node->op, x, y, &out, &r->memory, r->e);
    if (rc)
        refuse(r, node, rc);
    return out;
}

/* Appends {x}, {x!r} or {x:format}, whose format may have fields of its own. */
static void put_field(run *r, buf *out, const ast *field)
{
    buf shown = {0};
    host x = evaluate(r, field->kid[0]);
    const char *format = field->n > 1 ? evaluate(r, field->kid[1]).u.text : field->u.text;
    if (r->rc)
        return;
    if (field->op) {
        host_print(&shown, x, field->op == 'r');
        x = host_text(buf_text(&shown));
    }
    int rc = host_format_field(out, x, format, r->e);
    buf_release(&shown);
    if (rc)
        refuse(r, field, rc);
}

static host evaluate_pieces(run *r, const ast *node)
{
    buf text = {0};
    for (uint32_t i = 0; i < node->n && !r->rc; i++) {
        const ast *piece = node->kid[i];
        if (piece->kind == AST_FIELD)
            put_field(r, &text, piece);
        else
            buf_add(&text, piece->u.text);
    }
    if (!r->rc)
        return keep_text(r, &text);
    buf_release(&text);
    return host_none();
}

static host evaluate_call(run *r, const ast *node)
{
    const element_function *f = element_called(node);
    if (f->kind == FN_SPARSE) {
        bool input = strcmp(node->kid[0]->u.text, "input") == 0;
        return host_bool(input ? r->given->sparse_input : r->given->sparse_stored);
    }
    if (f->kind == FN_SIZE)
        return host_int(r->given->size);
    if (f->kind == FN_LEN)
        return host_int(r->given->row > 0 ? r->given->size / r->given->row : 0);
    host *args = evaluate_all(r, node), out = host_none();
    /* host values are binary64 as they are */
    if (args && f->kind == FN_F64)
        return args[0];
    int rc = args ? host_call(node->u.text, args, (int)node->n, &out, r->e) : KV_OK;
    if (rc)
        refuse(r, node, rc);
    return out;
}

static host evaluate_unary(run *r, const ast *node)
{
    host x = evaluate(r, node->kid[0]), out = host_none();
    int rc = r->rc ? KV_OK : host_unary((ast_op)node->op, x, &out, r->e);
    if (rc)
        refuse(r, node, rc);
    return out;
}

static host evaluate(run *r, const ast *node)
{
    if (r->rc)
        return host_none();
    switch (node->kind) {
    case AST_NAME:
        return rule_env_find(&r->env, node->u.text)->number;
    case AST_FTEXT:
        return evaluate_pieces(r, node);
    case AST_CALL:
        return evaluate_call(r, node);
    case AST_UNARY:
        return evaluate_unary(r, node);
    case AST_BINARY:
        if (node->op == OP_AND || node->op == OP_OR)
            return evaluate_choice(r, node);
        return evaluate_binary(r, node);
    default: /* literals; rule_check leaves no other kinds */
        return host_literal(node);
    }
}

/* ---- Elements -------------------------------------------------------------------------------- */

/* The result of an expression among elements: a value of the program, or a text or none. */
typedef struct operand {
    bool other;
    host host;    /* when other */
    prog_value v; /* else */
} operand;

static const operand nothing = {.v = -1};

static operand element(run *r, const ast *node, prog_type type);

/* A host number among elements: rounded once to T, and held in `type`. */
static operand from_host(run *r, const ast *node, host x, prog_type type)
{
    if (!host_is_number(x))
        return (operand){.other = true, .host = x, .v = -1};
    if (r->type == PROG_I64) {
        int64_t whole = x.u.integer;
        if (x.kind == HOST_FLOAT && !element_is_whole(x.u.number, &whole)) {
            REFUSE(r, node, KV_E_DTYPE, "a rule on a key of %s reads only whole numbers",
                   kv_dtype_name(r->dtype));
            kv_err_hint(r->e, "keep the key as float32 to compute with fractions");
            return nothing;
        }
        if (!element_holds(r->dtype, whole))
            REFUSE(r, node, KV_E_VALUE, "%lld does not fit into %s", (long long)whole,
                   kv_dtype_name(r->dtype));
        x = host_int(whole);
    }
    prog_value v = x.kind == HOST_FLOAT ? prog_const(r->b, r->type, x.u.number)
                                        : prog_const_int(r->b, r->type, x.u.integer);
    return (operand){.v = prog_cast(r->b, type, v)};
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
static operand refuse_integer(run *r, const ast *node, const char *what)
{
    if (r->rc)
        return nothing;
    REFUSE(r, node, KV_E_DTYPE, "a rule on a key of %s computes in integers, which have no %s",
           kv_dtype_name(r->dtype), what);
    kv_err_hint(r->e, "keep the key as float32 to compute with fractions");
    return nothing;
}

static void need_number(run *r, const ast *node, operand x)
{
    if (!r->rc && x.other)
        REFUSE(r, node, KV_E_DTYPE, "%s cannot be computed with arrays",
               x.host.kind == HOST_TEXT ? "a text" : "none");
}

/* An element, which must be a number. */
static prog_value number(run *r, const ast *node, prog_type type)
{
    operand x = element(r, node, type);
    need_number(r, node, x);
    return x.v;
}

/* A comparison in which a text or none stands, so no element: its answer is a number. */
static operand compare_others(run *r, const ast *node, operand x, operand y, prog_type type)
{
    host answer;
    host left = x.other ? x.host : host_int(0), right = y.other ? y.host : host_int(0);
    int rc = host_binary((ast_op)node->op, left, right, &answer, &r->memory, r->e);
    if (!rc)
        return from_host(r, node, answer, type);
    refuse(r, node, rc);
    return nothing;
}

static operand element_binary(run *r, const ast *node, prog_type type)
{
    operand x = element(r, node->kid[0], type), y = element(r, node->kid[1], type);
    bool compares = node->op >= OP_EQ && node->op <= OP_GE;
    if (!r->rc && compares && (x.other || y.other))
        return compare_others(r, node, x, y, type);
    need_number(r, node->kid[0], x);
    need_number(r, node->kid[1], y);
    if (type == PROG_I64 && node->op == OP_DIV)
        return refuse_integer(r, node, "`/`");
    return (operand){.v = apply(r, element_op((ast_op)node->op), x.v, y.v, -1)};
}

static operand element_unary(run *r, const ast *node, prog_type type)
{
    operand x = element(r, node->kid[0], type);
    /* -none is none */
    if ((x.other && x.host.kind == HOST_NONE && node->op != OP_NOT) ||
        (!x.other && node->op == OP_POS))
        return x;
    need_number(r, node->kid[0], x);
    return (operand){.v = apply(r, node->op == OP_NEG ? PROG_NEG : PROG_NOT, x.v, -1, -1)};
}

static prog_value constant(run *r, prog_type type, double x)
{
    return prog_const(r->b, type, x);
}

/* clip(x, c): to -c .. c, but only for c > 0. */
static prog_value clip_both(run *r, prog_type type, prog_value x, operand c)
{
    if (c.other)
        return x;
    prog_value above = apply(r, PROG_GT, c.v, constant(r, type, 0), -1);
    /* -c is no number of an unsigned dtype, but a bound all the same */
    prog_value low = prog_apply(r->b, PROG_NEG, c.v, -1, -1);
    return apply(r, PROG_WHERE, above, apply(r, PROG_CLIP, x, low, c.v), x);
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

static operand element_clip(run *r, const ast *node, prog_type type)
{
    prog_value x = number(r, node->kid[0], type);
    operand b[2] = {nothing, nothing};
    for (uint32_t i = 1; i < node->n; i++) {
        b[i - 1] = element(r, node->kid[i], type);
        if (b[i - 1].other && b[i - 1].host.kind == HOST_TEXT)
            need_number(r, node->kid[i], b[i - 1]);
    }
    if (node->n == 2)
        return (operand){.v = clip_both(r, type, x, b[0])};
    return (operand){.v = apply(r, PROG_CLIP, x, bound(r, type, b[0], -INFINITY),
                                bound(r, type, b[1], INFINITY))};
}

/* f64(e): e in binary64, rounded once to T. */
static operand element_f64(run *r, const ast *node, prog_type type)
{
    if (type == PROG_I64)
        return refuse_integer(r, node, "`f64`");
    prog_value x = number(r, node->kid[0], PROG_F64);
    return (operand){.v = prog_cast(r->b, type, prog_cast(r->b, r->type, x))};
}

/* sum, norm, mean and rowmean: one number, for the whole array or for its row. */
static operand element_reduce(run *r, const ast *node, const element_function *f, prog_type type)
{
    bool by_row = f->kind == FN_ROWMEAN, norm = f->kind == FN_NORM;
    if (type == PROG_I64)
        return refuse_integer(r, node, f->name);
    prog_value x = number(r, node->kid[0], type);
    *(by_row ? &r->by_rows : &r->whole) = true;
    prog_value term = norm ? prog_apply(r->b, PROG_MUL, x, x, -1) : x;
    prog_value sum = plan_sum(r->b, term, r->offset != 0);
    int64_t n = by_row ? r->given->row : r->given->size;
    if (norm)
        sum = prog_apply(r->b, PROG_SQRT, sum, -1, -1);
    else if (f->kind != FN_SUM)
        sum = prog_apply(r->b, PROG_DIV, sum, prog_const(r->b, type, (double)n), -1);
    return (operand){.v = sum};
}

/* normal(sigma): drawn anew for every element and update. */
static operand element_normal(run *r, const ast *node, prog_type type)
{
    if (type == PROG_I64)
        return refuse_integer(r, node, "`normal`");
    prog_value sigma = number(r, node->kid[0], type);
    if (!r->rc && r->draws == PLAN_MAX_DRAWS)
        REFUSE(r, node, KV_E_VALUE, "a rule draws at most %d times", PLAN_MAX_DRAWS);
    if (r->rc)
        return nothing;
    int slot = PLAN_NORMAL + r->offset + r->draws++;
    prog_value z = prog_cast(r->b, type, prog_load(r->b, slot, prog_dtype(r->type), r->type));
    return (operand){.v = prog_apply(r->b, PROG_MUL, z, sigma, -1)};
}

/* A function that is one operation. */
static operand element_operation(run *r, const ast *node, const element_function *f, prog_type type)
{
    prog_value v[3] = {-1, -1, -1};
    if (f->kind == FN_FRACTION && type == PROG_I64)
        return refuse_integer(r, node, f->name);
    int arity = prog_op_arity(f->op);
    for (int i = 0; i < (int)node->n; i++) {
        v[i < arity ? i : 1] = number(r, node->kid[i], type);
        /* min and max of more than two: from left to right */
        if (arity == 2 && i > 0)
            v[0] = apply(r, f->op, v[0], v[1], -1);
    }
    return (operand){.v = arity == 2 ? v[0] : apply(r, f->op, v[0], v[1], v[2])};
}

static operand element_call(run *r, const ast *node, prog_type type)
{
    const element_function *f = element_called(node);
    switch (f->kind) {
    case FN_CLIP:
        return element_clip(r, node, type);
    case FN_ENDSWITH:
    case FN_SPARSE:
    case FN_SIZE:
    case FN_LEN: /* known before the arrays are read */
        return from_host(r, node, evaluate(r, node), type);
    case FN_F64:
        return element_f64(r, node, type);
    case FN_SUM:
    case FN_NORM:
    case FN_MEAN:
    case FN_ROWMEAN:
        return element_reduce(r, node, f, type);
    case FN_NORMAL:
        return element_normal(r, node, type);
    default: /* the operations */
        return element_operation(r, node, f, type);
    }
}

/* An expression in `type`, which is T, or binary64 inside f64. What names no element is computed in
 * it too, operator by operator; names and literals of host numbers are rounded to T first. */
static operand element(run *r, const ast *node, prog_type type)
{
    const rule_name *n;
    if (r->rc)
        return nothing;
    switch (node->kind) {
    case AST_NAME:
        n = rule_env_find(&r->env, node->u.text);
        if (!n->element)
            return from_host(r, node, n->number, type);
        if (n->at == STALE)
            REFUSE(r, node, KV_E_USAGE, "`%s` was made before `rows present`", n->text);
        return (operand){.v = prog_cast(r->b, type, n->at)};
    case AST_UNARY:
        return element_unary(r, node, type);
    case AST_BINARY:
        return element_binary(r, node, type);
    case AST_CALL:
        return element_call(r, node, type);
    default: /* literals and texts */
        return from_host(r, node, evaluate(r, node), type);
    }
}

/* ---- Statements ------------------------------------------------------------------------------ */

static void run_block(run *r, const ast *block);
static void run_statement(run *r, const ast *node);

/* A host number where elements stand: itself, and as a value of the program. */
static prog_value host_value(run *r, const ast *node, host *x)
{
    *x = evaluate(r, node);
    operand v = from_host(r, node, *x, r->type);
    need_number(r, node, v);
    return v.v;
}

/* A row state holds one number a row. */
static void need_row_number(run *r, const ast *node, const rule_name *n, prog_value x)
{
    if (n->kind != RULE_NAME_STATE || n->how != STATE_ROW || x < 0 || plan_is_number(r->b, x))
        return;
    REFUSE(r, node, KV_E_USAGE, "state %s is one number a row, and this is an array", n->text);
    kv_err_hint(r->e, "for example: rowmean(x)");
}

/* Returns true if an expression of elements is an array, not one number for all or for each row. */
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

static void run_set(run *r, const ast *node)
{
    rule_name *n = rule_env_find(&r->env, node->u.text);
    host x;
    n->array = n->element && is_array(r, node->kid[0]);
    if (!n->element) {
        n->number = evaluate(r, node->kid[0]);
    } else if (!rule_env_is_element(&r->env, node->kid[0])) {
        /* a host expression is computed as one even where its name holds elements elsewhere */
        n->at = host_value(r, node->kid[0], &x);
    } else {
        n->at = number(r, node->kid[0], r->type);
        need_row_number(r, node, n, n->at);
    }
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

/* A new array of a state comes filled with a number, or the first update computes its elements. */
static void begin_state(run *r, rule_name *n, const ast *initial)
{
    if (!rule_env_is_element(&r->env, initial)) {
        host_value(r, initial, &r->u->numbers[n->state]);
        r->u->fills |= 1u << n->state;
        n->at = load_state(r, n);
        return;
    }
    n->begin = n->at = number(r, initial, r->type);
    need_row_number(r, initial, n, n->begin);
    if (!r->rc && r->offset)
        begin_absent(r, n);
}

/* A state exists from the first update that declares it. */
static void run_state(run *r, const ast *node)
{
    rule_name *n = rule_env_find(&r->env, node->u.text);
    const ast *initial = node->n > 0 ? node->kid[0] : NULL;
    bool have = r->given->have >> n->state & 1;
    r->u->states |= 1u << n->state;
    if (!n->element) {
        n->number = have      ? r->given->numbers[n->state]
                    : initial ? evaluate(r, initial)
                              : host_int(0);
        return;
    }
    r->by_rows |= n->how == STATE_ROW;
    if (!have && !is_zero(initial))
        begin_state(r, n, initial);
    else
        n->at = load_state(r, n);
}

/* Makes a name stand for its elements in the present rows. */
static void enter_rows(run *r, const ast *node, rule_name *n)
{
    bool stored = n->kind == RULE_NAME_STORED, state = n->kind == RULE_NAME_STATE;
    prog_value before = n->begin;
    if (stored)
        before = prog_load(r->b, PLAN_STORED, r->stored_dtype, r->type);
    else if (state && n->begin < 0)
        before = load_state_at(r, n, 0);
    if ((stored || state) && n->at != before)
        REFUSE(r, node, KV_E_USAGE, "`%s` was written before `rows present`", n->text);
    else if (stored)
        n->at = prog_load(r->b, PLAN_STORED + PLAN_PRESENT, r->stored_dtype, r->type);
    else if (state && n->begin >= 0)
        begin_absent(r, n);
    else if (state)
        n->at = load_state(r, n);
    else if (n->kind == RULE_NAME_GIVEN)
        n->at = prog_load(r->b, PLAN_INPUT + PLAN_PRESENT, r->dtype, r->type);
    else if (!plan_is_number(r->b, n->at))
        n->at = STALE;
}

/* From here on only the rows that a row_sparse input holds are read and written. */
static void run_rows(run *r, const ast *node)
{
    if (!r->given->sparse_input || r->offset)
        return;
    r->offset = PLAN_PRESENT;
    r->u->rows_present = true;
    for (int i = 0; i < r->env.n && !r->rc; i++)
        if (r->env.names[i].element && r->env.names[i].at >= 0)
            enter_rows(r, node, &r->env.names[i]);
}

/* ---- Other statements ------------------------------------------------------------------------ */

/* The dtype that people see: halves that nothing was done to are halves, and numbers of an integer
 * key are of its dtype. */
static kv_dtype printed_dtype(const run *r, prog_value x)
{
    return r->type == PROG_I64 ? r->dtype : prog_value_dtype(r->b, x);
}

/* Has the plan keep x, as it is now, for the line that is being printed. */
static void print_elements(run *r, const ast *node, prog_value x)
{
    rule_update *u = r->u;
    int slot = (int)u->nprints;
    int64_t integer = 0;
    double fraction = 0;
    if (slot == PLAN_MAX_PRINTS)
        REFUSE(r, node, KV_E_VALUE, "a rule prints at most %d arrays", PLAN_MAX_PRINTS);
    else
        r->rc = mem_grow(&u->prints, &u->prints_cap, slot + 1, sizeof *u->prints, r->e);
    if (r->rc)
        return;
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
}

static void print_one(run *r, const ast *node)
{
    operand x = {.other = true};
    if (rule_env_is_element(&r->env, node))
        x = element(r, node, r->type);
    else
        x.host = evaluate(r, node);
    if (!r->rc && x.other)
        host_print(&r->u->printed, x.host, false);
    else if (!r->rc)
        print_elements(r, node, x.v);
}

static void run_print(run *r, const ast *node)
{
    for (uint32_t i = 0; i < node->n && !r->rc; i++) {
        if (i > 0)
            buf_char(&r->u->printed, ' ');
        print_one(r, node->kid[i]);
    }
    buf_char(&r->u->printed, '\n');
    if (!r->rc)
        r->rc = buf_check(&r->u->printed, r->e);
}

/* The text of `fail` is the error; its place is the statement that caused the update. */
static void run_fail(run *r, const ast *node)
{
    buf text = {0};
    host x = evaluate(r, node->kid[0]);
    if (r->rc)
        return;
    host_print(&text, x, false);
    r->rc = kv_err_set(r->e, KV_E_VALUE, "%s", buf_text(&text));
    buf_release(&text);
}

/* ---- Branches that are chosen late ---- */

/* Runs one block of an `if` on a number that is known only after the arrays are read; taken: its
 * condition and that of the blocks around it. Returns whether it ends in `skip`. */
static bool run_late(run *r, const ast *block, prog_value taken)
{
    prog_value path = r->path;
    r->path = taken;
    if (block->kind == RULE_IF)
        run_statement(r, block);
    else
        run_block(r, block);
    bool skips = r->ended;
    r->path = path;
    r->ended = false;
    return skips;
}

/* What a name is behind both blocks: chosen between, where they differ. */
static void choose(run *r, rule_name *n, const rule_name *then, prog_value condition)
{
    if (n->element && then->at != n->at)
        n->at = then->at < 0 ? -1 : apply(r, PROG_WHERE, condition, then->at, n->at);
    n->array |= then->array;
}

/* Both blocks are computed; behind one that skips only the other's values are of use. */
static void run_late_if(run *r, const ast *node)
{
    size_t bytes = (size_t)r->env.n * sizeof *r->env.names;
    rule_name *before = arena_alloc(&r->memory, 2 * bytes, r->e), *then = before + r->env.n;
    if (!before) {
        r->rc = KV_E_MEMORY;
        return;
    }
    prog_value condition = number(r, node->kid[0], r->type);
    prog_value not = apply(r, PROG_NOT, condition, -1, -1), path = r->path;
    memcpy(before, r->env.names, bytes);
    bool skips =
        run_late(r, node->kid[1], path < 0 ? condition : apply(r, PROG_AND, path, condition, -1));
    memcpy(then, r->env.names, bytes);
    memcpy(r->env.names, before, bytes);
    bool other = node->n > 2 &&
                 run_late(r, node->kid[2], path < 0 ? not : apply(r, PROG_AND, path, not, -1));
    if (other && !r->rc)
        memcpy(r->env.names, then, bytes);
    for (int i = 0; i < r->env.n && !skips && !other && !r->rc; i++)
        choose(r, &r->env.names[i], &then[i], condition);
    r->ended = skips && other;
}

static void run_skip(run *r)
{
    r->ended = true;
    if (r->path < 0)
        r->u->skipped = true;
    else
        r->skip = r->skip < 0 ? r->path : apply(r, PROG_OR, r->skip, r->path, -1);
}

static void run_if(run *r, const ast *node)
{
    if (rule_env_is_late_if(&r->env, node)) {
        run_late_if(r, node);
        return;
    }
    host x = evaluate(r, node->kid[0]);
    const ast *taken = host_truth(x) ? node->kid[1] : node->n > 2 ? node->kid[2] : NULL;
    if (r->rc || !taken)
        return;
    if (taken->kind == RULE_IF)
        run_if(r, taken);
    else
        run_block(r, taken);
}

static void run_statement(run *r, const ast *node)
{
    switch (node->kind) {
    case RULE_SET:
        run_set(r, node);
        break;
    case RULE_STATE:
        run_state(r, node);
        break;
    case RULE_ROWS:
        run_rows(r, node);
        break;
    case RULE_IF:
        run_if(r, node);
        break;
    case RULE_PRINT:
        run_print(r, node);
        break;
    case RULE_FAIL:
        run_fail(r, node);
        break;
    default: /* RULE_SKIP */
        run_skip(r);
    }
}

static void run_block(run *r, const ast *block)
{
    for (uint32_t i = 0; i < block->n && !r->rc && !r->ended; i++)
        run_statement(r, block->kid[i]);
}

/* ---- The whole rule -------------------------------------------------------------------------- */

static void give(run *r, const char *name, host x)
{
    rule_env_find(&r->env, name)->number = x;
}

static void give_params(run *r)
{
    const rule_binding *b = r->binding;
    for (int i = 0; i < b->rule->nparams; i++)
        if (rule_is_given(b, i))
            give(r, b->rule->params[i].name, b->values[i]);
}

/* The numbers that every rule has win over parameters, but in a def, as in Python. */
static void set_given(run *r)
{
    const rule_given *given = r->given;
    const rule_binding *b = r->binding;
    const char *key = given->key.name, *name = given->name ? given->name : key;
    if (!b->rule->is_def)
        give_params(r);
    give(r, "key", key ? host_text(key) : host_int(given->key.id));
    give(r, "name", host_text(name ? name : ""));
    give(r, "t", host_int(given->t));
    give(r, "lr", host_float(given->lr));
    give(r, "wd", host_float(given->wd));
    give(r, "base_lr", host_float(given->base_lr));
    give(r, "rescale_grad", rule_value(b, RULE_RESCALE_GRAD));
    give(r, "clip_gradient", rule_value(b, RULE_CLIP_GRADIENT));
    if (b->rule->is_def)
        give_params(r);
    rule_env_find(&r->env, "stored")->at = prog_load(r->b, PLAN_STORED, r->stored_dtype, r->type);
    rule_env_find(&r->env, "input")->at = prog_load(r->b, PLAN_INPUT, r->dtype, r->type);
}

/* x, or behind a `skip` that is known late what the array held. */
static prog_value unless_skipped(run *r, prog_value x, prog_value before)
{
    return r->skip < 0 ? x : apply(r, PROG_WHERE, r->skip, before, x);
}

/* Writes the last values of stored and the states back to their arrays. */
static void store_results(run *r)
{
    prog_value stored = unless_skipped(
        r, rule_env_find(&r->env, "stored")->at,
        prog_load(r->b, PLAN_STORED + r->offset, r->stored_dtype, r->type));
    for (int i = 0; i < r->env.n; i++) {
        const rule_name *n = &r->env.names[i];
        if (n->kind != RULE_NAME_STATE || !(r->u->states >> n->state & 1))
            continue;
        if (!n->element) {
            r->u->numbers[n->state] = n->number;
            continue;
        }
        int slot = n->how == STATE_ROW ? PLAN_ROW_STATE : PLAN_STATE + r->offset;
        prog_value at = r->skip < 0 ? n->at : unless_skipped(r, n->at, load_state(r, n));
        prog_store(r->b, slot + n->state, prog_dtype(r->type), at);
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
    const rule_ast *rule = r->binding->rule;
    set_given(r);
    run_block(r, rule->body);
    bool prints = r->u->nprints > 0;
    int rc = r->rc;
    if (rc || (r->u->skipped && !prints) || (rc = check_numbers(r)))
        return rc;
    if (r->by_rows && r->whole)
        return source_err(r->binding->src, rule->pos, rule->end, r->e, KV_E_UNSUPPORTED,
                          "a rule reduces rows or whole arrays, not both");
    if (!r->u->skipped)
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
             .path = -1,
             .skip = -1,
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
