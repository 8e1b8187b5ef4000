/* Rules: updaters and optimizers in their own small language. What a rule means is not looked at
 * here; see vm/rule.h. */
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "lang/parse.h"

static ast *block(parser *p, uint32_t header);

/* A name that may be given a value; NULL on an error. */
static const char *free_name(parser *p, const char *wanted)
{
    const token *t = parse_peek(p);
    double value;
    if (t->kind != TOK_NAME)
        return (parse_unexpected(p, wanted), NULL);
    const char *name = parse_token_text(p, t);
    if (name && (parse_is_reserved(name) || parse_is_constant(name, strlen(name), &value)))
        return (parse_unexpected(p, wanted), NULL);
    parse_take(p);
    return name;
}

/* state [key | shared | row | col] NAME [= expr], … appended to list. */
static bool states(parser *p, ast_list *list)
{
    static const struct {
        const char *word;
        rule_state how;
    } words[] = {{"key", STATE_KEY},
                 {"shared", STATE_SHARED},
                 {"row", STATE_ROW},
                 {"col", STATE_COLUMN}};
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
        ast *node = parse_node_named(p, RULE_STATE, pos, name, &initial, initial != NULL);
        if (!parse_append(p, list, node))
            return false;
        node->op = (uint8_t)how;
    } while (parse_accept(p, SIGN1(',')));
    return true;
}

/* for TARGETS in LIST { … } */
static ast *loop(parser *p, uint32_t pos)
{
    ast *part[3] = {parse_targets(p)};
    if (!part[0] || !parse_expect_word(p, "in") || !(part[1] = parse_expr(p, false)) ||
        !(part[2] = block(p, pos)))
        return NULL;
    return parse_node_of(p, RULE_FOR, pos, part, 3);
}

static ast *printed(parser *p, uint32_t pos)
{
    ast_list exprs = {0};
    while (!parse_at_end(p)) {
        ast *one = parse_expr(p, false);
        if (!parse_append(p, &exprs, one))
            return NULL;
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    ast *first = exprs.n == 1 ? exprs.items[0] : NULL;
    if (first && first->kind == AST_TUPLE && !(first->flags & AST_PARENS)) {
        /* print(a, b) is a command with two values */
        first->kind = RULE_PRINT;
        first->pos = pos;
        return first;
    }
    return parse_node_of(p, RULE_PRINT, pos, exprs.items, exprs.n);
}

/* Returns true if a def changes an array in place: `stored += …`, or `stored[:] = …`, whose bracket
 * is taken. In Python `stored = …` gives the name to another array, and the store's stays as it
 * is. */
static bool in_place(parser *p, const token *name)
{
    if (parse_accept(p, SIGN1('[')))
        return (parse_accept(p, SIGN1(':')) && parse_accept(p, SIGN1(']'))) ||
               parse_unexpected(p, "`[:]`, which is all of the array,");
    if (!parse_is_sign(p, SIGN1('=')))
        return true;
    parse_fail(p, name->pos, name->end, KV_E_SYNTAX,
               "in a def `%s = …` does not change the stored array", p->target);
    kv_err_hint(p->e, "%s[:] = …", p->target);
    return false;
}

/* What a rule says instead of statements that Python has. */
static ast *hint_statement(parser *p, const token *t)
{
    static const char each[] = "a rule goes over all elements by itself: stored -= 0.1 * input",
                      each_of_def[] = "a rule goes over all elements by itself",
                      fails[] = "if t > 9 { fail \"why\" } refuses an update",
                      fails_of_def[] = "fail \"why\" refuses an update";
    /* the last is for a def, where `input`, `stored` and `t` may have other names */
    static const char *const hints[][3] = {
        {"for", each, each_of_def},
        {"while", each, each_of_def},
        {"assert", fails, fails_of_def},
        {"raise", fails, fails_of_def},
        {"return", "stored += input changes what the key holds", "an updater gives nothing back"},
        {"import", "functions have no module here: sqrt(input)", "functions have no module here"},
        {"pass", "a rule writes `stored`: stored += input", "a rule changes its third parameter"},
        {"del", "a name ends with the rule, a state stays",
         "a name ends with the rule, a state stays"}};
    for (size_t i = 0; i < sizeof hints / sizeof *hints && p->e && !p->merge; i++)
        if (name_is_word(hints[i][0], p->lx.src->text + t->pos, t->end - t->pos))
            kv_err_hint(p->e, "%s", hints[i][p->target ? 2 : 1]);
    return NULL;
}

static ast *assignment(parser *p, uint32_t pos)
{
    token t = *parse_peek(p);
    const char *name = free_name(p, "a statement of a rule");
    bool target = name && p->target && strcmp(name, p->target) == 0;
    if (!name || (target && !in_place(p, &t)))
        return hint_statement(p, &t);
    int op = parse_assign_op(p);
    if (op == PARSE_NO_ASSIGN) {
        /* `m[key] = …` of Python keeps an array for each key; a state does that here */
        bool indexed = parse_is_sign(p, SIGN1('[')) && !p->merge;
        char first = parse_char(p, parse_peek(p)->end);
        parse_unexpected(p, "`=`");
        if (indexed && first == ':')
            kv_err_hint(p->e, "%s = …", name);
        else if (indexed && lex_is_letter(first))
            kv_err_hint(p->e, RULE_STATE_HINT, name, name, name);
        return hint_statement(p, &t);
    }
    parse_take(p);
    ast *pair[2] = {parse_node(p, AST_NAME, t.pos, t.end, 0), parse_expr(p, false)};
    bool named_too = p->target && op == PARSE_PLAIN && !target && pair[1] &&
                     pair[1]->kind == AST_NAME && strcmp(pair[1]->u.text, p->target) == 0;
    if (named_too) {
        parse_fail(p, pos, pair[1]->end, KV_E_SYNTAX,
                   "in Python `%s` is another name of `%s`, and changes with it", name, p->target);
        kv_err_hint(p->e, "%s = 1 * %s is a copy", name, p->target);
        return NULL;
    }
    if (!pair[0] || !pair[1] || op == PARSE_PLAIN)
        return pair[0] && pair[1] ? parse_node_named(p, RULE_SET, pos, name, &pair[1], 1) : NULL;
    ast *both = parse_node_of(p, AST_BINARY, pos, pair, 2);
    if (!both)
        return NULL;
    pair[0]->u.text = name;
    both->op = (uint8_t)op;
    return parse_node_named(p, RULE_SET, pos, name, &both, 1);
}

/* Returns true if the next word is `word`, and no assignment to a variable of that name follows. */
static bool is_keyword(parser *p, const char *word)
{
    if (!parse_is_word(p, word))
        return false;
    token t = parse_take(p);
    bool assigned = parse_assign_op(p) != PARSE_NO_ASSIGN;
    parse_seek(p, t.pos);
    return !assigned;
}

static bool refuse_global(parser *p)
{
    token t = parse_take(p);
    const token *name = parse_peek(p);
    char hint[200];
    snprintf(hint, sizeof hint, "state shared %.*s = 0 keeps a number from update to update",
             name->kind == TOK_NAME ? (int)(name->end - name->pos) : 1,
             name->kind == TOK_NAME ? p->lx.src->text + name->pos : "n");
    parse_fail(p, t.pos, t.end, KV_E_SYNTAX, "an updater sets no variables of the script");
    kv_err_hint(p->e, "%s", hint);
    return false;
}

/* One statement, which for `state a, b` is several nodes. */
static bool statement(parser *p, ast_list *list)
{
    uint32_t pos = parse_peek(p)->pos;
    ast *node;
    if (parse_expects(p, EXPECT_OPERAND, 0))
        return false;
    if (is_keyword(p, "state")) {
        parse_take(p);
        return states(p, list);
    }
    if (p->target && parse_peek(p)->kind == TOK_STRING)
        return parse_literal(p) != NULL; /* the docstring of a def */
    if (p->target && is_keyword(p, "global"))
        return refuse_global(p);
    if (p->target && is_keyword(p, "return")) {
        parse_fail(p, pos, pos + 6, KV_E_SYNTAX, "an updater gives nothing back");
        kv_err_hint(p->e, "it changes its third parameter in place: %s -= …", p->target);
        return false;
    }
    if (parse_accept_word(p, "if")) {
        node = parse_branch(p, pos, RULE_IF, parse_expr, block);
    } else if (p->merge && is_keyword(p, "for")) {
        parse_take(p);
        node = loop(p, pos);
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

/* header: where the line begins that the block belongs to. */
static ast *block(parser *p, uint32_t header)
{
    uint32_t pos = parse_peek(p)->pos;
    if (p->target && parse_is_sign(p, SIGN1(':')))
        return parse_indented(p, header, statement);
    ast *node = parse_braced(p, statement);
    if (!node && p->cursor && p->cursor->met) {
        /* a rule has names and functions of its own */
        if (p->cursor->expected == EXPECT_OPERATOR)
            p->cursor->expected = EXPECT_NOTHING;
        if (p->cursor->expected == EXPECT_OPERAND)
            p->cursor->expected = EXPECT_RULE;
        p->cursor->rule = pos;
    }
    return node;
}

/* NAME = literal [in literal .. literal], or ..< literal */
static bool param(parser *p, rule_param *out)
{
    out->pos = parse_peek(p)->pos;
    if (!(out->name = free_name(p, "the name of a parameter")) ||
        !parse_expect(p, SIGN1('='), "`=` and a default") || !(out->value = parse_literal(p)))
        return false;
    if (!p->merge && strcmp(out->name, "lr") == 0) /* lines still read lr, which follows from it */
        out->name = "learning_rate", out->is_lr = true;
    if (parse_accept_word(p, "in")) {
        if (!(out->low = parse_literal(p)) || !parse_expect(p, SIGN2('.', '.'), "`..`"))
            return false;
        out->below = parse_accept(p, SIGN1('<'));
        if (!(out->high = parse_literal(p)))
            return false;
    }
    out->end = p->last;
    return true;
}

bool rule_add_param(rule_ast *r, const rule_param *p, arena *a, kv_err *e)
{
    if (arena_grow(a, &r->params, &r->params_cap, r->nparams, sizeof *r->params, e))
        return false;
    r->params[r->nparams++] = *p;
    return true;
}

/* The parameters up to the bracket that closes b. */
static bool params(parser *p, bracket *b, rule_ast *rule)
{
    while (!parse_is_sign(p, SIGN1(')'))) {
        rule_param one = {0};
        if (!param(p, &one) || !rule_add_param(rule, &one, p->a, p->e))
            return false;
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    return parse_close(p, b);
}

/* updater NAME {, NAME} [(params)] [counts after], or merge NAME … */
static bool head(parser *p, rule_ast *rule)
{
    const char *names[16];
    parse_take(p);
    do {
        token t = *parse_peek(p);
        const char *name =
            free_name(p, p->merge ? "a name for the merge" : "a name for the updater");
        if (!name && t.kind == TOK_SIGN && t.sign == SIGN1('{') && !p->merge && !rule->nnames)
            kv_err_hint(p->e, "set-updater { … }, or updater NAME { … } for later");
        if (!name)
            return false;
        if (rule->nnames == 16)
            return parse_fail(p, t.pos, t.end, KV_E_SYNTAX, "%s has at most 16 names",
                              p->merge ? "a merge" : "an updater");
        names[rule->nnames++] = name;
    } while (parse_accept(p, SIGN1(',')));
    const char **kept = arena_alloc(p->a, (size_t)rule->nnames * sizeof *kept, p->e);
    if (!kept)
        return false;
    memcpy(kept, names, (size_t)rule->nnames * sizeof *kept);
    rule->names = kept;
    bracket b;
    if (parse_is_sign(p, SIGN1('(')) && (!parse_open(p, &b) || !params(p, &b, rule)))
        return false;
    if (!p->merge && parse_accept_word(p, "counts")) {
        if (!parse_accept_word(p, "after"))
            return parse_unexpected(p, "`after`");
        rule->counts_after = true;
    }
    return true;
}

/* ---- def name(key, input, stored): ---- */

static const char *const given[3] = {"key", "input", "stored"};

/* Gives the parameters of a def their names of rules. One of these that the def uses for something
 * else would be taken for a parameter. */
static bool rename_given(parser *p, ast *node, const char *const names[3])
{
    bool named = node->kind == AST_NAME || node->kind == RULE_SET || node->kind == RULE_STATE;
    const char *name = NULL;
    for (int i = 2; i >= 0 && named; i--)
        name = strcmp(node->u.text, names[i]) == 0 ? given[i] : name;
    for (int i = 0; i < 3 && named && !name; i++)
        if (strcmp(node->u.text, given[i]) == 0)
            return parse_fail(
                p, node->pos, node->end, KV_E_SYNTAX,
                "`%s` is the name of a parameter of every updater; this needs another", given[i]);
    if (name)
        node->u.text = name;
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i] && !rename_given(p, node->kid[i], names))
            return false;
    return true;
}

/* A name that a def gave to the array of its second parameter. In Python both change with it. */
typedef struct second_name {
    const char *name;   /* NULL: there is none */
    const ast *changed; /* where it changed in place */
} second_name;

/* Returns true if a statement is `name += …` and the like, for which the tree reads the name at the
 * place where it is written. */
static bool changes_itself(const ast *set)
{
    const ast *both = set->kid[0];
    return both->kind == AST_BINARY && both->kid[0]->kind == AST_NAME &&
           both->kid[0]->pos == set->pos;
}

/* Refuses to read `input` behind a change of its other name: here the two are not one array. */
static bool check_second_name(parser *p, second_name *s, const ast *node)
{
    bool input = node->kind == AST_NAME && strcmp(node->u.text, "input") == 0;
    if (input && s->changed) {
        parse_fail(p, s->changed->pos, s->changed->end, KV_E_SYNTAX,
                   "in Python this changes the second parameter, too, which is read below");
        kv_err_hint(p->e, "make another array: %s = %s * 2", s->name, s->name);
        return false;
    }
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i] && !check_second_name(p, s, node->kid[i]))
            return false;
    if (node->kind != RULE_SET)
        return true;
    const ast *expr = node->kid[0];
    bool same = s->name && strcmp(s->name, node->u.text) == 0;
    if (expr->kind == AST_NAME && strcmp(expr->u.text, "input") == 0)
        *s = (second_name){node->u.text, NULL};
    else if (same && changes_itself(node))
        s->changed = s->changed ? s->changed : node;
    else if (same && !s->changed)
        s->name = NULL;
    return true;
}

/* def NAME(a, b, c, PARAM = DEFAULT, ...): and its block, in which a, b and c stand for key, input
 * and stored. */
static bool rule_of_def(parser *p, rule_ast *rule)
{
    const char **kept = arena_alloc(p->a, sizeof *kept, p->e), *names[3];
    bracket b;
    parse_take(p);
    if (!kept || !(*kept = free_name(p, "a name for the updater")))
        return false;
    rule->names = kept;
    rule->nnames = 1;
    rule->is_def = true;
    if (!parse_is_sign(p, SIGN1('(')))
        return parse_unexpected(p, "`(`");
    if (!parse_open(p, &b))
        return false;
    for (int i = 0; i < 3; i++)
        if ((i > 0 && !parse_expect(p, SIGN1(','), "`,`")) ||
            !(names[i] = free_name(p, "the name of a parameter")))
            return false;
    if (parse_accept(p, SIGN1(',')) ? !params(p, &b, rule) : !parse_close(p, &b))
        return false;
    if (!parse_is_sign(p, SIGN1(':')))
        return parse_unexpected(p, "`:`");
    p->target = names[2];
    ast *body = block(p, rule->pos);
    p->target = NULL;
    rule->body = body;
    return body && rename_given(p, body, names) && check_second_name(p, &(second_name){0}, body);
}

rule_ast *parse_rule_here(parser *p)
{
    rule_ast *rule = arena_alloc(p->a, sizeof *rule, p->e);
    if (!rule)
        return NULL;
    rule->pos = parse_peek(p)->pos;
    parser before = *p;
    rule->is_merge = p->merge;
    if (!p->merge && parse_is_word(p, "def")) {
        if (!rule_of_def(p, rule))
            return NULL;
        rule->end = rule->body->end;
        return rule;
    }
    if (parse_is_word(p, p->merge ? "merge" : "updater") && !head(p, rule) &&
        !(rule->names && p->recover && p->recover(p, &before, true)))
        return NULL;
    bool bodyless = !p->e->code && parse_at_end(p) && rule->nnames == 1 && rule->nparams == 0;
    if (!(rule->body = block(p, rule->pos))) {
        if (bodyless && !p->merge) /* of a rule that was made before */
            kv_err_hint(p->e, "set-updater %s", rule->names[0]);
        return NULL;
    }
    rule->end = rule->body->end;
    return rule;
}

int parse_rule_at(rule_ast **out, const source *s, uint32_t pos, arena *a, kv_err *e)
{
    own_parser p;
    kv_err unused = {0};
    parse_init(&p, s, a, e ? e : &unused);
    parse_seek(&p, pos);
    *out = parse_rule_here(&p);
    return *out ? KV_OK : p.e->code;
}

static int parse_whole(rule_ast **out, const source *s, bool merge, arena *a, kv_err *e)
{
    own_parser p;
    kv_err unused = {0};
    parse_init(&p, s, a, e ? e : &unused);
    p.merge = merge;
    parse_skip_newlines(&p);
    *out = parse_rule_here(&p);
    if (*out) {
        parse_skip_newlines(&p);
        if (parse_peek(&p)->kind != TOK_END) {
            parse_unexpected(&p, "the end of the rule");
            *out = NULL;
        }
    }
    return *out ? KV_OK : p.e->code;
}

int parse_rule(rule_ast **out, const source *s, arena *a, kv_err *e)
{
    return parse_whole(out, s, false, a, e);
}

int parse_merge(rule_ast **out, const source *s, arena *a, kv_err *e)
{
    return parse_whole(out, s, true, a, e);
}
