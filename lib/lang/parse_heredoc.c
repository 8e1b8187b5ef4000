/* Texts of several lines: <<END, the lines, END.
 *
 * The text begins on the line behind <<END and ends before the line that holds only the word.
 * Blanks in front of that word are dropped from every line as far as they are there, so that a text
 * may stand indented in a block:
 *
 *     expect <<END
 *         [1. 2.]
 *         END
 */
#include <string.h>

#include "base/buf.h"
#include "lang/parse.h"

static uint32_t line_end(const parser *p, uint32_t pos)
{
    const char *text = p->lx.src->text;
    const char *newline = memchr(text + pos, '\n', p->lx.limit - pos);
    return newline ? (uint32_t)(newline - text) : p->lx.limit;
}

static uint32_t skip_blanks(const parser *p, uint32_t pos)
{
    while (lex_is_blank(parse_char(p, pos)))
        pos++;
    return pos;
}

/* The begin of the line at pos, behind its prompt when the text has some. */
static uint32_t behind_prompt(const parser *p, uint32_t pos)
{
    if (!p->lx.prompted)
        return pos;
    return pos + (uint32_t)lex_margin(p->lx.src->text + pos, line_end(p, pos) - pos);
}

/* Returns true if the line at pos holds only the word. */
static bool is_end_line(const parser *p, uint32_t pos, const char *word, size_t n)
{
    uint32_t end = line_end(p, pos), at = skip_blanks(p, behind_prompt(p, pos));
    return end - at >= n && memcmp(p->lx.src->text + at, word, n) == 0 &&
           skip_blanks(p, at + (uint32_t)n) == end;
}

/* The lines from pos up to the end line, each without the first `indent` blanks. */
static const char *body(parser *p, uint32_t pos, uint32_t to, uint32_t indent)
{
    buf text = {0};
    while (pos < to) {
        uint32_t end = line_end(p, pos), from = behind_prompt(p, pos), cut = from;
        while (cut < from + indent && (parse_char(p, cut) == ' ' || parse_char(p, cut) == '\t'))
            cut++;
        bool returns = end > cut && parse_char(p, end - 1) == '\r';
        buf_put(&text, p->lx.src->text + cut, end - cut - returns);
        buf_char(&text, '\n');
        pos = end + 1;
    }
    const char *kept = buf_check(&text, p->e) ? NULL : parse_intern(p, buf_text(&text), text.len);
    buf_release(&text);
    return kept;
}

ast *parse_heredoc(parser *p)
{
    const char *text = p->lx.src->text;
    token sign = *parse_peek(p);
    if (!parse_accept(p, SIGN2('<', '<')))
        return parse_unexpected(p, "a text, <<END and its lines,");
    uint32_t word = sign.end, end = word;
    while (lex_is_word_char(parse_char(p, end)))
        end++;
    if (end == word)
        return parse_fail(p, sign.pos, sign.end, KV_E_SYNTAX,
                          "the word that ends the text follows << directly: <<END");
    parse_seek(p, end);
    uint32_t rest = parse_here(p);
    if (rest < p->lx.limit && parse_char(p, rest) != '\n')
        return parse_fail(p, rest, line_end(p, rest), KV_E_SYNTAX,
                          "the text begins on the next line, so nothing follows <<%.*s",
                          parse_shown(p, word, end), text + word);
    uint32_t first = rest + 1, at = first;
    while (at < p->lx.limit && !is_end_line(p, at, text + word, end - word))
        at = line_end(p, at) + 1;
    if (at >= p->lx.limit) {
        if (p->cursor)
            parse_seek(p, p->lx.limit);
        if (parse_expects(p, EXPECT_NOTHING, p->lx.limit))
            return NULL;
        p->lx.incomplete = p->lx.limit == p->lx.src->len;
        return parse_fail(p, sign.pos, end, KV_E_SYNTAX,
                          "the text that opens here does not end in a line `%.*s`",
                          parse_shown(p, word, end), text + word);
    }
    uint32_t last = behind_prompt(p, at), indent = skip_blanks(p, last) - last;
    const char *kept = body(p, first, at, indent);
    parse_seek(p, last + indent + end - word);
    ast *node = kept ? parse_node(p, AST_TEXT, sign.pos, parse_last_end(p), 0) : NULL;
    if (node)
        node->u.text = kept;
    return node;
}
