/* The call form: kv.push(3, a) is the command push, read by the same table.
 *
 * An argument finds its place in the command by its position or its name, both in MXNet's way where
 * the table has one. What comes out is the node that the command itself has, so that nothing behind
 * the parser knows of two forms; only around it an AST_STORE says which store is meant.
 */
#include "syntax/parse_method.h"

#include <string.h>

#include "syntax/parse_command.h"
#include "syntax/statement.h"

/* Parameters of a rule may be many. */
#define MAX_PARTS (COMMAND_MAX_ARGS + 70)

typedef struct method_call {
    parser *p;
    const command *c;
    const char *params;     /* "key, value, priority)" of the table, or "" */
    const char *dictionary; /* the name that may hold them; it ends at a colon. NULL: none */
    int nargs;              /* the first of the parameters are the command's arguments */
    ast *parts[MAX_PARTS];  /* these, and behind them the options */
    int n;
} method_call;

/* ---- Parameters by name ---- */

/* The i-th parameter's name, n bytes of it; NULL behind the last. */
static const char *param_at(const method_call *m, int i, size_t *n)
{
    const char *at = m->params;
    for (; i > 0 && *at; i--) {
        at += strcspn(at, ",)");
        at += strspn(at, ",) ");
    }
    *n = strcspn(at, ",=)"); /* a default stands behind = */
    return *n > 0 ? at : NULL;
}

/* The position of a parameter, or -1. */
static int find_param(const method_call *m, const char *name)
{
    size_t n;
    const char *param;
    for (int i = 0; (param = param_at(m, i, &n)); i++)
        if (strlen(name) == n && memcmp(param, name, n) == 0)
            return i;
    return -1;
}

/* The option of a command that a keyword with _ for - means, or NULL. */
static const command_option *find_option(const command *c, const char *name)
{
    for (const command_option *o = c->options; o->name; o++) {
        size_t i = 0;
        while (o->name[i] && name[i] == (o->name[i] == '-' ? '_' : o->name[i]))
            i++;
        if (!o->name[i] && !name[i])
            return o;
    }
    return NULL;
}

static ast *fail(method_call *m, uint32_t pos, uint32_t end, const char *what, size_t n,
                 const char *why)
{
    buf usage = {0};
    parse_fail(m->p, pos, end, KV_E_USAGE, "`%s` %s%.*s", m->c->name, why, (int)n, what);
    command_call_usage(&usage, m->c);
    kv_err_hint(m->p->e, "%s", buf_text(&usage));
    buf_release(&usage);
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

/* Whether `name =` is next. */
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
    token t = parse_take(p);
    ast *name = parse_node(p, AST_TEXT, t.pos, t.end, 0);
    bracket b;
    if (!name || !(name->u.text = parse_token_text(p, &t)))
        return NULL;
    if (!parse_is_sign(p, SIGN1('(')))
        return name;
    method_call inner = {.p = p, .c = m->c, .params = ""};
    if (!parse_open(p, &b))
        return NULL;
    if (strcmp(name->u.text, "create") == 0) {
        if (!(name = parse_expr(p, false)))
            return NULL;
        parse_accept(p, SIGN1(','));
    }
    if (!parse_is_sign(p, SIGN1(')')) && !is_keyword(p)) {
        token wrong = *parse_peek(p);
        return parse_fail(p, wrong.pos, wrong.end, KV_E_USAGE,
                          "the parameters of an optimizer have names: learning_rate=0.1");
    }
    if (!arguments(&inner) || !parse_close(p, &b))
        return NULL;
    for (int i = 0; i < inner.n; i++) {
        if (m->n == MAX_PARTS)
            return fail(m, t.pos, t.end, "", 0, "has too many options");
        m->parts[m->n++] = inner.parts[i];
    }
    return name;
}

/* An updater of the script, or an optimizer, by its name or as MXNet makes one. */
static ast *rule(method_call *m)
{
    parser *p = m->p;
    while (parse_skip_module(p))
        ;
    token t = *parse_peek(p);
    if (strcmp(m->c->name, "set-updater") == 0 &&
        (parse_accept_word(p, "None") || parse_accept_word(p, "none"))) {
        ast *name = parse_node(p, AST_TEXT, t.pos, t.end, 0); /* MXNet's word for no updater */
        if (name)
            name->u.text = "assign";
        return name;
    }
    if (t.kind != TOK_NAME)
        return parse_expr(p, false);
    if (parse_is_word(p, "optimizer") && parse_char(p, t.end) == '.') {
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
    if (m->parts[i])
        return fail(m, t.pos, t.end, m->c->args[i].name, strlen(m->c->args[i].name),
                    "has two values for ");
    arg_kind kind = m->c->args[i].kind;
    ast *one = kind == ARG_KEYS     ? keys(m->p)
               : kind == ARG_VALUES ? wrapped(m->p, AST_LIST, parse_expr(m->p, false))
               : kind == ARG_RULE   ? rule(m)
                                    : parse_expr(m->p, false);
    m->parts[i] = one;
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
    if (o && o->kind == OPTION_NAME && given->kind != AST_NAME)
        return parse_fail(m->p, given->pos, given->end, KV_E_USAGE,
                          "%s needs the name of a variable", name);
    if (flag && !given->u.integer)
        return true;
    ast *node = parse_node_of(m->p, STMT_OPTION, pos, &given, !flag);
    char dashed[64] = "";
    strncpy(dashed, name, sizeof dashed - 1);
    for (char *c = dashed; *c; c++)
        *c = *c == '_' ? '-' : *c;
    if (!node || !(node->u.text = parse_intern(m->p, dashed, strlen(dashed))))
        return false;
    for (int i = m->nargs; i < m->n; i++)
        if (strcmp(m->parts[i]->u.text, node->u.text) == 0)
            return fail(m, given->pos, given->end, name, strlen(name), "has two values for ");
    if (m->n == MAX_PARTS)
        return fail(m, given->pos, given->end, "", 0, "has too many options");
    m->parts[m->n++] = node;
    return true;
}

/* The value of a parameter by its name; at: where the name stands. */
static bool by_name(method_call *m, const char *name, const ast *at)
{
    int i = find_param(m, name);
    if (i >= 0 && i < m->nargs)
        return read_arg(m, i);
    const command_option *o = find_option(m->c, name);
    /* an option that MXNet's name hides is none of the call's */
    if (!o && !(m->c->flags & COMMAND_PARAMS))
        return fail(m, at->pos, at->end, name, strlen(name), "has no argument ");
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

static bool names_dictionary(const method_call *m, const char *name)
{
    size_t n = strlen(name);
    return m->dictionary && strncmp(m->dictionary, name, n) == 0 && m->dictionary[n] == ':';
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
    if (names_dictionary(m, name))
        return dictionary(m);
    ast *at = parse_node(p, AST_NAME, t.pos, t.end, 0);
    return at && by_name(m, name, at);
}

/* The i-th argument without a name. */
static bool by_position(method_call *m, int i)
{
    size_t n;
    token t = *parse_peek(m->p);
    if (i < m->nargs)
        return read_arg(m, i);
    const char *param = param_at(m, i, &n);
    char name[64] = "";
    if (!param || n >= sizeof name)
        return fail(m, t.pos, t.end, "", 0, "takes fewer arguments");
    memcpy(name, param, n);
    ast *given = parse_expr(m->p, false);
    return given && add_option(m, find_option(m->c, name), name, t.pos, given);
}

/* Everything up to the `)`, which is left. */
static bool arguments(method_call *m)
{
    parser *p = m->p;
    bool named = false;
    for (int i = 0; !parse_is_sign(p, SIGN1(')')); i++) {
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

/* Whether everything is there that the command does not go without. */
static bool is_whole(method_call *m, const token *name)
{
    size_t n;
    for (int i = 0; i < m->nargs; i++) {
        const char *param = param_at(m, i, &n);
        if (m->parts[i] || m->c->args[i].optional)
            continue;
        if (!param)
            param = m->c->args[i].name, n = strlen(param);
        return fail(m, name->pos, name->end, param, n, "needs ");
    }
    for (const command_option *o = m->c->options; o->name; o++) {
        bool given = o->kind != OPTION_NEEDED;
        for (int i = m->nargs; i < m->n && !given; i++)
            given = strcmp(m->parts[i]->u.text, o->name) == 0;
        if (!given)
            return fail(m, name->pos, name->end, o->name, strlen(o->name), "needs ");
    }
    return true;
}

static void read_table(method_call *m)
{
    const char *method = m->c->method, *open = method ? strchr(method, '(') : NULL;
    const char *colon = open ? strchr(open, ':') : NULL;
    m->params = colon ? colon + 2 : open ? open + 1 : "";
    m->dictionary = colon ? open + 1 : NULL;
    while (m->c->args[m->nargs].kind != ARG_END)
        m->nargs++;
    m->n = m->nargs;
}

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
    method_call m = {.p = p, .c = c};
    read_table(&m);
    if ((brackets && (!parse_open(p, &b) || !arguments(&m) || !parse_close(p, &b))) ||
        !is_whole(&m, name))
        return NULL;
    ast *call = parse_node_of(p, STMT_COMMAND, store->pos, m.parts, m.n);
    if (!call)
        return NULL;
    call->u.other = (void *)(uintptr_t)c;
    ast *node = wrapped(p, AST_STORE, call);
    if (node)
        node->u.text = store->u.text;
    return node;
}

/* ---- Statements around it ---- */

ast *parse_store_made(parser *p, ast *assign)
{
    const ast *target = assign->kid[0], *call = assign->kid[1];
    ast *parts[COMMAND_MAX_ARGS + COMMAND_MAX_OPTIONS + 1];
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
    memcpy(parts, call->kid, call->n * sizeof *parts);
    parts[call->n] = name;
    ast *node = parse_node_of(p, STMT_COMMAND, assign->pos, parts, call->n + 1);
    if (node)
        node->u.other = (void *)(uintptr_t)c;
    return node;
}
