/* Expressions of a merge, without lists: comprehensions are gone through, items are picked, and
 * functions of lists become operations on their items. */
#include <string.h>

#include "vm/element.h"
#include "vm/merge_writer.h"

#define RANGE_MOST 100000

static const list_value nothing = {0};

/* A value that is not a list. */
const ast *merge_one(list_writer *w, const ast *node)
{
    list_value v = merge_value(w, node);
    if (!w->rc && !v.node)
        writer_refuse_list(w, node, v);
    return v.node;
}

list_value merge_list(list_writer *w, const ast *node)
{
    list_value v = merge_value(w, node);
    if (!w->rc && v.node) {
        REJECT(w, node, KV_E_USAGE, "a list belongs here, and this is not one");
        kv_err_hint(w->e, "lists are `models`, `weights` and what is made of them");
    }
    return v;
}

/* ---- Comprehensions -------------------------------------------------------------------------- */

/* Gives the names of a target their values. */
void merge_bind(list_writer *w, const ast *target, list_value is)
{
    if (w->rc)
        return;
    if (target->kind == AST_NAME) {
        writer_mean(w, target->u.text, is, true);
        return;
    }
    if (target->kind != AST_TUPLE) {
        REJECT(w, target, KV_E_USAGE, "a loop of a merge gives names to items");
        return;
    }
    if (is.node || is.n != (int)target->n) {
        REJECT(w, target, KV_E_USAGE, "an item is %s, and here are %u names",
               is.node ? "one value" : "a list of another length", target->n);
        kv_err_hint(w->e, "for m, w in zip(models, weights)");
        return;
    }
    for (uint32_t i = 0; i < target->n; i++)
        merge_bind(w, target->kid[i], is.items[i]);
}

/* Whether the conditions of a comprehension take an item. */
static bool is_taken(list_writer *w, const ast *condition)
{
    host x = host_none();
    const ast *written = merge_one(w, condition->kid[0]);
    if (!w->rc && !writer_knows(w, written, &x)) {
        REJECT(w, condition->kid[0], KV_E_USAGE,
               "which items a list has must be known before it is written out");
        kv_err_hint(w->e, "where(condition, a, b) chooses element by element");
    }
    return !w->rc && host_truth(x);
}

/* Writes the items of a comprehension from its part `part` on, behind those that are there. */
static void write_items(list_writer *w, const ast *comp, uint32_t part, list_value *out,
                        int64_t *cap)
{
    if (part == comp->n) {
        if (mem_grow(&out->items, cap, out->n + 1, sizeof *out->items, w->e))
            w->rc = KV_E_MEMORY;
        else
            out->items[out->n++] = merge_value(w, comp->kid[0]);
        return;
    }
    const ast *clause = comp->kid[part];
    if (clause->kind == AST_ONLY) {
        if (is_taken(w, clause))
            write_items(w, comp, part + 1, out, cap);
        return;
    }
    list_value over = merge_list(w, clause->kid[1]);
    list_meaning *before = w->meanings;
    for (int i = 0; i < over.n && !w->rc; i++) {
        merge_bind(w, clause->kid[0], over.items[i]);
        if (!w->rc)
            write_items(w, comp, part + 1, out, cap);
        w->meanings = before;
    }
}

static list_value write_comprehension(list_writer *w, const ast *node)
{
    list_value growing = {0};
    int64_t cap = 0;
    write_items(w, node, 1, &growing, &cap);
    list_value list = writer_list(w, growing.n);
    if (!w->rc && growing.n > 0)
        memcpy(list.items, growing.items, sizeof *list.items * (size_t)growing.n);
    mem_free(growing.items);
    return list;
}

static list_value write_display(list_writer *w, const ast *node)
{
    list_value list = writer_list(w, (int)node->n);
    for (uint32_t i = 0; i < node->n && !w->rc; i++)
        list.items[i] = merge_value(w, node->kid[i]);
    return list;
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* A bound of a slice, as in Python: from the end when negative, and cut to the list. */
static int slice_bound(list_writer *w, const ast *bound, int n, int otherwise)
{
    if (!bound)
        return otherwise;
    int64_t i = writer_integer(w, merge_one(w, bound), bound);
    i = i < 0 ? i + n : i;
    return i < 0 ? 0 : i > n ? n : (int)i;
}

static list_value write_index(list_writer *w, const ast *node)
{
    list_value list = merge_list(w, node->kid[0]);
    if (w->rc)
        return nothing;
    const ast *at = node->kid[1];
    if (node->n != 2) {
        REJECT(w, node, KV_E_USAGE, "a list has one index");
        return nothing;
    }
    if (at->kind == AST_SLICE) {
        if (at->n > 2 && at->kid[2])
            REJECT(w, at->kid[2], KV_E_USAGE, "slices of a merge have no step");
        int from = slice_bound(w, at->kid[0], list.n, 0);
        int to = slice_bound(w, at->kid[1], list.n, list.n);
        return (list_value){.items = list.items + from, .n = to > from ? to - from : 0};
    }
    int64_t i = writer_integer(w, merge_one(w, at), at);
    if (!w->rc && (i < -list.n || i >= list.n))
        REJECT(w, node, KV_E_VALUE, "a list of %d has no item %lld", list.n, (long long)i);
    return w->rc ? nothing : list.items[i < 0 ? i + list.n : i];
}

/* ---- Functions of lists ---------------------------------------------------------------------- */

typedef list_value list_function(list_writer *w, const ast *call, list_value list);

/* Items, none of which is a list itself. */
bool merge_are_single(list_writer *w, const ast *at, list_value list)
{
    for (int i = 0; i < list.n && !w->rc; i++)
        if (!list.items[i].node)
            writer_refuse_list(w, at, list.items[i]);
    return !w->rc;
}

static const ast *add_up(list_writer *w, const ast *at, const list_value *items, int n)
{
    const ast *sum = n > 0 ? items[0].node : writer_int(w, at, 0);
    for (int i = 1; i < n && !w->rc; i++)
        sum = writer_binary(w, at, OP_ADD, sum, items[i].node);
    return sum;
}

static list_value list_sum(list_writer *w, const ast *call, list_value list)
{
    return value_of_node(add_up(w, call, list.items, list.n));
}

static const ast *average(list_writer *w, const ast *at, const list_value *items, int n)
{
    return writer_binary(w, at, OP_DIV, add_up(w, at, items, n), writer_int(w, at, n));
}

static list_value list_mean(list_writer *w, const ast *call, list_value list)
{
    return value_of_node(average(w, call, list.items, list.n));
}

static list_value list_least(list_writer *w, const ast *call, list_value list)
{
    const ast *least = list.items[0].node;
    for (int i = 1; i < list.n && !w->rc; i++)
        least =
            writer_call(w, call, call->u.text, (const ast *const[]){least, list.items[i].node}, 2);
    return value_of_node(least);
}

/* Gives a value a name of its own, so that what reads it several times is written once. */
const ast *merge_put_named(list_writer *w, const ast *at, const ast *is)
{
    const char *name = writer_item(w, "sorted", w->sorted++);
    writer_put_set(w, at, name, is);
    return writer_name(w, at, name);
}

/* One exchange of a sorting network. */
static void exchange(list_writer *w, const ast *at, list_value *x, list_value *y)
{
    const ast *pair[2] = {x->node, y->node};
    if (w->rc)
        return;
    const ast *least = writer_call(w, at, "min", pair, 2);
    const ast *most = writer_call(w, at, "max", pair, 2);
    x->node = merge_put_named(w, at, least);
    y->node = merge_put_named(w, at, most);
}

/* The items from the smallest to the largest, element by element: the exchanges that put any n
 * values in order (Batcher's odd-even merge sort, 1968; Knuth, The Art of Computer Programming,
 * volume 3, algorithm 5.2.2M, which takes any n). */
static list_value sort_items(list_writer *w, const ast *at, list_value list)
{
    list_value sorted = writer_list(w, list.n);
    int top = 1;
    if (w->rc)
        return nothing;
    for (int i = 0; i < list.n; i++)
        sorted.items[i].node = merge_put_named(w, at, list.items[i].node);
    while (top < list.n)
        top *= 2;
    for (int p = top / 2; p > 0; p /= 2) {
        int q = top / 2, r = 0, d = p;
        for (;;) {
            for (int i = 0; i + d < list.n; i++)
                if ((i & p) == r)
                    exchange(w, at, &sorted.items[i], &sorted.items[i + d]);
            if (q == p)
                break;
            d = q - p;
            q /= 2;
            r = p;
        }
    }
    return sorted;
}

static list_value list_median(list_writer *w, const ast *call, list_value list)
{
    list_value sorted = sort_items(w, call, list);
    if (w->rc)
        return nothing;
    int from = (list.n - 1) / 2, n = list.n % 2 ? 1 : 2;
    return value_of_node(n == 1 ? sorted.items[from].node
                                : average(w, call, sorted.items + from, n));
}

static list_value list_trimmed(list_writer *w, const ast *call, list_value list)
{
    int64_t k = writer_integer(w, merge_one(w, call->kid[1]), call->kid[1]);
    if (!w->rc && (k < 0 || k > list.n || 2 * k >= list.n))
        REJECT(w, call, KV_E_VALUE, "%lld of each side of %d items leave none", (long long)k,
               list.n);
    list_value sorted = w->rc ? nothing : sort_items(w, call, list);
    return w->rc ? nothing : value_of_node(average(w, call, sorted.items + k, list.n - 2 * (int)k));
}

static list_value list_len(list_writer *w, const ast *call, list_value list)
{
    return value_of_node(writer_int(w, call, list.n));
}

static list_value list_enumerate(list_writer *w, const ast *call, list_value list)
{
    list_value pairs = writer_list(w, list.n);
    for (int i = 0; i < list.n && !w->rc; i++) {
        list_value pair = writer_list(w, 2);
        if (w->rc)
            break;
        pair.items[0] = value_of_node(writer_int(w, call, i));
        pair.items[1] = list.items[i];
        pairs.items[i] = pair;
    }
    return pairs;
}

/* Legend: name; arguments, of which the first is a list; whether its items are single values; the
 * fewest of them. */
static const struct {
    const char *name;
    uint32_t n;
    bool single;
    int least;
    list_function *make;
} functions[] = {
    {"sum", 1, true, 0, list_sum},       {"mean", 1, true, 1, list_mean},
    {"min", 1, true, 1, list_least},     {"max", 1, true, 1, list_least},
    {"median", 1, true, 1, list_median}, {"trimmed_mean", 2, true, 1, list_trimmed},
    {"len", 1, false, 0, list_len},      {"enumerate", 1, false, 0, list_enumerate},
};

static list_value write_zip(list_writer *w, const ast *call)
{
    list_value lists = write_display(w, call);
    int n = lists.n > 0 && !w->rc ? lists.items[0].n : 0;
    for (int i = 0; i < lists.n && !w->rc; i++) {
        if (lists.items[i].node)
            REJECT(w, call->kid[i], KV_E_USAGE, "zip takes lists, and this is not one");
        else if (lists.items[i].n != n)
            REJECT(w, call, KV_E_USAGE, "zip takes lists of one length, not of %d and %d", n,
                   lists.items[i].n);
    }
    list_value out = writer_list(w, n);
    for (int k = 0; k < n && !w->rc; k++) {
        list_value item = writer_list(w, lists.n);
        for (int i = 0; i < lists.n && !w->rc; i++)
            item.items[i] = lists.items[i].items[k];
        out.items[k] = item;
    }
    return out;
}

static list_value write_range(list_writer *w, const ast *call)
{
    int64_t n = writer_integer(w, merge_one(w, call->kid[0]), call->kid[0]);
    if (!w->rc && (n < 0 || n > RANGE_MOST))
        REJECT(w, call, KV_E_VALUE, "range takes 0 to %d, not %lld", RANGE_MOST,
               (long long)n);
    list_value out = w->rc ? nothing : writer_list(w, (int)n);
    for (int i = 0; i < out.n && !w->rc; i++)
        out.items[i] = value_of_node(writer_int(w, call, i));
    return out;
}

/* What is no function at all is told as that; of single values rule_check.c tells it. */
static void refuse_call_of_list(list_writer *w, const ast *node, list_value first)
{
    const char *name = node->u.text;
    if (element_find(name) || strcmp(name, "dot") == 0) {
        writer_refuse_list(w, node->kid[0], first);
    } else if (!w->rc) {
        REJECT(w, node, KV_E_USAGE, "a merge knows no function `%s`", name);
        kv_err_hint(w->e, "help rules lists those that it knows");
    }
}

/* A function of elements or numbers; its arguments are single values. */
static list_value write_call_of_ones(list_writer *w, const ast *node, const list_value *first)
{
    const ast *kids[64];
    if (node->n > 64) {
        REJECT(w, node, KV_E_USAGE, "%s takes fewer arguments", node->u.text);
        return nothing;
    }
    for (uint32_t i = 0; i < node->n && !w->rc; i++) {
        kids[i] = i == 0 && first ? first->node : NULL;
        if (!kids[i] && i == 0 && first)
            refuse_call_of_list(w, node, *first);
        if (!w->rc && !kids[i])
            kids[i] = merge_one(w, node->kid[i]);
    }
    if (w->rc)
        return nothing;
    /* the dot product of two arrays is a sum over all elements */
    if (strcmp(node->u.text, "dot") == 0 && node->n == 2) {
        const ast *product = writer_binary(w, node, OP_MUL, kids[0], kids[1]);
        return value_of_node(writer_call(w, node, "sum", &product, 1));
    }
    return value_of_node(writer_make_like(w, node, kids, node->n));
}

static list_value write_call(list_writer *w, const ast *node)
{
    const char *name = node->u.text;
    if (strcmp(name, "zip") == 0 && node->n > 0)
        return write_zip(w, node);
    if (strcmp(name, "range") == 0 && node->n == 1)
        return write_range(w, node);
    if (node->n == 0)
        return value_of_node(node);
    list_value first = merge_value(w, node->kid[0]);
    for (size_t i = 0; i < sizeof functions / sizeof *functions && !w->rc; i++) {
        if (strcmp(functions[i].name, name) != 0)
            continue;
        bool only = strcmp(name, "median") == 0 || strcmp(name, "trimmed_mean") == 0 ||
                    strcmp(name, "enumerate") == 0;
        if (first.node && !only) /* of an array, or numbers */
            break;
        if (first.node)
            REJECT(w, node->kid[0], KV_E_USAGE, "%s takes a list, and this is not one", name);
        else if (node->n != functions[i].n)
            REJECT(w, node, KV_E_USAGE, "%s of a list takes %u argument%s, not %u", name,
                   functions[i].n, functions[i].n == 1 ? "" : "s", node->n);
        else if (first.n < functions[i].least)
            REJECT(w, node, KV_E_VALUE, "%s of an empty list", name);
        if (w->rc || (functions[i].single && !merge_are_single(w, node->kid[0], first)))
            return nothing;
        return functions[i].make(w, node, first);
    }
    return w->rc ? nothing : write_call_of_ones(w, node, &first);
}

/* ---- Expressions ----------------------------------------------------------------------------- */

/* A node all of whose children are single values. */
list_value merge_kids(list_writer *w, const ast *node)
{
    if (node->n == 0)
        return value_of_node(node);
    const ast **kids = writer_keep(w, sizeof *kids * node->n);
    bool same = true;
    for (uint32_t i = 0; i < node->n && !w->rc; i++) {
        kids[i] = node->kid[i] ? merge_one(w, node->kid[i]) : NULL;
        same &= kids[i] == node->kid[i];
    }
    return w->rc ? nothing : value_of_node(same ? node : writer_make_like(w, node, kids, node->n));
}

/* "key %s" % (a, b): a tuple that is no list. */
static list_value write_formatted(list_writer *w, const ast *node)
{
    const ast *text = merge_one(w, node->kid[0]);
    list_value tuple = w->rc ? nothing : merge_kids(w, node->kid[1]);
    return w->rc ? nothing : value_of_node(writer_binary(w, node, OP_MOD, text, tuple.node));
}

static list_value write_choice(list_writer *w, const ast *node)
{
    host x = host_none();
    const ast *condition = merge_one(w, node->kid[0]);
    if (!w->rc && !writer_knows(w, condition, &x)) {
        REJECT(w, node, KV_E_USAGE, "this choice is known only when the rule runs");
        kv_err_hint(w->e, "where(condition, a, b)");
    }
    return w->rc ? nothing : merge_value(w, node->kid[host_truth(x) ? 1 : 2]);
}

static list_value write_name(list_writer *w, const ast *node)
{
    const list_meaning *m = writer_find(w, node->u.text);
    if (!m)
        return value_of_node(node);
    if (!m->is.node || m->is.node->kind != AST_NAME)
        return m->is;
    return value_of_node(
        writer_name(w, node, m->is.node->u.text)); /* errors show where it is read */
}

list_value merge_value(list_writer *w, const ast *node)
{
    if (w->rc)
        return nothing;
    switch (node->kind) {
    case AST_NAME:
        return write_name(w, node);
    case AST_LIST:
    case AST_TUPLE:
        return write_display(w, node);
    case AST_COMP:
        return write_comprehension(w, node);
    case AST_INDEX:
        return write_index(w, node);
    case AST_CALL:
        return write_call(w, node);
    case AST_CHOICE:
        return write_choice(w, node);
    case AST_BINARY:
        if (node->op == OP_MOD && node->kid[1]->kind == AST_TUPLE)
            return write_formatted(w, node);
        return merge_kids(w, node);
    default:
        return merge_kids(w, node);
    }
}
