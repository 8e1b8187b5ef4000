/* The table of settings: their names, what they take, and where each is kept. */
#include "run/run.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/suggest.h"
#include "session/result.h"
#include "syntax/function.h"
#include "term/terminal.h"

typedef enum setting_kind { INT, INT64, SECONDS, FORMAT, SWITCH, WHEN } setting_kind;

/* Legend: name, what it takes, where it is kept: its offset in a session, or a terminal_use; the
 * lowest and the highest number; what it is for. */
static const struct setting {
    const char *name;
    setting_kind kind;
    size_t at;
    int64_t low, high;
    const char *help;
} settings[] = {
    {"print.edgeitems", INT, offsetof(session, out.style.edgeitems), 1, 1000000,
     "items shown at each end of a shortened axis"},
    {"print.format", FORMAT, 0, 0, 0, "numpy, repr, legacy, mxnet, csv, raw or json"},
    {"print.linewidth", INT, offsetof(session, out.style.linewidth), 10, 1000000,
     "columns of a line"},
    {"print.precision", INT, offsetof(session, out.style.precision), 0, 17,
     "digits behind the point at most"},
    {"print.threshold", INT64, offsetof(session, out.style.threshold), 0, INT64_MAX,
     "elements above which an array is shortened"},
    {"store.wait", SECONDS, 0, 0, 31536000, "seconds to wait for the lock of -s FILE"},
    {"terminal.color", WHEN, TERMINAL_COLOR, 0, 0, "auto, always or never"},
    {"terminal.pager", WHEN, TERMINAL_PAGER, 0, 0,
     "auto, always or never: long results at the prompt"},
    {"terminal.progress", WHEN, TERMINAL_PROGRESS, 0, 0,
     "auto, always or never: a bar for long work"},
    {"write.sync", SWITCH, 0, 0, 0, "on, or off: files do not wait for the disk, for many small"},
};

#define NSETTINGS ((int)(sizeof settings / sizeof *settings))

const char *setting_name(int i)
{
    return i < NSETTINGS ? settings[i].name : NULL;
}

/* ---- Showing ---- */

/* The value as it is shown, in NUM_TEXT_MAX bytes. */
static void text_of(const session *s, const struct setting *t, char *out)
{
    const char *place = (const char *)s + t->at;
    const char *word = NULL;
    switch (t->kind) {
    case INT:
        num_int(out, *(const int *)(const void *)place);
        return;
    case INT64:
        num_int(out, *(const int64_t *)(const void *)place);
        return;
    case SECONDS:
        num_plain(out, (double)s->store_wait_ms / 1000, NUM_BINARY64);
        return;
    case FORMAT:
        word = show_format_name(s->out.format);
        break;
    case SWITCH:
        word = s->writes_unsynced ? "off" : "on";
        break;
    case WHEN:
        word = terminal_when_name(terminal_chosen((terminal_use)t->at));
        break;
    }
    snprintf(out, NUM_TEXT_MAX, "%s", word);
}

static const struct setting *find(const char *name, kv_err *e)
{
    const char *names[NSETTINGS];
    for (int i = 0; i < NSETTINGS; i++) {
        if (strcmp(settings[i].name, name) == 0)
            return &settings[i];
        names[i] = settings[i].name;
    }
    kv_err_set(e, KV_E_USAGE, "there is no setting `%s`", name);
    suggest_hint(e, name, names, NSETTINGS);
    kv_err_hint(e, "`set` lists the settings");
    return NULL;
}

int setting_show(session *s, buf *out, const char *name, kv_err *e)
{
    char text[NUM_TEXT_MAX];
    const struct setting *only = name ? find(name, e) : NULL;
    if (name && !only)
        return e->code;
    if (only) {
        text_of(s, only, text);
        buf_printf(out, "%s\n", text);
    }
    for (int i = 0; i < NSETTINGS && !only; i++) {
        text_of(s, &settings[i], text);
        buf_printf(out, "%-17s %-8s %s\n", settings[i].name, text, settings[i].help);
    }
    return buf_check(out, e);
}

/* ---- Setting ---- */

static int set_word(session *s, const struct setting *t, value v, kv_err *e)
{
    terminal_when when;
    if (v.kind != VALUE_TEXT)
        return kv_err_set(e, KV_E_DTYPE, "%s is a text, not %s", t->name, value_kind_name(v));
    if (t->kind == FORMAT)
        return show_format_parse(&s->out.format, v.u.text, e);
    if (t->kind == SWITCH) {
        bool off = strcmp(v.u.text, "off") == 0;
        if (!off && strcmp(v.u.text, "on") != 0)
            return kv_err_set(e, KV_E_VALUE, "write.sync is on or off, not \"%.64s\"", v.u.text);
        s->writes_unsynced = off;
        return KV_OK;
    }
    TRY(terminal_when_parse(&when, v.u.text, t->name, e));
    terminal_choose((terminal_use)t->at, when);
    return KV_OK;
}

/* The one number that may have a fraction. */
static int set_wait(session *s, const struct setting *t, value v, kv_err *e)
{
    if (v.kind != VALUE_INT && v.kind != VALUE_FLOAT)
        return kv_err_set(e, KV_E_DTYPE, "%s is a number of seconds, not %s", t->name,
                          value_kind_name(v));
    double x = value_number(v);
    if (!(x >= (double)t->low && x <= (double)t->high))
        return kv_err_set(e, KV_E_VALUE, "%s lies in %lld .. %lld seconds", t->name,
                          (long long)t->low, (long long)t->high);
    s->store_wait_ms = (int64_t)(x * 1000 + 0.5);
    return KV_OK;
}

static int set_integer(session *s, const struct setting *t, value v, kv_err *e)
{
    void *place = (char *)s + t->at;
    int64_t x;
    TRY(function_int(v, t->name, &x, e));
    if (x < t->low || x > t->high)
        return kv_err_set(e, KV_E_VALUE, "%s lies in %lld .. %lld, %lld does not", t->name,
                          (long long)t->low, (long long)t->high, (long long)x);
    if (t->kind == INT)
        *(int *)place = (int)x;
    else
        *(int64_t *)place = x;
    return KV_OK;
}

int setting_set(session *s, const char *name, value v, kv_err *e)
{
    const struct setting *t = find(name, e);
    return !t                                        ? e->code
           : t->kind == SECONDS                      ? set_wait(s, t, v, e)
           : t->kind == INT || t->kind == INT64 ? set_integer(s, t, v, e)
                                                     : set_word(s, t, v, e);
}
