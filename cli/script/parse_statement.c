/* The parser of statements. The command table says how the arguments of each command are read. */
#include <string.h>

#include "base/suggest.h"
#include "script/command.h"
#include "script/file.h"
#include "script/function.h"
#include "script/statement.h"
#include "script/unit.h"

static ast *statement(parser *p);
static ast *block(parser *p);

/* ---- Words ---- */

static bool is_word_char(char c)
{
    return lex_is_letter(c) || lex_is_digit(c);
}

/* The end of the run of letters, digits and inner dashes at pos. */
static uint32_t dashed_end(const parser *p, uint32_t pos)
{
    uint32_t end = pos;
    while (is_word_char(parse_char(p, end)) ||
           (parse_char(p, end) == '-' && end > pos && lex_is_letter(parse_char(p, end + 1))))
        end++;
    return end;
}

static ast *text_node(parser *p, uint32_t pos, uint32_t end)
{
    ast *node = parse_node(p, AST_TEXT, pos, end, 0);
    if (!node || !(node->u.text = parse_intern(p, p->lx.src->text + pos, end - pos)))
        return NULL;
    parse_seek(p, end);
    return node;
}

/* A run of word characters and those in `more`, a quoted text, $NAME or (expr). */
static ast *word(parser *p, const char *more, const char *wanted)
{
    uint32_t pos = parse_here(p), end = pos;
    char c = parse_char(p, pos), next = parse_char(p, pos + 1);
    if (c == '"' || c == '\'' || c == '$' || c == '(' || (c == 'f' && (next == '"' || next == '\''))) {
        bool arguments = p->arguments;
        p->arguments = true;
        ast *one = parse_primary(p);
        p->arguments = arguments;
        return one;
    }
    while (is_word_char(parse_char(p, end)) ||
           (parse_char(p, end) && strchr(more, parse_char(p, end)) &&
            !(parse_char(p, end) == '-' && parse_char(p, end + 1) == '>')))
        end++;
    return end > pos ? text_node(p, pos, end) : parse_unexpected(p, wanted);
}

/* The name of something to be made. */
static const char *new_name(parser *p, const char *wanted)
{
    token t = *parse_peek(p);
    double number;
    if (t.kind != TOK_NAME)
        return (parse_unexpected(p, wanted), NULL);
    const char *name = parse_token_text(p, &t);
    if (!name)
        return NULL;
    if (parse_is_reserved(name))
        return (parse_fail(p, t.pos, t.end, KV_E_SYNTAX, "`%s` is a word of the language", name), NULL);
    if (parse_is_constant(name, &number))
        return (parse_fail(p, t.pos, t.end, KV_E_SYNTAX, "`%s` is a constant", name), NULL);
    parse_take(p);
    return name;
}

/* Text up to the end of its line, for the shell. */
static ast *shell_text(parser *p, int kind, uint32_t from, const char *wanted)
{
    uint32_t pos = parse_here(p), end = pos;
    while (end < p->lx.limit && parse_char(p, end) != '\n')
        end++;
    parse_seek(p, end);
    while (end > pos && lex_is_blank(parse_char(p, end - 1)))
        end--;
    if (end == pos)
        return parse_unexpected(p, wanted);
    ast *node = parse_node(p, kind, from, end, 0);
    if (!node || !(node->u.text = parse_intern(p, p->lx.src->text + pos, end - pos)))
        return NULL;
    return node;
}

/* ---- Redirects ---- */

static bool at_redirect(parser *p)
{
    return parse_is_sign(p, SIGN1('>')) || parse_is_sign(p, SIGN2('>', '>')) ||
           parse_is_sign(p, SIGN1('|')) || parse_is_sign(p, SIGN2('-', '>'));
}

static ast *redirect_node(parser *p, uint32_t pos, redirect_kind kind, const char *text, ast *path)
{
    ast *node = parse_node_of(p, STMT_REDIRECT, pos, &path, path != NULL);
    if (node) {
        node->op = (uint8_t)kind;
        node->u.text = text;
    }
    return node;
}

static ast *redirect(parser *p)
{
    token t = parse_take(p);
    if (t.sign == SIGN1('|')) {
        ast *node = shell_text(p, STMT_REDIRECT, t.pos, "a shell command");
        if (node)
            node->op = REDIRECT_PIPE;
        return node;
    }
    if (t.sign == SIGN2('-', '>')) {
        const char *name = new_name(p, "the name of a variable");
        return name ? redirect_node(p, t.pos, REDIRECT_VARIABLE, name, NULL) : NULL;
    }
    ast *path = parse_path(p);
    if (path && path->kind == AST_TEXT && file_check_ending(path->u.text, p->e)) {
        source_at(p->lx.src, path->pos, path->end, p->e);
        kv_err_hint(p->e, "(a > %s) in brackets compares", path->u.text);
        return NULL;
    }
    return path ? redirect_node(p, t.pos, t.sign == SIGN1('>') ? REDIRECT_FILE : REDIRECT_APPEND,
                                NULL, path)
                : NULL;
}

/* ---- Commands ---- */

static ast *usage_fail(parser *p, const command *c, uint32_t pos, uint32_t end, const char *what)
{
    buf line = {0};
    command_usage(&line, c);
    parse_fail(p, pos, end, KV_E_USAGE, "%s", what);
    kv_err_hint(p->e, "usage: %s", buf_text(&line));
    buf_release(&line);
    return NULL;
}

/* Whether the value of a rule's parameter is a bare word, which is text. */
static bool is_text_word(parser *p)
{
    const token *t = parse_peek(p);
    double number;
    if (t->kind != TOK_NAME)
        return false;
    const char *text = parse_token_text(p, t);
    return text && !parse_is_reserved(text) && !parse_is_constant(text, &number);
}

static ast *param_value(parser *p)
{
    if (is_text_word(p))
        return word(p, "-./,=", "a value");
    return parse_value(p);
}

static ast *option_value(parser *p, const command_option *o)
{
    switch (o->kind) {
    case OPTION_INT:
    case OPTION_VALUE:
        return parse_value(p);
    case OPTION_NAME: {
        token t = *parse_peek(p);
        ast *node = new_name(p, "the name of a variable")
                        ? parse_node(p, AST_NAME, t.pos, t.end, 0)
                        : NULL;
        if (node)
            node->u.text = parse_token_text(p, &t);
        return node;
    }
    }
    return NULL;
}

static void dashes(char *text)
{
    for (; *text; text++)
        if (*text == '_')
            *text = '-';
}

static ast *unknown_option(parser *p, const command *c, const token *t, const char *name)
{
    const char *names[COMMAND_MAX_OPTIONS + 1] = {0};
    char shown[COMMAND_MAX_OPTIONS][40];
    int n = 0;
    for (; c->options[n].name; n++) {
        shown[n][0] = shown[n][1] = '-';
        strncpy(shown[n] + 2, c->options[n].name, 37);
        shown[n][39] = '\0';
        names[n] = shown[n];
    }
    char word[sizeof shown[0]] = "--";
    strncpy(word + 2, name, sizeof word - 3);
    word[sizeof word - 1] = '\0';
    parse_fail(p, t->pos, t->end, KV_E_USAGE, "`%s` has no option --%s", c->name, name);
    suggest_hint(p->e, word, names, n);
    buf line = {0};
    command_usage(&line, c);
    kv_err_hint(p->e, "usage: %s", buf_text(&line));
    buf_release(&line);
    return NULL;
}

/* --name [=] [value] */
static ast *option(parser *p, const command *c)
{
    token t = parse_take(p);
    char name[64] = "";
    size_t n = t.end - t.pos - 2;
    memcpy(name, p->lx.src->text + t.pos + 2, n < 63 ? n : 63);
    dashes(name);
    parse_accept(p, SIGN1('='));
    ast *given = NULL;
    const char *known = NULL;
    for (const command_option *o = c->options; o->name && !known; o++) {
        if (strcmp(o->name, name) != 0)
            continue;
        known = o->name;
        if (parse_at_end(p))
            return parse_fail(p, t.pos, t.end, KV_E_USAGE, "--%s needs a value: --%s %s", name, name,
                              o->value);
        if (!(given = option_value(p, o)))
            return NULL;
    }
    if (!known && (c->flags & COMMAND_PARAMS)) {
        if (!(known = parse_intern(p, name, strlen(name))))
            return NULL;
        bool alone = parse_at_end(p) || parse_peek(p)->kind == TOK_OPTION;
        if (!alone && !(given = param_value(p)))
            return NULL;
    }
    if (!known)
        return unknown_option(p, c, &t, name);
    ast *node = parse_node_of(p, STMT_OPTION, t.pos, &given, given != NULL);
    if (node)
        node->u.text = known;
    return node;
}

/* One or more values, in one AST_LIST. */
static ast *values(parser *p)
{
    ast_list list = {0};
    ast *node = NULL;
    uint32_t pos = parse_peek(p)->pos;
    do {
        if (!parse_append(p, &list, parse_value(p)))
            goto out;
    } while (!parse_at_end(p) && !at_redirect(p) && parse_peek(p)->kind != TOK_OPTION);
    node = parse_node_of(p, AST_LIST, pos, list.items, list.n);
out:
    mem_free(list.items);
    return node;
}

/* `init 3 - 1`: the sign would join two values, but a key is no value. */
static ast *sign_behind_keys(parser *p, const command *c, const ast *keys)
{
    const token *t = parse_peek(p);
    const char *text = p->lx.src->text;
    uint32_t pos = t->pos, end = t->end, rest = end;
    char sign = (char)t->sign;
    while (rest < p->lx.limit && lex_is_blank(text[rest]))
        rest++;
    parse_fail(p, pos, end, KV_E_SYNTAX, "`%c` joins two values, but the word before it is a key", sign);
    kv_err_hint(p->e, "%s %.*s %c%c…, or %s (%.*s %c …) VALUE to compute a key", c->name,
                (int)(keys->end - keys->pos), text + keys->pos, sign, text[rest], c->name,
                (int)(keys->end - keys->pos), text + keys->pos, sign);
    return NULL;
}

static bool is_lone_sign(parser *p)
{
    const token *t = parse_peek(p);
    return t->kind == TOK_SIGN && (t->sign == SIGN1('-') || t->sign == SIGN1('+')) && t->blank_after;
}

/* Whether KEYS are one plain key, known before anything runs. */
static bool is_plain_key(const ast *keys)
{
    return (keys->flags & AST_SINGLE) && keys->kid[0]->kind == AST_KEY;
}

/* expr, expr, …, in one AST_LIST; (a, b) directly behind the command is a list of two. */
static ast *exprs(parser *p, bool angles_redirect)
{
    ast_list list = {0};
    ast *node = NULL;
    uint32_t pos = parse_peek(p)->pos;
    do {
        ast *one = parse_expr(p, angles_redirect);
        if (!parse_append(p, &list, one))
            goto out;
        if (list.n == 1 && one->kind == AST_TUPLE && one->pos == pos && !parse_is_sign(p, SIGN1(','))) {
            one->kind = AST_LIST;
            node = one;
            goto out;
        }
    } while (parse_accept(p, SIGN1(',')));
    node = parse_node_of(p, AST_LIST, pos, list.items, list.n);
out:
    mem_free(list.items);
    return node;
}

static ast *rule_node(parser *p)
{
    uint32_t pos = parse_peek(p)->pos;
    rule_ast *rule = parse_rule_here(p);
    ast *node = rule ? parse_node_of(p, STMT_RULE, pos, NULL, 0) : NULL;
    if (node)
        node->u.other = rule;
    return node;
}

static ast *argument(parser *p, const command *c, const command_arg *a)
{
    switch (a->kind) {
    case ARG_KEYS:
        return parse_keys(p);
    case ARG_VALUE:
        return parse_value(p);
    case ARG_VALUES:
        return values(p);
    case ARG_EXPRS:
        return exprs(p, strcmp(c->name, "assert") != 0);
    case ARG_WORD:
        return word(p, ".-?", a->name);
    case ARG_GLOB:
        return word(p, ".-*?/:[]", a->name);
    case ARG_NAME:
        return word(p, ".-", a->name);
    case ARG_FILE:
    case ARG_SOURCE:
        return parse_path(p);
    case ARG_RULE:
        return parse_is_sign(p, SIGN1('{')) ? rule_node(p) : word(p, "-", "the name of an updater or a block");
    case ARG_END:
        break;
    }
    return NULL;
}

/* The error for a value that stands where no argument is left. */
static ast *too_many(parser *p, const command *c)
{
    const token *t = parse_peek(p);
    uint32_t pos = t->pos, end = t->end;
    if (t->kind == TOK_BAD)
        return NULL;
    char text[128] = "";
    int n = 0;
    while (c->args[n].kind != ARG_END)
        n++;
    if (n == 0)
        strcat(strncpy(text, c->name, 40), " takes no argument");
    else if (c->args[n - 1].kind == ARG_VALUE && c->args[0].kind == ARG_KEYS)
        strcat(strncpy(text, c->name, 40), " takes one value a key");
    else
        strcat(strncpy(text, c->name, 40), " takes no more arguments");
    usage_fail(p, c, pos, end, text);
    return NULL;
}

/* `init 3 1 -2` */
static ast *two_values(parser *p, const command *c, const ast *second)
{
    parse_fail(p, second->pos, second->end, KV_E_USAGE, "%s takes one value a key", c->name);
    kv_err_hint(p->e, "blanks separate values: a `-` with a blank before it and none behind it begins "
                      "a new one");
    return NULL;
}

static ast *source_statement(parser *p, ast *node)
{
    const ast *path = node->kid[0];
    if (path->kind != AST_TEXT || !p->user)
        return node; /* found out when it runs, or only looked at */
    node->kind = STMT_SOURCE;
    node->u.other = unit_source(p, path);
    return node->u.other ? node : NULL;
}

static ast *command_statement(parser *p, const command *c, uint32_t pos)
{
    ast *slots[COMMAND_MAX_ARGS + 8] = {0};
    int nslots = 0, given = 0, extra;
    ast *node = NULL;
    while (c->args[nslots].kind != ARG_END)
        nslots++;
    extra = nslots;
    for (;;) {
        ast *part;
        if (parse_peek(p)->kind == TOK_BAD)
            return NULL;
        if (extra == COMMAND_MAX_ARGS + 8)
            return parse_fail(p, pos, parse_last_end(p), KV_E_USAGE, "`%s` has too many options", c->name);
        if (at_redirect(p)) {
            token t = *parse_peek(p);
            bool out_of_line = t.sign != SIGN2('-', '>');
            if (!(c->flags & (COMMAND_GIVES | (out_of_line ? COMMAND_PRINTS : 0))))
                return parse_fail(p, t.pos, t.end, KV_E_USAGE, "`%s` gives nothing to redirect", c->name);
            if (!(part = redirect(p)))
                return NULL;
            slots[extra++] = part;
            if (out_of_line)
                break;
        } else if (parse_peek(p)->kind == TOK_OPTION) {
            if (!(part = option(p, c)))
                return NULL;
            slots[extra++] = part;
        } else if (parse_at_end(p)) {
            break;
        } else if (given == nslots) {
            return too_many(p, c);
        } else {
            bool behind_keys = given > 0 && c->args[given - 1].kind == ARG_KEYS;
            if (behind_keys && is_lone_sign(p))
                return sign_behind_keys(p, c, slots[given - 1]);
            if (!(slots[given] = argument(p, c, &c->args[given])))
                return NULL;
            if (behind_keys && (c->flags & COMMAND_ONE_EACH) && slots[given]->n > 1 &&
                is_plain_key(slots[given - 1]))
                return two_values(p, c, slots[given]->kid[1]);
            given++;
        }
    }
    if (given < nslots && !c->args[given].optional) {
        char what[96] = "";
        strncat(what, c->name, 40);
        strcat(what, " needs ");
        strncat(what, c->args[given].name, 40);
        return usage_fail(p, c, pos, parse_last_end(p), what);
    }
    node = parse_node_of(p, STMT_COMMAND, pos, slots, extra);
    if (!node)
        return NULL;
    node->u.other = (void *)(uintptr_t)c;
    return nslots > 0 && c->args[0].kind == ARG_SOURCE ? source_statement(p, node) : node;
}

static ast *unknown_command(parser *p, uint32_t pos, uint32_t end)
{
    const char *name = p->lx.src->text + pos;
    if (command_is_missing(name, end - pos))
        return parse_fail(p, pos, end, KV_E_UNSUPPORTED, "`%.*s` is not in this version of kvctl",
                          (int)(end - pos), name);
    parse_fail(p, pos, end, KV_E_USAGE, "there is no command `%.*s`",
               (int)(end - pos > 60 ? 60 : end - pos), name);
    suggest near = {.word = parse_intern(p, name, end - pos)};
    for (const command *c = command_table; near.word && c->name; c++)
        suggest_add(&near, c->name);
    suggest_done(&near, p->e);
    kv_err_hint(p->e, "`help` lists the commands");
    return NULL;
}

/* ---- Control statements ---- */

static ast *block(parser *p)
{
    ast_list list = {0};
    ast *node = NULL;
    token open = *parse_peek(p);
    int nest = p->lx.nest;
    if (!parse_expect(p, SIGN1('{'), "`{`"))
        return NULL;
    p->lx.nest = 0;
    if (++p->depth > PARSE_MAX_DEPTH) {
        parse_fail(p, open.pos, open.end, KV_E_SYNTAX, "nested deeper than %d", PARSE_MAX_DEPTH);
        goto out;
    }
    for (parse_skip_newlines(p); !parse_is_sign(p, SIGN1('}')); parse_skip_newlines(p)) {
        if (parse_peek(p)->kind == TOK_END) {
            p->lx.incomplete = true;
            parse_fail(p, open.pos, open.end, KV_E_SYNTAX, "the `{` that opens here is not closed");
            goto out;
        }
        if (!parse_append(p, &list, statement(p)))
            goto out;
        if (!parse_at_end(p)) {
            parse_unexpected(p, "the end of the statement");
            goto out;
        }
    }
    p->lx.nest = nest;
    parse_take(p);
    node = parse_node_of(p, AST_BLOCK, open.pos, list.items, list.n);
out:
    p->depth--;
    mem_free(list.items);
    return node;
}

/* if, elif and else if: one chain of nodes. */
static ast *if_statement(parser *p, uint32_t pos)
{
    ast *part[3] = {0};
    int n = 2;
    if (!(part[0] = parse_expr(p, false)) || !(part[1] = block(p)))
        return NULL;
    uint32_t behind = parse_last_end(p);
    parse_skip_newlines(p);
    token t = *parse_peek(p);
    if (parse_accept_word(p, "elif")) {
        part[2] = if_statement(p, t.pos);
    } else if (parse_accept_word(p, "else")) {
        token second = *parse_peek(p);
        part[2] = parse_accept_word(p, "if") ? if_statement(p, second.pos) : block(p);
    } else {
        parse_seek(p, behind);
        return parse_node_of(p, STMT_IF, pos, part, n);
    }
    return part[2] ? parse_node_of(p, STMT_IF, pos, part, 3) : NULL;
}

static ast *for_statement(parser *p, uint32_t pos)
{
    ast *part[2] = {0};
    const char *name = new_name(p, "the name of a variable");
    if (!name)
        return NULL;
    if (!parse_accept_word(p, "in"))
        return parse_unexpected(p, "`in`");
    if (!(part[0] = parse_expr(p, false)) || !(part[1] = block(p)))
        return NULL;
    ast *node = parse_node_of(p, STMT_FOR, pos, part, 2);
    if (node)
        node->u.text = name;
    return node;
}

static ast *while_statement(parser *p, uint32_t pos)
{
    ast *part[2] = {0};
    if (!(part[0] = parse_expr(p, false)) || !(part[1] = block(p)))
        return NULL;
    return parse_node_of(p, STMT_WHILE, pos, part, 2);
}

static ast *repeat_statement(parser *p, uint32_t pos)
{
    ast *part[2] = {0};
    if (!(part[0] = parse_primary(p)))
        return NULL;
    part[1] = parse_is_sign(p, SIGN1('{')) ? block(p) : statement(p);
    return part[1] ? parse_node_of(p, STMT_REPEAT, pos, part, 2) : NULL;
}

/* def NAME(a, b) { … } or def NAME(a, b) = expr */
static ast *def_statement(parser *p, uint32_t pos)
{
    ast_list parts = {0};
    ast *node = NULL, *body = NULL;
    token t = *parse_peek(p);
    const char *name = new_name(p, "the name of a function");
    bool is_expr;
    if (!name)
        return NULL;
    if (function_find(name))
        return parse_fail(p, t.pos, t.end, KV_E_USAGE, "`%s` is a function of kvctl already", name);
    if (!parse_append(p, &parts, parse_node(p, AST_NONE, pos, pos, 0)) ||
        !parse_expect(p, SIGN1('('), "`(`"))
        goto out;
    while (!parse_is_sign(p, SIGN1(')'))) {
        token at = *parse_peek(p);
        const char *param = new_name(p, "the name of a parameter or `)`");
        ast *one = param ? parse_node(p, AST_NAME, at.pos, at.end, 0) : NULL;
        if (!parse_append(p, &parts, one))
            goto out;
        one->u.text = param;
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    if (!parse_expect(p, SIGN1(')'), "`)`"))
        goto out;
    is_expr = parse_accept(p, SIGN1('='));
    if (!(body = is_expr ? parse_expr(p, false) : block(p)))
        goto out;
    parts.items[0] = body;
    if ((node = parse_node_of(p, STMT_DEF, pos, parts.items, parts.n))) {
        node->op = is_expr;
        node->u.text = name;
    }
out:
    mem_free(parts.items);
    return node;
}

static ast *return_statement(parser *p, uint32_t pos)
{
    ast *given = NULL;
    if (!parse_at_end(p) && !(given = parse_expr(p, false)))
        return NULL;
    return parse_node_of(p, STMT_RETURN, pos, &given, given != NULL);
}

static ast *break_statement(parser *p, uint32_t pos)
{
    return parse_node_of(p, STMT_BREAK, pos, NULL, 0);
}

static ast *continue_statement(parser *p, uint32_t pos)
{
    return parse_node_of(p, STMT_CONTINUE, pos, NULL, 0);
}

/* ---- Statements ---- */

static ast *assign_to(parser *p, ast *target)
{
    static const struct {
        uint32_t sign;
        int op;
    } signs[] = {{SIGN1('='), STMT_PLAIN},
                 {SIGN2('+', '='), OP_ADD},
                 {SIGN2('-', '='), OP_SUB},
                 {SIGN2('*', '='), OP_MUL},
                 {SIGN2('/', '='), OP_DIV}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (!parse_accept(p, signs[i].sign))
            continue;
        ast *pair[2] = {target, parse_expr(p, false)};
        ast *node = pair[1] ? parse_node_of(p, STMT_ASSIGN, target->pos, pair, 2) : NULL;
        if (node)
            node->op = (uint8_t)signs[i].op;
        return node;
    }
    return NULL;
}

static bool is_assign_sign(parser *p)
{
    const token *t = parse_peek(p);
    return t->kind == TOK_SIGN && (t->sign == SIGN1('=') || (t->sign >> 8 == '=' &&
                                   strchr("+-*/", (char)t->sign)));
}

/* NAME = …, NAME += …, NAME[…] = …; NULL and no error when it is something else. */
static ast *assignment(parser *p)
{
    token t = *parse_peek(p);
    double number;
    parse_take(p);
    bool assign = is_assign_sign(p), indexed = false;
    const char *name = parse_token_text(p, &t);
    if (parse_is_sign(p, SIGN1('[')) && !parse_peek(p)->blank_before) {
        kv_err unused = {0}, *kept = p->e;
        parse_seek(p, t.pos);
        p->e = p->lx.e = &unused; /* only a look ahead: an error shows again when it is parsed */
        indexed = parse_primary(p) && is_assign_sign(p);
        p->e = p->lx.e = kept;
        p->lx.nest = 0;
    }
    parse_seek(p, t.pos);
    if (!name || (!assign && !indexed))
        return NULL;
    if (parse_is_reserved(name) || parse_is_constant(name, &number))
        return (new_name(p, ""), NULL);
    ast *target = parse_primary(p);
    return target ? assign_to(p, target) : NULL;
}

static ast *keyword(parser *p, bool *known)
{
    static const struct {
        const char *word;
        ast *(*parse)(parser *, uint32_t);
    } words[] = {{"if", if_statement},         {"for", for_statement},   {"while", while_statement},
                 {"repeat", repeat_statement}, {"def", def_statement},   {"return", return_statement},
                 {"break", break_statement},   {"continue", continue_statement}};
    token t = *parse_peek(p);
    *known = true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (parse_accept_word(p, words[i].word))
            return words[i].parse(p, t.pos);
    if (parse_is_word(p, "updater"))
        return rule_node(p);
    if (parse_is_word(p, "elif") || parse_is_word(p, "else"))
        return parse_unexpected(p, "a statement; an `else` follows the `}` of its `if`, which");
    *known = false;
    return NULL;
}

/* Whether a value begins here that cannot go on an expression: `foo 3`. */
static bool begins_value(parser *p)
{
    const token *t = parse_peek(p);
    if (!t->blank_before)
        return false;
    if (t->kind == TOK_NAME)
        return !parse_is_word(p, "and") && !parse_is_word(p, "or");
    return t->kind == TOK_INT || t->kind == TOK_FLOAT || t->kind == TOK_STRING ||
           t->kind == TOK_FSTRING || t->kind == TOK_OPTION ||
           (t->kind == TOK_SIGN && (t->sign == SIGN1('$') || t->sign == SIGN1('{')));
}

/* Whether `a-b` at pos is meant as the name of a command: it begins with one or is close to one. */
static bool is_mistyped(parser *p, uint32_t pos, uint32_t name_end, uint32_t end)
{
    if (end == name_end)
        return false;
    suggest near = {.word = parse_intern(p, p->lx.src->text + pos, end - pos)};
    for (const command *c = command_table; near.word && c->name; c++)
        suggest_add(&near, c->name);
    return near.n > 0 || command_is_missing(p->lx.src->text + pos, end - pos);
}

static ast *show(parser *p)
{
    ast *part[2] = {parse_expr(p, true), NULL};
    if (!part[0] || (at_redirect(p) && !(part[1] = redirect(p))))
        return NULL;
    return parse_node_of(p, STMT_SHOW, part[0]->pos, part, 2);
}

static ast *word_statement(parser *p)
{
    bool known;
    token t = *parse_peek(p);
    ast *node = assignment(p);
    if (node || p->e->code)
        return node;
    node = keyword(p, &known);
    if (known)
        return node;
    uint32_t end = dashed_end(p, t.pos);
    const char *text = p->lx.src->text + t.pos;
    const command *c = command_find(text, end - t.pos);
    char next = parse_char(p, end);
    bool called = next == '(' && c && (strcmp(c->name, "print") == 0 || strcmp(c->name, "assert") == 0);
    if (c && ((next != '(' && next != '.') || called)) {
        parse_seek(p, end);
        return command_statement(p, c, t.pos);
    }
    parse_take(p);
    bool value_follows = begins_value(p);
    bool alone = parse_at_end(p) && command_is_missing(text, end - t.pos);
    parse_seek(p, t.pos);
    if (value_follows || alone || is_mistyped(p, t.pos, t.end, end))
        return unknown_command(p, t.pos, end);
    return show(p);
}

/* ?word is help word. */
static ast *question(parser *p)
{
    token t = parse_take(p);
    ast *name = parse_at_end(p) ? NULL : word(p, ".-", "a word to look up");
    if (!name && p->e->code)
        return NULL;
    ast *node = parse_node_of(p, STMT_COMMAND, t.pos, &name, 1);
    if (node)
        node->u.other = (void *)(uintptr_t)command_find("help", 4);
    return node;
}

static ast *statement(parser *p)
{
    token t = *parse_peek(p);
    if (t.kind == TOK_NAME)
        return word_statement(p);
    if (t.kind == TOK_SIGN && t.sign == SIGN1('!')) {
        parse_take(p);
        return shell_text(p, STMT_SHELL, t.pos, "a shell command");
    }
    if (t.kind == TOK_SIGN && t.sign == SIGN1('?'))
        return question(p);
    return show(p);
}

ast *statement_parse_all(parser *p)
{
    ast_list list = {0};
    ast *node = NULL;
    uint32_t pos = p->lx.pos;
    if (parse_char(p, pos) == '#' && parse_char(p, pos + 1) == '!') {
        while (pos < p->lx.limit && parse_char(p, pos) != '\n')
            pos++;
        parse_seek(p, pos);
    }
    for (parse_skip_newlines(p); parse_peek(p)->kind != TOK_END; parse_skip_newlines(p)) {
        if (!parse_append(p, &list, statement(p)))
            goto out;
        if (parse_peek(p)->kind != TOK_END && parse_peek(p)->kind != TOK_NEWLINE) {
            parse_unexpected(p, "the end of the statement");
            goto out;
        }
    }
    node = parse_node_of(p, AST_BLOCK, 0, list.items, list.n);
out:
    mem_free(list.items);
    return node;
}
