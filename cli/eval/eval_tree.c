/* Operators and element-wise functions, in whole trees.
 *
 * The leaves of a tree are evaluated first, from left to right. When arrays are among them the tree
 * becomes one program that reads each array once (vm/expr.h); when all are scalars it is folded;
 * with texts, lists and tuples it is worked on node by node, since `+` joins these.
 */
#include "eval/eval.h"

#include <math.h>
#include <string.h>

#include "array/arrange.h"
#include "array/sparse.h"
#include "base/suggest.h"
#include "syntax/function.h"
#include "vm/expr.h"

/* ---- One element operation ---- */

/* Operands of one operator. */
#define OPERANDS 8

/* The operator or function of a node over leaves, one for each child: a small tree of its own,
 * which vm/expr.h computes. */
static int apply(kv_array **out, const ast *node, const expr_leaf *leaves, const source *src,
                 kv_err *e)
{
    own_arena nodes = {0};
    ast *tree = arena_alloc(&nodes, sizeof *tree + node->n * sizeof tree->kid[0], e);
    ast *leaf = arena_alloc(&nodes, sizeof *leaf, e);
    if (!tree || !leaf)
        return KV_E_MEMORY;
    leaf->kind = AST_NONE;
    *tree = *node;
    for (uint32_t i = 0; i < node->n; i++)
        tree->kid[i] = leaf;
    return expr_eval(out, tree, leaves, (int)node->n, src, e);
}

static const source nowhere = {.text = ""};

int eval_op_number(kv_array **out, ast_op op, kv_array *a, host number, kv_err *e)
{
    const ast node = {.kind = AST_BINARY, .op = (uint8_t)op, .n = 2};
    return apply(out, &node, (expr_leaf[]){{.array = a}, {.number = number}}, &nowhere, e);
}

int eval_op_call(kv_array **out, const char *name, kv_array *a, const int64_t *bounds,
                 kv_err *e)
{
    const ast node = {.kind = AST_CALL, .u.text = name, .n = bounds ? 3 : 1};
    expr_leaf leaves[3] = {{.array = a}};
    for (int i = 0; i < 2 && bounds; i++)
        leaves[i + 1].number = host_int(bounds[i]);
    return apply(out, &node, leaves, &nowhere, e);
}

int eval_op_bools(kv_array *a, reduce_op op, bool *out, kv_err *e)
{
    own_array *one = NULL;
    const void *data;
    TRY(reduce_array(&one, a, op, NULL, 0, NULL, e));
    TRY(kv_array_read(one, &data, e));
    *out = *(const bool *)data;
    return KV_OK;
}

/* ---- Truth ---- */

int eval_truth_of_all(value v, bool *out, kv_err *e)
{
    return v.kind == VALUE_ARRAY ? eval_op_bools(v.u.box->array, REDUCE_ALL, out, e)
                                 : eval_truth(v, out, e);
}

int eval_truth(value v, bool *out, kv_err *e)
{
    char shape[160];
    const kv_array *a = v.kind == VALUE_ARRAY ? v.u.box->array : NULL;
    if (a && kv_array_size(a) != 1) {
        kv_shape_text(shape, sizeof shape, kv_array_ndim(a), kv_array_shape(a));
        kv_err_set(e, KV_E_VALUE, "an array of shape %s is neither true nor false", shape);
        return kv_err_hint(e, "all(a) asks for every element, any(a) for one");
    }
    TRY(a ? value_item(&v, v, e) : KV_OK);
    if (value_has_items(v)) /* a dict without keys has no gaps either */
        *out = v.u.list->n > 0;
    else
        *out = v.kind == VALUE_CTX || host_truth(value_host(v));
    return KV_OK;
}

int eval_condition(session *s, const ast *node, bool *truth, kv_err *e)
{
    own_value v = value_none();
    TRY(eval(s, node, &v, e));
    return eval_truth(v, truth, e) ? unit_at(s, node, e) : KV_OK;
}

/* ---- and, or, not, if ---- */

int eval_logic(session *s, const ast *node, value *out, kv_err *e)
{
    bool truth;
    int rc = eval(s, node->kid[0], out, e);
    if (rc || (rc = eval_truth(*out, &truth, e))) {
        value_release(out);
        return unit_at(s, node->kid[0], e);
    }
    if (node->kind == AST_UNARY) {
        value_release(out);
        *out = value_bool(!truth);
        return KV_OK;
    }
    if (truth == (node->op == OP_OR))
        return KV_OK;
    value_release(out);
    return eval(s, node->kid[1], out, e);
}

int eval_choice(session *s, const ast *node, value *out, kv_err *e)
{
    bool truth;
    TRY(eval_condition(s, node->kid[0], &truth, e));
    return eval(s, node->kid[truth ? 1 : 2], out, e);
}

/* ---- Comparisons ---- */

/* An array holds x when an element is equal to it: any(a == x). */
static int array_holds(session *s, const ast *node, const value *args, bool *holds, kv_err *e)
{
    own_value equal = value_none();
    int64_t bytes = (int64_t)(sizeof *node + 2 * sizeof node->kid[0]);
    own_mem ast *compare = mem_zalloc(bytes, 1, e);
    if (!compare)
        return KV_E_MEMORY;
    *compare = *node;
    compare->kind = AST_BINARY;
    compare->op = OP_EQ;
    compare->kid[0] = node->kid[1];
    compare->kid[1] = node->kid[0];
    TRY(eval_operate(s, compare, (value[]){args[1], args[0]}, &equal, e));
    return equal.kind == VALUE_ARRAY ? eval_op_bools(equal.u.box->array, REDUCE_ANY, holds, e)
                                     : KV_OK;
}

/* args[0] in args[1] */
static int holds(session *s, const ast *node, const value *args, bool *out, kv_err *e)
{
    const value *found;
    int64_t at;
    if (value_is_sequence(args[1])) {
        TRY(list_find(args[1], args[0], 0, &at, e));
        *out = at >= 0;
        return KV_OK;
    }
    if (args[1].kind == VALUE_ARRAY)
        return array_holds(s, node, args, out, e);
    if (args[1].kind == VALUE_DICT) {
        TRY(dict_find(args[1], args[0], &found, e));
        *out = found != NULL;
        return KV_OK;
    }
    if (args[1].kind == VALUE_TEXT && args[0].kind == VALUE_TEXT) {
        *out = strstr(args[1].u.text, args[0].u.text) != NULL;
        return KV_OK;
    }
    if (args[1].kind == VALUE_TEXT)
        return kv_err_set(e, KV_E_DTYPE, "`in` looks for a text in a text, not for %s",
                          value_kind_name(args[0]));
    return kv_err_set(e, KV_E_DTYPE, "`in` looks into lists, dicts, texts and arrays, not into %s",
                      value_kind_name(args[1]));
}

/* Two names of one object. Whether equal numbers and texts are one is nothing that can be known. */
static int is_same(value a, value b, bool *out, kv_err *e)
{
    *out = a.kind == b.kind;
    if (!*out || a.kind == VALUE_NONE)
        return KV_OK;
    if (a.kind == VALUE_BOOL)
        *out = a.u.integer == b.u.integer;
    else if (a.kind == VALUE_ARRAY)
        *out = a.u.box == b.u.box;
    else if (value_has_items(a))
        *out = a.u.list == b.u.list;
    else {
        kv_err_set(e, KV_E_DTYPE, "`is` compares objects, not %s", value_kind_name(a));
        return kv_err_hint(e, "`==` compares values");
    }
    return KV_OK;
}

static int compare(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    bool truth = false;
    if (node->kind == AST_BINARY)
        return eval_operate(s, node, args, out, e);
    int rc = node->op == OP_IN || node->op == OP_NOT_IN ? holds(s, node, args, &truth, e)
                                                        : is_same(args[0], args[1], &truth, e);
    TRY(rc ? unit_at(s, node, e) : KV_OK);
    *out = value_bool(truth == (node->op == OP_IN || node->op == OP_IS));
    return KV_OK;
}

int eval_test(session *s, const ast *node, value *out, kv_err *e)
{
    own_value left = value_none(), right = value_none();
    TRY(eval(s, node->kid[0], &left, e));
    TRY(eval(s, node->kid[1], &right, e));
    return compare(s, node, (value[]){left, right}, out, e);
}

int eval_chain(session *s, const ast *node, value *out, kv_err *e)
{
    own_value left = value_none(), right = value_none(), truth = value_none();
    bool on = true;
    TRY(eval(s, node->kid[0]->kid[0], &left, e));
    for (uint32_t i = 0; i < node->n && on; i++) {
        const ast *one = node->kid[i];
        value_release(&truth);
        TRY(eval(s, one->kid[1], &right, e));
        TRY(compare(s, one, (value[]){left, right}, &truth, e));
        if (i + 1 < node->n && eval_truth(truth, &on, e))
            return unit_at(s, one, e);
        value_release(&left);
        value_give(&left, &right);
    }
    return value_give(out, &truth);
}

/* ---- Operators over row_sparse arrays ---- */

static bool value_is_sparse(value v)
{
    return v.kind == VALUE_ARRAY && kv_array_storage(v.u.box->array) == KV_ROW_SPARSE;
}

/* A row_sparse array that has data for the rows of `like`. */
static int with_rows(value *out, kv_array *like, kv_array *data, kv_err *e)
{
    const void *from;
    void *to;
    own_array *a = NULL;
    TRY(kv_array_new_sparse(&a, kv_array_dtype(data), kv_array_ndim(like), kv_array_shape(like),
                            kv_array_nrows(like), kv_array_row_ids(like), kv_array_ctx(like), e));
    TRY(kv_array_read(data, &from, e));
    TRY(kv_array_write_rows(a, &to, e));
    if (kv_array_bytes(data) > 0)
        memcpy(to, from, (size_t)kv_array_bytes(data));
    return value_array(out, kv_array_ref(a), e);
}

/* The operator over the rows of operand i, the only one that is not a number. */
static int over_rows(session *s, const ast *node, const value *args, int i, value *out, kv_err *e)
{
    value operands[OPERANDS];
    own_value of_rows = value_none(), made = value_none();
    kv_array *ids, *data, *r = args[i].u.box->array;
    TRY(sparse_parts(&ids, &data, r, e));
    kv_array_unref(ids);
    TRY(value_array(&of_rows, data, e));
    memcpy(operands, args, node->n * sizeof *args);
    operands[i] = of_rows;
    TRY(eval_operate(s, node, operands, &made, e));
    return with_rows(out, r, made.u.box->array, e);
}

/* a + b, or a - b, which is a + b * -1. */
static int over_both(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    kv_array *both[2] = {args[0].u.box->array, args[1].u.box->array}, *there;
    own_array *sum = NULL;
    own_value negative = value_none();
    kv_ctx ctx = kv_array_ctx(both[0]);
    kv_dtype dtype = promote_dtypes(kv_array_dtype(both[0]), kv_array_dtype(both[1]));
    ast times = *node;
    times.op = OP_MUL;
    if (node->op == OP_SUB) {
        TRY(over_rows(s, &times, (value[]){args[1], value_int(-1)}, 0, &negative, e));
        both[1] = negative.u.box->array;
    }
    kv_array_nrows(both[0]); /* waits for what a store still writes */
    kv_array_nrows(both[1]);
    TRY(sparse_sum(&sum, both, 2, dtype, (kv_ctx){KV_CPU, 0}, e));
    if (kv_ctx_same(kv_array_ctx(sum), ctx))
        return value_array(out, kv_array_ref(sum), e);
    TRY(kv_array_dup(&there, sum, kv_array_dtype(sum), ctx, e));
    return value_array(out, there, e);
}

/* Over the dense arrays of all operands. */
static int over_all(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    own_stack operands = {0};
    for (uint32_t i = 0; i < node->n; i++) {
        kv_array *dense;
        value one = args[i];
        if (value_is_sparse(one)) {
            TRY(kv_array_to_dense(&dense, one.u.box->array, e));
            TRY(value_array(&one, dense, e));
        } else {
            value_ref(one);
        }
        TRY(value_stack_add(&operands, one, e));
    }
    return eval_operate(s, node, operands.items, out, e);
}

/* Times or by a number that leaves zeros what they are. */
static bool scales(ast_op op, value number)
{
    return value_is_number(number) && isfinite(value_number(number)) &&
           (op == OP_MUL || (op == OP_DIV && value_number(number) != 0));
}

/* One operator or element-wise function over values, at least one of them row_sparse. As in
 * MXNet the result is row_sparse where rows that are zero stay zero: r * 2, r / 2, -r, abs(r) and
 * its like, r + r and r - r. Any other result holds all rows. */
static int sparse_operate(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    /* functions that make 0 of 0 */
    static const char *const keep_zero[] = {"abs",   "sign", "sqrt", "floor", "ceil",
                                            "round", "sin",  "asin", "tanh"};
    bool left = value_is_sparse(args[0]), right = node->n == 2 && value_is_sparse(args[1]);
    int rc;
    bool binary = node->kind == AST_BINARY;
    bool sum = binary && (node->op == OP_ADD || node->op == OP_SUB) && left && right;
    if (sum && kv_array_same_shape(args[0].u.box->array, args[1].u.box->array))
        rc = over_both(s, node, args, out, e);
    else if (node->kind == AST_UNARY || (node->kind == AST_CALL && node->n == 1 && left &&
                                         NAME_AMONG(node->u.text, keep_zero) >= 0))
        rc = over_rows(s, node, args, 0, out, e);
    else if (binary && left && scales(node->op, args[1]))
        rc = over_rows(s, node, args, 0, out, e);
    else if (binary && right && node->op == OP_MUL && scales(OP_MUL, args[0]))
        rc = over_rows(s, node, args, 1, out, e);
    else
        rc = over_all(s, node, args, out, e);
    return rc ? unit_at(s, node, e) : KV_OK;
}

/* ---- Trees ---- */

bool eval_is_logic(const ast *node)
{
    return (node->kind == AST_BINARY && (node->op == OP_AND || node->op == OP_OR)) ||
           (node->kind == AST_UNARY && node->op == OP_NOT);
}

bool eval_is_inner(const session *s, const ast *node)
{
    if (node->kind != AST_CALL)
        return (node->kind == AST_UNARY || node->kind == AST_BINARY) && !eval_is_logic(node);
    bool named = !(node->flags & AST_METHOD);
    return !(named && session_def(s, node->u.text) >= 0) && expr_is_operator(node);
}

static int collect(session *s, const ast *node, value_stack *l, kv_err *e)
{
    if (eval_is_inner(s, node)) {
        for (uint32_t i = 0; i < node->n; i++)
            TRY(collect(s, node->kid[i], l, e));
        return KV_OK;
    }
    value v;
    TRY(eval(s, node, &v, e));
    return value_stack_add(l, v, e);
}

/* ---- Values that are no arrays ---- */

/* The text of an operand for a hint: as it was written, when that is short. */
static void operand_text(buf *out, const session *s, const ast *node, bool as_array)
{
    bool parens = node->flags & AST_PARENS, simple = node->n == 0 || node->kind == AST_LIST ||
                                                     node->kind == AST_TUPLE ||
                                                     node->kind == AST_CALL;
    bool shown = node->end - node->pos <= 40 && (simple || parens);
    buf_add(out, as_array ? "array(" : "");
    if (shown)
        buf_put(out, s->unit->src.text + node->pos + (parens && as_array),
                node->end - node->pos - (parens && as_array ? 2 : 0));
    else
        buf_add(out, "…");
    buf_add(out, as_array ? ")" : "");
}

static int no_operator(session *s, const ast *node, const value *args, kv_err *e)
{
    uint32_t i = 0;
    while (node->kind == AST_CALL && i + 1 < node->n &&
           (value_is_number(args[i]) || args[i].kind == VALUE_ARRAY || value_is_numbers(args[i])))
        i++;
    if (node->kind == AST_CALL)
        return unit_err(s, node, e, KV_E_DTYPE, "%s takes numbers and arrays, not %s", node->u.text,
                        value_kind_name(args[i]));
    if (node->kind == AST_UNARY)
        unit_err(s, node, e, KV_E_DTYPE, "`%s` takes numbers and arrays, not %s",
                 ast_op_text(node->op), value_kind_name(args[0]));
    else
        unit_err(s, node, e, KV_E_DTYPE, "`%s` does not join %s and %s", ast_op_text(node->op),
                 value_kind_name(args[0]), value_kind_name(args[1]));
    if (node->op == OP_ADD && node->n == 2 && args[0].kind == VALUE_TEXT)
        return kv_err_hint(e, "a value in a text: f\"w = {w}\"");
    /* lists of numbers do not calculate, arrays do: `array([1, 2]) - 1` */
    bool found = false;
    own_buf hint = {0};
    if (node->kind == AST_UNARY)
        buf_add(&hint, ast_op_text(node->op));
    for (i = 0; i < node->n; i++) {
        bool list = !found && value_is_numbers(args[i]);
        if (i > 0)
            buf_printf(&hint, " %s ", ast_op_text(node->op));
        operand_text(&hint, s, node->kid[i], list);
        found |= list;
        if (!list && !value_is_number(args[i]) && !value_is_numbers(args[i])) {
            found = false;
            break;
        }
    }
    if (found)
        kv_err_hint(e, "arrays calculate with each element: %s", buf_text(&hint));
    return e->code;
}

/* text % value, text % (value, …) */
static int format_text(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    bool many = args[1].kind == VALUE_TUPLE;
    int64_t n = many ? args[1].u.list->n : 1;
    const value *items = many ? args[1].u.list->items : &args[1];
    own_mem host *hosts = mem_alloc(n, sizeof *hosts, e);
    own_arena texts = {0};
    own_buf all = {0};
    if (!hosts)
        return unit_at(s, node, e);
    for (int64_t i = 0; i < n; i++) {
        own_buf shown = {0};
        value one = items[i];
        if (one.kind == VALUE_ARRAY && kv_array_ndim(one.u.box->array) == 0)
            value_item(&one, one, &(kv_err){0});
        const char *text = NULL;
        if (!value_is_scalar(one) &&
            (show_value(s, &shown, one, false, e) ||
             !(text = arena_text(&texts, buf_text(&shown), shown.len, e))))
            return unit_at(s, node, e);
        hosts[i] = text ? host_text(text) : value_host(one);
    }
    bool fails = host_format(&all, args[0].u.text, hosts, (int)n, e) ||
                 value_text_take(out, &all, KV_OK, e);
    return fails ? unit_at(s, node, e) : KV_OK;
}

static int over_scalars(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    host in[OPERANDS], h;
    own_arena texts = {0};
    int rc;
    for (uint32_t i = 0; i < node->n; i++)
        in[i] = value_host(args[i]);
    /* rules let none pass through signs and comparisons by order; Python does not */
    bool none = args[0].kind == VALUE_NONE || (node->n > 1 && args[1].kind == VALUE_NONE);
    if (none && (node->kind == AST_UNARY || (node->kind == AST_BINARY && node->op >= OP_LT)))
        return no_operator(s, node, args, e);
    if (node->kind == AST_CALL)
        rc = host_call(node->u.text, in, (int)node->n, &h, e);
    else if (node->kind == AST_UNARY)
        rc = host_unary(node->op, in[0], &h, e);
    else
        rc = host_binary(node->op, in[0], in[1], &h, &texts, e);
    return rc || value_from_host(out, h, e) ? unit_at(s, node, e) : KV_OK;
}

/* A number, or none, which clip takes for "no bound". */
static bool is_leaf_number(value v)
{
    return value_is_number(v) || v.kind == VALUE_NONE;
}

/* One operator over arrays and numbers that do not come from a whole tree. */
static int over_arrays(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    expr_leaf leaf[OPERANDS] = {{0}};
    kv_array *made[OPERANDS] = {0}, *whole = NULL;
    int rc = KV_OK;
    for (uint32_t i = 0; i < node->n && rc == KV_OK; i++) {
        if (is_leaf_number(args[i]))
            leaf[i].number = value_host(args[i]);
        else if ((rc = value_to_array(&made[i], args[i], e)) == KV_OK)
            leaf[i].array = made[i];
    }
    if (rc == KV_OK)
        rc = apply(&whole, node, leaf, &s->unit->src, e);
    for (uint32_t i = 0; i < OPERANDS; i++)
        kv_array_unref(made[i]);
    return rc || value_result(out, whole, e) ? unit_at(s, node, e) : KV_OK;
}

/* An operator with a list or tuple on one side at least, as in Python. */
static int over_sequences(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    bool first = value_is_sequence(args[0]), alike = args[0].kind == args[1].kind, holds = false;
    const value *times = first ? &args[1] : &args[0];
    int rc;
    if (node->op == OP_ADD && alike && first)
        rc = list_join(out, args[0], args[1], e);
    else if (node->op == OP_MUL && value_is_sequence(args[!first]) &&
             (times->kind == VALUE_INT || times->kind == VALUE_BOOL))
        rc = list_repeat(out, args[!first], times->u.integer, e);
    else if (node->op == OP_EQ || node->op == OP_NE ||
             (node->op >= OP_LT && node->op <= OP_GE && alike && first)) {
        rc = list_compare(node->op, args[0], args[1], &holds, e);
        *out = value_bool(holds);
    } else {
        return no_operator(s, node, args, e);
    }
    return rc == KV_OK ? KV_OK : unit_at(s, node, e);
}

int eval_operate(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    bool scalars = true, arrays = false, numbers = true;
    if (node->n > OPERANDS)
        return unit_err(s, node, e, KV_E_USAGE, "%s takes fewer arguments", node->u.text);
    for (uint32_t i = 0; i < node->n; i++) {
        scalars &= value_is_scalar(args[i]);
        arrays |= args[i].kind == VALUE_ARRAY;
        numbers &=
            args[i].kind == VALUE_ARRAY || is_leaf_number(args[i]) || value_is_sequence(args[i]);
    }
    bool binary = node->kind == AST_BINARY;
    for (uint32_t i = 0; numbers && arrays && i < node->n; i++)
        if (value_is_sparse(args[i]))
            return sparse_operate(s, node, args, out, e);
    if (binary && node->op == OP_MOD && args[0].kind == VALUE_TEXT)
        return format_text(s, node, args, out, e);
    if (!arrays && node->kind == AST_CALL &&
        (strcmp(node->u.text, "max") == 0 || strcmp(node->u.text, "min") == 0)) {
        /* of several values, which they compare as Python does */
        int rc = function_call(s, function_find(node->u.text), args, NULL, node->n, out, e);
        return rc ? unit_at(s, node, e) : KV_OK;
    }
    if (scalars)
        return over_scalars(s, node, args, out, e);
    /* the arguments of functions are arrays where lists are given */
    if (numbers && (arrays || node->kind == AST_CALL))
        return over_arrays(s, node, args, out, e);
    bool contexts = binary && args[0].kind == VALUE_CTX && args[1].kind == VALUE_CTX;
    if (binary && !arrays && (value_has_items(args[0]) || value_has_items(args[1]) || contexts))
        return over_sequences(s, node, args, out, e);
    return no_operator(s, node, args, e);
}

/* Node by node; *leaf is the next of the leaves. */
static int fold(session *s, const ast *node, const value **leaf, value *out, kv_err *e)
{
    if (!eval_is_inner(s, node)) {
        *out = value_ref(*(*leaf)++);
        return KV_OK;
    }
    value args[OPERANDS] = {{0}};
    int rc = KV_OK;
    if (node->n > OPERANDS)
        return unit_err(s, node, e, KV_E_USAGE, "%s takes fewer arguments", node->u.text);
    for (uint32_t i = 0; i < node->n && rc == KV_OK; i++)
        rc = fold(s, node->kid[i], leaf, &args[i], e);
    if (rc == KV_OK)
        rc = eval_operate(s, node, args, out, e);
    for (uint32_t i = 0; i < node->n; i++)
        value_release(&args[i]);
    return rc;
}

/* Says of each leaf which node it is, for those that look like operators: `and`, `or`, `not`. */
static void name_leaves(const session *s, const ast *node, expr_leaf **leaf)
{
    if (!eval_is_inner(s, node)) {
        (*leaf)++->node = node;
        return;
    }
    for (uint32_t i = 0; i < node->n; i++)
        name_leaves(s, node->kid[i], leaf);
}

/* The whole tree as one program. */
static int run_tree(session *s, const ast *node, value_stack *l, value *out, kv_err *e)
{
    expr_leaf small[8];
    own_mem expr_leaf *more = l->n <= 8 ? NULL : mem_alloc(l->n, sizeof *more, e);
    expr_leaf *leaf = l->n <= 8 ? small : more, *next = leaf;
    kv_array *whole;
    if (!leaf)
        return unit_at(s, node, e);
    for (int64_t i = 0; i < l->n; i++) {
        leaf[i] = (expr_leaf){0};
        if (is_leaf_number(l->items[i]))
            leaf[i].number = value_host(l->items[i]);
        else
            leaf[i].array = l->items[i].u.box->array;
    }
    name_leaves(s, node, &next);
    bool fails = expr_eval(&whole, node, leaf, (int)l->n, &s->unit->src, e) ||
                 value_result(out, whole, e);
    return fails ? unit_at(s, node, e) : KV_OK;
}

/* The value of a tree from its leaves. */
static int from_leaves(session *s, const ast *node, value_stack *l, value *out, kv_err *e)
{
    bool arrays = false, others = false;
    const value *leaf = l->items;
    for (int64_t i = 0; i < l->n; i++) {
        arrays |= l->items[i].kind == VALUE_ARRAY;
        others |= (l->items[i].kind != VALUE_ARRAY && !is_leaf_number(l->items[i])) ||
                  value_is_sparse(l->items[i]);
    }
    return arrays && !others ? run_tree(s, node, l, out, e) : fold(s, node, &leaf, out, e);
}

int eval_tree(session *s, const ast *node, value *out, kv_err *e)
{
    own_stack l = {0};
    TRY(collect(s, node, &l, e));
    return from_leaves(s, node, &l, out, e);
}

int eval_combine(session *s, const ast *node, value left, value *out, kv_err *e)
{
    own_stack l = {0};
    *out = value_none();
    TRY(value_stack_add(&l, value_ref(left), e));
    TRY(collect(s, node->kid[1], &l, e));
    return from_leaves(s, node, &l, out, e);
}
