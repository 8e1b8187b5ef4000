/* Commands that show a store as tables: info, ls of keys, rows; and its counters as metrics for
 * Prometheus. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "cmd/commands.h"
#include "cmd/pairs.h"
#include "eval/eval.h"
#include "files/files.h"
#include "session/containers.h"
#include "session/result.h"
#include "session/unit.h"
#include "syntax/file_kind.h"

/* ---- Metrics ---- */

/* The stores of a session as Prometheus reads them: the text format 0.0.4, a HELP and a TYPE line
 * for each metric, then a line for each sample. Labels: `store`, the name of the store in the
 * session, and `rank`. What a metric counts stands in sources.
 */

/* topic    of kv_describe, or one whose fields are made here: "counts", "key", "process"
 * field    whose number is the sample, below 0 there is none; NULL: the number is 1
 * words    a field of blank-separated words: a sample for each, which becomes the first label
 * labels   fields that become labels, beside the rank and the store
 * A field that ends in _ms becomes seconds. */
static const struct {
    const char *topic, *field, *words, *metric, *type, *help, *labels[4];
} sources[] = {
    {"store", NULL, NULL, "kvstore_info", "gauge", "1, with the type of the store and its updater.",
     {"type", "updater", "compression"}},
    {"store", "num_workers", NULL, "kvstore_workers", "gauge", "Workers that share the store.",
     {NULL}},
    {"store", "keys", NULL, "kvstore_keys", "gauge", "Keys that this rank knows.", {NULL}},
    {"store", "bytes", NULL, "kvstore_bytes", "gauge", "Bytes of the values of these keys.",
     {NULL}},
    {"counts", "pushes", NULL, "kvstore_pushes_total", "counter",
     "Pushes of keys by this rank; of one process, all.", {NULL}},
    {"counts", "rounds", NULL, "kvstore_rounds_total", "counter",
     "Pushes of the key that was pushed most often.", {NULL}},
    {"counts", "pending", NULL, "kvstore_waits", "gauge",
     "Operations on keys that were scheduled and have not ended.", {NULL}},
    {"store", "since_bytes", NULL, "kvstore_since_bytes_total", "counter",
     "Bytes that pulls with --since have brought.", {NULL}},
    {"store", "whole_bytes", NULL, "kvstore_whole_bytes_total", "counter",
     "Bytes that pulls with --since would have brought as whole arrays.", {NULL}},
    {"process", "resident", NULL, "kvstore_memory_bytes", "gauge",
     "Memory of the process that is in RAM, of all its stores.", {NULL}},
    {"key", "bytes", NULL, "kvstore_key_bytes", "gauge", "Bytes of the value of a key.", {"key"}},
    {"key", "pushes", NULL, "kvstore_key_pushes_total", "counter", "Pushes of a key.", {"key"}},
    {"cluster", "keys", NULL, "kvstore_server_keys", "gauge",
     "Keys whose first part the server has.", {NULL}},
    {"cluster", "bytes", NULL, "kvstore_server_bytes", "gauge",
     "Bytes of the parts that the server keeps.", {NULL}},
    {"cluster", "rounds", NULL, "kvstore_server_rounds_total", "counter",
     "Rounds that the server has applied to its parts.", {NULL}},
    {"cluster", "open", NULL, "kvstore_server_waits", "gauge",
     "Open rounds of the server that lack a worker.", {NULL}},
    {"cluster", NULL, "missing", "kvstore_server_missed", "gauge",
     "1 for each worker that an open round of the server lacks.", {"worker"}},
    {"cluster", "heard_ms", NULL, "kvstore_silence_seconds", "gauge",
     "Seconds since the rank was last heard.", {"role", "host"}}};

enum { METRICS = sizeof sources / sizeof *sources };

typedef struct metrics {
    buf samples[METRICS];
    const char *topic, *store; /* whose samples are added; store NULL: of none */
    int64_t rank;
} metrics;

static void add_label(buf *b, const char *name, const char *text, size_t n)
{
    buf_printf(b, ",%s=\"", name);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\' || text[i] == '"')
            buf_char(b, '\\');
        if (text[i] == '\n')
            buf_add(b, "\\n");
        else
            buf_char(b, text[i]);
    }
    buf_char(b, '"');
}

/* word, n: the first label where the metric has `words`, else NULL. */
static void add_sample(metrics *m, int i, const char *word, size_t n, const kv_field *f, int nf)
{
    buf *b = &m->samples[i];
    const char *field = sources[i].field;
    char number[NUM_TEXT_MAX] = "1";
    if (field && strstr(field, "_ms"))
        num_plain(number, (double)field_number(f, nf, field) / 1000, NUM_BINARY64);
    else if (field)
        snprintf(number, sizeof number, "%lld", (long long)field_number(f, nf, field));
    buf_printf(b, "%s{rank=\"%lld\"", sources[i].metric, (long long)m->rank);
    if (m->store)
        add_label(b, "store", m->store, strlen(m->store));
    for (const char *const *l = sources[i].labels; *l; l++) {
        const char *text = word ? word : field_text(f, nf, *l);
        add_label(b, *l, text, word ? n : strlen(text));
    }
    buf_printf(b, "} %s\n", number);
}

/* Receives the fields of a topic. */
static int add_fields(void *arg, const kv_field *f, int nf, kv_err *e)
{
    metrics *m = arg;
    (void)e;
    if (strcmp(m->topic, "store") == 0 || strcmp(m->topic, "cluster") == 0)
        m->rank = field_number(f, nf, "rank");
    for (int i = 0; i < METRICS; i++) {
        const char *field = sources[i].field;
        const char *word = sources[i].words ? field_text(f, nf, sources[i].words) : NULL;
        if (strcmp(sources[i].topic, m->topic) != 0)
            continue;
        for (size_t n; word && *word; word += n + (word[n] == ' ')) {
            n = strcspn(word, " ");
            add_sample(m, i, word, n, f, nf);
        }
        if (!word && (!field || field_number(f, nf, field) >= 0))
            add_sample(m, i, NULL, 0, f, nf);
    }
    return KV_OK;
}

static int describe(metrics *m, kv *store, const char *topic, kv_err *e)
{
    m->topic = topic;
    return kv_describe(store, topic, add_fields, m, e);
}

static int add_counts(metrics *m, kv *store, kv_err *e)
{
    int64_t pushes = 0, rounds = 0, pending = 0, n = kv_num_keys(store);
    for (int64_t i = 0; i < n; i++) {
        kv_info info = {0};
        TRY(kv_info_at(store, i, &info, e));
        pushes += info.pushes;
        pending += info.pending;
        rounds = info.pushes > rounds ? info.pushes : rounds;
    }
    m->topic = "counts";
    const kv_field fields[] = {
        {"pushes", NULL, pushes}, {"rounds", NULL, rounds}, {"pending", NULL, pending}};
    return add_fields(m, fields, 3, e);
}

static int add_keys(metrics *m, kv *store, const key_list *keys, kv_err *e)
{
    m->topic = "key";
    for (int64_t i = 0; keys && i < keys->n; i++) {
        kv_info info;
        char number[NUM_TEXT_MAX];
        TRY(kv_find(store, &keys->keys[i], &info, e));
        const kv_field fields[] = {{"key", named_key(info.key, number), 0},
                                   {"bytes", NULL, info.bytes},
                                   {"pushes", NULL, info.pushes}};
        add_fields(m, fields, 3, e);
    }
    return KV_OK;
}

static int put_out(buf *out, metrics *m, int rc, kv_err *e)
{
    for (int i = 0; i < METRICS; i++) {
        const buf *b = &m->samples[i];
        if (rc == KV_OK && (rc = buf_check(b, e)) == KV_OK && b->len > 0) {
            buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", sources[i].metric, sources[i].help,
                       sources[i].metric, sources[i].type);
            buf_put(out, buf_text(b), b->len);
        }
        buf_release(&m->samples[i]);
    }
    return rc;
}

/* Appends the metrics of all stores of the session; of the one in use also a row for each of some
 * keys, when keys is not NULL. cluster: what each rank tells of its part of the store in use, in
 * place of what this rank counts. Errors: those of kv_describe and kv_find. */
static int metrics_text(buf *out, session *s, const key_list *keys, bool cluster, kv_err *e)
{
    metrics m = {0};
    kv *store;
    int rc = session_store(s, &store, e);
    if (rc == KV_OK && cluster) {
        m.store = s->stores[s->current].name;
        return put_out(out, &m, describe(&m, store, "cluster", e), e);
    }
    for (int64_t i = 0; i < s->nstores && rc == KV_OK; i++) {
        kv *one = s->stores[i].store;
        m.store = s->stores[i].name;
        if ((rc = describe(&m, one, "store", e)) == KV_OK &&
            (rc = add_counts(&m, one, e)) == KV_OK && one == store)
            rc = add_keys(&m, one, keys, e);
    }
    if (rc == KV_OK) {
        /* the second number of this file counts pages in RAM; without it nothing is added */
        long long all, resident;
        own_stream *f = fopen("/proc/self/statm", "re");
        m.topic = "process";
        m.store = NULL;
        if (f && fscanf(f, "%lld %lld", &all, &resident) == 2)
            add_fields(&m, &(kv_field){"resident", NULL, resident * sysconf(_SC_PAGESIZE)}, 1, e);
    }
    return put_out(out, &m, rc, e);
}

/* ---- list, info ---- */

int cmd_list(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column columns[] = {{"key", NULL}};
    kv *store;
    own_rows table = {columns, 1, NULL, 0, 0};
    const char *glob = NULL;
    own_key_list keys = {0};
    TRY(session_store(s, &store, e));
    if (call->kid[0] && !(glob = eval_word(s, call->kid[0], "a pattern", out, e)))
        return e->code;
    TRY(eval_matching(store, glob, &keys, e));
    for (int64_t i = 0; i < keys.n; i++)
        TRY(rows_add_key(&table, keys.keys[i], e));
    if (keys.n == 0 && glob && file_is_checkpoint(glob)) {
        unit_err(s, call->kid[0], e, KV_E_KEY, "no key of the store matches `%.200s`", glob);
        return kv_err_hint(e, "ls %.200s lists the keys of a file, stat their numbers", glob);
    }
    return result_table(out, &(buf){0}, &table, KV_OK, e);
}

static int add_info(rows *table, const kv_info *info, kv_err *e)
{
    TRY(rows_add_key(table, info->key, e));
    TRY(rows_add_text(table, kv_dtype_name(info->dtype), e));
    TRY(rows_add_shape(table, info->ndim, info->shape, e));
    TRY(rows_add(table, value_ctx(info->ctx), e));
    TRY(rows_add_text(table, kv_storage_name(info->storage), e));
    TRY(rows_add(table, value_int(info->bytes), e));
    TRY(rows_add(table, value_int(info->pushes), e));
    return rows_add(table, value_int(info->pending), e);
}

/* Receives the description of the store, as rows of a name and a value. */
static int add_field(void *arg, const kv_field *fields, int n, kv_err *e)
{
    rows *summary = arg;
    for (int i = 0; i < n; i++) {
        TRY(rows_add_text(summary, fields[i].name, e));
        TRY(fields[i].text ? rows_add_text(summary, fields[i].text, e)
                           : rows_add(summary, value_int(fields[i].number), e));
    }
    return KV_OK;
}

/* The rows of some keys, or of all. */
static int add_infos(kv *store, rows *table, const key_list *keys, kv_err *e)
{
    static const rows_column columns[] = {
        {"key", "key"},       {"dtype", "dtype"}, {"shape", "shape"},   {"ctx", "context"},
        {"stype", "storage"}, {"bytes", "bytes"}, {"pushes", "pushes"}, {"pending", "pending"}};
    int64_t n = keys ? keys->n : kv_num_keys(store);
    *table = (rows){columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    for (int64_t i = 0; i < n; i++) {
        kv_info info;
        TRY(keys ? kv_find(store, &keys->keys[i], &info, e) : kv_info_at(store, i, &info, e));
        TRY(add_info(table, &info, e));
    }
    return KV_OK;
}

/* Receives a row of the topic "cluster". */
static int add_rank(void *arg, const kv_field *f, int n, kv_err *e)
{
    rows *table = arg;
    for (int i = 0; i < n; i++)
        TRY(f[i].text ? rows_add_text(table, *f[i].text ? f[i].text : NULL, e)
                      : rows_add_known(table, f[i].number >= 0, value_int(f[i].number), e));
    return KV_OK;
}

/* Receives a row of the topic "rounds". */
static int add_rounds(void *arg, const kv_field *f, int n, kv_err *e)
{
    TRY(rows_add_key(arg, (kv_key){f[0].number, f[0].text}, e));
    return add_rank(arg, f + 1, n - 1, e);
}

static int info_cluster(kv *store, result *out, kv_err *e)
{
    static const rows_column columns[] = {
        {"rank", "rank"},       {"role", "role"},       {"host", "host"}, {"heard_ms", "heard ms"},
        {"link", "link"},       {"keys", "keys"},       {"bytes", "bytes"}, {"rounds", "rounds"},
        {"open", "open"},       {"missing", "missing"}, {"stalest", "stalest"},
        {"contributors", "contributors"}};
    rows table = {columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    int rc = kv_describe(store, "cluster", add_rank, &table, e);
    return result_table(out, &(buf){0}, &table, rc, e);
}

static int info_metrics(session *s, const ast *call, result *out, kv_err *e)
{
    own_buf text = {0};
    own_key_list keys = {0};
    key_list *some = call->kid[0] ? &keys : NULL;
    bool cluster = command_option_of(call, "cluster");
    TRY(some ? eval_keys(s, call->kid[0], &keys, e) : KV_OK);
    if (some && cluster)
        return unit_err(s, call->kid[0], e, KV_E_USAGE,
                        "the ranks of --cluster tell of all their keys together");
    if (metrics_text(&text, s, some, cluster, e))
        return unit_at(s, some ? call->kid[0] : call, e);
    return result_text(out, &text, KV_OK, e);
}

int cmd_rounds(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column columns[] = {{"key", "key"},       {"round", "round"},
                                          {"newest", "newest"}, {"ahead", "ahead"},
                                          {"pushed", "pushed"}, {"missing", "missing"}};
    rows table = {columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    kv *store;
    (void)call;
    TRY(session_store(s, &store, e));
    int rc = kv_describe(store, "rounds", add_rounds, &table, e);
    return result_table(out, &(buf){0}, &table, rc, e);
}

/* ---- info --states ---- */

/* An integer or a float, when that is what the text holds. */
static bool scan_number(const char *text, value *out)
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
    scan_number(text, &v);
    return v;
}

/* Receives the row of the topic "optimizer", as rows of a name and a value. */
static int add_optimizer_field(void *arg, const kv_field *f, int n, kv_err *e)
{
    rows *summary = arg;
    for (int i = 0; i < n; i++) {
        value v = value_int(f[i].number);
        TRY(rows_add_text(summary, f[i].name, e));
        TRY(f[i].text && !scan_number(f[i].text, &v) ? rows_add_text(summary, f[i].text, e)
                                                     : rows_add(summary, v, e));
    }
    return KV_OK;
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
    (void)n;
    if (v->wanted && map_get(v->wanted, key) < 0)
        return KV_OK;
    TRY(rows_add_key(table, key, e));
    TRY(rows_add_text(table, *f[1].text ? f[1].text : NULL, e));
    TRY(rows_add_text(table, *dtype ? dtype : NULL, e));
    TRY(*shape ? add_shape(table, shape, e) : rows_add(table, value_none(), e));
    TRY(rows_add(table, number_of(dtype, f[4].text), e));
    TRY(rows_add(table, value_int(f[5].number), e));
    return rows_add(table, value_int(f[6].number), e);
}

/* The states of these keys, in the order of updates; keys NULL: of all. The caller releases *table,
 * also after a failure. Errors: key, usage (no optimizer), unsupported (the updater is a C
 * function), memory. */
static int states_table(kv *store, rows *table, const key_list *keys, kv_err *e)
{
    static const rows_column columns[] = {
        {"key", "key"},     {"state", "state"}, {"dtype", "dtype"}, {"shape", "shape"},
        {"value", "value"}, {"bytes", "bytes"}, {"t", "t"}};
    own_map wanted = {0};
    *table = (rows){columns, sizeof columns / sizeof *columns, NULL, 0, 0};
    for (int64_t i = 0; keys && i < keys->n; i++) {
        kv_info info;
        TRY(kv_find(store, &keys->keys[i], &info, e));
        TRY(map_put(&wanted, keys->keys[i], i, e));
    }
    return kv_describe(store, "states", add_state, &(visit){table, keys ? &wanted : NULL}, e);
}

int cmd_info(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column pair[] = {{"name", NULL}, {"value", NULL}};
    kv *store;
    own_key_list keys = {0};
    const key_list *some = call->kid[0] ? &keys : NULL;
    own_buf text = {0};
    own_rows table = {0};
    bool states = command_option_of(call, "states") != NULL;
    if (command_option_of(call, "metrics"))
        return info_metrics(s, call, out, e);
    TRY(session_store(s, &store, e));
    if (command_option_of(call, "cluster"))
        return info_cluster(store, out, e);
    TRY(some ? eval_keys(s, call->kid[0], &keys, e) : KV_OK);
    if (states || !some) {
        out->summary = (rows){pair, 2, NULL, 0, 0};
        TRY(states ? kv_describe(store, "optimizer", add_optimizer_field, &out->summary, e)
                   : kv_describe(store, "store", add_field, &out->summary, e));
        /* "type local, rank 0, …" */
        for (int64_t i = 0; i < out->summary.n; i++) {
            buf_add(&text, i == 0 ? "" : i % 2 ? " " : ", ");
            value_print(&text, out->summary.cells[i], false);
        }
        buf_char(&text, '\n');
    }
    if (states ? states_table(store, &table, some, e) : add_infos(store, &table, some, e)) {
        pairs_suggest(store, e);
        return unit_at(s, some ? call->kid[0] : call, e);
    }
    return result_table(out, &text, &table, KV_OK, e);
}

/* ---- vars ---- */

int cmd_vars(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column columns[] = {{"name", NULL}, {"holds", NULL}};
    own_rows table = {columns, 2, NULL, 0, 0};
    own_buf held = {0};
    (void)call;
    for (int64_t i = 0; i < s->globals.n; i++) {
        buf_clear(&held);
        /* on one line: big arrays by their shape */
        char shape[256], ctx[KV_CTX_TEXT];
        value v = s->globals.items[i].v;
        if (v.kind == VALUE_ARRAY) {
            kv_array *a = v.u.box->array;
            buf_printf(&held, "array %s %s %s",
                       kv_shape_text(shape, sizeof shape, kv_array_ndim(a), kv_array_shape(a)),
                       kv_dtype_name(kv_array_dtype(a)), kv_ctx_text(ctx, kv_array_ctx(a)));
        } else if (value_is_sequence(v) && v.u.list->n > 10) {
            buf_printf(&held, "%s of %lld items", v.kind == VALUE_LIST ? "list" : "tuple",
                       (long long)v.u.list->n);
        } else {
            value_print(&held, v, true);
        }
        TRY(buf_check(&held, e));
        TRY(rows_add_text(&table, s->globals.items[i].name, e));
        TRY(rows_add_text(&table, buf_text(&held), e));
    }
    return result_table(out, &(buf){0}, &table, KV_OK, e);
}

/* ---- row-sparse-pull ---- */

/* row-sparse-pull: rows by their ids. The lists of ids are made first, then the arrays that rows go
 * into; each of these gets a list of its own, that of its key, or the one list there is. */

static bool is_number_list(value v)
{
    for (int64_t i = 0; i < v.u.list->n; i++)
        if (!value_is_number(v.u.list->items[i]))
            return false;
    return true;
}

/* Adds the lists of v: an array, a number or a list of numbers is one. */
static int add_lists(value_stack *l, value v, kv_err *e)
{
    kv_array *a;
    value ids;
    TRY(value_descend(e));
    if (value_is_sequence(v) && !is_number_list(v)) {
        for (int64_t i = 0; i < v.u.list->n; i++)
            TRY(add_lists(l, v.u.list->items[i], e));
        return KV_OK;
    }
    if (v.kind != VALUE_ARRAY && !value_is_number(v) && !value_is_sequence(v))
        return kv_err_set(e, KV_E_DTYPE, "row ids are integers, not %s", value_kind_name(v));
    TRY(eval_ids(v, &a, e));
    TRY(value_array(&ids, a, e));
    return value_stack_add(l, ids, e);
}

/* The list of --row-ids for each of the pairs, in *out. */
static int match_lists(kv_array ***out, const value_stack *l, const key_list *keys, const pairs *p,
                       kv_err *e)
{
    int64_t a_key = keys->n > 0 ? p->n / keys->n : 1; /* arrays of each key, if all have as many */
    bool by_key = l->n == keys->n && p->n == a_key * keys->n;
    for (int64_t i = 0; i < p->n && by_key; i++)
        by_key = p->keys[i].name == keys->keys[i / a_key].name &&
                 p->keys[i].id == keys->keys[i / a_key].id;
    if (l->n != 1 && l->n != p->n && !by_key)
        return kv_err_set(e, KV_E_VALUE,
                          "there are %lld lists of row ids for %lld array%s of %lld key%s",
                          (long long)l->n, (long long)p->n, p->n == 1 ? "" : "s",
                          (long long)keys->n, keys->n == 1 ? "" : "s");
    kv_array **ids = mem_alloc(p->n, sizeof *ids, e);
    if (!ids)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < p->n; i++)
        ids[i] = l->items[l->n == 1 ? 0 : l->n == p->n ? i : i / a_key].u.box->array;
    *out = ids;
    return KV_OK;
}

/* ---- The command ----------------------------------------------------------------------------- */

/* An error of the call has the place of what is wrong: the ids, the array, or else the keys. */
static int place_error(session *s, const ast *call, kv *store, kv_err *e)
{
    const ast *at = call->kid[0], *into = command_option_of(call, "out");
    if (e->code == KV_E_INDEX || e->code == KV_E_DTYPE)
        at = command_option_of(call, "row-ids");
    else if (e->code == KV_E_SHAPE && into)
        at = into;
    else if (e->code == KV_E_KEY)
        pairs_suggest(store, e);
    return unit_at(s, at, e);
}

static int pull_rows(session *s, kv *store, const ast *call, const key_list *keys, result *out,
                     kv_err *e)
{
    const ast *ids_node = command_option_of(call, "row-ids");
    own_value ids = value_none();
    own_stack lists = {0};
    own_pairs p = {0};
    own_mem kv_array **each = NULL;
    kv_call how;
    TRY(command_priority(s, call, &how, e));
    TRY(eval(s, ids_node, &ids, e));
    out->dense = !command_option_of(call, "out");
    if (add_lists(&lists, ids, e))
        return unit_at(s, ids_node, e);
    TRY(pairs_outs(&p, s, store, call, keys, true, out, e));
    if (match_lists(&each, &lists, keys, &p, e))
        return unit_at(s, ids_node, e);
    return kv_row_sparse_pull(store, p.keys, p.n, each, p.arrays, &how, e);
}

int cmd_row_sparse_pull(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    own_key_list keys = {0};
    TRY(session_store(s, &store, e));
    /* a store that has no rows says so */
    TRY(kv_row_sparse_pull(store, NULL, 0, NULL, NULL, NULL, e));
    TRY(eval_keys(s, call->kid[0], &keys, e));
    TRY(command_keys(s, &keys, out, e));
    return pull_rows(s, store, call, &keys, out, e) ? place_error(s, call, store, e) : KV_OK;
}
