/* Reading lists of hashes, line by line. A name with signs that a terminal acts on is in quotes and
 * escaped, as ls shows it. */
#include "tensors/hash_list.h"

#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"

/* A line as it is read: n bytes, the hash first. */
typedef struct reading {
    hash_list *list;
    const char *path, *line;
    size_t n;
    int64_t number;
    buf name;
} reading;

static int refuse(const reading *r, const char *why, kv_err *e)
{
    return file_bad(e, KV_E_FORMAT, r->path, "line %lld: %s", (long long)r->number, why);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Takes what stands behind the backslash at r->line[*i]: a quote, a backslash, x1b or u{202e}. */
static bool unescape(reading *r, size_t *i)
{
    size_t at = *i + 2, digits = 0;
    char kind = *i + 1 < r->n ? r->line[*i + 1] : '\0', utf8[4];
    uint32_t x = 0;
    if (kind == '"' || kind == '\\') {
        buf_char(&r->name, kind);
        *i = at;
        return true;
    }
    if (kind == 'u' && at < r->n && r->line[at] == '{')
        at++;
    else if (kind != 'x')
        return false;
    for (; at < r->n && digits < (kind == 'x' ? 2 : 6) && digit_of(r->line[at]) >= 0; digits++)
        x = x * 16 + (uint32_t)digit_of(r->line[at++]);
    if (x == 0 || (kind == 'x' && digits != 2))
        return false;
    if (kind == 'x') {
        buf_char(&r->name, (char)x);
    } else {
        if (x > 0x10FFFF || at >= r->n || r->line[at++] != '}')
            return false;
        buf_put(&r->name, utf8, utf8_put(utf8, x));
    }
    *i = at;
    return true;
}

/* The name from byte i of the line on: as it is, or in quotes and escaped, as ls shows it. */
static int read_name(reading *r, size_t i, kv_err *e)
{
    buf_clear(&r->name);
    if (i >= r->n)
        return refuse(r, "a name is missing behind the hash", e);
    if (r->line[i] != '"') {
        buf_put(&r->name, r->line + i, r->n - i);
        return buf_check(&r->name, e);
    }
    for (i++; i < r->n && r->line[i] != '"';) {
        if (r->line[i] != '\\')
            buf_char(&r->name, r->line[i++]);
        else if (!unescape(r, &i))
            return refuse(r, "an escape in the name is none that hash writes", e);
    }
    if (i + 1 != r->n)
        return refuse(r, i >= r->n ? "the quotes of the name do not end"
                                   : "something stands behind the quotes of the name",
                      e);
    return buf_check(&r->name, e);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static int add(reading *r, kv_err *e)
{
    hash_list *list = r->list;
    listed_hash one = {0};
    int bytes = digest_bytes(list->kind);
    for (int i = 0; i < bytes; i++)
        one.bytes[i] =
            (unsigned char)(digit_of(r->line[2 * i]) << 4 | digit_of(r->line[2 * i + 1]));
    if (map_get(&list->by_name, (kv_key){.name = buf_text(&r->name)}) >= 0)
        return refuse(r, "a name that stands in an earlier line, too", e);
    int rc = mem_grow(&list->items, &list->cap, list->n + 1, sizeof *list->items, e);
    one.name = rc ? NULL : arena_text(&list->texts, buf_text(&r->name), r->name.len, e);
    if (!one.name)
        return KV_E_MEMORY;
    rc = map_put(&list->by_name, (kv_key){.name = one.name}, list->n, e);
    if (rc == KV_OK)
        list->items[list->n++] = one;
    return rc;
}

static int read_line(reading *r, kv_err *e)
{
    size_t digits = 0, blanks = 0;
    while (digits < r->n && digit_of(r->line[digits]) >= 0)
        digits++;
    while (digits + blanks < r->n && blanks < 2 && r->line[digits + blanks] == ' ')
        blanks++;
    bool sha256 = digits == 64;
    if ((digits != 32 && !sha256) || blanks < 2)
        return refuse(r, "no hash of 32 or 64 hexadecimal digits, two blanks and a name", e);
    digest_kind kind = sha256 ? DIGEST_SHA256 : DIGEST_XXH3;
    if (r->list->n > 0 && kind != r->list->kind)
        return refuse(r, "a hash of another kind than in the lines before", e);
    r->list->kind = kind;
    int rc = read_name(r, digits + blanks, e);
    return rc ? rc : add(r, e);
}

int hash_list_read(hash_list *list, const char *path, kv_err *e)
{
    char *text = NULL;
    size_t n = 0;
    int rc = file_read_text(path, &text, &n, e);
    reading r = {.list = list, .path = path};
    for (size_t at = 0; rc == KV_OK && at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        r.line = text + at;
        r.n = end ? (size_t)(end - r.line) : n - at;
        at += r.n + 1;
        r.n -= r.n > 0 && r.line[r.n - 1] == '\r';
        r.number++;
        rc = read_line(&r, e);
    }
    buf_release(&r.name);
    mem_free(text);
    return rc;
}

void hash_list_release(hash_list *list)
{
    mem_free(list->items);
    map_release(&list->by_name);
    arena_release(&list->texts);
    *list = (hash_list){0};
}
