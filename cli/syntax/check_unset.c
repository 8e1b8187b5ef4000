/* Two walks over the trees: the first collects all that gives names a value, the second asks for
 * each name that is read whether it is among them. The order of statements does not count, as
 * functions read what is set later. */
#include "syntax/check_unset.h"

#include <string.h>

#include "base/map.h"
#include "base/suggest.h"
#include "session/unit.h"
#include "syntax/check.h"
#include "syntax/command.h"
#include "syntax/function.h"
#include "syntax/hint_function.h"
#include "syntax/merge_names.h"
#include "syntax/optimizer_param.h"
#include "syntax/own_names.h"
#include "syntax/statement.h"
#include "syntax/updater_def.h"
#include "vm/rule.h"

typedef struct names {
    session *s;
    map set;      /* to 0 */
    map functions; /* to 0 */
    map options;  /* of all commands, which may set parameters: to 0 */
    map told;     /* of the text that is walked: to 0 */
    bool unknown; /* a file whose name is computed may set any */
    const rule_ast *merge; /* whose names are read */
    unit *unit;
    const source *src;
    kv_err *e;
} names;

/* ---- Names that are set ---- */

static int add(map *m, const char *name, kv_err *e)
{
    return map_put(m, (kv_key){0, name}, 0, e);
}

/* The names in a target. */
static int add_target(names *n, const ast *target)
{
    int code = target->kind == AST_NAME ? add(&n->set, target->u.text, n->e) : KV_OK;
    for (uint32_t i = 0; target->kind == AST_TUPLE && i < target->n && code == KV_OK; i++)
        code = add_target(n, target->kid[i]);
    return code;
}

static int collect_own(names *n, const ast *node)
{
    const ast *first = node->n > 0 ? node->kid[0] : NULL;
    int code = KV_OK;
    if ((node->kind == STMT_ASSIGN && node->op == STMT_PLAIN) || node->kind == STMT_FOR ||
        node->kind == AST_FOR)
        return add_target(n, first);
    if (node->kind == AST_COPIES)
        return add(&n->set, "i", n->e);
    if (node->kind == STMT_REDIRECT && node->op == REDIRECT_VARIABLE)
        return add(&n->set, node->u.text, n->e);
    if (node->kind == STMT_OPTION)
        return add(&n->options, node->u.text, n->e);
    if (node->kind == STMT_DEF)
        code = add(&n->functions, node->u.text, n->e);
    for (uint32_t i = 1; node->kind == STMT_DEF && i < node->n && code == KV_OK; i++)
        code = add(&n->set, node->kid[i]->u.text, n->e);
    const ast *store = command_is(node, COMMAND_CHOOSES) ? command_option_of(node, "name") : NULL;
    if (store)
        return add(&n->set, store->u.text, n->e);
    n->unknown |= command_is(node, COMMAND_SOURCES);
    return code;
}

static int collect(names *n, const ast *node)
{
    int code = node ? collect_own(n, node) : KV_OK;
    for (uint32_t i = 0; node && i < node->n && code == KV_OK; i++)
        code = collect(n, node->kid[i]);
    return code;
}

/* ---- Names that are read ---- */

static bool is_set(const names *n, const char *name)
{
    return map_get(&n->set, (kv_key){0, name}) >= 0 || session_find(n->s, name) ||
           session_names_store(n->s, name) || strcmp(name, "_") == 0 ||
           strcmp(name, "cpu") == 0 || strcmp(name, "gpu") == 0; /* devices without a number */
}

/* rule: that reads the name, or NULL. */
static __attribute__((noinline)) int tell(names *n, const char *name, uint32_t pos, uint32_t end,
                                          const rule_ast *rule)
{
    kv_err found = {0};
    if (check_is_full(n->s) || map_get(&n->told, (kv_key){0, name}) >= 0)
        return KV_OK;
    source_err(n->src, pos, end, &found, KV_E_USAGE, "nothing sets the variable `%s`",
               name);
    hint_name(name, &found);
    if (function_find(name) || map_get(&n->functions, (kv_key){0, name}) >= 0)
        kv_err_hint(&found, "`%s` is a function: %s(…)", name, name);
    if (rule)
        rule_hint_other_word(rule, name, &found);
    suggest near = {.word = name};
    for (int64_t i = 0; i < n->set.cap && check_compares(n->s); i++)
        if (n->set.entries[i].hash)
            suggest_add(&near, n->set.entries[i].key.name);
    if (rule && rule->is_merge)
        merge_names_suggest(rule, &near);
    else if (rule)
        rule_suggest(rule, &near);
    suggest_done(&near, &found);
    kv_err_hint(&found, "one from outside: kvctl --set %s=…", name);
    return check_take(n->s, &found) ? add(&n->told, name, n->e) : KV_E_MEMORY;
}

/* The children that read no variable: targets of assignments, parameters, the word of a setting. */
static bool is_no_reader(const ast *node, uint32_t i)
{
    return (node->kind == STMT_DEF && i > 0) || (command_is(node, COMMAND_SETS) && i == 1) ||
           (node->kind == STMT_OPTION && strcmp(node->u.text, "name") == 0);
}

static bool hides(void *arg, const char *name, const char *option)
{
    const names *n = arg;
    return map_get(&n->set, (kv_key){0, name}) >= 0 &&
           !(option && map_get(&n->options, (kv_key){0, option}) >= 0);
}

/* A name that a merge does not define. */
static int read_merge_name(void *arg, const ast *at, kv_err *e)
{
    names *n = arg;
    (void)e;
    if (is_set(n, at->u.text) || map_get(&n->options, (kv_key){0, at->u.text}) >= 0)
        return KV_OK;
    return tell(n, at->u.text, at->pos, at->end, n->merge);
}

/* The names that a rule does not define. */
static int read_rule(names *n, const rule_ast *rule)
{
    int code = KV_OK;
    for (int i = 0; i < rule->nparams && code == KV_OK; i++) {
        const rule_param *p = &rule->params[i];
        if (!p->value && !rule_gives(p->name) && !is_set(n, p->name) &&
            map_get(&n->options, (kv_key){0, p->name}) < 0)
            code = tell(n, p->name, p->pos, p->end, rule);
    }
    own_names_warn(n->s, n->unit, rule, hides, n);
    return code;
}

/* Returns true if an option of a command gives a parameter a name that may be a word, not a
 * variable: --mode up. Of optimizers of the library it is known which parameters are texts. */
static bool is_word(const ast *call, const ast *option)
{
    const ast *rule = call->kid[0];
    return option && option->kind == STMT_OPTION && option->n > 1 &&
           option->kid[0]->kind == AST_NAME &&
           !(rule && rule->kind == AST_TEXT && optimizer_text(rule->u.text));
}

/* A function as an updater, which may read names that every rule has. *is: it can be one. Errors
 * are large, and stand in no frame of a recursion. */
static __attribute__((noinline)) int read_updater(names *n, const ast *def, bool *is)
{
    rule_ast *rule;
    kv_err unused = {0};
    *is = updater_of_def(&rule, n->src, def, &n->unit->nodes, &unused) == KV_OK;
    return *is ? read_rule(n, rule) : KV_OK;
}

static int read_names(names *n, const ast *node)
{
    int code = KV_OK;
    if (!node || command_is(node, COMMAND_EXPECTS_ERROR)) /* which may wait for this very error */
        return KV_OK;
    if (node->kind == AST_NAME && !is_set(n, node->u.text))
        return tell(n, node->u.text, node->pos, node->end, NULL);
    if (node->kind == STMT_RULE && ((const rule_ast *)node->u.other)->is_merge) {
        n->merge = node->u.other;
        return merge_names_each(n->merge, read_merge_name, n, n->e);
    }
    if (node->kind == STMT_RULE && node->op != STMT_RULE_BROKEN)
        return read_rule(n, node->u.other);
    if (node->kind == STMT_DEF && node->n == 4 && node->op == 0) {
        bool is;
        code = read_updater(n, node, &is);
        if (is)
            return code;
    }
    for (uint32_t i = 0; i < node->n && code == KV_OK; i++)
        if (!is_no_reader(node, i) && !(node->kind == STMT_COMMAND && is_word(node, node->kid[i])))
            code = read_names(n, node->kid[i]);
    return code;
}

int check_unset(session *s, kv_err *e)
{
    names n = {.s = s, .e = e};
    int code = KV_OK;
    n.unknown = s->check->names_missing || s->check->statements_lost;
    for (const unit *u = s->units; u && !n.unknown && code == KV_OK; u = u->next)
        code = collect(&n, u->body);
    for (unit *u = s->units; u && !n.unknown && code == KV_OK; u = u->next) {
        n.unit = u;
        n.src = &u->src;
        map_release(&n.told);
        code = read_names(&n, u->body);
    }
    map_release(&n.set);
    map_release(&n.options);
    map_release(&n.functions);
    map_release(&n.told);
    return code;
}
