/* Displays, which write a list, a tuple or a dict in brackets, item by item or as a comprehension;
 * and targets, the names and items that are given values.
 */
#include <string.h>

#include "lang/parse.h"

/* ---- Targets ---- */

const char *parse_new_name(parser *p, const char *wanted)
{
    token t = *parse_peek(p);
    double number;
    if (t.kind != TOK_NAME)
        return (parse_unexpected(p, wanted), NULL);
    const char *name = parse_token_text(p, &t);
    if (!name)
        return NULL;
    bool reserved = parse_is_reserved(name);
    if (reserved || parse_is_constant(name, strlen(name), &number)) {
        parse_fail(p, t.pos, t.end, KV_E_SYNTAX, "`%s` is a %s", name,
                   reserved ? "word of the language" : "constant");
        kv_err_hint(p->e, "it has a meaning of its own, so it names nothing else: take %s_", name);
        return NULL;
    }
    parse_take(p);
    parse_made(p, name);
    return name;
}

ast *parse_starred(parser *p)
{
    token t = *parse_peek(p);
    parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "`*` unpacks nothing here");
    kv_err_hint(p->e, t.sign == SIGN2('*', '*')
                          ? "d.update(e) puts what the dict e holds into d"
                          : "name each item, or take a slice: first = l[0]; rest = l[1:]");
    return NULL;
}

static ast *targets(parser *p);

static ast *target(parser *p)
{
    token t = *parse_peek(p);
    bracket b;
    bool item = false;
    if (parse_is_sign(p, SIGN1('*')))
        return parse_starred(p);
    if (parse_is_sign(p, SIGN1('(')) || parse_is_sign(p, SIGN1('['))) {
        ast *inner = parse_open(p, &b) ? targets(p) : NULL;
        return inner && parse_close(p, &b) ? inner : NULL;
    }
    if (t.kind == TOK_NAME) {
        parse_take(p);
        item = parse_is_sign(p, SIGN1('[')) || parse_is_sign(p, SIGN1('.'));
        parse_seek(p, t.pos);
    }
    if (item)
        return parse_primary(p);
    const char *name = parse_new_name(p, "the name of a variable");
    ast *node = name ? parse_node(p, AST_NAME, t.pos, t.end, 0) : NULL;
    if (node)
        node->u.text = name;
    return node;
}

/* target, target, … */
static ast *targets(parser *p)
{
    ast_list list = {0};
    bool comma = false, more = true;
    uint32_t pos = parse_peek(p)->pos;
    while (more) {
        if (!parse_append(p, &list, target(p)))
            return NULL;
        bool another = parse_accept(p, SIGN1(','));
        comma |= another;
        more = another && (parse_peek(p)->kind == TOK_NAME ? !parse_is_word(p, "in")
                                                           : parse_is_sign(p, SIGN1('(')) ||
                                                                 parse_is_sign(p, SIGN1('[')) ||
                                                                 parse_is_sign(p, SIGN1('*')));
    }
    return comma ? parse_node_of(p, AST_TUPLE, pos, list.items, list.n) : list.items[0];
}

/* Items are those of variables: what a call gives has no name to change it by. */
static bool check_targets(parser *p, const ast *node)
{
    const ast *base = node;
    bool ok = true;
    for (uint32_t i = 0; node->kind == AST_TUPLE && i < node->n && ok; i++)
        ok = check_targets(p, node->kid[i]);
    while (base->kind == AST_INDEX)
        base = base->kid[0];
    if (ok && base->kind != AST_NAME && node->kind != AST_TUPLE)
        return parse_fail(p, node->pos, node->end, KV_E_SYNTAX,
                          "only a name or an index of one can be given a value");
    return ok;
}

ast *parse_targets(parser *p)
{
    ast *node = targets(p);
    return node && check_targets(p, node) ? node : NULL;
}

bool parse_begins_assignment(parser *p)
{
    kv_err unused = {0};
    parser before = *p;
    /* cppcheck-suppress autoVariables ; parse_back brings the old one back */
    p->e = &unused; /* only a look ahead: an error shows again when it is parsed */
    const ast *node = targets(p);
    int op = node ? parse_assign_op(p) : PARSE_NO_ASSIGN;
    parse_back(p, &before);
    if (unused.code == KV_E_MEMORY && p->e->code == KV_OK)
        *p->e = unused; /* nothing is known about what stands here */
    return op == PARSE_PLAIN || (op != PARSE_NO_ASSIGN && node->kind != AST_TUPLE);
}

/* ---- Comprehensions ---- */

/* for TARGETS in LIST, of which `for` was taken. */
static ast *for_clause(parser *p, uint32_t pos)
{
    ast *pair[2] = {parse_targets(p), NULL};
    if (!pair[0] || !parse_expect_word(p, "in") || !(pair[1] = parse_disjunction(p)))
        return NULL;
    return parse_node_of(p, AST_FOR, pos, pair, 2);
}

/* `for` clauses behind the body of a comprehension that began at pos. Gives AST_COMP or, of
 * `for 4 gpus`, AST_COPIES. */
static ast *comprehension(parser *p, ast *body, uint32_t pos)
{
    ast_list parts = {0};
    token t = parse_take(p);
    if (parse_peek(p)->kind == TOK_INT || parse_is_sign(p, SIGN1('$'))) {
        /* [E for COUNT gpus] */
        ast *pair[2] = {body, parse_operand(p)};
        bool gpus = parse_is_word(p, "gpus");
        if (!pair[1])
            return NULL;
        if (!gpus && !parse_is_word(p, "cpus"))
            return parse_unexpected(p, "`gpus` or `cpus`");
        parse_take(p);
        ast *node = parse_node_of(p, AST_COPIES, pos, pair, 2);
        if (node)
            node->op = gpus;
        return node;
    }
    bool ok = parse_append(p, &parts, body) && parse_append(p, &parts, for_clause(p, t.pos));
    while (ok) {
        t = *parse_peek(p);
        if (parse_accept_word(p, "for"))
            ok = parse_append(p, &parts, for_clause(p, t.pos));
        else if (parse_accept_word(p, "if")) {
            ast *condition = parse_disjunction(p);
            ok = parse_append(p, &parts,
                              condition ? parse_node_of(p, AST_ONLY, t.pos, &condition, 1) : NULL);
        } else {
            return parse_node_of(p, AST_COMP, pos, parts.items, parts.n);
        }
    }
    return NULL;
}

/* ---- Lists and tuples ---- */

static ast *list(parser *p)
{
    ast_list items = {0};
    bracket b;
    if (!parse_open(p, &b))
        return NULL;
    while (!parse_is_sign(p, SIGN1(']'))) {
        if (!parse_append(p, &items, parse_expression(p)))
            return NULL;
        if (items.n == 1 && parse_is_word(p, "for")) {
            ast *node = comprehension(p, items.items[0], b.pos);
            if (!node || !parse_close(p, &b))
                return NULL;
            node->end = p->last;
            return node;
        }
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    return parse_close(p, &b) ? parse_node_of(p, AST_LIST, b.pos, items.items, items.n) : NULL;
}

ast *parse_generator(parser *p, const char *function, ast *body)
{
    static const char *const takers[] = {"sum", "any",  "all",   "max",    "min",  "list",
                                         "len", "dict", "tuple", "sorted", "join", "array"};
    token t = *parse_peek(p);
    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
        if (strcmp(function, takers[i]) == 0)
            return comprehension(p, body, body->pos);
    parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "there are no generators");
    kv_err_hint(p->e, "a list: [x for x in l]");
    return NULL;
}

static ast *parens(parser *p)
{
    ast_list items = {0};
    bool comma = false;
    bracket b;
    if (!parse_open(p, &b))
        return NULL;
    while (!parse_is_sign(p, SIGN1(')'))) {
        if (!parse_append(p, &items, parse_expression(p)))
            return NULL;
        comma = parse_accept(p, SIGN1(','));
        if (!comma)
            break;
    }
    if (items.n == 1 && parse_is_word(p, "for"))
        return parse_generator(p, "", items.items[0]);
    if (!parse_close(p, &b))
        return NULL;
    if (items.n != 1 || comma)
        return parse_node_of(p, AST_TUPLE, b.pos, items.items, items.n);
    ast *node = items.items[0];
    node->flags |= AST_PARENS;
    node->pos = b.pos;
    node->end = p->last;
    return node;
}

/* ---- Dicts ---- */

/* key: value, appended to parts. */
static bool pair(parser *p, const bracket *b, ast_list *parts)
{
    if (!parse_append(p, parts, parse_expression(p)))
        return false;
    if (parse_is_sign(p, SIGN1(',')) || parse_is_sign(p, SIGN1('}')) || parse_is_word(p, "for")) {
        parse_fail(p, b->pos, b->pos + 1, KV_E_UNSUPPORTED, "there are no sets");
        kv_err_hint(p->e, "a list: [1, 2]; a dict: {'a': 1, 'b': 2}");
        return false;
    }
    return parse_expect(p, SIGN1(':'), "`:` and the value of a key") &&
           parse_append(p, parts, parse_expression(p));
}

static ast *dict(parser *p)
{
    ast_list parts = {0};
    ast *node = NULL;
    bracket b;
    if (!parse_open(p, &b))
        return NULL;
    p->lx.in_brackets = true; /* here { } is a bracket, no block */
    while (!parse_is_sign(p, SIGN1('}'))) {
        if (parse_is_sign(p, SIGN2('*', '*')))
            return parse_starred(p);
        if (!pair(p, &b, &parts))
            return NULL;
        if (parts.n == 2 && parse_is_word(p, "for")) {
            /* {key: value for …}: the pair is the body */
            ast *body = parse_node_of(p, AST_TUPLE, parts.items[0]->pos, parts.items, 2);
            node = body ? comprehension(p, body, b.pos) : NULL;
            if (node && node->kind == AST_COMP)
                node->op = 1;
            break;
        }
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    if (!parse_close(p, &b))
        return NULL;
    if (!node)
        return parse_node_of(p, AST_DICT, b.pos, parts.items, parts.n);
    node->end = p->last;
    return node;
}

ast *parse_display(parser *p)
{
    return parse_is_sign(p, SIGN1('(')) ? parens(p)
           : parse_is_sign(p, SIGN1('[')) ? list(p)
                                          : dict(p);
}
