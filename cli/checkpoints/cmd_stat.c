/* `stat`: statistics of the keys of a checkpoint, one row a key. */
#include <fnmatch.h>

#include "base/mem.h"
#include "base/num.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
#include "eval/eval.h"
#include "session/unit.h"
#include "tensors/tensor_stat.h"
#include "term/progress.h"

/* Reads the data of the chosen keys, and draws how far it is. */
static int read_stats(tensor_stat *stats, checkpoint *c, const int64_t *keys, int64_t n, kv_err *e)
{
    progress_begin("stat", 0, PROGRESS_BYTES);
    int code = tensor_stats(stats, c, keys, n, progress_bytes, NULL, e);
    progress_end();
    return code;
}

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

static int add_float(rows *table, bool there, double x, kv_err *e)
{
    return rows_add(table, there ? value_float(x) : value_none(), e);
}

static int add_count(rows *table, bool there, int64_t n, kv_err *e)
{
    return rows_add(table, there ? value_int(n) : value_none(), e);
}

static int add_row(rows *table, kv_key key, const tensor_stat *s, kv_err *e)
{
    bool some = s->finite > 0, can = s->has_numbers;
    int code;
    if ((code = rows_add_key(table, key, e)) ||
        (code = rows_add(table, value_int(s->elements), e)) ||
        (code = add_number(table, some, s->min, e)) ||
        (code = add_number(table, some, s->max, e)) ||
        (code = add_float(table, some, s->mean, e)) || (code = add_float(table, some, s->std, e)) ||
        (code = add_number(table, some, s->absmax, e)) ||
        (code = add_count(table, can, s->zeros, e)) || (code = add_count(table, can, s->nan, e)))
        return code;
    return add_count(table, can, s->inf, e);
}

/* ---- The store ---- */

typedef struct store_stats {
    session *s;
    kv *store;
    const char *first; /* (optional) the first pattern */
    bool several;      /* there are more */
    choice *chosen;
    rows *table;
} store_stats;

static int stat_array(tensor_stat *stat, const char *name, kv_array *a, kv_err *e)
{
    const void *data;
    checkpoint *c = NULL;
    int64_t only = 0;
    int code = kv_array_read(a, &data, e);
    const tensor_info t = {.name = name, .type = tensor_type_of(kv_array_dtype(a)),
                           .ndim = kv_array_ndim(a), .shape = kv_array_shape(a),
                           .elements = kv_array_size(a), .bytes = kv_array_bytes(a)};
    if (code == KV_OK)
        code = checkpoint_of_memory(&c, &t, &data, 1, NULL, 0, "the store", e);
    if (code == KV_OK)
        code = tensor_stats(stat, c, &only, 1, NULL, NULL, e);
    checkpoint_close(c);
    return code;
}

static bool takes(const store_stats *x, const char *name)
{
    bool first = x->first && fnmatch(x->first, name, 0) == 0;
    return x->several ? first || choose_takes(x->chosen, name)
                      : (!x->first || first) && choose_takes(x->chosen, name);
}

/* Receives a row of the topic "rounds", which has a row for each key. */
static int stat_key(void *arg, const kv_field *f, int n, kv_err *e)
{
    const store_stats *x = arg;
    kv_key key = {f[0].number, f[0].text};
    char number[NUM_TEXT_MAX];
    int64_t rounds[2];
    kv_array *a;
    tensor_stat stat;
    (void)n;
    number[num_int(number, key.id)] = '\0';
    const char *name = key.name ? key.name : number;
    if (!takes(x, name))
        return KV_OK;
    int code = session_interrupted(x->s, e);
    if (code || (code = kv_peek(x->store, &key, &a, rounds, e)))
        return code;
    code = stat_array(&stat, name, a, e);
    kv_array_unref(a);
    return code ? code : add_row(x->table, key, &stat, e);
}

/* Without a checkpoint: the keys of the store. What a guest gives are patterns, since it reads no
 * files. */
static int stat_store(session *s, const ast *call, rows *table, result *out, kv_err *e)
{
    choice chosen = {0};
    store_stats x = {.s = s, .chosen = &chosen, .table = table};
    const ast *globs = call->n > 1 ? call->kid[1] : NULL;
    if (call->kid[0] && !(x.first = eval_word(s, call->kid[0], "a pattern", out, e)))
        return e->code;
    x.several = globs && globs->n > 0;
    int code = session_store(s, &x.store, e);
    if (code == KV_OK && (code = choose_read(s, call, globs, out, &chosen, e)) == KV_OK)
        code = kv_describe(x.store, "rounds", stat_key, &x, e);
    if (code == KV_OK && table->n == 0 && !s->guest)
        code = unit_err(s, call, e, KV_E_USAGE, "stat needs a checkpoint: the store has no keys");
    return code;
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
    rows table = new_table();
    checkpoint *file = NULL;
    int64_t *keys = NULL, n = 0;
    tensor_stat *stats = NULL;
    buf text = {0};
    decoded values = {0};
    int code = choose_open_word(s, path, false, &file, e);
    if (code == KV_OK)
        code = choose_decode(s, call, path->at, &file, 1, NULL, NULL, e);
    if (code == KV_OK && (code = choose_keys(s, chosen, file, &keys, &n, e)) == KV_OK)
        code = choose_check_all_scales(s, call, path->at, file, keys, n, e);
    if (code == KV_OK)
        code = check_numbers(s, path, file, keys, n, e);
    if (code == KV_OK && !(stats = mem_alloc(n, sizeof *stats, e)))
        code = KV_E_MEMORY;
    if (code == KV_OK && (code = read_stats(stats, file, keys, n, e)))
        unit_at(s, path->at, e);
    for (int64_t i = 0; i < n && code == KV_OK; i++)
        code = add_row(&table, (kv_key){.name = checkpoint_at(file, keys[i])->name}, &stats[i], e);
    for (int64_t i = 0; i < n && code == KV_OK; i++)
        choose_count_decoded(&values, file, keys[i]);
    choose_tell_decoded(s, &values, NULL);
    mem_free(stats);
    mem_free(keys);
    checkpoint_close(file);
    return result_table(out, &text, &table, code, e);
}

int cmd_stat(session *s, const ast *call, result *out, kv_err *e)
{
    if (call->kid[0] && !s->guest)
        return choose_each(s, call, stat_file, false, out, e);
    rows table = new_table();
    buf text = {0};
    int code = stat_store(s, call, &table, out, e);
    return result_table(out, &text, &table, code, e);
}
