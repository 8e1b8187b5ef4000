/* Texts and their numbers, and numbers in another notation. */
#include "io/csv_cell.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "io/scalar.h"

/* The number of a text; a new one is the next. */
static int number_of(csv_labels *l, const char *text, size_t n, int64_t *out, kv_err *e)
{
    const char *own = arena_text(&l->memory, text, n, e);
    if (!own)
        return KV_E_MEMORY;
    if ((*out = map_get(&l->numbers, (kv_key){.name = own})) >= 0)
        return KV_OK;
    if (l->fixed)
        return kv_err_set(e, KV_E_FORMAT, "\"%.*s\" is none of the texts given for its column",
                          (int)utf8_cut(text, n, 80), text);
    TRY(mem_grow(&l->texts, &l->cap, l->n + 1, sizeof *l->texts, e));
    TRY(map_put(&l->numbers, (kv_key){.name = own}, l->n, e));
    l->texts[l->n] = own;
    *out = l->n++;
    return KV_OK;
}

int csv_labels_add(csv_labels *l, const char *text, size_t n, kv_err *e)
{
    int64_t number = -1;
    TRY(mem_grow(&l->rows, &l->rows_cap, l->nrows + 1, sizeof *l->rows, e));
    if (text && !utf8_valid(text, n))
        return kv_err_set(e, KV_E_FORMAT, "the text is not UTF-8");
    TRY(text ? number_of(l, text, n, &number, e) : KV_OK);
    l->rows[l->nrows++] = number;
    return KV_OK;
}

int csv_labels_give(csv_labels *l, const char *const *texts, int64_t n, kv_err *e)
{
    int64_t number;
    int rc = KV_OK;
    for (int64_t i = 0; i < n && !rc; i++)
        if (!(rc = number_of(l, texts[i], strlen(texts[i]), &number, e)) && number < i)
            rc = kv_err_set(e, KV_E_VALUE, "the text \"%.80s\" stands twice", texts[i]);
    l->fixed = true;
    return rc;
}

typedef struct label {
    const char *text;
    int64_t number;
} label;

static int compare(const void *a, const void *b)
{
    return strcmp(((const label *)a)->text, ((const label *)b)->text);
}

/* Sorts the texts by their bytes and numbers them anew, unless they were given. */
static int sort_texts(csv_labels *l, kv_err *e)
{
    if (l->fixed || l->n == 0)
        return KV_OK;
    own_mem label *all = mem_alloc(l->n, sizeof *all, e);
    own_mem int64_t *to = mem_alloc(l->n, sizeof *to, e);
    if (!all || !to)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < l->n; i++)
        all[i] = (label){l->texts[i], i};
    qsort(all, (size_t)l->n, sizeof *all, compare);
    for (int64_t i = 0; i < l->n; i++) {
        l->texts[i] = all[i].text;
        to[all[i].number] = i;
    }
    for (int64_t i = 0; i < l->nrows; i++)
        l->rows[i] = l->rows[i] < 0 ? -1 : to[l->rows[i]];
    return KV_OK;
}

/* Element `at` of a row whose text has this number; the first of several of a onehot column. */
static int put_text(const csv_labels *l, int64_t number, kv_dtype dtype, double filler, void *to,
                    int64_t at, const char *name, kv_err *e)
{
    for (int64_t k = 0; k < csv_labels_width(l); k++) {
        double x = number < 0 ? filler : l->kind == CSV_CODES ? (double)number : number == k;
        if (scalar_set(dtype, to, at + k, x) != SCALAR_FITS)
            return kv_err_set(e, KV_E_FORMAT, "%s: the code %g of a text does not fit %s", name, x,
                              kv_dtype_name(dtype));
    }
    return KV_OK;
}

int csv_labels_spread(csv_labels *l, int64_t n, int64_t rows, kv_dtype dtype, double filler,
                      char **data, int64_t *width, const char *name, kv_err *e)
{
    const int64_t one = kv_dtype_bytes(dtype);
    char *made = NULL;
    int64_t cap = 0, at = 0;
    int rc = KV_OK;
    *width = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        rc = sort_texts(&l[i], e);
        *width += csv_labels_width(&l[i]);
    }
    if (!rc && scalar_bytes(dtype, 2, (int64_t[]){rows, *width}) < 0)
        rc = kv_err_set(e, KV_E_MEMORY, "%s: its texts make too many columns", name);
    rc = rc ? rc : mem_grow(&made, &cap, rows * *width + 1, (size_t)one, e);
    for (int64_t row = 0; row < rows && !rc; row++) {
        rc = stop_check_at(row, e);
        for (int64_t i = 0; i < n && !rc; at += csv_labels_width(&l[i++]))
            if (l[i].kind == CSV_NUMBERS)
                memcpy(made + at * one, *data + (row * n + i) * one, (size_t)one);
            else
                rc = put_text(&l[i], l[i].rows[row], dtype, filler, made, at, name, e);
    }
    mem_free(*data);
    *data = made;
    return rc;
}

void csv_labels_release(csv_labels *l)
{
    mem_free(l->texts);
    mem_free(l->rows);
    map_release(&l->numbers);
    arena_release(&l->memory);
}

/* ---- Notations ------------------------------------------------------------------------------- */

/* Takes a percent sign off the end of a number, with the blank before it, which may be one that
 * breaks no line (U+00A0, U+202F). */
static bool cut_percent(const char *cell, size_t *n)
{
    static const char *const blanks[] = {" ", "\xc2\xa0", "\xe2\x80\xaf"};
    if (*n < 2 || cell[*n - 1] != '%' || memchr(cell, 'e', *n) || memchr(cell, 'E', *n))
        return false;
    --*n;
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        size_t size = strlen(blanks[i]);
        if (*n > size && memcmp(cell + *n - size, blanks[i], size) == 0) {
            *n -= size;
            break;
        }
    }
    return true;
}

bool csv_plain_number(buf *out, char decimal, char thousands, bool percent, const char *cell,
                      size_t n)
{
    bool whole = true, marked = false; /* digits before the fraction; a mark came */
    int digits = 0;                    /* since the last mark */
    percent = percent && cut_percent(cell, &n);
    buf_clear(out);
    for (size_t i = 0; i < n; i++) {
        char c = cell[i];
        bool digit = c >= '0' && c <= '9', is_mark = whole && thousands && c == thousands;
        bool sign = i == 0 && (c == '+' || c == '-');
        if ((is_mark || (whole && !digit && !sign)) && marked && digits != 3)
            return false;
        if (is_mark && (digits == 0 || digits > 3))
            return false;
        marked |= is_mark;
        digits = is_mark ? 0 : digits + digit;
        whole = whole && (digit || sign || is_mark);
        if (decimal != '.' && c == '.' && !is_mark)
            return false;
        if (!is_mark)
            buf_char(out, c == decimal ? '.' : c);
    }
    buf_add(out, percent ? "e-2" : "");
    return n > 0 && !(whole && marked && digits != 3) && !out->failed;
}

const char *csv_notation(buf *room, const csv_options *o, const char *cell, size_t n)
{
    static const struct {
        char decimal, thousands;
        bool percent;
        const char *options;
    } all[] = {{',', '\0', false, "decimal=\",\""},
               {'.', ',', false, "thousands=\",\""},
               {',', '\0', true, "decimal=\",\", percent=true"},
               {'.', ',', true, "thousands=\",\", percent=true"},
               {',', '.', false, "decimal=\",\", thousands=\".\""},
               {',', '.', true, "decimal=\",\", thousands=\".\", percent=true"},
               {'.', '\0', true, "percent=true"}};
    double unused;
    bool comma = memchr(cell, ',', n) != NULL, percent = n > 0 && cell[n - 1] == '%';
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        /* Where commas part cells, who writes "1,234" in quotes rather marks thousands. */
        size_t i = o->separator == ',' && k < 4 ? k ^ 1 : k;
        bool clash = (o->thousands && o->thousands == all[i].decimal) ||
                     (o->decimal && o->decimal == all[i].thousands);
        if (!clash && all[i].percent == percent &&
            comma == (all[i].decimal == ',' || all[i].thousands) &&
            csv_plain_number(room, all[i].decimal, all[i].thousands, percent, cell, n) &&
            num_parse(buf_text(room), room->len, NUM_BINARY64, &unused, NULL) == room->len)
            return all[i].options;
    }
    return NULL;
}

/* ---- Hints ----------------------------------------------------------------------------------- */

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

bool csv_has_comma_points(const char *text, size_t n)
{
    bool found = false;
    for (int line = 0; line < 2 && !found; line++) {
        bool parted = false, comma = false;
        size_t i = 0;
        for (; i < n && text[i] != '\n'; i++) {
            parted |= text[i] == ';';
            comma |= text[i] == ',' && i > 0 && i + 1 < n && isdigit((unsigned char)text[i - 1]) &&
                     isdigit((unsigned char)text[i + 1]);
        }
        found = parted && comma;
        i += i < n;
        text += i;
        n -= i;
    }
    return found;
}

void csv_hint_load(const csv_options *given, const char *path, kv_err *e, const char *more,
                   const char *behind)
{
    static const csv_options none = {0};
    const csv_options *o = given ? given : &none;
    own_buf b = {0};
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
    if (o->fills && begin_option(&b, more, "missing=")) {
        char number[NUM_TEXT_MAX];
        scalar_text(number, KV_FLOAT64, &o->filler, 0);
        if (!o->missing)
            buf_add(&b, number);
        for (int64_t i = 0; o->missing && i < o->nmissing; i++)
            buf_printf(&b, "%s\"%s\"", i ? ", " : "[", o->missing[i]);
        buf_add(&b, o->missing ? o->nmissing ? "]" : "[]" : "");
    }
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
}
