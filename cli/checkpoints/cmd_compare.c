/* Commands that compare checkpoints: `diff` (keys that one lacks, other shapes and dtypes, and
 * numbers, the worst first), `hash` (the hash of each key, to write down or to compare with a
 * list). */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
#include "checkpoints/outputs.h"
#include "eval/eval.h"
#include "session/result.h"
#include "session/unit.h"
#include "tensors/tensor_diff.h"
#include "tensors/tensor_hash.h"
#include "term/terminal.h"

/* ---- hash ---- */

/* The keys that are hashed. */
typedef struct hashing {
    checkpoint *file;
    int64_t *keys;
    int64_t n;
    digest_kind kind;
    tensor_hash *hashes;
} hashing;

static int make_hashes(hashing *h, kv_err *e)
{
    h->hashes = mem_alloc(h->n, sizeof *h->hashes, e);
    if (!h->hashes)
        return KV_E_MEMORY;
    return PROGRESS("hash", tensor_hash_all(h->hashes, h->file, h->keys, h->n, h->kind,
                                            progress_bytes, NULL, e));
}

static const char *name_of(const hashing *h, int64_t i)
{
    return checkpoint_at(h->file, h->keys[i])->name;
}

/* Two columns: a key, and another text. The text that is shown has the key last, since it may have
 * any length. */
static int add_line(result *out, buf *text, const char *key, const char *other, kv_err *e)
{
    TRY(rows_add_text(&out->entries, key, e));
    buf_printf(text, "%s  ", other);
    show_key(text, (kv_key){.name = key});
    buf_char(text, '\n');
    return rows_add_text(&out->entries, other, e);
}

static int list_hashes(session *s, hashing *h, choice *chosen, result *out, buf *text, kv_err *e)
{
    static const rows_column columns[] = {{"key", NULL}, {"hash", NULL}};
    char hex[DIGEST_TEXT];
    out->entries = (rows){columns, 2, NULL, 0, 0};
    TRY(choose_keys(s, chosen, h->file, &h->keys, &h->n, e));
    TRY(make_hashes(h, e));
    for (int64_t i = 0; i < h->n; i++) {
        digest_text(hex, h->kind, h->hashes[i].bytes);
        TRY(add_line(out, text, name_of(h, i), hex, e));
    }
    return KV_OK;
}

/* ---- hash --verify --------------------------------------------------------------------------- */

/* The keys that are chosen, of the checkpoint and of the list: a pattern may match in either. */
static int choose_both(session *s, hashing *h, hash_list *list, choice *chosen, int64_t *listed,
                       kv_err *e)
{
    int64_t all = checkpoint_count(h->file);
    if (!(h->keys = mem_alloc(all, sizeof *h->keys, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < all; i++)
        if (choose_takes(chosen, checkpoint_at(h->file, i)->name))
            h->keys[h->n++] = i;
    for (int64_t i = 0; i < list->n; i++) {
        list->items[i].met = !choose_takes(chosen, list->items[i].name);
        *listed += !list->items[i].met;
    }
    return choose_check_some(s, chosen, e);
}

/* One line for each key that differs; met is set for those of the list that the checkpoint has. */
static int add_differences(const hashing *h, hash_list *list, result *out, buf *text, kv_err *e)
{
    for (int64_t i = 0; i < h->n; i++) {
        int64_t at = map_get(&list->by_name, (kv_key){.name = name_of(h, i)});
        if (at < 0)
            TRY(add_line(out, text, name_of(h, i), "not listed", e));
        else if (memcmp(list->items[at].bytes, h->hashes[i].bytes,
                        (size_t)digest_bytes(h->kind)) != 0)
            TRY(add_line(out, text, name_of(h, i), "differs", e));
        if (at >= 0)
            list->items[at].met = true;
    }
    for (int64_t i = 0; i < list->n; i++)
        if (!list->items[i].met)
            TRY(add_line(out, text, list->items[i].name, "missing", e));
    return KV_OK;
}

static int verify(session *s, hashing *h, const ast *call, choice *chosen, result *out, buf *text,
                  kv_err *e)
{
    static const rows_column columns[] = {{"key", NULL}, {"state", NULL}};
    OWN(hash_list_release) hash_list list = {0};
    int64_t listed = 0;
    const char *path = eval_option_word(s, call, "verify", "a path", out, e);
    out->entries = (rows){columns, 2, NULL, 0, 0};
    if (!path || hash_list_read(&list, path, e))
        return unit_at(s, command_option_of(call, "verify"), e);
    h->kind = list.kind;
    TRY(choose_both(s, h, &list, chosen, &listed, e));
    TRY(make_hashes(h, e));
    TRY(add_differences(h, &list, out, text, e));
    int64_t differ = out->entries.n / 2, all = h->n + listed; /* the keys of either side */
    for (int64_t i = 0; i < h->n; i++)
        all -= map_get(&list.by_name, (kv_key){.name = name_of(h, i)}) >= 0;
    return result_answer(out, differ == 0, e, "%lld of %lld keys %s not as %s lists them",
                         (long long)differ, (long long)all, differ == 1 ? "is" : "are", path);
}

static int hash_file(session *s, const ast *call, const word *path, choice *chosen, result *out,
                     kv_err *e)
{
    const ast *listed = command_option_of(call, "verify");
    hashing h = {.kind = command_option_of(call, "sha256") ? DIGEST_SHA256 : DIGEST_XXH3};
    buf text = {0};
    if (listed && chosen->goes_on)
        return unit_err(s, listed, e, KV_E_USAGE, "--verify compares one file with its list");
    int rc = choose_open_word(s, path, command_option_of(call, "all"), &h.file, e);
    if (rc == KV_OK)
        rc = listed ? verify(s, &h, call, chosen, out, &text, e)
                    : list_hashes(s, &h, chosen, out, &text, e);
    mem_free(h.hashes);
    mem_free(h.keys);
    checkpoint_close(h.file);
    return result_text(out, &text, rc, e);
}

int cmd_hash(session *s, const ast *call, result *out, kv_err *e)
{
    return choose_each(s, call, hash_file, false, out, e);
}

/* ---- diff ---- */

/* A key of either side: a and b first, for tensor_diffs. */
typedef struct both {
    checkpoint *files[2];
    tensor_difference *pairs;
    int64_t n;
    bool by_key;
} both;

static void both_release(both *x)
{
    mem_free(x->pairs);
    checkpoint_close(x->files[0]);
    checkpoint_close(x->files[1]);
}

/* ---- Options --------------------------------------------------------------------------------- */

/* A tolerance, which is 0 when it is not given. */
static int read_tolerance(session *s, const ast *call, const char *option, double *x,
                          diff_options *o, kv_err *e)
{
    const ast *at = command_option_of(call, option);
    own_value v = value_none();
    if (!at)
        return KV_OK;
    TRY(eval(s, at, &v, e));
    if (!value_is_number(v))
        return unit_err(s, at, e, KV_E_DTYPE, "--%s takes a number, not %s", option,
                        value_kind_name(v));
    *x = value_number(v);
    if (!(*x >= 0))
        return unit_err(s, at, e, KV_E_VALUE, "--%s takes a number that is not negative", option);
    o->tolerance = true;
    return KV_OK;
}

/* A count of at least `least`; *there: it was given. */
static int read_count(session *s, const ast *call, const char *option, int32_t least, int32_t *x,
                      bool *there, kv_err *e)
{
    const ast *at = command_option_of(call, option);
    *there = at != NULL;
    if (!at)
        return KV_OK;
    TRY(eval_int32(s, at, "a count", x, e));
    return *x >= least ? KV_OK
                       : unit_err(s, at, e, KV_E_VALUE, "--%s takes a count from %d on", option,
                                  (int)least);
}

enum { BY_KEY = DIFF_BY_COSINE + 1 };

static int read_sort(session *s, const ast *call, diff_options *o, bool *by_key, result *out,
                     kv_err *e)
{
    static const char *const names[] = {"max_abs", "rms", "rel", "ulps", "equal", "cosine", "key",
                                        "max", "abs", "relative", "name"};
    static const int meant[] = {DIFF_BY_MAX, DIFF_BY_MAX, DIFF_BY_REL, BY_KEY}; /* by the others */
    const ast *at = command_option_of(call, "sort");
    const char *name = at ? eval_word(s, at, "a column", out, e) : "max_abs";
    if (!name)
        return e->code;
    int i = NAME_AMONG(name, names);
    if (i < 0)
        return unit_err(s, at, e, KV_E_USAGE,
                        "--sort takes a column: max_abs, rms, rel, ulps, equal, cosine or key");
    i = i > BY_KEY ? meant[i - BY_KEY - 1] : i;
    *by_key = i == BY_KEY;
    o->sort = *by_key ? DIFF_BY_MAX : i;
    return at && o->brief && !*by_key
               ? unit_err(s, at, e, KV_E_USAGE,
                          "--brief shows names, and --sort is about numbers: give one")
               : KV_OK;
}

static int read_options(session *s, const ast *call, diff_options *o, int32_t *top, bool *by_key,
                        result *out, kv_err *e)
{
    int32_t ulps = 0;
    bool has_top;
    TRY(read_tolerance(s, call, "rtol", &o->rtol, o, e));
    TRY(read_tolerance(s, call, "atol", &o->atol, o, e));
    TRY(read_count(s, call, "ulps", 0, &ulps, &o->has_ulps, e));
    TRY(read_count(s, call, "top", 1, top, &has_top, e));
    o->ulps = (uint64_t)ulps;
    o->tolerance |= o->has_ulps;
    o->brief = command_option_of(call, "brief") != NULL;
    return read_sort(s, call, o, by_key, out, e);
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
        TRY(map_put(known, (kv_key){.name = name}, x->n, e));
        x->pairs[x->n++] = (tensor_difference){.a = i, .b = -1, .name = name};
    }
    return checkpoint_count(a) > 0 ? renames_check(rules, s, e) : KV_OK;
}

/* The keys of A in their order, then the keys that only B has. */
static int pair_keys(session *s, const ast *call, both *x, choice *chosen, result *out, kv_err *e)
{
    int64_t most = checkpoint_count(x->files[0]) + checkpoint_count(x->files[1]);
    OWN(renames_release) renames rules = {0};
    own_map known = {0};
    TRY(renames_read(s, call, out, &rules, e));
    if (!(x->pairs = mem_alloc(most, sizeof *x->pairs, e)))
        return KV_E_MEMORY;
    TRY(add_keys_of_a(s, x, chosen, &rules, &known, out, e));
    const checkpoint *b = x->files[1];
    for (int64_t i = 0; i < checkpoint_count(b); i++) {
        const char *name = checkpoint_at(b, i)->name;
        int64_t pair = map_get(&known, (kv_key){.name = name});
        if (pair >= 0)
            x->pairs[pair].b = i;
        else if (choose_takes(chosen, name))
            x->pairs[x->n++] = (tensor_difference){.a = -1, .b = i, .name = name};
    }
    return choose_check_some(s, chosen, e);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Refuses codes that are numbers only together with scales. */
static int check_scales(session *s, const ast *call, const both *x, int64_t i, kv_err *e)
{
    TRY(choose_check_all_scales(s, call, call->kid[0], x->files[0], &x->pairs[i].a, 1, e));
    return choose_check_all_scales(s, call, call->kid[1], x->files[1], &x->pairs[i].b, 1, e);
}

/* Without a tolerance codes are compared by their bits, but columns of numbers mislead. */
static void note_codes(session *s, const ast *call, const both *x)
{
    int64_t n = 0;
    const char *first = NULL;
    for (int64_t i = 0; i < x->n; i++) {
        if (x->pairs[i].state != DIFF_VALUES || !check_scales(s, call, x, i, &(kv_err){0}))
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

/* A key counts once, by the first file that holds codes of it, else by the first that holds it. */
static void tell_decoded(session *s, const ast *call, const both *x)
{
    decoded d = {0};
    for (int64_t i = 0; i < x->n; i++) {
        const tensor_difference *p = &x->pairs[i];
        bool codes_in_b = p->b >= 0 && tensor_values_codes(x->files[1], p->b);
        bool in_a = p->a >= 0 && (!codes_in_b || tensor_values_codes(x->files[0], p->a));
        choose_count_decoded(&d, (scales_model){&x->files[in_a ? 0 : 1], 1}, 0,
                             in_a ? p->a : p->b, !command_option_of(call, "raw"));
    }
    choose_tell_decoded(s, &d, NULL);
}

/* Orders differences by their weight; equal ones stay in the order of the files. */
static int by_order(const void *x, const void *y)
{
    const tensor_difference *a = *(const tensor_difference *const *)x;
    const tensor_difference *b = *(const tensor_difference *const *)y;
    int order = tensor_diff_order(a, b);
    return order ? order : a < b ? -1 : a > b;
}

static int by_key(const void *x, const void *y)
{
    return strcmp((*(const tensor_difference *const *)x)->name,
                  (*(const tensor_difference *const *)y)->name);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Beyond the integers of the language: as a text. */
static int add_count(rows *table, bool there, uint64_t n, kv_err *e)
{
    char text[32];
    if (!there || n <= INT64_MAX)
        return rows_add_known(table, there, value_int((int64_t)n), e);
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    return rows_add_text(table, text, e);
}

/* The index of an element, slowest axis first. */
static int add_where(rows *table, const tensor_info *t, int64_t where, kv_err *e)
{
    int64_t index[KV_MAX_NDIM];
    if (where < 0)
        return rows_add(table, value_none(), e);
    tensor_info_index(index, t, where);
    return rows_add_shape(table, t->ndim, index, e);
}

static int add_row(rows *table, const both *x, const tensor_difference *d, kv_err *e)
{
    static const char *const states[] = {
        [DIFF_SAME] = "",       [DIFF_ONLY_A] = "only_a", [DIFF_ONLY_B] = "only_b",
        [DIFF_SHAPE] = "shape", [DIFF_DTYPE] = "dtype",   [DIFF_VALUES] = "differs"};
    bool values = d->state == DIFF_VALUES, numbers = values && d->has_numbers;
    bool endless = numbers && !isfinite(d->max_abs); /* nan is what they are, not unknown */
    const tensor_info *t = d->a >= 0 ? checkpoint_at(x->files[0], d->a) : NULL;
    TRY(rows_add_text(table, states[d->state], e));
    TRY(rows_add_known(table, values, value_float(d->equal), e));
    TRY(numbers && d->is_integer ? add_count(table, true, d->max_int, e)
                                 : rows_add_known(table, numbers, value_float(d->max_abs), e));
    TRY(add_where(table, t, values ? d->where : -1, e));
    TRY(add_count(table, numbers && d->has_ulps, d->ulps, e));
    TRY(add_count(table, numbers, (uint64_t)d->left_out, e));
    TRY(rows_add_known(table, endless || (numbers && !isnan(d->rms)), value_float(d->rms), e));
    TRY(rows_add_known(table, endless || (numbers && !isnan(d->rel)), value_float(d->rel), e));
    return rows_add_known(table, endless || (numbers && !isnan(d->cosine)), value_float(d->cosine),
                          e);
}

/* Keeps the first of the keys that differ alike and whose names differ only in their numbers, and
 * counts the others: count[i] are those of sorted[i]. */
static int fold_rows(const tensor_difference **sorted, int64_t *count, int64_t *n, kv_err *e)
{
    own_map known = {0};
    own_arena texts = {0};
    own_buf name = {0};
    int64_t all = *n;
    *n = 0;
    for (int64_t i = 0; i < all; i++) {
        buf_clear(&name);
        buf_printf(&name, "%d ", (int)sorted[i]->state);
        fold_name(&name, sorted[i]->name);
        int64_t at = map_get(&known, (kv_key){.name = buf_text(&name)});
        if (at < 0) {
            TRY(buf_check(&name, e));
            const char *kept = arena_text(&texts, buf_text(&name), name.len, e);
            if (!kept)
                return KV_E_MEMORY;
            TRY(map_put(&known, (kv_key){.name = kept}, *n, e));
            sorted[at = (*n)++] = sorted[i];
            count[at] = 0;
        }
        count[at]++;
    }
    return KV_OK;
}

/* The keys that differ, worst first; at most top, all of them when it is 0. */
static int add_rows(rows *table, const both *x, bool brief, bool folded, int32_t top, kv_err *e)
{
    own_mem int64_t *count = mem_alloc(x->n, sizeof *count, e);
    int64_t n = 0;
    own_mem const tensor_difference **sorted = mem_alloc(x->n, sizeof *sorted, e);
    if (!sorted || !count)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < x->n; i++)
        if (x->pairs[i].state != DIFF_SAME)
            sorted[n++] = &x->pairs[i];
    if (n)
        qsort(sorted, (size_t)n, sizeof *sorted, x->by_key ? by_key : by_order);
    if (folded)
        TRY(fold_rows(sorted, count, &n, e));
    for (int64_t i = 0; i < n && (top == 0 || i < top); i++) {
        TRY(rows_add_key(table, (kv_key){.name = sorted[i]->name}, e));
        if (!brief)
            TRY(add_row(table, x, sorted[i], e));
        if (folded)
            TRY(rows_add(table, value_int(count[i]), e));
    }
    return KV_OK;
}

/* The sums of a key with nan or inf look as those of any other: a note for people, and a count of
 * all keys for programs, since --top and --fold leave rows out. */
static int tell_left_out(session *s, const both *x, result *out, kv_err *e)
{
    const tensor_difference *first = NULL;
    long long keys = 0;
    int64_t all = 0;
    for (int64_t i = 0; i < x->n; i++) {
        all += x->pairs[i].left_out;
        keys += x->pairs[i].left_out > 0;
        first = x->pairs[i].left_out > 0 && !first ? &x->pairs[i] : first;
    }
    if (keys == 1)
        session_note(s, "rms, rel and cosine of %s leave out %lld pair%s with nan or inf",
                     first->name, (long long)first->left_out,
                     first->left_out == 1 ? "" : "s");
    else if (keys > 1)
        session_note(s, "rms, rel and cosine of %lld keys leave out pairs with nan or inf", keys);
    return about_add(out, "nonfinite", value_int(all), e);
}

int cmd_diff(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column columns[] = {
        {"key", "key"},     {"state", "state"}, {"equal", "equal"}, {"max_abs", "max_abs"},
        {"where", "where"}, {"ulps", "ulps"},   {"nonfinite", NULL}, {"rms", "rms"},
        {"rel", "rel"},     {"cosine", "cosine"}, {"alike", "alike"}};
    static const rows_column names[] = {{"key", NULL}};
    diff_options o = {0};
    choice chosen = {0};
    OWN(both_release) both x = {0};
    int32_t top = 0;
    TRY(read_options(s, call, &o, &top, &x.by_key, out, e));
    bool folded = command_option_of(call, "fold") != NULL;
    own_rows table = {columns, sizeof columns / sizeof *columns - !folded, NULL, 0, 0};
    if (o.brief)
        table = (rows){names, 1, NULL, 0, 0};
    TRY(choose_read(s, call, call->kid[2], out, &chosen, e));
    for (int i = 0; i < 2; i++)
        TRY(choose_open(s, call->kid[i], false, out, &x.files[i], e));
    for (int i = 0; i < 2 && o.tolerance; i++)
        TRY(choose_decode(s, call, call->kid[i], &x.files[i], 1, NULL, NULL, e));
    TRY(pair_keys(s, call, &x, &chosen, out, e));
    for (int64_t i = 0; i < x.n && o.tolerance; i++)
        TRY(check_scales(s, call, &x, i, e));
    if (PROGRESS("diff",
                 tensor_diffs(x.pairs, x.n, x.files[0], x.files[1], &o, progress_bytes, NULL, e)))
        return unit_at(s, call, e);
    int64_t differ = 0;
    for (int64_t i = 0; i < x.n; i++)
        differ += x.pairs[i].state != DIFF_SAME;
    if (o.tolerance)
        tell_decoded(s, call, &x);
    if (!o.brief && !o.tolerance)
        note_codes(s, call, &x);
    if (!o.brief)
        TRY(tell_left_out(s, &x, out, e));
    TRY(add_rows(&table, &x, o.brief, folded, top, e));
    TRY(result_answer(out, differ == 0, e, "%lld of %lld keys differ", (long long)differ,
                      (long long)x.n));
    return result_table(out, &(buf){0}, &table, KV_OK, e);
}
