/* Hints at load(). */
#include "io/csv_hint.h"

#include <string.h>

#include "base/num.h"
#include "io/scalar.h"

void csv_hint_column(buf *b, const char *name, size_t n, int64_t number)
{
    buf_add(b, b->len == 0 || b->data[b->len - 1] == '[' ? "" : ", ");
    if (name)
        buf_printf(b, "\"%.*s\"", n < 40 ? (int)n : 40, name);
    else
        buf_printf(b, "%lld", (long long)number);
}

void csv_hint_text_columns(buf *b, const csv_options *o, bool onehot)
{
    for (int64_t i = 0; i < o->ntexts; i++) {
        const csv_column *c = &o->texts[i].column;
        if (o->texts[i].onehot == onehot)
            csv_hint_column(b, c->name, c->name ? strlen(c->name) : 0, c->number);
    }
}

/* Begins an option that was given, unless `more` sets it. Returns true if it did. */
static bool begin_option(buf *b, const char *more, const char *option)
{
    if (strncmp(more, option, strlen(option)) == 0)
        return false;
    buf_printf(b, ", %s", option);
    return true;
}

static void add_sign(buf *b, const char *more, const char *option, char sign)
{
    if (sign && begin_option(b, more, option))
        buf_printf(b, sign == '\t' ? "\"\\t\"" : "\"%c\"", sign);
}

static void add_missing(buf *b, const csv_options *o)
{
    char number[NUM_TEXT_MAX];
    scalar_text(number, KV_FLOAT64, &o->filler, 0);
    if (!o->missing)
        buf_add(b, number);
    for (int64_t i = 0; o->missing && i < o->nmissing; i++)
        buf_printf(b, "%s\"%s\"", i ? ", " : "[", o->missing[i]);
    buf_add(b, o->missing ? o->nmissing ? "]" : "[]" : "");
}

void csv_hint_load(const csv_options *given, const char *path, kv_err *e, const char *more,
                   const char *behind)
{
    static const csv_options none = {0};
    const csv_options *o = given ? given : &none;
    buf b = {0};
    if (o->format)
        buf_printf(&b, ", format=\"%s\"", o->format);
    if ((o->has_dtype || o->strings) && begin_option(&b, more, "dtype="))
        buf_printf(&b, "\"%s\"", o->strings ? "str" : kv_dtype_name(o->dtype));
    if (o->columns && begin_option(&b, more, "cols=")) {
        buf_add(&b, "[");
        for (int64_t i = 0; i < o->ncolumns; i++)
            csv_hint_column(&b, o->columns[i].name,
                       o->columns[i].name ? strlen(o->columns[i].name) : 0, o->columns[i].number);
        buf_add(&b, "]");
    }
    if (o->header && begin_option(&b, more, "header="))
        buf_add(&b, o->header > 0 ? "true" : "false");
    if (o->separator != '\t' || !strstr(path, ".tsv"))
        add_sign(&b, more, "sep=", o->separator);
    if (o->fills && begin_option(&b, more, "missing="))
        add_missing(&b, o);
    for (int onehot = 0; onehot < 2; onehot++) {
        buf list = {0};
        csv_hint_text_columns(&list, o, onehot);
        bool any = list.len > 0, every = o->every == (onehot ? CSV_ONEHOT : CSV_CODES);
        if ((any || every) && begin_option(&b, more, onehot ? "onehot=" : "cats="))
            buf_printf(&b, any ? "[%s]" : "true", buf_text(&list));
        buf_release(&list);
    }
    add_sign(&b, more, "decimal=", o->decimal);
    add_sign(&b, more, "thousands=", o->thousands);
    buf_add(&b, o->percent && !strstr(more, "percent=") ? ", percent=true" : "");
    add_sign(&b, more, "comment=", o->comment);
    kv_err_hint(e, "load(\"%s\"%s, %s)%s", path, buf_text(&b), more, behind);
    buf_release(&b);
}
