/* Expressions: one function a level of precedence, from `if else` down to `**`; parse_primary.c
 * has what operators join.
 *
 * The two modes differ in three places only: where a sum may go on behind a `-` or `+`, where a
 * postfix may follow, and where > compares.
 */
#include <string.h>

#include "lang/parse.h"

static ast *unary(parser *p);

static ast *binary(parser *p, ast_op op, ast *left, ast *right)
{
    ast *pair[2] = {left, right};
    ast *node = left && right ? parse_node_of(p, AST_BINARY, left->pos, pair, 2) : NULL;
    if (node)
        node->op = (uint8_t)op;
    return node;
}

static ast *power(parser *p)
{
    ast *node = parse_primary(p);
    uint32_t pos = parse_peek(p)->pos;
    if (!node || !parse_accept(p, SIGN2('*', '*')))
        return node;
    if (!parse_deeper(p, pos))
        return NULL;
    node = binary(p, OP_POW, node, unary(p));
    p->depth--;
    return node;
}

static ast *unary_node(parser *p, ast_op op, uint32_t pos, ast *operand)
{
    ast *node = operand ? parse_node_of(p, AST_UNARY, pos, &operand, 1) : NULL;
    if (node)
        node->op = (uint8_t)op;
    return node;
}

/* ~a, which is invert(a), a function of the prelude. */
static ast *inverted(parser *p, uint32_t pos)
{
    ast *of = parse_deeper(p, pos) ? unary(p) : NULL;
    ast *node = of ? parse_node_of(p, AST_CALL, pos, &of, 1) : NULL;
    p->depth--;
    if (node)
        node->u.text = "invert";
    return node;
}

static ast *unary(parser *p)
{
    uint32_t pos = parse_peek(p)->pos;
    bool minus = parse_is_sign(p, SIGN1('-'));
    if (parse_accept(p, SIGN1('~')))
        return inverted(p, pos);
    if (!minus && !parse_is_sign(p, SIGN1('+')))
        return power(p);
    parse_take(p);
    ast *node = minus ? parse_smallest_integer(p, pos) : NULL;
    if (node || p->e->code || !parse_deeper(p, pos))
        return node;
    char sign = minus ? '-' : '+';
    bool doubled = pos > 0 && parse_char(p, pos - 1) == sign && parse_at_end(p);
    node = unary_node(p, minus ? OP_NEG : OP_POS, pos, unary(p));
    p->depth--;
    if (!node && doubled)
        kv_err_hint(p->e, minus ? "i -= 1 takes one away" : "i += 1 adds one");
    return node;
}

/* a @ b: their product if b is an array, else a on the device that b is. */
static ast *product(parser *p, ast *left)
{
    parse_take(p);
    if (parse_expects(p, EXPECT_CONTEXT, 0))
        return NULL;
    const token *t = parse_peek(p);
    if (t->kind != TOK_NAME && !parse_is_sign(p, SIGN1('$')) && !parse_is_sign(p, SIGN1('(')) &&
        !parse_is_sign(p, SIGN1('[')))
        return parse_unexpected(p, "a device, as in a@gpu(1),");
    ast *pair[2] = {left, unary(p)};
    ast *node = pair[1] ? parse_node_of(p, AST_AT, left->pos, pair, 2) : NULL;
    if (node)
        node->op = true;
    return node;
}

/* Returns true if only blanks stand between pos and the end of the statement. */
static bool is_last(const parser *p, uint32_t pos)
{
    char c = parse_char(p, parse_past_blanks(p, pos));
    return c == '\0' || strchr("\n;}|>#", c) != NULL;
}

/* In argument mode a sign with a blank on its left only begins a new argument, and so does a `-`
 * that ends the statement: it is a file, stdout. */
static bool begins_argument(const parser *p, const token *t)
{
    return p->arguments && t->blank_before && (!t->blank_after || is_last(p, t->end));
}

static ast *term(parser *p)
{
    ast *node = unary(p);
    while (node) {
        bool at = parse_is_sign(p, SIGN1('@')) && !begins_argument(p, parse_peek(p)) &&
                  parse_char(p, parse_peek(p)->end) != '=';
        if (parse_accept(p, SIGN1('*')))
            node = binary(p, OP_MUL, node, unary(p));
        else if (parse_accept(p, SIGN1('/')))
            node = binary(p, OP_DIV, node, unary(p));
        else if (parse_accept(p, SIGN2('/', '/')))
            node = binary(p, OP_FLOORDIV, node, unary(p));
        else if (parse_accept(p, SIGN1('%')))
            node = binary(p, OP_MOD, node, unary(p));
        else if (at)
            node = product(p, node);
        else
            break;
    }
    return node;
}

static ast *sum(parser *p)
{
    ast *node = term(p);
    while (node) {
        const token *t = parse_peek(p);
        bool minus = parse_is_sign(p, SIGN1('-'));
        if (!minus && !parse_is_sign(p, SIGN1('+')))
            break;
        if (begins_argument(p, t))
            break;
        parse_take(p);
        node = binary(p, minus ? OP_SUB : OP_ADD, node, term(p));
    }
    return node;
}

static ast *range(parser *p)
{
    ast *part[3] = {sum(p)};
    int n = 2;
    if (!part[0] || !parse_accept(p, SIGN2('.', '.')))
        return part[0];
    if (!(part[1] = sum(p)))
        return NULL;
    if (parse_accept_word(p, "by")) {
        if (!(part[2] = sum(p)))
            return NULL;
        n = 3;
    }
    return parse_node_of(p, AST_RANGE, part[0]->pos, part, n);
}

/* Takes `not in`, whose `not` is next; false when it is another `not`. */
static bool accept_not_in(parser *p)
{
    token t = parse_take(p);
    if (parse_accept_word(p, "in"))
        return true;
    parse_seek(p, t.pos);
    return false;
}

/* Takes a word that compares, if one is next. In arguments `is` is a word like others. */
static bool accept_test(parser *p, ast_op *op)
{
    if (parse_accept_word(p, "in"))
        *op = OP_IN;
    else if (parse_is_word(p, "not") && accept_not_in(p))
        *op = OP_NOT_IN;
    else if (!p->arguments && parse_accept_word(p, "is"))
        *op = parse_accept_word(p, "not") ? OP_IS_NOT : OP_IS;
    else
        return false;
    return true;
}

/* Takes a sign or word that compares, if one is next. */
static bool accept_comparison(parser *p, ast_op *op)
{
    static const struct {
        uint32_t sign;
        ast_op op;
    } signs[] = {{SIGN2('=', '='), OP_EQ}, {SIGN2('!', '='), OP_NE}, {SIGN2('<', '='), OP_LE},
                 {SIGN2('>', '='), OP_GE}, {SIGN1('<'), OP_LT},      {SIGN1('>'), OP_GT}};
    if (parse_peek(p)->kind == TOK_NAME)
        return accept_test(p, op);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (signs[i].op == OP_GT && (p->arguments || p->angles_redirect) && parse_at_file(p))
            continue;
        if (parse_accept(p, signs[i].sign)) {
            *op = signs[i].op;
            return true;
        }
    }
    return false;
}

static ast *comparison(parser *p, ast_op op, ast *left)
{
    ast *node = binary(p, op, left, range(p));
    if (node && op >= OP_IN)
        node->kind = AST_TEST;
    return node;
}

/* a < b < c: more comparisons behind the first, whose operator was taken. */
static ast *chain(parser *p, ast *first, ast_op op)
{
    ast_list parts = {0};
    if (!parse_append(p, &parts, first))
        return NULL;
    do {
        const ast *before = parts.items[parts.n - 1]->kid[1];
        ast *again = parse_node(p, AST_NONE, before->pos, before->end, 0);
        if (!parse_append(p, &parts, again ? comparison(p, op, again) : NULL))
            return NULL;
    } while (accept_comparison(p, &op));
    return parse_node_of(p, AST_CHAIN, first->pos, parts.items, parts.n);
}

static ast *compare(parser *p)
{
    ast_op op;
    ast *node = range(p);
    if (!node || !accept_comparison(p, &op))
        return node;
    node = comparison(p, op, node);
    return node && accept_comparison(p, &op) ? chain(p, node, op) : node;
}

static ast *negation(parser *p)
{
    uint32_t pos = parse_peek(p)->pos;
    if (!parse_accept_word(p, "not"))
        return compare(p);
    if (!parse_deeper(p, pos))
        return NULL;
    ast *node = unary_node(p, OP_NOT, pos, negation(p));
    p->depth--;
    return node;
}

ast *parse_disjunction(parser *p)
{
    ast *either = NULL;
    do {
        ast *all = negation(p);
        while (all && parse_accept_word(p, "and"))
            all = binary(p, OP_AND, all, negation(p));
        either = either ? binary(p, OP_OR, either, all) : all;
    } while (either && parse_accept_word(p, "or"));
    return either;
}

/* `if c else b` behind a; the `if` was taken. */
static ast *choice(parser *p, ast *chosen)
{
    ast *part[3] = {parse_disjunction(p), chosen, NULL};
    if (part[0] && !parse_expect_word(p, "else"))
        kv_err_hint(p->e, "a if c else b; `if c: …` is a statement");
    if (p->e->code || !parse_deeper(p, chosen->pos) || !(part[2] = parse_expression(p)))
        return NULL;
    p->depth--;
    return parse_node_of(p, AST_CHOICE, chosen->pos, part, 3);
}

ast *parse_expression(parser *p)
{
    if (parse_is_sign(p, SIGN1('*')) || parse_is_sign(p, SIGN2('*', '*')))
        return parse_starred(p);
    ast *node = parse_disjunction(p);
    if (node && parse_accept_word(p, "if"))
        node = choice(p, node);
    /* in arguments the next one begins behind a blank */
    bool apart = parse_peek(p)->blank_before;
    if (node && !p->arguments && parse_expects(p, apart ? EXPECT_OPERATOR : EXPECT_NOTHING, 0))
        return NULL;
    return node;
}

/* ---- Ways in ---- */

ast *parse_expr(parser *p, bool angles_redirect)
{
    bool arguments = p->arguments, angles = p->angles_redirect;
    p->arguments = false;
    p->angles_redirect = angles_redirect;
    ast *node = parse_expression(p);
    p->arguments = arguments;
    p->angles_redirect = angles;
    return node;
}

ast *parse_exprs(parser *p, bool angles_redirect)
{
    ast_list list = {0};
    uint32_t pos = parse_peek(p)->pos;
    ast *node = parse_expr(p, angles_redirect);
    if (!node || !parse_is_sign(p, SIGN1(',')))
        return node;
    while (parse_append(p, &list, node) && parse_accept(p, SIGN1(','))) {
        if (parse_at_end(p) || parse_is_sign(p, SIGN1(':')) || parse_is_sign(p, SIGN1('=')))
            break;
        node = parse_expr(p, angles_redirect);
    }
    return node ? parse_node_of(p, AST_TUPLE, pos, list.items, list.n) : NULL;
}

ast *parse_value(parser *p)
{
    const token *t = parse_peek(p);
    if ((parse_is_sign(p, SIGN1('-')) || parse_is_sign(p, SIGN1('+'))) && t->blank_before &&
        t->blank_after)
        return parse_fail(p, t->pos, t->end, KV_E_SYNTAX,
                          "`%c` joins two values, but none stands before it", (char)t->sign);
    bool arguments = p->arguments;
    p->arguments = true;
    ast *node = parse_expression(p);
    p->arguments = arguments;
    return node;
}

int parse_expr_text(ast **out, const source *s, arena *a, kv_err *e)
{
    own_parser p;
    kv_err unused = {0};
    parse_init(&p, s, a, e ? e : &unused);
    p.lx.in_brackets = true;
    *out = parse_expr(&p, false);
    if (*out && parse_peek(&p)->kind != TOK_END)
        *out = parse_unexpected(&p, "the end of the expression");
    return *out ? KV_OK : p.e->code;
}
