/* See json_writer.h. */
#include "io/json_writer.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

/* ---- Texts of values ---- */

/* \uXXXX, of a character beyond 16 bits as two surrogates. */
static void put_escape(buf *out, uint32_t c)
{
    if (c >= 0x10000) {
        buf_printf(out, "\\u%04x", (unsigned)(0xd800 + ((c - 0x10000) >> 10)));
        c = 0xdc00 + ((c - 0x10000) & 0x3ff);
    }
    buf_printf(out, "\\u%04x", (unsigned)c);
}

void json_quoted(buf *out, const char *text, bool ascii)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    static const char most[] = " !#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`"
                               "abcdefghijklmnopqrstuvwxyz{|}~";
    size_t n = strlen(text);
    buf_char(out, '"');
    for (size_t i = 0; i < n;) {
        size_t plain = strspn(text + i, most);
        buf_put(out, text + i, plain);
        if ((i += plain) == n)
            break;
        bool ok;
        size_t size = utf8_length(text + i, n - i, &ok);
        const char *escape = strchr(from, text[i]);
        char hidden[VISIBLE_MAX];
        if (escape)
            buf_printf(out, "\\%c", to[escape - from]);
        else if (ascii || (ok && visible_escape(hidden, text + i, n - i, &size)))
            put_escape(out, ok ? utf8_number(text + i, size) : 0xfffd);
        else if (!ok)
            buf_add(out, "\xEF\xBF\xBD");
        else
            buf_put(out, text + i, size);
        i += size;
    }
    buf_char(out, '"');
}

int json_int_text(char *out, int64_t x)
{
    bool exact = x >= -(INT64_C(1) << 53) && x <= INT64_C(1) << 53;
    if (exact)
        return num_int(out, x);
    out[0] = '"';
    int n = 1 + num_int(out + 1, x);
    out[n++] = '"';
    out[n] = '\0';
    return n;
}

/* Returns true if a reader that takes the text as a double and rounds it to the width gets x
 * back. */
static bool survives_a_double(const char *text, int n, double x, num_width width)
{
    double back;
    num_parse(text, (size_t)n, NUM_BINARY64, &back, NULL);
    return num_narrow(back, width, NULL) == x;
}

int json_float_text(char *out, double x, num_width width)
{
    if (!isfinite(x)) {
        const char *text = isnan(x) ? "\"nan\"" : x < 0 ? "\"-inf\"" : "\"inf\"";
        memcpy(out, text, strlen(text) + 1);
        return (int)strlen(text);
    }
    int n = num_plain(out, x, width);
    /* Very rarely the shortest text is so near to the middle between two numbers that its double is
     * that middle. The digits of x as a double are then the shortest that are safe. */
    if (width != NUM_BINARY64 && !survives_a_double(out, n, x, width))
        n = num_plain(out, x, NUM_BINARY64);
    return n;
}

/* ---- Values ---- */

buf *json_field(json_writer *w, const char *name)
{
    if (w->comma)
        buf_char(w->out, ',');
    if (name) {
        json_quoted(w->out, name, false);
        buf_char(w->out, ':');
    }
    w->comma = true;
    return w->out;
}

void json_begin(json_writer *w, const char *name, char bracket)
{
    buf_char(json_field(w, name), bracket);
    w->comma = false;
}

void json_end(json_writer *w, char bracket)
{
    buf_char(w->out, bracket);
    w->comma = true;
}

void json_text(json_writer *w, const char *name, const char *text)
{
    buf *out = json_field(w, name);
    if (text)
        json_quoted(out, text, false);
    else
        buf_add(out, "null");
}

void json_bool(json_writer *w, const char *name, bool x)
{
    buf_add(json_field(w, name), x ? "true" : "false");
}

void json_int(json_writer *w, const char *name, int64_t x)
{
    char text[NUM_TEXT_MAX];
    buf_put(json_field(w, name), text, (size_t)json_int_text(text, x));
}

void json_ints(json_writer *w, const char *name, int64_t n, const int64_t *x)
{
    json_begin(w, name, '[');
    for (int64_t i = 0; i < n; i++)
        json_int(w, NULL, x[i]);
    json_end(w, ']');
}

void json_float(json_writer *w, const char *name, double x)
{
    char text[NUM_TEXT_MAX];
    buf_put(json_field(w, name), text, (size_t)json_float_text(text, x, NUM_BINARY64));
}
