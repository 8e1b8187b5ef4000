/* Statistics of the keys of a checkpoint, one row a key. */
#include "base/mem.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
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

/* Keys of C64 and of quantised types have no numbers here. When others are chosen too, their rows
 * are what the user wants. */
static int check_numbers(session *s, const ast *call, const checkpoint *c, const int64_t *keys,
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
        return unit_err(s, call->kid[0], e, KV_E_DTYPE,
                        "\"%.200s\" has no numbers to look at: its type is %s", first->name,
                        tensor_type_name(first->type));
    if (first)
        session_note(s, "%lld of %lld keys have no numbers to look at, such as \"%.200s\" (%s)",
                     (long long)without, (long long)n, first->name, tensor_type_name(first->type));
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

static int add_row(rows *table, const char *name, const tensor_stat *s, kv_err *e)
{
    kv_key key = {.name = name};
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

int cmd_stat(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column columns[] = {{"key", "key"},       {"elements", "elements"},
                                          {"min", "min"},       {"max", "max"},
                                          {"mean", "mean"},     {"std", "std"},
                                          {"absmax", "absmax"}, {"zeros", "zeros"},
                                          {"nan", "nan"},       {"inf", "inf"}};
    rows table = {columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    choice chosen = {0};
    checkpoint *file = NULL;
    int64_t *keys = NULL, n = 0;
    tensor_stat *stats = NULL;
    buf text = {0};
    int code = choose_read(s, call, call->kid[1], out, &chosen, e);
    if (code == KV_OK && (code = choose_open(s, call->kid[0], false, out, &file, e)) == KV_OK &&
        (code = choose_keys(s, &chosen, file, &keys, &n, e)) == KV_OK)
        code = check_numbers(s, call, file, keys, n, e);
    if (code == KV_OK && !(stats = mem_alloc(n, sizeof *stats, e)))
        code = KV_E_MEMORY;
    if (code == KV_OK && (code = read_stats(stats, file, keys, n, e)))
        unit_at(s, call->kid[0], e);
    for (int64_t i = 0; i < n && code == KV_OK; i++)
        code = add_row(&table, checkpoint_at(file, keys[i])->name, &stats[i], e);
    mem_free(stats);
    mem_free(keys);
    checkpoint_close(file);
    return result_table(out, &text, &table, code, e);
}
