/* The words of commands, what stands behind them (texts for the shell, redirects), and the
 * arguments of commands that run or describe statements, such as expect and explain. */
#include <string.h>

#include "base/suggest.h"
#include "syntax/file_kind.h"
#include "syntax/hints.h"
#include "syntax/parse_command.h"
#include "syntax/parse_statement.h"

/* ---- Words, texts for the shell, redirects ---- */

uint32_t parse_dashed_end(const parser *p, uint32_t pos)
{
    uint32_t end = pos;
    while (lex_is_word_char(parse_char(p, end)) ||
           (parse_char(p, end) == '-' && end > pos && lex_is_letter(parse_char(p, end + 1))))
        end++;
    return end;
}

ast *parse_text(parser *p, uint32_t pos, uint32_t end)
{
    parse_seek(p, end);
    return parse_text_node(p, p->lx.src->text + pos, end - pos, pos, end);
}

ast *parse_word(parser *p, const char *more, const char *wanted)
{
    uint32_t pos = parse_here(p), end = pos;
    while (lex_is_word_char(parse_char(p, end)) ||
           (parse_char(p, end) && strchr(more, parse_char(p, end)) &&
            !(parse_char(p, end) == '-' && parse_char(p, end + 1) == '>')))
        end++;
    if (parse_expects(p, EXPECT_WORD, end))
        return NULL;
    if (parse_at_operand(p, pos)) {
        bool arguments = p->arguments;
        p->arguments = true;
        ast *one = parse_primary(p);
        p->arguments = arguments;
        return one;
    }
    return end > pos ? parse_text(p, pos, end) : parse_unexpected(p, wanted);
}

ast *parse_shell_text(parser *p, int kind, uint32_t from, const char *wanted)
{
    uint32_t pos = parse_here(p), end = pos;
    while (end < p->lx.limit && parse_char(p, end) != '\n')
        end++;
    parse_seek(p, end);
    while (end > pos && lex_is_blank(parse_char(p, end - 1)))
        end--;
    if (end == pos)
        return parse_unexpected(p, wanted);
    ast *node = parse_text_node(p, p->lx.src->text + pos, end - pos, from, end);
    if (node)
        node->kind = (uint8_t)kind;
    return node;
}

/* ---- Redirects ---- */

bool parse_at_redirect(parser *p)
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

ast *parse_redirect(parser *p, const command *c)
{
    token t = parse_take(p);
    if (t.sign == SIGN1('|')) {
        ast *node = parse_shell_text(p, STMT_REDIRECT, t.pos, "a shell command");
        if (node)
            node->op = REDIRECT_PIPE;
        return node;
    }
    if (t.sign == SIGN2('-', '>')) {
        if (parse_expects(p, EXPECT_VARIABLE, 0))
            return NULL;
        const char *name = parse_new_name(p, "the name of a variable");
        return name ? redirect_node(p, t.pos, REDIRECT_VARIABLE, name, NULL) : NULL;
    }
    ast *path = parse_path(p);
    bool draws = c && c->flags & COMMAND_DRAWS;
    if (path && path->kind == AST_TEXT &&
        (draws ? plot_path_check : file_kind_check)(path->u.text, t.sign != SIGN1('>'), p->e)) {
        source_at(p->lx.src, path->pos, path->end, p->e);
        if (!c && plot_path_check(path->u.text, false, &(kv_err){0}) == KV_OK)
            kv_err_hint(p->e, "plot x > %s draws", path->u.text);
        if (t.sign == SIGN1('>') && path->op == 0) /* in quotes */
            kv_err_hint(p->e, "(a > \"%s\") in brackets compares", path->u.text);
        else if (path->op && parse_is_new_name(path->u.text))
            kv_err_hint(p->e, "-> %s keeps it in a variable; a file name has an ending: > %s.csv",
                        path->u.text, path->u.text);
        return NULL;
    }
    return path ? redirect_node(p, t.pos, t.sign == SIGN1('>') ? REDIRECT_FILE : REDIRECT_APPEND,
                                NULL, path)
                : NULL;
}

/* ---- Paths and patterns ---- */

/* Words that are taken as they stand: paths, patterns of names, substitutions. They are those of a
 * shell, without its expansions: only a blank, a redirect or the end of the statement ends them. */

/* A quoted text, $NAME or (expr), which is next. Texts side by side are words of their own. */
static ast *alone(parser *p)
{
    bool arguments = p->arguments;
    p->arguments = true;
    ast *one = parse_operand(p);
    p->arguments = arguments;
    return one;
}

/* The end of the word at pos. signs: the characters that it may have, beside those of names; NULL:
 * all that end no word. A `}` without its `{` ends the block around it. */
static uint32_t word_end(const parser *p, uint32_t pos, const char *signs)
{
    char c;
    for (int open = 0; (c = parse_char(p, pos)); pos++) {
        if (lex_is_blank(c) || strchr("\n\r;|>", c) || (c == '-' && parse_char(p, pos + 1) == '>'))
            break;
        if (signs && (unsigned char)c < 0x80 && !lex_is_letter(c) && !lex_is_digit(c) &&
            !strchr(signs, c))
            break;
        open += (c == '{') - (c == '}');
        if (open < 0)
            break;
    }
    return pos;
}

ast *parse_path_word(parser *p, const char *wanted)
{
    /* a quote, a bracket or a $ within a word is most likely a mistake */
    uint32_t pos = parse_here(p), end = word_end(p, pos, "./~+-*?[]{}:!^,=@%#\\");
    bool operand = parse_at_operand(p, pos);
    if (parse_expects(p, EXPECT_FILE, operand ? pos : end))
        return NULL;
    if (operand)
        return alone(p);
    if (parse_char(p, pos) != '-' || end <= pos + 1)
        return end > pos ? parse_text(p, pos, end) : parse_unexpected(p, wanted);
    const char *word = p->lx.src->text + pos; /* ls -l: most likely meant for a shell */
    int n = parse_shown(p, pos, end);
    parse_fail(p, pos, end, KV_E_USAGE, "`%.*s` is not an option", n, word);
    hint_output(word, (size_t)n, p->e);
    return parse_hint(p,
                      "! before the line runs it in a shell; a file of this name stands in quotes");
}

/* The end of s/RE/TO/ at pos, whose delimiter may be any sign; pos when it is something else, or
 * when a blank stands in it. */
static uint32_t substitution_end(const parser *p, uint32_t pos)
{
    char mark = parse_char(p, pos) == 's' ? parse_char(p, pos + 1) : '\0', c;
    if (!mark || lex_is_word_char(mark) || lex_is_blank(mark) || mark == '\\')
        return pos;
    int marks = 0;
    for (uint32_t at = pos + 1; (c = parse_char(p, at)) && c != '\n' && !lex_is_blank(c); at++) {
        if (c == '\\' && parse_char(p, at + 1) > ' ')
            at++;
        else if (c == mark && ++marks == 3)
            return at + 1;
    }
    return pos;
}

ast *parse_raw_word(parser *p, const char *wanted)
{
    lex_quote q;
    uint32_t pos = parse_here(p), end = word_end(p, substitution_end(p, pos), NULL);
    bool operand = parse_at_operand(p, pos);
    if (parse_expects(p, EXPECT_WORD, operand ? pos : end))
        return NULL;
    if (lex_quote_at(&p->lx, pos, &q) && !q.fields && !q.bytes) { /* as r"…" has it */
        if (parse_peek(p)->kind != TOK_STRING)
            return parse_operand(p); /* it is not closed */
        token t = parse_take(p);
        uint32_t from = t.pos + q.prefix + q.marks, behind = t.end - q.marks;
        return parse_text_node(p, p->lx.src->text + from, behind - from, t.pos, t.end);
    }
    if (operand)
        return alone(p);
    return end > pos ? parse_text(p, pos, end) : parse_unexpected(p, wanted);
}

/* ---- Error codes ---- */

ast *parse_code(parser *p)
{
    uint32_t pos = parse_here(p);
    ast *word = parse_word(p, "-", "the code of an error");
    if (!word)
        return NULL;
    if (word->kind != AST_TEXT)
        return parse_fail(p, word->pos, word->end, KV_E_USAGE, "the code of an error is a word");
    suggest near = {.word = word->u.text};
    for (int i = KV_OK + 1; i < KV_NCODES; i++) {
        if (i == KV_E_INTERRUPTED || i == KV_E_INTERNAL) /* the first comes from outside */
            continue;
        if (strcmp(kv_code_name(i), word->u.text) == 0)
            return word;
        suggest_add(&near, kv_code_name(i));
    }
    parse_fail(p, pos, word->end, KV_E_USAGE, "there is no error code `%.*s`",
               parse_shown(p, pos, word->end), p->lx.src->text + pos);
    suggest_done(&near, p->e);
    return parse_hint(p,
                      "codes: name, key, shape, dtype, value, index, usage, syntax, io, format, …");
}

/* ---- Blocks that shall fail ---- */

/* Goes behind the } of the block that begins at the next token. Where nothing can be parsed any
 * more only brackets are counted; quotes and comments the lexer knows. False when it is not there.
 */
static bool skip_block(parser *p)
{
    int open = 0;
    for (;;) {
        token t = *parse_peek(p);
        if (t.kind == TOK_END || t.pos >= p->lx.limit)
            return false;
        if (t.kind == TOK_BAD) {
            parse_seek(p, t.pos + 1);
            continue;
        }
        parse_take(p);
        open += t.kind == TOK_SIGN && t.sign == SIGN1('{');
        open -= t.kind == TOK_SIGN && t.sign == SIGN1('}');
        if (open == 0)
            return true;
    }
}

ast *parse_failing_block(parser *p, const ast *code)
{
    kv_err *outer = p->e, found = {0};
    if (!parse_is_sign(p, SIGN1('{')))
        return parse_block(p); /* which says what is missing */
    parser before = *p; /* its next token is the `{` */
    uint32_t pos = before.tok.pos;
    p->e = &found;
    p->recover = NULL; /* the first error is the one that is asked for */
    ast *block = parse_block(p);
    p->e = outer;
    p->recover = before.recover;
    if (block)
        return block;
    if (found.code == KV_E_MEMORY || p->lx.incomplete ||
        strcmp(kv_code_name(found.code), code->u.text) != 0) {
        if (outer && !outer->code)
            *outer = found;
        return NULL;
    }
    parse_back(p, &before);
    p->e = outer;
    if (!skip_block(p))
        return parse_fail(p, pos, pos + 1, KV_E_SYNTAX, "the `{` that opens here is not closed");
    return parse_node(p, AST_NONE, pos, p->last, 0);
}

/* ---- Words ---- */

ast *parse_switch(parser *p)
{
    uint32_t pos = parse_here(p);
    if (parse_expects(p, EXPECT_WORD, 0))
        return NULL;
    if (!parse_is_word(p, "on") && !parse_is_word(p, "off")) {
        parse_unexpected(p, "on or off");
        return parse_hint(p, "`print` shows a text: print \"done\"");
    }
    return parse_text(p, pos, parse_peek(p)->end);
}

ast *parse_explained(parser *p)
{
    const token *t = parse_peek(p);
    if (t->pos == t->end && parse_expects(p, EXPECT_WORD, 0))
        return NULL;
    if (parse_is_word(p, "on") || parse_is_word(p, "off"))
        return parse_switch(p);
    ast *node = parse_one_statement(p);
    if (!node)
        return NULL;
    bool method = node->kind == STMT_SHOW && node->kid[0]->kind == AST_STORE;
    const ast *call = method ? node->kid[0]->kid[0] : node;
    const ast *outward = command_redirect_of(node, false); /* which cannot be undone */
    if (!command_is(call, COMMAND_EXPLAINED)) {
        parse_fail(p, node->pos, node->end, KV_E_USAGE, "explain has nothing to say of this");
        return parse_hint(p, "it explains init, push, pull, pushpull, broadcast and barrier");
    }
    if (outward)
        return parse_fail(p, outward->pos, outward->end, KV_E_USAGE,
                          "explain changes nothing, so it writes no file");
    return node;
}
