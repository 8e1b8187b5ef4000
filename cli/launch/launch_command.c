/* A list of words that grows. */
#include "launch/launch_command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "term/signals.h"

static void keep(launch_command *c, char *word)
{
    kv_err e = {0};
    if (c->failed || !word || mem_grow(&c->words, &c->cap, c->n + 2, sizeof *c->words, &e)) {
        mem_free(word);
        c->failed = true;
        return;
    }
    c->words[c->n++] = word;
    c->words[c->n] = NULL;
}

void launch_add(launch_command *c, const char *fmt, ...)
{
    kv_err e = {0};
    va_list args;
    char *word = NULL;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && (word = mem_alloc(n + 1, 1, &e))) {
        va_start(args, fmt);
        vsnprintf(word, (size_t)n + 1, fmt, args);
        va_end(args);
    }
    keep(c, word);
}

void launch_add_words(launch_command *c, char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        launch_add(c, "%s", words[i]);
}

/* ---- Templates ---- */

/* The value of the first hole of a text up to its end; *behind: the text behind the hole. */
static const char *value_of(const char *text, const launch_hole *holes, const char **behind)
{
    const char *name = strchr(text, '{') + 1;
    name += *name == '\'';
    size_t n = strcspn(name, "}");
    *behind = name + n + 1;
    while (holes->name && (strlen(holes->name) != n || memcmp(holes->name, name, n) != 0))
        holes++;
    bool known = kv_assert(holes->name, "a template has a hole that nobody fills: %s", text);
    return known ? holes->value : NULL;
}

/* blank: what stands for a blank of the template. */
static void fill(buf *out, const char *text, const launch_hole *holes, char blank)
{
    const char *behind;
    while (*text) {
        if (*text == '{') {
            const char *value = value_of(text, holes, &behind);
            if (text[1] == '\'')
                launch_quote(out, value);
            else
                buf_add(out, value);
            text = behind;
        } else if (*text == '[' && !value_of(text, holes, &behind)) {
            text = strchr(text, ']') + 1;
        } else {
            if (*text != '[' && *text != ']')
                buf_char(out, *text == ' ' ? blank : *text);
            text++;
        }
    }
}

void launch_fill(buf *out, const char *text, const launch_hole *holes)
{
    fill(out, text, holes, ' ');
}

void launch_add_filled(launch_command *c, const char *text, const launch_hole *holes)
{
    buf all = {0};
    fill(&all, text, holes, '\0');
    buf_char(&all, '\0');
    c->failed = c->failed || all.failed;
    for (size_t at = 0; at < all.len && !all.failed; at += strlen(all.data + at) + 1)
        if (all.data[at])
            launch_add(c, "%s", all.data + at);
    buf_release(&all);
}

/* ---- Words ---- */

int launch_command_check(const launch_command *c, kv_err *e)
{
    return c->failed ? kv_err_set(e, KV_E_MEMORY, "launch: no memory for a command") : KV_OK;
}

void launch_command_release(launch_command *c)
{
    for (int64_t i = 0; i < c->n; i++)
        mem_free(c->words[i]);
    mem_free(c->words);
    *c = (launch_command){0};
}

void launch_quote(buf *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+.,=/:@";
    if (*word && word[strspn(word, plain)] == '\0') {
        buf_add(out, word);
        return;
    }
    buf_char(out, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            buf_add(out, "'\\''");
        else
            buf_char(out, *word);
    }
    buf_char(out, '\'');
}

void launch_command_text(buf *out, const launch_command *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        if (i > 0)
            buf_char(out, ' ');
        launch_quote(out, c->words[i]);
    }
}

/* Octal numbers have three digits at most, so a digit may stand behind one. */
void launch_show_word(buf *out, const char *word)
{
    size_t n = strlen(word), size;
    char shown[VISIBLE_MAX];
    if (visible_is_plain(word, n)) {
        launch_quote(out, word);
        return;
    }
    buf_add(out, "$'");
    for (; n > 0; word += size, n -= size) {
        bool hidden = visible_escape(shown, word, n, &size);
        for (size_t i = 0; hidden && i < size; i++)
            buf_printf(out, "\\%03o", (unsigned char)word[i]);
        if (!hidden && strchr("'\\", *word))
            buf_char(out, '\\');
        if (!hidden)
            buf_put(out, word, size);
    }
    buf_char(out, '\'');
}

void launch_show_command(buf *out, const launch_command *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        if (i > 0)
            buf_char(out, ' ');
        launch_show_word(out, c->words[i]);
    }
}

const char *launch_seconds(char text[32], double seconds)
{
    snprintf(text, 32, "%lld.%03d", (long long)seconds,
             (int)((seconds - (double)(int64_t)seconds) * 1000));
    return text;
}

int launch_self(char path[4096], kv_err *e)
{
    ssize_t len = readlink("/proc/self/exe", path, 4095);
    if (len < 0)
        return file_error(e, "read", "/proc/self/exe", errno);
    path[len] = '\0';
    return KV_OK;
}

int launch_find(const char *program, const char *package, kv_err *e)
{
    if (child_finds(program))
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED, "launch: there is no %s in $PATH", program);
    return kv_err_hint(e, "it belongs to %s", package), KV_E_UNSUPPORTED;
}
