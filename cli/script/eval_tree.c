/* Operators and element-wise functions, in whole trees.
 *
 * The leaves of a tree are evaluated first, from left to right. When arrays are among them the tree
 * becomes one program that reads each array once (vm/expr.h); when all are scalars it is folded;
 * only texts, lists and tuples are worked on node by node.
 */
#include "script/eval_tree.h"

#include <string.h>

#include "base/stop.h"
#include "script/eval.h"
#include "script/show.h"
#include "script/unit.h"
#include "script/value_stack.h"
#include "vm/expr.h"

bool eval_is_logic(const ast *node)
{
    return (node->kind == AST_BINARY && (node->op == OP_AND || node->op == OP_OR)) ||
           (node->kind == AST_UNARY && node->op == OP_NOT);
}

bool eval_is_inner(const session *s, const ast *node)
{
    if (node->kind == AST_CALL && map_get(&s->functions, (kv_key){0, node->u.text}) >= 0)
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

static int operate(session *s, const ast *node, const value *args, value *out, kv_err *e);

static int no_operator(session *s, const ast *node, const value *args, kv_err *e)
{
    if (node->kind == AST_CALL)
        return unit_err(s, node, e, KV_E_DTYPE, "%s takes numbers and arrays, not %s", node->u.text,
                        value_kind_name(args[0]));
    if (node->kind == AST_UNARY)
        return unit_err(s, node, e, KV_E_DTYPE, "`%s` takes numbers and arrays, not %s",
                        ast_op_text(node->op), value_kind_name(args[0]));
    return unit_err(s, node, e, KV_E_DTYPE, "`%s` does not join %s and %s", ast_op_text(node->op),
                    value_kind_name(args[0]), value_kind_name(args[1]));
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
        } else if (items[i].kind == VALUE_ARRAY && kv_array_ndim(items[i].u.array) == 0 &&
                   value_item(&number, items[i], &unused) == KV_OK) {
            hosts[i] = value_host(number);
        } else if ((code = show_value(s, &texts[i], items[i], false, e)) == KV_OK) {
            hosts[i] = host_text(buf_text(&texts[i]));
        }
    }
    if (code == KV_OK &&
        (code = host_format(&all, args[0].u.text->text, hosts, (int)n, e)) == KV_OK &&
        (code = buf_check(&all, e)) == KV_OK)
        code = value_text_new(out, buf_text(&all), all.len, e);
    for (int64_t i = 0; texts && i < n; i++)
        buf_release(&texts[i]);
    buf_release(&all);
    mem_free(texts);
    if (hosts != small)
        mem_free(hosts);
    return code == KV_OK ? KV_OK : unit_at(s, node, e);
}

static int repeat_list(session *s, const ast *node, value list, int64_t times, value *out,
                       kv_err *e)
{
    int64_t n = list.u.list->n, total;
    if (times < 0)
        times = 0;
    if (__builtin_mul_overflow(n, times, &total))
        return unit_err(s, node, e, KV_E_VALUE, "a list of %lld items %lld times is too long",
                        (long long)n, (long long)times);
    if (value_list_new(out, list.kind, total, e))
        return e->code;
    int code = KV_OK;
    for (int64_t i = 0; i < total && code == KV_OK; i++) {
        out->u.list->items[i] = value_ref(list.u.list->items[i % n]);
        code = stop_check_at(i, e);
    }
    return value_finish(out, code);
}

static int join_lists(value a, value b, value *out, kv_err *e)
{
    int64_t n = a.u.list->n;
    int code = value_list_new(out, a.kind, n + b.u.list->n, e);
    for (int64_t i = 0; code == KV_OK && i < out->u.list->n; i++) {
        out->u.list->items[i] = value_ref(i < n ? a.u.list->items[i] : b.u.list->items[i - n]);
        code = stop_check_at(i, e);
    }
    return value_finish(out, code);
}

/* Numbers with a number or other numbers, element by element. */
static int over_numbers(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    const value *list = value_is_sequence(args[0]) ? &args[0] : &args[1];
    int64_t n = list->u.list->n;
    for (uint32_t k = 0; k < node->n; k++)
        if (value_is_sequence(args[k]) && args[k].u.list->n != n)
            return unit_err(s, node, e, KV_E_SHAPE, "lists of %lld and %lld numbers do not fit",
                            (long long)args[0].u.list->n, (long long)args[1].u.list->n);
    int code = value_list_new(out, VALUE_LIST, n, e);
    for (int64_t i = 0; i < n && code == KV_OK; i++) {
        value part[3] = {{0}};
        for (uint32_t k = 0; k < node->n && k < 3; k++)
            part[k] = value_is_sequence(args[k]) ? args[k].u.list->items[i] : args[k];
        if ((code = stop_check_at(i, e)) == KV_OK)
            code = operate(s, node, part, &out->u.list->items[i], e);
    }
    return value_finish(out, code);
}

static bool same_value(value a, value b)
{
    if (value_is_sequence(a) && value_is_sequence(b) && a.kind == b.kind) {
        bool same = a.u.list->n == b.u.list->n;
        for (int64_t i = 0; same && i < a.u.list->n; i++)
            same = same_value(a.u.list->items[i], b.u.list->items[i]);
        return same;
    }
    if (a.kind == VALUE_CTX && b.kind == VALUE_CTX)
        return kv_ctx_same(a.u.ctx, b.u.ctx);
    host h;
    kv_err unused = {0};
    return value_is_scalar(a) && value_is_scalar(b) &&
           host_binary(OP_EQ, value_host(a), value_host(b), &h, NULL, &unused) == KV_OK &&
           host_truth(h);
}

/* Lists that are nested too deep to look at count as such: they are not compared either. */
static bool has_array(value v)
{
    if (v.kind == VALUE_ARRAY || value_descend(NULL))
        return true;
    for (int64_t i = 0; value_is_sequence(v) && i < v.u.list->n; i++)
        if (has_array(v.u.list->items[i]))
            return true;
    return false;
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
        if (value_is_number(args[i]))
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
        *out = value_array(whole);
    return code == KV_OK ? KV_OK : unit_at(s, node, e);
}

/* One operator or element-wise function over values of any kind. */
static int operate(session *s, const ast *node, const value *args, value *out, kv_err *e)
{
    bool scalars = true, numbers = true, arrays = false;
    for (uint32_t i = 0; i < node->n; i++) {
        scalars &= value_is_scalar(args[i]);
        arrays |= args[i].kind == VALUE_ARRAY;
        numbers &= value_is_number(args[i]) || value_is_numbers(args[i]);
    }
    bool binary = node->kind == AST_BINARY;
    if (binary && node->op == OP_MOD && args[0].kind == VALUE_TEXT)
        return format_text(s, node, args, out, e);
    if (scalars)
        return over_scalars(s, node, args, out, e);
    if (arrays) {
        for (uint32_t i = 0; i < node->n; i++)
            if (args[i].kind != VALUE_ARRAY && !value_is_number(args[i]) &&
                !value_is_numbers(args[i]))
                return no_operator(s, node, args, e);
        return over_arrays(s, node, args, out, e);
    }
    bool tuples = binary && args[0].kind == VALUE_TUPLE;
    if (numbers && !tuples)
        return over_numbers(s, node, args, out, e);
    if (binary && node->op == OP_MUL && value_is_sequence(args[0]) && args[1].kind == VALUE_INT)
        return repeat_list(s, node, args[0], args[1].u.integer, out, e);
    if (binary && node->op == OP_MUL && args[0].kind == VALUE_INT && value_is_sequence(args[1]))
        return repeat_list(s, node, args[1], args[0].u.integer, out, e);
    if (binary && node->op == OP_ADD && value_is_sequence(args[0]) && args[0].kind == args[1].kind)
        return join_lists(args[0], args[1], out, e);
    if (binary && (node->op == OP_EQ || node->op == OP_NE) && !has_array(args[0]) &&
        !has_array(args[1])) {
        *out = value_bool(same_value(args[0], args[1]) == (node->op == OP_EQ));
        return KV_OK;
    }
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
        code = operate(s, node, args, out, e);
    for (uint32_t i = 0; i < node->n; i++)
        value_release(&args[i]);
    return code;
}

/* A number, or none, which clip takes for "no bound". */
static bool is_leaf_number(value v)
{
    return value_is_number(v) || v.kind == VALUE_NONE;
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
        } else if ((code = value_to_array(&leaf[i].array, l->items[i], e)) == KV_OK) {
            value_release(&l->items[i]);
            l->items[i] = value_array(leaf[i].array);
        }
    }
    if (code == KV_OK) {
        expr_leaf *next = leaf;
        name_leaves(s, node, &next);
        code = expr_eval(&whole, node, leaf, (int)l->n, &s->unit->src, e);
    }
    if (code == KV_OK)
        *out = value_array(whole);
    if (leaf != small)
        mem_free(leaf);
    return code == KV_OK ? KV_OK : unit_at(s, node, e);
}

int eval_tree(session *s, const ast *node, value *out, kv_err *e)
{
    value_stack l = {0};
    int code = collect(s, node, &l, e);
    if (code == KV_OK) {
        bool arrays = false, others = false;
        for (int64_t i = 0; i < l.n; i++) {
            arrays |= l.items[i].kind == VALUE_ARRAY;
            others |= l.items[i].kind != VALUE_ARRAY && !is_leaf_number(l.items[i]) &&
                      !value_is_numbers(l.items[i]);
        }
        const value *leaf = l.items;
        code = arrays && !others ? run_tree(s, node, &l, out, e) : fold(s, node, &leaf, out, e);
    }
    value_stack_release(&l);
    return code;
}

