/* Replays recorded sequences of calls: a store, what is initialised, pushed and pulled, and what
 * every call gave. data/kvstore/README.md says what the records hold.
 *
 * The library takes pairs of a key and an array where the record nests its arrays as Python does:
 * one, a list, or for a list of keys a list of those. So every call is unrolled into pairs first,
 * in the order of the record, and its result likewise.
 *
 * A run of several machines is replayed by as many ranks, each of which makes every call. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "core/slot.h"
#include "replay.h"

#define MOST_PAIRS  256
#define MOST_PARAMS 16

/* A field of a call, unrolled: the n-th key stands with the n-th item. */
typedef struct pairs {
    int64_t n;
    kv_key keys[MOST_PAIRS];
    const cJSON *items[MOST_PAIRS];
    kv_array *arrays[MOST_PAIRS]; /* made of the items, or NULL */
} pairs;

typedef struct trace {
    replay r;
    const cJSON *call;
    int number;     /* of the call, from 1 */
    kv_call how;    /* its priority */
    buf updates;    /* the keys that the updater saw in this call */
    pairs in, outs; /* of the call */
} trace;

/* ---- Arrays ---- */

/* What a call says of this rank, or of all. */
static const cJSON *field_of(const trace *t, const cJSON *call, const char *name)
{
    char own[64];
    snprintf(own, sizeof own, "%s_by_rank", name);
    const cJSON *ranks = replay_get(call, strcmp(name, "values") == 0 ? "by_rank" : own);
    return ranks ? cJSON_GetArrayItem(ranks, kv_rank(t->r.store)) : replay_get(call, name);
}

static kv_ctx context(const cJSON *array)
{
    int id = 0;
    if (replay_get(array, "ctx"))
        sscanf(replay_get(array, "ctx")->valuestring, "cpu(%d)", &id);
    return replay_ctx(id);
}

static int64_t whole(const cJSON *o, const char *name)
{
    return (int64_t)replay_get(o, name)->valuedouble;
}

/* A long array, which the record describes. */
static kv_array *make_ramp(trace *t, const cJSON *x)
{
    kv_array *out = NULL;
    void *data = NULL;
    int64_t size = whole(x, "size"), mul = whole(x, "mul"), add = whole(x, "add");
    int64_t mod = whole(x, "mod");
    double scale = replay_get(x, "scale")->valuedouble;
    replay_check(&t->r, kv_array_new(&out, KV_FLOAT32, 1, &size, replay_ctx(0), &t->r.e), "ramp");
    replay_check(&t->r, kv_array_write(out, &data, &t->r.e), "ramp");
    for (int64_t i = 0; i < size; i++)
        ((float *)data)[i] = (float)((double)((i * mul + add) % mod - mod / 2) * scale);
    return out;
}

/* The array of a record. */
static kv_array *make_value(trace *t, const cJSON *x)
{
    if (replay_get(x, "ramp"))
        return make_ramp(t, replay_get(x, "ramp"));
    const cJSON *rows = replay_get(x, "row_ids"), *data = replay_get(x, "data");
    kv_array *out = NULL, *made = rows ? replay_sparse_array(&t->r, x, rows, data)
                                       : replay_array(&t->r, x, data);
    replay_check(&t->r, kv_array_dup(&out, made, kv_array_dtype(made), context(x), &t->r.e),
                 "value");
    kv_array_unref(made);
    return out;
}

/* An array to pull into. It is full of sevens, so that one that nobody writes is seen. */
static kv_array *make_out(trace *t, const cJSON *x)
{
    int64_t shape[KV_MAX_NDIM];
    int ndim = 0;
    kv_dtype dtype = KV_FLOAT32;
    kv_array *wide = NULL, *out = NULL;
    void *data = NULL;
    const cJSON *v, *sums = replay_get(x, "checksums");
    if (sums) {
        int64_t size = whole(sums, "size");
        replay_check(&t->r, kv_array_new(&out, KV_FLOAT32, 1, &size, replay_ctx(0), &t->r.e),
                     "out");
        return out;
    }
    cJSON_ArrayForEach(v, replay_get(x, "shape")) shape[ndim++] = (int64_t)v->valuedouble;
    replay_check(&t->r, kv_dtype_parse(&dtype, replay_get(x, "dtype")->valuestring, &t->r.e),
                 "out");
    replay_check(&t->r, kv_array_new(&wide, KV_FLOAT64, ndim, shape, context(x), &t->r.e), "out");
    replay_check(&t->r, kv_array_write(wide, &data, &t->r.e), "out");
    for (int64_t i = 0; i < kv_array_size(wide); i++)
        ((double *)data)[i] = 7;
    replay_check(&t->r, kv_array_dup(&out, wide, dtype, context(x), &t->r.e), "out");
    kv_array_unref(wide);
    return out;
}

/* An array for rows: what row_sparse_pull gave tells its dtype and shape. */
static kv_array *make_rows_out(trace *t, const cJSON *x)
{
    cJSON *none = cJSON_CreateArray();
    kv_array *out = NULL, *made = replay_sparse_array(&t->r, x, none, none);
    replay_check(&t->r, kv_array_dup(&out, made, kv_array_dtype(made), context(x), &t->r.e), "out");
    kv_array_unref(made);
    cJSON_Delete(none);
    return out;
}

static kv_array *make_ids(trace *t, const cJSON *list)
{
    int64_t n = cJSON_GetArraySize(list), i = 0;
    kv_array *ids = NULL;
    void *data = NULL;
    const cJSON *v;
    replay_check(&t->r, kv_array_new(&ids, KV_INT64, 1, &n, (kv_ctx){0}, &t->r.e), "ids");
    replay_check(&t->r, kv_array_write(ids, &data, &t->r.e), "ids");
    cJSON_ArrayForEach(v, list)((int64_t *)data)[i++] = (int64_t)v->valuedouble;
    return ids;
}

/* ---- Pairs ---- */

static void add_items(trace *t, pairs *p, kv_key key, const cJSON *item)
{
    const cJSON *one;
    if (cJSON_IsArray(item)) {
        cJSON_ArrayForEach(one, item) add_items(t, p, key, one);
    } else if (p->n == MOST_PAIRS) {
        replay_fail(&t->r, "call %d has more than %d pairs", t->number, MOST_PAIRS);
    } else {
        p->keys[p->n] = key;
        p->arrays[p->n] = NULL;
        p->items[p->n++] = item;
    }
}

static void unroll(trace *t, pairs *p, const cJSON *call, const char *field)
{
    const cJSON *keys = replay_get(call, "keys"), *items = field_of(t, call, field), *key;
    int i = 0;
    p->n = 0;
    if (items && !cJSON_IsArray(keys))
        add_items(t, p, replay_key(keys), items);
    else if (items)
        cJSON_ArrayForEach(key, keys)
            add_items(t, p, replay_key(key), cJSON_GetArrayItem(items, i++));
}

static void make_arrays(trace *t, pairs *p, kv_array *(*make)(trace *t, const cJSON *item))
{
    for (int64_t i = 0; i < p->n && !t->r.failed; i++)
        p->arrays[i] = make(t, p->items[i]);
}

static void release(pairs *p)
{
    for (int64_t i = 0; i < p->n; i++)
        kv_array_unref(p->arrays[i]);
    p->n = 0;
}

/* ---- Comparing ---- */

static double epsilon(kv_dtype dtype)
{
    return dtype == KV_FLOAT64   ? 0x1p-52
           : dtype == KV_FLOAT32 ? 0x1p-23
           : dtype == KV_FLOAT16 ? 0x1p-10
                                 : 0;
}

static double number_of(const cJSON *tol, const char *name)
{
    const cJSON *x = replay_get(tol, name);
    return x ? x->valuedouble : 0;
}

static bool within(double got, double want, kv_dtype dtype, const cJSON *tol)
{
    double allowed = number_of(tol, "abs") + number_of(tol, "atol");
    double far = allowed + number_of(tol, "ulp") * epsilon(dtype) * fabs(want);
    return replay_distance(got, want, dtype) == 0 || (far > 0 && fabs(got - want) <= far);
}

static void compare_numbers(trace *t, const double *got, const double *want, int64_t n,
                            kv_dtype dtype, const cJSON *tol, const kv_key *key)
{
    replay *r = &t->r;
    char text[SLOT_KEY_TEXT];
    for (int64_t i = 0; i < n; i++) {
        double far = replay_distance(got[i], want[i], dtype);
        r->exact = r->exact && far == 0;
        if (far > r->worst[dtype])
            r->worst[dtype] = far;
        if (!within(got[i], want[i], dtype, tol))
            replay_fail(r, "call %d (%s): %s, element %lld is %.17g, not %.17g", t->number,
                        replay_get(t->call, "op")->valuestring, slot_key_text(text, key),
                        (long long)i, got[i], want[i]);
    }
}

/* The numbers of an array as doubles: all, or those of its rows. They live as long as *wide. */
static const double *doubles(trace *t, kv_array **wide, kv_array *a, int64_t *n)
{
    bool sparse = kv_array_storage(a) == KV_ROW_SPARSE;
    const void *data = NULL;
    *wide = NULL;
    if (kv_array_dup(wide, a, KV_FLOAT64, (kv_ctx){0}, &t->r.e) ||
        (sparse ? kv_array_read_rows(*wide, &data, &t->r.e) : kv_array_read(*wide, &data, &t->r.e)))
        replay_fail(&t->r, "call %d: %s", t->number, t->r.e.text);
    const int64_t rows = sparse ? kv_array_nrows(a) : 1, first = sparse ? kv_array_shape(a)[0] : 1;
    *n = first > 0 ? kv_array_size(a) / first * rows : 0;
    return data;
}

static bool same_rows(kv_array *a, kv_array *b)
{
    int64_t n = kv_array_nrows(a);
    return kv_array_nrows(b) == n && (n == 0 || memcmp(kv_array_row_ids(a), kv_array_row_ids(b),
                                                       (size_t)n * sizeof(int64_t)) == 0);
}

/* want has the dtype of got: what the record says, rounded to it. */
static void compare_arrays(trace *t, kv_array *got, kv_array *want, const cJSON *tol,
                           const kv_key *key)
{
    kv_array *a, *b;
    int64_t n, m;
    const double *x = doubles(t, &a, got, &n), *y = doubles(t, &b, want, &m);
    if (kv_array_dtype(got) != kv_array_dtype(want) ||
        kv_array_storage(got) != kv_array_storage(want) || !kv_array_same_shape(got, want) ||
        !kv_ctx_same(kv_array_ctx(got), kv_array_ctx(want)))
        replay_fail(&t->r, "call %d: another dtype, storage, shape or context", t->number);
    else if (!same_rows(got, want))
        replay_fail(&t->r, "call %d: %lld rows, not the %lld of the record", t->number,
                    (long long)kv_array_nrows(got), (long long)kv_array_nrows(want));
    else if (!t->r.failed)
        compare_numbers(t, x, y, n, kv_array_dtype(want), tol, key);
    kv_array_unref(a);
    kv_array_unref(b);
}

static bool same_key(const kv_key *a, const kv_key *b)
{
    return a->name && b->name ? strcmp(a->name, b->name) == 0
                              : !a->name && !b->name && a->id == b->id;
}

/* Adds the values of a key from left to right: float32 and float16 in float32, rounded once at the
 * end. *sum has the dtype of the values. NULL when the key is not among them. */
static kv_array *sum_values(trace *t, const pairs *values, const kv_key *key)
{
    kv_array *sum = NULL, *out = NULL;
    double *total = NULL;
    for (int64_t i = 0; i < values->n && !t->r.failed; i++) {
        kv_array *v = values->arrays[i], *wide;
        int64_t n;
        if (!same_key(&values->keys[i], key))
            continue;
        const double *x = doubles(t, &wide, v, &n);
        bool fresh = !sum;
        if (fresh) {
            replay_check(&t->r, kv_array_dup(&sum, wide, KV_FLOAT64, (kv_ctx){0}, &t->r.e), "sum");
            replay_check(&t->r, kv_array_write(sum, (void **)&total, &t->r.e), "sum");
        }
        for (int64_t j = 0; !fresh && j < n; j++)
            total[j] = kv_array_dtype(v) == KV_FLOAT64 ? total[j] + x[j]
                                                       : (double)((float)total[j] + (float)x[j]);
        if (!out)
            out = kv_array_ref(v); /* only for its dtype */
        kv_array_unref(wide);
    }
    if (!sum)
        return NULL;
    kv_dtype dtype = kv_array_dtype(out);
    kv_array_unref(out);
    replay_check(&t->r, kv_array_dup(&out, sum, dtype, replay_ctx(0), &t->r.e), "sum");
    kv_array_unref(sum);
    return out;
}

/* A pull with a tolerance of its own shows a sum that MXNet takes in another order. Ours is exactly
 * the one from left to right, of the values of the last push of the key. */
static void compare_sum(trace *t, const pairs *outs)
{
    static const cJSON exact; /* a tolerance that names nothing */
    static pairs values;
    for (int64_t i = 0; i < outs->n && !t->r.failed; i++) {
        own_array *want = NULL;
        const cJSON *call = t->call;
        while (!want && call != replay_get(t->r.run, "calls")->child && !t->r.failed) {
            call = call->prev;
            unroll(t, &values, call, "values");
            if (strcmp(replay_get(call, "op")->valuestring, "push") == 0) {
                make_arrays(t, &values, make_value);
                want = sum_values(t, &values, &outs->keys[i]);
            }
            release(&values);
        }
        if (want)
            compare_arrays(t, outs->arrays[i], want, &exact, &outs->keys[i]);
    }
}

/* What the record says of a long array: sums, which are exact in double, and some elements. */
static void compare_checksums(trace *t, kv_array *got, const cJSON *want, const kv_key *key)
{
    kv_array *wide;
    int64_t n;
    const double *x = doubles(t, &wide, got, &n);
    double sum = 0, sum_abs = 0, residue[7] = {0};
    char text[SLOT_KEY_TEXT];
    bool same = n == whole(want, "size");
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
        sum_abs += fabs(x[i]);
        residue[i % 7] += x[i];
    }
    same = same && sum == replay_get(want, "sum")->valuedouble &&
           sum_abs == replay_get(want, "sum_abs")->valuedouble;
    const cJSON *at = replay_get(want, "sum_by_residue_7")->child;
    for (int i = 0; i < 7 && at; i++, at = at->next)
        same = same && residue[i] == at->valuedouble;
    const cJSON *value = replay_get(want, "values")->child;
    for (at = replay_get(want, "at")->child; same && at && value; at = at->next) {
        same = x[(int64_t)at->valuedouble] == value->valuedouble;
        value = value->next;
    }
    if (!same)
        replay_fail(&t->r, "call %d: key %s has other sums (%.17g, not %.17g)", t->number,
                    slot_key_text(text, key), sum, replay_get(want, "sum")->valuedouble);
    kv_array_unref(wide);
}

static void compare_one(trace *t, kv_array *got, const cJSON *want, const cJSON *tol,
                        const kv_key *key)
{
    if (replay_get(want, "checksums")) {
        compare_checksums(t, got, replay_get(want, "checksums"), key);
        return;
    }
    kv_array *a = make_value(t, want);
    if (!t->r.failed)
        compare_arrays(t, got, a, tol, key);
    kv_array_unref(a);
}

/* The arrays of a call after it, and what the record says of them. */
static void compare_result(trace *t, const pairs *outs)
{
    static pairs wants;
    const cJSON *own = replay_get(t->call, "tol");
    unroll(t, &wants, t->call, "result");
    if (wants.n != outs->n)
        replay_fail(&t->r, "call %d: %lld arrays, not %lld", t->number, (long long)outs->n,
                    (long long)wants.n);
    for (int64_t i = 0; i < wants.n && !t->r.failed; i++)
        compare_one(t, outs->arrays[i], wants.items[i], own ? own : replay_get(t->r.run, "tol"),
                    &wants.keys[i]);
    if (own)
        compare_sum(t, outs);
    release(&wants);
}

static void take_line(void *arg, const char *line)
{
    buf_printf(arg, "%s ", line);
}

/* The keys in the order in which the updater was called. */
static void compare_updates(trace *t)
{
    own_buf want = {0};
    const cJSON *key;
    cJSON_ArrayForEach(key, replay_get(t->call, "updates"))
    {
        char text[64];
        replay_value_text(text, sizeof text, key);
        buf_printf(&want, "%s ", text);
    }
    if (strcmp(buf_text(&want), buf_text(&t->updates)) != 0)
        replay_fail(&t->r, "call %d: the updater saw the keys %s, not %s", t->number,
                    buf_text(&t->updates), buf_text(&want));
}

/* ---- Calls ---- */

static int call_init(trace *t)
{
    return kv_init(t->r.store, t->in.keys, t->in.n, t->in.arrays, &t->how, &t->r.e);
}

static int call_push(trace *t)
{
    return kv_push(t->r.store, t->in.keys, t->in.n, t->in.arrays, &t->how, &t->r.e);
}

static int call_pull(trace *t)
{
    return kv_pull(t->r.store, t->outs.keys, t->outs.n, t->outs.arrays, &t->how, &t->r.e);
}

/* Without outs it is in place. */
static int call_pushpull(trace *t)
{
    return kv_pushpull(t->r.store, t->in.keys, t->in.n, t->in.arrays, t->outs.keys, t->outs.n,
                       t->outs.arrays, &t->how, &t->r.e);
}

static int call_broadcast(trace *t)
{
    return kv_broadcast(t->r.store, t->in.keys, t->in.n, t->in.arrays, t->outs.keys, t->outs.n,
                        t->outs.arrays, &t->how, &t->r.e);
}

/* One list of ids for all outs, or one for each. */
static int call_row_sparse_pull(trace *t)
{
    const cJSON *ids = field_of(t, t->call, "row_ids");
    bool each = ids->child && cJSON_IsArray(ids->child);
    kv_array *lists[MOST_PAIRS];
    unroll(t, &t->outs, t->call, "result");
    make_arrays(t, &t->outs, make_rows_out);
    for (int64_t i = 0; i < t->outs.n; i++)
        lists[i] = make_ids(t, each ? cJSON_GetArrayItem(ids, (int)i) : ids);
    int rc = kv_row_sparse_pull(t->r.store, t->outs.keys, t->outs.n, lists, t->outs.arrays, &t->how,
                                &t->r.e);
    for (int64_t i = 0; i < t->outs.n; i++)
        kv_array_unref(lists[i]);
    return rc;
}

/* The rule prints its key too: the order of the updates is part of the record. */
static int call_set_updater(trace *t)
{
    const cJSON *program = replay_get(replay_get(t->call, "options"), "program");
    own_buf text = {0};
    kv_rule *rule = NULL;
    buf_printf(&text, "{ print key; %s }", program->valuestring);
    int rc = kv_rule_new(&rule, buf_text(&text), NULL, 0, 0, &t->r.e);
    if (!rc)
        rc = kv_set_rule(t->r.store, rule, NULL, 0, &t->r.e);
    kv_rule_free(rule);
    return rc;
}

static int params_of(kv_opt *opts, char text[][64], const cJSON *params)
{
    int n = 0;
    const cJSON *v;
    cJSON_ArrayForEach(v, params)
    {
        if (n == MOST_PARAMS)
            break;
        replay_value_text(text[n], sizeof text[n], v);
        opts[n] = (kv_opt){v->string, text[n]};
        n++;
    }
    return n;
}

static int call_set_optimizer(trace *t)
{
    kv_opt opts[MOST_PARAMS];
    char text[MOST_PARAMS][64];
    const cJSON *options = replay_get(t->call, "options");
    int n = params_of(opts, text, replay_get(options, "params"));
    return kv_set_optimizer(t->r.store, replay_get(options, "name")->valuestring, opts, n, &t->r.e);
}

static int call_set_gradient_compression(trace *t)
{
    kv_opt opts[MOST_PARAMS];
    char text[MOST_PARAMS][64];
    int n = params_of(opts, text, replay_get(t->call, "options"));
    return kv_set_gradient_compression(t->r.store, opts, n, &t->r.e);
}

static const struct {
    const char *op;
    int (*run)(trace *t);
} calls[] = {
    {"init", call_init},
    {"push", call_push},
    {"pull", call_pull},
    {"pushpull", call_pushpull},
    {"broadcast", call_broadcast},
    {"row_sparse_pull", call_row_sparse_pull},
    {"set_updater", call_set_updater},
    {"set_optimizer", call_set_optimizer},
    {"set_gradient_compression", call_set_gradient_compression},
};

static int run_op(trace *t, const char *op)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].op, op) == 0)
            return calls[i].run(t);
    return kv_err_set(&t->r.e, KV_E_UNSUPPORTED, "there is no such call");
}

/* The outs of a call: as the record lists them, or one for each array of the result. A call of one
 * machine that lists none has none. */
static void make_outs(trace *t, const char *op)
{
    const cJSON *outs = replay_get(t->call, "outs");
    bool rows = strcmp(op, "row_sparse_pull") == 0; /* makes its own */
    bool listed = cJSON_IsArray(outs) || cJSON_IsObject(outs);
    if (rows || (!listed && !replay_get(t->r.run, "workers")))
        return;
    unroll(t, &t->outs, t->call, listed ? "outs" : "result");
    make_arrays(t, &t->outs, make_out);
}

static void run_call(trace *t)
{
    const char *op = replay_get(t->call, "op")->valuestring;
    const cJSON *priority = replay_get(replay_get(t->call, "options"), "priority");
    t->how = (kv_call){.priority = priority ? (int32_t)priority->valuedouble : 0};
    buf_clear(&t->updates);
    unroll(t, &t->in, t->call, "values");
    make_arrays(t, &t->in, make_value);
    make_outs(t, op);
    if (run_op(t, op))
        replay_fail(&t->r, "call %d (%s): %s", t->number, op, t->r.e.text);
    compare_updates(t);
    if (field_of(t, t->call, "result"))
        compare_result(t, t->outs.n ? &t->outs : &t->in);
    release(&t->in);
    release(&t->outs);
}

void trace_run(const cJSON *one, verdict *v)
{
    trace *t = mem_zalloc(1, sizeof *t, NULL);
    t->r = (replay){.run = one, .exact = true};
    replay_check(&t->r,
                 kv_create(replay_get(one, "type")->valuestring, NULL, 0, &t->r.store, &t->r.e),
                 "create");
    kv_set_print(t->r.store, take_line, &t->updates);
    t->call = replay_get(one, "calls")->child;
    for (; t->call && !t->r.failed; t->call = t->call->next) {
        t->number++;
        run_call(t);
    }
    kv_free(t->r.store);
    buf_release(&t->updates);
    replay_count(v, &t->r);
    mem_free(t);
}
