/* The table of settings. A number here is a field of the session or of its print style; get and put
 * say which.
 */
#include "script/setting.h"

#include <string.h>

#include "base/suggest.h"
#include "script/function.h"
#include "script/show.h"

/* SETTING_SECONDS: kept in milliseconds, which is what the range is in too. */
typedef enum setting_kind { SETTING_INT, SETTING_FORMAT, SETTING_SECONDS } setting_kind;

/* Legend: name, kind, where it is kept, range, what it is for. */
static const struct setting {
    const char *name;
    setting_kind kind;
    int64_t low, high;
    const char *help;
} settings[] = {
    {"print.edgeitems", SETTING_INT, 1, 1000000, "items shown at each end of a shortened axis"},
    {"print.format", SETTING_FORMAT, 0, 0, "numpy, repr, legacy, csv, raw or json"},
    {"print.linewidth", SETTING_INT, 10, 1000000, "columns of a line"},
    {"print.precision", SETTING_INT, 0, 17, "digits behind the point at most"},
    {"print.threshold", SETTING_INT, 0, INT64_MAX, "elements above which an array is shortened"},
    {"store.wait", SETTING_SECONDS, 0, 31536000000, "seconds to wait for the lock of -s FILE"},
};

#define NSETTINGS ((int)(sizeof settings / sizeof *settings))

static int64_t get(const session *s, int i)
{
    switch (i) {
    case 0:
        return s->style.edgeitems;
    case 2:
        return s->style.linewidth;
    case 3:
        return s->style.precision;
    case 4:
        return s->style.threshold;
    case 5:
        return s->store_wait_ms;
    }
    return 0;
}

static void put(session *s, int i, int64_t x)
{
    switch (i) {
    case 0:
        s->style.edgeitems = (int)x;
        break;
    case 2:
        s->style.linewidth = (int)x;
        break;
    case 3:
        s->style.precision = (int)x;
        break;
    case 4:
        s->style.threshold = x;
        break;
    case 5:
        s->store_wait_ms = x;
        break;
    }
}

const char *setting_name(int i)
{
    return i < NSETTINGS ? settings[i].name : NULL;
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

/* Seconds with a fraction, as milliseconds. */
static int take_seconds(const char *name, value v, const struct setting *t, int64_t *ms, kv_err *e)
{
    double seconds;
    if (v.kind != VALUE_INT && v.kind != VALUE_FLOAT)
        return kv_err_set(e, KV_E_DTYPE, "%s is a number of seconds, not %s", name,
                          value_kind_name(v));
    seconds = v.kind == VALUE_INT ? (double)v.u.integer : v.u.number;
    if (!(seconds * 1000 >= (double)t->low && seconds * 1000 <= (double)t->high))
        return kv_err_set(e, KV_E_VALUE, "%s lies in %lld .. %lld seconds", name,
                          (long long)(t->low / 1000), (long long)(t->high / 1000));
    *ms = (int64_t)(seconds * 1000 + 0.5);
    return KV_OK;
}

int setting_set(session *s, const char *name, value v, kv_err *e)
{
    int i = find(name, e);
    int64_t x;
    if (i < 0)
        return e->code;
    if (settings[i].kind == SETTING_FORMAT) {
        if (v.kind != VALUE_TEXT)
            return kv_err_set(e, KV_E_DTYPE, "%s is a text, not %s", name, value_kind_name(v));
        return show_format_parse(&s->format, v.u.text->text, e);
    }
    if (settings[i].kind == SETTING_SECONDS) {
        int code = take_seconds(name, v, &settings[i], &x, e);
        if (code == KV_OK)
            put(s, i, x);
        return code;
    }
    if (function_int(v, name, &x, e))
        return e->code;
    if (x < settings[i].low || x > settings[i].high)
        return kv_err_set(e, KV_E_VALUE, "%s lies in %lld .. %lld, %lld does not", name,
                          (long long)settings[i].low, (long long)settings[i].high, (long long)x);
    put(s, i, x);
    return KV_OK;
}

int setting_show(session *s, buf *out, const char *name, kv_err *e)
{
    int only = name ? find(name, e) : -1;
    if (name && only < 0)
        return e->code;
    for (int i = 0; i < NSETTINGS; i++) {
        if (name && i != only)
            continue;
        char number[32];
        int64_t x = get(s, i);
        if (settings[i].kind == SETTING_SECONDS && x % 1000)
            snprintf(number, sizeof number, "%lld.%03lld", (long long)(x / 1000),
                     (long long)(x % 1000));
        else
            snprintf(number, sizeof number, "%lld",
                     (long long)(settings[i].kind == SETTING_SECONDS ? x / 1000 : x));
        const char *text =
            settings[i].kind == SETTING_FORMAT ? show_format_name(s->format) : number;
        if (name)
            buf_printf(out, "%s\n", text);
        else
            buf_printf(out, "%-16s %-8s %s\n", settings[i].name, text, settings[i].help);
    }
    return buf_check(out, e);
}
