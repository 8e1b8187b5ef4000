/* The list of texts, each with its label. */
#include "term/paste.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

typedef struct kept {
    buf text;
    char label[96];
} kept;

static struct {
    kept *items;
    int64_t n, cap;
} pasted;

bool paste_any(void)
{
    return pasted.n > 0;
}

const char *paste_label(void)
{
    return pasted.n > 0 ? pasted.items[pasted.n - 1].label : NULL;
}

static long long count_lines(const buf *text)
{
    long long lines = 0;
    const char *at = text->data, *end = text->data + text->len;
    for (; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        lines++;
    return lines + (text->len > 0 && text->data[text->len - 1] != '\n');
}

/* `[pasted 2000 lines, 31 KB]`; from the second of a line on with its number, so that no two
 * labels are equal. */
static const char *name(kept *k)
{
    long long lines = count_lines(&k->text), bytes = (long long)k->text.len;
    char number[24] = "", size[32];
    if (pasted.n > 1)
        snprintf(number, sizeof number, " %lld:", (long long)pasted.n);
    if (bytes < 10000)
        snprintf(size, sizeof size, "%lld bytes", bytes);
    else if (bytes < 10000000)
        snprintf(size, sizeof size, "%lld KB", bytes / 1000);
    else
        snprintf(size, sizeof size, "%lld MB", bytes / 1000000);
    snprintf(k->label, sizeof k->label, "[pasted%s %lld line%s, %s]", number, lines,
             lines == 1 ? "" : "s", size);
    return k->label;
}

const char *paste_keep(const char *text, size_t n)
{
    if (mem_grow(&pasted.items, &pasted.cap, pasted.n + 1, sizeof *pasted.items, NULL))
        return NULL;
    pasted.items[pasted.n++] = (kept){0};
    return paste_add(text, n);
}

const char *paste_add(const char *text, size_t n)
{
    kept *last = &pasted.items[pasted.n - 1];
    buf_put(&last->text, text, n);
    return name(last);
}

/* The text whose label begins at `at`, or NULL. */
static const kept *labelled(const char *at)
{
    for (int64_t i = 0; i < pasted.n; i++)
        if (strncmp(at, pasted.items[i].label, strlen(pasted.items[i].label)) == 0)
            return &pasted.items[i];
    return NULL;
}

void paste_expand(buf *out, const char *line)
{
    while (*line) {
        size_t plain = strcspn(line, "[");
        const kept *k = labelled(line + plain);
        if (!k)
            plain += line[plain] != '\0';
        buf_put(out, line, plain);
        line += plain;
        if (k) {
            buf_put(out, buf_text(&k->text), k->text.len);
            out->failed |= k->text.failed;
            line += strlen(k->label);
        }
    }
}

void paste_forget(void)
{
    for (int64_t i = 0; i < pasted.n; i++)
        buf_release(&pasted.items[i].text);
    mem_free(pasted.items);
    pasted.items = NULL;
    pasted.n = pasted.cap = 0;
}
