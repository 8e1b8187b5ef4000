/* `diff`: the differences between two checkpoints (keys that one lacks, other shapes and dtypes,
 * and numbers), the worst first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/map.h"
#include "base/mem.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
#include "checkpoints/renames.h"
#include "eval/eval.h"
#include "session/unit.h"
#include "tensors/tensor_diff.h"
#include "term/progress.h"

/* A key of either side: a and b first, for tensor_diffs. */
typedef struct both {
    checkpoint *files[2];
    tensor_difference *pairs;
    const char **names; /* of each pair: that of B, which is A's after --rename */
    int64_t n;
    int64_t nsame;
} both;

/* ---- Options --------------------------------------------------------------------------------- */

/* A tolerance, which is 0 when it is not given. */
static int read_tolerance(session *s, const ast *call, const char *option, double *x,
                          diff_options *o, kv_err *e)
{
    const ast *at = command_option_of(call, option);
    value v = value_none();
    if (!at)
        return KV_OK;
    int code = eval(s, at, &v, e);
    if (code == KV_OK && !value_is_number(v))
        code = unit_err(s, at, e, KV_E_DTYPE, "--%s takes a number, not %s", option,
                        value_kind_name(v));
    *x = code ? 0 : value_number(v);
    if (code == KV_OK && !(*x >= 0))
        code = unit_err(s, at, e, KV_E_VALUE, "--%s takes a number that is not negative", option);
    value_release(&v);
    o->tolerance = true;
    return code;
}

/* A count of at least `least`; *there: it was given. */
static int read_count(session *s, const ast *call, const char *option, int32_t least, int32_t *x,
                      bool *there, kv_err *e)
{
    const ast *at = command_option_of(call, option);
    *there = at != NULL;
    if (!at)
        return KV_OK;
    if (eval_int32(s, at, "a count", x, e))
        return e->code;
    return *x >= least ? KV_OK
                       : unit_err(s, at, e, KV_E_VALUE, "--%s takes a count from %d on", option,
                                  (int)least);
}

static int read_options(session *s, const ast *call, diff_options *o, int32_t *top, kv_err *e)
{
    int32_t ulps = 0;
    bool has_top;
    int code = read_tolerance(s, call, "rtol", &o->rtol, o, e);
    if (code == KV_OK)
        code = read_tolerance(s, call, "atol", &o->atol, o, e);
    if (code == KV_OK)
        code = read_count(s, call, "ulps", 0, &ulps, &o->has_ulps, e);
    if (code == KV_OK)
        code = read_count(s, call, "top", 1, top, &has_top, e);
    o->ulps = (uint64_t)ulps;
    o->tolerance |= o->has_ulps;
    o->brief = command_option_of(call, "brief") != NULL;
    return code;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Returns true for an npy file, whose one key is called like the file. */
static bool is_npy(const checkpoint *c)
{
    const char *path = checkpoint_name(c);
    size_t n = strlen(path);
    return checkpoint_count(c) == 1 && n > 4 && strcasecmp(path + n - 4, ".npy") == 0;
}

/* Adds the keys of A, by their new names; known gets the number of each pair. The arrays of two npy
 * files belong together, whatever the files are called. */
static int add_keys_of_a(session *s, both *x, choice *chosen, renames *rules, map *known,
                         result *out, kv_err *e)
{
    const checkpoint *a = x->files[0];
    bool lone = is_npy(a) && is_npy(x->files[1]);
    for (int64_t i = 0; i < checkpoint_count(a); i++) {
        const char *name = checkpoint_at(lone ? x->files[1] : a, i)->name;
        if (!(name = renames_apply(rules, s, name, &out->names, e)))
            return e->code;
        if (!choose_takes(chosen, name))
            continue;
        int64_t other = map_get(known, (kv_key){.name = name});
        if (other >= 0)
            return unit_err(s, rules->given.items[0].at, e, KV_E_KEY,
                            "\"%.120s\" and \"%.120s\" both become \"%.120s\"",
                            checkpoint_at(a, x->pairs[other].a)->name, checkpoint_at(a, i)->name,
                            name);
        if (map_put(known, (kv_key){.name = name}, x->n, e))
            return e->code;
        x->names[x->n] = name;
        x->pairs[x->n++] = (tensor_difference){.a = i, .b = -1};
    }
    return checkpoint_count(a) > 0 ? renames_check(rules, s, e) : KV_OK;
}

static void add_keys_of_b(both *x, choice *chosen, const map *known)
{
    const checkpoint *b = x->files[1];
    for (int64_t i = 0; i < checkpoint_count(b); i++) {
        const char *name = checkpoint_at(b, i)->name;
        int64_t pair = map_get(known, (kv_key){.name = name});
        if (pair >= 0) {
            x->pairs[pair].b = i;
        } else if (choose_takes(chosen, name)) {
            x->names[x->n] = name;
            x->pairs[x->n++] = (tensor_difference){.a = -1, .b = i};
        }
    }
}

/* The keys of A in their order, then those of B alone. */
static int pair_keys(session *s, const ast *call, both *x, choice *chosen, result *out, kv_err *e)
{
    int64_t most = checkpoint_count(x->files[0]) + checkpoint_count(x->files[1]);
    renames rules = {0};
    map known = {0};
    int code = renames_read(s, call, out, &rules, e);
    x->pairs = mem_alloc(most, sizeof *x->pairs, e);
    x->names = mem_alloc(most, sizeof *x->names, e);
    if (code == KV_OK && (!x->pairs || !x->names))
        code = KV_E_MEMORY;
    if (code == KV_OK)
        code = add_keys_of_a(s, x, chosen, &rules, &known, out, e);
    if (code == KV_OK) {
        add_keys_of_b(x, chosen, &known);
        code = choose_check(s, chosen, e);
    }
    renames_release(&rules);
    map_release(&known);
    return code;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Refuses codes that are numbers only together with scales. */
static int check_scales(session *s, const ast *call, const both *x, int64_t i, kv_err *e)
{
    int code = choose_check_all_scales(s, call, call->kid[0], x->files[0], &x->pairs[i].a, 1, e);
    if (code == KV_OK)
        code = choose_check_all_scales(s, call, call->kid[1], x->files[1], &x->pairs[i].b, 1, e);
    return code;
}

/* Without a tolerance codes are compared by their bits, but columns of numbers mislead. */
static void note_codes(session *s, const ast *call, const both *x)
{
    int64_t n = 0;
    const char *first = NULL;
    for (int64_t i = 0; i < x->n; i++) {
        kv_err why = {0};
        if (x->pairs[i].state != DIFF_VALUES || !check_scales(s, call, x, i, &why))
            continue;
        first = first ? first : checkpoint_at(x->files[0], x->pairs[i].a)->name;
        n++;
    }
    if (n > 0)
        session_note(s,
                     "%lld of %lld keys are codes and scales, whose numbers here are each by "
                     "itself: \"%.200s\"",
                     (long long)n, (long long)x->n, first);
}

/* A key counts once, by the first file that holds codes of it. */
static void tell_decoded(session *s, const both *x)
{
    decoded d = {0};
    for (int64_t i = 0; i < x->n; i++) {
        const tensor_difference *p = &x->pairs[i];
        bool in_a = p->a >= 0 && tensor_values_codes(x->files[0], p->a);
        if (in_a || (p->b >= 0 && tensor_values_codes(x->files[1], p->b)))
            choose_count_decoded(&d, x->files[in_a ? 0 : 1], in_a ? p->a : p->b);
    }
    choose_tell_decoded(s, &d, NULL);
}

static int compare(both *x, const diff_options *o, kv_err *e)
{
    progress_begin("diff", 0, PROGRESS_BYTES);
    int code = tensor_diffs(x->pairs, x->n, x->files[0], x->files[1], o, progress_bytes, NULL, e);
    progress_end();
    for (int64_t i = 0; i < x->n; i++)
        x->nsame += x->pairs[i].state == DIFF_SAME;
    return code;
}

/* Orders differences by their weight; equal ones stay in the order of the files. */
static int by_order(const void *x, const void *y)
{
    const tensor_difference *a = *(const tensor_difference *const *)x;
    const tensor_difference *b = *(const tensor_difference *const *)y;
    int order = tensor_diff_order(a, b);
    return order ? order : a < b ? -1 : a > b;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static int add_float(rows *table, bool there, double x, kv_err *e)
{
    return rows_add(table, there ? value_float(x) : value_none(), e);
}

/* Beyond the integers of the language: as a text. */
static int add_count(rows *table, bool there, uint64_t n, kv_err *e)
{
    char text[32];
    if (!there || n <= INT64_MAX)
        return rows_add(table, there ? value_int((int64_t)n) : value_none(), e);
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    return rows_add_text(table, text, e);
}

/* The index of an element, slowest axis first. */
static int add_where(rows *table, const tensor_info *t, int64_t where, kv_err *e)
{
    int64_t index[KV_MAX_NDIM];
    if (where < 0)
        return rows_add(table, value_none(), e);
    for (int i = t->ndim - 1; i >= 0; i--) {
        index[i] = where % t->shape[i];
        where /= t->shape[i];
    }
    return rows_add_shape(table, t->ndim, index, e);
}

static int add_row(rows *table, const both *x, const tensor_difference *d, kv_err *e)
{
    static const char *const states[] = {
        [DIFF_SAME] = "",       [DIFF_ONLY_A] = "only_a", [DIFF_ONLY_B] = "only_b",
        [DIFF_SHAPE] = "shape", [DIFF_DTYPE] = "dtype",   [DIFF_VALUES] = "differs"};
    bool values = d->state == DIFF_VALUES, numbers = values && d->has_numbers;
    const tensor_info *t = d->a >= 0 ? checkpoint_at(x->files[0], d->a) : NULL;
    int code;
    if ((code = rows_add_text(table, states[d->state], e)) ||
        (code = add_float(table, values, d->equal, e)) ||
        (code = numbers && d->is_integer ? add_count(table, true, d->max_int, e)
                                         : add_float(table, numbers, d->max_abs, e)) ||
        (code = add_where(table, t, values ? d->where : -1, e)) ||
        (code = add_count(table, numbers && d->has_ulps, d->ulps, e)) ||
        (code = add_float(table, numbers && !isnan(d->rms), d->rms, e)))
        return code;
    return add_float(table, numbers && !isnan(d->cosine), d->cosine, e);
}

/* The keys that differ, worst first; at most top, all of them when it is 0. */
static int add_rows(rows *table, const both *x, bool brief, int32_t top, kv_err *e)
{
    int64_t n = 0;
    const tensor_difference **sorted = mem_alloc(x->n, sizeof *sorted, e);
    int code = sorted ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < x->n && sorted; i++)
        if (x->pairs[i].state != DIFF_SAME)
            sorted[n++] = &x->pairs[i];
    if (n)
        qsort(sorted, (size_t)n, sizeof *sorted, by_order);
    for (int64_t i = 0; i < n && (top == 0 || i < top) && code == KV_OK; i++) {
        code = rows_add_key(table, (kv_key){.name = x->names[sorted[i] - x->pairs]}, e);
        if (code == KV_OK && !brief)
            code = add_row(table, x, sorted[i], e);
    }
    mem_free(sorted);
    return code;
}

int cmd_diff(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column columns[] = {
        {"key", "key"},     {"state", "state"}, {"equal", "equal"}, {"max_abs", "max_abs"},
        {"where", "where"}, {"ulps", "ulps"},   {"rms", "rms"},     {"cosine", "cosine"}};
    static const rows_column names[] = {{"key", NULL}};
    diff_options o = {0};
    choice chosen = {0};
    both x = {0};
    int32_t top = 0;
    buf text = {0};
    int code = read_options(s, call, &o, &top, e);
    rows table = {columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    if (o.brief)
        table = (rows){names, 1, NULL, 0, 0};
    if (code == KV_OK)
        code = choose_read(s, call, call->kid[2], out, &chosen, e);
    for (int i = 0; i < 2 && code == KV_OK; i++)
        code = choose_open(s, call->kid[i], false, out, &x.files[i], e);
    for (int i = 0; i < 2 && o.tolerance && code == KV_OK; i++)
        code = choose_decode(s, call, call->kid[i], &x.files[i], 1, NULL, NULL, e);
    if (code == KV_OK && (code = pair_keys(s, call, &x, &chosen, out, e)) == KV_OK)
        for (int64_t i = 0; i < x.n && o.tolerance && code == KV_OK; i++)
            code = check_scales(s, call, &x, i, e);
    if (code == KV_OK && (code = compare(&x, &o, e)))
        unit_at(s, call, e);
    if (code == KV_OK && o.tolerance)
        tell_decoded(s, &x);
    if (code == KV_OK && !o.brief && !o.tolerance)
        note_codes(s, call, &x);
    if (code == KV_OK && (code = add_rows(&table, &x, o.brief, top, e)) == KV_OK)
        code = result_answer(out, x.nsame == x.n, e, "%lld of %lld keys differ",
                             (long long)(x.n - x.nsame), (long long)x.n);
    mem_free(x.pairs);
    mem_free(x.names);
    checkpoint_close(x.files[0]);
    checkpoint_close(x.files[1]);
    return result_table(out, &text, &table, code, e);
}
