/* Results of commands, and the tables in them. Cells are collected first, so that columns have the
 * width of their widest cell. */
#include "session/result.h"

#include <stdarg.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

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
    int64_t *width = mem_zalloc(r->ncolumns, sizeof *width, e);
    size_t *ends = mem_alloc(r->n, sizeof *ends, e);
    bool heads = r->columns[0].head && r->n > 0;
    buf text = {0};
    int rc = width && ends ? KV_OK : KV_E_MEMORY;
    kv_assert(r->n % r->ncolumns == 0, "%lld cells do not fill rows of %d", (long long)r->n,
              (int)r->ncolumns);
    for (int c = 0; heads && !rc && c < r->ncolumns; c++)
        if (r->columns[c].head)
            width[c] = utf8_count(r->columns[c].head, strlen(r->columns[c].head));
    /* the texts of all cells, one behind the other: cell i ends at ends[i] */
    for (int64_t i = 0; i < r->n && !rc; i++) {
        size_t from = text.len;
        int64_t *own = &width[i % r->ncolumns];
        cell_text(&text, r, i);
        ends[i] = text.len;
        int64_t n = utf8_count(buf_text(&text) + from, text.len - from);
        *own = n > *own ? n : *own;
    }
    rc = rc ? rc : buf_check(&text, e);
    for (int c = 0; heads && !rc && c < r->ncolumns; c++)
        if (r->columns[c].head)
            put_cell(out, r->columns[c].head, strlen(r->columns[c].head), width[c],
                     c + 1 == r->ncolumns);
    for (int64_t i = 0; i < r->n && !rc; i++) {
        size_t from = i ? ends[i - 1] : 0;
        if (heads && !r->columns[i % r->ncolumns].head)
            continue;
        put_cell(out, buf_text(&text) + from, ends[i] - from, width[i % r->ncolumns],
                 (i + 1) % r->ncolumns == 0);
    }
    mem_free(width);
    mem_free(ends);
    buf_release(&text);
    return rc ? rc : buf_check(out, e);
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
    buf text = {0};
    va_list args;
    r->sides.answered = true;
    r->sides.holds = yes;
    if (yes)
        return KV_OK;
    va_start(args, why);
    buf_vprintf(&text, why, args);
    va_end(args);
    if (buf_check(&text, e) == KV_OK)
        r->refusal = arena_text(&r->names, buf_text(&text), text.len, e);
    buf_release(&text);
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
