/* Tables: keys, variables. */
#include <string.h>

#include "base/mem.h"
#include "cmd/commands.h"
#include "cmd/metrics.h"
#include "eval/eval.h"
#include "session/show.h"
#include "session/unit.h"

/* ---- list, info ---- */

int cmd_list(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column columns[] = {{"key", NULL}};
    kv *store;
    buf text = {0};
    rows table = {columns, 1, NULL, 0, 0};
    const char *glob = NULL;
    key_list keys = {0};
    if (session_store(s, &store, e) ||
        (call->kid[0] && !(glob = eval_word(s, call->kid[0], "a pattern", out, e))))
        return e->code;
    int code = eval_matching(store, glob, &keys, e);
    for (int64_t i = 0; code == KV_OK && i < keys.n; i++)
        code = rows_add_key(&table, keys.keys[i], e);
    key_list_release(&keys);
    return result_table(out, &text, &table, code, e);
}

static int add_info(rows *table, const kv_info *info, kv_err *e)
{
    int code;
    if ((code = rows_add_key(table, info->key, e)) ||
        (code = rows_add_text(table, kv_dtype_name(info->dtype), e)) ||
        (code = rows_add_shape(table, info->ndim, info->shape, e)) ||
        (code = rows_add(table, value_ctx(info->ctx), e)) ||
        (code = rows_add_text(table, kv_storage_name(info->storage), e)) ||
        (code = rows_add(table, value_int(info->bytes), e)) ||
        (code = rows_add(table, value_int(info->pushes), e)))
        return code;
    return rows_add(table, value_int(info->pending), e);
}

/* Receives the description of the store, as rows of a name and a value. */
static int add_field(void *arg, const kv_field *fields, int n, kv_err *e)
{
    rows *summary = arg;
    int code = KV_OK;
    for (int i = 0; i < n && code == KV_OK; i++) {
        code = rows_add_text(summary, fields[i].name, e);
        if (code == KV_OK)
            code = fields[i].text ? rows_add_text(summary, fields[i].text, e)
                                  : rows_add(summary, value_int(fields[i].number), e);
    }
    return code;
}

/* "type local, rank 0, …" */
static void summary_line(buf *text, const rows *summary)
{
    for (int64_t i = 0; i < summary->n; i++) {
        buf_add(text, i == 0 ? "" : i % 2 ? " " : ", ");
        value_print(text, summary->cells[i], false);
    }
    buf_char(text, '\n');
}

/* The rows of some keys, or of all. */
static int add_infos(kv *store, rows *table, const key_list *keys, kv_err *e)
{
    static const rows_column columns[] = {
        {"key", "key"},       {"dtype", "dtype"}, {"shape", "shape"},   {"ctx", "context"},
        {"stype", "storage"}, {"bytes", "bytes"}, {"pushes", "pushes"}, {"pending", "pending"}};
    int64_t n = keys ? keys->n : kv_num_keys(store);
    int code = KV_OK;
    *table = (rows){columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    for (int64_t i = 0; i < n && code == KV_OK; i++) {
        kv_info info;
        code = keys ? kv_find(store, &keys->keys[i], &info, e) : kv_info_at(store, i, &info, e);
        if (code == KV_OK)
            code = add_info(table, &info, e);
    }
    return code;
}

/* Receives a row of the topic "cluster". */
static int add_rank(void *arg, const kv_field *f, int n, kv_err *e)
{
    rows *table = arg;
    int code = KV_OK;
    for (int i = 0; i < n && code == KV_OK; i++) {
        bool none = f[i].text ? !*f[i].text : f[i].number < 0;
        code = none          ? rows_add(table, value_none(), e)
               : f[i].text ? rows_add_text(table, f[i].text, e)
                           : rows_add(table, value_int(f[i].number), e);
    }
    return code;
}

/* Receives a row of the topic "rounds". */
static int add_rounds(void *arg, const kv_field *f, int n, kv_err *e)
{
    int code = rows_add_key(arg, (kv_key){f[0].number, f[0].text}, e);
    return code ? code : add_rank(arg, f + 1, n - 1, e);
}

static int info_cluster(kv *store, result *out, kv_err *e)
{
    static const rows_column columns[] = {
        {"rank", "rank"},       {"role", "role"},       {"host", "host"}, {"heard_ms", "heard ms"},
        {"link", "link"},       {"keys", "keys"},       {"bytes", "bytes"}, {"rounds", "rounds"},
        {"open", "open"},       {"missing", "missing"}, {"stalest", "stalest"},
        {"contributors", "contributors"}};
    rows table = {columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    buf text = {0};
    int code = kv_describe(store, "cluster", add_rank, &table, e);
    return result_table(out, &text, &table, code, e);
}

static int info_metrics(session *s, const ast *call, result *out, kv_err *e)
{
    buf text = {0};
    key_list keys = {0}, *some = call->kid[0] ? &keys : NULL;
    bool cluster = command_option_of(call, "cluster");
    int code = some ? eval_keys(s, call->kid[0], &keys, e) : KV_OK;
    if (code == KV_OK && some && cluster)
        code = unit_err(s, call->kid[0], e, KV_E_USAGE,
                        "the ranks of --cluster tell of all their keys together");
    if (code == KV_OK && (code = metrics_text(&text, s, some, cluster, e)))
        unit_at(s, some ? call->kid[0] : call, e);
    key_list_release(&keys);
    return result_text(out, &text, code, e);
}

int cmd_rounds(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column columns[] = {{"key", "key"},       {"round", "round"},
                                          {"newest", "newest"}, {"ahead", "ahead"},
                                          {"pushed", "pushed"}, {"missing", "missing"}};
    rows table = {columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    kv *store;
    buf text = {0};
    int code = session_store(s, &store, e);
    (void)call;
    if (code)
        return code;
    code = kv_describe(store, "rounds", add_rounds, &table, e);
    return result_table(out, &text, &table, code, e);
}

int cmd_info(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column pair[] = {{"name", NULL}, {"value", NULL}};
    kv *store;
    key_list keys = {0}, *some = call->kid[0] ? &keys : NULL;
    buf text = {0};
    rows table = {0};
    bool states = command_option_of(call, "states") != NULL;
    if (command_option_of(call, "metrics"))
        return info_metrics(s, call, out, e);
    int code = session_store(s, &store, e);
    if (code == KV_OK && command_option_of(call, "cluster"))
        return info_cluster(store, out, e);
    if (code || (some && (code = eval_keys(s, call->kid[0], &keys, e))))
        return code;
    if (states || !some) {
        out->summary = (rows){pair, 2, NULL, 0, 0};
        code = states ? cmd_states_summary(store, &out->summary, e)
                      : kv_describe(store, "store", add_field, &out->summary, e);
        if (code == KV_OK)
            summary_line(&text, &out->summary);
    }
    if (code == KV_OK && (code = states ? cmd_states_table(store, &table, some, e)
                                        : add_infos(store, &table, some, e)) != KV_OK)
        unit_at(s, some ? call->kid[0] : call, e);
    code = result_table(out, &text, &table, code, e);
    key_list_release(&keys);
    return code;
}

/* ---- vars ---- */

/* The value of a variable on one line: big arrays by their shape. */
static void variable_summary(buf *out, value v)
{
    char shape[256], ctx[KV_CTX_TEXT];
    if (v.kind == VALUE_ARRAY) {
        kv_array *a = v.u.box->array;
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
    static const rows_column columns[] = {{"name", NULL}, {"holds", NULL}};
    rows table = {columns, 2, NULL, 0, 0};
    buf text = {0}, held = {0};
    int code = KV_OK;
    (void)call;
    for (int64_t i = 0; i < s->globals.n && code == KV_OK; i++) {
        buf_clear(&held);
        variable_summary(&held, s->globals.items[i].v);
        if ((code = buf_check(&held, e)) == KV_OK &&
            (code = rows_add_text(&table, s->globals.items[i].name, e)) == KV_OK)
            code = rows_add_text(&table, buf_text(&held), e);
    }
    buf_release(&held);
    return result_table(out, &text, &table, code, e);
}
