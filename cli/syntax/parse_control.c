/* The parser of statements that begin with a keyword: import, branches, loops, functions. */
#include "syntax/parse_statement.h"

#include <string.h>

#include "syntax/hints.h"
#include "syntax/parse_command.h"

/* ---- import, and npx.set_np() ---- */

bool parse_at_import(parser *p)
{
    token t = *parse_peek(p);
    bool import = parse_is_word(p, "import") || parse_is_word(p, "from"), of_module = false;
    if (import)
        parse_take(p);
    while (!import && parse_skip_module(p))
        of_module = true;
    if (!import && !of_module)
        return false;
    bool found = import ? parse_peek(p)->kind == TOK_NAME : parse_is_word(p, "set_np");
    parse_seek(p, t.pos);
    return found;
}

static bool name(parser *p, const char *wanted)
{
    if (parse_peek(p)->kind != TOK_NAME)
        return !parse_expects(p, EXPECT_NOTHING, 0) && parse_unexpected(p, wanted);
    parse_take(p);
    return true;
}

/* a.b.c */
static bool module(parser *p)
{
    if (refuse_module(p))
        return false;
    do
        if (parse_refuse_part(p, true) || !name(p, "the name of a module"))
            return false;
    while (parse_accept(p, SIGN1('.')));
    return true;
}

static bool imported_name(parser *p)
{
    return !parse_refuse_part(p, true) && name(p, "a name");
}

/* one [as NAME], … In brackets a comma may come last. */
static bool list(parser *p, bool (*one)(parser *p), bool brackets)
{
    do {
        if (!one(p) || (parse_accept_word(p, "as") && !name(p, "a name")))
            return false;
    } while (parse_accept(p, SIGN1(',')) && !(brackets && parse_is_sign(p, SIGN1(')'))));
    return true;
}

/* Behind from: MODULE import *, or names, which may stand in brackets. */
static bool from_module(parser *p)
{
    bracket b;
    if (!module(p) || !parse_expect_word(p, "import"))
        return false;
    if (parse_accept(p, SIGN1('*')))
        return true;
    if (!parse_is_sign(p, SIGN1('(')))
        return list(p, imported_name, false);
    return parse_open(p, &b) && list(p, imported_name, true) && parse_close(p, &b);
}

ast *parse_import(parser *p)
{
    uint32_t pos = parse_peek(p)->pos;
    bool read;
    if (parse_accept_word(p, "import"))
        read = list(p, module, false);
    else if (parse_accept_word(p, "from"))
        read = from_module(p);
    else
        read = parse_exprs(p, false) != NULL; /* npx.set_np() */
    return read ? parse_node_of(p, AST_BLOCK, pos, NULL, 0) : NULL;
}

/* ---- Blocks ---- */

static bool one_more(parser *p, ast_list *list)
{
    return parse_append(p, list, parse_statement(p));
}

/* header: the position of the `if`, `for`, `def` … that the block belongs to, also for the block of
 * an `else`. An indented block ends at the first line that is indented no further than that one. */
static ast *block(parser *p, uint32_t header)
{
    if (parse_is_sign(p, SIGN1(':')))
        return parse_indented(p, header, one_more);
    bool begins = parse_is_sign(p, SIGN1('{'));
    ast *node = parse_braced(p, one_more);
    if (!begins && !p->cursor)
        kv_err_hint(p->e, "a block is { … }, or lines indented below a `:`");
    return node;
}

/* The expression before a block. When the parser recovers from an error in it, the block is read
 * all the same. */
static ast *head(parser *p, ast *(*parse)(parser *p, bool angles_redirect))
{
    parser before = *p;
    p->before_block = true;
    ast *expr = parse(p, false);
    p->before_block = before.before_block;
    if (!expr && p->recover && p->recover(p, &before, true))
        expr = parse_node_of(p, AST_NONE, p->last, NULL, 0);
    return expr;
}

ast *parse_block(parser *p)
{
    return parse_braced(p, one_more);
}

/* ---- Branches and loops ---- */

static ast *condition(parser *p, bool angles_redirect)
{
    (void)angles_redirect;
    return head(p, parse_expr);
}

static ast *if_statement(parser *p, uint32_t pos)
{
    return parse_branch(p, pos, STMT_IF, condition, block);
}

static ast *for_statement(parser *p, uint32_t pos)
{
    ast *part[3] = {0};
    parser before = *p;
    part[0] = parse_targets(p);
    if (part[0] && parse_expect_word(p, "in"))
        part[1] = head(p, parse_exprs);
    else if (p->recover && p->recover(p, &before, true))
        part[0] = part[1] = parse_node_of(p, AST_NONE, p->last, NULL, 0);
    if (!part[1] || !(part[2] = block(p, pos)))
        return NULL;
    return parse_node_of(p, STMT_FOR, pos, part, 3);
}

static ast *while_statement(parser *p, uint32_t pos)
{
    ast *part[2] = {0};
    if (!(part[0] = head(p, parse_expr)) || !(part[1] = block(p, pos)))
        return NULL;
    return parse_node_of(p, STMT_WHILE, pos, part, 2);
}

static ast *repeat_statement(parser *p, uint32_t pos)
{
    ast *part[2] = {0};
    bool arguments = p->arguments;
    p->arguments = p->before_block = true; /* `repeat n [a]` is a count and a statement */
    part[0] = parse_primary(p);
    p->arguments = arguments;
    p->before_block = false;
    if (!part[0])
        return NULL;
    if (parse_at_end(p) && !p->cursor)
        return parse_unexpected(p, "a statement or a block");
    if (!parse_deeper(p, pos))
        return NULL;
    part[1] = parse_is_sign(p, SIGN1('{')) ? block(p, pos) : parse_statement(p);
    p->depth--;
    return part[1] ? parse_node_of(p, STMT_REPEAT, pos, part, 2) : NULL;
}

/* ---- Functions ---- */

/* Returns true after an error: a type stands behind a parameter or a function, as Python allows. */
static bool refuse_type(parser *p, uint32_t sign)
{
    const token *t = parse_peek(p);
    if (!parse_is_sign(p, sign))
        return false;
    parse_fail(p, t->pos, t->end, KV_E_UNSUPPORTED, "parameters and functions have no types");
    kv_err_hint(p->e, "def f(x, y=1): …");
    return true;
}

/* (a, b=1) of a def, appended to list as AST_NAME, or AST_ARG with a default value. */
static bool parameters(parser *p, ast_list *list)
{
    bracket b;
    if (!parse_is_sign(p, SIGN1('(')))
        return parse_unexpected(p, "`(`");
    if (!parse_open(p, &b))
        return false;
    bool defaults = false;
    while (!parse_is_sign(p, SIGN1(')'))) {
        token t = *parse_peek(p);
        if (parse_is_sign(p, SIGN1('*')) || parse_is_sign(p, SIGN2('*', '*'))) {
            parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED,
                       "a function takes a fixed number of arguments");
            return parse_hint(p, "give it a list: def f(items)");
        }
        const char *name = parse_new_name(p, "the name of a parameter or `)`");
        for (uint32_t i = 1; name && i < list->n; i++) /* the first is the body's place */
            if (strcmp(list->items[i]->u.text, name) == 0)
                return parse_fail(p, t.pos, t.end, KV_E_USAGE, "there are two parameters `%s`",
                                  name);
        if (name && refuse_type(p, SIGN1(':')))
            return false;
        bool given = name && parse_accept(p, SIGN1('='));
        ast *otherwise = given ? parse_expr(p, false) : NULL;
        if (defaults && !given && name)
            return parse_fail(p, t.pos, t.end, KV_E_SYNTAX,
                              "`%s` stands behind a parameter with a default and has none", name);
        defaults = given;
        ast *one = given && !otherwise ? NULL
                   : given             ? parse_node_of(p, AST_ARG, t.pos, &otherwise, 1)
                   : name              ? parse_node(p, AST_NAME, t.pos, t.end, 0)
                                       : NULL;
        if (!parse_append(p, list, one))
            return false;
        one->u.text = name;
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    return parse_close(p, &b);
}

/* Returns true if the def whose block is next is an updater as MXNet takes them: its parameters are
 * those of one, and the block does not hold statements of the language but those of a rule, such as
 * `state m`. Where it is neither, the error is that of the reader that came further. */
static bool is_rule(parser *p, const ast_list *parts, uint32_t pos)
{
    parser before = *p;
    kv_err found[2] = {{0}}, *e = p->e;
    ast *read[2] = {NULL};
    enum { DEEP = 8 }; /* each def around it doubles the times that it is read */
    if (p->cursor || p->depth > DEEP || !def_may_update(parts->items, parts->n) ||
        !parse_is_sign(p, SIGN1(':')))
        return false;
    for (int i = 0; i < 2 && !read[0]; i++) {
        p->e = &found[i];
        p->recover = NULL;
        if (i > 0)
            parse_seek(p, pos);
        read[i] = i > 0 ? parse_rule_node(p) : block(p, pos);
        parse_back(p, &before);
        p->lx.incomplete = before.lx.incomplete;
    }
    p->recover = before.recover;
    bool further = found[1].line > found[0].line ||
                   (found[1].line == found[0].line && found[1].col == found[0].col);
    return parse_looked(p, e, &found[0]) && !read[0] && (read[1] || further);
}

/* A function whose parameters or body cannot be read, when the parser recovers: its name is known,
 * so that calls of it are no errors too. before: the parser behind the name. */
static ast *broken_def(parser *p, const parser *before, uint32_t pos)
{
    ast *body = NULL;
    if (!p->recover)
        return NULL;
    if (p->recover(p, before, true))
        body = block(p, pos);
    else if (p->e->code || (parse_peek(p)->kind != TOK_END && !p->recover(p, before, false)))
        return NULL;
    ast *node = parse_node_of(p, STMT_DEF, pos, &body, 1);
    if (node)
        node->op = STMT_DEF_BROKEN;
    return node;
}

/* def NAME(a, b) { … } or def NAME(a, b) = expr */
static ast *def_statement(parser *p, uint32_t pos)
{
    ast_list parts = {0};
    ast *node = NULL;
    const char *name = parse_new_name(p, "the name of a function");
    if (!name)
        return NULL;
    parser before = *p;
    /* the first place is the body's */
    if (!parse_append(p, &parts, parse_node(p, AST_NONE, pos, pos, 0)) || !parameters(p, &parts) ||
        refuse_type(p, SIGN2('-', '>')))
        goto out;
    if (is_rule(p, &parts, pos)) {
        parse_seek(p, pos);
        return p->e->code ? NULL : parse_rule_node(p);
    }
    bool is_expr = parse_accept(p, SIGN1('='));
    if (!(parts.items[0] = is_expr ? parse_expr(p, false) : block(p, pos)))
        goto out;
    if ((node = parse_node_of(p, STMT_DEF, pos, parts.items, parts.n)))
        node->op = is_expr;
out:
    if (!node)
        node = broken_def(p, &before, pos);
    if (node)
        node->u.text = name;
    return node;
}

static ast *return_statement(parser *p, uint32_t pos)
{
    ast *given = NULL;
    if (!parse_at_end(p) && !(given = parse_exprs(p, false)))
        return NULL;
    return parse_node_of(p, STMT_RETURN, pos, &given, given != NULL);
}

/* ---- Keywords ---- */

/* The words that begin a statement, what follows each, and the kind of a statement of one word.
 * parse_control itself handles words without a parser or a kind: `updater` may also be a name, and
 * `elif` and `else` only begin a statement by mistake. */
static const struct {
    const char *word;
    ast *(*parse)(parser *p, uint32_t pos);
    const char *rest;
    int kind;
} keywords[] = {{"if", if_statement, "EXPR { ... } [else { ... }]", 0},
                {"for", for_statement, "NAME in EXPR { ... }", 0},
                {"while", while_statement, "EXPR { ... }", 0},
                {"repeat", repeat_statement, "N STATEMENT | { ... }", 0},
                {"def", def_statement, "NAME(A, B) { ... }", 0},
                {"updater", NULL, "NAME(PARAM = 0.1) { stored += input }", 0},
                {"return", return_statement, "", 0},
                {"break", NULL, "", STMT_BREAK},
                {"continue", NULL, "", STMT_CONTINUE},
                {"pass", NULL, "", AST_BLOCK},
                {"elif", NULL, "", 0},
                {"else", NULL, "", 0},
                {NULL, NULL, NULL, 0}};

const char *statement_keyword(int i, const char **rest)
{
    *rest = keywords[i].rest;
    return keywords[i].word;
}

ast *parse_control(parser *p, bool *known)
{
    token t = *parse_peek(p);
    /* `repeat(a, 2)` is the function; the statement has a blank before its count */
    *known = !(parse_is_word(p, "repeat") && parse_char(p, t.end) == '(');
    if (!*known)
        return NULL;
    for (int i = 0; keywords[i].word; i++)
        if ((keywords[i].parse || keywords[i].kind) && parse_accept_word(p, keywords[i].word))
            return keywords[i].parse ? keywords[i].parse(p, t.pos)
                                     : parse_node_of(p, keywords[i].kind, t.pos, NULL, 0);
    /* A sign or the end of the line behind `updater` makes it a name:
     * updater = mx.optimizer.get_updater(opt). Completion takes it for the keyword always. */
    uint32_t behind = parse_past_blanks(p, t.end);
    bool rule = !strchr("=.([;#\n", parse_char(p, behind)) || p->cursor;
    if (rule && parse_is_word(p, "updater"))
        return parse_rule_node(p);
    if (parse_is_word(p, "elif") || parse_is_word(p, "else")) {
        parse_fail(p, t.pos, t.end, KV_E_SYNTAX, "`%.*s` follows the block of its `if`",
                   (int)(t.end - t.pos), p->lx.src->text + t.pos);
        if (parse_is_word(p, "else"))
            kv_err_hint(p->e, "a loop has none: set a name before `break`, and ask for it");
        return NULL;
    }
    *known = false;
    return NULL;
}
