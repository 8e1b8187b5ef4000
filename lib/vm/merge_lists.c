/* A merge without lists: what loops go over is gone through, comprehensions too, names of lists
 * become names of their items, and functions of lists operations on their items.
 *
 * A node is made anew where something below it changed; others are those of the parsed rule, and
 * shared where a value is used twice. The first failure stays in rc: everything after it gives
 * NULL, or nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/suggest.h"
#include "vm/element.h"
#include "vm/merge.h"
#include "vm/rule.h"
#include "vm/rule_env.h"

/* What an expression becomes: a tree without lists, or a list. */
typedef struct list_value list_value;
struct list_value {
    const ast *node; /* NULL: a list */
    list_value *items;
    int n;
};

static inline list_value value_of_node(const ast *node)
{
    return (list_value){.node = node};
}

/* A name that stands for a value: of a loop or comprehension, or of a list. */
typedef struct list_meaning list_meaning;
struct list_meaning {
    const char *name;
    list_value is;
    bool loop;
    list_meaning *next;
};

/* A name whose number is known, or was. */
typedef struct list_number list_number;
struct list_number {
    const char *name;
    host is;
    bool known; /* still, whatever arrays hold */
    list_number *next;
};

typedef struct list_writer {
    const rule_ast *rule;
    const source *src;
    merge_form form;
    const char *const *names, *const *texts; /* given parameters */
    int nparams;
    arena *a;
    list_meaning *meanings;
    list_number *numbers;
    bool inner;  /* in a block of which it is not known whether it runs */
    ast **lines; /* of the block that is being written */
    int64_t nlines, cap;
    int64_t nodes; /* made so far */
    int sorted;    /* names made for sorting */
    bool ended;    /* by `fail`: nothing behind it is reached */
    int rc;
    kv_err *e;
} list_writer;

#define REJECT(w, node, code, ...)                                                                 \
    ((w)->rc = source_err((w)->src, (node)->pos, (node)->end, (w)->e, code, __VA_ARGS__))

/* A rule for as many models as there may be stays far below this. */
#define NODES_MOST 200000

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* Memory that lives as long as the rule. */
static void *writer_keep(list_writer *w, size_t bytes)
{
    void *p = w->rc ? NULL : arena_alloc(w->a, bytes, w->e);
    if (!p && !w->rc)
        w->rc = KV_E_MEMORY;
    return p;
}

/* A node like another one, at its place, with other children. */
static ast *writer_make_like(list_writer *w, const ast *like, const ast *const *kids, uint32_t n)
{
    if (!w->rc && ++w->nodes > NODES_MOST)
        REJECT(w, like, KV_E_VALUE, "written out for %d models the rule is too large",
               w->form.models);
    ast *node = writer_keep(w, sizeof *node + n * sizeof *kids);
    int height = 0;
    if (!node)
        return NULL;
    *node = *like;
    node->n = n;
    for (uint32_t i = 0; i < n; i++) {
        node->kid[i] = (ast *)(uintptr_t)kids[i]; /* trees are only read from here on */
        if (kids[i] && kids[i]->height >= height)
            height = kids[i]->height + 1;
    }
    if (height > AST_MAX_HEIGHT)
        REJECT(w, like, KV_E_VALUE,
               "written out, more than %d operators stand one inside the other", AST_MAX_HEIGHT);
    node->height = (uint16_t)height;
    return w->rc ? NULL : node;
}

static ast *writer_make(list_writer *w, ast_kind kind, int op, const ast *at,
                        const ast *const *kids, uint32_t n)
{
    ast like = {.kind = (uint8_t)kind, .op = (uint8_t)op, .pos = at->pos, .end = at->end};
    return writer_make_like(w, &like, kids, n);
}

static const ast *writer_int(list_writer *w, const ast *at, int64_t x)
{
    ast like = {.kind = AST_INT, .pos = at->pos, .end = at->end, .u.integer = x};
    return writer_make_like(w, &like, NULL, 0);
}

/* A name, a call of a function, or a line that gives a name its value. */
static ast *writer_named(list_writer *w, ast_kind kind, const ast *at, const char *name,
                         const ast *const *kids, uint32_t n)
{
    ast like = {.kind = (uint8_t)kind, .pos = at->pos, .end = at->end, .u.text = name};
    return writer_make_like(w, &like, kids, n);
}

static const ast *writer_binary(list_writer *w, const ast *at, ast_op op, const ast *x,
                                const ast *y)
{
    return writer_make(w, AST_BINARY, op, at, (const ast *const[]){x, y}, 2);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* A list of n items, to be filled. */
static list_value writer_list(list_writer *w, int n)
{
    list_value list = {.items = writer_keep(w, sizeof *list.items * (size_t)(n + 1)), .n = n};
    return list.items ? list : (list_value){0};
}

static list_meaning *writer_find(const list_writer *w, const char *name)
{
    list_meaning *m = w->meanings;
    while (m && strcmp(m->name, name) != 0)
        m = m->next;
    return m;
}

static void writer_mean(list_writer *w, const char *name, list_value is, bool loop)
{
    list_meaning *m = writer_keep(w, sizeof *m);
    if (!m)
        return;
    *m = (list_meaning){name, is, loop, w->meanings};
    w->meanings = m;
}

/* The name of an item, which nobody can write. */
static const char *writer_item(list_writer *w, const char *list, int i)
{
    char text[160];
    int n = snprintf(text, sizeof text, "%.140s[%d]", list, i);
    char *kept = writer_keep(w, (size_t)n + 1);
    return kept ? memcpy(kept, text, (size_t)n + 1) : NULL;
}

static list_value writer_items(list_writer *w, const ast *at, const char *name, int n)
{
    list_value list = writer_list(w, n);
    for (int i = 0; i < n && !w->rc; i++)
        list.items[i] =
            value_of_node(writer_named(w, AST_NAME, at, writer_item(w, name, i), NULL, 0));
    return list;
}

static void writer_refuse_list(list_writer *w, const ast *node, list_value list)
{
    if (w->rc)
        return;
    REJECT(w, node, KV_E_USAGE, "a list of %d stands where one value belongs", list.n);
    kv_err_hint(w->e, "sum(list), list[0], [2 * x for x in list]");
}

/* ---- What is known while lists are written out ----------------------------------------------- */

/* A value that is not as the parameter wants it is refused when all are bound. */
static bool param_value(const list_writer *w, const char *name, host *out)
{
    for (int i = w->nparams - 1; i >= 0; i--)
        if (name_is_word(name, w->names[i], strlen(w->names[i])))
            return rule_read(w->texts[i], out, w->a, NULL);
    for (int i = 0; i < w->rule->nparams; i++)
        if (strcmp(w->rule->params[i].name, name) == 0 && w->rule->params[i].value) {
            *out = host_literal(w->rule->params[i].value);
            return true;
        }
    return false;
}

static list_number *find_number(const list_writer *w, const char *name)
{
    list_number *n = w->numbers;
    while (n && strcmp(n->name, name) != 0)
        n = n->next;
    return n;
}

static bool number_value(const list_writer *w, const char *name, host *out)
{
    const list_number *n = find_number(w, name);
    if (n && n->known)
        *out = n->is;
    return n && n->known;
}

/* Returns true if the list_value of a node follows from literals and parameters: *out. Errors of
 * its arithmetic show when the rule runs. */
static bool writer_knows(const list_writer *w, const ast *node, host *out)
{
    kv_err unused = {0};
    host x[4];
    switch (node->kind) {
    case AST_INT:
    case AST_FLOAT:
    case AST_BOOL:
    case AST_NONE:
        *out = host_literal(node);
        return true;
    case AST_NAME:
        return number_value(w, node->u.text, out) || param_value(w, node->u.text, out);
    case AST_UNARY:
        return writer_knows(w, node->kid[0], &x[0]) &&
               host_unary((ast_op)node->op, x[0], out, &unused) == KV_OK;
    case AST_BINARY:
        if (!writer_knows(w, node->kid[0], &x[0]) || !writer_knows(w, node->kid[1], &x[1]))
            return false;
        if (node->op == OP_AND || node->op == OP_OR) {
            *out = host_truth(x[0]) == (node->op == OP_OR) ? x[0] : x[1];
            return true;
        }
        return x[0].kind != HOST_TEXT &&
               host_binary((ast_op)node->op, x[0], x[1], out, w->a, &unused) == KV_OK;
    case AST_CALL:
        for (uint32_t i = 0; i < node->n; i++)
            if (i == 4 || !writer_knows(w, node->kid[i], &x[i]))
                return false;
        return host_call(node->u.text, x, (int)node->n, out, &unused) == KV_OK;
    default:
        return false;
    }
}

/* An integer that must be known. */
static int64_t writer_integer(list_writer *w, const ast *written, const ast *at)
{
    host x = host_none();
    bool known = written && writer_knows(w, written, &x);
    if (!w->rc && !known) {
        REJECT(w, at, KV_E_USAGE, "this must be known before lists are written out");
        kv_err_hint(w->e, "a number, a parameter, or what follows from len(models)");
    }
    if (!w->rc && x.kind != HOST_INT)
        REJECT(w, at, KV_E_USAGE, "this is not an integer");
    return w->rc ? 0 : x.u.integer;
}

/* A name gets a value: notes whether its number is known. */
static void writer_note(list_writer *w, const char *name, const ast *is)
{
    host x = host_none();
    bool known = !w->inner && writer_knows(w, is, &x);
    list_number *n = find_number(w, name);
    if (!n && known && (n = writer_keep(w, sizeof *n))) {
        *n = (list_number){.name = name, .next = w->numbers};
        w->numbers = n;
    }
    if (n) {
        n->is = x;
        n->known = known;
    }
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static void writer_put(list_writer *w, ast *line)
{
    if (!w->rc && arena_grow(w->a, &w->lines, &w->cap, w->nlines, sizeof *w->lines, w->e))
        w->rc = KV_E_MEMORY;
    if (!w->rc)
        w->lines[w->nlines++] = line;
}

static void writer_put_set(list_writer *w, const ast *at, const char *name, const ast *is)
{
    writer_put(w, writer_named(w, RULE_SET, at, name, &is, 1));
}

/* ---- One value, or a list -------------------------------------------------------------------- */

static list_value merge_value(list_writer *w, const ast *node);
static list_value merge_kids(list_writer *w, const ast *node);

#define RANGE_MOST 100000

static const list_value nothing = {0};

/* A value that is not a list. */
static const ast *merge_one(list_writer *w, const ast *node)
{
    list_value v = merge_value(w, node);
    if (!w->rc && !v.node)
        writer_refuse_list(w, node, v);
    return v.node;
}

static list_value merge_list(list_writer *w, const ast *node)
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
static void merge_bind(list_writer *w, const ast *target, list_value is)
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
        if (arena_grow(w->a, &out->items, cap, out->n, sizeof *out->items, w->e))
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
    list_value list = writer_list(w, 0);
    int64_t cap = 0;
    write_items(w, node, 1, &list, &cap);
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
static bool merge_are_single(list_writer *w, const ast *at, list_value list)
{
    for (int i = 0; i < list.n && !w->rc; i++)
        if (!list.items[i].node)
            writer_refuse_list(w, at, list.items[i]);
    return !w->rc;
}

/* The sum of n items, or what a function of two makes of them, from left to right. */
static const ast *join_items(list_writer *w, const ast *at, const char *function,
                             const list_value *items, int n)
{
    const ast *all = n > 0 ? items[0].node : writer_int(w, at, 0);
    for (int i = 1; i < n && !w->rc; i++) {
        const ast *pair[2] = {all, items[i].node};
        all = function ? writer_named(w, AST_CALL, at, function, pair, 2)
                       : writer_make(w, AST_BINARY, OP_ADD, at, pair, 2);
    }
    return all;
}

static list_value list_sum(list_writer *w, const ast *call, list_value list)
{
    return value_of_node(join_items(w, call, NULL, list.items, list.n));
}

static const ast *average(list_writer *w, const ast *at, const list_value *items, int n)
{
    return writer_binary(w, at, OP_DIV, join_items(w, at, NULL, items, n), writer_int(w, at, n));
}

static list_value list_mean(list_writer *w, const ast *call, list_value list)
{
    return value_of_node(average(w, call, list.items, list.n));
}

static list_value list_least(list_writer *w, const ast *call, list_value list)
{
    return value_of_node(join_items(w, call, call->u.text, list.items, list.n));
}

/* Gives a value a name of its own, so that what reads it several times is written once. */
static const ast *merge_put_named(list_writer *w, const ast *at, const ast *is)
{
    const char *name = writer_item(w, "sorted", w->sorted++);
    writer_put_set(w, at, name, is);
    return writer_named(w, AST_NAME, at, name, NULL, 0);
}

/* One exchange of a sorting network. */
static void exchange(list_writer *w, const ast *at, list_value *x, list_value *y)
{
    const ast *pair[2] = {x->node, y->node};
    if (w->rc)
        return;
    const ast *least = writer_named(w, AST_CALL, at, "min", pair, 2);
    const ast *most = writer_named(w, AST_CALL, at, "max", pair, 2);
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

/* The integers below n. */
static list_value list_range(list_writer *w, const ast *call, int n)
{
    list_value list = writer_list(w, n);
    for (int i = 0; i < n && !w->rc; i++)
        list.items[i] = value_of_node(writer_int(w, call, i));
    return list;
}

/* Lists of the items that stand at one place in each of several lists, which have n. */
static list_value zip_lists(list_writer *w, const list_value *lists, int nlists, int n)
{
    list_value out = writer_list(w, n);
    for (int k = 0; k < n && !w->rc; k++) {
        out.items[k] = writer_list(w, nlists);
        for (int i = 0; i < nlists && !w->rc; i++)
            out.items[k].items[i] = lists[i].items[k];
    }
    return out;
}

static list_value list_enumerate(list_writer *w, const ast *call, list_value list)
{
    return zip_lists(w, (const list_value[]){list_range(w, call, list.n), list}, 2, list.n);
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
    return zip_lists(w, lists.items, lists.n, n);
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
        return value_of_node(writer_named(w, AST_CALL, node, "sum", &product, 1));
    }
    return value_of_node(writer_make_like(w, node, kids, node->n));
}

static list_value write_call(list_writer *w, const ast *node)
{
    const char *name = node->u.text;
    if (strcmp(name, "zip") == 0 && node->n > 0)
        return write_zip(w, node);
    if (strcmp(name, "range") == 0 && node->n == 1) {
        int64_t n = writer_integer(w, merge_one(w, node->kid[0]), node->kid[0]);
        if (!w->rc && (n < 0 || n > RANGE_MOST))
            REJECT(w, node, KV_E_VALUE, "range takes 0 to %d, not %lld", RANGE_MOST, (long long)n);
        return w->rc ? nothing : list_range(w, node, (int)n);
    }
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
static list_value merge_kids(list_writer *w, const ast *node)
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

static list_value merge_value(list_writer *w, const ast *node)
{
    if (w->rc)
        return nothing;
    switch (node->kind) {
    case AST_NAME: {
        const list_meaning *m = writer_find(w, node->u.text);
        if (!m)
            return value_of_node(node);
        if (!m->is.node || m->is.node->kind != AST_NAME)
            return m->is;
        /* errors show where it is read */
        return value_of_node(writer_named(w, AST_NAME, node, m->is.node->u.text, NULL, 0));
    }
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
        if (node->op == OP_MOD && node->kid[1]->kind == AST_TUPLE) {
            /* "key %s" % (a, b), whose tuple is not a list */
            const ast *text = merge_one(w, node->kid[0]);
            list_value tuple = w->rc ? nothing : merge_kids(w, node->kid[1]);
            return w->rc ? nothing
                         : value_of_node(writer_binary(w, node, OP_MOD, text, tuple.node));
        }
        return merge_kids(w, node);
    default:
        return merge_kids(w, node);
    }
}

/* ---- Statements ------------------------------------------------------------------------------ */

static void write_block(list_writer *w, const ast *block);

/* A list gets a name: its items do, and read what stood there before. */
static void write_set_list(list_writer *w, const ast *node, list_value list)
{
    const char *name = node->u.text;
    if (!merge_are_single(w, node->kid[0], list))
        return;
    list_value kept = writer_list(w, list.n);
    for (int i = 0; i < list.n && !w->rc; i++)
        kept.items[i].node = merge_put_named(w, node, list.items[i].node);
    list_value items = writer_items(w, node, name, list.n);
    for (int i = 0; i < list.n && !w->rc; i++)
        writer_put_set(w, node, items.items[i].node->u.text, kept.items[i].node);
    if (!w->rc)
        writer_mean(w, name, items, false);
}

static void write_set(list_writer *w, const ast *node)
{
    const list_meaning *m = writer_find(w, node->u.text);
    if (strcmp(node->u.text, "weights") == 0 ||
        (w->form.adapters ? strncmp(node->u.text, "lora_", 5) == 0
                          : strcmp(node->u.text, "models") == 0)) {
        REJECT(w, node, KV_E_USAGE, "`%s` is given and keeps its value", node->u.text);
        return;
    }
    if (m && m->loop) {
        REJECT(w, node, KV_E_USAGE, "`%s` is the name of an item here", node->u.text);
        return;
    }
    list_value is = merge_value(w, node->kid[0]);
    if (w->rc)
        return;
    if (!is.node && strcmp(node->u.text, "merged") == 0) {
        writer_refuse_list(w, node->kid[0], is);
    } else if (!is.node) {
        write_set_list(w, node, is);
    } else if (m) {
        REJECT(w, node, KV_E_USAGE, "`%s` is a list, and this is not one", node->u.text);
    } else {
        writer_put_set(w, node, node->u.text, is.node);
        writer_note(w, node->u.text, is.node);
    }
}

/* The lines that were written for a block. */
static ast *written_block(list_writer *w, const ast *block)
{
    return writer_make(w, AST_BLOCK, 0, block, (const ast *const *)w->lines, (uint32_t)w->nlines);
}

static void write_if(list_writer *w, const ast *node);

/* A block as a node of its own. */
static const ast *write_inner(list_writer *w, const ast *block)
{
    list_writer inner = *w;
    inner.lines = NULL;
    inner.nlines = inner.cap = 0;
    inner.inner = true;
    if (block->kind == RULE_IF)
        write_if(&inner, block);
    else
        write_block(&inner, block);
    const ast *made = written_block(&inner, block);
    w->nodes = inner.nodes;
    w->sorted = inner.sorted;
    w->meanings = inner.meanings;
    w->numbers = inner.numbers;
    w->rc = w->rc ? w->rc : inner.rc;
    return made;
}

static void write_if(list_writer *w, const ast *node)
{
    const ast *condition = merge_one(w, node->kid[0]), *part[3] = {condition};
    host x = host_none();
    if (w->rc)
        return;
    if (writer_knows(w, condition, &x)) {
        const ast *taken = host_truth(x) ? node->kid[1] : node->n > 2 ? node->kid[2] : NULL;
        if (taken && taken->kind == RULE_IF)
            write_if(w, taken);
        else if (taken)
            write_block(w, taken);
        return;
    }
    for (uint32_t i = 1; i < node->n && !w->rc; i++)
        part[i] = write_inner(w, node->kid[i]);
    if (!w->rc)
        writer_put(w, writer_make(w, RULE_IF, 0, node, part, node->n));
}

static void write_statement(list_writer *w, const ast *node)
{
    switch (node->kind) {
    case RULE_SET:
        write_set(w, node);
        return;
    case RULE_IF:
        write_if(w, node);
        return;
    case RULE_FOR: {
        list_value over = merge_list(w, node->kid[1]);
        for (int i = 0; i < over.n && !w->rc && !w->ended; i++) {
            list_meaning *before = w->meanings;
            merge_bind(w, node->kid[0], over.items[i]);
            write_block(w, node->kid[2]);
            /* the names of lists stay, those of the loop go */
            for (list_meaning **m = &w->meanings; *m != before;)
                if ((*m)->loop)
                    *m = (*m)->next;
                else
                    m = &(*m)->next;
        }
        return;
    }
    case RULE_FAIL: {
        list_value line = merge_kids(w, node);
        if (!w->rc)
            writer_put(w, (ast *)(uintptr_t)line.node);
        w->ended = true;
        return;
    }
    case RULE_STATE:
        REJECT(w, node, KV_E_USAGE, "a merge runs once, and keeps no states");
        return;
    case RULE_PRINT:
        REJECT(w, node, KV_E_USAGE, "a merge prints nothing");
        return;
    default: /* RULE_ROWS, RULE_SKIP */
        REJECT(w, node, KV_E_USAGE, "merges have no `%s`",
               node->kind == RULE_ROWS ? "rows present" : "skip");
    }
}

static void write_block(list_writer *w, const ast *block)
{
    for (uint32_t i = 0; i < block->n && !w->rc && !w->ended; i++)
        write_statement(w, block->kid[i]);
}

/* ---- The whole rule -------------------------------------------------------------------------- */

/* The names that the rule is given, for its checks. */
static void give_names(list_writer *w, rule_ast *r)
{
    int n = 0, most = 3 + 4 * w->form.models;
    rule_given_name *given = writer_keep(w, sizeof *given * (size_t)most);
    if (!given)
        return;
    given[n++] = (rule_given_name){"merged", RULE_NAME_STORED, true, MERGE_MERGED};
    given[n++] = (rule_given_name){"key", RULE_NAME_GIVEN, false, -1};
    if (w->form.base)
        given[n++] = (rule_given_name){"base", RULE_NAME_GIVEN, true, MERGE_BASE};
    for (int i = 0; i < w->form.models && !w->rc; i++) {
        if (w->form.adapters) {
            given[n++] = (rule_given_name){writer_item(w, "lora_A", i), RULE_NAME_GIVEN, true, -1};
            given[n++] = (rule_given_name){writer_item(w, "lora_B", i), RULE_NAME_GIVEN, true,
                                           MERGE_PRODUCT + i};
            given[n++] =
                (rule_given_name){writer_item(w, "lora_scale", i), RULE_NAME_GIVEN, false,
                                             MERGE_SCALE + i};
        } else {
            given[n++] = (rule_given_name){writer_item(w, "models", i), RULE_NAME_GIVEN, true,
                                           MERGE_MODEL + i};
        }
        given[n++] = (rule_given_name){writer_item(w, "weights", i), RULE_NAME_GIVEN, false,
                                       MERGE_WEIGHT + i};
    }
    r->given = given;
    r->ngiven = n;
}

int merge_lists_write(rule_ast **out, const rule_ast *r, const source *s, merge_form form,
                      const char *const *names, const char *const *texts, int n, arena *a,
                      kv_err *e)
{
    /* the lists that the rule is given */
    static const char *const plain[] = {"models", "weights", NULL};
    static const char *const adapters[] = {"lora_A", "lora_B", "lora_scale", "weights", NULL};
    kv_err unused = {0};
    list_writer w = {.rule = r,
                     .src = s,
                     .form = form,
                     .names = names,
                     .texts = texts,
                     .nparams = n,
                     .a = a,
                     .e = e ? e : &unused};
    for (const char *const *name = form.adapters ? adapters : plain; *name && !w.rc; name++) {
        list_value list = writer_items(&w, r->body, *name, form.models);
        if (!w.rc)
            writer_mean(&w, *name, list, false);
    }
    if (!w.rc)
        write_block(&w, r->body);
    rule_ast *made = writer_keep(&w, sizeof *made);
    if (made) {
        *made = *r;
        made->body = written_block(&w, r->body);
        give_names(&w, made);
        *out = made;
    }
    return w.rc;
}
