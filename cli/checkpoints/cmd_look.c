/* Commands that look at a checkpoint: `ls` (names, dtypes, shapes and bytes, from its headers
 * alone), `stat` (statistics, one row a key), `check` (every fault of its files and data). */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
#include "checkpoints/outputs.h"
#include "session/result.h"
#include "session/unit.h"
#include "tensors/tensor_stat.h"
#include "term/terminal.h"

/* ---- ls -------------------------------------------------------------------------------------- */

/* One listing. */
typedef struct listing {
    const checkpoint *file;
    const int64_t *keys;
    int64_t n;
    bool all; /* entries that are not tensors are in it */
} listing;

/* dtype, shape and bytes. */
static int add_form(rows *table, const tensor_info *t, int64_t bytes, kv_err *e)
{
    TRY(rows_add_text(table, tensor_info_type(t), e));
    TRY(rows_add_shape(table, t->ndim, t->shape, e));
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
    static const rows_column entries[] = {
        {"key", "key"},     {"dtype", "dtype"}, {"shape", "shape"}, {"bytes", "bytes"},
        {"value", "value"}};
    bool with_values = false; /* there are entries that are not tensors */
    bool sparse = false;
    for (int64_t i = 0; i < l->n; i++) {
        with_values |= !with_places && checkpoint_at(l->file, l->keys[i])->value;
        sparse |= with_places && checkpoint_at(l->file, l->keys[i])->form & TENSOR_SPARSE;
    }
    int ncolumns = with_places ? 6 + sparse : with_values ? 5 : 4;
    *table = (rows){with_values ? entries : columns, ncolumns, NULL, 0, 0};
    for (int64_t i = 0; i < l->n; i++) {
        const tensor_info *t = checkpoint_at(l->file, l->keys[i]);
        TRY(rows_add_text(table, t->name, e));
        TRY(add_form(table, t, t->bytes, e));
        if (with_places) {
            TRY(rows_add_text(table, checkpoint_file(l->file, t->file), e));
            TRY(rows_add(table, value_int(t->offset), e));
        }
        if (sparse)
            TRY(add_stored(table, t, e));
        if (with_values)
            TRY(rows_add_text(table, t->value ? t->value : "", e));
    }
    return KV_OK;
}

/* ---- --fold ---------------------------------------------------------------------------------- */

/* Keys of one dtype and shape whose names differ only in their numbers. */
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

void fold_name(buf *out, const char *name)
{
    while (*name) {
        size_t digits = strspn(name, "0123456789");
        size_t others = strcspn(name + digits, "0123456789");
        buf_add(out, digits ? "#" : "");
        buf_put(out, name + digits, others);
        name += digits + others;
    }
}

static void groups_release(groups *g)
{
    map_release(&g->by_text);
    arena_release(&g->texts);
    mem_free(g->items);
}

/* The text that the tensors of a group share: "BF16 2x3 model.#.weight". */
static int group_text(buf *out, const tensor_info *t, kv_err *e)
{
    buf_clear(out);
    buf_printf(out, "%s ", tensor_info_type(t));
    for (int i = 0; i < t->ndim; i++)
        buf_printf(out, i ? "x%lld" : "%lld", (long long)t->shape[i]);
    buf_char(out, ' ');
    fold_name(out, t->name);
    return buf_check(out, e);
}

static int add_group(groups *g, const tensor_info *t, const buf *text, kv_err *e)
{
    TRY(mem_grow(&g->items, &g->cap, g->n + 1, sizeof *g->items, e));
    const char *kept = arena_text(&g->texts, buf_text(text), text->len, e);
    if (!kept)
        return KV_E_MEMORY;
    TRY(map_put(&g->by_text, (kv_key){.name = kept}, g->n, e));
    const char *name = strchr(strchr(kept, ' ') + 1, ' ') + 1;
    g->items[g->n++] = (group){name, t, 0, 0};
    return KV_OK;
}

static int group_keys(const listing *l, groups *g, kv_err *e)
{
    own_buf text = {0};
    for (int64_t i = 0; i < l->n; i++) {
        const tensor_info *t = checkpoint_at(l->file, l->keys[i]);
        TRY(group_text(&text, t, e));
        int64_t at = map_get(&g->by_text, (kv_key){.name = buf_text(&text)});
        if (at < 0) {
            at = g->n;
            TRY(add_group(g, t, &text, e));
        }
        g->items[at].count++;
        g->items[at].bytes += t->bytes;
    }
    return KV_OK;
}

/* A name needs no quotes merely because it has a #. */
static int add_folded_name(rows *shown, const group *g, kv_err *e)
{
    own_buf text = {0};
    show_key(&text, (kv_key){.name = g->first->name});
    bool quoted = *buf_text(&text) == '"';
    buf_clear(&text);
    if (quoted)
        show_key(&text, (kv_key){.name = g->name});
    TRY(buf_check(&text, e));
    return rows_add_text(shown, quoted ? buf_text(&text) : g->name, e);
}

/* One row a group, in the order of their first keys. Two tables: in text the count is ×32. */
static int fold_keys(const listing *l, rows *table, buf *text, kv_err *e)
{
    static const rows_column columns[] = {
        {"key", "key"},     {"dtype", "dtype"}, {"shape", "shape"}, {"bytes", "bytes"},
        {"count", "count"}};
    static const rows_column heads[] = {
        {"name", "key"},    {"dtype", "dtype"}, {"shape", "shape"}, {"bytes", "bytes"},
        {"count", "count"}};
    own_rows shown = {heads, 5, NULL, 0, 0};
    OWN(groups_release) groups g = {0};
    *table = (rows){columns, 5, NULL, 0, 0};
    TRY(group_keys(l, &g, e));
    for (int64_t i = 0; i < g.n; i++) {
        const group *one = &g.items[i];
        char times[32];
        snprintf(times, sizeof times, "×%lld", (long long)one->count);
        TRY(rows_add_text(table, one->name, e));
        TRY(add_form(table, one->first, one->bytes, e));
        TRY(rows_add(table, value_int(one->count), e));
        TRY(add_folded_name(&shown, one, e));
        TRY(add_form(&shown, one->first, one->bytes, e));
        TRY(rows_add_text(&shown, times, e));
    }
    return rows_print(text, &shown, e);
}

/* ---- The command ----------------------------------------------------------------------------- */

/* The last line, which --json has as `about`. */
static int add_totals(const listing *l, result *out, buf *text, kv_err *e)
{
    int64_t sums[3] = {l->n, 0, 0}, nothers;
    const char *others, *model;
    static const char *const names[] = {"key", "element", "byte"};
    for (int64_t i = 0; i < l->n; i++) {
        sums[1] += checkpoint_at(l->file, l->keys[i])->elements;
        sums[2] += checkpoint_at(l->file, l->keys[i])->bytes;
    }
    for (int i = 0; i < 3; i++) {
        char plural[16];
        snprintf(plural, sizeof plural, "%ss", names[i]);
        buf_printf(text, "%s%lld %s", i ? ", " : "", (long long)sums[i],
                   sums[i] == 1 ? names[i] : plural);
        TRY(about_add(out, plural, value_int(sums[i]), e));
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
    return KV_OK;
}

static int list_file(session *s, const ast *call, const word *path, choice *chosen, result *out,
                     kv_err *e)
{
    own_checkpoint *file = NULL;
    own_mem int64_t *keys = NULL;
    int64_t n = 0;
    own_buf text = {0};
    const ast *folded = command_option_of(call, "fold"), *places = command_option_of(call, "long");
    bool all = command_option_of(call, "all");
    const checkpoint_options options = {.weights = !all, .entries = all};
    if (checkpoint_open(&file, path->text, &options, e))
        return unit_at(s, path->at, e);
    TRY(choose_keys(s, chosen, file, &keys, &n, e));
    listing l = {file, keys, n, all};
    TRY(folded ? fold_keys(&l, &out->entries, &text, e)
               : list_keys(&l, places, &out->entries, e));
    if (!folded)
        TRY(rows_print(&text, &out->entries, e));
    TRY(add_totals(&l, out, &text, e));
    return result_text(out, &text, KV_OK, e);
}

int cmd_ls(session *s, const ast *call, result *out, kv_err *e)
{
    return choose_each(s, call, list_file, false, out, e);
}

/* ---- stat ---- */

/* Keys of C64, of quantised types and of elements that are not numbers have no numbers here. When
 * others are chosen too, their rows are what the user wants. */
static int check_numbers(session *s, const word *path, const checkpoint *c, const int64_t *keys,
                         int64_t n, kv_err *e)
{
    const tensor_info *first = NULL;
    int64_t without = 0;
    for (int64_t i = 0; i < n; i++) {
        const tensor_info *t = checkpoint_at(c, keys[i]);
        if (tensor_stat_can(t->type))
            continue;
        first = first ? first : t;
        without++;
    }
    if (first && without == n)
        return unit_err(s, path->at, e, KV_E_DTYPE,
                        "\"%.200s\" has no numbers to look at: its type is %s", first->name,
                        tensor_info_type(first));
    if (first)
        session_note(s, "%lld of %lld keys have no numbers to look at, such as \"%.200s\" (%s)",
                     (long long)without, (long long)n, first->name, tensor_info_type(first));
    return KV_OK;
}

/* Integers of 64 bits may be larger than those of the language. */
static int add_number(rows *table, bool there, stat_number x, kv_err *e)
{
    char text[32];
    if (!there)
        return rows_add(table, value_none(), e);
    if (!x.is_integer)
        return rows_add(table, value_float(x.x), e);
    if (x.magnitude <= INT64_MAX)
        return rows_add(table, value_int(x.negative ? -(int64_t)x.magnitude : (int64_t)x.magnitude),
                        e);
    if (x.negative)
        return rows_add(table, value_int(INT64_MIN), e);
    snprintf(text, sizeof text, "%llu", (unsigned long long)x.magnitude);
    return rows_add_text(table, text, e);
}

static int add_row(rows *table, kv_key key, const tensor_stat *s, kv_err *e)
{
    bool some = s->finite > 0, can = s->has_numbers;
    TRY(rows_add_key(table, key, e));
    TRY(rows_add(table, value_int(s->elements), e));
    TRY(add_number(table, some, s->min, e));
    TRY(add_number(table, some, s->max, e));
    TRY(rows_add_known(table, some, value_float(s->mean), e));
    TRY(rows_add_known(table, some, value_float(s->std), e));
    TRY(add_number(table, some, s->absmax, e));
    TRY(rows_add_known(table, can, value_int(s->zeros), e));
    TRY(rows_add_known(table, can, value_int(s->nan), e));
    return rows_add_known(table, can, value_int(s->inf), e);
}

/* ---- The store ---- */

typedef struct store_stats {
    session *s;
    kv *store;
    choice *chosen;
    rows *table;
} store_stats;

static int stat_array(tensor_stat *stat, const char *name, kv_array *a, kv_err *e)
{
    const void *data;
    own_checkpoint *c = NULL;
    int64_t only = 0;
    TRY(kv_array_read(a, &data, e));
    const tensor_info t = {.name = name, .type = tensor_type_of(kv_array_dtype(a)),
                           .ndim = kv_array_ndim(a), .shape = kv_array_shape(a),
                           .elements = kv_array_size(a), .bytes = kv_array_bytes(a)};
    TRY(checkpoint_of_memory(&c, &t, &data, 1, NULL, 0, "the store", e));
    return tensor_stats(stat, c, &only, 1, NULL, NULL, e);
}

/* Receives a row of the topic "rounds", which has a row for each key. */
static int stat_key(void *arg, const kv_field *f, int n, kv_err *e)
{
    const store_stats *x = arg;
    kv_key key = {f[0].number, f[0].text};
    char number[NUM_TEXT_MAX];
    int64_t rounds[2];
    own_array *a = NULL;
    tensor_stat stat;
    (void)n;
    const char *name = named_key(key, number);
    if (!choose_takes(x->chosen, name))
        return KV_OK;
    TRY(session_interrupted(x->s, e));
    TRY(kv_peek(x->store, &key, &a, rounds, e));
    TRY(stat_array(&stat, name, a, e));
    return add_row(x->table, key, &stat, e);
}

/* Returns true if stat is about the store: without words, or its first one does not name a file,
 * and the store in use has keys. */
static bool is_about_store(session *s, const ast *call, result *out, kv_err *e)
{
    words first = {0};
    kv *store;
    if (!call->kid[0] || s->guest)
        return true;
    return eval_words(s, call->kid[0], "a path", out, &first, e) == KV_OK && first.n > 0 &&
           !choose_names_file(first.items[0].text) && s->nstores > 0 &&
           session_store(s, &store, e) == KV_OK && kv_num_keys(store) > 0;
}

/* ---- The command ---- */

static rows new_table(void)
{
    static const rows_column columns[] = {{"key", "key"},       {"elements", "elements"},
                                          {"min", "min"},       {"max", "max"},
                                          {"mean", "mean"},     {"std", "std"},
                                          {"absmax", "absmax"}, {"zeros", "zeros"},
                                          {"nan", "nan"},       {"inf", "inf"}};
    return (rows){columns, sizeof columns / sizeof *columns, NULL, 0, 0};
}

static int stat_file(session *s, const ast *call, const word *path, choice *chosen, result *out,
                     kv_err *e)
{
    own_rows table = new_table();
    own_checkpoint *file = NULL;
    own_mem int64_t *keys = NULL;
    int64_t n = 0;
    own_mem tensor_stat *stats = NULL;
    decoded values = {0};
    TRY(choose_open_word(s, path, false, &file, e));
    TRY(choose_decode(s, call, path->at, &file, 1, NULL, NULL, e));
    TRY(choose_keys(s, chosen, file, &keys, &n, e));
    TRY(choose_check_all_scales(s, call, path->at, file, keys, n, e));
    TRY(check_numbers(s, path, file, keys, n, e));
    if (!(stats = mem_alloc(n, sizeof *stats, e)))
        return KV_E_MEMORY;
    int rc = PROGRESS("stat", tensor_stats(stats, file, keys, n, progress_bytes, NULL, e));
    if (rc)
        return unit_at(s, path->at, e);
    for (int64_t i = 0; i < n && rc == KV_OK; i++) {
        rc = add_row(&table, (kv_key){.name = checkpoint_at(file, keys[i])->name}, &stats[i], e);
        choose_count_decoded(&values, (scales_model){&file, 1}, 0, keys[i],
                             !command_option_of(call, "raw"));
    }
    choose_tell_decoded(s, &values, NULL);
    return result_table(out, &(buf){0}, &table, rc, e);
}

int cmd_stat(session *s, const ast *call, result *out, kv_err *e)
{
    if (!is_about_store(s, call, out, e))
        return e->code ? (int)e->code : choose_each(s, call, stat_file, false, out, e);
    own_rows table = new_table();
    /* Without a checkpoint: the keys of the store. What a guest gives are patterns, since it reads
     * no files. */
    choice chosen = {0};
    store_stats x = {.s = s, .chosen = &chosen, .table = &table};
    TRY(eval_words(s, call->kid[0], "a pattern", out, &chosen.globs, e));
    TRY(choose_read(s, call, call->kid[1], out, &chosen, e));
    TRY(session_store(s, &x.store, e));
    TRY(kv_describe(x.store, "rounds", stat_key, &x, e));
    if (!(s->guest && chosen.globs.n > 0))
        TRY(choose_check(s, &chosen, e));
    if (chosen.seen.n == 0 && !s->guest)
        return unit_err(s, call, e, KV_E_USAGE, "stat needs a checkpoint: the store has no keys");
    return result_table(out, &(buf){0}, &table, KV_OK, e);
}

/* ---- Findings -------------------------------------------------------------------------------- */

/* A file of lies may have millions of faults: so many are listed, the others counted. */
#define LISTED_MAX 100000

/* The findings so far: cells for --json, and lines. */
typedef struct findings {
    rows *cells;
    buf *lines;
    int64_t n;
    const char *path; /* of the checkpoint, for what concerns no single file */
    bool allows_zeros;
} findings;

static void add_visible(buf *lines, const char *text)
{
    visible_line(lines, text, strlen(text));
}

/* named: the finding names its key. */
static int put(findings *f, const char *key, const char *file, const char *finding, bool named,
               kv_err *e)
{
    if (f->n++ >= LISTED_MAX)
        return KV_OK;
    add_visible(f->lines, file ? file : f->path);
    buf_add(f->lines, ": ");
    if (!named) {
        show_key(f->lines, (kv_key){.name = key});
        buf_add(f->lines, ": ");
    }
    add_visible(f->lines, finding);
    buf_char(f->lines, '\n');
    TRY(rows_add_text(f->cells, key, e));
    TRY(rows_add_text(f->cells, file, e));
    return rows_add_text(f->cells, finding, e);
}

/* A fault that opening found: its text names the tensor. */
static int add_fault(void *arg, const char *key, const char *file, const char *finding, kv_err *e)
{
    return put(arg, key, file, finding, true, e);
}

/* Adds what is said of a key: `m.safetensors: fc.weight: 3 of 6 elements are NaN`. */
__attribute__((format(printf, 5, 6))) static int add(findings *f, const char *key, const char *file,
                                                     kv_err *e, const char *fmt, ...)
{
    own_buf text = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    TRY(buf_check(&text, e));
    return put(f, key, file, buf_text(&text), false, e);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* "3 of 6 elements are NaN, the first at (1, 2)"; first: -1 where it is not known. */
static int add_faults(findings *f, const tensor_info *t, const char *file, int64_t count,
                     int64_t of, const char *units, const char *what, int64_t first, kv_err *e)
{
    char place[160] = "";
    int64_t index[KV_MAX_NDIM];
    if (count == 0)
        return KV_OK;
    if (first >= 0 && t->ndim > 0) {
        tensor_info_index(index, t, first);
        kv_shape_text(place, sizeof place, t->ndim, index);
    }
    return add(f, t->name, file, e, "%lld of %lld %s %s %s%s%s", (long long)count, (long long)of,
               units, count == 1 ? "is" : "are", what,
               !*place      ? ""
               : count == 1 ? ", at "
                            : ", the first at ",
               place);
}

static int add_values(findings *f, const checkpoint *c, const tensor_info *t,
                      const tensor_values *v, kv_err *e)
{
    const char *file = checkpoint_file(c, t->file);
    bool parts = tensor_type_kind(t->type) == TENSOR_KIND_COMPLEX;
    const char *units = parts ? "parts" : "elements";
    int64_t n = parts ? 2 * t->elements : t->elements;
    TRY(add_faults(f, t, file, v->nans, n, units, "NaN", v->first_nan, e));
    TRY(add_faults(f, t, file, v->infs, n, units, "Inf", v->first_inf, e));
    TRY(add_faults(f, t, file, v->odd_bools, n, "bytes", "neither 0 nor 1", -1, e));
    bool finding = v->zero && !f->allows_zeros;
    return finding ? add(f, t->name, file, e, "all of its elements are 0") : KV_OK;
}

/* A key that cannot be read; the sentence begins with the name of its file. */
static int add_unread(findings *f, const char *key, const char *file, const char *why, kv_err *e)
{
    size_t n = strlen(file);
    bool named = strncmp(why, file, n) == 0 && strncmp(why + n, ": ", 2) == 0;
    return add_fault(f, key, file, named ? why + n + 2 : why, e);
}

/* One by one, where something stands in the way of a walk over all: what cannot be read is a
 * finding, and the other keys are looked at. */
static int check_each(findings *f, checkpoint *c, const int64_t *keys, int64_t n, kv_err *e)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t i = keys[k];
        const tensor_info *t = checkpoint_at(c, i);
        tensor_values v;
        kv_err why = {0};
        int rc = tensor_check_all(&v, c, &i, 1, NULL, NULL, &why);
        if (rc == KV_E_FORMAT || rc == KV_E_UNSUPPORTED)
            TRY(add_unread(f, t->name, checkpoint_file(c, t->file), why.text, e));
        else if (rc)
            return *e = why, rc;
        else
            TRY(add_values(f, c, t, &v, e));
    }
    return KV_OK;
}

/* Keys without numbers are taken out of the list. */
static int check_values(session *s, findings *f, checkpoint *c, int64_t *keys, int64_t looked,
                        kv_err *e)
{
    own_mem tensor_values *values = mem_alloc(looked, sizeof *values, e);
    const tensor_info *odd = NULL, *quantised = NULL;
    int64_t n = 0, blocks = 0;
    kv_err why = {0};
    if (!values)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < looked; i++) {
        const tensor_info *t = checkpoint_at(c, keys[i]);
        if (!t->odd)
            keys[n++] = keys[i];
        if (tensor_type_kind(t->type) == TENSOR_KIND_QUANTISED) {
            quantised = quantised ? quantised : t;
            blocks++;
        }
        odd = odd ? odd : t->odd ? t : NULL;
    }
    if (odd)
        session_note(s, "%lld of %lld keys have no numbers to look at, such as \"%.200s\" (%s)",
                     (long long)(looked - n), (long long)looked, odd->name, odd->odd);
    if (quantised)
        session_note(s,
                     "NaN and Inf are not looked for in %lld of %lld keys, quantised such as "
                     "\"%.200s\" (%s)",
                     (long long)blocks, (long long)looked, quantised->name,
                     tensor_info_type(quantised));
    int rc = PROGRESS("check", tensor_check_all(values, c, keys, n, progress_bytes, NULL, &why));
    if (rc == KV_E_FORMAT || rc == KV_E_UNSUPPORTED)
        return check_each(f, c, keys, n, e);
    if (rc)
        return *e = why, rc;
    for (int64_t i = 0; i < n; i++)
        TRY(add_values(f, c, checkpoint_at(c, keys[i]), &values[i], e));
    return KV_OK;
}

/* ---- --like ---------------------------------------------------------------------------------- */

/* One key, and the one of this name in the other checkpoint. */
static int compare_key(findings *f, const checkpoint *c, const tensor_info *t,
                       const checkpoint *other, kv_err *e)
{
    const char *file = checkpoint_file(c, t->file), *in = checkpoint_name(other);
    int64_t at = checkpoint_find(other, t->name);
    char shape[160], wanted[160];
    if (at < 0)
        return add(f, t->name, file, e, "%s has no such key", in);
    const tensor_info *o = checkpoint_at(other, at);
    if (strcmp(tensor_info_type(t), tensor_info_type(o)) != 0) /* two odd ones are one type */
        TRY(add(f, t->name, file, e, "the dtype is %s, in %s %s", tensor_info_type(t), in,
                tensor_info_type(o)));
    if (tensor_same_shape(t->ndim, t->shape, o->ndim, o->shape))
        return KV_OK;
    return add(f, t->name, file, e, "the shape is %s, in %s %s",
               kv_shape_text(shape, sizeof shape, t->ndim, t->shape), in,
               kv_shape_text(wanted, sizeof wanted, o->ndim, o->shape));
}

static int check_like(findings *f, const checkpoint *c, choice *chosen, const checkpoint *other,
                      kv_err *e)
{
    for (int64_t i = 0; i < checkpoint_count(c); i++)
        if (choose_takes(chosen, checkpoint_at(c, i)->name))
            TRY(compare_key(f, c, checkpoint_at(c, i), other, e));
    for (int64_t i = 0; i < checkpoint_count(other); i++) {
        const char *name = checkpoint_at(other, i)->name;
        if (checkpoint_find(c, name) < 0 && choose_takes(chosen, name))
            TRY(add(f, name, checkpoint_name(c), e, "missing, %s has it", checkpoint_name(other)));
    }
    return KV_OK;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int check_file(session *s, const ast *call, const word *path, choice *chosen, result *out,
                      kv_err *e)
{
    static const rows_column columns[] = {{"key", NULL}, {"file", NULL}, {"finding", NULL}};
    const ast *like = command_option_of(call, "like");
    own_checkpoint *c = NULL, *other = NULL;
    own_mem int64_t *keys = NULL; /* that are looked at */
    bool all = command_option_of(call, "all");
    own_buf text = {0};
    findings f = {&out->entries, &text, 0, path->text,
                  command_option_of(call, "allow-zeros") != NULL};
    const checkpoint_options options = {.weights = !all, .found = add_fault, .arg = &f};
    out->entries = (rows){columns, 3, NULL, 0, 0};
    if (like)
        TRY(choose_open(s, like, all, out, &other, e));
    if (checkpoint_open(&c, path->text, &options, e))
        return unit_at(s, path->at, e);
    if (!(keys = mem_alloc(checkpoint_count(c), sizeof *keys, e)))
        return KV_E_MEMORY;
    chosen->n = 0;
    for (int64_t i = 0; i < checkpoint_count(c); i++)
        if (choose_takes(chosen, checkpoint_at(c, i)->name))
            keys[chosen->n++] = i;
    TRY(check_values(s, &f, c, keys, chosen->n, e));
    if (like)
        TRY(check_like(&f, c, chosen, other, e));
    TRY(choose_check(s, chosen, e));
    TRY(result_answer(out, f.n == 0, e, "%lld finding%s in %s%s", (long long)f.n,
                      f.n == 1 ? "" : "s", checkpoint_name(c),
                      f.n > LISTED_MAX ? "; the first 100,000 are listed" : ""));
    return result_text(out, &text, KV_OK, e);
}

int cmd_check(session *s, const ast *call, result *out, kv_err *e)
{
    return choose_each(s, call, check_file, true, out, e);
}
