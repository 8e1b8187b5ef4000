/* One walk over the tree finds the effect of a text. It errs on one side only: a command with an
 * unknown effect counts as a change of the store. */
#include "syntax/effect.h"

#include <string.h>

#include "base/suggest.h"
#include "syntax/command.h"
#include "syntax/parse_statement.h"

/* ---- --safe ---- */

int safe_shell(const session *s, kv_err *e)
{
    return s->safe ? kv_err_set(e, KV_E_UNSUPPORTED, "--safe forbids shell commands") : KV_OK;
}

int safe_write(const session *s, const char *path, kv_err *e)
{
    if (strcmp(path, "-") == 0)
        return KV_OK;
    if (session_is_state(s, path)) {
        kv_err_set(e, KV_E_USAGE, "\"%s\" is the file of the store", path);
        return kv_err_hint(e, "commit --disk writes it");
    }
    if (!s->safe)
        return KV_OK;
    if (!*path)
        return kv_err_set(e, KV_E_UNSUPPORTED, "--safe forbids writing files");
    return kv_err_set(e, KV_E_UNSUPPORTED, "--safe forbids writing \"%s\"", path);
}

int safe_plugin(const session *s, kv_err *e)
{
    return s->safe ? kv_err_set(e, KV_E_UNSUPPORTED, "--safe forbids plugins") : KV_OK;
}

/* The file that a command writes, when its name is literal: not the word of `profile off`. */
static const ast *literal_file(const ast *node)
{
    const command *c = node->u.other;
    if (!(c->flags & COMMAND_WRITES))
        return NULL;
    for (int i = 0; c->args[i].kind != ARG_END; i++)
        if (c->args[i].kind == ARG_FILE && node->kid[i] && node->kid[i]->kind == AST_TEXT &&
            !(strstr(c->args[i].name, "|off") && strcmp(node->kid[i]->u.text, "off") == 0))
            return node->kid[i];
    return NULL;
}

int safe_check(const session *s, const source *src, const ast *node, kv_err *e)
{
    int rc = KV_OK;
    if (!s->safe)
        return KV_OK;
    if (node->kind == STMT_SHELL || (node->kind == STMT_REDIRECT && node->op == REDIRECT_PIPE))
        rc = safe_shell(s, e);
    else if (node->kind == STMT_REDIRECT && node->op != REDIRECT_VARIABLE)
        rc = safe_write(s, node->kid[0]->kind == AST_TEXT ? node->kid[0]->u.text : "", e);
    else if (node->kind == STMT_COMMAND && literal_file(node))
        rc = safe_write(s, literal_file(node)->u.text, e);
    else if (node->kind == STMT_COMMAND && command_option_of(node, "plugin"))
        rc = safe_plugin(s, e);
    if (rc)
        source_at(src, node->pos, node->end, e);
    return rc;
}

/* ---- Names that are set ---- */

static int each_target(const ast *target, effect_name *each, void *arg, kv_err *e)
{
    if (target->kind == AST_NAME)
        return each(arg, target->u.text, e);
    for (uint32_t i = 0; target->kind == AST_TUPLE && i < target->n; i++)
        TRY(each_target(target->kid[i], each, arg, e));
    return KV_OK;
}

int effect_sets(const ast *node, effect_name *each, void *arg, kv_err *e)
{
    if (node->kind == STMT_ASSIGN || node->kind == STMT_FOR || node->kind == RULE_FOR ||
        node->kind == AST_FOR)
        return each_target(node->kid[0], each, arg, e);
    if (node->kind == RULE_SET || (node->kind == STMT_REDIRECT && node->op == REDIRECT_VARIABLE))
        return each(arg, node->u.text, e);
    if (node->kind == AST_COPIES)
        return each(arg, "i", e);
    for (uint32_t i = 1; node->kind == STMT_DEF && i < node->n; i++)
        TRY(each(arg, node->kid[i]->u.text, e));
    return KV_OK;
}

int effect_put_name(void *names, const char *name, kv_err *e)
{
    return map_put(names, (kv_key){0, name}, 0, e);
}

int effect_sets_below(const ast *node, effect_name *each, void *arg, kv_err *e)
{
    TRY(node ? effect_sets(node, each, arg, e) : KV_OK);
    for (uint32_t i = 0; node && i < node->n; i++)
        TRY(effect_sets_below(node->kid[i], each, arg, e));
    return KV_OK;
}

/* ---- The effect on stores ---- */

bool effect_changes_store(const ast *node)
{
    bool found = node && command_is(node, COMMAND_CHANGES);
    if (node && node->kind == STMT_SOURCE)
        found = effect_changes_store(((const unit *)node->u.other)->body);
    for (uint32_t i = 0; node && i < node->n && !found; i++)
        found = effect_changes_store(node->kid[i]);
    return found;
}

/* ---- The keys that stay ---- */

/* `create` of the store kv. */
static bool creates(const ast *node)
{
    return node->kind == STMT_COMMAND && !command_option_of(node, "name") &&
           strcmp(((const command *)node->u.other)->name, "create") == 0;
}

/* The keys of a command: all its arguments that are keys, since rename has two. */
static int add_keys(effect_keys *k, const ast *node, kv_err *e)
{
    const command *c = node->u.other;
    for (uint32_t i = 0; i < node->n && c->args[i].kind == ARG_KEYS; i++) {
        const ast *keys = node->kid[i];
        k->any = k->any || !keys || keys->kind != AST_KEYS;
        for (uint32_t j = 0; !k->any && j < keys->n; j++) {
            const ast *key = keys->kid[j];
            k->any = key->kind != AST_KEY || key->op >= 2; /* it is computed */
            kv_key name = key->op == 0 ? (kv_key){key->u.integer, NULL} : (kv_key){0, key->u.text};
            TRY(k->any ? KV_OK : map_put(&k->keys, name, 0, e));
        }
    }
    return KV_OK;
}

static int add_node(effect_keys *k, const ast *node, kv_err *e)
{
    static const char *const open_ends[] = {"quit", "exit", "begin", "rollback", "undo"};
    if (!node || k->any)
        return KV_OK;
    /* a command that may leave, or run what is not known yet: nothing can be said of what follows
     */
    const command *c = node->kind == STMT_COMMAND ? node->u.other : NULL;
    k->any = c ? NAME_AMONG(c->name, open_ends) >= 0 || (c->flags & COMMAND_SOURCES)
               : node->kind == STMT_BROKEN;
    if (command_is(node, COMMAND_CHANGES))
        TRY(add_keys(k, node, e));
    if (node->kind == STMT_SOURCE)
        TRY(add_node(k, ((const unit *)node->u.other)->body, e));
    for (uint32_t i = 0; i < node->n; i++)
        TRY(add_node(k, node->kid[i], e));
    return KV_OK;
}

int effect_add(effect_keys *k, const unit *u, kv_err *e)
{
    for (uint32_t i = 0; i < u->body->n; i++) {
        const ast *node = u->body->kid[i];
        /* behind `create --name` or `use` another store than kv may be the one that is replaced */
        bool chooses = command_is(node, COMMAND_CHOOSES) && !creates(node);
        k->any = k->any || chooses;
        k->replaces = k->replaces || (creates(node) && !k->any);
    }
    return add_node(k, u->body, e);
}
