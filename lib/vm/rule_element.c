/* Expressions of rules: host values, which are known before an array is read, and elements, which
 * become operations of a program, which is run later. */
#include <math.h>
#include <string.h>

#include "vm/element.h"
#include "vm/rule_case.h"

/* ---- Host values ----------------------------------------------------------------------------- */

void rule_refuse(rule_run *r, const ast *node, int rc)
{
    source_at(r->binding->src, node->pos, node->end, r->e);
    r->rc = rc;
}

/* The values of all children; NULL after a failure. */
static host *evaluate_all(rule_run *r, const ast *node)
{
    host *values = arena_alloc(&r->memory, sizeof *values * (node->n ? node->n : 1), r->e);
    if (!values)
        r->rc = KV_E_MEMORY;
    for (uint32_t i = 0; i < node->n && !r->rc; i++)
        values[i] = rule_host(r, node->kid[i]);
    return r->rc ? NULL : values;
}

/* A text is made anew for each push that another one may be of. */
static void note_text(const rule_run *r, host x)
{
    if (r->note && rule_case_varies(x))
        r->note->failed = true;
}

/* x op y; none after a failure, whose place is the node. */
static host rule_host_binary(rule_run *r, const ast *node, ast_op op, host x, host y)
{
    host out = host_none();
    int rc = r->rc ? KV_OK : host_binary(op, x, y, &out, &r->memory, r->e);
    if (rc)
        rule_refuse(r, node, rc);
    rule_case_note(r, CASE_BINARY, op, (const host[]){x, y}, 2, &out);
    return out;
}

static host evaluate_binary(rule_run *r, const ast *node)
{
    const ast *right = node->kid[1];
    host x = rule_host(r, node->kid[0]), out = host_none();
    if (x.kind != HOST_TEXT || node->op != OP_MOD || right->kind != AST_TUPLE)
        return rule_host_binary(r, node, (ast_op)node->op, x, rule_host(r, right));
    /* TEXT % (a, b) */
    note_text(r, x);
    host *values = evaluate_all(r, right);
    int n = (int)right->n;
    for (int i = 0; values && i < n; i++)
        note_text(r, values[i]);
    int rc = values ? host_format_text(&out, x.u.text, values, n, &r->memory, r->e) : KV_OK;
    if (rc)
        rule_refuse(r, node, rc);
    return out;
}

/* Appends {x}, {x!r} or {x:format}, whose format may have fields of its own. */
static void put_field(rule_run *r, buf *out, const ast *field)
{
    own_buf shown = {0};
    host x = rule_host(r, field->kid[0]), how = host_text(field->u.text);
    if (field->n > 1)
        how = rule_host(r, field->kid[1]);
    note_text(r, x);
    note_text(r, how);
    if (r->rc)
        return;
    if (field->op) {
        host_print(&shown, x, field->op == 'r');
        x = host_text(buf_text(&shown));
    }
    int rc = host_format_field(out, x, how.u.text, r->e);
    if (rc)
        rule_refuse(r, field, rc);
}

static host evaluate_pieces(rule_run *r, const ast *node)
{
    own_buf text = {0};
    for (uint32_t i = 0; i < node->n && !r->rc; i++) {
        const ast *piece = node->kid[i];
        if (piece->kind == AST_FIELD)
            put_field(r, &text, piece);
        else
            buf_add(&text, piece->u.text);
    }
    const char *kept = NULL;
    if (!r->rc && buf_check(&text, r->e) == KV_OK)
        kept = arena_text(&r->memory, buf_text(&text), text.len, r->e);
    if (!r->rc && !kept)
        r->rc = KV_E_MEMORY;
    return kept ? host_text(kept) : host_none();
}

static host evaluate_call(rule_run *r, const ast *node)
{
    const element_function *f = element_called(node);
    if (f->kind == FN_SPARSE) {
        bool input = strcmp(node->kid[0]->u.text, "input") == 0;
        return host_bool(input ? r->given->sparse_input : r->given->sparse_stored);
    }
    if (f->kind == FN_SIZE || f->kind == FN_LEN)
        return rule_case_input(r, f->kind == FN_SIZE ? CASE_SIZE : CASE_ROWS);
    host *args = evaluate_all(r, node), out = host_none();
    /* host values are binary64 as they are */
    if (args && f->kind == FN_F64)
        return args[0];
    int rc = args ? host_apply(f, args, (int)node->n, &out, r->e) : KV_OK;
    if (rc)
        rule_refuse(r, node, rc);
    if (args)
        rule_case_note(r, CASE_CALL, (int)(f - element_functions), args, (int)node->n, &out);
    return out;
}

host rule_host(rule_run *r, const ast *node)
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
    case AST_UNARY: {
        host x = rule_host(r, node->kid[0]), out = host_none();
        int rc = r->rc ? KV_OK : host_unary((ast_op)node->op, x, &out, r->e);
        if (rc)
            rule_refuse(r, node, rc);
        rule_case_note(r, CASE_UNARY, (int)node->op, &x, 1, &out);
        return out;
    }
    case AST_BINARY:
        if (node->op == OP_AND || node->op == OP_OR) {
            /* as Python's: one of the two operands */
            host x = rule_host(r, node->kid[0]);
            rule_case_branch(r, x);
            return host_truth(x) == (node->op == OP_OR) ? x : rule_host(r, node->kid[1]);
        }
        return evaluate_binary(r, node);
    default: /* literals; rule_check leaves no other kinds */
        return host_literal(node);
    }
}

/* ---- Elements -------------------------------------------------------------------------------- */

static const rule_operand nothing = {.v = -1};

/* A host number among elements: rounded once to T, and held in `type`. */
rule_operand rule_from_host(rule_run *r, const ast *node, host x, prog_type type)
{
    if (!host_is_number(x))
        return (rule_operand){.other = true, .host = x, .v = -1};
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
        x.kind = HOST_INT;
        x.u.integer = whole;
    }
    prog_value v = x.kind == HOST_FLOAT ? prog_const(r->b, r->type, x.u.number)
                                        : prog_const_int(r->b, r->type, x.u.integer);
    return (rule_operand){.v = prog_cast(r->b, type, rule_case_give(r, x, v))};
}

static void refuse_extents(rule_run *r, prog_extent one, prog_extent other)
{
    own_buf text = {0};
    plan_extent_text(&text, one);
    buf_add(&text, " and ");
    plan_extent_text(&text, other);
    if (!r->rc && !(r->rc = buf_check(&text, r->e))) {
        REFUSE(r, r->node, KV_E_SHAPE, "%s do not go together", buf_text(&text));
        kv_err_hint(r->e, "T(x) turns a matrix: matmul(x, T(y)) is (rows, rows)");
    }
}

prog_value rule_apply(rule_run *r, prog_op op, prog_value x, prog_value y, prog_value z)
{
    if (r->steps && !r->rc) {
        /* rows and columns can only be taken for each other where there are columns at all */
        const prog_value v[] = {x, y, z};
        prog_extent extent = plan_extent(r->b, v[0]);
        for (int i = 1; i < 3; i++)
            if (v[i] >= 0 && !plan_join(&extent, plan_extent(r->b, v[i])))
                refuse_extents(r, extent, plan_extent(r->b, v[i]));
    }
    if (r->rc)
        return -1;
    /* a result of an integer key wraps to the key's dtype at once */
    prog_value made = prog_apply(r->b, op, x, y, z);
    return r->type == PROG_I64 ? prog_narrow(r->b, r->dtype, made) : made;
}

/* A division or root of integers would have to leave them. */
static prog_value refuse_integer(rule_run *r, const ast *node, const char *what)
{
    if (r->rc)
        return -1;
    REFUSE(r, node, KV_E_DTYPE, "a rule on a key of %s computes in integers, which have no %s",
           kv_dtype_name(r->dtype), what);
    kv_err_hint(r->e, "keep the key as float32 to compute with fractions");
    return -1;
}

void rule_need_number(rule_run *r, const ast *node, rule_operand x)
{
    if (x.other)
        REFUSE(r, node, KV_E_DTYPE, "%s cannot be computed with arrays",
               x.host.kind == HOST_TEXT ? "a text" : "none");
}

/* An element, which must be a number. */
prog_value rule_number(rule_run *r, const ast *node, prog_type type)
{
    rule_operand x = rule_element(r, node, type);
    rule_need_number(r, node, x);
    return x.v;
}

static rule_operand element_binary(rule_run *r, const ast *node, prog_type type)
{
    rule_operand x = rule_element(r, node->kid[0], type);
    r->exponent += node->op == OP_POW;
    rule_operand y = rule_element(r, node->kid[1], type);
    r->exponent -= node->op == OP_POW;
    bool compares = node->op >= OP_EQ && node->op <= OP_GE;
    if (!r->rc && compares && (x.other || y.other)) {
        /* a text or none stands there, so no element: the answer is a number */
        host left = x.other ? x.host : host_int(0), right = y.other ? y.host : host_int(0);
        host answer = rule_host_binary(r, node, (ast_op)node->op, left, right);
        return r->rc ? nothing : rule_from_host(r, node, answer, type);
    }
    rule_need_number(r, node->kid[0], x);
    rule_need_number(r, node->kid[1], y);
    if (type == PROG_I64 && node->op == OP_DIV)
        return (rule_operand){.v = refuse_integer(r, node, "`/`")};
    r->node = node;
    return (rule_operand){.v = rule_apply(r, element_op((ast_op)node->op), x.v, y.v, -1)};
}

static rule_operand element_unary(rule_run *r, const ast *node, prog_type type)
{
    rule_operand x = rule_element(r, node->kid[0], type);
    /* -none is none */
    if ((x.other && x.host.kind == HOST_NONE && node->op != OP_NOT) ||
        (!x.other && node->op == OP_POS))
        return x;
    rule_need_number(r, node->kid[0], x);
    prog_op op = node->op == OP_NEG ? PROG_NEG : PROG_NOT;
    return (rule_operand){.v = rule_apply(r, op, x.v, -1, -1)};
}

/* clip(x, c): to -c .. c, but only for c > 0. */
static prog_value clip_both(rule_run *r, prog_type type, prog_value x, rule_operand c)
{
    if (c.other)
        return x;
    prog_value above = rule_apply(r, PROG_GT, c.v, prog_const(r->b, type, 0), -1);
    /* -c is not a number of an unsigned dtype, but a bound all the same */
    prog_value low = prog_apply(r->b, PROG_NEG, c.v, -1, -1);
    return rule_apply(r, PROG_WHERE, above, rule_apply(r, PROG_CLIP, x, low, c.v), x);
}

/* The bound of a clip; where there is none the one that never binds: of integers the least or
 * largest. */
static prog_value bound(rule_run *r, prog_type type, rule_operand b, double none)
{
    return b.other ? prog_const(r->b, type, none) : b.v;
}

static prog_value element_clip(rule_run *r, const ast *node, prog_type type)
{
    prog_value x = rule_number(r, node->kid[0], type);
    rule_operand b[2] = {nothing, nothing};
    for (uint32_t i = 1; i < node->n; i++) {
        b[i - 1] = rule_element(r, node->kid[i], type);
        if (b[i - 1].other && b[i - 1].host.kind == HOST_TEXT)
            rule_need_number(r, node->kid[i], b[i - 1]);
    }
    r->node = node;
    if (node->n == 2)
        return clip_both(r, type, x, b[0]);
    prog_value high = bound(r, type, b[1], INFINITY), low = bound(r, type, b[0], -INFINITY);
    return rule_apply(r, PROG_CLIP, x, low, high);
}

host rule_length(const rule_run *r, uint8_t axis)
{
    if (axis == PROG_ONE)
        return host_int(1);
    return rule_case_input(r, axis == PROG_ROWS ? CASE_ROWS : CASE_COLUMNS);
}

/* One number, for the whole array, its row or its column. One that is so already stays what it is:
 * its sum is not that of an array of it. */
static prog_value element_reduce(rule_run *r, const ast *node, const element_function *f,
                                 prog_type type)
{
    plan_fold fold = f->kind == FN_MAX ? PLAN_MAX : f->kind == FN_MIN ? PLAN_MIN : PLAN_SUM;
    plan_over over = f->traits & FN_BY_ROW      ? PLAN_OVER_COLUMNS
                     : f->traits & FN_BY_COLUMN ? PLAN_OVER_ROWS
                                                : PLAN_OVER_ALL;
    bool norm = f->kind == FN_NORM, mean = f->kind == FN_MEAN;
    if (type == PROG_I64)
        return refuse_integer(r, node, f->name);
    prog_value x = rule_number(r, node->kid[0], type);
    prog_extent extent = rule_env_extent(&r->env, node->kid[0]);
    prog_extent left = rule_env_extent(&r->env, node);
    host n = host_int(1); /* how many elements each number is made of */
    if (mean || fold != PLAN_SUM) {
        host rows = rule_length(r, left.rows == extent.rows ? PROG_ONE : extent.rows);
        n = rule_length(r, left.columns == extent.columns ? PROG_ONE : extent.columns);
        n = rule_host_binary(r, node, OP_MUL, rows, n);
    }
    if (n.u.integer == 0 && fold != PLAN_SUM)
        REFUSE(r, node, KV_E_VALUE, "%s of an array without elements", f->name);
    if (r->rc)
        return -1;
    prog_value term = norm ? prog_apply(r->b, PROG_MUL, x, x, -1) : x, made = term;
    if (left.rows != extent.rows || left.columns != extent.columns) {
        *(over == PLAN_OVER_COLUMNS ? &r->by_rows : &r->whole) = true;
        r->steps |= !r->merge && (f->traits & FN_STEPS || !extent.rows || !extent.columns);
        made = plan_reduce(r->b, plan_spread(r->b, term, extent),
                           (plan_reduction){fold, over, r->offset != 0, 0});
    }
    if (norm)
        made = prog_apply(r->b, PROG_SQRT, made, -1, -1);
    if (mean)
        made = prog_apply(r->b, PROG_DIV, made,
                          rule_case_give(r, n, prog_const_int(r->b, type, n.u.integer)), -1);
    return made;
}

/* A factor, as long as it is said to be. */
static prog_value factor(rule_run *r, const ast *node, prog_type type)
{
    prog_value x = rule_number(r, node, type);
    return plan_spread(r->b, x, rule_env_extent(&r->env, node));
}

/* matmul(x, y) and T(x). */
static prog_value element_matrix(rule_run *r, const ast *node, const element_function *f,
                                 prog_type type)
{
    if (type == PROG_I64)
        return refuse_integer(r, node, f->name);
    prog_value x = factor(r, node->kid[0], type);
    r->steps = true;
    if (f->kind == FN_TURNED)
        return plan_turned(r->b, x);
    prog_value y = factor(r, node->kid[1], type);
    r->node = node;
    if (!r->rc && plan_extent(r->b, x).columns != plan_extent(r->b, y).rows)
        refuse_extents(r, plan_extent(r->b, x), plan_extent(r->b, y));
    return r->rc ? -1 : plan_matmul(r->b, x, y);
}

/* normal(sigma): drawn anew for every element and update. */
static prog_value element_normal(rule_run *r, const ast *node, prog_type type)
{
    if (type == PROG_I64)
        return refuse_integer(r, node, "`normal`");
    prog_value sigma = rule_number(r, node->kid[0], type);
    if (r->draws == PLAN_MAX_DRAWS)
        REFUSE(r, node, KV_E_VALUE, "a rule draws at most %d times", PLAN_MAX_DRAWS);
    if (r->rc)
        return -1;
    int slot = PLAN_NORMAL + r->offset + r->draws++;
    prog_value z = prog_cast(r->b, type, prog_load(r->b, slot, prog_dtype(r->type), r->type));
    return prog_apply(r->b, PROG_MUL, z, sigma, -1);
}

/* A function that is one operation. */
static prog_value element_operation(rule_run *r, const ast *node, const element_function *f,
                                    prog_type type)
{
    prog_value v[3] = {-1, -1, -1};
    if (f->kind == FN_FRACTION && type == PROG_I64)
        return refuse_integer(r, node, f->name);
    int arity = prog_op_arity(f->op);
    for (int i = 0; i < (int)node->n; i++) {
        v[i < arity ? i : 1] = rule_number(r, node->kid[i], type);
        r->node = node;
        /* min and max of more than two: from left to right */
        if (arity == 2 && i > 0)
            v[0] = rule_apply(r, f->op, v[0], v[1], -1);
    }
    return arity == 2 ? v[0] : rule_apply(r, f->op, v[0], v[1], v[2]);
}

static prog_value element_call(rule_run *r, const ast *node, prog_type type)
{
    const element_function *f = element_called(node);
    if (f->traits & FN_MERGES || (r->merge && f->traits & FN_MATRIX))
        return r->merge_element(r, node, f, type);
    if (f->traits & FN_REDUCES)
        return element_reduce(r, node, f, type);
    if (f->traits & FN_MATRIX)
        return element_matrix(r, node, f, type);
    switch (f->kind) {
    case FN_CLIP:
        return element_clip(r, node, type);
    case FN_ENDSWITH:
    case FN_SPARSE:
    case FN_SIZE:
    case FN_LEN: /* known before the arrays are read */
        return rule_from_host(r, node, rule_host(r, node), type).v;
    case FN_F64: { /* in binary64, rounded once to T */
        if (type == PROG_I64)
            return refuse_integer(r, node, "`f64`");
        prog_value x = rule_number(r, node->kid[0], PROG_F64);
        return prog_cast(r->b, type, prog_cast(r->b, r->type, x));
    }
    case FN_NORMAL:
        return element_normal(r, node, type);
    default: /* the operations */
        return element_operation(r, node, f, type);
    }
}

/* An expression in `type`, which is T, or binary64 inside f64. What names no element is computed in
 * it too, operator by operator; names and literals of host numbers are rounded to T first. */
rule_operand rule_element(rule_run *r, const ast *node, prog_type type)
{
    const rule_name *n;
    if (r->rc)
        return nothing;
    switch (node->kind) {
    case AST_NAME:
        n = rule_env_find(&r->env, node->u.text);
        if (!n->element)
            return rule_from_host(r, node, n->number, type);
        if (n->at == STALE)
            REFUSE(r, node, KV_E_USAGE, "`%s` was made before `rows present`", n->text);
        return (rule_operand){.v = prog_cast(r->b, type, n->at)};
    case AST_UNARY:
        return element_unary(r, node, type);
    case AST_BINARY:
        return element_binary(r, node, type);
    case AST_CALL:
        return (rule_operand){.v = element_call(r, node, type)};
    default: /* literals and texts */
        return rule_from_host(r, node, rule_host(r, node), type);
    }
}
