/* Operators and element-wise functions, in whole trees.
 *
 * The leaves of a tree are evaluated first, from left to right. When arrays are among them the tree
 * becomes one program that reads each array once (vm/expr.h); when all are scalars it is folded;
 * with texts, lists and tuples it is worked on node by node, since `+` joins these.
 */
#include "eval/eval_tree.h"

#include <string.h>

#include "base/stop.h"
#include "eval/eval.h"
#include "eval/eval_sparse.h"
#include "session/containers.h"
#include "session/show.h"
#include "session/unit.h"
#include "syntax/function.h"
#include "vm/expr.h"

bool eval_is_logic(const ast *node)
{
    return (node->kind == AST_BINARY && (node->op == OP_AND || node->op == OP_OR)) ||
           (node->kind == AST_UNARY && node->op == OP_NOT);
}

bool eval_is_inner(const session *s, const ast *node)
{
    bool named = node->kind == AST_CALL && !(node->flags & AST_METHOD);
    if (named && map_get(&s->functions, (kv_key){0, node->u.text}) >= 0)
        return false;
    return !eval_is_logic(node) && expr_is_operator(node);
}

static int collect(session *s, const ast *node, value_stack *l, kv_err *e)
{
    int code = KV_OK;
    if (eval_is_inner(s, node)) {
        for (uint32_t i = 0; i < node->n && code == KV_OK; i++)
            code = collect(s, node->kid[i], l, e);
        return code;
    }
    value v;
    if ((code = eval(s, node, &v, e)))
        return code;
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

/* Lists of numbers do not calculate, arrays do: `array([1, 2]) - 1`. */
static int hint_array(const session *s, const ast *node, const value *args, kv_err *e)
{
    bool found = false;
    buf hint = {0};
    if (node->kind == AST_UNARY)
        buf_add(&hint, ast_op_text(node->op));
    for (uint32_t i = 0; i < node->n; i++) {
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
    buf_release(&hint);
    return e->code;
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
        return kv_err_hint(e, "a value in a text: f\"w = {w}\""), KV_E_DTYPE;
    return hint_array(s, node, args, e);
}

/* text % value, text % (value, …) */
static int format_text(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    bool many = args[1].kind == VALUE_TUPLE;
    int64_t n = many ? args[1].u.list->n : 1;
    const value *items = many ? args[1].u.list->items : &args[1];
    host small[8], *hosts = n <= 8 ? small : mem_alloc(n, sizeof *hosts, e);
    buf *texts = mem_zalloc(n, sizeof *texts, e), all = {0};
    int code = hosts && texts ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && code == KV_OK; i++) {
        value number;
        kv_err unused = {0};
        if (value_is_scalar(items[i])) {
            hosts[i] = value_host(items[i]);
        } else if (items[i].kind == VALUE_ARRAY && kv_array_ndim(items[i].u.box->array) == 0 &&
                   value_item(&number, items[i], &unused) == KV_OK) {
            hosts[i] = value_host(number);
        } else if ((code = show_value(s, &texts[i], items[i], false, e)) == KV_OK) {
            hosts[i] = host_text(buf_text(&texts[i]));
        }
    }
    if (code == KV_OK)
        code = host_format(&all, args[0].u.text, hosts, (int)n, e);
    code = value_text_take(out, &all, code, e);
    for (int64_t i = 0; texts && i < n; i++)
        buf_release(&texts[i]);
    mem_free(texts);
    if (hosts != small)
        mem_free(hosts);
    return code == KV_OK ? KV_OK : unit_at(s, node, e);
}

/* min and max of several values compare them as Python does, unless one is an array. */
static bool is_extreme(const ast *node)
{
    return node->kind == AST_CALL &&
           (strcmp(node->u.text, "max") == 0 || strcmp(node->u.text, "min") == 0);
}

static int extreme(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    static const char *const no_names[8];
    int code = function_call(s, function_find(node->u.text), args, no_names, node->n, out, e);
    return code ? unit_at(s, node, e) : KV_OK;
}

/* Rules let none pass through signs and comparisons by order; Python does not. */
static bool is_none_refused(const ast *node, const value *args)
{
    bool none = args[0].kind == VALUE_NONE || (node->n > 1 && args[1].kind == VALUE_NONE);
    return none && (node->kind == AST_UNARY || (node->kind == AST_BINARY && node->op >= OP_LT));
}

static int over_scalars(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    host in[8], h;
    arena texts = {0};
    int code;
    if (node->n > 8)
        return unit_err(s, node, e, KV_E_USAGE, "%s takes fewer arguments", node->u.text);
    for (uint32_t i = 0; i < node->n; i++)
        in[i] = value_host(args[i]);
    if (is_none_refused(node, args))
        return no_operator(s, node, args, e);
    if (node->kind == AST_CALL)
        code = host_call(node->u.text, in, (int)node->n, &h, e);
    else if (node->kind == AST_UNARY)
        code = host_unary(node->op, in[0], &h, e);
    else
        code = host_binary(node->op, in[0], in[1], &h, &texts, e);
    if (code == KV_OK)
        code = value_from_host(out, h, e);
    arena_release(&texts);
    return code == KV_OK ? KV_OK : unit_at(s, node, e);
}

/* A number, or none, which clip takes for "no bound". */
static bool is_leaf_number(value v)
{
    return value_is_number(v) || v.kind == VALUE_NONE;
}

/* One operator over arrays and numbers that do not come from a whole tree: a small tree
 * of its own. */
static int over_arrays(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    arena nodes = {0};
    expr_leaf leaf[8] = {{0}};
    kv_array *made[8] = {0}, *whole = NULL;
    ast *tree = arena_alloc(&nodes, sizeof *tree + node->n * sizeof tree->kid[0], e);
    ast *end = arena_alloc(&nodes, sizeof *end, e);
    int code = tree && end ? KV_OK : KV_E_MEMORY;
    if (code == KV_OK && node->n > 8)
        code = unit_err(s, node, e, KV_E_USAGE, "%s takes fewer arguments", node->u.text);
    for (uint32_t i = 0; i < node->n && code == KV_OK; i++) {
        if (is_leaf_number(args[i]))
            leaf[i].number = value_host(args[i]);
        else if ((code = value_to_array(&made[i], args[i], e)) == KV_OK)
            leaf[i].array = made[i];
        tree->kid[i] = end;
    }
    if (code == KV_OK) {
        end->kind = AST_NONE;
        tree->kind = node->kind;
        tree->op = node->op;
        tree->u = node->u;
        tree->n = node->n;
        tree->pos = node->pos;
        tree->end = node->end;
        code = expr_eval(&whole, tree, leaf, (int)node->n, &s->unit->src, e);
    }
    for (uint32_t i = 0; i < 8; i++)
        kv_array_unref(made[i]);
    arena_release(&nodes);
    if (code == KV_OK)
        code = value_result(out, whole, e);
    return code == KV_OK ? KV_OK : unit_at(s, node, e);
}

/* An operator with a list or tuple on one side at least, as in Python. */
static int over_sequences(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    bool first = value_is_sequence(args[0]), alike = args[0].kind == args[1].kind, holds = false;
    const value *times = first ? &args[1] : &args[0];
    int code;
    if (node->op == OP_ADD && alike && first)
        code = list_join(out, args[0], args[1], e);
    else if (node->op == OP_MUL && value_is_sequence(args[!first]) &&
             (times->kind == VALUE_INT || times->kind == VALUE_BOOL))
        code = list_repeat(out, args[!first], times->u.integer, e);
    else if (node->op == OP_EQ || node->op == OP_NE ||
             (node->op >= OP_LT && node->op <= OP_GE && alike && first)) {
        code = list_compare(node->op, args[0], args[1], &holds, e);
        *out = value_bool(holds);
    } else {
        return no_operator(s, node, args, e);
    }
    return code == KV_OK ? KV_OK : unit_at(s, node, e);
}

int eval_operate(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    bool scalars = true, arrays = false, numbers = true;
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
    if (!arrays && is_extreme(node))
        return extreme(s, node, args, out, e);
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
    value args[8] = {{0}};
    int code = KV_OK;
    if (node->n > 8)
        return unit_err(s, node, e, KV_E_USAGE, "%s takes fewer arguments", node->u.text);
    for (uint32_t i = 0; i < node->n && code == KV_OK; i++)
        code = fold(s, node->kid[i], leaf, &args[i], e);
    if (code == KV_OK)
        code = eval_operate(s, node, args, out, e);
    for (uint32_t i = 0; i < node->n; i++)
        value_release(&args[i]);
    return code;
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
    expr_leaf small[8], *leaf = l->n <= 8 ? small : mem_alloc(l->n, sizeof *leaf, e);
    kv_array *whole = NULL;
    int code = leaf ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < l->n && code == KV_OK; i++) {
        leaf[i] = (expr_leaf){0};
        if (is_leaf_number(l->items[i])) {
            leaf[i].number = value_host(l->items[i]);
        } else {
            leaf[i].array = l->items[i].u.box->array;
        }
    }
    if (code == KV_OK) {
        expr_leaf *next = leaf;
        name_leaves(s, node, &next);
        code = expr_eval(&whole, node, leaf, (int)l->n, &s->unit->src, e);
    }
    if (code == KV_OK)
        code = value_result(out, whole, e);
    if (leaf != small)
        mem_free(leaf);
    return code == KV_OK ? KV_OK : unit_at(s, node, e);
}

/* The value of a tree from its leaves, which are released. */
static int from_leaves(session *s, const ast *node, value_stack *l, value *out, int code, kv_err *e)
{
    bool arrays = false, others = false;
    const value *leaf = l->items;
    for (int64_t i = 0; i < l->n; i++) {
        arrays |= l->items[i].kind == VALUE_ARRAY;
        others |= (l->items[i].kind != VALUE_ARRAY && !is_leaf_number(l->items[i])) ||
                  value_is_sparse(l->items[i]);
    }
    if (code == KV_OK)
        code = arrays && !others ? run_tree(s, node, l, out, e) : fold(s, node, &leaf, out, e);
    value_stack_release(l);
    return code;
}

int eval_tree(session *s, const ast *node, value *out, kv_err *e)
{
    value_stack l = {0};
    int code = collect(s, node, &l, e);
    return from_leaves(s, node, &l, out, code, e);
}

int eval_combine(session *s, const ast *node, value left, value *out, kv_err *e)
{
    value_stack l = {0};
    int code = value_stack_add(&l, value_ref(left), e);
    *out = value_none();
    if (code == KV_OK)
        code = collect(s, node->kid[1], &l, e);
    return from_leaves(s, node, &l, out, code, e);
}
