/* Results of commands, the tables in them, and values as text in each of the output formats. Cells
 * of a table are collected first, so that columns have the width of their widest cell. */
#include "session/result.h"

#include <stdarg.h>
#include <string.h>

#include "array/sparse.h"
#include "base/kv_assert.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "io/csv.h"
#include "io/json.h"
#include "lang/parse.h"
#include "session/containers.h"

/* ---- Tables ---- */

int rows_add(rows *r, value v, kv_err *e)
{
    int rc = mem_grow(&r->cells, &r->cap, r->n + 1, sizeof *r->cells, e);
    if (rc)
        value_release(&v);
    else
        r->cells[r->n++] = v;
    return rc;
}

int rows_add_text(rows *r, const char *text, kv_err *e)
{
    value v = value_none();
    int rc = text ? value_text(&v, text, e) : KV_OK;
    return rc ? rc : rows_add(r, v, e);
}

int rows_add_known(rows *r, bool known, value v, kv_err *e)
{
    return rows_add(r, known ? v : value_none(), e);
}

int rows_add_shape(rows *r, int ndim, const int64_t *shape, kv_err *e)
{
    value v;
    int rc = value_list_new(&v, VALUE_TUPLE, ndim, e);
    for (int i = 0; i < ndim && rc == KV_OK; i++)
        v.u.list->items[i] = value_int(shape[i]);
    return rc ? rc : rows_add(r, v, e);
}

int rows_add_key(rows *r, kv_key key, kv_err *e)
{
    return key.name ? rows_add_text(r, key.name, e) : rows_add(r, value_int(key.id), e);
}

static void cell_text(buf *out, const rows *r, int64_t i)
{
    const value *v = &r->cells[i];
    const char *name = r->columns[i % r->ncolumns].name;
    bool many = v->kind == VALUE_TEXT || (v->kind == VALUE_INT && v->u.integer > 10000000);
    if (many && strcmp(name, "ulps") == 0)
        buf_add(out, ">1e7");
    else if (v->kind == VALUE_TEXT && strcmp(name, "key") == 0)
        show_key(out, (kv_key){0, v->u.text});
    else if (v->kind == VALUE_NONE)
        buf_char(out, '-');
    else if (v->kind != VALUE_FLOAT)
        value_print(out, *v, false);
    else { /* in as many digits as tell a float32, which people can read; files have all */
        char text[NUM_TEXT_MAX];
        bool over = false;
        double x = v->u.number, narrow = num_narrow(x, NUM_BINARY32, &over);
        bool keeps = !over && (narrow != 0 || x == 0);
        buf_put(out, text,
                (size_t)num_repr(text, keeps ? narrow : x, keeps ? NUM_BINARY32 : NUM_BINARY64));
    }
}

/* One cell of a line; no blanks stand behind the last one. */
static void put_cell(buf *out, const char *text, size_t n, int64_t width, bool last)
{
    buf_put(out, text, n);
    if (last)
        buf_char(out, '\n');
    else
        buf_repeat(out, ' ', width - utf8_count(text, n) + 2);
}

int rows_print(buf *out, const rows *r, kv_err *e)
{
    own_mem int64_t *width = mem_zalloc(r->ncolumns, sizeof *width, e);
    own_mem size_t *ends = mem_alloc(r->n, sizeof *ends, e);
    bool heads = r->columns[0].head && r->n > 0;
    own_buf text = {0};
    kv_assert(r->n % r->ncolumns == 0, "%lld cells do not fill rows of %d", (long long)r->n,
              (int)r->ncolumns);
    if (!width || !ends)
        return KV_E_MEMORY;
    for (int c = 0; heads && c < r->ncolumns; c++)
        if (r->columns[c].head)
            width[c] = utf8_count(r->columns[c].head, strlen(r->columns[c].head));
    /* the texts of all cells, one behind the other: cell i ends at ends[i] */
    for (int64_t i = 0; i < r->n; i++) {
        size_t from = text.len;
        int64_t *own = &width[i % r->ncolumns];
        cell_text(&text, r, i);
        ends[i] = text.len;
        int64_t n = utf8_count(buf_text(&text) + from, text.len - from);
        *own = n > *own ? n : *own;
    }
    TRY(buf_check(&text, e));
    for (int c = 0; heads && c < r->ncolumns; c++)
        if (r->columns[c].head)
            put_cell(out, r->columns[c].head, strlen(r->columns[c].head), width[c],
                     c + 1 == r->ncolumns);
    for (int64_t i = 0; i < r->n; i++) {
        size_t from = i ? ends[i - 1] : 0;
        if (heads && !r->columns[i % r->ncolumns].head)
            continue;
        put_cell(out, buf_text(&text) + from, ends[i] - from, width[i % r->ncolumns],
                 (i + 1) % r->ncolumns == 0);
    }
    return buf_check(out, e);
}

void rows_release(rows *r)
{
    for (int64_t i = 0; i < r->n; i++)
        value_release(&r->cells[i]);
    mem_free(r->cells);
    r->cells = NULL;
    r->n = r->cap = 0;
}

static const kv_field *find_field(const kv_field *fields, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

const char *field_text(const kv_field *fields, int n, const char *name)
{
    const kv_field *f = find_field(fields, n, name);
    return f && f->text ? f->text : "";
}

int64_t field_number(const kv_field *fields, int n, const char *name)
{
    const kv_field *f = find_field(fields, n, name);
    return f ? f->number : 0;
}

/* ---- Results ---- */

void result_release(result *r)
{
    value_release(&r->v);
    value_release(&r->sides.left);
    value_release(&r->sides.right);
    value_release(&r->sides.index);
    value_release(&r->sides.max_diff);
    value_release(&r->sides.differences);
    rows_release(&r->entries);
    rows_release(&r->summary);
    for (int64_t i = 0; i < r->nfiles; i++)
        result_release(&r->files[i].given);
    mem_free(r->files);
    mem_free(r->keys);
    arena_release(&r->names);
}

int result_text(result *r, buf *text, int rc, kv_err *e)
{
    r->as_text = true;
    return value_text_take(&r->v, text, rc, e);
}

int result_table(result *r, buf *text, rows *table, int rc, kv_err *e)
{
    if (rc == KV_OK)
        rc = rows_print(text, table, e);
    r->entries = *table;
    *table = (rows){0};
    return result_text(r, text, rc, e);
}

int result_answer(result *r, bool yes, kv_err *e, const char *why, ...)
{
    own_buf text = {0};
    va_list args;
    r->sides.answered = true;
    r->sides.holds = yes;
    if (yes)
        return KV_OK;
    va_start(args, why);
    buf_vprintf(&text, why, args);
    va_end(args);
    TRY(buf_check(&text, e));
    r->refusal = arena_text(&r->names, buf_text(&text), text.len, e);
    return r->refusal ? KV_OK : KV_E_MEMORY;
}

int result_for_keys(result *r, int64_t n, kv_err *e)
{
    if (!(r->keys = mem_alloc(n, sizeof *r->keys, e)))
        return KV_E_MEMORY;
    int rc = value_list_new(&r->v, VALUE_LIST, n, e);
    r->nkeys = rc ? 0 : n;
    return rc;
}

/* ---- Tables as CSV ---- */

static void csv_cell(buf *out, const char *text, char separator, bool last)
{
    char special[] = {separator, '"', '\n', '\r', '\0'};
    bool quoted = strpbrk(text, special) != NULL;
    buf_add(out, quoted ? "\"" : "");
    for (; *text; text++) {
        buf_add(out, *text == '"' ? "\"" : "");
        buf_char(out, *text);
    }
    buf_add(out, quoted ? "\"" : "");
    buf_char(out, last ? '\n' : separator);
}

int rows_csv(buf *out, const rows *r, char separator, kv_err *e)
{
    own_buf text = {0};
    kv_assert(r->n % r->ncolumns == 0, "%lld cells do not fill rows of %d", (long long)r->n,
              (int)r->ncolumns);
    for (int c = 0; c < r->ncolumns; c++)
        csv_cell(out, r->columns[c].name, separator, c + 1 == r->ncolumns);
    for (int64_t i = 0; i < r->n; i++) {
        buf_clear(&text);
        if (r->cells[i].kind != VALUE_NONE)
            value_print(&text, r->cells[i], false);
        csv_cell(out, buf_text(&text), separator, (i + 1) % r->ncolumns == 0);
    }
    int rc = buf_check(&text, e);
    return rc ? rc : buf_check(out, e);
}

/* ---- Values as text ---- */

/* A bare expression and print differ only in `repr`; formats for programs (csv, raw, json) know no
 * such difference and shorten nothing. */

static const char *const format_names[] = {
    [SHOW_NUMPY] = "numpy", [SHOW_REPR] = "repr", [SHOW_LEGACY] = "legacy", [SHOW_MXNET] = "mxnet",
    [SHOW_CSV] = "csv",     [SHOW_RAW] = "raw",   [SHOW_JSON] = "json",
};

#define NFORMATS ((int)(sizeof format_names / sizeof *format_names))

const char *show_format_name(show_format f)
{
    return format_names[f];
}

int show_format_parse(show_format *out, const char *name, kv_err *e)
{
    int i = NAME_AMONG(name, format_names);
    if (i >= 0) {
        *out = (show_format)i;
        return KV_OK;
    }
    kv_err_set(e, KV_E_USAGE, "there is no format `%s`", name);
    suggest_hint(e, name, format_names, NFORMATS);
    return kv_err_hint(e, "formats: numpy, repr, legacy, mxnet, csv, raw, json");
}

/* The numbers of an array as csv writes them, without its first line, blanks for commas. */
static int show_raw(buf *out, kv_array *a, kv_err *e)
{
    own_buf csv = {0};
    int rc = csv_write_array(&csv, a, e);
    const char *text = buf_text(&csv);
    if (*text == '#')
        text = strchr(text, '\n') ? strchr(text, '\n') + 1 : "";
    size_t from = out->len;
    buf_add(out, text);
    for (size_t i = from; i < out->len; i++)
        if (out->data[i] == ',')
            out->data[i] = ' ';
    return rc;
}

static int show_array(session *s, buf *out, kv_array *a, bool repr, kv_err *e)
{
    /* as print shows it, and as a bare expression does */
    static const print_format formats[][2] = {[SHOW_NUMPY] = {PRINT_NUMPY, PRINT_REPR},
                                              [SHOW_REPR] = {PRINT_REPR, PRINT_REPR},
                                              [SHOW_LEGACY] = {PRINT_LEGACY, PRINT_LEGACY_REPR},
                                              [SHOW_MXNET] = {PRINT_MXNET, PRINT_MXNET_REPR}};
    print_style style = s->out.style;
    style.may_stop = true;
    size_t from = out->len;
    enum { SLICE_MS = 50 }; /* at a prompt Ctrl-C ends the wait for the array */
    for (bool there = !s->prompted; !there;) {
        TRY(kv_array_await(a, SLICE_MS, &there, e));
        TRY(there ? KV_OK : stop_check(e));
    }
    /* people see its summary; formats for programs have no form for it */
    if (kv_array_storage(a) == KV_ROW_SPARSE && s->out.format <= SHOW_MXNET) {
        array_box box;
        bool ours = s->out.format == SHOW_NUMPY || s->out.format == SHOW_REPR;
        value_print(out, value_borrowed(&box, a), repr && ours);
        return KV_OK;
    }
    if (s->out.format <= SHOW_MXNET) {
        style.format = formats[s->out.format][repr];
        return print_array(out, a, &style, e);
    }
    if (s->out.format == SHOW_JSON)
        return json_write(out, a, e);
    int rc = s->out.format == SHOW_CSV ? csv_write_array(out, a, e) : show_raw(out, a, e);
    while (out->len > from && out->data[out->len - 1] == '\n')
        out->data[--out->len] = '\0';
    return rc;
}

void show_scalar_json(json_writer *w, const char *name, value v)
{
    buf text = {0};
    if (v.kind == VALUE_BOOL) {
        json_bool(w, name, v.u.integer);
    } else if (v.kind == VALUE_INT) {
        json_int(w, name, v.u.integer);
    } else if (v.kind == VALUE_FLOAT) {
        json_float(w, name, v.u.number);
    } else if (v.kind == VALUE_TEXT || v.kind == VALUE_NONE) {
        json_text(w, name, v.kind == VALUE_TEXT ? v.u.text : NULL);
    } else if (v.kind == VALUE_CTX || v.kind == VALUE_OBJECT) {
        value_print(&text, v, true);
        json_text(w, name, buf_text(&text));
        buf_release(&text);
    }
}

int show_dict_json(json_writer *w, const char *name, value dict, show_json_part part, kv_err *e)
{
    const value_list *l = dict.u.list;
    int rc = KV_OK;
    dict_settle(dict);
    json_begin(w, name, '{');
    for (int64_t i = 0; i < l->n && rc == KV_OK && !(rc = stop_check_at(i, e)); i += 2) {
        own_buf key = {0};
        value_print(&key, l->items[i], false);
        if ((rc = buf_check(&key, e)) == KV_OK)
            rc = part(w, buf_text(&key), l->items[i + 1], e);
    }
    json_end(w, '}');
    return rc;
}

/* Any value as JSON; arrays inside as files write them, those of shape () as numbers. */
static int show_json(json_writer *w, const char *name, value v, kv_err *e)
{
    TRY(value_descend(e));
    if (v.kind == VALUE_ARRAY)
        return kv_array_ndim(v.u.box->array) == 0
                   ? json_write_data(json_field(w, name), v.u.box->array, e)
                   : json_write(json_field(w, name), v.u.box->array, e);
    if (v.kind == VALUE_DICT)
        return show_dict_json(w, name, v, show_json, e);
    if (!value_is_sequence(v)) {
        show_scalar_json(w, name, v);
        return KV_OK;
    }
    json_begin(w, name, '[');
    int rc = KV_OK;
    for (int64_t i = 0; i < v.u.list->n && rc == KV_OK; i++)
        if ((rc = stop_check_at(i, e)) == KV_OK)
            rc = show_json(w, NULL, v.u.list->items[i], e);
    json_end(w, ']');
    return rc;
}

int rows_json_row(json_writer *w, const rows *r, int64_t row, kv_err *e)
{
    for (int i = 0; i < r->ncolumns; i++)
        TRY(show_json(w, r->columns[i].name, r->cells[row * r->ncolumns + i], e));
    return KV_OK;
}

int rows_json(json_writer *w, const char *name, const rows *r, kv_err *e)
{
    json_begin(w, name, '[');
    for (int64_t i = 0; i * r->ncolumns < r->n; i++) {
        json_begin(w, NULL, '{');
        TRY(rows_json_row(w, r, i, e));
        json_end(w, '}');
    }
    json_end(w, ']');
    return KV_OK;
}

int show_value(session *s, buf *out, value v, bool repr, kv_err *e)
{
    json_writer w = {.out = out};
    int rc = KV_OK;
    if (v.kind == VALUE_ARRAY) {
        rc = show_array(s, out, v.u.box->array, repr, e);
    } else if (s->out.format == SHOW_JSON) {
        rc = show_json(&w, NULL, v, e);
    } else { /* arrays inside it look as in a bare expression, in the legacy style as a summary */
        print_style style = s->out.style;
        style.may_stop = true;
        style.format = s->out.format == SHOW_MXNET ? PRINT_MXNET_REPR : PRINT_REPR;
        rc = value_print_arrays(out, v, repr, s->out.format == SHOW_LEGACY ? NULL : &style, e);
    }
    if (rc == KV_OK && value_is_sequence(v))
        rc = stop_check(e);
    return rc ? rc : buf_check(out, e);
}

static bool is_plain_key(const char *name)
{
    static const char
        plain[256] =
            {
                ['0' ... '9'] = 1,  ['a' ... 'z'] = 2, ['A' ... 'Z'] = 2, ['_'] = 2,
                ['.'] = 1,          ['/'] = 1,         [':'] = 1,         ['-'] = 1,
                [0x80 ... 0xFF] = 3}; /* 2: it may come first; 3: not ASCII, so it may be hidden */
    const unsigned char *at = (const unsigned char *)name;
    bool ascii = true;
    if (plain[*at] < 2 && !parse_is_digit_key(name, strlen(name)))
        return false;
    for (; plain[*at]; at++)
        ascii = ascii && *at < 0x80;
    return !*at && at[-1] != '-' && (ascii || visible_is_plain(name, strlen(name)));
}

void show_quoted(buf *out, const char *name, char quote)
{
    size_t n = strlen(name);
    for (size_t i = 0, size; i < n; i += size) {
        char escape[VISIBLE_MAX];
        bool hidden = visible_escape(escape, name + i, n - i, &size);
        if (name[i] == quote || name[i] == '\\')
            buf_char(out, '\\');
        if (hidden)
            buf_add(out, escape);
        else
            buf_put(out, name + i, size);
    }
}

void show_key(buf *out, kv_key key)
{
    if (!key.name)
        buf_printf(out, "%lld", (long long)key.id);
    else if (is_plain_key(key.name))
        buf_add(out, key.name);
    else {
        buf_char(out, '"');
        show_quoted(out, key.name, '"');
        buf_char(out, '"');
    }
}

void show_index(buf *out, const kv_array *a, int64_t i)
{
    int64_t at[KV_MAX_NDIM];
    int ndim = kv_array_ndim(a);
    for (int k = ndim - 1; k >= 0; k--) {
        int64_t size = kv_array_shape(a)[k] > 0 ? kv_array_shape(a)[k] : 1;
        at[k] = i % size;
        i /= size;
    }
    buf_char(out, '[');
    for (int k = 0; k < ndim; k++)
        buf_printf(out, k > 0 ? ", %lld" : "%lld", (long long)at[k]);
    buf_char(out, ']');
}

/* {"5": …, "7": …} */
static int show_keyed_json(buf *out, const result *r, kv_err *e)
{
    json_writer w = {.out = out};
    int rc = KV_OK;
    json_begin(&w, NULL, '{');
    for (int64_t i = 0; i < r->nkeys && rc == KV_OK; i++) {
        char number[NUM_TEXT_MAX];
        num_int(number, r->keys[i].id);
        rc = show_json(&w, r->keys[i].name ? r->keys[i].name : number, r->v.u.list->items[i], e);
    }
    json_end(&w, '}');
    buf_char(out, '\n');
    return rc;
}

/* "rows [ 3 17]:" and these rows, as a text. */
static int rows_text(session *s, value *out, kv_array *a, kv_err *e)
{
    kv_array *part[2];
    buf text = {0};
    TRY(sparse_parts(&part[0], &part[1], a, e));
    int rc = KV_OK;
    for (int i = 0; i < 2; i++) {
        own_value v = value_none();
        buf_add(&text, i ? ":\n" : "rows ");
        int made = value_array(&v, part[i], e);
        rc = rc ? rc : made ? made : show_value(s, &text, v, false, e);
    }
    return value_text_take(out, &text, rc, e);
}

/* v as a default array; other values stay as they are. Of one that would be shortened only the rows
 * that it holds, which could all be among those left out. */
static int to_dense(session *s, value *out, value v, kv_err *e)
{
    kv_array *a;
    *out = value_none();
    if (v.kind != VALUE_ARRAY) {
        *out = value_ref(v);
        return KV_OK;
    }
    if (s->out.format < SHOW_CSV && kv_array_nrows(v.u.box->array) > 0 &&
        kv_array_size(v.u.box->array) > s->out.style.threshold)
        return rows_text(s, out, v.u.box->array, e);
    TRY(kv_array_to_dense(&a, v.u.box->array, e));
    return value_array(out, a, e);
}

/* r with the zeros of its arrays. */
static int show_dense(session *s, buf *out, const result *r, kv_err *e)
{
    result all = *r;
    own_value dense = value_none();
    TRY(r->keys ? value_list_new(&dense, VALUE_LIST, r->nkeys, e) : to_dense(s, &dense, r->v, e));
    for (int64_t i = 0; r->keys && i < r->nkeys; i++)
        TRY(to_dense(s, &dense.u.list->items[i], r->v.u.list->items[i], e));
    all.v = dense;
    all.dense = false;
    return show_result(s, out, &all, e);
}

int show_result(session *s, buf *out, const result *r, kv_err *e)
{
    int rc = KV_OK;
    if (r->v.kind == VALUE_NONE)
        return KV_OK;
    if (r->dense)
        return show_dense(s, out, r, e);
    if (r->as_text && r->entries.columns && s->out.format == SHOW_CSV) {
        rc = rows_csv(out, &r->entries, ',', e);
    } else if (r->as_text && r->entries.columns && s->out.format == SHOW_JSON) {
        json_writer w = {.out = out};
        rc = rows_json(&w, NULL, &r->entries, e);
        buf_char(out, '\n');
    } else if (r->as_text) {
        buf_add(out, r->v.u.text);
    } else if (r->keys && s->out.format == SHOW_JSON) {
        rc = show_keyed_json(out, r, e);
    } else if (r->keys) {
        for (int64_t i = 0; i < r->nkeys && rc == KV_OK; i++) {
            show_key(out, r->keys[i]);
            buf_add(out, ":\n");
            rc = show_value(s, out, r->v.u.list->items[i], false, e);
            buf_char(out, '\n');
        }
    } else {
        rc = show_value(s, out, r->v, false, e);
        buf_char(out, '\n');
    }
    return rc ? rc : buf_check(out, e);
}
