/* Options of commands, and the parameters of rules, which are written like them. A parameter whose
 * rule is not known yet is read as an expression and as a word. */
#include "syntax/parse_option.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "syntax/optimizer_param.h"
#include "syntax/parse_command.h"
#include "syntax/statement.h"

/* ---- Values ---- */

/* Returns true if the value of a rule's parameter is a bare word, which is text. */
static bool is_text_word(parser *p)
{
    const token *t = parse_peek(p);
    double number;
    if (t->kind != TOK_NAME)
        return false;
    const char *text = parse_token_text(p, t);
    return text && !parse_is_reserved(text) && !parse_is_constant(text, strlen(text), &number);
}

/* The signs that a word may contain as the value of a parameter. */
#define PARAM_WORD "-./,="

static bool is_param_char(const parser *p, uint32_t pos)
{
    char c = parse_char(p, pos);
    return lex_is_word_char(c) ||
           (c && strchr(PARAM_WORD, c) && !(c == '-' && parse_char(p, pos + 1) == '>'));
}

/* A schedule, written as a call, or pairs such as 0=fc_weight: text up to the next blank outside
 * brackets, when it holds a bracket or `=` behind its first character. */
static uint32_t raw_end(parser *p)
{
    uint32_t pos = parse_here(p), end = pos;
    int open = 0;
    bool raw = false;
    char first = parse_char(p, pos);
    if (!lex_is_letter(first) && !lex_is_digit(first))
        return pos;
    for (char c; (c = parse_char(p, end)) && c != '\n' && (open > 0 || !strchr(" \t\r;|>#}", c));
         end++) {
        open += (c == '(' || c == '[') - (c == ')' || c == ']');
        raw |= c == '=' || (c == '(' && lex_is_letter(first));
    }
    return raw && open == 0 ? end : pos;
}

/* The value of a parameter that is a text. */
static ast *text_value(parser *p)
{
    uint32_t pos = parse_here(p), end = raw_end(p);
    if (end > pos)
        return parse_text(p, pos, end);
    if (is_text_word(p))
        return parse_word(p, PARAM_WORD, "a value");
    return parse_value(p);
}

/* The end of numbers joined by commas. No parameter takes them, and its reader reports that. */
static uint32_t numbers_end(parser *p)
{
    uint32_t pos = parse_here(p), end = pos;
    bool comma = false;
    while (parse_char(p, end) &&
           (lex_is_word_char(parse_char(p, end)) || strchr("+-.,", parse_char(p, end))))
        comma |= parse_char(p, end++) == ',';
    return comma ? end : pos;
}

/* A value that begins with a word. An expression that goes on behind the word wins; one that cannot
 * be read, or ends before it, leaves the word; where both are as long, both are given. Returns how
 * many there are, 0 on an error. */
static int expression_or_word(parser *p, ast *given[2])
{
    parser before = *p;
    kv_err *outer = p->e, unused = {0};
    uint32_t pos = parse_peek(p)->pos, end = pos;
    while (is_param_char(p, end))
        end++;
    p->e = &unused; /* a failed expression may be a word; else the error shows again */
    given[0] = parse_value(p);
    p->e = outer;
    uint32_t last = p->last;
    if (given[0] && last > end)
        return 1;
    char next = parse_char(p, end);
    parse_back(p, &before);
    if (!given[0] && (next == '(' || next == '[')) /* a call or an index with a mistake in it */
        return (given[0] = parse_value(p)) != NULL;
    ast *word = parse_text(p, pos, end);
    if (given[0] && last == end) {
        given[1] = word;
        return word ? 2 : 0;
    }
    given[0] = word;
    return word != NULL;
}

/* The value of --PARAM: an expression, and where a word is as long, that word behind it. The
 * parameter decides between the two, and may belong to a rule that is not known yet. Returns how
 * many there are, 0 on an error. */
static int param_value(parser *p, const char *name, ast *given[2])
{
    if (optimizer_takes_text(name, NULL))
        return (given[0] = text_value(p)) != NULL;
    if (is_text_word(p))
        return expression_or_word(p, given);
    uint32_t pos = parse_peek(p)->pos, end = numbers_end(p);
    return (given[0] = end > pos ? parse_text(p, pos, end) : parse_value(p)) != NULL;
}

/* 0.5,1/3,w: expressions in one AST_LIST. */
static ast *joined_values(parser *p)
{
    ast_list list = {0};
    uint32_t pos = parse_peek(p)->pos;
    bool ok;
    do
        ok = parse_append(p, &list, parse_value(p));
    while (ok && parse_accept(p, SIGN1(',')));
    ast *node = ok ? parse_node_of(p, AST_LIST, pos, list.items, list.n) : NULL;
    parse_list_release(&list);
    return node;
}

static ast *option_value(parser *p, const command_option *o)
{
    switch (o->kind) {
    case OPTION_INT:
    case OPTION_VALUE:
    case OPTION_NEEDED:
        return parse_value(p);
    case OPTION_NAME: {
        token t = *parse_peek(p);
        ast *node = parse_new_name(p, "the name of a variable")
                        ? parse_node(p, AST_NAME, t.pos, t.end, 0)
                        : NULL;
        if (node)
            node->u.text = parse_token_text(p, &t);
        return node;
    }
    case OPTION_WORD:
        return parse_word(p, ".-", o->value);
    case OPTION_FILE:
        return parse_path(p);
    case OPTION_VALUES:
        return joined_values(p);
    case OPTION_PATH:
    case OPTION_OUTPUT:
        return parse_path_word(p, o->value);
    case OPTION_RAW:
    case OPTION_RAWS:
        return parse_raw_word(p, o->value);
    case OPTION_FLAG:
        break;
    }
    return NULL;
}

/* ---- Options ---- */

uint32_t parse_option_end(const parser *p, uint32_t pos)
{
    while (parse_char(p, pos) == '-' || lex_is_word_char(parse_char(p, pos)))
        pos++;
    return pos;
}

bool parse_at_option(parser *p)
{
    const token *t = parse_peek(p);
    return t->kind == TOK_OPTION ||
           (parse_is_sign(p, SIGN1('-')) && t->blank_before && p->lx.cursor &&
            parse_option_end(p, t->pos) == p->lx.src->len);
}

static ast *unknown_option(parser *p, const command *c, const token *t, const char *name)
{
    const char *names[COMMAND_MAX_OPTIONS + 1] = {0};
    char shown[COMMAND_MAX_OPTIONS][40];
    int n = 0;
    for (; c->options[n].name; n++) {
        snprintf(shown[n], sizeof shown[n], "--%s", c->options[n].name);
        names[n] = shown[n];
    }
    char word[sizeof shown[0]];
    snprintf(word, sizeof word, "--%.37s", name);
    parse_fail(p, t->pos, t->end, KV_E_USAGE, "`%s` has no option --%s", c->name, name);
    suggest_hint(p->e, word, names, n);
    if (strcmp(c->name, "push") == 0 && strcmp(name, "out") == 0)
        kv_err_hint(p->e, "pushpull KEYS VALUES --out V pushes, then pulls into V");
    command_hint_usage(c, p->e);
    return NULL;
}

ast *parse_option(parser *p, binding *b)
{
    const command *c = b->c;
    token t = parse_take(p);
    buf name = {0};
    name_put(&name, p->lx.src->text + t.pos + 2, t.end - t.pos - 2, '-');
    const char *known = buf_check(&name, p->e) ? NULL : parse_intern(p, buf_text(&name), name.len);
    buf_release(&name);
    if (!known)
        return NULL;
    const command_option *o = command_option_find(c, known, strlen(known));
    if (!o && !(c->flags & COMMAND_PARAMS))
        return unknown_option(p, c, &t, known);
    bool assigned = parse_accept(p, SIGN1('='));
    bool word = !o || o->kind == OPTION_PATH || o->kind == OPTION_OUTPUT ||
                o->kind == OPTION_RAW || o->kind == OPTION_RAWS;
    bool ends = parse_at_end(p) || (word && parse_at_option(p)), flag = o && o->kind == OPTION_FLAG;
    if (flag && assigned)
        return parse_fail(p, t.pos, t.end, KV_E_USAGE, "--%s takes no value", known);
    if (o && !flag && ends)
        return parse_fail(p, t.pos, t.end, KV_E_USAGE, "--%s needs a value: --%s %s", known, known,
                          o->value);
    ast *given[2] = {NULL, NULL};
    int n = 0;
    if (!flag) {
        b->option = o;
        b->in_option = true;
        b->begins = parse_peek(p)->pos;
    }
    if (!flag && !ends) {
        n = o ? (given[0] = option_value(p, o)) != NULL : param_value(p, known, given);
        if (n == 0)
            return NULL;
    }
    ast *node = parse_node_of(p, STMT_OPTION, t.pos, given, n);
    if (node)
        node->u.text = known;
    return node;
}
