/* Reading and listing of options, by their tables. */
#include "options/shell_option.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/suggest.h"

/* ---- Scripts of shells ---- */

const completion_script completion_scripts[] = {
    {"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}, {0}};

const char *completion_script_of(const char *shell)
{
    for (const completion_script *c = completion_scripts; c->shell; c++)
        if (strcmp(shell, c->shell) == 0)
            return c->text;
    return NULL;
}

/* ---- Tables of options ---- */

const shell_option *shell_option_find(const shell_table *t, const char *word, size_t n)
{
    bool is_long = n > 2 && word[1] == '-';
    for (int i = 0; i < t->n; i++) {
        const shell_option *o = &t->rows[i];
        if (is_long ? o->name && strlen(o->name) == n - 2 && !memcmp(o->name, word + 2, n - 2)
                    : n == 2 && o->letter == word[1])
            return o;
    }
    return NULL;
}

int shell_option_suggest(const shell_table *t, const char *word, kv_err *e)
{
    char name[66] = "", spelled[SUGGEST_MAX][66];
    suggest near = {.word = name};
    if (strncmp(word, "--", 2) != 0)
        return e->code;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "=") - 2, word + 2);
    for (int i = 0; i < t->n; i++)
        if (t->rows[i].name)
            suggest_add(&near, t->rows[i].name);
    for (int i = 0; i < near.n; i++) {
        snprintf(spelled[i], sizeof spelled[i], "--%s", near.names[i]);
        near.names[i] = spelled[i];
    }
    return suggest_done(&near, e), e->code;
}

/* ---- Values ---- */

int shell_take_count(const char *spelled, const char *text, int64_t low, int64_t high, int64_t *x,
                     kv_err *e)
{
    bool over = false;
    size_t n = strlen(text);
    if (n == 0 || num_parse_int(text, n, x, &over) != n || over || *x < low || *x > high)
        return kv_err_set(e, KV_E_USAGE, "%s needs a whole number from %lld to %lld, not \"%s\"",
                          spelled, (long long)low, (long long)high, text);
    return KV_OK;
}

int shell_take_seconds(const char *spelled, const char *text, double *seconds, kv_err *e)
{
    enum { YEAR = 31536000 }; /* a timer takes no more than some of them */
    bool over = false;
    size_t n = strlen(text);
    if (n == 0 || num_parse(text, n, NUM_BINARY64, seconds, &over) != n || over ||
        !(*seconds > 0 && *seconds <= YEAR))
        return kv_err_set(e, KV_E_USAGE, "%s needs seconds, more than 0, not \"%s\"", spelled,
                          text);
    return KV_OK;
}

static int store(const shell_given *g, kv_err *e)
{
    const shell_option *o = g->o;
    void *field = (char *)g->to + o->field;
    shell_texts *texts = field;
    int64_t count = 0;
    switch (o->kind) {
    case SHELL_FLAG:
        *(bool *)field = true;
        break;
    case SHELL_TEXT:
        *(const char **)field = g->text;
        break;
    case SHELL_TEXTS:
        texts->items[texts->n++] = g->text;
        break;
    case SHELL_COUNT:
        if (shell_take_count(g->spelled, g->text, o->low, o->high, &count, e))
            return e->code;
        *(int *)field = (int)count;
        break;
    case SHELL_SECONDS:
        return shell_take_seconds(g->spelled, g->text, field, e);
    case SHELL_OTHER:
        return o->take(g, e);
    }
    return KV_OK;
}

/* ---- Words ---- */

/* value: what stands in the same word, or NULL; next: the word behind it, or NULL. */
static int take(const shell_table *t, void *to, const shell_option *o, const char *word, size_t n,
                const char *value, const char *next, kv_err *e)
{
    char name[64], spelled[80];
    const char *text = value ? value : o->value ? next : "";
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    snprintf(spelled, sizeof spelled, "%s%s", t->who, name);
    if (!o->value && value)
        kv_err_set(e, KV_E_USAGE, "%s takes no value, and here is \"%s\"", spelled, value);
    else if (!text && *t->who)
        kv_err_set(e, KV_E_USAGE, "%s needs a value", spelled);
    else if (!text)
        kv_err_set(e, KV_E_USAGE, "%s needs a value: %s %s", name, name, o->value);
    else
        store(&(shell_given){o, spelled, text, to}, e);
    return e->code ? 0 : 1 + (o->value && !value);
}

int shell_option_read(const shell_table *t, void *to, int argc, char *const *argv, kv_err *e)
{
    const char *word = argv[0], *next = argc > 1 ? argv[1] : NULL;
    int words = 0;
    if (word[0] == '-' && word[1] == '-') {
        size_t n = strcspn(word, "=");
        const shell_option *o = shell_option_find(t, word, n);
        return o ? take(t, to, o, word, n, word[n] ? word + n + 1 : NULL, next, e) : 0;
    }
    for (const char *c = word + 1; word[0] == '-' && *c; c++) {
        char spelled[3] = {'-', *c};
        const shell_option *o = shell_option_find(t, spelled, 2);
        const char *value = o && o->value && c[1] ? c + 1 : NULL;
        if (value && *value == '=' && *t->who) /* launch takes -n=2, too */
            value++;
        words = o ? take(t, to, o, spelled, 2, value, next, e) : 0;
        if (words == 0 || o->value)
            break;
    }
    return words;
}

void shell_option_line(buf *out, const shell_option *o, int column)
{
    size_t from = out->len;
    buf_add(out, "  ");
    if (o->letter)
        buf_printf(out, "-%c", o->letter);
    if (o->name)
        buf_printf(out, "%s--%s", o->letter ? ", " : "", o->name);
    if (o->value)
        buf_printf(out, " %s", o->value);
    buf_repeat(out, ' ', column - 1 - (int64_t)(out->len - from));
    buf_char(out, ' ');
    for (const char *c = o->help; *c; c++) {
        buf_char(out, *c);
        if (*c == '\n')
            buf_repeat(out, ' ', column);
    }
    buf_char(out, '\n');
}
