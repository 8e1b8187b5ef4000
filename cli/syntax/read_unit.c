/* Reading of texts, and the checks that need no values. */
#include "syntax/read_unit.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/kv_assert.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "session/containers.h"
#include "syntax/check.h"
#include "syntax/command.h"
#include "syntax/effect.h"
#include "syntax/file_kind.h"
#include "syntax/function.h"
#include "syntax/hints.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"
#include "vm/rule.h"

/* ---- Checks of a text that was parsed ---- */

/* The definitions of a text, found before it runs. */
typedef struct checker {
    session *s;
    unit *u;
    map functions;        /* to their def as a number; 0: several, or one with an error */
    map rules;            /* to 0 */
    map types;            /* of stores, to 0 */
    map holders;          /* variables that may hold an optimizer, to 0 … */
    const ast *holders_of; /* … in this text; NULL: they are not known */
    map sets;              /* variables that texts set, to 0 … */
    const ast *sets_of;    /* … asked for in this text */
    bool plugins;         /* some are loaded, and may bring other types */
    kv_err *e;
} checker;

static int check_names(checker *c, const ast *node, int where);
static int check_unit(checker *c, unit *u);

/* The code of the checker's error, unless errors are collected: then there is none any more. */
static int noted(checker *c)
{
    return check_take(c->s, c->e) ? KV_OK : c->e->code;
}

/* Returns true if an unknown name may be defined in a sourced file that could not be read. */
static bool may_be_defined(const checker *c)
{
    return c->s->check && c->s->check->names_missing;
}

/* Whether calls of two defs are checked alike, as where a file is sourced twice. */
static bool takes_the_same(const ast *def, const ast *other)
{
    bool same = def->n == other->n && def->op != STMT_DEF_BROKEN && other->op != STMT_DEF_BROKEN;
    for (uint32_t i = 1; i < def->n && same; i++)
        same = def->kid[i]->kind == other->kid[i]->kind &&
               strcmp(def->kid[i]->u.text, other->kid[i]->u.text) == 0;
    return same;
}

/* Collects the functions, updaters and store types that node and the files it sources define. */
static int collect_names(checker *c, const ast *node)
{
    if (!node)
        return KV_OK;
    if (node->kind == STMT_DEF) {
        kv_key name = {0, node->u.text};
        int64_t before = map_get(&c->functions, name);
        const ast *other = before > 0 ? (const ast *)(intptr_t)before : node;
        bool known = before != 0 && takes_the_same(node, other);
        TRY(map_put(&c->functions, name, known ? (int64_t)(intptr_t)node : 0, c->e));
    }
    if (node->kind == STMT_RULE) {
        const rule_ast *rule = node->u.other;
        for (int i = 0; !rule->is_merge && i < rule->nnames; i++)
            TRY(map_put(&c->rules, (kv_key){0, rule->names[i]}, 0, c->e));
    }
    if (command_is(node, COMMAND_REGISTERS)) {
        c->plugins = c->plugins || command_option_of(node, "plugin");
        TRY(map_put(&c->types, (kv_key){0, node->kid[0]->u.text}, 0, c->e));
    }
    if (node->kind == STMT_SOURCE)
        TRY(collect_names(c, ((const unit *)node->u.other)->body));
    for (uint32_t i = 0; i < node->n; i++)
        TRY(collect_names(c, node->kid[i]));
    return KV_OK;
}

static bool defined_function(const checker *c, const char *name)
{
    const definition *d = session_defined(c->s, name);
    return map_get(&c->functions, (kv_key){0, name}) >= 0 || (d && d->node);
}

/* Adds the functions, or updaters, of the text (names) and of those that ran. */
static void suggest_defined(const checker *c, suggest *near, const map *names, bool functions)
{
    for (int64_t i = 0; i < names->cap && check_compares(c->s); i++)
        if (names->entries[i].hash)
            suggest_add(near, names->entries[i].key.name);
    for (int64_t i = 0; i < c->s->ndefs && check_compares(c->s); i++)
        if (functions == (c->s->defs[i].node != NULL))
            suggest_add(near, c->s->defs[i].name);
}

/* The number of a call's arguments and their names: those of a function, or of a def. */
static int check_arguments(checker *c, const ast *node, const function *f, const ast *def)
{
    if (def) {
        own_buf usage = {0};
        int rc = function_match(&c->u->src, def, node, c->e);
        if (rc && f && !*c->e->hint) {
            function_usage(&usage, f);
            kv_err_hint(c->e, "%s", buf_text(&usage));
        }
        return rc;
    }
    if (function_check(f, node, node->n, c->e))
        source_at(&c->u->src, node->pos, node->end, c->e);
    return c->e->code;
}

/* kv.name: the name of the first store is known; the names of others are known when it runs. */
static bool is_method_of_kv(const ast *call)
{
    return (call->flags & AST_METHOD) && call->kid[0]->kind == AST_NAME &&
           strcmp(call->kid[0]->u.text, "kv") == 0;
}

static int unknown_method(checker *c, const ast *node)
{
    source_err(&c->u->src, node->pos, node->end, c->e, KV_E_USAGE, "a store has no method `%s`",
               node->u.text);
    suggest near = {.word = node->u.text, .as_methods = true};
    for (const command *one = registry.commands; one->name; one++)
        if (command_can_be_called(one))
            suggest_add(&near, one->name);
    suggest_done(&near, c->e);
    return kv_err_hint(c->e, "its methods are the commands: help");
}

/* Adds the variables into which a statement below the node may put an optimizer: by an assignment
 * of something else than a literal, a loop, a parameter. */
static int add_holders(map *m, const ast *node, kv_err *e)
{
    if (!node)
        return KV_OK;
    if (node->kind == STMT_FOR || node->kind == STMT_DEF ||
        (node->kind == STMT_ASSIGN && node->kid[0]->kind == AST_NAME && node->kid[1]->n > 0))
        TRY(effect_sets(node, effect_put_name, m, e));
    for (uint32_t i = 0; i < node->n; i++)
        TRY(add_holders(m, node->kid[i], e));
    return KV_OK;
}

/* Variables that may hold one are collected once a text, and only where one is asked for. Without
 * memory all may. */
static bool is_optimizer_variable(checker *c, const char *name)
{
    const value *held = session_find(c->s, name);
    if (held)
        return object_is_optimizer(*held);
    if (c->holders_of != c->u->body) {
        map_release(&c->holders);
        c->holders_of = add_holders(&c->holders, c->u->body, c->e) ? NULL : c->u->body;
    }
    return !c->holders_of || map_get(&c->holders, (kv_key){0, name}) >= 0;
}

/* Calls that NumPy reads in another way: a.max(1) means an axis there, and copyto(to, from) fills
 * its first argument, where a.copyto(b) fills b. */
static int check_other_meaning(checker *c, const ast *node)
{
    const char *name = node->u.text;
    bool second = node->n == 2 && node->kid[1]->kind != AST_ARG;
    if (!second)
        return KV_OK;
    if (!(node->flags & AST_METHOD) && strcmp(name, "copyto") == 0) {
        source_err(&c->u->src, node->pos, node->end, c->e, KV_E_USAGE,
                   "copyto() is a method of the array whose elements are copied");
        return kv_err_hint(c->e, "a.copyto(b), or b[:] = a, fills b");
    }
    bool largest = strcmp(name, "max") == 0;
    if ((node->flags & AST_METHOD) && (largest || strcmp(name, "min") == 0)) {
        source_err(&c->u->src, node->pos, node->end, c->e, KV_E_USAGE,
                   "the axis of .%s() has its name here", name);
        return kv_err_hint(c->e, "a.%s(axis=1); %s(a, b) compares element by element", name,
                           largest ? "maximum" : "minimum");
    }
    return KV_OK;
}

/* Returns true if a statement below the node puts a dict into the variable. */
static bool assigns_dict(const ast *node, const char *name)
{
    bool found = node && node->kind == STMT_ASSIGN && node->kid[0]->kind == AST_NAME &&
                 node->kid[1]->kind == AST_DICT && strcmp(node->kid[0]->u.text, name) == 0;
    for (uint32_t i = 0; node && i < node->n && !found; i++)
        found = assigns_dict(node->kid[i], name);
    return found;
}

/* Hints at d['x'] for d.x, when d is a dict. */
static void hint_dict(const checker *c, const ast *node)
{
    const char *name = node->kid[0]->kind == AST_NAME ? node->kid[0]->u.text : "";
    const value *held = session_find(c->s, name);
    if (held ? held->kind == VALUE_DICT : assigns_dict(c->u->body, name))
        kv_err_hint(c->e, "%s['%s'] reads the dict", name, node->u.text);
}

/* Hints at `@` for data/iris.csv, which reads as the attribute csv of a quotient. */
static void hint_file(checker *c, const ast *node)
{
    const char *text = c->u->src.text, *end = text + node->end, *name = node->u.text;
    const char *begin = end - strlen(name);
    char path[32];
    snprintf(path, sizeof path, "x.%.24s", name);
    if (begin - text < 2 || memcmp(begin, name, strlen(name)) != 0)
        return; /* brackets stand behind the name */
    while (begin > text && !strchr(" \t\n;=,()[]{}>", begin[-1]))
        begin--;
    if (*begin == '.')
        return; /* of a call or an index */
    if (file_kind_of(path) == FILE_UNKNOWN && !file_is_checkpoint(path))
        return;
    bool at = *begin == '@'; /* behind a value it is a product or a device */
    const char *before = begin;
    while (before > text && before[-1] == ' ')
        before--;
    begin += at;
    int n = (int)(end - begin);
    if ((before - text >= 4 && memcmp(before - 4, "hist", 4) == 0) ||
        (before - text >= 9 && memcmp(before - 9, "histogram", 9) == 0))
        kv_err_hint(c->e, "plot --hist @%.*s", n, begin);
    else if (at)
        kv_err_hint(c->e, "print @%.*s shows the file; a @ (@%.*s) multiplies by it", n, begin, n,
                    begin);
    else
        kv_err_hint(c->e, "`@` reads a file: @%.*s", n, begin);
}

/* Names that some text sets are collected once a text. Without memory none is known. */
static bool is_variable(void *arg, const char *name)
{
    checker *c = arg;
    kv_err without_memory = {0};
    if (c->sets_of != c->u->body) {
        map_release(&c->sets);
        c->sets_of = c->u->body;
        int rc = effect_sets_below(c->u->body, effect_put_name, &c->sets, &without_memory);
        /* all texts behind -c are read before the first one runs */
        for (const unit *u = c->s->units; u && !rc; u = u->next)
            rc = u->prelude
                     ? KV_OK
                     : effect_sets_below(u->body, effect_put_name, &c->sets, &without_memory);
    }
    return session_find(c->s, name) || map_get(&c->sets, (kv_key){0, name}) >= 0;
}

/* f(2) of a variable. What it holds is known where an earlier line of the prompt has set it. */
static int not_called(checker *c, const ast *node)
{
    const char *name = node->u.text;
    const value *held = session_find(c->s, name);
    if (held)
        source_err(&c->u->src, node->pos, node->end, c->e, KV_E_USAGE,
                   "`%s` is not a function: it holds %s", name, value_kind_name(*held));
    else
        source_err(&c->u->src, node->pos, node->end, c->e, KV_E_USAGE,
                   "`%s` is a variable here, and no function", name);
    return kv_err_hint(c->e,
                       "%s * (…) multiplies, %s[…] takes a part; def %s(x): … makes a "
                       "function",
                       name, name, name);
}

/* Defines a function of the prelude, unless it was before. NULL: c has an error. */
static const ast *define_prelude(checker *c, const function *f)
{
    session *s = c->s;
    const char *text = function_def(f);
    scope *locals = s->locals;
    unit *u, *outer = s->unit;
    int64_t at = map_get(&s->prelude, (kv_key){0, f->name});
    if (at >= 0)
        return s->defs[at].node;
    char *copy = mem_text(text, strlen(text), c->e);
    s->source_depth++; /* part of that text, and not checked: a script may have a sum of its own */
    int rc = copy ? unit_read(s, &u, f->name, copy, strlen(text), 1, NULL, c->e) : KV_E_MEMORY;
    s->source_depth--;
    if (rc == KV_OK) {
        u->prelude = true;
        s->locals = NULL;
        s->unit = u;
        rc = registry.define(s, u->body->kid[0], c->e);
        s->locals = locals;
    }
    s->unit = outer;
    return rc ? NULL : u->body->kid[0];
}

static int check_function(checker *c, const ast *node)
{
    const char *name = node->u.text;
    const function *f = function_find(name);
    bool called = node->flags & AST_METHOD;
    bool attribute = called && c->u->src.text[node->end - 1] != ')';
    if (function_def(f) && is_method_of_kv(node))
        f = NULL;
    const ast *prelude = function_def(f) ? define_prelude(c, f) : NULL;
    if (c->e->code)
        return c->e->code;
    bool method = f && (f->flags & FUNCTION_METHOD);
    bool own = defined_function(c, name) && !(called && f);
    if (method && !called && !own) {
        bool list = strcmp(f->params[0], "list") == 0, any = strcmp(f->params[0], "x") == 0;
        source_err(&c->u->src, node->pos, node->end, c->e, KV_E_USAGE, "%s() is a method of %s %s",
                   name, *f->params[0] == 'a' ? "an" : "a", any ? "list or dict" : f->params[0]);
        const char *more = !list ? ""
                           : f->flags & FUNCTION_CHANGES
                               ? " changes the list l; concat(a, b) joins arrays"
                               : " asks the list l; nonzero(a == x) finds in an array";
        return kv_err_hint(c->e, "%s.%s(%s)%s", list ? "l" : f->params[0], name, list ? "x" : "…",
                           more);
    }
    TRY(f && !own ? check_other_meaning(c, node) : KV_OK);
    if (f && (node->flags & AST_METHOD) && strcmp(name, "sort") == 0) {
        source_err(&c->u->src, node->pos, node->end, c->e, KV_E_USAGE,
                   "there is no sorting in place");
        return kv_err_hint(c->e, "l = sorted(l) of a list, a = sort(a) of an array");
    }
    if (called && strcmp(name, "type") == 0) {
        source_err(&c->u->src, node->pos, node->end, c->e, KV_E_USAGE,
                   "only a store has the attribute `type`");
        return kv_err_hint(c->e, "kv = mx.kv.create('local'); kv.type; type(x) is the class of x");
    }
    /* dicts have update, and so have optimizers */
    bool other = called && strcmp(name, "update") == 0 && node->kid[0]->kind == AST_NAME &&
                 is_optimizer_variable(c, node->kid[0]->u.text);
    if (f && !other && !own)
        return prelude && may_be_defined(c) ? KV_OK : check_arguments(c, node, f, prelude);
    int64_t known = map_get(&c->functions, (kv_key){0, name});
    if (known > 0 && !other && !function_method(node) &&
        check_arguments(c, node, NULL, (const ast *)(intptr_t)known))
        return c->e->code;
    if (other || defined_function(c, name) || may_be_defined(c) || optimizer_is_maker(name))
        return KV_OK;
    if (called ? optimizer_has_attribute(name) : is_optimizer_variable(c, name))
        return KV_OK;
    if (check_is_full(c->s))
        return KV_OK;
    if (is_method_of_kv(node))
        return unknown_method(c, node);
    if (!called && is_variable(c, name))
        return not_called(c, node);
    source_err(&c->u->src, node->pos, node->end, c->e, KV_E_USAGE, "there is no %s `%s`",
               attribute ? "attribute" : "function", name);
    if (called)
        hint_file(c, node);
    if (hint_word("function", name, strlen(name), c->e))
        return c->e->code;
    if (called)
        hint_dict(c, node);
    const command *found = called ? NULL : command_find(name, strlen(name));
    if (found)
        command_hint_called(found, c->e);
    suggest near = {.word = name};
    for (int i = 0; function_at(i); i++)
        if (strcmp(function_at(i)->name, name) != 0) /* a call that lacks its brackets */
            suggest_add(&near, function_at(i)->name);
        else
            kv_err_hint(c->e, "x.%s(…)", name);
    /* Of all functions something is near: only what is very near was meant as one of a value. */
    while (called && near.n > 0 && near.distance[near.n - 1] > 1)
        near.n--;
    if (attribute) {
        suggest_done(&near, c->e);
        return kv_err_hint(c->e, "an array has shape, size, ndim, dtype, T, ctx and others; a "
                                 "function is called: x.mean()");
    }
    suggest_defined(c, &near, &c->functions, true);
    suggest_done(&near, c->e);
    return c->e->code;
}

/* A wrong call on the name of a module, math.sqrt(2), is read as sqrt(math, 2): what is missing is
 * the module. np.random.rand() has a hint of its own. */
static int check_call(checker *c, const ast *node)
{
    int rc = check_function(c, node);
    const ast *base = rc && (node->flags & AST_METHOD) ? node->kid[0] : NULL;
    kv_err module = {0};
    if (!base || base->kind != AST_NAME || is_variable(c, base->u.text) ||
        strcmp(base->u.text, "random") == 0)
        return rc;
    source_err(&c->u->src, base->pos, base->end, &module, KV_E_UNSUPPORTED,
               "there is no module `%s`", base->u.text);
    if (!hint_word("module", base->u.text, strlen(base->u.text), &module))
        return rc;
    *c->e = module;
    return module.code;
}

/* The defs of a name below a node: *found becomes the last one. Returns their number. */
static int find_defs(const ast *node, const char *name, const ast **found)
{
    int n = node && node->kind == STMT_DEF && strcmp(node->u.text, name) == 0;
    if (n)
        *found = node;
    for (uint32_t i = 0; node && i < node->n; i++)
        n += find_defs(node->kid[i], name, found);
    return n;
}

/* A def that is set as an updater must be one. Where there are several, the run shows which. */
static int check_def(checker *c, const char *name)
{
    const ast *def = NULL, *found = NULL;
    unit *where = NULL;
    int n = 0;
    for (unit *u = c->s->units; u; u = u->next) {
        n += find_defs(u->body, name, &def);
        where = def != found ? u : where;
        found = def;
    }
    rule_ast *rule;
    return n == 1 && def->op != STMT_DEF_BROKEN
               ? updater_of_def(&rule, &where->src, def, &c->u->nodes, c->e)
               : KV_OK;
}

/* `what` is how the command calls it: an updater or an optimizer. */
static int check_updater(checker *c, const ast *name, const char *what)
{
    kv_key key = {0, name->u.text};
    suggest near = {.word = name->u.text, .by_first_letters = true};
    const char *optimizer;
    if (name->kind == AST_TEXT && map_get(&c->rules, key) < 0 && defined_function(c, name->u.text))
        return check_def(c, name->u.text);
    if (name->kind != AST_TEXT || strcmp(name->u.text, "assign") == 0 ||
        map_get(&c->rules, key) >= 0 || session_defined(c->s, name->u.text) || may_be_defined(c) ||
        optimizer_text(name->u.text) || check_is_full(c->s) || is_variable(c, name->u.text))
        return KV_OK;
    source_err(&c->u->src, name->pos, name->end, c->e, KV_E_USAGE, "there is no %s `%s`", what,
               name->u.text);
    for (int i = 0; kv_optimizer_text(i, &optimizer); i++)
        suggest_add(&near, optimizer);
    suggest_add(&near, "assign");
    suggest_defined(c, &near, &c->rules, false);
    suggest_done(&near, c->e);
    return kv_err_hint(c->e,
                       "define one: updater %s { stored += input }; help optimizer lists "
                       "those of the library",
                       name->u.text);
}

static int check_pairs(checker *c, const ast *node, const command_pair *p)
{
    for (; p && p->option; p++) {
        const ast *at = *p->option ? command_option_of(node, p->option) : node;
        bool has = command_option_of(node, p->others[0]) ||
                   (p->others[1] && command_option_of(node, p->others[1]));
        if (!at || has == p->needed)
            continue;
        source_err(&c->u->src, at->pos, at->end, c->e, KV_E_USAGE, "%s", p->why);
        return p->hint ? kv_err_hint(c->e, "%s", p->hint) : KV_E_USAGE;
    }
    return KV_OK;
}

static int check_command(checker *c, const ast *node)
{
    const command *cmd = node->u.other;
    /* A run may never come to a `create`, and only some builds have all types. */
    bool types_known = c->s->check && !c->plugins && !may_be_defined(c);
    for (int i = 0; cmd->args[i].kind != ARG_END; i++)
        if (cmd->args[i].kind == ARG_RULE && node->kid[i] &&
            check_updater(c, node->kid[i], cmd->name + strlen("set-")))
            goto failed;
    if (check_pairs(c, node, cmd->pairs) == KV_OK &&
        (!cmd->check || !cmd->check(&c->u->src, node, types_known ? &c->types : NULL, c->e)))
        return KV_OK;
failed:
    hint_variable(&c->u->src, node, is_variable, c, c->e);
    return c->e->code;
}

/* The block of an expect-error: when its words alone show the error that it waits for, it need not
 * run. */
static int check_failing(checker *c, const ast *node, int where)
{
    ast *block = node->kid[1];
    kv_err *outer = c->e, found = {0};
    struct check_errors *collected = c->s->check;
    c->e = &found;
    c->s->check = NULL;
    int rc = check_names(c, block, where);
    c->e = outer;
    c->s->check = collected;
    if (rc == KV_OK)
        return KV_OK;
    if (strcmp(kv_code_name(rc), node->kid[0]->u.text) == 0) {
        block->kind = AST_NONE;
        block->n = 0;
        return KV_OK;
    }
    if (!outer->code)
        *outer = found;
    return noted(c);
}

/* Where a statement stands: break and continue want a loop, return a function. */
enum { IN_LOOP = 1, IN_DEF = 2 };

static int check_jump(checker *c, const ast *node, int where)
{
    bool leaves = node->kind == STMT_BREAK || node->kind == STMT_CONTINUE;
    if (leaves && !(where & IN_LOOP))
        return source_err(&c->u->src, node->pos, node->end, c->e, KV_E_SYNTAX,
                          "`%s` stands outside a loop",
                          node->kind == STMT_BREAK ? "break" : "continue");
    if (node->kind == STMT_RETURN && !(where & IN_DEF))
        return source_err(&c->u->src, node->pos, node->end, c->e, KV_E_SYNTAX,
                          "`return` stands outside a function");
    return KV_OK;
}

static int check_names(checker *c, const ast *node, int where)
{
    int rc = KV_OK;
    if (!node)
        return KV_OK;
    if (command_is(node, COMMAND_EXPECTS_ERROR))
        return check_failing(c, node, where);
    if (node->kind == AST_CALL)
        rc = check_call(c, node);
    else if (node->kind == STMT_COMMAND)
        rc = check_command(c, node);
    else if (node->kind == STMT_RULE && node->op != STMT_RULE_BROKEN &&
             !((const rule_ast *)node->u.other)->is_merge) /* whose models are not known yet */
        rc = rule_check(node->u.other, &c->u->src, &c->u->nodes, c->e);
    else if (node->kind == STMT_SOURCE)
        rc = check_unit(c, node->u.other);
    else
        rc = check_jump(c, node, where);
    if (rc == KV_OK)
        rc = safe_check(c->s, &c->u->src, node, c->e);
    if (rc)
        rc = noted(c);
    if (node->kind == STMT_FOR || node->kind == STMT_WHILE || node->kind == STMT_REPEAT)
        where |= IN_LOOP;
    if (node->kind == STMT_DEF)
        where = IN_DEF;
    for (uint32_t i = 0; i < node->n && rc == KV_OK; i++)
        rc = check_names(c, node->kid[i], where);
    return rc;
}

/* Returns true if a mistake in the words of one statement is an error when that one runs, and no
 * earlier. To a text that sources a file the whole file is one statement. */
static bool goes_on(const session *s)
{
    return (s->keep_going || s->pasted) && s->source_depth == 0 && !s->unit;
}

static int check_unit(checker *c, unit *u)
{
    unit *outer = c->u;
    int rc = KV_OK;
    c->u = u;
    for (uint32_t i = 0; i < u->body->n && rc == KV_OK; i++) {
        ast *node = u->body->kid[i];
        rc = check_names(c, node, 0);
        if (rc && outer == u && goes_on(c->s) && check_break(&u->nodes, node, c->e))
            rc = KV_OK;
    }
    c->u = outer;
    return rc;
}

/* Checks a text and the files that it sources, which see its definitions. */
static int check(session *s, unit *u, kv_err *e)
{
    checker c = {.s = s, .u = u, .e = e};
    int rc = KV_OK;
    /* texts read before may not have run yet, but they will */
    for (const unit *one = s->units; one && rc == KV_OK; one = one->next)
        rc = one->prelude ? KV_OK : collect_names(&c, one->body);
    if (rc == KV_OK)
        rc = check_unit(&c, u);
    map_release(&c.functions);
    map_release(&c.rules);
    map_release(&c.types);
    map_release(&c.holders);
    map_release(&c.sets);
    return rc;
}

/* ---- Reading ---- */

static bool is_function(const char *name)
{
    return function_find(name) != NULL;
}

/* Also within texts and comments, since invalid bytes would go into outputs and comparisons. A line
 * of a program or an archive is nothing to show. */
static int check_utf8(const source *src, kv_err *e)
{
    bool ok = true;
    uint32_t size;
    for (uint32_t i = 0; i < src->len; i += size) {
        size = 1;
        if ((unsigned char)src->text[i] < 0x80)
            continue;
        size = (uint32_t)utf8_length(src->text + i, src->len - i, &ok);
        if (!ok && memchr(src->text, '\0', src->len))
            return kv_err_set(e, KV_E_SYNTAX, "\"%s\" is not text, so not a script", src->name);
        if (!ok)
            return source_err(src, i, i + 1, e, KV_E_SYNTAX, "the byte \\x%02x is not UTF-8",
                              (unsigned char)src->text[i]);
    }
    return KV_OK;
}

/* A command of the shell has the rest of its line, with the `}` that was to close the block around
 * it: then a later `}` closes that one, and an outer block stays open. */
static void hint_shell_word(const parser *p, kv_err *e)
{
    const source *src = p->lx.src;
    bool begins = false;
    char shell = 0;
    int depth = 0, line, col;
    for (uint32_t i = p->open; i < src->len; i++) {
        char c = src->text[i];
        bool pipe = c == '|' && src->text[i - 1] == ' ' && src->text[i + 1] == ' ';
        shell = c == '\n' ? 0 : !shell && (pipe || (begins && c == '!')) ? c : shell;
        depth = shell ? depth + (c == '{') - (c == '}') : 0;
        begins = c == '{' || c == ';' || c == '\n' || (begins && letter_is_blank(c));
        if (depth < 0) {
            source_locate(src, i, &line, &col);
            kv_err_hint(e, "the `%c` of line %d takes the rest of its line: close the block on the "
                           "next one", shell, line);
            return;
        }
    }
}

/* words: which the text holds, or NULL. */
static int read_text(session *s, unit **out, const char *name, char *text, size_t n, int line,
                     bool *incomplete, const shell_words *words, kv_err *e)
{
    if (n > SOURCE_MAX) {
        mem_free(text);
        return kv_err_set(e, KV_E_VALUE, "%s is larger than 4 GB, which is the most for a script",
                          name);
    }
    unit *u;
    TRY(unit_of_text(s, &u, name, text, n, e));
    u->src.line = line;
    *out = u;
    TRY(check_utf8(&u->src, e));
    own_parser p;
    parse_init(&p, &u->src, &u->nodes, e);
    p.is_function = is_function;
    p.hidden_word = command_hidden;
    p.user = s;
    p.recover = s->check ? check_recover : goes_on(s) ? check_keep_going : NULL;
    for (int64_t i = 0; i < s->globals.n; i++)
        parse_made(&p, s->globals.items[i].name);
    u->body = words ? parse_shell_words(&p, words) : statement_parse_all(&p);
    if (incomplete)
        *incomplete = !u->body && p.lx.incomplete;
    if (!u->body && p.lx.incomplete && p.is_open)
        hint_shell_word(&p, e);
    if (!u->body)
        return e->code;
    return s->source_depth > 0 ? KV_OK : check(s, u, e); /* with the text that sources it */
}

int unit_read(session *s, unit **out, const char *name, char *text, size_t n, int line,
              bool *incomplete, kv_err *e)
{
    return read_text(s, out, name, text, n, line, incomplete, NULL, e);
}

int unit_read_words(session *s, unit **out, shell_words *words, kv_err *e)
{
    own_buf text = {0};
    shell_words_text(words, &text);
    TRY(buf_check(&text, e));
    char *copy = mem_text(buf_text(&text), text.len, e);
    return copy ? read_text(s, out, "<cmd>", copy, text.len, 1, NULL, words, e) : e->code;
}

bool unit_is_complete(const char *text, size_t n)
{
    own_arena nodes = {0};
    source src = {.name = "", .text = text, .len = (uint32_t)n, .line = 1, .col = 1};
    if (n > SOURCE_MAX)
        return true;
    own_parser p;
    parse_init(&p, &src, &nodes, &(kv_err){0});
    bool parsed = statement_parse_all(&p) != NULL;
    return parsed ? !p.indented_end : !p.lx.incomplete;
}

void unit_cursor(parse_cursor *out, arena *nodes, const char *text, size_t n)
{
    source src = {.name = "", .text = text, .len = (uint32_t)n, .line = 1, .col = 1};
    *out = (parse_cursor){0};
    if (n > SOURCE_MAX)
        return;
    own_parser p;
    parse_init(&p, &src, nodes, &(kv_err){0});
    p.lx.cursor = true;
    p.cursor = out;
    p.recover = check_pass_over;
    statement_parse_all(&p);
    (void)kv_assert(out->pos <= out->word && out->word <= n && out->statement <= n,
                    "the cursor behind %zu bytes is in a word at %u", n, out->word);
}

unit *unit_source(parser *p, const ast *path)
{
    session *s = p->user;
    char *text;
    size_t n;
    unit *u = NULL;
    if (s->check && s->check->too_deep)
        return NULL; /* said once; each file may source several */
    if (s->check && s->source_depth >= SOURCE_MAX_DEPTH)
        s->check->too_deep = s->check->names_missing = true;
    if (s->source_depth >= SOURCE_MAX_DEPTH)
        return (parse_fail(p, path->pos, path->end, KV_E_VALUE, SOURCE_TOO_DEEP), NULL);
    int rc = file_read_text(path->u.text, &text, &n, p->e);
    if (rc == KV_OK) {
        s->source_depth++;
        rc = unit_read(s, &u, path->u.text, text, n, 1, NULL, p->e);
        s->source_depth--;
    }
    source_at(p->lx.src, path->pos, path->end, p->e);
    return rc == KV_OK ? u : NULL;
}
