/* The states of an optimizer: save-states, load-states, and the table of info --states. */
#include <string.h>

#include "base/num.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "session/unit.h"
#include "syntax/effect.h"
#include "syntax/file_kind.h"

/* ---- Files ---- */

static int ignore(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)arg, (void)fields, (void)n, (void)e;
    return KV_OK;
}

/* Places an error at the file, or at the command where the store has no states at all. */
static int placed(session *s, const ast *call, kv *store, kv_err *e)
{
    kv_err why = {0};
    bool none = e->code != KV_E_IO && kv_describe(store, "states", ignore, NULL, &why);
    return unit_at(s, none ? call : call->kid[0], e);
}

int cmd_save_states(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    const char *name;
    uint32_t flags = command_option_of(call, "dump-optimizer") ? KV_DUMP_OPTIMIZER : 0;
    if (session_store(s, &store, e) ||
        !(name = eval_file(s, call->kid[0], "states stand", out, e)))
        return e->code;
    if (file_kind_check_keeps(name, "states", e)) {
        kv_err_hint(e, "save-states FILE.safetensors");
        return unit_at(s, call->kid[0], e);
    }
    /* a dry run finds the errors that do not need the file */
    int code = safe_write(s, name, e);
    if (code == KV_OK && s->dry_run)
        code = kv_describe(store, "states", ignore, NULL, e);
    if (code == KV_OK && !session_would(s, "write", name))
        code = kv_save_states(store, name, flags, e);
    return code ? placed(s, call, store, e) : KV_OK;
}

int cmd_load_states(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    const char *name;
    if (session_store(s, &store, e) ||
        !(name = eval_file(s, call->kid[0], "states stand", out, e)))
        return e->code;
    return kv_load_states(store, name, e) ? placed(s, call, store, e) : KV_OK;
}

/* ---- info --states ---- */

static const rows_column columns[] = {{"key", "key"},     {"state", "state"}, {"dtype", "dtype"},
                                      {"shape", "shape"}, {"value", "value"}, {"bytes", "bytes"},
                                      {"t", "t"}};

/* An integer or a float, when that is what the text holds. */
static bool parse_number(const char *text, value *out)
{
    size_t n = strlen(text);
    bool over = false;
    int64_t i;
    double x;
    if (n > 0 && num_parse_int(text, n, &i, &over) == n && !over)
        *out = value_int(i);
    else if (n > 0 && num_parse(text, n, NUM_BINARY64, &x, NULL) == n)
        *out = value_float(x);
    else
        return false;
    return true;
}

/* "(2, 3)" as a tuple. */
static int add_shape(rows *table, const char *text, kv_err *e)
{
    int64_t shape[KV_MAX_NDIM];
    int ndim = 0;
    for (text += strspn(text, "("); *text && *text != ')'; text += strspn(text, ", ")) {
        bool over = false;
        size_t n = strcspn(text, ",)");
        num_parse_int(text, n, &shape[ndim++], &over);
        text += n;
    }
    return rows_add_shape(table, ndim, shape, e);
}

/* The value of a number, "" and "none" being none. */
static value number_of(const char *kind, const char *text)
{
    value v = value_none();
    if (strcmp(kind, "bool") == 0)
        return value_bool(strcmp(text, "true") == 0);
    parse_number(text, &v);
    return v;
}

static int add_text_or_none(rows *table, const char *text, kv_err *e)
{
    return *text ? rows_add_text(table, text, e) : rows_add(table, value_none(), e);
}

/* Receives the row of the topic "optimizer", as rows of a name and a value. */
static int add_field(void *arg, const kv_field *f, int n, kv_err *e)
{
    rows *summary = arg;
    int code = KV_OK;
    for (int i = 0; i < n && code == KV_OK; i++) {
        value v = value_int(f[i].number);
        if ((code = rows_add_text(summary, f[i].name, e)))
            break;
        if (f[i].text && !parse_number(f[i].text, &v))
            code = rows_add_text(summary, f[i].text, e);
        else
            code = rows_add(summary, v, e);
    }
    return code;
}

int cmd_states_summary(kv *store, rows *summary, kv_err *e)
{
    return kv_describe(store, "optimizer", add_field, summary, e);
}

typedef struct visit {
    rows *table;
    const map *wanted; /* keys, or NULL for all */
} visit;

/* Receives a row of the topic "states". */
static int add_state(void *arg, const kv_field *f, int n, kv_err *e)
{
    visit *v = arg;
    rows *table = v->table;
    kv_key key = {f[0].number, f[0].text};
    const char *dtype = f[2].text, *shape = f[3].text;
    int code;
    (void)n;
    if (v->wanted && map_get(v->wanted, key) < 0)
        return KV_OK;
    if ((code = rows_add_key(table, key, e)) || (code = add_text_or_none(table, f[1].text, e)) ||
        (code = add_text_or_none(table, dtype, e)))
        return code;
    code = *shape ? add_shape(table, shape, e) : rows_add(table, value_none(), e);
    if (code || (code = rows_add(table, number_of(dtype, f[4].text), e)) ||
        (code = rows_add(table, value_int(f[5].number), e)))
        return code;
    return rows_add(table, value_int(f[6].number), e);
}

int cmd_states_table(kv *store, rows *table, const key_list *keys, kv_err *e)
{
    map wanted = {0};
    int code = KV_OK;
    *table = (rows){columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    for (int64_t i = 0; keys && i < keys->n && code == KV_OK; i++) {
        kv_info info;
        if ((code = kv_find(store, &keys->keys[i], &info, e)) == KV_OK)
            code = map_put(&wanted, keys->keys[i], i, e);
    }
    if (code == KV_OK)
        code = kv_describe(store, "states", add_state, &(visit){table, keys ? &wanted : NULL}, e);
    map_release(&wanted);
    return code;
}
