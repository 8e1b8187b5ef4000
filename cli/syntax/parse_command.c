/* Commands: the table says how the arguments and options of each are read. */
#include "syntax/parse_command.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/suggest.h"
#include "syntax/check.h"
#include "syntax/hints.h"
#include "syntax/parse_statement.h"
#include "syntax/read_unit.h"
#include "syntax/rules.h"

/* ---- Bindings ---- */

void bind_begin(binding *b, const command *c)
{
    *b = (binding){.c = c, .begins = NOWHERE};
    while (c->args[b->nargs].kind != ARG_END)
        b->nargs++;
    b->n = b->nargs;
}

bool bind_add(binding *b, parser *p, ast *part)
{
    if (b->n == BIND_MAX)
        return parse_fail(p, part->pos, part->end, KV_E_USAGE, "`%s` has too many options",
                          b->c->name);
    b->parts[b->n++] = part;
    return true;
}

bool bind_has(const binding *b, const char *option)
{
    bool found = false;
    for (int i = b->nargs; i < b->n && !found; i++)
        found = b->parts[i]->kind == STMT_OPTION && strcmp(b->parts[i]->u.text, option) == 0;
    return found;
}

const command_arg *bind_missing(const binding *b, const command_option **option)
{
    *option = NULL;
    for (int i = 0; i < b->nargs; i++)
        if (!b->parts[i] && !b->c->args[i].optional)
            return &b->c->args[i];
    for (const command_option *o = b->c->options; o->name && !*option; o++)
        if (command_option_is_needed(o) && !bind_has(b, o->name))
            *option = o;
    return NULL;
}

bool bind_wants_value(const binding *b)
{
    const command_option *o;
    return b->given == b->nargs && !bind_missing(b, &o) && o && o->kind == OPTION_NEEDED;
}

bool bind_value(binding *b, parser *p, ast *one)
{
    const command_option *o;
    ast *node = parse_node_of(p, STMT_OPTION, one->pos, &one, 1);
    if (!node)
        return false;
    bind_missing(b, &o);
    node->u.text = o->name;
    return bind_add(b, p, node);
}

ast *bind_node(const binding *b, parser *p, uint32_t pos)
{
    ast *node = parse_node_of(p, STMT_COMMAND, pos, b->parts, b->n);
    if (node)
        node->u.other = (void *)(uintptr_t)b->c;
    return node;
}

void bind_cursor(const binding *b, parse_cursor *at, uint32_t end)
{
    if (!at || !at->met || at->in_statement)
        return;
    at->command = b->c;
    at->argument = b->given;
    at->begun = b->given + (!b->in_option && b->begins < end);
    at->first = at->pos == b->begins;
    at->in_option = b->in_option;
    at->option = b->option;
    for (int i = 0; b->c->options[i].name; i++) {
        const command_option *o = &b->c->options[i];
        bool here = b->in_option && b->option == o;
        at->options |= here || bind_has(b, o->name) ? 1u << i : 0;
    }
}

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
    char c = parse_char(p, pos), next = parse_char(p, pos + 1);
    return lex_is_word_char(c) || (c && strchr(PARAM_WORD, c) && !(c == '-' && next == '>') &&
                                   !(c == ',' && lex_is_blank(next)));
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
    for (char c; (c = parse_char(p, end)) && (lex_is_word_char(c) || strchr("+-.,", c)); end++) {
        char next = parse_char(p, end + 1);
        if (c == ',' && !lex_is_digit(next) && next != '-' && next != '.')
            break;
        comma |= c == ',';
    }
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
    uint32_t last = p->last;
    if (!parse_looked(p, outer, &unused) || (given[0] && last > end))
        return outer->code == KV_OK;
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

/* A word of the shell is one value, whose blanks part nothing. */
static ast *one_value(parser *p, bool of_shell)
{
    return of_shell ? parse_expr(p, false) : parse_value(p);
}

/* 0.5,1/3,w: expressions in one AST_LIST. */
static ast *joined_values(parser *p, bool of_shell)
{
    ast_list list = {0};
    uint32_t pos = parse_peek(p)->pos;
    bool ok;
    do
        ok = parse_append(p, &list, one_value(p, of_shell));
    while (ok && parse_accept(p, SIGN1(',')));
    return ok ? parse_node_of(p, AST_LIST, pos, list.items, list.n) : NULL;
}

static ast *option_value(parser *p, const command_option *o, bool of_shell)
{
    switch (o->kind) {
    case OPTION_INT:
    case OPTION_VALUE:
    case OPTION_NEEDED:
        return one_value(p, of_shell);
    case OPTION_NAME: {
        token t = *parse_peek(p);
        if (parse_at_operand(p, t.pos))
            return parse_word(p, "", o->value);
        return parse_new_name(p, "the name of a store") ? parse_text(p, t.pos, t.end) : NULL;
    }
    case OPTION_WORD:
        return parse_word(p, ".-", o->value);
    case OPTION_FILE:
        return parse_path(p);
    case OPTION_VALUES:
        return joined_values(p, of_shell);
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

bool parse_word_ended(parser *p)
{
    bool ended = !p->e->code && parse_peek(p)->kind == TOK_END;
    if (!ended && !p->e->code)
        parse_unexpected(p, "the end of the expression");
    p->lx.in_brackets = false;
    return ended;
}

/* The value in the word of the shell that begins there: param_value or option_value, which have to
 * read all of it, or the word as it stands. */
static int shell_value(parser *p, const command_option *o, const char *name, uint32_t word,
                       ast *given[2])
{
    uint32_t end = word;
    while (lex_is_word_char(parse_char(p, end)) ||
           (parse_char(p, end) && strchr("-+.,=", parse_char(p, end))))
        end++;
    bool whole = o ? command_option_is_raw(o) || o->kind == OPTION_WORD || o->kind == OPTION_FILE
                   : end == word || end < p->lx.limit;
    if (whole)
        return (given[0] = parse_text(p, word, p->lx.limit)) != NULL;
    p->lx.in_brackets = true; /* a newline is a blank */
    int n = o ? (given[0] = option_value(p, o, true)) != NULL : param_value(p, name, given);
    return parse_word_ended(p) ? n : 0;
}

/* ---- Options ---- */

/* The end of a run of dashes, letters and digits. */
static uint32_t parse_option_end(const parser *p, uint32_t pos)
{
    while (parse_char(p, pos) == '-' || lex_is_word_char(parse_char(p, pos)))
        pos++;
    return pos;
}

/* Returns true at an option; for completion also at dashes alone that end at the cursor. */
static bool parse_at_option(parser *p)
{
    const token *t = parse_peek(p);
    return t->kind == TOK_OPTION ||
           (parse_is_sign(p, SIGN1('-')) && t->blank_before && p->lx.cursor &&
            parse_option_end(p, t->pos) == p->lx.src->len);
}

/* The bytes of NAME where NAME= stands at text, which no comparison follows; else 0. */
static uint32_t assigned_name(const char *text)
{
    uint32_t n = 0, end;
    while (lex_is_letter(*text) && (lex_is_word_char(text[n]) || text[n] == '-'))
        n++;
    for (end = n; lex_is_blank(text[end]);)
        end++;
    return n < 64 && text[end] == '=' && text[end + 1] != '=' ? n : 0;
}

/* Returns true if the word is a number or a truth behind its =, and not the name of a file: one of
 * a merge is a parameter then, as in density=0.5, while epoch=3.ckpt is a path. */
static bool is_param_word(const parser *p, uint32_t pos, uint32_t n)
{
    char path[80];
    snprintf(path, sizeof path, "%.*s", (int)(p->lx.limit - pos), p->lx.src->text + pos);
    path[strcspn(path, " \t\r\n;|>}")] = '\0';
    const char *x = path + n + (path[n] == '=');
    bool number = *x && !x[strspn(x, "0123456789.e+-")];
    return (number || strcmp(x, "true") == 0 || strcmp(x, "false") == 0) && access(path, F_OK) != 0;
}

named_kind parse_named(const parser *p, const command *c, const command_arg *a, uint32_t pos)
{
    const char *word = p->lx.src->text + pos;
    uint32_t n = assigned_name(word);
    if (n == 0 || a->kind >= ARG_HEREDOC)
        return NAMED_NOT;
    if (command_option_find(c, word, n))
        return NAMED_OPTION;
    if (command_takes_paths(c))
        return c->flags & COMMAND_PARAMS && is_param_word(p, pos, n) ? NAMED_OPTION : NAMED_NOT;
    if (a->kind != ARG_END && (command_param_find(command_params(c), word, n) == a - c->args ||
                               (strlen(a->name) == n && strncasecmp(a->name, word, n) == 0)))
        return NAMED_ARGUMENT;
    bool unknown = c->options[0].name && (a->kind == ARG_VALUES || a->kind == ARG_END);
    return c->flags & COMMAND_PARAMS || unknown ? NAMED_OPTION : NAMED_NOT;
}

static ast *unknown_option(parser *p, const command *c, const token *t, const char *name)
{
    static const char *const others[][2] = {{"to", "dtype"}, {"sort-by", "sort"}};
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
    if (strcmp(name, "include") == 0 && command_option_find(c, "exclude", strlen("exclude")))
        kv_err_hint(p->e, "patterns behind the files choose keys: %s … 'model.*'", c->name);
    if (strcmp(c->name, "pull") == 0 && (strstr(name, "row") || strstr(name, "indices")))
        kv_err_hint(p->e, "row-sparse-pull KEY [3, 17] gives rows");
    if (strcmp(name, "drop") == 0 &&
        command_option_find(c, "drop-metadata", strlen("drop-metadata")))
        kv_err_hint(p->e, "--exclude 'optimizer*' leaves keys out, --drop-metadata the metadata");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i][0]) == 0 &&
            command_option_find(c, others[i][1], strlen(others[i][1])))
            kv_err_hint(p->e, "did you mean --%s?", others[i][1]);
    suggest_hint(p->e, word, names, n);
    if (strcmp(c->name, "push") == 0 && strcmp(name, "out") == 0)
        kv_err_hint(p->e, "pushpull KEYS VALUES --out V pushes, then pulls into V");
    if (c->flags & (COMMAND_GIVES | COMMAND_PRINTS) &&
        (strcmp(name, "out") == 0 || strcmp(name, "output") == 0))
        kv_err_hint(p->e, "%s … > FILE writes what it gives", c->name);
    command_hint_usage(c, p->e);
    return NULL;
}

ast *parse_option(parser *p, binding *b, const uint32_t *word)
{
    const command *c = b->c;
    token t = *parse_peek(p);
    const char *at = p->lx.src->text + t.pos;
    bool dashed = *at == '-';
    own_buf name = {0};
    t.end = dashed ? t.end : t.pos + assigned_name(at);
    parse_seek(p, t.end);
    name_put(&name, at + 2 * dashed, t.end - t.pos - 2 * dashed, '-');
    const char *known = buf_check(&name, p->e) ? NULL : parse_intern(p, buf_text(&name), name.len);
    if (!known)
        return NULL;
    const command_option *o = command_option_find(c, known, strlen(known));
    if (!o && !(c->flags & COMMAND_PARAMS))
        return unknown_option(p, c, &t, known);
    bool assigned = parse_accept(p, SIGN1('='));
    bool flag = o && o->kind == OPTION_FLAG;
    bool ends = word ? *word == NOWHERE
                     : parse_at_end(p) || ((!o || command_option_is_raw(o)) && parse_at_option(p));
    if (flag && assigned && !parse_accept_word(p, "true") && !parse_accept_word(p, "True"))
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
        n = word ? shell_value(p, o, known, *word, given)
            : o  ? (given[0] = option_value(p, o, false)) != NULL
                 : param_value(p, known, given);
        if (n == 0)
            return NULL;
    }
    ast *node = parse_node_of(p, STMT_OPTION, t.pos, given, n);
    if (node)
        node->u.text = known;
    return node;
}

/* ---- Commands ---- */

/* Returns true if a blank separates the next argument from the one before it; else an error. */
static bool stands_apart(parser *p)
{
    const token *t = parse_peek(p);
    bool assigns = parse_is_sign(p, SIGN1('='));
    if ((t->blank_before && !assigns) || t->kind == TOK_BAD)
        return true;
    if (parse_expects(p, EXPECT_NOTHING, 0))
        return false;
    if (parse_is_sign(p, SIGN1(','))) {
        parse_fail(p, t->pos, t->end, KV_E_SYNTAX, "a comma stands between two values");
        return parse_hint(p, "a list and a call have brackets: [5, 6], ones(2,3)");
    }
    if (assigns) {
        parse_fail(p, t->pos, t->end, KV_E_SYNTAX, "no `=` stands between two arguments");
        return parse_hint(p, "a blank separates them");
    }
    parse_fail(p, t->pos, t->end, KV_E_SYNTAX, "a blank is needed before `%.*s`",
               parse_shown(p, t->pos, t->end), p->lx.src->text + t->pos);
    parse_hint_point(p, t);
    return false;
}

/* One or more values, or words, in one AST_LIST. before: one whose items come first, or NULL.
 * commas: they may stand between the values, because no list of keys is before these. */
static ast *several(parser *p, const command *c, const command_arg *a, const ast *before,
                    bool commas)
{
    ast_list list = {0};
    uint32_t pos = before ? before->pos : parse_peek(p)->pos;
    bool ok = true;
    for (uint32_t i = 0; before && i < before->n && ok; i++)
        ok = parse_append(p, &list, before->kid[i]);
    do {
        bool comma = commas && list.n > 0 && parse_accept(p, SIGN1(','));
        ok = ok && (list.n == 0 || comma || stands_apart(p));
        ok = ok && parse_append(p, &list,
                                a->kind == ARG_VALUES ? parse_value(p)
                                                      : parse_path_word(p, a->name));
    } while (ok && !parse_at_end(p) && !parse_at_redirect(p) && !parse_at_option(p) &&
             parse_named(p, c, a, parse_peek(p)->pos) != NAMED_OPTION);
    return ok ? parse_node_of(p, AST_LIST, pos, list.items, list.n) : NULL;
}

/* `init 3 - 1`: the sign would join two values, but a key is no value. */
static ast *sign_behind_keys(parser *p, const command *c, const ast *keys)
{
    const token *t = parse_peek(p);
    const char *text = p->lx.src->text;
    uint32_t pos = t->pos, end = t->end, from = end, to;
    char sign = (char)t->sign;
    while (from < p->lx.limit && lex_is_blank(text[from]))
        from++;
    for (to = from; to < p->lx.limit && to < from + 20 && !strchr(" \t\r\n;", text[to]); to++)
        ;
    parse_fail(p, pos, end, KV_E_SYNTAX, "`%c` joins two values, but the word before it is a key",
               sign);
    return parse_hint(p, "%s %.*s %c%.*s, or %s (%.*s %c %.*s) VALUE to compute a key", c->name,
                      (int)(keys->end - keys->pos), text + keys->pos, sign, (int)(to - from),
                      text + from, c->name, (int)(keys->end - keys->pos), text + keys->pos, sign,
                      (int)(to - from), text + from);
}

/* (a, b, sep=c) as a call has it, up to the end of the statement; NULL and no error when it is
 * something else, as (a) + b. */
static ast *call_arguments(parser *p)
{
    ast_list list = {0};
    ast *node = NULL;
    bracket b;
    kv_err unused = {0}, *e = p->e;
    parser before = *p;
    p->e = p->cursor ? e : &unused;
    bool ok = parse_open(p, &b);
    while (ok && !parse_is_sign(p, SIGN1(')')))
        if (!(ok = parse_append(p, &list, parse_argument(p))) || !parse_accept(p, SIGN1(',')))
            break;
    ok = ok && parse_close(p, &b) && (parse_at_end(p) || parse_at_redirect(p));
    if (ok)
        node = parse_node_of(p, AST_LIST, b.pos, list.items, list.n);
    else if (!p->cursor)
        parse_back(p, &before);
    parse_looked(p, e, &unused);
    return node;
}

/* expr, expr, …, in one AST_LIST. */
static ast *joined_exprs(parser *p, bool angles_redirect)
{
    ast_list list = {0};
    ast *node = NULL;
    uint32_t pos = parse_peek(p)->pos;
    if (parse_is_sign(p, SIGN1('(')) && ((node = call_arguments(p)) || p->e->code))
        return node;
    do {
        if (!parse_append(p, &list, parse_expr(p, angles_redirect)))
            return NULL;
    } while (parse_accept(p, SIGN1(',')) && !parse_at_end(p) && !parse_at_redirect(p));
    return parse_node_of(p, AST_LIST, pos, list.items, list.n);
}

ast *parse_rule_node(parser *p)
{
    uint32_t pos = parse_peek(p)->pos;
    const session *s = p->user;
    const check_errors *found = p->recover && s ? s->check : NULL;
    int64_t errors = found ? found->n : 0;
    rule_ast *rule = parse_rule_here(p);
    ast *node = rule ? parse_node_of(p, STMT_RULE, pos, NULL, 0) : NULL;
    if (node) {
        node->u.other = rule;
        node->op = found && found->n > errors ? STMT_RULE_BROKEN : 0;
    }
    return node;
}

/* before: the argument on its left, or NULL. */
static ast *argument(parser *p, const command *c, const command_arg *a, const ast *before)
{
    ast *node;
    bool outer;
    switch (a->kind) {
    case ARG_HEREDOC:
        return parse_heredoc(p);
    case ARG_CODE:
        return parse_code(p);
    case ARG_SWITCH:
        return parse_switch(p);
    case ARG_EXPLAINED:
        return parse_explained(p);
    case ARG_BLOCK:
        return parse_failing_block(p, before);
    case ARG_STATEMENT:
        return parse_is_sign(p, SIGN1('{')) ? parse_block(p) : parse_one_statement(p);
    case ARG_KEYS:
        return parse_keys(p);
    case ARG_VALUE:
        return parse_value(p);
    case ARG_VALUES:
    case ARG_PATHS:
        return several(p, c, a, NULL, a->kind == ARG_VALUES && a == c->args);
    case ARG_EXPRS:
        return joined_exprs(p, strcmp(c->name, "assert") != 0);
    case ARG_WORD:
        return parse_word(p, ".-?", a->name);
    case ARG_GLOB:
        return parse_word(p, ".-*?/:[]", a->name);
    case ARG_NAME:
        return parse_word(p, ".-", a->name);
    case ARG_FILE:
    case ARG_SOURCE:
        return parse_path(p);
    case ARG_PATH:
        return parse_path_word(p, a->name);
    case ARG_RULE:
        if (refuse_lambda(p))
            return NULL;
        return parse_is_sign(p, SIGN1('{'))
                   ? parse_rule_node(p)
                   : parse_word(p, "-", "the name of an updater or a block");
    case ARG_MERGE:
        if (!parse_is_sign(p, SIGN1('{')) && !parse_is_word(p, "merge"))
            return parse_path_word(p, "the name of a merge or a block");
        outer = p->merge;
        p->merge = true; /* its statements are those of rules, and loops */
        node = parse_rule_node(p);
        p->merge = outer;
        return node;
    case ARG_END:
        break;
    }
    return NULL;
}

ast *parse_too_many(parser *p, const command *c)
{
    const token *t = parse_peek(p);
    uint32_t pos = t->pos, end = t->end;
    if (t->kind == TOK_BAD || t->kind == TOK_CURSOR)
        return parse_unexpected(p, "");
    int n = 0;
    while (c->args[n].kind != ARG_END)
        n++;
    bool one_each = n > 0 && c->args[n - 1].kind == ARG_VALUE && c->args[0].kind == ARG_KEYS;
    parse_fail(p, pos, end, KV_E_USAGE, "%s takes %s", c->name,
               n == 0     ? "no argument"
               : one_each ? "one value a key"
                          : "no more arguments");
    const char *word = p->lx.src->text + pos;
    bool equals = *word == '=' && word[1] != '=';
    if (strcmp(c->name, "pull") == 0 && lex_is_letter(*word)) {
        const char *begin = word;
        while (begin > p->lx.src->text && !strchr("\n;{", begin[-1]))
            begin--;
        begin += strspn(begin, " \t");
        kv_err_hint(p->e, "%.*s-> %.*s keeps the value in a variable; several keys stand as a,b",
                    (int)(word - begin), begin, (int)(end - pos), word);
    }
    if (*word == '(' && c->flags & COMMAND_PARAMS)
        kv_err_hint(p->e, "%s NAME learning_rate=0.1: no brackets", c->name);
    if (equals && strcmp(c->name, "assert") == 0)
        kv_err_hint(p->e, "`==` compares");
    if ((equals || assigned_name(word) > 0) && strcmp(c->name, "print") == 0)
        kv_err_hint(p->e, "sep= and end= stand in brackets: print(a, b, sep=\"\")");
    if (!equals)
        parse_hint_sign(p);
    return command_hint_usage(c, p->e), NULL;
}

bool parse_one_each(parser *p, const command *c, const ast *before, const ast *values)
{
    /* several keys may be computed: only one plain key is known before anything runs */
    if (!before || !(c->flags & COMMAND_ONE_EACH) || values->n < 2 ||
        !(before->flags & AST_SINGLE) || before->kid[0]->kind != AST_KEY)
        return true;
    const ast *second = values->kid[1];
    parse_fail(p, second->pos, second->end, KV_E_USAGE, "%s takes one value a key", c->name);
    if (p->lx.src->text[second->pos] == '-')
        kv_err_hint(p->e,
                    "blanks separate values: a `-` with a blank before it and none behind it "
                    "begins a new one");
    else
        kv_err_hint(p->e, "several keys have commas between them, and their values brackets: "
                          "%s 3,4 [5, 6]",
                    c->name);
    return false;
}

bool parse_add_once(parser *p, binding *b, ast *part)
{
    bool redirected = false;
    for (int i = b->nargs; i < b->n; i++)
        redirected |= b->parts[i]->kind == STMT_REDIRECT;
    if (part->kind == STMT_REDIRECT && redirected)
        return parse_fail(p, part->pos, part->end, KV_E_USAGE, "a command takes one redirect");
    const command_option *o = part->kind == STMT_OPTION
                                  ? command_option_find(b->c, part->u.text, strlen(part->u.text))
                                  : NULL;
    if (part->kind == STMT_OPTION && !(o && o->kind == OPTION_RAWS) && bind_has(b, part->u.text))
        return parse_fail(p, part->pos, part->end, KV_E_USAGE, "--%s is given twice", part->u.text);
    return bind_add(b, p, part);
}

static bool is_help_option(parser *p)
{
    const token *t = parse_peek(p);
    return t->end - t->pos == 6 && memcmp(p->lx.src->text + t->pos, "--help", 6) == 0;
}

ast *parse_help_on(parser *p, uint32_t pos, ast *topic)
{
    ast *node = parse_node_of(p, STMT_COMMAND, pos, &topic, 1);
    if (node)
        node->u.other = (void *)(uintptr_t)command_find("help", 4);
    return node;
}

ast *parse_help_option(parser *p, const command *c, uint32_t pos)
{
    token t = parse_take(p);
    ast *name = parse_node(p, AST_TEXT, pos, t.end, 0);
    if (!name || !parse_ended(p))
        return NULL;
    name->u.text = c->name;
    return parse_help_on(p, pos, name);
}

/* Returns true if the expression has a division outside of brackets. */
static bool divides(const ast *x)
{
    while (x && x->kind == AST_BINARY && x->op != OP_DIV)
        x = x->kid[0];
    return x && x->kind == AST_BINARY;
}

/* Reads more paths, which stand behind an option: they belong to those before it. */
static bool more_paths(parser *p, binding *b)
{
    ast **last = &b->parts[b->nargs - 1];
    b->given--; /* for completion: the word at the cursor is one of this argument */
    b->begins = parse_peek(p)->pos;
    ast *all = stands_apart(p)
                   ? several(p, b->c, &b->c->args[b->nargs - 1], *last, false)
                   : NULL;
    if (!all)
        return false;
    *last = all;
    b->given++;
    b->begins = NOWHERE;
    return true;
}

/* Reads the next argument. */
static bool next_argument(parser *p, binding *b)
{
    const command *c = b->c;
    if (b->given > 0 && b->given == b->nargs && c->args[b->nargs - 1].kind == ARG_PATHS)
        return more_paths(p, b);
    const ast *before = b->given > 0 ? b->parts[b->given - 1] : NULL;
    bool behind_keys = before && c->args[b->given - 1].kind == ARG_KEYS;
    if (bind_wants_value(b)) {
        static const command_arg values = {ARG_VALUES, "", false};
        ast *all = stands_apart(p) ? several(p, c, &values, NULL, false) : NULL;
        return all && bind_value(b, p, all->n == 1 ? all->kid[0] : all);
    }
    if (b->given == b->nargs)
        return parse_too_many(p, c);
    const token *t = parse_peek(p);
    if (behind_keys && t->kind == TOK_SIGN && t->blank_after &&
        (t->sign == SIGN1('-') || t->sign == SIGN1('+')))
        return sign_behind_keys(p, c, before);
    bool set = before && c->flags & COMMAND_SETS && parse_accept(p, SIGN1('='));
    if (before && !set && !stands_apart(p))
        return false;
    b->begins = parse_peek(p)->pos;
    ast *one = argument(p, c, &c->args[b->given], before);
    if (!one)
        return false;
    if (!parse_one_each(p, c, behind_keys ? before : NULL, one))
        return false;
    b->parts[b->given++] = one;
    b->begins = NOWHERE;
    return true;
}

/* The redirect that is next. *last: nothing may follow it. */
static ast *next_redirect(parser *p, const command *c, bool *last)
{
    token t = *parse_peek(p);
    *last = t.sign != SIGN2('-', '>');
    if (!(c->flags & (COMMAND_GIVES | (*last ? COMMAND_PRINTS : 0))))
        return parse_fail(p, t.pos, t.end, KV_E_USAGE, "`%s` gives nothing to redirect", c->name);
    return parse_redirect(p, c);
}

/* Returns true at the word of `help --seed`, which asks about an option. */
static bool asks_about_option(parser *p, const binding *b)
{
    const char *word = p->lx.src->text + parse_peek(p)->pos;
    return strcmp(b->c->name, "help") == 0 && b->given == 0 && !p->cursor && !is_help_option(p) &&
           strncmp(word, "--json", 6) != 0;
}

/* Returns true where NAME=VALUE is next and not an argument; goes to the value of one that is. */
static bool at_named_option(parser *p, const binding *b)
{
    token t = *parse_peek(p);
    bool apart = t.blank_before || parse_char(p, t.pos - 1) == ',';
    named_kind kind = t.kind == TOK_NAME && apart
                          ? parse_named(p, b->c, &b->c->args[b->given], t.pos)
                          : NAMED_NOT;
    if (kind == NAMED_ARGUMENT) {
        parse_seek(p, t.pos + assigned_name(p->lx.src->text + t.pos));
        parse_take(p);
        parse_peek(p);
        p->tok.blank_before = true;
    }
    return kind == NAMED_OPTION;
}

/* Reads up to the end of the command. *other: a node that stands for all of it, or NULL. */
static bool read_words(parser *p, binding *b, uint32_t pos, ast **other)
{
    const command *c = b->c;
    for (bool last = false; !last && !parse_at_end(p);) {
        bool redirect = parse_at_redirect(p) && !parse_at_option(p), named = false;
        if (!redirect && (!parse_at_option(p) || asks_about_option(p, b)) &&
            !(named = at_named_option(p, b))) {
            if (!parse_peek(p)->blank_before && parse_expects(p, EXPECT_NOTHING, 0))
                return false;
            if (b->given == b->nargs && c->flags & COMMAND_PARAMS && !command_takes_paths(c) &&
                parse_expects(p, EXPECT_OPTION, parse_dashed_end(p, parse_peek(p)->pos)))
                return false;
            if (!next_argument(p, b))
                return false;
            continue;
        }
        if (!redirect && !named && is_help_option(p))
            return (*other = parse_help_option(p, c, pos)) != NULL;
        if (!redirect && !named &&
            parse_expects(p, EXPECT_OPTION, parse_option_end(p, parse_peek(p)->pos)))
            return false;
        ast *extra = redirect ? next_redirect(p, c, &last) : parse_option(p, b, NULL);
        if (!extra || !parse_add_once(p, b, extra))
            return false;
        b->in_option = false;
        b->begins = NOWHERE;
        if (named)
            parse_accept(p, SIGN1(',')); /* as in a call */
    }
    return true;
}

ast *parse_bound(parser *p, binding *b, uint32_t pos)
{
    const command *c = b->c;
    ast *node;
    const command_option *option;
    const command_arg *arg = bind_missing(b, &option);
    if (arg) {
        parse_fail(p, pos, p->last, KV_E_USAGE, "%s needs %s", c->name, arg->name);
        if (arg->kind != ARG_FILE || b->given == 0 || !divides(b->parts[b->given - 1]))
            return command_hint_usage(c, p->e), NULL;
        /* it may have become part of the value before it */
        return parse_hint(p,
                          "behind a value / divides: a path that begins with / stands in quotes");
    }
    if (option) {
        parse_fail(p, pos, p->last, KV_E_USAGE, "%s needs --%s %s", c->name, option->name,
                   option->value);
        for (int i = b->nargs; i < b->n; i++) /* --output */
            if (b->parts[i]->kind == STMT_OPTION &&
                strncmp(b->parts[i]->u.text, option->name, strlen(option->name)) == 0)
                kv_err_hint(p->e, "--%s, not --%s", option->name, b->parts[i]->u.text);
        return command_hint_usage(c, p->e), NULL;
    }
    /* a path that is known only when it runs is read then; completion reads none */
    if (!(node = bind_node(b, p, pos)) || c->args[0].kind != ARG_SOURCE || !p->user ||
        node->kid[0]->kind != AST_TEXT)
        return node;
    node->kind = STMT_SOURCE;
    node->u.other = unit_source(p, node->kid[0]);
    return node->u.other ? node : NULL;
}

ast *parse_command(parser *p, const command *c, uint32_t pos)
{
    binding b;
    ast *node = NULL;
    bind_begin(&b, c);
    if (!read_words(p, &b, pos, &node)) {
        bind_cursor(&b, p->cursor, p->lx.src->len);
        return NULL;
    }
    return node ? node : parse_bound(p, &b, pos);
}
