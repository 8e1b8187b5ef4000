/* Words that are taken as they stand: paths, patterns of names, substitutions. They are those of a
 * shell, without its expansions: only a blank, a redirect or the end of the statement ends them. */
#include <string.h>

#include "syntax/parse_command.h"

static bool begins_operand(const parser *p, uint32_t pos)
{
    lex_quote quote;
    char c = parse_char(p, pos);
    return c == '$' || c == '(' || lex_quote_at(&p->lx, pos, &quote);
}

static ast *bare(parser *p, uint32_t pos, uint32_t end)
{
    parse_seek(p, end);
    return parse_text_node(p, p->lx.src->text + pos, end - pos, pos, end);
}

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

/* ls -l: most likely meant for a shell. */
static ast *dashed(parser *p, uint32_t pos, uint32_t end)
{
    const char *word = p->lx.src->text + pos;
    int n = parse_shown(p, pos, end);
    parse_fail(p, pos, end, KV_E_USAGE, "`%.*s` is no option", n, word);
    kv_err_hint(p->e, "! before the line runs it in a shell; a file of this name stands in quotes");
    return NULL;
}

ast *parse_path_word(parser *p, const char *wanted)
{
    /* a quote, a bracket or a $ within a word is most likely a mistake */
    uint32_t pos = parse_here(p), end = word_end(p, pos, "./~+-*?[]{}:!^,=@%#\\");
    bool operand = begins_operand(p, pos);
    if (parse_expects(p, EXPECT_FILE, operand ? pos : end))
        return NULL;
    if (operand)
        return alone(p);
    if (parse_char(p, pos) == '-' && end > pos + 1)
        return dashed(p, pos, end);
    return end > pos ? bare(p, pos, end) : parse_unexpected(p, wanted);
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

/* A text in quotes, which is next, as r"…" has it. */
static ast *raw_quoted(parser *p, const lex_quote *q)
{
    if (parse_peek(p)->kind != TOK_STRING)
        return parse_operand(p); /* it is not closed */
    token t = parse_take(p);
    uint32_t from = t.pos + q->prefix + q->marks, end = t.end - q->marks;
    return parse_text_node(p, p->lx.src->text + from, end - from, t.pos, t.end);
}

ast *parse_raw_word(parser *p, const char *wanted)
{
    lex_quote quote;
    uint32_t pos = parse_here(p), end = word_end(p, substitution_end(p, pos), NULL);
    bool operand = begins_operand(p, pos);
    if (parse_expects(p, EXPECT_WORD, operand ? pos : end))
        return NULL;
    if (lex_quote_at(&p->lx, pos, &quote) && !quote.fields && !quote.bytes)
        return raw_quoted(p, &quote);
    if (operand)
        return alone(p);
    return end > pos ? bare(p, pos, end) : parse_unexpected(p, wanted);
}
