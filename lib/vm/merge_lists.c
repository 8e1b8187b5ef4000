/* The lists of a merge, written out.
 *
 * An expression becomes a value: a tree without lists, or a list of values. Names of loops and
 * comprehensions stand for values while their bodies are written; names that the rule gives to
 * lists become names of their items. A node is made anew where something below it changed; others
 * are those of the parsed rule, and shared where a value is used twice.
 */
#include "vm/merge_lists.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/name.h"
#include "base/num.h"
#include "vm/merge_sort.h"
#include "vm/rule_env.h"

/* A rule for as many models as there may be stays far below this. */
#define NODES_MOST 200000

typedef struct value value;
struct value {
    const ast *node; /* NULL: a list */
    value *items;
    int n;
};

/* A name that stands for a value: of a loop or comprehension, or of a list. */
typedef struct meaning meaning;
struct meaning {
    const char *name;
    value is;
    bool loop;
    meaning *next;
};

/* A name whose number is known, whatever arrays hold. */
typedef struct number number;
struct number {
    const char *name;
    host is;
    bool known; /* still */
    number *next;
};

typedef struct writer {
    const rule_ast *rule;
    const source *src;
    merge_form form;
    const char *const *names, *const *texts; /* given parameters */
    int nparams;
    arena *a;
    meaning *meanings;
    number *numbers;
    bool inner;  /* in a block of which it is not known whether it runs */
    ast **lines; /* of the block that is being written */
    int64_t nlines, cap;
    int64_t nodes; /* made so far */
    int sorted;    /* names made for sorting */
    bool ended;    /* by `fail`: nothing behind it is reached */
    int rc;
    kv_err *e;
} writer;

#define REFUSE(w, node, code, ...)                                                                 \
    ((w)->rc = source_err((w)->src, (node)->pos, (node)->end, (w)->e, code, __VA_ARGS__))

static value write_value(writer *w, const ast *node);
static const ast *write_one(writer *w, const ast *node);
static void write_block(writer *w, const ast *block);

static const value nothing = {0};

/* ---- Nodes ----------------------------------------------------------------------------------- */

static void *keep(writer *w, size_t bytes)
{
    void *p = w->rc ? NULL : arena_alloc(w->a, bytes, w->e);
    if (!p && !w->rc)
        w->rc = KV_E_MEMORY;
    return p;
}

/* A node like another one, at its place, with other children. */
static ast *make_like(writer *w, const ast *like, const ast *const *kids, uint32_t n)
{
    if (!w->rc && ++w->nodes > NODES_MOST)
        REFUSE(w, like, KV_E_VALUE, "written out for %d models the rule is too large",
               w->form.models);
    ast *node = keep(w, sizeof *node + n * sizeof *kids);
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
        REFUSE(w, like, KV_E_VALUE,
               "written out, more than %d operators stand one inside the other", AST_MAX_HEIGHT);
    node->height = (uint16_t)height;
    return w->rc ? NULL : node;
}

static ast *make(writer *w, ast_kind kind, int op, const ast *at, const ast *const *kids,
                 uint32_t n)
{
    ast like = {.kind = (uint8_t)kind, .op = (uint8_t)op, .pos = at->pos, .end = at->end};
    return make_like(w, &like, kids, n);
}

static const ast *make_int(writer *w, const ast *at, int64_t x)
{
    ast *node = make(w, AST_INT, 0, at, NULL, 0);
    if (node)
        node->u.integer = x;
    return node;
}

static const ast *make_name(writer *w, const ast *at, const char *name)
{
    ast *node = make(w, AST_NAME, 0, at, NULL, 0);
    if (node)
        node->u.text = name;
    return node;
}

static const ast *make_call(writer *w, const ast *at, const char *function, const ast *const *args,
                            uint32_t n)
{
    ast *node = make(w, AST_CALL, 0, at, args, n);
    if (node)
        node->u.text = function;
    return node;
}

static const ast *make_binary(writer *w, const ast *at, ast_op op, const ast *x, const ast *y)
{
    return make(w, AST_BINARY, op, at, (const ast *const[]){x, y}, 2);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static value of_node(const ast *node)
{
    return (value){.node = node};
}

static value new_list(writer *w, int n)
{
    value list = {.items = keep(w, sizeof *list.items * (size_t)(n + 1)), .n = n};
    return list.items ? list : nothing;
}

static meaning *find_meaning(const writer *w, const char *name)
{
    meaning *m = w->meanings;
    while (m && strcmp(m->name, name) != 0)
        m = m->next;
    return m;
}

static void give_meaning(writer *w, const char *name, value is, bool loop)
{
    meaning *m = keep(w, sizeof *m);
    if (!m)
        return;
    *m = (meaning){name, is, loop, w->meanings};
    w->meanings = m;
}

/* The name of an item, which nobody can write. */
static const char *item_name(writer *w, const char *list, int i)
{
    char text[160];
    int n = snprintf(text, sizeof text, "%.140s[%d]", list, i);
    char *kept = keep(w, (size_t)n + 1);
    return kept ? memcpy(kept, text, (size_t)n + 1) : NULL;
}

static value named_items(writer *w, const ast *at, const char *name, int n)
{
    value list = new_list(w, n);
    for (int i = 0; i < n && !w->rc; i++)
        list.items[i] = of_node(make_name(w, at, item_name(w, name, i)));
    return list;
}

static void refuse_list(writer *w, const ast *node, value list)
{
    if (w->rc)
        return;
    REFUSE(w, node, KV_E_USAGE, "a list of %d stands where one value belongs", list.n);
    kv_err_hint(w->e, "sum(list), list[0], [2 * x for x in list]");
}

/* A value that is not a list. */
static const ast *write_one(writer *w, const ast *node)
{
    value v = write_value(w, node);
    if (!w->rc && !v.node)
        refuse_list(w, node, v);
    return v.node;
}

static value write_list(writer *w, const ast *node)
{
    value v = write_value(w, node);
    if (!w->rc && v.node) {
        REFUSE(w, node, KV_E_USAGE, "a list belongs here, and this is none");
        kv_err_hint(w->e, "lists are `models`, `weights` and what is made of them");
    }
    return v;
}

/* ---- What is known while lists are written out ----------------------------------------------- */

static bool read_number(const char *text, host *out)
{
    size_t n = strlen(text);
    bool over = false;
    if (n > 0 && num_parse_int(text, n, &out->u.integer, &over) == n && !over)
        out->kind = HOST_INT;
    else if (n > 0 && num_parse(text, n, NUM_BINARY64, &out->u.number, &over) == n && !over)
        out->kind = HOST_FLOAT;
    else if (strcmp(text, "true") == 0 || strcmp(text, "True") == 0)
        *out = host_bool(true);
    else if (strcmp(text, "false") == 0 || strcmp(text, "False") == 0)
        *out = host_bool(false);
    else if (strcmp(text, "none") == 0 || strcmp(text, "None") == 0)
        *out = host_none();
    else
        *out = host_text(text);
    return true;
}

/* A value that is not as the parameter wants it is refused when all are bound. */
static bool param_value(const writer *w, const char *name, host *out)
{
    for (int i = w->nparams - 1; i >= 0; i--)
        if (name_is_word(name, w->names[i], strlen(w->names[i])))
            return read_number(w->texts[i], out);
    for (int i = 0; i < w->rule->nparams; i++)
        if (strcmp(w->rule->params[i].name, name) == 0 && w->rule->params[i].value) {
            *out = host_literal(w->rule->params[i].value);
            return true;
        }
    return false;
}

static number *find_number(const writer *w, const char *name)
{
    number *n = w->numbers;
    while (n && strcmp(n->name, name) != 0)
        n = n->next;
    return n;
}

static bool number_value(const writer *w, const char *name, host *out)
{
    const number *n = find_number(w, name);
    if (n && n->known)
        *out = n->is;
    return n && n->known;
}

/* Returns true if the value of a node follows from literals and parameters: *out. Errors of its
 * arithmetic show when the rule runs. */
static bool is_known(const writer *w, const ast *node, host *out)
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
        return is_known(w, node->kid[0], &x[0]) &&
               host_unary((ast_op)node->op, x[0], out, &unused) == KV_OK;
    case AST_BINARY:
        if (!is_known(w, node->kid[0], &x[0]) || !is_known(w, node->kid[1], &x[1]))
            return false;
        if (node->op == OP_AND || node->op == OP_OR) {
            *out = host_truth(x[0]) == (node->op == OP_OR) ? x[0] : x[1];
            return true;
        }
        return x[0].kind != HOST_TEXT &&
               host_binary((ast_op)node->op, x[0], x[1], out, w->a, &unused) == KV_OK;
    case AST_CALL:
        for (uint32_t i = 0; i < node->n; i++)
            if (i == 4 || !is_known(w, node->kid[i], &x[i]))
                return false;
        return host_call(node->u.text, x, (int)node->n, out, &unused) == KV_OK;
    default:
        return false;
    }
}

/* An integer that must be known. */
static int64_t known_integer(writer *w, const ast *written, const ast *at)
{
    host x = host_none();
    bool known = written && is_known(w, written, &x);
    if (!w->rc && !known) {
        REFUSE(w, at, KV_E_USAGE, "this must be known before lists are written out");
        kv_err_hint(w->e, "a number, a parameter, or what follows from len(models)");
    }
    if (!w->rc && x.kind != HOST_INT)
        REFUSE(w, at, KV_E_USAGE, "this is no integer");
    return w->rc ? 0 : x.u.integer;
}

/* ---- Comprehensions -------------------------------------------------------------------------- */

/* Gives the names of a target their values. */
static void bind_target(writer *w, const ast *target, value is)
{
    if (w->rc)
        return;
    if (target->kind == AST_NAME) {
        give_meaning(w, target->u.text, is, true);
        return;
    }
    if (target->kind != AST_TUPLE) {
        REFUSE(w, target, KV_E_USAGE, "a loop of a merge gives names to items");
        return;
    }
    if (is.node || is.n != (int)target->n) {
        REFUSE(w, target, KV_E_USAGE, "an item is %s, and here are %u names",
               is.node ? "one value" : "a list of another length", target->n);
        kv_err_hint(w->e, "for m, w in zip(models, weights)");
        return;
    }
    for (uint32_t i = 0; i < target->n; i++)
        bind_target(w, target->kid[i], is.items[i]);
}

/* Whether the conditions of a comprehension take an item. */
static bool is_taken(writer *w, const ast *condition)
{
    host x = host_none();
    const ast *written = write_one(w, condition->kid[0]);
    if (!w->rc && !is_known(w, written, &x)) {
        REFUSE(w, condition->kid[0], KV_E_USAGE,
               "which items a list has must be known before it is written out");
        kv_err_hint(w->e, "where(condition, a, b) chooses element by element");
    }
    return !w->rc && host_truth(x);
}

/* Writes the items of a comprehension from its part `part` on, behind those that are there. */
static void write_items(writer *w, const ast *comp, uint32_t part, value *out, int64_t *cap)
{
    if (part == comp->n) {
        if (mem_grow(&out->items, cap, out->n + 1, sizeof *out->items, w->e))
            w->rc = KV_E_MEMORY;
        else
            out->items[out->n++] = write_value(w, comp->kid[0]);
        return;
    }
    const ast *clause = comp->kid[part];
    if (clause->kind == AST_ONLY) {
        if (is_taken(w, clause))
            write_items(w, comp, part + 1, out, cap);
        return;
    }
    value over = write_list(w, clause->kid[1]);
    meaning *before = w->meanings;
    for (int i = 0; i < over.n && !w->rc; i++) {
        bind_target(w, clause->kid[0], over.items[i]);
        if (!w->rc)
            write_items(w, comp, part + 1, out, cap);
        w->meanings = before;
    }
}

static value write_comprehension(writer *w, const ast *node)
{
    value growing = {0};
    int64_t cap = 0;
    write_items(w, node, 1, &growing, &cap);
    value list = new_list(w, growing.n);
    if (!w->rc && growing.n > 0)
        memcpy(list.items, growing.items, sizeof *list.items * (size_t)growing.n);
    mem_free(growing.items);
    return list;
}

static value write_display(writer *w, const ast *node)
{
    value list = new_list(w, (int)node->n);
    for (uint32_t i = 0; i < node->n && !w->rc; i++)
        list.items[i] = write_value(w, node->kid[i]);
    return list;
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* A bound of a slice, as in Python: from the end when negative, and cut to the list. */
static int slice_bound(writer *w, const ast *bound, int n, int otherwise)
{
    if (!bound)
        return otherwise;
    int64_t i = known_integer(w, write_one(w, bound), bound);
    i = i < 0 ? i + n : i;
    return i < 0 ? 0 : i > n ? n : (int)i;
}

static value write_index(writer *w, const ast *node)
{
    value list = write_list(w, node->kid[0]);
    if (w->rc)
        return nothing;
    const ast *at = node->kid[1];
    if (node->n != 2) {
        REFUSE(w, node, KV_E_USAGE, "a list has one index");
        return nothing;
    }
    if (at->kind == AST_SLICE) {
        if (at->n > 2 && at->kid[2])
            REFUSE(w, at->kid[2], KV_E_USAGE, "slices of a merge have no step");
        int from = slice_bound(w, at->kid[0], list.n, 0);
        int to = slice_bound(w, at->kid[1], list.n, list.n);
        return (value){.items = list.items + from, .n = to > from ? to - from : 0};
    }
    int64_t i = known_integer(w, write_one(w, at), at);
    if (!w->rc && (i < -list.n || i >= list.n))
        REFUSE(w, node, KV_E_VALUE, "there is no item %lld in a list of %d", (long long)i, list.n);
    return w->rc ? nothing : list.items[i < 0 ? i + list.n : i];
}

/* ---- Functions of lists ---------------------------------------------------------------------- */

typedef value list_function(writer *w, const ast *call, value list);

/* Items, none of which is a list itself. */
static bool are_single(writer *w, const ast *at, value list)
{
    for (int i = 0; i < list.n && !w->rc; i++)
        if (!list.items[i].node)
            refuse_list(w, at, list.items[i]);
    return !w->rc;
}

static const ast *add_up(writer *w, const ast *at, const value *items, int n)
{
    const ast *sum = n > 0 ? items[0].node : make_int(w, at, 0);
    for (int i = 1; i < n && !w->rc; i++)
        sum = make_binary(w, at, OP_ADD, sum, items[i].node);
    return sum;
}

static value list_sum(writer *w, const ast *call, value list)
{
    return of_node(add_up(w, call, list.items, list.n));
}

static const ast *average(writer *w, const ast *at, const value *items, int n)
{
    return make_binary(w, at, OP_DIV, add_up(w, at, items, n), make_int(w, at, n));
}

static value list_mean(writer *w, const ast *call, value list)
{
    return of_node(average(w, call, list.items, list.n));
}

static value list_least(writer *w, const ast *call, value list)
{
    const ast *least = list.items[0].node;
    for (int i = 1; i < list.n && !w->rc; i++)
        least =
            make_call(w, call, call->u.text, (const ast *const[]){least, list.items[i].node}, 2);
    return of_node(least);
}

static void put_line(writer *w, ast *line)
{
    if (!w->rc && mem_grow(&w->lines, &w->cap, w->nlines + 1, sizeof *w->lines, w->e))
        w->rc = KV_E_MEMORY;
    if (!w->rc)
        w->lines[w->nlines++] = line;
}

static void put_set(writer *w, const ast *at, const char *name, const ast *is)
{
    ast *line = make(w, RULE_SET, 0, at, &is, 1);
    if (!line)
        return;
    line->u.text = name;
    put_line(w, line);
}

/* A name gets a value: notes its number, if that is known. */
static void note_number(writer *w, const char *name, const ast *is)
{
    host x = host_none();
    bool known = !w->inner && is_known(w, is, &x);
    number *n = find_number(w, name);
    if (!n && known && (n = keep(w, sizeof *n))) {
        *n = (number){.name = name, .next = w->numbers};
        w->numbers = n;
    }
    if (n) {
        n->is = x;
        n->known = known;
    }
}

/* Gives a value a name of its own, so that what reads it several times is written once. */
static const ast *put_named(writer *w, const ast *at, const ast *is)
{
    const char *name = item_name(w, "sorted", w->sorted++);
    put_set(w, at, name, is);
    return make_name(w, at, name);
}

/* One exchange of a sorting network. */
typedef struct sorting {
    writer *w;
    const ast *at;
    value *items;
} sorting;

static void exchange(void *arg, int i, int j)
{
    sorting *s = arg;
    const ast *pair[2] = {s->items[i].node, s->items[j].node};
    if (s->w->rc)
        return;
    const ast *least = make_call(s->w, s->at, "min", pair, 2);
    const ast *most = make_call(s->w, s->at, "max", pair, 2);
    s->items[i].node = put_named(s->w, s->at, least);
    s->items[j].node = put_named(s->w, s->at, most);
}

/* The items from the smallest to the largest, element by element. */
static value sort_items(writer *w, const ast *at, value list)
{
    value sorted = new_list(w, list.n);
    if (w->rc)
        return nothing;
    for (int i = 0; i < list.n; i++)
        sorted.items[i].node = put_named(w, at, list.items[i].node);
    merge_sort(list.n, exchange, &(sorting){w, at, sorted.items});
    return sorted;
}

static value list_median(writer *w, const ast *call, value list)
{
    value sorted = sort_items(w, call, list);
    if (w->rc)
        return nothing;
    int from = (list.n - 1) / 2, n = list.n % 2 ? 1 : 2;
    return of_node(n == 1 ? sorted.items[from].node : average(w, call, sorted.items + from, n));
}

static value list_trimmed(writer *w, const ast *call, value list)
{
    int64_t k = known_integer(w, write_one(w, call->kid[1]), call->kid[1]);
    if (!w->rc && (k < 0 || k > list.n || 2 * k >= list.n))
        REFUSE(w, call, KV_E_VALUE, "%lld of each side of %d items leave none", (long long)k,
               list.n);
    value sorted = w->rc ? nothing : sort_items(w, call, list);
    return w->rc ? nothing : of_node(average(w, call, sorted.items + k, list.n - 2 * (int)k));
}

static value list_len(writer *w, const ast *call, value list)
{
    return of_node(make_int(w, call, list.n));
}

static value list_enumerate(writer *w, const ast *call, value list)
{
    value pairs = new_list(w, list.n);
    for (int i = 0; i < list.n && !w->rc; i++) {
        value pair = new_list(w, 2);
        if (w->rc)
            break;
        pair.items[0] = of_node(make_int(w, call, i));
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

static value write_zip(writer *w, const ast *call)
{
    value lists = write_display(w, call);
    int n = lists.n > 0 && !w->rc ? lists.items[0].n : 0;
    for (int i = 0; i < lists.n && !w->rc; i++) {
        if (lists.items[i].node)
            REFUSE(w, call->kid[i], KV_E_USAGE, "zip takes lists, and this is none");
        else if (lists.items[i].n != n)
            REFUSE(w, call, KV_E_USAGE, "zip takes lists of one length, not of %d and %d", n,
                   lists.items[i].n);
    }
    value out = new_list(w, n);
    for (int k = 0; k < n && !w->rc; k++) {
        value item = new_list(w, lists.n);
        for (int i = 0; i < lists.n && !w->rc; i++)
            item.items[i] = lists.items[i].items[k];
        out.items[k] = item;
    }
    return out;
}

static value write_range(writer *w, const ast *call)
{
    int64_t n = known_integer(w, write_one(w, call->kid[0]), call->kid[0]);
    if (!w->rc && (n < 0 || n > NODES_MOST))
        REFUSE(w, call, KV_E_VALUE, "range takes 0 and more, not %lld", (long long)n);
    value out = w->rc ? nothing : new_list(w, (int)n);
    for (int i = 0; i < out.n && !w->rc; i++)
        out.items[i] = of_node(make_int(w, call, i));
    return out;
}

/* A function of elements or numbers; its arguments are single values. */
static value write_call_of_ones(writer *w, const ast *node, const value *first)
{
    const ast *kids[64];
    if (node->n > 64) {
        REFUSE(w, node, KV_E_USAGE, "%s takes fewer arguments", node->u.text);
        return nothing;
    }
    for (uint32_t i = 0; i < node->n && !w->rc; i++) {
        kids[i] = i == 0 && first ? first->node : NULL;
        if (!kids[i] && i == 0 && first)
            refuse_list(w, node->kid[0], *first);
        if (!w->rc && !kids[i])
            kids[i] = write_one(w, node->kid[i]);
    }
    if (w->rc)
        return nothing;
    /* the dot product of two arrays is a sum over all elements */
    if (strcmp(node->u.text, "dot") == 0 && node->n == 2) {
        const ast *product = make_binary(w, node, OP_MUL, kids[0], kids[1]);
        return of_node(make_call(w, node, "sum", &product, 1));
    }
    return of_node(make_like(w, node, kids, node->n));
}

static value write_call(writer *w, const ast *node)
{
    const char *name = node->u.text;
    if (strcmp(name, "zip") == 0 && node->n > 0)
        return write_zip(w, node);
    if (strcmp(name, "range") == 0 && node->n == 1)
        return write_range(w, node);
    if (node->n == 0)
        return of_node(node);
    value first = write_value(w, node->kid[0]);
    for (size_t i = 0; i < sizeof functions / sizeof *functions && !w->rc; i++) {
        if (strcmp(functions[i].name, name) != 0)
            continue;
        bool only = strcmp(name, "median") == 0 || strcmp(name, "trimmed_mean") == 0 ||
                    strcmp(name, "enumerate") == 0;
        if (first.node && !only) /* of an array, or numbers */
            break;
        if (first.node)
            REFUSE(w, node->kid[0], KV_E_USAGE, "%s takes a list, and this is none", name);
        else if (node->n != functions[i].n)
            REFUSE(w, node, KV_E_USAGE, "%s of a list takes %u argument%s, not %u", name,
                   functions[i].n, functions[i].n == 1 ? "" : "s", node->n);
        else if (first.n < functions[i].least)
            REFUSE(w, node, KV_E_VALUE, "%s of an empty list", name);
        if (w->rc || (functions[i].single && !are_single(w, node->kid[0], first)))
            return nothing;
        return functions[i].make(w, node, first);
    }
    return w->rc ? nothing : write_call_of_ones(w, node, &first);
}

/* ---- Expressions ----------------------------------------------------------------------------- */

/* A node all of whose children are single values. */
static value write_kids(writer *w, const ast *node)
{
    if (node->n == 0)
        return of_node(node);
    const ast **kids = keep(w, sizeof *kids * node->n);
    bool same = true;
    for (uint32_t i = 0; i < node->n && !w->rc; i++) {
        kids[i] = node->kid[i] ? write_one(w, node->kid[i]) : NULL;
        same &= kids[i] == node->kid[i];
    }
    return w->rc ? nothing : of_node(same ? node : make_like(w, node, kids, node->n));
}

/* "key %s" % (a, b): a tuple that is no list. */
static value write_formatted(writer *w, const ast *node)
{
    const ast *text = write_one(w, node->kid[0]);
    value tuple = w->rc ? nothing : write_kids(w, node->kid[1]);
    return w->rc ? nothing : of_node(make_binary(w, node, OP_MOD, text, tuple.node));
}

static value write_choice(writer *w, const ast *node)
{
    host x = host_none();
    const ast *condition = write_one(w, node->kid[0]);
    if (!w->rc && !is_known(w, condition, &x)) {
        REFUSE(w, node, KV_E_USAGE, "this choice is known only when the rule runs");
        kv_err_hint(w->e, "where(condition, a, b)");
    }
    return w->rc ? nothing : write_value(w, node->kid[host_truth(x) ? 1 : 2]);
}

static value write_name(writer *w, const ast *node)
{
    const meaning *m = find_meaning(w, node->u.text);
    if (!m)
        return of_node(node);
    if (!m->is.node || m->is.node->kind != AST_NAME)
        return m->is;
    return of_node(make_name(w, node, m->is.node->u.text)); /* errors show where it is read */
}

static value write_value(writer *w, const ast *node)
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
        return write_kids(w, node);
    default:
        return write_kids(w, node);
    }
}

/* ---- Statements ------------------------------------------------------------------------------ */

/* Lists that the rule is given, which keep their items. */
static bool is_given_list(const writer *w, const char *name)
{
    return strcmp(name, "weights") == 0 ||
           (w->form.adapters ? strncmp(name, "lora_", 5) == 0 : strcmp(name, "models") == 0);
}

/* A list gets a name: its items do, and read what stood there before. */
static void write_set_list(writer *w, const ast *node, value list)
{
    const char *name = node->u.text;
    if (!are_single(w, node->kid[0], list))
        return;
    value kept = new_list(w, list.n);
    for (int i = 0; i < list.n && !w->rc; i++)
        kept.items[i].node = put_named(w, node, list.items[i].node);
    value items = named_items(w, node, name, list.n);
    for (int i = 0; i < list.n && !w->rc; i++)
        put_set(w, node, items.items[i].node->u.text, kept.items[i].node);
    if (!w->rc)
        give_meaning(w, name, items, false);
}

static void write_set(writer *w, const ast *node)
{
    const meaning *m = find_meaning(w, node->u.text);
    if (is_given_list(w, node->u.text)) {
        REFUSE(w, node, KV_E_USAGE, "`%s` is given and keeps its value", node->u.text);
        return;
    }
    if (m && m->loop) {
        REFUSE(w, node, KV_E_USAGE, "`%s` is the name of an item here", node->u.text);
        return;
    }
    value is = write_value(w, node->kid[0]);
    if (w->rc)
        return;
    if (!is.node && strcmp(node->u.text, "merged") == 0) {
        refuse_list(w, node->kid[0], is);
    } else if (!is.node) {
        write_set_list(w, node, is);
    } else if (m) {
        REFUSE(w, node, KV_E_USAGE, "`%s` is a list, and this is none", node->u.text);
    } else {
        put_set(w, node, node->u.text, is.node);
        note_number(w, node->u.text, is.node);
    }
}

/* A block as a node of its own. */
static const ast *write_inner(writer *w, const ast *block)
{
    writer inner = *w;
    inner.lines = NULL;
    inner.nlines = inner.cap = 0;
    inner.inner = true;
    if (block->kind == RULE_IF) {
        const ast *one[] = {block};
        const ast *as_block = make(w, AST_BLOCK, 0, block, one, 1);
        if (as_block)
            write_block(&inner, as_block);
    } else {
        write_block(&inner, block);
    }
    const ast *made = inner.rc ? NULL
                               : make(&inner, AST_BLOCK, 0, block, (const ast *const *)inner.lines,
                                      (uint32_t)inner.nlines);
    mem_free(inner.lines);
    w->nodes = inner.nodes;
    w->sorted = inner.sorted;
    w->meanings = inner.meanings;
    w->rc = w->rc ? w->rc : inner.rc;
    return made;
}

static void write_if(writer *w, const ast *node)
{
    const ast *condition = write_one(w, node->kid[0]), *part[3] = {condition};
    host x = host_none();
    if (w->rc)
        return;
    if (is_known(w, condition, &x)) {
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
        put_line(w, make(w, RULE_IF, 0, node, part, node->n));
}

static void write_for(writer *w, const ast *node)
{
    value over = write_list(w, node->kid[1]);
    for (int i = 0; i < over.n && !w->rc && !w->ended; i++) {
        meaning *before = w->meanings;
        bind_target(w, node->kid[0], over.items[i]);
        write_block(w, node->kid[2]);
        /* the names of lists stay, those of the loop go */
        for (meaning **m = &w->meanings; *m != before;)
            if ((*m)->loop)
                *m = (*m)->next;
            else
                m = &(*m)->next;
    }
}

static void write_statement(writer *w, const ast *node)
{
    switch (node->kind) {
    case RULE_SET:
        write_set(w, node);
        return;
    case RULE_IF:
        write_if(w, node);
        return;
    case RULE_FOR:
        write_for(w, node);
        return;
    case RULE_FAIL: {
        value line = write_kids(w, node);
        if (!w->rc)
            put_line(w, (ast *)(uintptr_t)line.node);
        w->ended = true;
        return;
    }
    case RULE_STATE:
        REFUSE(w, node, KV_E_USAGE, "a merge runs once, and keeps no states");
        return;
    case RULE_PRINT:
        REFUSE(w, node, KV_E_USAGE, "a merge prints nothing");
        return;
    default: /* RULE_ROWS, RULE_SKIP */
        REFUSE(w, node, KV_E_USAGE, "merges have no `%s`",
               node->kind == RULE_ROWS ? "rows present" : "skip");
    }
}

static void write_block(writer *w, const ast *block)
{
    for (uint32_t i = 0; i < block->n && !w->rc && !w->ended; i++)
        write_statement(w, block->kid[i]);
}

/* ---- The whole rule -------------------------------------------------------------------------- */

/* The lists that the rule is given. */
static void give_lists(writer *w)
{
    static const char *const plain[] = {"models", "weights"};
    static const char *const adapters[] = {"lora_A", "lora_B", "lora_scale", "weights"};
    const char *const *lists = w->form.adapters ? adapters : plain;
    int n = w->form.adapters ? 4 : 2;
    for (int i = 0; i < n && !w->rc; i++) {
        value list = named_items(w, w->rule->body, lists[i], w->form.models);
        if (!w->rc)
            give_meaning(w, lists[i], list, false);
    }
}

/* The names that the rule is given, for its checks. */
static void give_names(writer *w, rule_ast *r)
{
    int n = 0, most = 3 + 4 * w->form.models;
    rule_given_name *given = keep(w, sizeof *given * (size_t)most);
    if (!given)
        return;
    given[n++] = (rule_given_name){"merged", RULE_NAME_STORED, true, MERGE_MERGED};
    given[n++] = (rule_given_name){"key", RULE_NAME_GIVEN, false, -1};
    if (w->form.base)
        given[n++] = (rule_given_name){"base", RULE_NAME_GIVEN, true, MERGE_BASE};
    for (int i = 0; i < w->form.models && !w->rc; i++) {
        if (w->form.adapters) {
            given[n++] = (rule_given_name){item_name(w, "lora_A", i), RULE_NAME_GIVEN, true, -1};
            given[n++] = (rule_given_name){item_name(w, "lora_B", i), RULE_NAME_GIVEN, true,
                                           MERGE_PRODUCT + i};
            given[n++] =
                (rule_given_name){item_name(w, "lora_scale", i), RULE_NAME_GIVEN, false, -1};
        } else {
            given[n++] = (rule_given_name){item_name(w, "models", i), RULE_NAME_GIVEN, true,
                                           MERGE_MODEL + i};
        }
        given[n++] = (rule_given_name){item_name(w, "weights", i), RULE_NAME_GIVEN, false, -1};
    }
    r->given = given;
    r->ngiven = n;
}

int merge_lists_write(rule_ast **out, const rule_ast *r, const source *s, merge_form form,
                      const char *const *names, const char *const *texts, int n, arena *a,
                      kv_err *e)
{
    kv_err unused = {0};
    writer w = {.rule = r,
                .src = s,
                .form = form,
                .names = names,
                .texts = texts,
                .nparams = n,
                .a = a,
                .e = e ? e : &unused};
    give_lists(&w);
    if (!w.rc)
        write_block(&w, r->body);
    rule_ast *made = keep(&w, sizeof *made);
    if (made) {
        *made = *r;
        made->body =
            make(&w, AST_BLOCK, 0, r->body, (const ast *const *)w.lines, (uint32_t)w.nlines);
        give_names(&w, made);
        *out = made;
    }
    mem_free(w.lines);
    return w.rc;
}
