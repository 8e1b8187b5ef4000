/* The table of settings: their names, what they take, and where each is kept. */
#include "run/setting.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/suggest.h"
#include "syntax/function.h"
#include "session/show.h"
#include "term/terminal.h"

typedef enum setting_id {
    EDGEITEMS, FORMAT, LINEWIDTH, PRECISION, THRESHOLD, STORE_WAIT, COLOR, PAGER, PROGRESS,
    WRITE_SYNC
} setting_id;

/* Legend: name, lowest and highest number, what it is for. Without a range it is a word. */
static const struct setting {
    const char *name;
    int64_t low, high;
    const char *help;
} settings[] = {
    [EDGEITEMS] = {"print.edgeitems", 1, 1000000, "items shown at each end of a shortened axis"},
    [FORMAT] = {"print.format", 0, 0, "numpy, repr, legacy, mxnet, csv, raw or json"},
    [LINEWIDTH] = {"print.linewidth", 10, 1000000, "columns of a line"},
    [PRECISION] = {"print.precision", 0, 17, "digits behind the point at most"},
    [THRESHOLD] = {"print.threshold", 0, INT64_MAX, "elements above which an array is shortened"},
    [STORE_WAIT] = {"store.wait", 0, 31536000, "seconds to wait for the lock of -s FILE"},
    [COLOR] = {"terminal.color", 0, 0, "auto, always or never"},
    [PAGER] = {"terminal.pager", 0, 0, "auto, always or never: long results at the prompt"},
    [PROGRESS] = {"terminal.progress", 0, 0, "auto, always or never: a bar for long work"},
    [WRITE_SYNC] = {"write.sync", 0, 0,
                    "on, or off: files do not wait for the disk, for many small"},
};

#define NSETTINGS ((int)(sizeof settings / sizeof *settings))

const char *setting_name(int i)
{
    return i < NSETTINGS ? settings[i].name : NULL;
}

static terminal_use use_of(setting_id id)
{
    return id == COLOR ? TERMINAL_COLOR : id == PAGER ? TERMINAL_PAGER : TERMINAL_PROGRESS;
}

/* ---- Showing ---- */

/* The value as it is shown, in NUM_TEXT_MAX bytes. */
static void text_of(const session *s, setting_id id, char *out)
{
    switch (id) {
    case EDGEITEMS:
        num_int(out, s->style.edgeitems);
        break;
    case LINEWIDTH:
        num_int(out, s->style.linewidth);
        break;
    case PRECISION:
        num_int(out, s->style.precision);
        break;
    case THRESHOLD:
        num_int(out, s->style.threshold);
        break;
    case STORE_WAIT:
        num_plain(out, (double)s->store_wait_ms / 1000, NUM_BINARY64);
        break;
    case FORMAT:
        snprintf(out, NUM_TEXT_MAX, "%s", show_format_name(s->format));
        break;
    case WRITE_SYNC:
        snprintf(out, NUM_TEXT_MAX, "%s", s->writes_unsynced ? "off" : "on");
        break;
    case COLOR:
    case PAGER:
    case PROGRESS:
        snprintf(out, NUM_TEXT_MAX, "%s", terminal_when_name(terminal_chosen(use_of(id))));
        break;
    }
}

static int find(const char *name, kv_err *e)
{
    const char *names[NSETTINGS];
    for (int i = 0; i < NSETTINGS; i++) {
        if (strcmp(settings[i].name, name) == 0)
            return i;
        names[i] = settings[i].name;
    }
    kv_err_set(e, KV_E_USAGE, "there is no setting `%s`", name);
    suggest_hint(e, name, names, NSETTINGS);
    kv_err_hint(e, "`set` lists the settings");
    return -1;
}

int setting_show(session *s, buf *out, const char *name, kv_err *e)
{
    int only = name ? find(name, e) : -1;
    if (name && only < 0)
        return e->code;
    for (int i = 0; i < NSETTINGS; i++) {
        char text[NUM_TEXT_MAX];
        if (name && i != only)
            continue;
        text_of(s, (setting_id)i, text);
        if (name)
            buf_printf(out, "%s\n", text);
        else
            buf_printf(out, "%-17s %-8s %s\n", settings[i].name, text, settings[i].help);
    }
    return buf_check(out, e);
}

/* ---- Setting ---- */

static int set_sync(session *s, const char *word, kv_err *e)
{
    bool off = strcmp(word, "off") == 0;
    if (!off && strcmp(word, "on") != 0)
        return kv_err_set(e, KV_E_VALUE, "write.sync is on or off, not \"%.64s\"", word);
    s->writes_unsynced = off;
    return KV_OK;
}

static int set_word(session *s, setting_id id, value v, kv_err *e)
{
    terminal_when when;
    const char *name = settings[id].name;
    if (v.kind != VALUE_TEXT)
        return kv_err_set(e, KV_E_DTYPE, "%s is a text, not %s", name, value_kind_name(v));
    if (id == FORMAT)
        return show_format_parse(&s->format, v.u.text->text, e);
    if (id == WRITE_SYNC)
        return set_sync(s, v.u.text->text, e);
    if (terminal_when_parse(&when, v.u.text->text, name, e))
        return e->code;
    terminal_choose(use_of(id), when);
    return KV_OK;
}

/* The one number that may have a fraction. */
static int set_wait(session *s, value v, kv_err *e)
{
    const struct setting *t = &settings[STORE_WAIT];
    double x;
    if (v.kind != VALUE_INT && v.kind != VALUE_FLOAT)
        return kv_err_set(e, KV_E_DTYPE, "%s is a number of seconds, not %s", t->name,
                          value_kind_name(v));
    x = v.kind == VALUE_INT ? (double)v.u.integer : v.u.number;
    if (!(x >= (double)t->low && x <= (double)t->high))
        return kv_err_set(e, KV_E_VALUE, "%s lies in %lld .. %lld seconds", t->name,
                          (long long)t->low, (long long)t->high);
    s->store_wait_ms = (int64_t)(x * 1000 + 0.5);
    return KV_OK;
}

static int set_integer(session *s, setting_id id, value v, kv_err *e)
{
    const struct setting *t = &settings[id];
    int64_t x;
    if (function_int(v, t->name, &x, e))
        return e->code;
    if (x < t->low || x > t->high)
        return kv_err_set(e, KV_E_VALUE, "%s lies in %lld .. %lld, %lld does not", t->name,
                          (long long)t->low, (long long)t->high, (long long)x);
    if (id == EDGEITEMS)
        s->style.edgeitems = (int)x;
    else if (id == LINEWIDTH)
        s->style.linewidth = (int)x;
    else if (id == PRECISION)
        s->style.precision = (int)x;
    else
        s->style.threshold = x;
    return KV_OK;
}

int setting_set(session *s, const char *name, value v, kv_err *e)
{
    int i = find(name, e);
    if (i < 0)
        return e->code;
    if (i == STORE_WAIT)
        return set_wait(s, v, e);
    return settings[i].high > 0 ? set_integer(s, (setting_id)i, v, e)
                                : set_word(s, (setting_id)i, v, e);
}
