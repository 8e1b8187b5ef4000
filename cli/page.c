/* Entries of pages, line by line. See page.h. */
#include "page.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "lang/lex.h"
#include "session/unit.h"
#include "syntax/read_unit.h"

/* To find out if an entry goes on behind a prompt all of it is parsed again, which is not done for
 * larger ones. */
#define OPEN_MAX 16384

/* The bytes of a line, with its newline. */
static size_t line_bytes(const char *text, size_t n)
{
    const char *newline = memchr(text, '\n', n);
    return newline ? (size_t)(newline - text) + 1 : n;
}

static bool is_blank_line(const char *line, size_t n)
{
    while (n > 0 && letter_is_blank(line[n - 1]))
        n--;
    return n == 0;
}

bool page_is(const char *text, size_t n)
{
    source src = {.text = text, .len = (uint32_t)n, .line = 1, .col = 1};
    lexer lx;
    if (n > SOURCE_MAX)
        return false;
    lex_init(&lx, &src);
    return lx.transcript;
}

/* Returns true if n bytes of text, with `end` behind them, are complete. */
static bool is_complete(const char *text, size_t n, const char *end)
{
    buf copy = {0};
    buf_put(&copy, text, n);
    buf_add(&copy, end);
    bool complete = buf_check(&copy, NULL) || unit_is_complete(buf_text(&copy), copy.len);
    buf_release(&copy);
    return complete;
}

/* Some pages have the prompt of an entry in front of each line of a block, too: what is indented
 * behind it, and `else`, goes on. */
static bool begins_entry(const char *line, size_t n)
{
    size_t margin = lex_margin(line, n);
    const char *text = line + margin;
    size_t left = n - margin;
    bool more = left >= 4 && (memcmp(text, "else", 4) == 0 || memcmp(text, "elif", 4) == 0);
    return lex_begins_entry(line, n) && !more && !(left > 0 && lex_is_blank(*text));
}

size_t page_entry(const char *text, size_t n)
{
    size_t end = 0;
    bool begun = false;
    while (end < n) {
        size_t line = line_bytes(text + end, n - end);
        /* The prompt behind it ends a block that is written by indentation. */
        if (begins_entry(text + end, line)) {
            if (begun && (end > OPEN_MAX || is_complete(text, end, ">>> 0")))
                return end;
            begun = true;
        }
        end += line;
    }
    return n;
}

void page_prompts(buf *out, const char *text, size_t n)
{
    for (size_t line; n > 0; text += line, n -= line) {
        line = line_bytes(text, n);
        if (lex_margin(text, line))
            buf_put(out, text, line);
    }
}

/* Returns true if two lines differ in blanks at most. */
static bool same_line(const char *a, size_t n, const char *b, size_t m)
{
    for (size_t i = 0, k = 0;; i++, k++) {
        while (i < n && letter_is_blank(a[i]))
            i++;
        while (k < m && letter_is_blank(b[k]))
            k++;
        if (i == n || k == m)
            return i == n && k == m;
        if (a[i] != b[k])
            return false;
    }
}

static bool holds_line(const buf *shown, const char *line, size_t n)
{
    const char *text = buf_text(shown);
    size_t left = shown->len, m;
    for (; left > 0; text += m, left -= m) {
        m = line_bytes(text, left);
        if (same_line(line, n, text, m))
            return true;
    }
    return false;
}

size_t page_shown(const char *text, size_t n, const buf *shown)
{
    size_t end = 0, line;
    for (; end < n; end += line) {
        line = line_bytes(text + end, n - end);
        if (lex_margin(text + end, line) ||
            !(is_blank_line(text + end, line) || holds_line(shown, text + end, line)))
            break;
    }
    return end;
}

bool page_has_several(const char *text, size_t n)
{
    size_t end = 0, line;
    for (; end < n && end < OPEN_MAX; end += line) {
        line = line_bytes(text + end, n - end);
        if (!is_blank_line(text, end) && !is_blank_line(text + end, n - end) &&
            is_complete(text, end, ""))
            return true;
    }
    return false;
}
