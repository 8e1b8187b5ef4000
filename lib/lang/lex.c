/* Tokens. One function a kind; an error is only worked out when lex_explain asks for it. */
#include "lang/lex.h"

#include <string.h>

#include "base/kv_assert.h"
#include "base/num.h"
#include "base/utf8.h"

/* Bytes of a wrong word that a message shows. */
#define SHOWN_MAX 60

/* ---- Prompts, in a text that was pasted: see lex.h ------------------------------------------- */

size_t lex_prompt(const char *text, size_t n, bool more)
{
    const char *end = text + n, *at = text + 2;
    if (n < 3 || memcmp(text, more ? ".." : "kv", 2) != 0)
        return 0;
    if (!more && *at == '[')
        for (at++; at < end && at[-1] != ']' && *at != '\n'; at++)
            ;
    if (!more && at < end && *at == ':')
        while (at < end && !strchr("*> \n", *at))
            at++;
    if (!more && at < end && *at == '*')
        at++;
    if (at == end || *at != '>')
        return 0;
    at++;
    if (at == end || *at == '\n' || *at == '\r')
        return (size_t)(at - text);
    return *at == ' ' ? (size_t)(at + 1 - text) : 0;
}

size_t lex_python_prompt(const char *text, size_t n, bool more)
{
    if (n < 3 || memcmp(text, more ? "..." : ">>>", 3) != 0)
        return 0;
    if (n == 3 || text[3] == '\n' || text[3] == '\r')
        return 3;
    return text[3] == ' ' ? 4 : 0;
}

/* The bytes of a prompt of an entry, or with more of one that goes on, and of the blanks before it,
 * or 0. */
static size_t any_prompt(const char *line, size_t n, bool more)
{
    size_t blanks = 0, found;
    while (blanks < n && lex_is_blank(line[blanks]))
        blanks++;
    if (!(found = lex_prompt(line + blanks, n - blanks, more)))
        found = lex_python_prompt(line + blanks, n - blanks, more);
    return found ? blanks + found : 0;
}

bool lex_begins_entry(const char *line, size_t n)
{
    return any_prompt(line, n, false) > 0;
}

size_t lex_margin(const char *line, size_t n)
{
    size_t found = any_prompt(line, n, false);
    return found ? found : any_prompt(line, n, true);
}

/* ---- Reports ----
 *
 * No statement begins like a line of a report: a colon with nothing but a number before it is no
 * expression, and a place has no blank and no quote before its `: error[`. A line of any kind has a
 * colon, so that most lines need no closer look.
 */

static bool begins(const char *text, size_t n, const char *word)
{
    size_t length = strlen(word);
    return n >= length && memcmp(text, word, length) == 0;
}

/* `FILE:3:8: error[key]: ` or `kvctl: error[key]: ` */
static bool is_first_line(const char *text, size_t n)
{
    static const char mark[] = ": error[";
    size_t word = 0, numbers = 0, i;
    while (word < n && !lex_is_blank(text[word]) && !strchr("\n\"'", text[word]))
        word++;
    if (word < 2 || !begins(text + word - 1, n - word + 1, mark))
        return false;
    for (i = word - 1; i > 0 && numbers < 2; numbers++) {
        size_t digits = i;
        while (digits > 0 && lex_is_digit(text[digits - 1]))
            digits--;
        if (digits < 2 || digits == i || text[digits - 1] != ':')
            break;
        i = digits - 1;
    }
    return numbers == 2 || (numbers == 0 && i == 5 && begins(text, n, "kvctl"));
}

size_t lex_gutter(const char *line, size_t n)
{
    size_t blanks = 0;
    while (blanks < n && line[blanks] == ' ')
        blanks++;
    size_t end = blanks;
    while (end < n && lex_is_digit(line[end]))
        end++;
    size_t sign = end > blanks ? end + 1 : end;
    if (blanks == 0 || sign >= n || line[sign] != ':')
        return 0;
    if (end > blanks ? line[end] != ' ' : blanks < 6)
        return 0;
    return sign + 1 == n || strchr(" \r\n", line[sign + 1]) ? sign : 0;
}

/* `  in FILE:12`, a caller below an error, or `  in FILE:12, key 3`, a push whose rule failed */
static bool is_frame(const char *line, size_t n)
{
    static const char mark[] = ", key ";
    const char *key = memmem(line, n, mark, sizeof mark - 1);
    size_t i;
    if (key)
        n = (size_t)(key - line);
    while (n > 0 && strchr("\r ", line[n - 1]))
        n--;
    for (i = n; i > 0 && lex_is_digit(line[i - 1]);)
        i--;
    return begins(line, n, "  in ") && i < n && line[i - 1] == ':';
}

static size_t line_length(const char *text, size_t n)
{
    const char *newline = memchr(text, '\n', n);
    return newline ? (size_t)(newline - text) : n;
}

/* The bytes of the report of an error that the n bytes of text begin with, without its last
 * newline, or 0: `FILE:3:8: error[key]: ...`, an excerpt of a source line, a caller, a hint, a
 * note or a warning, and the indented lines below it. text begins a line. */
static size_t lex_report(const char *text, size_t n)
{
    size_t blanks = 0, end = line_length(text, n);
    if (!memchr(text, ':', end))
        return 0;
    while (blanks < end && text[blanks] == ' ')
        blanks++;
    if (!lex_gutter(text, end) && !is_frame(text, end) && !begins(text, end, " hint: ") &&
        !begins(text, end, "note: ") && !begins(text, end, "warning: ") &&
        !is_first_line(text + blanks, end - blanks))
        return 0;
    while (end + 1 < n && text[end + 1] == ' ' && !lex_margin(text + end + 1, n - end - 1))
        end += 1 + line_length(text + end + 1, n - end - 1);
    return end;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static char at(const lexer *lx, uint32_t pos)
{
    return pos < lx->limit ? lx->src->text[pos] : '\0';
}

/* Returns true if the rest ends at a NUL byte, not at the end of the text or of a part of it. */
static bool ends_in_nul(const lexer *lx)
{
    return lx->limit < lx->src->len && lx->src->text[lx->limit] == '\0';
}

/* The length of a backslash and the line end behind it at pos, or 0. The end of the text is one
 * too: the next line has not come yet. */
static uint32_t continuation(const lexer *lx, uint32_t pos)
{
    if (at(lx, pos) != '\\')
        return 0;
    if (at(lx, pos + 1) == '\n')
        return 2;
    if (at(lx, pos + 1) == '\r' && at(lx, pos + 2) == '\n')
        return 3;
    return pos + 1 == lx->src->len;
}

static bool is_line_start(const lexer *lx, uint32_t pos)
{
    return pos <= lx->start || lx->src->text[pos - 1] == '\n';
}

static bool is_blank_before(const lexer *lx, uint32_t pos)
{
    return is_line_start(lx, pos) || lex_is_blank(lx->src->text[pos - 1]);
}

/* Past the blanks at pos. */
static uint32_t past_blanks(const lexer *lx, uint32_t pos)
{
    while (lex_is_blank(at(lx, pos)))
        pos++;
    return pos;
}

/* Past the prompt of the line that begins at pos; pos itself when it has none. */
static uint32_t past_prompt(const lexer *lx, uint32_t pos)
{
    uint32_t from = past_blanks(lx, pos);
    const char *text = lx->src->text + from;
    size_t left = lx->limit - from, n = 0;
    char c = at(lx, from);
    if (c == '>')
        n = lex_python_prompt(text, left, false);
    else if (c == 'k')
        n = lex_prompt(text, left, false);
    else if (c == '.' && (lx->prompted || !lx->in_brackets))
        n = (n = lex_prompt(text, left, true)) > 0 ? n : lex_python_prompt(text, left, true);
    return n > 0 ? from + (uint32_t)n : pos;
}

uint32_t lex_line_end(const lexer *lx, uint32_t pos)
{
    size_t left = pos < lx->limit ? lx->limit - pos : 0;
    const char *newline = memchr(lx->src->text + pos, '\n', left);
    return newline ? (uint32_t)(newline - lx->src->text) : lx->limit;
}

/* Past the report of an error that begins at pos; pos itself when there is none. */
static uint32_t past_report(const lexer *lx, uint32_t pos)
{
    return pos + (uint32_t)lex_report(lx->src->text + pos, lx->limit - pos);
}

/* Returns true if the first line that is no comment and no report has a prompt. */
static bool is_transcript(const lexer *lx)
{
    uint32_t pos = lx->pos, first;
    while (pos < lx->limit) {
        pos = past_report(lx, pos);
        first = past_blanks(lx, pos);
        if (at(lx, first) != '#' && at(lx, first) != '\n')
            return at(lx, first) != '.' && past_prompt(lx, pos) > pos;
        pos = lex_line_end(lx, pos) + 1;
    }
    return false;
}

void lex_init(lexer *lx, const source *s)
{
    const char *nul = memchr(s->text, '\0', s->len);
    *lx = (lexer){.src = s, .limit = nul ? (uint32_t)(nul - s->text) : s->len};
    if (lx->limit >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0)
        lx->start = lx->pos = 3;
    lx->transcript = is_transcript(lx);
}

static uint32_t behind_prompt(const lexer *lx, uint32_t pos)
{
    while (!is_line_start(lx, pos))
        pos--;
    return past_prompt(lx, pos);
}

bool lex_is_output(const lexer *lx, uint32_t pos)
{
    while (!is_line_start(lx, pos))
        pos--;
    return lx->transcript && past_prompt(lx, pos) == pos;
}

uint32_t lex_line_text(const lexer *lx, uint32_t pos)
{
    return past_blanks(lx, behind_prompt(lx, pos));
}

int lex_indent(const lexer *lx, uint32_t pos)
{
    int columns = 0;
    for (pos = behind_prompt(lx, pos); lex_is_blank(at(lx, pos)); pos++)
        columns = at(lx, pos) == '\t' ? (columns / 8 + 1) * 8 : columns + 1;
    return columns;
}

/* ---- Blanks ---- */

void lex_blanks(lexer *lx)
{
    while (lx->pos < lx->limit) {
        if (is_line_start(lx, lx->pos)) {
            /* past a prompt, or past a report, or in a transcript past any line without a prompt */
            uint32_t past = past_prompt(lx, lx->pos);
            bool prompt = past > lx->pos;
            if (prompt)
                lx->prompted = true;
            else if (lx->transcript)
                past = lex_line_end(lx, lx->pos);
            else if (!lx->in_brackets)
                past = past_report(lx, lx->pos);
            lx->cursor = lx->cursor && (prompt || past == lx->pos || past < lx->limit);
            lx->pos = past;
        }
        char c = at(lx, lx->pos);
        uint32_t skip = c == '\\' ? continuation(lx, lx->pos) : 0;
        if (skip) {
            lx->pos += skip;
            if (lx->pos == lx->src->len)
                lx->incomplete = true;
        } else if (lex_is_blank(c) || (c == '\n' && lx->in_brackets)) {
            lx->pos++;
        } else if (c == '#' && is_blank_before(lx, lx->pos)) {
            while (lx->pos < lx->limit && at(lx, lx->pos) != '\n')
                lx->pos++;
            lx->cursor = lx->cursor && lx->pos < lx->limit;
        } else {
            break;
        }
    }
}

/* ---- Tokens ----
 * e is NULL but for lex_explain. */

static token bad(const lexer *lx, uint32_t pos, uint32_t end, kv_err *e, kv_code code,
                 const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    kv_err_vset(e, code, fmt, ap);
    va_end(ap);
    source_at(lx->src, pos, end, e);
    return (token){.kind = TOK_BAD, .pos = pos, .end = end};
}

static bool is_point(const lexer *lx, uint32_t pos)
{
    return at(lx, pos) == '.' && lex_is_digit(at(lx, pos + 1));
}

static bool is_exponent(const lexer *lx, uint32_t pos)
{
    if (at(lx, pos) != 'e' && at(lx, pos) != 'E')
        return false;
    bool sign = at(lx, pos + 1) == '+' || at(lx, pos + 1) == '-';
    return lex_is_digit(at(lx, pos + 1 + sign));
}

/* Returns true if the point at pos ends a number, as in 1. and 1.e3; that of 0..3 and of a method,
 * 1.sqrt(), does not. */
static bool is_last_point(const lexer *lx, uint32_t pos)
{
    char next = at(lx, pos + 1);
    return at(lx, pos) == '.' && next != '.' && (!lex_is_letter(next) || is_exponent(lx, pos + 1));
}

/* The end of digits with a point and an exponent at pos; *whole says that neither was there. */
static uint32_t number_end(const lexer *lx, uint32_t pos, bool *whole)
{
    uint32_t p = pos;
    while (lex_is_digit(at(lx, p)))
        p++;
    *whole = !is_point(lx, p) && (p == pos || !is_last_point(lx, p));
    if (!*whole)
        for (p++; lex_is_digit(at(lx, p)); p++)
            ;
    if (!is_exponent(lx, p))
        return p;
    *whole = false;
    for (p += 2; lex_is_digit(at(lx, p)); p++)
        ;
    return p;
}

static bool is_two_to_63(const char *text, size_t n)
{
    for (; n > 0 && *text == '0'; n--)
        text++;
    return n == 19 && memcmp(text, "9223372036854775808", 19) == 0;
}

static token lex_number(const lexer *lx, token t, kv_err *e)
{
    bool whole, over = false;
    const char *text = lx->src->text + t.pos;
    uint32_t end = number_end(lx, t.pos, &whole);
    size_t n = end - t.pos;
    if (lex_is_letter(at(lx, end)) || is_point(lx, end)) {
        while (lex_is_word_char(at(lx, end)) || is_point(lx, end))
            end++;
        t = bad(lx, t.pos, end, e, KV_E_SYNTAX, "`%.*s` is not a number",
                (int)utf8_cut(text, end - t.pos, SHOWN_MAX), text);
        if (memchr(text, '_', end - t.pos) || (n == 1 && *text == '0'))
            kv_err_hint(e, "numbers are decimal and without a _: 255, 1000000");
        else if ((end - t.pos == n + 1 && text[n] == 's') ||
                 (end - t.pos == n + 2 && memcmp(text + n, "ms", 2) == 0))
            kv_err_hint(e, "times are seconds, without a unit: 0.001");
        return t;
    }
    if (whole)
        num_parse_int(text, n, &t.integer, &over);
    else
        num_parse(text, n, NUM_BINARY64, &t.number, &over);
    if (over && whole && is_two_to_63(text, n)) {
        t.integer = INT64_MIN;
        over = false;
    }
    if (over)
        return bad(lx, t.pos, end, e, KV_E_VALUE, "%.*s is too large for %s",
                   (int)utf8_cut(text, n, SHOWN_MAX), text,
                   whole ? "a 64-bit integer" : "a number");
    t.kind = whole ? TOK_INT : TOK_FLOAT;
    t.end = end;
    return t;
}

static token nul(const lexer *lx, kv_err *e)
{
    return bad(lx, lx->limit, lx->limit + 1, e, KV_E_SYNTAX,
               "a NUL byte does not belong into a script");
}

/* Returns true if a word that ends at pos ends at the cursor. */
static bool at_cursor(const lexer *lx, uint32_t pos)
{
    return lx->cursor && pos == lx->src->len;
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

bool lex_quote_at(const lexer *lx, uint32_t pos, lex_quote *out)
{
    *out = (lex_quote){0};
    while (out->prefix < 2 && !is_quote(at(lx, pos))) {
        char c = at(lx, pos++) | ' ';
        if (c != 'r' && c != 'f' && c != 'u' && c != 'b')
            return false;
        out->raw |= c == 'r';
        out->fields |= c == 'f';
        out->bytes |= c == 'b';
        out->prefix++;
    }
    out->mark = at(lx, pos);
    bool three = at(lx, pos + 1) == out->mark && at(lx, pos + 2) == out->mark;
    out->marks = three ? 3 : 1;
    return is_quote(out->mark);
}

static bool closes(const lexer *lx, uint32_t pos, const lex_quote *q)
{
    for (uint32_t i = 0; i < q->marks; i++)
        if (at(lx, pos + i) != q->mark)
            return false;
    return true;
}

/* Text in one quote closes on its line, but for a backslash at the line's end. */
static token lex_quoted(const lexer *lx, token t, const lex_quote *q, kv_err *e)
{
    uint32_t open = t.pos + q->prefix, p = open + q->marks;
    for (; p < lx->limit && (q->marks == 3 || at(lx, p) != '\n'); p++) {
        if (closes(lx, p, q)) {
            t.kind = q->fields ? TOK_FSTRING : TOK_STRING;
            t.end = p + q->marks;
            return t;
        }
        uint32_t line = continuation(lx, p);
        if (line || (at(lx, p) == '\\' && p + 1 < lx->limit))
            p += line ? line - 1 : 1;
    }
    if (p >= lx->limit && ends_in_nul(lx))
        return nul(lx, e);
    if (at_cursor(lx, p)) {
        t.kind = TOK_CURSOR;
        t.sign = SIGN1(q->mark);
        t.end = p;
        return t;
    }
    t = bad(lx, open, open + q->marks, e, KV_E_SYNTAX, "the quote that opens here is not closed");
    t.open = p == lx->src->len && (q->marks == 3 || at(lx, p - 1) == '\n');
    return t;
}

/* Refuses the character of n bytes at pos when word processors and web pages put it in the place of
 * one of the keyboard. As letters of a name such quotes and blanks would go unnoticed. */
static bool is_lookalike(const lexer *lx, uint32_t pos, uint32_t n, kv_err *e)
{
    static const char *const known[][2] = {
        {"“”„‟«»‘’‚‛", "straight quotes make a text: \"…\""},
        {"\u00a0\u2002\u2003\u2007\u2009\u200b\u202f\u3000\ufeff",
         "it looks like a blank: type one in its place"},
        {"−–—", "`-` subtracts"},
        {"×", "`*` multiplies"},
        {"÷", "`/` divides"},
        {"≠", "`!=` compares"},
        {"≤", "`<=` compares"},
        {"≥", "`>=` compares"}};
    char sign[5] = "";
    memcpy(sign, lx->src->text + pos, n);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strstr(known[i][0], sign))
            continue;
        if (i == 1) /* it cannot be seen */
            bad(lx, pos, pos + n, e, KV_E_SYNTAX, "the character U+%04X does not belong here",
                (unsigned)utf8_number(sign, n));
        else
            bad(lx, pos, pos + n, e, KV_E_SYNTAX, "`%s` does not belong here", sign);
        kv_err_hint(e, "%s", known[i][1]);
        return true;
    }
    return false;
}

static token lex_name(const lexer *lx, token t, kv_err *e)
{
    t.end = t.pos;
    while (lex_is_word_char(at(lx, t.end)))
        t.end++;
    t.kind = at_cursor(lx, t.end) ? TOK_CURSOR : TOK_NAME;
    for (uint32_t p = t.pos; p < t.end;) {
        bool ok = true;
        if ((unsigned char)lx->src->text[p] < 0x80) {
            p++;
            continue;
        }
        uint32_t n = (uint32_t)utf8_length(lx->src->text + p, t.end - p, &ok);
        if (!ok)
            return bad(lx, p, p + 1, e, KV_E_SYNTAX, "the byte \\x%02x is not UTF-8",
                       (unsigned char)at(lx, p));
        if (is_lookalike(lx, p, n, e))
            return (token){.kind = TOK_BAD, .pos = p, .end = p + n};
        p += n;
    }
    return t;
}

/* Signs of more than one character; the longest wins. */
static const char long_signs[][4] = {"...", "**=", "//=", "**", "//", "==", "!=", "<=", ">=", "->",
                                         ">>",  "..",  "+=",  "-=", "*=", "/=", "%=", "<<"};

static token lex_sign(const lexer *lx, token t, kv_err *e)
{
    const char *text = lx->src->text + t.pos;
    char second = at(lx, t.pos + 1), third = at(lx, t.pos + 2);
    t.kind = TOK_SIGN;
    for (size_t i = 0; i < sizeof long_signs / sizeof *long_signs; i++) {
        const char *s = long_signs[i];
        if (s[0] != *text || s[1] != second || (s[2] && s[2] != third))
            continue;
        t.end = t.pos + (s[2] ? 3 : 2);
        t.sign = s[2] ? SIGN3(s[0], s[1], s[2]) : SIGN2(s[0], s[1]);
        return t;
    }
    if (!strchr("()[]{},:.+-*/%<>=|@$!?#;~", *text)) {
        t = bad(lx, t.pos, t.pos + 1, e, KV_E_SYNTAX,
                (unsigned char)*text < 0x20 || *text == 0x7f
                    ? "the control character \\x%02x does not belong here"
                    : "`%c` does not belong here",
                (unsigned char)*text);
        if (strchr("&^`", *text))
            kv_err_hint(e, *text == '&'   ? "`and` joins conditions; a * b joins masks"
                           : *text == '^' ? "`**` is the power"
                                          : "f\"{x}\" is the text of x");
        return t;
    }
    t.end = t.pos + 1;
    t.sign = SIGN1(*text);
    return t;
}

static token lex_option(const lexer *lx, token t)
{
    t.kind = TOK_OPTION;
    t.end = t.pos + 2;
    while (lex_is_word_char(at(lx, t.end)) ||
           (at(lx, t.end) == '-' && lex_is_letter(at(lx, t.end + 1))))
        t.end++;
    return t;
}

static token lex_token(const lexer *lx, token t, kv_err *e)
{
    char c = at(lx, t.pos), next = at(lx, t.pos + 1);
    lex_quote quote;
    if (t.pos >= lx->limit) {
        t.kind = at_cursor(lx, t.pos) ? TOK_CURSOR : TOK_END;
        t.end = t.pos;
        return ends_in_nul(lx) ? nul(lx, e) : t;
    }
    if (c == '\n' || c == ';') {
        t.kind = TOK_NEWLINE;
        t.end = t.pos + 1;
        return t;
    }
    if (lex_is_digit(c) || is_point(lx, t.pos))
        return lex_number(lx, t, e);
    /* at most two letters stand before the quote */
    if ((is_quote(c) || is_quote(next) || is_quote(at(lx, t.pos + 2))) &&
        lex_quote_at(lx, t.pos, &quote)) {
        if (!quote.bytes)
            return lex_quoted(lx, t, &quote, e);
        t = bad(lx, t.pos, t.pos + quote.prefix, e, KV_E_SYNTAX, "there are no texts of bytes");
        kv_err_hint(e, "leave out the b: \"…\" is UTF-8");
        return t;
    }
    if (lex_is_letter(c))
        return lex_name(lx, t, e);
    if (c == '-' && next == '-' && t.blank_before && lex_is_letter(at(lx, t.pos + 2)))
        return lex_option(lx, t);
    return lex_sign(lx, t, e);
}

token lex_next(lexer *lx)
{
    lex_blanks(lx);
    token t = {.pos = lx->pos, .blank_before = is_blank_before(lx, lx->pos)};
    t = lex_token(lx, t, NULL);
    kv_assert(t.end > t.pos || t.kind == TOK_END || t.kind == TOK_CURSOR || t.kind == TOK_BAD,
              "a token of kind %d at byte %u has no bytes", (int)t.kind, t.pos);
    if (t.kind != TOK_BAD)
        lx->pos = t.end;
    char c = at(lx, t.end);
    t.blank_after = t.end >= lx->limit || lex_is_blank(c) || c == '\n' || continuation(lx, t.end);
    return t;
}

void lex_explain(lexer *lx, kv_err *e)
{
    token t = {.pos = lx->pos, .blank_before = is_blank_before(lx, lx->pos)};
    if (lex_token(lx, t, e).open)
        lx->incomplete = true;
}
