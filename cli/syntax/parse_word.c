/* The words of commands, and what stands behind them: texts for the shell, and redirects. */
#include "syntax/parse_command.h"

#include <string.h>

#include "syntax/file_kind.h"
#include "syntax/statement.h"

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
    ast *node = parse_node(p, AST_TEXT, pos, end, 0);
    if (!node || !(node->u.text = parse_intern(p, p->lx.src->text + pos, end - pos)))
        return NULL;
    parse_seek(p, end);
    return node;
}

ast *parse_word(parser *p, const char *more, const char *wanted)
{
    uint32_t pos = parse_here(p), end = pos;
    lex_quote quote;
    char c = parse_char(p, pos);
    while (lex_is_word_char(parse_char(p, end)) ||
           (parse_char(p, end) && strchr(more, parse_char(p, end)) &&
            !(parse_char(p, end) == '-' && parse_char(p, end + 1) == '>')))
        end++;
    if (parse_expects(p, EXPECT_WORD, end))
        return NULL;
    if (c == '$' || c == '(' || lex_quote_at(&p->lx, pos, &quote)) {
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
    ast *node = parse_node(p, kind, from, end, 0);
    if (!node || !(node->u.text = parse_intern(p, p->lx.src->text + pos, end - pos)))
        return NULL;
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

/* Checks the name of the file that a command, or an expression (c is NULL), is written to. */
static int check_path(const command *c, const char *path, bool append, kv_err *e)
{
    if (c && c->flags & COMMAND_DRAWS)
        return plot_path_check(path, append, e);
    return file_kind_check(path, append, e);
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
    if (path && path->kind == AST_TEXT &&
        check_path(c, path->u.text, t.sign != SIGN1('>'), p->e)) {
        source_at(p->lx.src, path->pos, path->end, p->e);
        if (t.sign == SIGN1('>') && path->op == 0) /* in quotes */
            kv_err_hint(p->e, "(a > \"%s\") in brackets compares", path->u.text);
        return NULL;
    }
    return path ? redirect_node(p, t.pos, t.sign == SIGN1('>') ? REDIRECT_FILE : REDIRECT_APPEND,
                                NULL, path)
                : NULL;
}
