/* YAML has several ways to write a text. Two are used: the literal block, which people can read,
 * and double quotes, which can hold every character. */

#include "base/yaml.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

enum { STEP = 2 }; /* columns of a block behind its key */

/* Returns true if YAML needs no escape for the character and a reader can see it. Line and
 * paragraph separators, marks of direction and the byte order mark are invisible. */
static bool is_plain(uint32_t c)
{
    if (c < 0xA0)
        return c >= ' ' && c < 0x7F;
    return !(c >= 0x200B && c <= 0x200F) && !(c >= 0x2028 && c <= 0x202E) &&
           !(c >= 0x2060 && c <= 0x206F) && !(c >= 0xD800 && c <= 0xDFFF) && c != 0xFEFF &&
           (c & 0xFFFE) != 0xFFFE;
}

static void put_number(buf *out, uint32_t c)
{
    switch (c) {
    case '\n':
        buf_add(out, "\\n");
        return;
    case '\t':
        buf_add(out, "\\t");
        return;
    default:
        buf_printf(out, c < 0x100 ? "\\x%02X" : c < 0x10000 ? "\\u%04X" : "\\U%08X", (unsigned)c);
    }
}

void yaml_quote(buf *out, const char *text, size_t n)
{
    bool ok;
    buf_char(out, '"');
    for (size_t at = 0, size; at < n; at += size) {
        size = utf8_length(text + at, n - at, &ok);
        uint32_t c = utf8_number(text + at, size);
        if (c == '"' || c == '\\')
            buf_char(out, '\\');
        if (is_plain(c))
            buf_put(out, text + at, size);
        else
            put_number(out, c);
    }
    buf_char(out, '"');
}

/* A block keeps line feeds and tabs too, but no carriage returns, and needs a line with text. */
static bool fits_block(const char *text, size_t n)
{
    bool ok, any = false;
    for (size_t at = 0, size; at < n; at += size) {
        size = utf8_length(text + at, n - at, &ok);
        uint32_t c = utf8_number(text + at, size);
        if (c != '\n' && c != '\t' && !is_plain(c))
            return false;
        any |= c != '\n';
    }
    return any;
}

/* Behind the bar stands the number of columns, where the first line would mislead a reader that
 * counts its blanks, and what becomes of line feeds at the end: one is kept, or none, or all. */
static void put_block(buf *out, int indent, const char *text, size_t n)
{
    buf_char(out, '|');
    if (strchr(" \t\n", text[0]))
        buf_printf(out, "%d", STEP);
    if (text[n - 1] != '\n')
        buf_char(out, '-');
    else if (n > 1 && text[n - 2] == '\n')
        buf_char(out, '+');
    buf_char(out, '\n');
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end ? (size_t)(end - text) - at : n - at;
        if (len > 0)
            buf_repeat(out, ' ', indent + STEP);
        buf_put(out, text + at, len);
        buf_char(out, '\n');
        at += len + 1;
    }
}

void yaml_text(buf *out, int indent, const char *key, const char *text, size_t n)
{
    buf_repeat(out, ' ', indent);
    buf_printf(out, "%s: ", key);
    if (fits_block(text, n)) {
        put_block(out, indent, text, n);
        return;
    }
    yaml_quote(out, text, n);
    buf_char(out, '\n');
}

void yaml_base64(buf *out, const char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t at = 0; at < n; at += 3) {
        uint32_t x = 0;
        size_t have = n - at < 3 ? n - at : 3;
        for (size_t i = 0; i < 3; i++)
            x = x << 8 | (i < have ? (unsigned char)bytes[at + i] : 0);
        for (size_t i = 0; i < 4; i++)
            buf_char(out, i <= have ? digits[x >> (18 - 6 * i) & 63] : '=');
    }
}
