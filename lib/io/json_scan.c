/* The scanner of JSON. */
#include "io/json_scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/stop.h"
#include "base/utf8.h"

#define NUMBER_DIGITS 15

const char *json_scan_place(char out[JSON_PLACE], const json_scan *s, int64_t at)
{
    int64_t line = s->line, start = 0;
    if (line == 0) {
        snprintf(out, JSON_PLACE, "%s: byte %lld", s->path, (long long)(s->begin + at));
        return out;
    }
    for (int64_t i = 0; i < at; i++) {
        if (s->text[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    int64_t col = utf8_count(s->text + start, (size_t)(at - start)) + 1;
    snprintf(out, JSON_PLACE, "%s:%lld:%lld", s->path, (long long)line, (long long)col);
    return out;
}

int json_scan_refuse(const json_scan *s, int64_t at, const char *fmt, ...)
{
    char place[JSON_PLACE];
    kv_err why = {0};
    va_list ap;
    va_start(ap, fmt);
    kv_err_vset(&why, KV_E_FORMAT, fmt, ap);
    va_end(ap);
    return kv_err_set(s->e, KV_E_FORMAT, "%s: %s", json_scan_place(place, s, at), why.text);
}

static int refuse(const json_scan *s, const char *why)
{
    return json_scan_refuse(s, s->at, "%s", why);
}

static const char *what(const json_scan *s)
{
    return s->what ? s->what : "header";
}

static int cut(const json_scan *s, const char *where)
{
    return s->line ? json_scan_refuse(s, s->n, "the text ends too early")
                   : file_bad(s->e, KV_E_FORMAT, s->path, "the %s ends %s", what(s), where);
}

static int refuse_byte(const json_scan *s)
{
    const char *text = s->text + s->at;
    bool ok;
    if (s->at >= s->n)
        return cut(s, s->depth > 0 ? "before its last bracket" : "where a value is needed");
    int size = (int)utf8_length(text, (size_t)(s->n - s->at), &ok);
    if (!ok || (unsigned char)*text < ' ')
        return json_scan_refuse(s, s->at, ok ? "the byte \\x%02x cannot stand here"
                                             : "the byte \\x%02x is not UTF-8",
                                (unsigned char)*text);
    return json_scan_refuse(s, s->at, "\"%.*s\" cannot stand here", size, text);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

char json_scan_peek(json_scan *s)
{
    while (s->at < s->n && (s->text[s->at] == ' ' || s->text[s->at] == '\t' ||
                            s->text[s->at] == '\n' || s->text[s->at] == '\r'))
        s->at++;
    return s->at < s->n ? s->text[s->at] : '\0';
}

/* ---- Brackets -------------------------------------------------------------------------------- */

int json_scan_open(json_scan *s, char bracket)
{
    if (json_scan_peek(s) != bracket)
        return refuse_byte(s);
    if (s->depth == s->max_depth)
        return json_scan_refuse(s, s->at, "%s are nested deeper than %d",
                                s->line ? "lists" : "brackets", s->max_depth);
    s->at++;
    s->depth++;
    s->fresh = true;
    return KV_OK;
}

bool json_scan_item(json_scan *s, char bracket, int *code)
{
    bool first = s->fresh;
    if (*code || (*code = stop_check_at(s->items++, s->e)))
        return false;
    s->fresh = false;
    char next = json_scan_peek(s);
    if (next == bracket) {
        s->at++;
        s->depth--;
        return false;
    }
    if (first)
        return true;
    if (next != ',') {
        *code = refuse_byte(s);
        return false;
    }
    s->at++;
    return true;
}

int json_scan_end(json_scan *s)
{
    json_scan_peek(s);
    if (s->at == s->n)
        return KV_OK;
    return s->line ? refuse_byte(s)
                   : json_scan_refuse(s, s->at, "only blanks may follow the %s's last bracket",
                                      what(s));
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* The four digits of \uXXXX; -1 when they are not there. */
static int64_t hex4(const json_scan *s, int64_t at)
{
    int64_t x = 0;
    if (at + 6 > s->n || s->text[at] != '\\' || s->text[at + 1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        char c = s->text[at + i];
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        x = x * 16 + digit;
    }
    return x;
}

static int unescape(json_scan *s, buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = s->at + 1 < s->n ? s->text[s->at + 1] : '\0';
    const char *found = c ? strchr(from, c) : NULL;
    if (s->at + 1 >= s->n)
        return s->at = s->n, KV_OK; /* a quote is missing, too */
    if (c == 'u') {
        char utf8[4];
        int64_t x = hex4(s, s->at), low;
        if (x == 0)
            return refuse(s, "a text with a NUL");
        if (x < 0)
            return refuse(s, "\\u needs four hexadecimal digits");
        s->at += 6;
        if (x >= 0xD800 && x < 0xE000) {
            low = hex4(s, s->at);
            if (x >= 0xDC00 || low < 0xDC00 || low >= 0xE000)
                return refuse(s, "half of a pair of surrogates");
            s->at += 6;
            x = 0x10000 + ((x - 0xD800) << 10) + (low - 0xDC00);
        }
        buf_put(out, utf8, utf8_put(utf8, (uint32_t)x));
        return KV_OK;
    }
    if (!found) {
        bool ok;
        utf8_length(s->text + s->at + 1, (size_t)(s->n - s->at - 1), &ok);
        return refuse(s, ok ? "a text with an escape that is none of JSON"
                            : "a text that is not UTF-8");
    }
    buf_char(out, to[found - from]);
    s->at += 2;
    return KV_OK;
}

/* The bytes from here on that stand for themselves. */
static int plain_run(json_scan *s, buf *out)
{
    int64_t begin = s->at;
    while (s->at < s->n && s->text[s->at] != '"' && s->text[s->at] != '\\') {
        bool ok;
        if ((unsigned char)s->text[s->at] < ' ')
            return refuse(s, "a text with a control character that is not escaped");
        if ((unsigned char)s->text[s->at] < 0x80) {
            s->at++;
            continue;
        }
        size_t n = utf8_length(s->text + s->at, (size_t)(s->n - s->at), &ok);
        if (!ok)
            return refuse(s, "a text that is not UTF-8");
        s->at += (int64_t)n;
    }
    buf_put(out, s->text + begin, (size_t)(s->at - begin));
    return KV_OK;
}

int json_scan_text(json_scan *s, buf *out)
{
    int rc = KV_OK;
    buf_clear(out);
    if (json_scan_peek(s) != '"')
        return refuse_byte(s);
    int64_t begin = s->at++;
    while (!rc && s->at < s->n && s->text[s->at] != '"')
        rc = s->text[s->at] == '\\' ? unescape(s, out) : plain_run(s, out);
    if (!rc && s->at >= s->n)
        rc = s->line ? json_scan_refuse(s, begin, "a quote is not closed")
                     : cut(s, "within a text");
    s->at++;
    return rc ? rc : buf_check(out, s->e);
}

int json_scan_name(json_scan *s, buf *out)
{
    int rc = json_scan_text(s, out);
    if (!rc && json_scan_peek(s) != ':')
        rc = refuse_byte(s);
    s->at++;
    return rc;
}

/* ---- Other values ---------------------------------------------------------------------------- */

int json_scan_whole(json_scan *s, int64_t *x)
{
    char c = json_scan_peek(s);
    int64_t begin = s->at;
    *x = 0;
    if (c && strchr("+-.eE", c))
        return refuse(s, "the numbers of a header are whole and not negative");
    if (!is_digit(c))
        return refuse_byte(s);
    while (s->at < s->n && is_digit(s->text[s->at]) && s->at - begin <= NUMBER_DIGITS)
        *x = *x * 10 + (s->text[s->at++] - '0');
    int64_t end = s->at;
    if (end - begin > NUMBER_DIGITS || (end - begin > 1 && c == '0')) {
        s->at = begin;
        return refuse(s, c == '0' ? "a number that begins with 0"
                                  : "a number of more than 15 digits");
    }
    if (end < s->n && s->text[end] && strchr("+-.eE", s->text[end]))
        return refuse(s, "the numbers of a header are whole and not negative");
    return KV_OK;
}

/* Moves *p past digits; false without one. */
static bool skip_digits(const char **p, const char *end)
{
    const char *begin = *p;
    while (*p < end && is_digit(**p))
        ++*p;
    return *p > begin;
}

static int skip_list(json_scan *s, char open, char close)
{
    own_buf name = {0};
    int rc = json_scan_open(s, open);
    while (json_scan_item(s, close, &rc)) {
        TRY(open == '{' ? json_scan_name(s, &name) : KV_OK);
        TRY(json_scan_skip(s));
    }
    return rc;
}

bool json_scan_word(json_scan *s, const char *const words[3])
{
    for (int i = 0; i < 3; i++) {
        int64_t n = (int64_t)strlen(words[i]);
        if (s->n - s->at >= n && memcmp(s->text + s->at, words[i], (size_t)n) == 0)
            return s->at += n, true;
    }
    return false;
}

/* A number as RFC 8259 has it: no sign but -, no zero before other digits, digits on both sides of
 * a point. */
static int skip_number(json_scan *s)
{
    const char *text = s->text + s->at, *end = s->text + s->n, *p = text + (*text == '-');
    bool zero = p < end && *p == '0', right = skip_digits(&p, end);
    right = right && !(zero && p - text > 1 + (*text == '-'));
    if (p < end && *p == '.')
        right = (p++, skip_digits(&p, end)) && right;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '-' || *p == '+');
        right = skip_digits(&p, end) && right;
    }
    if (right && !(p < end && *p && strchr("+-.eE", *p)))
        return s->at = p - s->text, KV_OK;
    int n = 0;
    while (n < 40 && text + n < end && text[n] && !strchr(" \t\n\r,]}", text[n]))
        n++;
    return json_scan_refuse(s, s->at, "%.*s is not a number of JSON", n, text);
}

int json_scan_skip(json_scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    buf text = {0};
    int rc;
    char c = json_scan_peek(s);
    if (c == '{' || c == '[')
        return skip_list(s, c, c == '{' ? '}' : ']');
    if (c == '"') {
        rc = json_scan_text(s, &text);
        buf_release(&text);
        return rc;
    }
    if (!is_digit(c) && c != '-')
        return json_scan_word(s, words) ? KV_OK : refuse_byte(s);
    return skip_number(s);
}
