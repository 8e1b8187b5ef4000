/* The call form: kv.push(3, a) is the command push, read by the same table.
 *
 * An argument finds its place in the command by its position or its name, both in MXNet's way where
 * the table has one. What comes out is the node that the command itself has, so that nothing behind
 * the parser knows of two forms; only around it an AST_STORE says which store is meant.
 */
#include "syntax/parse_command.h"

#include <string.h>

#include "base/suggest.h"
#include "syntax/hints.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"

typedef struct method_call {
    parser *p;
    binding b;              /* the first of the parameters are its arguments */
    const char *params;     /* "key, value, priority)" of the table, or "" */
    const char *dictionary; /* the name that may hold them; it ends at a colon. NULL: none */
    int position;           /* of the argument that is read */
} method_call;

static ast *fail(method_call *m, uint32_t pos, uint32_t end, const char *what, size_t n,
                 const char *why)
{
    own_buf usage = {0};
    parse_fail(m->p, pos, end, KV_E_USAGE, "`%s` %s%.*s", m->b.c->name, why, (int)n, what);
    command_call_usage(&usage, m->b.c);
    kv_err_hint(m->p->e, "%s", buf_text(&usage));
    return NULL;
}

static ast *wrapped(parser *p, int kind, ast *one)
{
    return one ? parse_node_of(p, kind, one->pos, &one, 1) : NULL;
}

/* ---- Options ---- */

/* Adds --name with the value, written at pos. None leaves an option out, so does False a flag. */
static bool add_option(method_call *m, const command_option *o, const char *name, uint32_t pos,
                       ast *given)
{
    bool flag = o && o->kind == OPTION_FLAG;
    if (o && given->kind == AST_NONE)
        return true;
    if (flag && given->kind != AST_BOOL)
        return parse_fail(m->p, given->pos, given->end, KV_E_USAGE, "%s is True or False", name);
    if (flag && !given->u.integer)
        return true;
    ast *node = parse_node_of(m->p, STMT_OPTION, pos, &given, !flag);
    own_buf dashed = {0};
    name_put(&dashed, name, strlen(name), '-');
    if (!node || buf_check(&dashed, m->p->e) ||
        !(node->u.text = parse_intern(m->p, buf_text(&dashed), dashed.len)))
        node = NULL;
    if (node)
        node->end = given->end;
    if (node && bind_has(&m->b, node->u.text))
        return fail(m, given->pos, given->end, name, strlen(name), "has two values for ");
    return node && bind_add(&m->b, m->p, node);
}

/* ---- Arguments ---- */

/* An updater of the script, or an optimizer, by its name or as MXNet makes one: of SGD(wd=0.1) and
 * create('sgd', wd=0.1) the name, and the arguments as options. */
static ast *rule(method_call *m, ast *given)
{
    parser *p = m->p;
    if (given->kind == AST_NAME || (given->kind == AST_NONE && !m->b.c->args[0].optional)) {
        given->u.text = given->kind == AST_NAME ? given->u.text : "assign"; /* None: no updater */
        given->kind = AST_TEXT;
    }
    uint32_t at = given->kind == AST_CALL && given->flags & AST_METHOD;
    if (given->kind != AST_CALL ||
        (at && (given->kid[0]->kind != AST_NAME || strcmp(given->kid[0]->u.text, "optimizer"))))
        return given;
    const char *maker = given->u.text;
    bool updater = strcmp(maker, "get_updater") == 0;
    bool create = strcmp(maker, "create") == 0 || strcmp(maker, "create_optimizer") == 0;
    ast *name = parse_node(p, AST_TEXT, given->pos, given->end, 0);
    if (name)
        name->u.text = maker;
    if (updater || create) { /* what they take first, also by its name */
        ast *first = at < given->n ? given->kid[at++] : NULL;
        bool named = first && first->kind == AST_ARG;
        if (!first || (named && strcmp(first->u.text, updater ? "optimizer" : "name")))
            return parse_fail(p, given->pos, given->end, KV_E_USAGE, "%s() takes %s optimizer",
                              updater ? maker : "create", updater ? "an" : "the name of an");
        name = named ? first->kid[0] : first;
    }
    if (updater && at == given->n)
        return rule(m, name);
    for (; name && at < given->n; at++) {
        const ast *arg = given->kid[at];
        if (arg->kind != AST_ARG)
            return parse_fail(p, arg->pos, arg->end, KV_E_USAGE,
                              "the parameters of an optimizer have names: learning_rate=0.1");
        if (!add_option(m, NULL, optimizer_own_name(arg->u.text), arg->pos, arg->kid[0]))
            return NULL;
    }
    return name;
}

/* Argument i of the command. */
static bool add_argument(method_call *m, int i, ast *given)
{
    const command_arg *a = &m->b.c->args[i];
    if (m->b.parts[i])
        return fail(m, given->pos, given->end, a->name, strlen(a->name), "has two values for ");
    if (a->kind == ARG_KEYS) { /* any expression stands for a key or a list of keys */
        given = wrapped(m->p, AST_KEYS, wrapped(m->p, AST_KEY_VALUE, given));
        if (given)
            given->flags |= AST_SINGLE;
    } else if (a->kind == ARG_RULE) {
        given = rule(m, given);
    } else if (a->kind == ARG_VALUES || a->kind == ARG_PATHS) {
        given = wrapped(m->p, AST_LIST, given);
    }
    m->b.parts[i] = given;
    return given != NULL;
}

/* The value of a parameter by its name, which stands from pos to end. */
static bool add_named(method_call *m, const char *name, uint32_t pos, uint32_t end, ast *given)
{
    size_t n = strlen(name);
    int i = command_param_find(m->params, name, n);
    if (i >= 0 && i < m->b.nargs)
        return add_argument(m, i, given);
    const command_option *o = command_option_find(m->b.c, name, n);
    if (m->b.c->flags & COMMAND_PARAMS) {
        name = optimizer_own_name(name);
    } else if (!o) { /* the call does not take an option that MXNet's name hides */
        fail(m, pos, end, name, n, "has no argument ");
        if (strcmp(m->b.c->name, "push") == 0 && strcmp(name, "out") == 0) {
            m->p->e->hint[0] = '\0';
            kv_err_hint(m->p->e, "kv.pushpull(key, value, out=a) pushes, then pulls into a");
        }
        return false;
    }
    return add_option(m, o, name, pos, given);
}

/* {'type': '2bit', 'threshold': 0.5}: parameters by their names. */
static bool add_dictionary(method_call *m, const ast *dict)
{
    if (!m->dictionary)
        return parse_fail(m->p, dict->pos, dict->pos + 1, KV_E_SYNTAX,
                          "`{` stands where a value is needed");
    for (uint32_t i = 0; i < dict->n; i += 2) {
        const ast *name = dict->kid[i];
        if (name->kind != AST_TEXT)
            return parse_fail(m->p, name->pos, name->end, KV_E_SYNTAX,
                              "the name of an argument stands in quotes here");
        if (!add_named(m, name->u.text, name->pos, name->end, dict->kid[i + 1]))
            return false;
    }
    return true;
}

/* The i-th argument: a value by its place or its name, or a dictionary, also in a variable. */
static bool add(method_call *m, int i, ast *one)
{
    bool named = one->kind == AST_ARG;
    ast *given = named ? one->kid[0] : one;
    size_t n = named ? strlen(one->u.text) : 0;
    bool dictionary = m->dictionary && named && strncmp(m->dictionary, one->u.text, n) == 0 &&
                      m->dictionary[n] == ':';
    if (given->kind == AST_DICT && (dictionary || !named))
        return add_dictionary(m, given);
    if (named && !dictionary)
        return add_named(m, one->u.text, one->pos, one->pos + (uint32_t)n, given);
    if (dictionary || i < m->b.nargs)
        return add_argument(m, dictionary ? 0 : i, given);
    const char *param = command_param_at(m->params, i, &n);
    const char *name = param ? parse_intern(m->p, param, n) : NULL;
    if (!param)
        return fail(m, one->pos, one->end, "", 0, "takes fewer arguments");
    return name && add_named(m, name, one->pos, one->end, given);
}

/* Everything up to the `)`, which is left. */
static bool arguments(method_call *m)
{
    parser *p = m->p;
    bool named = false;
    for (int i = 0; !parse_is_sign(p, SIGN1(')')); i++) {
        m->position = i;
        ast *one = m->b.c->args[0].kind == ARG_RULE && refuse_lambda(p) ? NULL : parse_argument(p);
        if (one && named && one->kind != AST_ARG)
            return fail(m, one->pos, one->end, "", 0, "has a plain argument behind a named one");
        if (!one || !add(m, i, one))
            return false;
        named = one->kind == AST_ARG;
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    return true;
}

/* ---- The call ---- */

ast *parse_method(parser *p, const ast *store, const token *name)
{
    const char *text = parse_token_text(p, name);
    const command *c = text ? command_find_method(text) : NULL;
    bool brackets = parse_is_sign(p, SIGN1('('));
    bracket b;
    if (!c)
        return NULL;
    if (!command_can_be_called(c)) {
        parse_fail(p, name->pos, name->end, KV_E_USAGE, "`%s` has no call form", c->name);
        return parse_hint(p, "write it as a command: help %s", c->name);
    }
    method_call m = {.p = p};
    bind_begin(&m.b, c);
    m.params = command_params(c);
    m.dictionary = c->method && strchr(c->method, ':') ? strchr(c->method, '(') + 1 : NULL;
    if (brackets && (!parse_open(p, &b) || !arguments(&m) || !parse_close(p, &b))) {
        parse_cursor_in_call(p, &b, text, true, (uint32_t)m.position + 1);
        return NULL;
    }
    const command_option *option;
    const command_arg *arg = bind_missing(&m.b, &option);
    size_t n = 0;
    const char *missing = arg ? command_param_at(m.params, (int)(arg - c->args), &n) : NULL;
    if (!missing && (arg || option)) {
        missing = arg ? arg->name : option->name;
        n = strlen(missing);
    }
    if (missing) {
        fail(&m, name->pos, name->end, missing, n, "needs ");
        if (strcmp(c->name, "push") == 0 && strcmp(store->u.text, "kv") != 0) {
            p->e->hint[0] = '\0';
            kv_err_hint(p->e, "%s.append(x) adds to a list; a store takes push(key, value)",
                        store->u.text);
        }
        return NULL;
    }
    ast *node = wrapped(p, AST_STORE, bind_node(&m.b, p, store->pos));
    if (node)
        node->u.text = store->u.text;
    return node;
}

/* ---- Statements around it ---- */

ast *parse_store_made(parser *p, ast *assign)
{
    const ast *target = assign->kid[0], *call = assign->kid[1];
    binding b;
    if (assign->op != STMT_PLAIN || target->kind != AST_NAME || call->kind != AST_STORE)
        return assign;
    call = call->kid[0];
    const command *c = call->u.other;
    if (strcmp(c->name, "create") != 0)
        return assign;
    ast *name = parse_node(p, STMT_OPTION, target->pos, target->end, 1);
    if (!name)
        return NULL;
    name->u.text = "name";
    name->kid[0] = assign->kid[0];
    name->kid[0]->kind = AST_TEXT;
    bind_begin(&b, c);
    memcpy(b.parts, call->kid, call->n * sizeof *b.parts);
    b.n = (int)call->n;
    return bind_add(&b, p, name) ? bind_node(&b, p, assign->pos) : NULL;
}
