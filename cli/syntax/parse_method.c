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

/* ---- Parameters by name ---- */

static ast *fail(method_call *m, uint32_t pos, uint32_t end, const char *what, size_t n,
                 const char *why)
{
    own_buf usage = {0};
    parse_fail(m->p, pos, end, KV_E_USAGE, "`%s` %s%.*s", m->b.c->name, why, (int)n, what);
    command_call_usage(&usage, m->b.c);
    kv_err_hint(m->p->e, "%s", buf_text(&usage));
    return NULL;
}

/* ---- Arguments ---- */

static ast *wrapped(parser *p, int kind, ast *one)
{
    return one ? parse_node_of(p, kind, one->pos, &one, 1) : NULL;
}

/* Any expression stands for a key or a list of keys. */
static ast *keys(parser *p)
{
    ast *node = wrapped(p, AST_KEYS, wrapped(p, AST_KEY_VALUE, parse_expr(p, false)));
    if (node)
        node->flags |= AST_SINGLE;
    return node;
}

static bool arguments(method_call *m);

/* Returns true if `name =` is next. */
static bool is_keyword(parser *p)
{
    token t = *parse_peek(p);
    if (t.kind != TOK_NAME)
        return false;
    parse_take(p);
    bool is = parse_is_sign(p, SIGN1('='));
    parse_seek(p, t.pos);
    return is;
}

/* SGD(learning_rate=0.1), or create('sgd', learning_rate=0.1), whose name is next: the name, and
 * its arguments as options. */
static ast *optimizer(method_call *m)
{
    parser *p = m->p;
    const token *t = parse_peek(p);
    ast *name = parse_text(p, t->pos, t->end);
    bracket b;
    if (!name || !parse_is_sign(p, SIGN1('(')))
        return name;
    method_call inner = {.p = p, .b = {.c = m->b.c, .begins = NOWHERE}, .params = ""};
    if (!parse_open(p, &b))
        return NULL;
    if (strcmp(name->u.text, "get_updater") == 0) {
        name = parse_expr(p, false);
        return name && parse_close(p, &b) ? name : NULL;
    }
    if (strcmp(name->u.text, "create") == 0 || strcmp(name->u.text, "create_optimizer") == 0) {
        if (!(name = parse_expr(p, false)))
            return NULL;
        parse_accept(p, SIGN1(','));
    }
    if (parse_expects(p, EXPECT_OPERAND, 0))
        return NULL;
    if (!parse_is_sign(p, SIGN1(')')) && !is_keyword(p)) {
        token wrong = *parse_peek(p);
        return parse_fail(p, wrong.pos, wrong.end, KV_E_USAGE,
                          "the parameters of an optimizer have names: learning_rate=0.1");
    }
    if (!arguments(&inner) || !parse_close(p, &b))
        return NULL;
    for (int i = 0; i < inner.b.n; i++)
        if (!bind_add(&m->b, p, inner.b.parts[i]))
            return NULL;
    return name;
}

/* An updater of the script, or an optimizer, by its name or as MXNet makes one. */
static ast *rule(method_call *m)
{
    parser *p = m->p;
    while (parse_skip_module(p))
        ;
    token t = *parse_peek(p);
    if (refuse_lambda(p))
        return NULL;
    if (strcmp(m->b.c->name, "set-updater") == 0 &&
        (parse_accept_word(p, "None") || parse_accept_word(p, "none"))) {
        ast *name = parse_node(p, AST_TEXT, t.pos, t.end, 0); /* MXNet's word for no updater */
        if (name)
            name->u.text = "assign";
        return name;
    }
    char next = parse_char(p, t.end);
    if (t.kind != TOK_NAME || next == '[')
        return parse_expr(p, false); /* opts[0]: a variable holds optimizers */
    if (parse_is_word(p, "optimizer") && next == '.') {
        parse_take(p);
        parse_take(p);
        if (parse_peek(p)->kind != TOK_NAME)
            return parse_unexpected(p, "the name of an optimizer");
    }
    return optimizer(m);
}

static bool read_arg(method_call *m, int i)
{
    const token t = *parse_peek(m->p);
    if (m->b.parts[i])
        return fail(m, t.pos, t.end, m->b.c->args[i].name, strlen(m->b.c->args[i].name),
                    "has two values for ");
    arg_kind kind = m->b.c->args[i].kind;
    ast *one = kind == ARG_KEYS     ? keys(m->p)
               : kind == ARG_RULE   ? rule(m)
                                    : parse_expr(m->p, false);
    if (kind == ARG_VALUES || kind == ARG_PATHS)
        one = wrapped(m->p, AST_LIST, one);
    m->b.parts[i] = one;
    return one != NULL;
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
    if (node && bind_has(&m->b, node->u.text))
        return fail(m, given->pos, given->end, name, strlen(name), "has two values for ");
    return node && bind_add(&m->b, m->p, node);
}

/* The value of a parameter by its name; at: where the name stands. */
static bool by_name(method_call *m, const char *name, const ast *at)
{
    int i = command_param_find(m->params, name, strlen(name));
    if (i >= 0 && i < m->b.nargs)
        return read_arg(m, i);
    const command_option *o = command_option_find(m->b.c, name, strlen(name));
    if (m->b.c->flags & COMMAND_PARAMS) {
        name = optimizer_own_name(name);
    } else if (!o) { /* the call does not take an option that MXNet's name hides */
        fail(m, at->pos, at->end, name, strlen(name), "has no argument ");
        if (strcmp(m->b.c->name, "push") == 0 && strcmp(name, "out") == 0) {
            m->p->e->hint[0] = '\0';
            kv_err_hint(m->p->e, "kv.pushpull(key, value, out=a) pushes, then pulls into a");
        }
        return false;
    }
    ast *given = parse_expr(m->p, false);
    return given && add_option(m, o, name, at->pos, given);
}

/* {'type': '2bit', 'threshold': 0.5}: parameters by their names. */
static bool dictionary(method_call *m)
{
    parser *p = m->p;
    bracket b;
    if (!m->dictionary)
        return parse_unexpected(p, "a value");
    if (!parse_open(p, &b))
        return false;
    p->lx.in_brackets = true; /* here { } is a bracket, no block */
    while (!parse_is_sign(p, SIGN1('}'))) {
        if (parse_peek(p)->kind != TOK_STRING)
            return parse_unexpected(p, "the name of an argument in quotes or `}`");
        ast *name = parse_operand(p);
        if (!name || !parse_expect(p, SIGN1(':'), "`:`") || !by_name(m, name->u.text, name))
            return false;
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    return parse_close(p, &b);
}

/* name = value, which is next. */
static bool keyword(method_call *m)
{
    parser *p = m->p;
    token t = parse_take(p);
    const char *name = parse_token_text(p, &t);
    parse_take(p);
    if (!name)
        return false;
    size_t n = strlen(name);
    if (m->dictionary && strncmp(m->dictionary, name, n) == 0 &&
        m->dictionary[n] == ':') /* a variable may hold it */
        return parse_is_sign(p, SIGN1('{')) ? dictionary(m) : read_arg(m, 0);
    ast *at = parse_node(p, AST_NAME, t.pos, t.end, 0);
    if (at && by_name(m, name, at))
        return true;
    if (p->cursor && !p->cursor->call)
        p->cursor->keyword = name;
    return false;
}

/* The i-th argument without a name. */
static bool by_position(method_call *m, int i)
{
    size_t n;
    token t = *parse_peek(m->p);
    if (i < m->b.nargs)
        return read_arg(m, i);
    const char *param = command_param_at(m->params, i, &n);
    char name[64] = "";
    if (!param || n >= sizeof name)
        return fail(m, t.pos, t.end, "", 0, "takes fewer arguments");
    memcpy(name, param, n);
    ast *given = parse_expr(m->p, false);
    return given && add_option(m, command_option_find(m->b.c, name, n), name, t.pos, given);
}

/* Everything up to the `)`, which is left. */
static bool arguments(method_call *m)
{
    parser *p = m->p;
    bool named = false;
    for (int i = 0; !parse_is_sign(p, SIGN1(')')); i++) {
        m->position = i;
        token t = *parse_peek(p);
        bool by = is_keyword(p);
        if (named && !by)
            return fail(m, t.pos, t.end, "", 0, "has a plain argument behind a named one");
        named = by;
        if (!(by                               ? keyword(m)
              : parse_is_sign(p, SIGN1('{')) ? dictionary(m)
                                             : by_position(m, i)))
            return false;
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
        kv_err_hint(p->e, "write it as a command: help %s", c->name);
        return NULL;
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
