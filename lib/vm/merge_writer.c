/* What is known of a merge while its lists are written out, and the trees that are made. */
#include "vm/merge_writer.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/suggest.h"
#include "vm/rule.h"

/* A rule for as many models as there may be stays far below this. */
#define NODES_MOST 200000

/* ---- Nodes ----------------------------------------------------------------------------------- */

void *writer_keep(list_writer *w, size_t bytes)
{
    void *p = w->rc ? NULL : arena_alloc(w->a, bytes, w->e);
    if (!p && !w->rc)
        w->rc = KV_E_MEMORY;
    return p;
}

/* A node like another one, at its place, with other children. */
ast *writer_make_like(list_writer *w, const ast *like, const ast *const *kids, uint32_t n)
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

ast *writer_make(list_writer *w, ast_kind kind, int op, const ast *at, const ast *const *kids,
                 uint32_t n)
{
    ast like = {.kind = (uint8_t)kind, .op = (uint8_t)op, .pos = at->pos, .end = at->end};
    return writer_make_like(w, &like, kids, n);
}

const ast *writer_int(list_writer *w, const ast *at, int64_t x)
{
    ast *node = writer_make(w, AST_INT, 0, at, NULL, 0);
    if (node)
        node->u.integer = x;
    return node;
}

const ast *writer_name(list_writer *w, const ast *at, const char *name)
{
    ast *node = writer_make(w, AST_NAME, 0, at, NULL, 0);
    if (node)
        node->u.text = name;
    return node;
}

const ast *writer_call(list_writer *w, const ast *at, const char *function, const ast *const *args,
                       uint32_t n)
{
    ast *node = writer_make(w, AST_CALL, 0, at, args, n);
    if (node)
        node->u.text = function;
    return node;
}

const ast *writer_binary(list_writer *w, const ast *at, ast_op op, const ast *x, const ast *y)
{
    return writer_make(w, AST_BINARY, op, at, (const ast *const[]){x, y}, 2);
}

/* ---- Values ---------------------------------------------------------------------------------- */

list_value writer_list(list_writer *w, int n)
{
    list_value list = {.items = writer_keep(w, sizeof *list.items * (size_t)(n + 1)), .n = n};
    return list.items ? list : (list_value){0};
}

list_meaning *writer_find(const list_writer *w, const char *name)
{
    list_meaning *m = w->meanings;
    while (m && strcmp(m->name, name) != 0)
        m = m->next;
    return m;
}

void writer_mean(list_writer *w, const char *name, list_value is, bool loop)
{
    list_meaning *m = writer_keep(w, sizeof *m);
    if (!m)
        return;
    *m = (list_meaning){name, is, loop, w->meanings};
    w->meanings = m;
}

/* The name of an item, which nobody can write. */
const char *writer_item(list_writer *w, const char *list, int i)
{
    char text[160];
    int n = snprintf(text, sizeof text, "%.140s[%d]", list, i);
    char *kept = writer_keep(w, (size_t)n + 1);
    return kept ? memcpy(kept, text, (size_t)n + 1) : NULL;
}

list_value writer_items(list_writer *w, const ast *at, const char *name, int n)
{
    list_value list = writer_list(w, n);
    for (int i = 0; i < n && !w->rc; i++)
        list.items[i] = value_of_node(writer_name(w, at, writer_item(w, name, i)));
    return list;
}

void writer_refuse_list(list_writer *w, const ast *node, list_value list)
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
bool writer_knows(const list_writer *w, const ast *node, host *out)
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
int64_t writer_integer(list_writer *w, const ast *written, const ast *at)
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

/* A name gets a value: notes its number, if that is known. */
void writer_note(list_writer *w, const char *name, const ast *is)
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

void writer_put(list_writer *w, ast *line)
{
    if (!w->rc && mem_grow(&w->lines, &w->cap, w->nlines + 1, sizeof *w->lines, w->e))
        w->rc = KV_E_MEMORY;
    if (!w->rc)
        w->lines[w->nlines++] = line;
}

void writer_put_set(list_writer *w, const ast *at, const char *name, const ast *is)
{
    ast *line = writer_make(w, RULE_SET, 0, at, &is, 1);
    if (!line)
        return;
    line->u.text = name;
    writer_put(w, line);
}
