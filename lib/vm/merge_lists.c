/* The lines of a merge, without lists: what loops go over is gone through, and names of lists
 * become names of their items. */
#include <string.h>

#include "vm/merge_writer.h"
#include "vm/rule_env.h"

static void write_block(list_writer *w, const ast *block);

/* ---- Statements ------------------------------------------------------------------------------ */

/* Lists that the rule is given, which keep their items. */
static bool is_given_list(const list_writer *w, const char *name)
{
    return strcmp(name, "weights") == 0 ||
           (w->form.adapters ? strncmp(name, "lora_", 5) == 0 : strcmp(name, "models") == 0);
}

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
    if (is_given_list(w, node->u.text)) {
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

/* A block as a node of its own. */
static const ast *write_inner(list_writer *w, const ast *block)
{
    list_writer inner = *w;
    inner.lines = NULL;
    inner.nlines = inner.cap = 0;
    inner.inner = true;
    if (block->kind == RULE_IF) {
        const ast *one[] = {block};
        const ast *as_block = writer_make(w, AST_BLOCK, 0, block, one, 1);
        if (as_block)
            write_block(&inner, as_block);
    } else {
        write_block(&inner, block);
    }
    const ast *made = inner.rc
                          ? NULL
                          : writer_make(&inner, AST_BLOCK, 0, block,
                                        (const ast *const *)inner.lines, (uint32_t)inner.nlines);
    mem_free(inner.lines);
    w->nodes = inner.nodes;
    w->sorted = inner.sorted;
    w->meanings = inner.meanings;
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

static void write_for(list_writer *w, const ast *node)
{
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
    case RULE_FOR:
        write_for(w, node);
        return;
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

/* The lists that the rule is given. */
static void give_lists(list_writer *w)
{
    static const char *const plain[] = {"models", "weights"};
    static const char *const adapters[] = {"lora_A", "lora_B", "lora_scale", "weights"};
    const char *const *lists = w->form.adapters ? adapters : plain;
    int n = w->form.adapters ? 4 : 2;
    for (int i = 0; i < n && !w->rc; i++) {
        list_value list = writer_items(w, w->rule->body, lists[i], w->form.models);
        if (!w->rc)
            writer_mean(w, lists[i], list, false);
    }
}

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
    kv_err unused = {0};
    list_writer w = {.rule = r,
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
    rule_ast *made = writer_keep(&w, sizeof *made);
    if (made) {
        *made = *r;
        made->body =
            writer_make(&w, AST_BLOCK, 0, r->body, (const ast *const *)w.lines, (uint32_t)w.nlines);
        give_names(&w, made);
        *out = made;
    }
    mem_free(w.lines);
    return w.rc;
}
