#include "lang/lex.h"

#include <string.h>

#include "base/num.h"

bool lex_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

bool lex_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool lex_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char at(const lexer *lx, uint32_t pos)
{
    return pos < lx->limit ? lx->src->text[pos] : '\0';
}

/* The length of a backslash and the line end behind it at pos, or 0. */
static uint32_t continuation(const lexer *lx, uint32_t pos)
{
    if (at(lx, pos) != '\\')
        return 0;
    if (at(lx, pos + 1) == '\n')
        return 2;
    return at(lx, pos + 1) == '\r' && at(lx, pos + 2) == '\n' ? 3 : 0;
}

static bool starts_line(const lexer *lx)
{
    return lx->pos == 0 || lx->src->text[lx->pos - 1] == '\n';
}

bool lex_blanks(lexer *lx)
{
    uint32_t from = lx->pos;
    bool blank = starts_line(lx);
    for (;;) {
        char c = at(lx, lx->pos);
        uint32_t skip = continuation(lx, lx->pos);
        if (skip) {
            lx->pos += skip;
            if (lx->pos >= lx->limit)
                lx->incomplete = true;
        } else if (lx->pos < lx->limit && (lex_is_blank(c) || (c == '\n' && lx->nest > 0))) {
            lx->pos++;
        } else if (c == '#' && (blank || lx->pos > from)) {
            while (lx->pos < lx->limit && at(lx, lx->pos) != '\n')
                lx->pos++;
        } else {
            return blank || lx->pos > from;
        }
    }
}

static token bad(lexer *lx, uint32_t pos, uint32_t end, kv_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    kv_err_vset(lx->e, code, fmt, ap);
    va_end(ap);
    source_at(lx->src, pos, end, lx->e);
    return (token){.kind = TOK_BAD, .pos = pos, .end = end};
}

/* The end of a run of letters, digits and points from pos, to show a whole wrong word. */
static uint32_t word_end(const lexer *lx, uint32_t pos)
{
    while (lex_is_letter(at(lx, pos)) || lex_is_digit(at(lx, pos)))
        pos++;
    return pos;
}

static token lex_number(lexer *lx, token t)
{
    uint32_t p = lx->pos;
    bool whole = true;
    while (lex_is_digit(at(lx, p)))
        p++;
    if (at(lx, p) == '.' && lex_is_digit(at(lx, p + 1))) {
        whole = false;
        for (p++; lex_is_digit(at(lx, p)); p++)
            ;
    }
    if (at(lx, p) == 'e' || at(lx, p) == 'E') {
        uint32_t q = p + 1;
        if (at(lx, q) == '+' || at(lx, q) == '-')
            q++;
        if (lex_is_digit(at(lx, q))) {
            whole = false;
            for (p = q; lex_is_digit(at(lx, p)); p++)
                ;
        }
    }
    const char *text = lx->src->text + t.pos;
    size_t n = p - t.pos;
    bool over = false;
    if (lex_is_letter(at(lx, p)))
        return bad(lx, t.pos, word_end(lx, p), KV_E_SYNTAX, "`%.*s` is not a number",
                   (int)(word_end(lx, p) - t.pos), text);
    if (whole)
        num_parse_int(text, n, &t.integer, &over);
    else
        num_parse(text, n, NUM_BINARY64, &t.number, &over);
    if (over)
        return bad(lx, t.pos, p, KV_E_VALUE, "%.*s is too large for %s", n > 60 ? 60 : (int)n, text,
                   whole ? "a 64-bit integer" : "a number");
    t.kind = whole ? TOK_INT : TOK_FLOAT;
    t.end = p;
    return t;
}

uint32_t lex_quoted(lexer *lx, uint32_t pos)
{
    char quote = at(lx, pos);
    for (uint32_t p = pos + 1; p < lx->limit && at(lx, p) != '\n'; p++) {
        if (at(lx, p) == quote)
            return p + 1;
        if (at(lx, p) == '\\' && quote == '"')
            p++;
    }
    bad(lx, pos, pos + 1, KV_E_SYNTAX, "the quote that opens here is not closed");
    return 0;
}

static token lex_string(lexer *lx, token t, bool formatted)
{
    t.end = lex_quoted(lx, lx->pos + formatted);
    t.kind = t.end == 0 ? TOK_BAD : formatted ? TOK_FSTRING : TOK_STRING;
    return t;
}

/* Signs of more than one character; the longest wins. */
static const char *const long_signs[] = {"...", "**", "//", "==", "!=", "<=", ">=", "->", ">>",
                                         "..",  "+=", "-=", "*=", "/=", "<<"};

static token lex_sign(lexer *lx, token t)
{
    const char *text = lx->src->text + t.pos;
    size_t left = lx->limit - t.pos;
    t.kind = TOK_SIGN;
    for (size_t i = 0; i < sizeof long_signs / sizeof *long_signs; i++) {
        size_t n = strlen(long_signs[i]);
        if (n <= left && memcmp(text, long_signs[i], n) == 0) {
            t.end = t.pos + (uint32_t)n;
            t.sign = n == 3 ? SIGN3(text[0], text[1], text[2]) : SIGN2(text[0], text[1]);
            return t;
        }
    }
    if (*text == '\0')
        return bad(lx, t.pos, t.pos + 1, KV_E_SYNTAX, "a NUL byte does not belong into a script");
    if (!strchr("()[]{},:.+-*/%<>=|@$!?#;", *text))
        return bad(lx, t.pos, t.pos + 1, KV_E_SYNTAX,
                   (unsigned char)*text < 0x20 || *text == 0x7f
                       ? "the control character \\x%02x does not belong here"
                       : "`%c` does not belong here",
                   (unsigned char)*text);
    t.end = t.pos + 1;
    t.sign = SIGN1(*text);
    return t;
}

static bool is_blank_after(const lexer *lx, uint32_t pos)
{
    char c = at(lx, pos);
    return pos >= lx->limit || lex_is_blank(c) || c == '\n' || continuation(lx, pos);
}

static token lex_token(lexer *lx, token t)
{
    char c = at(lx, lx->pos);
    if (lx->pos >= lx->limit) {
        t.kind = TOK_END;
        t.end = t.pos;
        return t;
    }
    if (c == '\n' || c == ';') {
        t.kind = TOK_NEWLINE;
        t.end = t.pos + 1;
        return t;
    }
    if (lex_is_digit(c) || (c == '.' && lex_is_digit(at(lx, lx->pos + 1))))
        return lex_number(lx, t);
    if (c == 'f' && (at(lx, lx->pos + 1) == '"' || at(lx, lx->pos + 1) == '\''))
        return lex_string(lx, t, true);
    if (lex_is_letter(c)) {
        t.kind = TOK_NAME;
        t.end = word_end(lx, lx->pos);
        return t;
    }
    if (c == '"' || c == '\'')
        return lex_string(lx, t, false);
    if (c == '-' && t.blank_before && at(lx, lx->pos + 1) == '-' &&
        lex_is_letter(at(lx, lx->pos + 2))) {
        t.kind = TOK_OPTION;
        t.end = lx->pos + 2;
        while (lex_is_letter(at(lx, t.end)) || lex_is_digit(at(lx, t.end)) ||
               (at(lx, t.end) == '-' && lex_is_letter(at(lx, t.end + 1))))
            t.end++;
        return t;
    }
    return lex_sign(lx, t);
}

token lex_next(lexer *lx)
{
    token t = {.blank_before = lex_blanks(lx)};
    t.pos = lx->pos;
    t = lex_token(lx, t);
    if (t.kind != TOK_BAD)
        lx->pos = t.end;
    t.blank_after = is_blank_after(lx, t.end);
    return t;
}
