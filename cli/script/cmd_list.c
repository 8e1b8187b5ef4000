/* Tables: keys, variables. */
#include <fnmatch.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "script/commands.h"
#include "script/eval.h"
#include "script/show.h"
#include "script/unit.h"

static int give_text(result *out, const buf *text, kv_err *e)
{
    int code = buf_check(text, e);
    out->as_text = true;
    return code ? code : value_text_new(&out->v, buf_text(text), text->len, e);
}

/* ---- Tables: cells are collected first, so that columns are as wide as their widest cell ---- */

#define TABLE_MAX_COLUMNS 8

typedef struct table {
    buf cells;         /* every cell with a NUL behind it */
    int columns;
    int64_t n;         /* cells so far */
    size_t width[TABLE_MAX_COLUMNS];
} table;

/* The columns that a text takes: characters, not bytes. */
static size_t text_width(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void table_add(table *t, const char *text)
{
    size_t *width = &t->width[t->n % t->columns], n = text_width(text);
    if (n > *width)
        *width = n;
    buf_put(&t->cells, text, strlen(text) + 1);
    t->n++;
}

static void table_add_int(table *t, int64_t x)
{
    char number[NUM_TEXT_MAX];
    num_int(number, x);
    table_add(t, number);
}

static void table_print(table *t, buf *out)
{
    const char *cell = t->cells.data;
    for (int64_t i = 0; i < t->n; i++, cell += strlen(cell) + 1) {
        bool last = (i + 1) % t->columns == 0;
        buf_add(out, cell);
        if (!last)
            buf_repeat(out, ' ', (int64_t)(t->width[i % t->columns] - text_width(cell)) + 2);
        else
            buf_char(out, '\n');
    }
    if (t->cells.failed)
        out->failed = true;
    buf_release(&t->cells);
}

/* ---- list, info ---- */

int cmd_list(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    value glob = value_none();
    buf text = {0};
    int code = session_store(s, &store, e);
    if (code == KV_OK && call->kid[0])
        code = eval_text(s, call->kid[0], "a pattern", &glob, e);
    for (int64_t i = 0; code == KV_OK && i < kv_num_keys(store); i++) {
        kv_info info;
        char number[NUM_TEXT_MAX];
        if ((code = kv_info_at(store, i, &info, e)))
            break;
        num_int(number, info.key.id);
        const char *name = info.key.name ? info.key.name : number;
        if (glob.kind == VALUE_TEXT && fnmatch(glob.u.text->text, name, 0) != 0)
            continue;
        show_key(&text, info.key);
        buf_char(&text, '\n');
    }
    if (code == KV_OK)
        code = give_text(out, &text, e);
    value_release(&glob);
    buf_release(&text);
    return code;
}

static void info_row(table *t, const kv_info *info)
{
    char shape[256], ctx[KV_CTX_TEXT];
    buf key = {0};
    show_key(&key, info->key);
    table_add(t, buf_text(&key));
    buf_release(&key);
    table_add(t, kv_dtype_name(info->dtype));
    table_add(t, kv_shape_text(shape, sizeof shape, info->ndim, info->shape));
    table_add(t, kv_ctx_text(ctx, info->ctx));
    table_add(t, "default");
    table_add_int(t, info->bytes);
    table_add_int(t, info->pushes);
    table_add_int(t, info->pending);
}

static int store_field(void *arg, const kv_field *fields, int n, kv_err *e)
{
    buf *text = arg;
    (void)e;
    for (int i = 0; i < n; i++) {
        buf_printf(text, i > 0 ? ", %s " : "%s ", fields[i].name);
        if (fields[i].text)
            buf_add(text, fields[i].text);
        else
            buf_printf(text, "%lld", (long long)fields[i].number);
    }
    buf_char(text, '\n');
    return KV_OK;
}

int cmd_info(session *s, const ast *call, result *out, kv_err *e)
{
    static const char *const heads[] = {"key",     "dtype", "shape",  "context",
                                        "storage", "bytes", "pushes", "pending"};
    kv *store;
    key_list keys = {0};
    buf text = {0};
    table t = {.columns = 8};
    int code = session_store(s, &store, e);
    if (code)
        return code;
    for (int i = 0; i < 8; i++)
        table_add(&t, heads[i]);
    if (call->kid[0])
        code = eval_keys(s, call->kid[0], &keys, e);
    else
        code = kv_describe(store, "store", store_field, &text, e);
    int64_t n = call->kid[0] ? keys.n : kv_num_keys(store);
    for (int64_t i = 0; i < n && code == KV_OK; i++) {
        kv_info info;
        code = call->kid[0] ? kv_find(store, &keys.keys[i], &info, e)
                            : kv_info_at(store, i, &info, e);
        if (code == KV_OK)
            info_row(&t, &info);
    }
    if (code && call->kid[0])
        unit_at(s, call->kid[0], e);
    if (n > 0)
        table_print(&t, &text);
    if (code == KV_OK)
        code = give_text(out, &text, e);
    buf_release(&t.cells);
    buf_release(&text);
    key_list_release(&keys);
    return code;
}

/* ---- vars ---- */

/* What a variable holds, on one line: big arrays by their shape. */
static void variable_summary(buf *out, value v)
{
    char shape[256], ctx[KV_CTX_TEXT];
    if (v.kind == VALUE_ARRAY) {
        kv_array *a = v.u.array;
        buf_printf(out, "array %s %s %s",
                   kv_shape_text(shape, sizeof shape, kv_array_ndim(a), kv_array_shape(a)),
                   kv_dtype_name(kv_array_dtype(a)), kv_ctx_text(ctx, kv_array_ctx(a)));
    } else if (value_is_sequence(v) && v.u.list->n > 10) {
        buf_printf(out, "%s of %lld items", v.kind == VALUE_LIST ? "list" : "tuple",
                   (long long)v.u.list->n);
    } else {
        value_print(out, v, true);
    }
}

int cmd_vars(session *s, const ast *call, result *out, kv_err *e)
{
    table t = {.columns = 2};
    buf text = {0};
    (void)call;
    for (int64_t i = 0; i < s->globals.n; i++) {
        buf held = {0};
        variable_summary(&held, s->globals.items[i].v);
        table_add(&t, s->globals.items[i].name);
        table_add(&t, buf_text(&held));
        buf_release(&held);
    }
    if (t.n > 0)
        table_print(&t, &text);
    int code = give_text(out, &text, e);
    buf_release(&text);
    return code;
}
