/* Texts in quotes, as Python reads them: '…', "…", r"…", f"…", and each with three quotes;
 * and <<END. */
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "lang/parse.h"

/* ---- Escapes ---- */

/* The meaning of an escape that is no character. */
enum {
    ESCAPE_LINE = 0x110000, /* a backslash at a line's end: nothing */
    ESCAPE_NONE,            /* none that is known: it stays as it is */
    ESCAPE_BROKEN
};

/* The value of the digits of a base between pos and end, at most `most` of them; *past is set past
 * the last one. 0 when it is beyond Unicode: no text holds either. */
static uint32_t digits(const parser *p, uint32_t pos, uint32_t end, uint32_t base, int most,
                       uint32_t *past)
{
    static const char all[] = "0123456789abcdef";
    uint32_t value = 0;
    for (; pos < end && most > 0; pos++, most--) {
        char c = parse_char(p, pos);
        const char *found = c ? strchr(all, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!found || found >= all + base)
            break;
        value = value * base + (uint32_t)(found - all);
    }
    *past = pos;
    return value > 0x10ffff ? 0 : value;
}

/* \xNN, \uNNNN, \UNNNNNNNN: n digits from pos on. */
static uint32_t hex_escape(const parser *p, uint32_t pos, uint32_t end, int n, uint32_t *value)
{
    uint32_t past;
    *value = digits(p, pos, end, 16, n, &past);
    if (past != pos + (uint32_t)n)
        *value = ESCAPE_BROKEN;
    return past;
}

/* \u{N…} */
static uint32_t braced_escape(const parser *p, uint32_t pos, uint32_t end, uint32_t *value)
{
    uint32_t past;
    *value = digits(p, pos + 1, end, 16, 6, &past);
    if (past == pos + 1 || past >= end || parse_char(p, past) != '}')
        *value = ESCAPE_BROKEN;
    return past + 1;
}

/* The end of the escape at pos (a backslash), before end, and what it stands for. */
static uint32_t escape_end(const parser *p, uint32_t pos, uint32_t end, uint32_t *value)
{
    static const char plain[] = "n\nt\tr\r\"\"\\\\''a\ab\bf\fv\v";
    char c = pos + 1 < end ? parse_char(p, pos + 1) : '\0';
    uint32_t past;
    if (c == '\n' || (c == '\r' && parse_char(p, pos + 2) == '\n')) {
        *value = ESCAPE_LINE;
        return pos + (c == '\n' ? 2 : 3);
    }
    if (c == 'u' && pos + 2 < end && parse_char(p, pos + 2) == '{')
        return braced_escape(p, pos + 2, end, value);
    if (c == 'x' || c == 'u' || c == 'U')
        return hex_escape(p, pos + 2, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, value);
    if (c >= '0' && c <= '7') {
        *value = digits(p, pos + 1, end, 8, 3, &past);
        return past;
    }
    *value = c == 'N' ? ESCAPE_BROKEN : ESCAPE_NONE;
    for (const char *known = plain; c && *known; known += 2)
        if (*known == c)
            *value = (unsigned char)known[1];
    return *value == ESCAPE_NONE ? pos + 1 : pos + 2;
}

/* Appends the character that the escape at pos stands for and returns its end, 0 on an error. */
static uint32_t escape(parser *p, buf *out, uint32_t pos, uint32_t end)
{
    char bytes[4];
    uint32_t value, past = escape_end(p, pos, end, &value);
    if (value == ESCAPE_BROKEN)
        past = (parse_fail(p, pos, pos + 2, KV_E_SYNTAX,
                           "unknown escape in a text; known are \\n \\t \\r \\\" \\\\ \\xNN "
                           "\\uNNNN \\u{…}"),
                0);
    else if (value == ESCAPE_NONE)
        buf_char(out, '\\');
    else if (value == 0 || (value >= 0xd800 && value < 0xe000))
        past = (parse_fail(p, pos, past, KV_E_SYNTAX, "a text cannot hold this character"), 0);
    else if (value != ESCAPE_LINE)
        buf_put(out, bytes, utf8_put(bytes, value));
    return past;
}

/* ---- Pieces ---- */

ast *parse_text_node(parser *p, const char *text, size_t n, uint32_t pos, uint32_t end)
{
    ast *node = parse_node(p, AST_TEXT, pos, end, 0);
    if (node && !(node->u.text = parse_intern(p, text, n)))
        return NULL;
    return node;
}

/* The begin of the line at pos, behind its prompt when it was pasted with others. */
static uint32_t behind_prompt(const parser *p, uint32_t pos, uint32_t end)
{
    return p->lx.prompted ? pos + (uint32_t)lex_margin(p->lx.src->text + pos, end - pos) : pos;
}

/* Appends what stands between pos and end. braces: those that are doubled count once. */
static bool put_piece(parser *p, buf *out, uint32_t pos, uint32_t end, bool raw, bool braces)
{
    while (pos < end) {
        char c = parse_char(p, pos);
        if (c == '\\' && !raw) {
            if (!(pos = escape(p, out, pos, end)))
                return false;
        } else if (c == '\r' && parse_char(p, pos + 1) == '\n') {
            pos++;
        } else {
            buf_char(out, c);
            pos += braces && (c == '{' || c == '}') ? 2 : 1;
            pos = c == '\n' ? behind_prompt(p, pos, end) : pos;
        }
    }
    return true;
}

static ast *text_piece(parser *p, uint32_t pos, uint32_t end, bool raw, bool braces)
{
    own_buf out = {0};
    ast *node = NULL;
    if (put_piece(p, &out, pos, end, raw, braces) && buf_check(&out, p->e) == KV_OK)
        node = parse_text_node(p, buf_text(&out), out.len, pos, end);
    return node;
}

/* ---- Fields ---- */

/* A formatted text while it is read. */
typedef struct pieces {
    ast_list *list;
    uint32_t limit; /* the end of what stands between its quotes */
    bool raw;
} pieces;

/* The end of what stands between fields from pos on: a single brace, or the limit. In a format
 * every brace is single. */
static uint32_t piece_end(const parser *p, uint32_t pos, const pieces *all, bool format)
{
    while (pos < all->limit) {
        char c = parse_char(p, pos);
        uint32_t value;
        if (!all->raw && c == '\\') {
            pos = escape_end(p, pos, all->limit, &value);
        } else if (c == '{' || c == '}') {
            if (format || pos + 1 == all->limit || parse_char(p, pos + 1) != c)
                break;
            pos += 2;
        } else {
            pos++;
        }
    }
    return pos < all->limit ? pos : all->limit;
}

static bool field(parser *p, pieces *all, uint32_t pos, uint32_t *end);

/* The format behind a colon at pos, up to its `}`, which is next: AST_TEXT, or AST_FTEXT when it
 * has fields of its own. */
static ast *field_format(parser *p, const pieces *outer, uint32_t pos)
{
    ast_list list = {0};
    pieces all = {.list = &list, .limit = outer->limit, .raw = outer->raw};
    uint32_t at = pos;
    for (;;) {
        uint32_t end = piece_end(p, at, &all, true);
        if ((end > at || list.n == 0) &&
            !parse_append(p, &list, text_piece(p, at, end, all.raw, false)))
            return NULL;
        at = end;
        if (end == all.limit || parse_char(p, end) == '}')
            break;
        if (!field(p, &all, end, &at))
            return NULL;
    }
    parse_seek(p, at);
    return list.n == 1 ? list.items[0] : parse_node_of(p, AST_FTEXT, pos, list.items, list.n);
}

/* !r or !s behind the expression of a field; 0 when there is none, -1 after an error. */
static int conversion(parser *p)
{
    if (!parse_accept(p, SIGN1('!')))
        return 0;
    if (parse_is_word(p, "r") || parse_is_word(p, "s"))
        return parse_char(p, parse_take(p).pos);
    parse_unexpected(p, "`r` or `s`, as in {x!r},");
    return -1;
}

/* {expr}, {expr=}, {expr!r} or {expr:format} at pos, a `{`. *end is set past its `}`. */
static bool field(parser *p, pieces *all, uint32_t pos, uint32_t *end)
{
    parser before = *p;
    bracket b;
    ast *kids[2] = {0}, *node = NULL;
    p->lx.limit = all->limit;
    parse_seek(p, pos);
    if (!parse_open(p, &b))
        goto out;
    p->lx.in_brackets = true;
    if (!(kids[0] = parse_expression(p)))
        goto out;
    bool named = parse_accept(p, SIGN1('='));
    uint32_t from = pos + 1, to = parse_peek(p)->pos;
    /* its text, blanks and `=` included, is a piece of its own */
    if (named && !parse_append(p, all->list,
                               parse_text_node(p, p->lx.src->text + from, to - from, from, to)))
        goto out;
    int how = conversion(p);
    if (how < 0)
        goto out;
    if (parse_is_sign(p, SIGN1(':'))) {
        uint32_t colon = parse_take(p).pos;
        if (!(kids[1] = field_format(p, all, colon + 1)))
            goto out;
    }
    if (!parse_close(p, &b))
        goto out;
    *end = p->last;
    bool plain = kids[1] && kids[1]->kind == AST_TEXT;
    if ((node = parse_node_of(p, AST_FIELD, pos, kids, kids[1] && !plain ? 2 : 1))) {
        node->u.text = plain ? kids[1]->u.text : NULL;
        node->op = (uint8_t)(how == 0 && named && !kids[1] ? 'r' : how);
    }
out:
    parse_back(p, &before);
    return parse_append(p, all->list, node);
}

/* Appends the pieces of a formatted text that stands between pos and the limit. */
static bool formatted(parser *p, pieces *all, uint32_t pos)
{
    for (;;) {
        uint32_t end = piece_end(p, pos, all, false);
        if (end > pos &&
            !parse_append(p, all->list, text_piece(p, pos, end, all->raw, true)))
            return false;
        if (end == all->limit)
            return true;
        if (parse_char(p, end) == '}') {
            parse_fail(p, end, end + 1, KV_E_SYNTAX, "a single `}` in an f-string; write `}}`");
            return false;
        }
        if (!field(p, all, end, &pos))
            return false;
    }
}

/* ---- Texts ---- */

/* Appends the pieces of the text in quotes that is next. */
static bool one_text(parser *p, ast_list *list)
{
    lex_quote q;
    token t = parse_take(p);
    lex_quote_at(&p->lx, t.pos, &q);
    uint32_t from = t.pos + q.prefix + q.marks, end = t.end - q.marks;
    pieces all = {.list = list, .limit = end, .raw = q.raw};
    return q.fields ? formatted(p, &all, from)
                    : parse_append(p, list, text_piece(p, from, end, q.raw, false));
}

/* One text of several that have no fields. */
static ast *join(parser *p, const ast_list *list, uint32_t pos)
{
    own_buf all = {0};
    ast *node = NULL;
    for (int64_t i = 0; i < list->n; i++)
        buf_add(&all, list->items[i]->u.text);
    if (buf_check(&all, p->e) == KV_OK)
        node = parse_text_node(p, buf_text(&all), all.len, pos, p->last);
    return node;
}

ast *parse_quoted(parser *p)
{
    ast_list list = {0};
    bool fields = false;
    uint32_t pos = parse_peek(p)->pos;
    do {
        fields |= parse_peek(p)->kind == TOK_FSTRING;
        if (!one_text(p, &list))
            return NULL;
    } while (!p->arguments && (parse_peek(p)->kind == TOK_STRING || p->tok.kind == TOK_FSTRING));
    if (fields)
        return parse_node_of(p, AST_FTEXT, pos, list.items, list.n);
    ast *node = list.n == 1 ? list.items[0] : join(p, &list, pos);
    if (node) {
        node->pos = pos;
        node->end = p->last;
    }
    return node;
}

/* ---- Texts of several lines: <<END, the lines, END ----
 *
 * The text begins on the line behind <<END and ends before the line that holds only the word.
 * Blanks in front of that word are dropped from every line as far as they are there, so that a text
 * may stand indented in a block:
 *
 *     expect <<END
 *         [1. 2.]
 *         END
 */

/* Returns true if the line at pos holds only the word. */
static bool is_end_line(const parser *p, uint32_t pos, const char *word, size_t n)
{
    uint32_t end = lex_line_end(&p->lx, pos), at = parse_past_blanks(p, behind_prompt(p, pos, end));
    return end - at >= n && memcmp(p->lx.src->text + at, word, n) == 0 &&
           parse_past_blanks(p, at + (uint32_t)n) == end;
}

/* The lines from pos up to the end line, each without the first `indent` blanks. */
static const char *body(parser *p, uint32_t pos, uint32_t to, uint32_t indent)
{
    own_buf text = {0};
    while (pos < to) {
        uint32_t end = lex_line_end(&p->lx, pos), from = behind_prompt(p, pos, end), cut = from;
        while (cut < from + indent && (parse_char(p, cut) == ' ' || parse_char(p, cut) == '\t'))
            cut++;
        bool returns = end > cut && parse_char(p, end - 1) == '\r';
        buf_put(&text, p->lx.src->text + cut, end - cut - returns);
        buf_char(&text, '\n');
        pos = end + 1;
    }
    const char *kept = buf_check(&text, p->e) ? NULL : parse_intern(p, buf_text(&text), text.len);
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
        return parse_fail(p, rest, lex_line_end(&p->lx, rest), KV_E_SYNTAX,
                          "the text begins on the next line, so nothing follows <<%.*s",
                          parse_shown(p, word, end), text + word);
    uint32_t first = rest + 1, at = first;
    while (at < p->lx.limit && !is_end_line(p, at, text + word, end - word))
        at = lex_line_end(&p->lx, at) + 1;
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
    uint32_t last = behind_prompt(p, at, lex_line_end(&p->lx, at));
    uint32_t indent = parse_past_blanks(p, last) - last;
    const char *kept = body(p, first, at, indent);
    parse_seek(p, last + indent + end - word);
    return parse_node_named(p, AST_TEXT, sign.pos, kept, NULL, 0);
}
