/* Rules: updaters and optimizers in their own small language. What a rule means is not looked at
 * here; see vm/rule.h. */
#include <string.h>

#include "lang/parse.h"

static ast *block(parser *p);

static ast *named(parser *p, int kind, uint32_t pos, const char *name, ast *kid)
{
    ast *node = parse_node_of(p, kind, pos, &kid, kid != NULL);
    if (node)
        node->u.text = name;
    return node;
}

/* A name that may be given a value; NULL on an error. */
static const char *free_name(parser *p, const char *wanted)
{
    const token *t = parse_peek(p);
    double value;
    if (t->kind != TOK_NAME)
        return (parse_unexpected(p, wanted), NULL);
    const char *name = parse_token_text(p, t);
    if (name && (parse_is_reserved(name) || parse_is_constant(name, &value)))
        return (parse_unexpected(p, wanted), NULL);
    parse_take(p);
    return name;
}

/* state [key | shared | row] NAME [= expr], … appended to list. */
static bool states(parser *p, ast_list *list)
{
    static const struct {
        const char *word;
        rule_state how;
    } words[] = {{"key", STATE_KEY}, {"shared", STATE_SHARED}, {"row", STATE_ROW}};
    rule_state how = STATE_ARRAY;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (how == STATE_ARRAY && parse_is_word(p, words[i].word)) {
            token t = parse_take(p);
            if (parse_peek(p)->kind == TOK_NAME)
                how = words[i].how;
            else
                parse_seek(p, t.pos); /* a state that is called so */
        }
    }
    do {
        uint32_t pos = parse_peek(p)->pos;
        const char *name = free_name(p, "the name of a state");
        ast *initial = NULL;
        if (!name || (parse_accept(p, SIGN1('=')) && !(initial = parse_expr(p, false))))
            return false;
        ast *node = named(p, RULE_STATE, pos, name, initial);
        if (!parse_append(p, list, node))
            return false;
        node->op = (uint8_t)how;
    } while (parse_accept(p, SIGN1(',')));
    return true;
}

static ast *branch(parser *p, uint32_t pos)
{
    ast *part[3] = {0};
    if (!(part[0] = parse_expr(p, false)) || !(part[1] = block(p)))
        return NULL;
    uint32_t behind = p->last;
    parse_skip_newlines(p); /* an else may begin a line */
    if (!parse_accept_word(p, "else")) {
        parse_seek(p, behind);
        return parse_node_of(p, RULE_IF, pos, part, 2);
    }
    uint32_t here = parse_peek(p)->pos;
    if (parse_accept_word(p, "if")) {
        if (!parse_deeper(p, here))
            return NULL;
        part[2] = branch(p, here);
        p->depth--;
    } else {
        part[2] = block(p);
    }
    return part[2] ? parse_node_of(p, RULE_IF, pos, part, 3) : NULL;
}

static ast *printed(parser *p, uint32_t pos)
{
    ast_list exprs = {0};
    ast *node = NULL;
    while (!parse_at_end(p)) {
        ast *one = parse_expr(p, false);
        if (!parse_append(p, &exprs, one))
            goto out;
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    ast *first = exprs.n == 1 ? exprs.items[0] : NULL;
    if (first && first->kind == AST_TUPLE && !(first->flags & AST_PARENS)) {
        /* print(a, b) is a command with two values */
        node = first;
        node->kind = RULE_PRINT;
        node->pos = pos;
        goto out;
    }
    node = parse_node_of(p, RULE_PRINT, pos, exprs.items, exprs.n);
out:
    mem_free(exprs.items);
    return node;
}

static ast *assignment(parser *p, uint32_t pos)
{
    static const struct {
        uint32_t sign;
        ast_op op;
    } signs[] = {{SIGN2('+', '='), OP_ADD},
                 {SIGN2('-', '='), OP_SUB},
                 {SIGN2('*', '='), OP_MUL},
                 {SIGN2('/', '='), OP_DIV}};
    token t = *parse_peek(p);
    const char *name = free_name(p, "a statement of a rule");
    if (!name)
        return NULL;
    if (parse_accept(p, SIGN1('='))) {
        ast *value = parse_expr(p, false);
        return value ? named(p, RULE_SET, pos, name, value) : NULL;
    }
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (!parse_accept(p, signs[i].sign))
            continue;
        ast *pair[2] = {parse_node(p, AST_NAME, t.pos, t.end, 0), parse_expr(p, false)};
        ast *both = pair[0] && pair[1] ? parse_node_of(p, AST_BINARY, pos, pair, 2) : NULL;
        if (!both)
            return NULL;
        pair[0]->u.text = name;
        both->op = (uint8_t)signs[i].op;
        return named(p, RULE_SET, pos, name, both);
    }
    return parse_unexpected(p, "`=`");
}

/* Whether the next word is `word` and does not stand before an assignment to what is called so. */
static bool is_keyword(parser *p, const char *word)
{
    if (!parse_is_word(p, word))
        return false;
    token t = parse_take(p);
    const token *next = parse_peek(p);
    bool assigned = next->kind == TOK_SIGN && strchr("=+-*/", (char)next->sign) &&
                    (next->sign == SIGN1('=') || next->sign >> 8 == '=');
    parse_seek(p, t.pos);
    return !assigned;
}

/* One statement, which for `state a, b` is several nodes. */
static bool statement(parser *p, ast_list *list)
{
    uint32_t pos = parse_peek(p)->pos;
    ast *node;
    if (is_keyword(p, "state")) {
        parse_take(p);
        return states(p, list);
    }
    if (parse_accept_word(p, "if")) {
        node = branch(p, pos);
    } else if (is_keyword(p, "rows")) {
        parse_take(p);
        if (!parse_accept_word(p, "present"))
            return parse_unexpected(p, "`present`");
        node = parse_node_of(p, RULE_ROWS, pos, NULL, 0);
    } else if (is_keyword(p, "skip")) {
        parse_take(p);
        node = parse_node_of(p, RULE_SKIP, pos, NULL, 0);
    } else if (is_keyword(p, "fail")) {
        parse_take(p);
        ast *text = parse_expr(p, false);
        node = text ? parse_node_of(p, RULE_FAIL, pos, &text, 1) : NULL;
    } else if (is_keyword(p, "print")) {
        parse_take(p);
        node = printed(p, pos);
    } else {
        node = assignment(p, pos);
    }
    return parse_append(p, list, node);
}

static ast *block(parser *p)
{
    ast_list list = {0};
    ast *node = NULL;
    bracket b;
    if (!parse_is_sign(p, SIGN1('{')))
        return parse_unexpected(p, "`{`");
    if (!parse_open(p, &b))
        return NULL;
    for (parse_skip_newlines(p); !parse_is_sign(p, SIGN1('}')); parse_skip_newlines(p)) {
        parser before = *p;
        if (!(statement(p, &list) && parse_ended(p)) && !parse_recovered(p, &before))
            goto out;
    }
    if (parse_close(p, &b))
        node = parse_node_of(p, AST_BLOCK, b.pos, list.items, list.n);
out:
    mem_free(list.items);
    return node;
}

/* NAME = literal [in literal .. literal] */
static bool param(parser *p, rule_param *out)
{
    out->pos = parse_peek(p)->pos;
    if (!(out->name = free_name(p, "the name of a parameter")) ||
        !parse_expect(p, SIGN1('='), "`=` and a default") || !(out->value = parse_literal(p)))
        return false;
    if (parse_accept_word(p, "in")) {
        if (!(out->low = parse_literal(p)) || !parse_expect(p, SIGN2('.', '.'), "`..`") ||
            !(out->high = parse_literal(p)))
            return false;
    }
    out->end = p->last;
    return true;
}

static bool params(parser *p, rule_ast *rule)
{
    rule_param *list = NULL;
    int64_t n = 0, cap = 0;
    bool ok = false;
    bracket b;
    if (!parse_open(p, &b))
        return false;
    while (!parse_is_sign(p, SIGN1(')'))) {
        rule_param one = {0};
        if (!param(p, &one) || mem_grow(&list, &cap, n + 1, sizeof *list, p->e) != KV_OK)
            goto out;
        list[n++] = one;
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    if (!parse_close(p, &b))
        goto out;
    rule_param *kept = arena_alloc(p->a, (size_t)(n + 1) * sizeof *kept, p->e);
    if (kept) {
        if (n > 0)
            memcpy(kept, list, (size_t)n * sizeof *kept);
        rule->params = kept;
        rule->nparams = (int)n;
        ok = true;
    }
out:
    mem_free(list);
    return ok;
}

/* updater NAME {, NAME} [(params)] [counts after] */
static bool head(parser *p, rule_ast *rule)
{
    const char *names[16];
    parse_take(p);
    do {
        token t = *parse_peek(p);
        const char *name = free_name(p, "a name for the updater");
        if (!name)
            return false;
        if (rule->nnames == 16)
            return parse_fail(p, t.pos, t.end, KV_E_SYNTAX, "an updater has at most 16 names");
        names[rule->nnames++] = name;
    } while (parse_accept(p, SIGN1(',')));
    const char **kept = arena_alloc(p->a, (size_t)rule->nnames * sizeof *kept, p->e);
    if (!kept)
        return false;
    memcpy(kept, names, (size_t)rule->nnames * sizeof *kept);
    rule->names = kept;
    if (parse_is_sign(p, SIGN1('(')) && !params(p, rule))
        return false;
    if (parse_accept_word(p, "counts")) {
        if (!parse_accept_word(p, "after"))
            return parse_unexpected(p, "`after`");
        rule->counts_after = true;
    }
    return true;
}

rule_ast *parse_rule_here(parser *p)
{
    rule_ast *rule = arena_alloc(p->a, sizeof *rule, p->e);
    if (!rule)
        return NULL;
    rule->pos = parse_peek(p)->pos;
    parser before = *p;
    if (parse_is_word(p, "updater") && !head(p, rule) &&
        !(rule->names && p->recover && p->recover(p, &before, true)))
        return NULL;
    if (!(rule->body = block(p)))
        return NULL;
    rule->end = rule->body->end;
    return rule;
}

int parse_rule(rule_ast **out, const source *s, arena *a, kv_err *e)
{
    parser p;
    kv_err unused = {0};
    parse_init(&p, s, a, e ? e : &unused);
    parse_skip_newlines(&p);
    *out = parse_rule_here(&p);
    if (*out) {
        parse_skip_newlines(&p);
        if (parse_peek(&p)->kind != TOK_END) {
            parse_unexpected(&p, "the end of the rule");
            *out = NULL;
        }
    }
    int code = *out ? KV_OK : p.e->code;
    parse_release(&p);
    return code;
}
