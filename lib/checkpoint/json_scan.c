/* The scanner of JSON. */
#include "checkpoint/json_scan.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "io/json.h"

#define NUMBER_DIGITS 15

static int refuse(const json_scan *s, const char *why)
{
    return file_bad(s->e, KV_E_FORMAT, s->path, "byte %lld: %s", (long long)(s->begin + s->at),
                    why);
}

static const char *what(const json_scan *s)
{
    return s->what ? s->what : "header";
}

static int cut(const json_scan *s, const char *where)
{
    return file_bad(s->e, KV_E_FORMAT, s->path, "the %s ends %s", what(s), where);
}

static int refuse_byte(const json_scan *s)
{
    char why[64];
    if (s->at >= s->n)
        return cut(s, s->depth > 0 ? "before its last bracket" : "where a value is needed");
    unsigned char byte = (unsigned char)s->text[s->at];
    if (byte > ' ' && byte < 0x7F)
        snprintf(why, sizeof why, "\"%c\" cannot stand here", byte);
    else
        snprintf(why, sizeof why, "a byte 0x%02X cannot stand here", byte);
    return refuse(s, why);
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
    char why[64];
    if (json_scan_peek(s) != bracket)
        return refuse_byte(s);
    if (s->depth == s->max_depth) {
        snprintf(why, sizeof why, "brackets are nested deeper than %d", s->max_depth);
        return refuse(s, why);
    }
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
    char why[80];
    json_scan_peek(s);
    snprintf(why, sizeof why, "only blanks may follow the %s's last bracket", what(s));
    return s->at < s->n ? refuse(s, why) : KV_OK;
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
        return cut(s, "within a text");
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
    s->at++;
    while (!rc && s->at < s->n && s->text[s->at] != '"')
        rc = s->text[s->at] == '\\' ? unescape(s, out) : plain_run(s, out);
    if (!rc && s->at >= s->n)
        rc = cut(s, "within a text");
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
    size_t n = json_number_length(s->text + s->at, (size_t)(s->n - s->at));
    s->at += (int64_t)n;
    return n ? KV_OK : refuse(s, "a number that is none of JSON");
}
