/* Literals: numbers and constants. */
#include "lang/parse.h"

static ast *integer(parser *p, uint32_t pos, int64_t value)
{
    ast *node = parse_node(p, AST_INT, pos, p->last, 0);
    if (node)
        node->u.integer = value;
    return node;
}

static ast *too_large(parser *p, const token *t)
{
    return parse_fail(p, t->pos, t->end, KV_E_VALUE, "%.*s is too large for a 64-bit integer",
                      parse_shown(p, t->pos, t->end), p->lx.src->text + t->pos);
}

ast *parse_number(parser *p)
{
    token t = parse_take(p);
    if (t.kind == TOK_INT && parse_has_zeros(p, t.pos, t.end)) {
        parse_fail(p, t.pos, t.end, KV_E_SYNTAX, "`%.*s` is not a number",
                   parse_shown(p, t.pos, t.end), p->lx.src->text + t.pos);
        kv_err_hint(p->e, "a whole number begins with no 0, as in Python");
        return NULL;
    }
    if (t.kind == TOK_INT)
        return t.integer < 0 ? too_large(p, &t) : integer(p, t.pos, t.integer);
    ast *node = parse_node(p, AST_FLOAT, t.pos, t.end, 0);
    if (node)
        node->u.number = t.number;
    return node;
}

ast *parse_constant(parser *p)
{
    const token *t = parse_peek(p);
    bool yes = parse_is_word(p, "true") || parse_is_word(p, "True");
    double value;
    ast *node = NULL;
    if (yes || parse_is_word(p, "false") || parse_is_word(p, "False")) {
        if ((node = parse_node(p, AST_BOOL, t->pos, t->end, 0)))
            node->u.integer = yes;
    } else if (parse_is_word(p, "none") || parse_is_word(p, "None")) {
        node = parse_node(p, AST_NONE, t->pos, t->end, 0);
    } else if (parse_is_constant(p->lx.src->text + t->pos, t->end - t->pos, &value)) {
        if ((node = parse_node(p, AST_FLOAT, t->pos, t->end, 0)))
            node->u.number = value;
    }
    if (node)
        parse_take(p);
    return node;
}

ast *parse_smallest_integer(parser *p, uint32_t pos)
{
    token t = *parse_peek(p);
    if (t.kind != TOK_INT || t.integer >= 0 || parse_has_zeros(p, t.pos, t.end))
        return NULL;
    parse_take(p);
    if (parse_is_sign(p, SIGN2('*', '*')))
        return too_large(p, &t);
    return integer(p, pos, INT64_MIN);
}

/* The number behind the minus of a literal. */
static ast *negative(parser *p, uint32_t pos)
{
    tok_kind kind = parse_peek(p)->kind;
    ast *node = parse_smallest_integer(p, pos);
    if (node || p->e->code)
        return node;
    if (kind != TOK_INT && kind != TOK_FLOAT && !parse_is_word(p, "inf"))
        return parse_unexpected(p, "a number");
    if (!(node = kind == TOK_NAME ? parse_constant(p) : parse_number(p)))
        return NULL;
    node->pos = pos;
    if (node->kind == AST_INT)
        node->u.integer = -node->u.integer;
    else
        node->u.number = -node->u.number;
    return node;
}

ast *parse_literal(parser *p)
{
    token t = *parse_peek(p);
    if (t.kind == TOK_STRING)
        return parse_quoted(p);
    if (t.kind == TOK_INT || t.kind == TOK_FLOAT)
        return parse_number(p);
    if (parse_accept(p, SIGN1('-')))
        return negative(p, t.pos);
    ast *node = t.kind == TOK_NAME ? parse_constant(p) : NULL;
    return node || p->e->code ? node : parse_unexpected(p, "a number, text, true, false or none");
}
