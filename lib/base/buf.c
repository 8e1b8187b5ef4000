/* A growable text that remembers a failed addition. Invariant: while !failed and data is not NULL,
 * len < cap and data[len] is NUL. After a failure the text stays as it was. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/utf8.h"

/* Room for n more bytes and the NUL; false after a failure, now or earlier. */
static bool make_room(buf *b, size_t n)
{
    if (b->failed)
        return false;
    if (b->data && n < b->cap - b->len)
        return true;
    int64_t cap = (int64_t)b->cap;
    if (n > (size_t)(INT64_MAX / 2) - b->len ||
        mem_grow(&b->data, &cap, (int64_t)(b->len + n + 1), 1, NULL)) {
        b->failed = true;
        return false;
    }
    b->cap = (size_t)cap;
    return true;
}

void buf_put(buf *b, const char *text, size_t n)
{
    if (!make_room(b, n))
        return;
    if (n)
        memcpy(b->data + b->len, text, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void buf_add(buf *b, const char *text)
{
    buf_put(b, text, strlen(text));
}

void buf_char(buf *b, char c)
{
    buf_put(b, &c, 1);
}

void buf_repeat(buf *b, char c, int64_t n)
{
    if (n <= 0 || !make_room(b, (size_t)n))
        return;
    memset(b->data + b->len, c, (size_t)n);
    b->len += (size_t)n;
    b->data[b->len] = '\0';
}

char *buf_room(buf *b, size_t n)
{
    return make_room(b, n) ? b->data + b->len : NULL;
}

void buf_grew(buf *b, size_t n)
{
    if (!kv_assert(b->data && b->len + n < b->cap,
                   "%zu bytes were written behind %zu, of room for %zu", n, b->len, b->cap))
        return;
    b->len += n;
    b->data[b->len] = '\0';
}

void buf_vprintf(buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0) {
        b->failed = true;
    } else if (make_room(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void buf_printf(buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(b, fmt, ap);
    va_end(ap);
}

const char *buf_text(const buf *b)
{
    return b->data ? b->data : "";
}

int buf_check(const buf *b, kv_err *e)
{
    if (!b->failed)
        return KV_OK;
    return kv_err_set(e, KV_E_MEMORY, "out of memory for a text of more than %llu bytes",
                      (unsigned long long)b->len);
}

void buf_clear(buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

void buf_release(buf *b)
{
    mem_free(b->data);
    *b = (buf){0};
}

/* ---- Characters that are shown by
 * their numbers ----------------------------------------------- */

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
