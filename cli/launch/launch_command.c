/* A list of words that grows. */
#include "launch/launch_command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

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

int launch_find(const char *program, const char *package, kv_err *e)
{
    char path[4200];
    const char *at = getenv("PATH");
    for (size_t n; at && *at; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)n, at, program);
        if (access(path, X_OK) == 0)
            return KV_OK;
    }
    kv_err_set(e, KV_E_UNSUPPORTED, "launch: there is no %s in $PATH", program);
    return kv_err_hint(e, "it belongs to %s", package);
}
