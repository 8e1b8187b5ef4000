/* `ls`: names, dtypes, shapes and bytes of a checkpoint, from its headers alone. */
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
#include "session/show.h"
#include "session/unit.h"

/* One listing. */
typedef struct listing {
    const checkpoint *file;
    const int64_t *keys;
    int64_t n;
    bool all; /* entries that are not tensors are in it */
} listing;

/* ---- Rows ------------------------------------------------------------------------------------ */

/* dtype, shape and bytes. */
static int add_form(rows *table, const tensor_info *t, int64_t bytes, kv_err *e)
{
    int code;
    if ((code = rows_add_text(table, tensor_info_type(t), e)) ||
        (code = rows_add_shape(table, t->ndim, t->shape, e)))
        return code;
    return rows_add(table, value_int(bytes), e);
}

/* How a sparse key is stored: "row_sparse, 2 of 5 rows". */
static int add_stored(rows *table, const tensor_info *t, kv_err *e)
{
    char text[80] = "";
    if (t->form & TENSOR_ROWS)
        snprintf(text, sizeof text, "row_sparse, %lld of %lld rows", (long long)t->first,
                 (long long)t->shape[0]);
    else if (t->form & TENSOR_CSR)
        snprintf(text, sizeof text, "csr, %lld of %lld elements", (long long)t->first,
                 (long long)t->elements);
    return rows_add_text(table, text, e);
}

/* One row a key; with --long its file, and where the file holds it. */
static int list_keys(const listing *l, bool with_places, rows *table, kv_err *e)
{
    static const rows_column columns[] = {
        {"key", "key"},   {"dtype", "dtype"},   {"shape", "shape"},  {"bytes", "bytes"},
        {"file", "file"}, {"offset", "offset"}, {"stored", "stored"}};
    static const rows_column entries[] = {{"key", "key"},
                                          {"dtype", "dtype"},
                                          {"shape", "shape"},
                                          {"bytes", "bytes"},
                                          {"value", "value"}};
    int code = KV_OK;
    bool with_values = false; /* there are entries that are not tensors */
    bool sparse = false;
    for (int64_t i = 0; i < l->n; i++) {
        with_values |= !with_places && checkpoint_at(l->file, l->keys[i])->value;
        sparse |= with_places && checkpoint_at(l->file, l->keys[i])->form & TENSOR_SPARSE;
    }
    *table = (rows){with_values ? entries : columns,
                    with_places   ? 6 + sparse
                    : with_values ? 5
                                  : 4,
                    NULL, 0, 0};
    for (int64_t i = 0; i < l->n && code == KV_OK; i++) {
        const tensor_info *t = checkpoint_at(l->file, l->keys[i]);
        if ((code = rows_add_text(table, t->name, e)) == KV_OK)
            code = add_form(table, t, t->bytes, e);
        if (code == KV_OK && with_places &&
            (code = rows_add_text(table, checkpoint_file(l->file, t->file), e)) == KV_OK)
            code = rows_add(table, value_int(t->offset), e);
        if (code == KV_OK && sparse)
            code = add_stored(table, t, e);
        if (code == KV_OK && with_values)
            code = rows_add_text(table, t->value ? t->value : "", e);
    }
    return code;
}

/* ---- --fold ---------------------------------------------------------------------------------- */

/* Keys whose names differ in their numbers alone, of one dtype and shape. */
typedef struct group {
    const char *name; /* with # for each number */
    const tensor_info *first;
    int64_t count, bytes;
} group;

typedef struct groups {
    group *items;
    int64_t n, cap;
    map by_text; /* the number of a group by its folded name, dtype and shape */
    arena texts;
} groups;

/* Appends a name, with # for each run of digits. */
static void fold(buf *out, const char *name)
{
    while (*name) {
        size_t digits = strspn(name, "0123456789");
        size_t others = strcspn(name + digits, "0123456789");
        buf_add(out, digits ? "#" : "");
        buf_put(out, name + digits, others);
        name += digits + others;
    }
}

/* The text that the tensors of a group share: "BF16 2x3 model.#.weight". */
static int group_text(buf *out, const tensor_info *t, kv_err *e)
{
    buf_clear(out);
    buf_printf(out, "%s ", tensor_info_type(t));
    for (int i = 0; i < t->ndim; i++)
        buf_printf(out, i ? "x%lld" : "%lld", (long long)t->shape[i]);
    buf_char(out, ' ');
    fold(out, t->name);
    return buf_check(out, e);
}

static int add_group(groups *g, const tensor_info *t, const buf *text, kv_err *e)
{
    int code = mem_grow(&g->items, &g->cap, g->n + 1, sizeof *g->items, e);
    const char *kept = code ? NULL : arena_text(&g->texts, buf_text(text), text->len, e);
    if (!kept)
        return KV_E_MEMORY;
    if ((code = map_put(&g->by_text, (kv_key){.name = kept}, g->n, e)))
        return code;
    const char *name = strchr(strchr(kept, ' ') + 1, ' ') + 1;
    g->items[g->n++] = (group){name, t, 0, 0};
    return KV_OK;
}

static int group_keys(const listing *l, groups *g, kv_err *e)
{
    buf text = {0};
    int code = KV_OK;
    for (int64_t i = 0; i < l->n && code == KV_OK; i++) {
        const tensor_info *t = checkpoint_at(l->file, l->keys[i]);
        if ((code = group_text(&text, t, e)))
            break;
        int64_t at = map_get(&g->by_text, (kv_key){.name = buf_text(&text)});
        if (at < 0) {
            at = g->n;
            code = add_group(g, t, &text, e);
        }
        if (code == KV_OK) {
            g->items[at].count++;
            g->items[at].bytes += t->bytes;
        }
    }
    buf_release(&text);
    return code;
}

/* A # alone makes no name one that needs quotes. */
static int add_folded_name(rows *shown, const group *g, kv_err *e)
{
    buf text = {0};
    show_key(&text, (kv_key){.name = g->first->name});
    bool quoted = *buf_text(&text) == '"';
    buf_clear(&text);
    if (quoted)
        show_key(&text, (kv_key){.name = g->name});
    int code = buf_check(&text, e);
    if (code == KV_OK)
        code = rows_add_text(shown, quoted ? buf_text(&text) : g->name, e);
    buf_release(&text);
    return code;
}

/* One row a group, in the order of their first keys. Two tables: in text the count is ×32. */
static int fold_keys(const listing *l, rows *table, buf *text, kv_err *e)
{
    static const rows_column columns[] = {{"key", "key"},
                                          {"dtype", "dtype"},
                                          {"shape", "shape"},
                                          {"bytes", "bytes"},
                                          {"count", "count"}};
    static const rows_column heads[] = {{"name", "key"},
                                        {"dtype", "dtype"},
                                        {"shape", "shape"},
                                        {"bytes", "bytes"},
                                        {"count", "count"}};
    rows shown = {heads, 5, NULL, 0, 0};
    groups g = {0};
    *table = (rows){columns, 5, NULL, 0, 0};
    int code = group_keys(l, &g, e);
    for (int64_t i = 0; i < g.n && code == KV_OK; i++) {
        const group *one = &g.items[i];
        char times[32];
        snprintf(times, sizeof times, "×%lld", (long long)one->count);
        if ((code = rows_add_text(table, one->name, e)) ||
            (code = add_form(table, one->first, one->bytes, e)) ||
            (code = rows_add(table, value_int(one->count), e)) ||
            (code = add_folded_name(&shown, one, e)) ||
            (code = add_form(&shown, one->first, one->bytes, e)))
            break;
        code = rows_add_text(&shown, times, e);
    }
    if (code == KV_OK)
        code = rows_print(text, &shown, e);
    rows_release(&shown);
    map_release(&g.by_text);
    arena_release(&g.texts);
    mem_free(g.items);
    return code;
}

/* ---- The command ----------------------------------------------------------------------------- */

/* The last line, which --json has as `about`. */
static int add_totals(const listing *l, rows *totals, buf *text, kv_err *e)
{
    static const rows_column pair[] = {{"name", NULL}, {"value", NULL}};
    int64_t sums[3] = {l->n, 0, 0}, nothers;
    const char *others, *model;
    static const char *const names[] = {"key", "element", "byte"};
    int code = KV_OK;
    *totals = (rows){pair, 2, NULL, 0, 0};
    for (int64_t i = 0; i < l->n; i++) {
        sums[1] += checkpoint_at(l->file, l->keys[i])->elements;
        sums[2] += checkpoint_at(l->file, l->keys[i])->bytes;
    }
    for (int i = 0; i < 3 && code == KV_OK; i++) {
        char plural[16];
        snprintf(plural, sizeof plural, "%ss", names[i]);
        buf_printf(text, "%s%lld %s", i ? ", " : "", (long long)sums[i],
                   sums[i] == 1 ? names[i] : plural);
        if ((code = rows_add_text(totals, plural, e)) == KV_OK)
            code = rows_add(totals, value_int(sums[i]), e);
    }
    nothers = checkpoint_others(l->file, &others, &model);
    if (nothers && !l->all)
        buf_printf(text, "; %lld %s (%s%s), which --all shows", (long long)nothers,
                   nothers == 1 ? "entry is not a tensor" : "entries are not tensors", others,
                   nothers > 2 ? ", …" : "");
    if (model)
        buf_printf(text, "; %s#%s reads the tensors of %s only", checkpoint_name(l->file), model,
                   model);
    buf_char(text, '\n');
    return code;
}

static int list_file(session *s, const ast *call, const word *path, choice *chosen, result *out,
                     kv_err *e)
{
    checkpoint *file = NULL;
    int64_t *keys = NULL, n = 0;
    buf text = {0};
    const ast *folded = command_option_of(call, "fold"), *places = command_option_of(call, "long");
    bool all = command_option_of(call, "all");
    const checkpoint_options options = {.weights = !all, .entries = all};
    int code = checkpoint_open(&file, path->text, &options, e) ? unit_at(s, path->at, e) : KV_OK;
    if (code == KV_OK)
        code = choose_keys(s, chosen, file, &keys, &n, e);
    listing l = {file, keys, n, all};
    if (code == KV_OK && folded)
        code = fold_keys(&l, &out->entries, &text, e);
    else if (code == KV_OK && (code = list_keys(&l, places, &out->entries, e)) == KV_OK)
        code = rows_print(&text, &out->entries, e);
    if (code == KV_OK)
        code = add_totals(&l, &out->summary, &text, e);
    mem_free(keys);
    checkpoint_close(file);
    return result_text(out, &text, code, e);
}

int cmd_ls(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *places = command_option_of(call, "long");
    if (places && command_option_of(call, "fold"))
        return unit_err(s, places, e, KV_E_USAGE,
                        "--long tells where each key stands, and --fold counts keys: give one");
    return choose_each(s, call, list_file, false, out, e);
}
