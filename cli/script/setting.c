/* The table of settings. A number here is a field of the session's print style; get and put say
 * which.
 */
#include "script/setting.h"

#include <string.h>

#include "base/suggest.h"
#include "script/function.h"
#include "script/show.h"

typedef enum setting_kind { SETTING_INT, SETTING_FORMAT } setting_kind;

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
        snprintf(number, sizeof number, "%lld", (long long)get(s, i));
        const char *text =
            settings[i].kind == SETTING_FORMAT ? show_format_name(s->format) : number;
        if (name)
            buf_printf(out, "%s\n", text);
        else
            buf_printf(out, "%-16s %-8s %s\n", settings[i].name, text, settings[i].help);
    }
    return buf_check(out, e);
}
