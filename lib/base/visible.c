/* Characters that do not show themselves. See visible.h. */
#include "base/visible.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* C1, line ends, marks that turn the direction of a line, and tags, which hide a text in a text. */
static bool acts(uint32_t c)
{
    return (c >= 0x80 && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
           (c >= 0xe0000 && c <= 0xe007f);
}

bool visible_escape(char out[VISIBLE_MAX], const char *text, size_t n, size_t *size)
{
    bool ok;
    unsigned char c = (unsigned char)*text;
    *size = utf8_length(text, n, &ok);
    if (!ok || c < 0x20 || c == 0x7f) {
        snprintf(out, VISIBLE_MAX, "\\x%02x", c);
        return true;
    }
    if (!acts(utf8_number(text, *size)))
        return false;
    snprintf(out, VISIBLE_MAX, "\\u{%x}", (unsigned)utf8_number(text, *size));
    return true;
}

/* The bytes of text, from the first on, that are printable ASCII: most names are nothing else. */
static size_t printable(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && text[i] >= ' ' && text[i] < 0x7f)
        i++;
    return i;
}

bool visible_is_plain(const char *text, size_t n)
{
    char escape[VISIBLE_MAX];
    for (size_t i = printable(text, n), size; i < n; i += size)
        if (visible_escape(escape, text + i, n - i, &size))
            return false;
    return true;
}

void visible_line(buf *out, const char *text, size_t n)
{
    char escape[VISIBLE_MAX];
    size_t plain = printable(text, n);
    buf_put(out, text, plain);
    for (size_t i = plain, size; i < n; i += size) {
        if (visible_escape(escape, text + i, n - i, &size))
            buf_add(out, escape);
        else
            buf_put(out, text + i, size);
    }
}

void visible_lines(buf *out, const char *text, size_t n)
{
    while (n > 0) {
        size_t part = 0;
        while (part < n && text[part] != '\n' && text[part] != '\t')
            part++;
        visible_line(out, text, part);
        if (part < n)
            buf_char(out, text[part++]);
        text += part;
        n -= part;
    }
}
