/* A name counts as defined wherever the merge sets it: the order is checked with the models. */
#include "syntax/merge_names.h"

#include <string.h>

#include "base/suggest.h"
#include "vm/rule.h"

static const char *const given[] = {"models", "weights", "base",   "key",
                                    "merged", "lora_A",  "lora_B", "lora_scale"};

static bool is_given(const char *name)
{
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (strcmp(name, given[i]) == 0)
            return true;
    return false;
}

/* Returns true if a target of a loop is the name, or holds it. */
static bool targets(const ast *target, const char *name)
{
    bool found = target->kind == AST_NAME && strcmp(target->u.text, name) == 0;
    for (uint32_t i = 0; target->kind == AST_TUPLE && i < target->n && !found; i++)
        found = targets(target->kid[i], name);
    return found;
}

/* Returns true if a node of the tree gives the name a value. */
static bool sets(const ast *node, const char *name)
{
    bool found = (node->kind == RULE_SET && strcmp(node->u.text, name) == 0) ||
                 ((node->kind == RULE_FOR || node->kind == AST_FOR) && targets(node->kid[0], name));
    for (uint32_t i = 0; i < node->n && !found; i++)
        found = node->kid[i] && sets(node->kid[i], name);
    return found;
}

static bool is_free(const rule_ast *r, const char *name)
{
    for (int i = 0; i < r->nparams; i++)
        if (strcmp(r->params[i].name, name) == 0)
            return false;
    return !is_given(name) && !sets(r->body, name);
}

static int walk(const rule_ast *r, const ast *node,
                int (*each)(void *arg, const ast *at, kv_err *e), void *arg, kv_err *e)
{
    int code = KV_OK;
    if (node->kind == AST_NAME && is_free(r, node->u.text) && rule_reader(r, node->u.text) == node)
        code = each(arg, node, e);
    for (uint32_t i = 0; i < node->n && code == KV_OK; i++)
        if (node->kid[i])
            code = walk(r, node->kid[i], each, arg, e);
    return code;
}

int merge_names_each(const rule_ast *r, int (*each)(void *arg, const ast *at, kv_err *e), void *arg,
                     kv_err *e)
{
    return walk(r, r->body, each, arg, e);
}

static int is_asked_for(void *arg, const ast *at, kv_err *e)
{
    const char *name = *(const char **)arg;
    (void)e;
    if (name_is_word(at->u.text, name, strlen(name)))
        *(const char **)arg = NULL;
    return *(const char **)arg ? KV_OK : KV_E_NAME; /* it ends the walk */
}

bool merge_names_has(const rule_ast *r, const char *name)
{
    return merge_names_each(r, is_asked_for, &name, NULL) != KV_OK;
}

static void suggest_targets(const ast *target, suggest *near)
{
    if (target->kind == AST_NAME)
        suggest_add(near, target->u.text);
    for (uint32_t i = 0; target->kind == AST_TUPLE && i < target->n; i++)
        suggest_targets(target->kid[i], near);
}

static void suggest_set(const ast *node, suggest *near)
{
    if (node->kind == RULE_SET)
        suggest_add(near, node->u.text);
    if (node->kind == RULE_FOR || node->kind == AST_FOR)
        suggest_targets(node->kid[0], near);
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i])
            suggest_set(node->kid[i], near);
}

void merge_names_suggest(const rule_ast *r, suggest *near)
{
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        suggest_add(near, given[i]);
    for (int i = 0; i < r->nparams; i++)
        suggest_add(near, r->params[i].name);
    suggest_set(r->body, near);
}
