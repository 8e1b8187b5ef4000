/* Samples are collected store by store and put out metric by metric, as the format wants it. */
#include "cmd/metrics.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "session/result.h"
#include "session/unit.h"

typedef enum metric {
    STORE_INFO,
    STORE_WORKERS,
    STORE_KEYS,
    STORE_BYTES,
    PUSHES_TOTAL,
    ROUNDS_TOTAL,
    PENDING_OPERATIONS,
    SINCE_BYTES_TOTAL,
    WHOLE_BYTES_TOTAL,
    RESIDENT_BYTES,
    KEY_BYTES,
    KEY_PUSHES_TOTAL,
    RANK_KEYS,
    RANK_BYTES,
    RANK_ROUNDS_TOTAL,
    RANK_WAITING_ROUNDS,
    RANK_MISSED,
    RANK_SILENCE_SECONDS,
    METRICS
} metric;

static const struct {
    const char *name, *type, *help;
} table[METRICS] = {
    [STORE_INFO] = {"kvstore_info", "gauge", "1, with the type of the store and its updater."},
    [STORE_WORKERS] = {"kvstore_workers", "gauge", "Workers that share the store."},
    [STORE_KEYS] = {"kvstore_keys", "gauge", "Keys that this rank knows."},
    [STORE_BYTES] = {"kvstore_bytes", "gauge", "Bytes of the values of these keys."},
    [PUSHES_TOTAL] = {"kvstore_pushes_total", "counter",
                      "Pushes of keys by this rank; of one process, all."},
    [ROUNDS_TOTAL] = {"kvstore_rounds_total", "counter",
                      "Pushes of the key that was pushed most often."},
    [PENDING_OPERATIONS] = {"kvstore_waits", "gauge",
                            "Operations on keys that were scheduled and have not ended."},
    [SINCE_BYTES_TOTAL] = {"kvstore_since_bytes_total", "counter",
                           "Bytes that pulls with --since have brought."},
    [WHOLE_BYTES_TOTAL] = {"kvstore_whole_bytes_total", "counter",
                           "Bytes that pulls with --since would have brought as whole arrays."},
    [RESIDENT_BYTES] = {"kvstore_memory_bytes", "gauge",
                        "Memory of the process that is in RAM, of all its stores."},
    [KEY_BYTES] = {"kvstore_key_bytes", "gauge", "Bytes of the value of a key."},
    [KEY_PUSHES_TOTAL] = {"kvstore_key_pushes_total", "counter", "Pushes of a key."},
    [RANK_KEYS] = {"kvstore_server_keys", "gauge", "Keys whose first part the server has."},
    [RANK_BYTES] = {"kvstore_server_bytes", "gauge", "Bytes of the parts that the server keeps."},
    [RANK_ROUNDS_TOTAL] = {"kvstore_server_rounds_total", "counter",
                           "Rounds that the server has applied to its parts."},
    [RANK_WAITING_ROUNDS] = {"kvstore_server_waits", "gauge",
                             "Open rounds of the server that lack a worker."},
    [RANK_MISSED] = {"kvstore_server_missed", "gauge",
                     "1 for each worker that an open round of the server lacks."},
    [RANK_SILENCE_SECONDS] = {"kvstore_silence_seconds", "gauge",
                              "Seconds since the rank was last heard."}};

typedef struct metrics {
    buf samples[METRICS];
    const char *store; /* whose samples are added */
    int64_t rank;
} metrics;

static void add_label(buf *b, const char *name, const char *text)
{
    buf_printf(b, ",%s=\"", name);
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            buf_char(b, '\\');
        if (*text == '\n')
            buf_add(b, "\\n");
        else
            buf_char(b, *text);
    }
    buf_char(b, '"');
}

/* The name and the labels that every sample has. */
static buf *begin(metrics *m, metric what)
{
    buf *b = &m->samples[what];
    buf_printf(b, "%s{rank=\"%lld\"", table[what].name, (long long)m->rank);
    add_label(b, "store", m->store);
    return b;
}

static void end(buf *b, int64_t number)
{
    buf_printf(b, "} %lld\n", (long long)number);
}

static void add(metrics *m, metric what, int64_t number)
{
    end(begin(m, what), number);
}

/* ---- This rank ---- */

/* Receives the description of the store. */
static int add_store(void *arg, const kv_field *f, int n, kv_err *e)
{
    metrics *m = arg;
    (void)e;
    m->rank = field_number(f, n, "rank");
    buf *info = begin(m, STORE_INFO);
    add_label(info, "type", field_text(f, n, "type"));
    add_label(info, "updater", field_text(f, n, "updater"));
    add_label(info, "compression", field_text(f, n, "compression"));
    end(info, 1);
    add(m, STORE_WORKERS, field_number(f, n, "num_workers"));
    add(m, STORE_KEYS, field_number(f, n, "keys"));
    add(m, STORE_BYTES, field_number(f, n, "bytes"));
    add(m, SINCE_BYTES_TOTAL, field_number(f, n, "since_bytes"));
    add(m, WHOLE_BYTES_TOTAL, field_number(f, n, "whole_bytes"));
    return KV_OK;
}

static int add_counts(metrics *m, kv *store, kv_err *e)
{
    int64_t pushes = 0, rounds = 0, pending = 0, n = kv_num_keys(store);
    int code = KV_OK;
    for (int64_t i = 0; i < n && code == KV_OK; i++) {
        kv_info info = {0};
        code = kv_info_at(store, i, &info, e);
        pushes += info.pushes;
        pending += info.pending;
        rounds = info.pushes > rounds ? info.pushes : rounds;
    }
    add(m, PUSHES_TOTAL, pushes);
    add(m, ROUNDS_TOTAL, rounds);
    add(m, PENDING_OPERATIONS, pending);
    return code;
}

static void add_key(metrics *m, metric what, const kv_key *key, int64_t number)
{
    char text[32];
    buf *b = begin(m, what);
    snprintf(text, sizeof text, "%lld", (long long)key->id);
    add_label(b, "key", key->name ? key->name : text);
    end(b, number);
}

static int add_keys(metrics *m, kv *store, const key_list *keys, kv_err *e)
{
    int code = KV_OK;
    for (int64_t i = 0; keys && i < keys->n && code == KV_OK; i++) {
        kv_info info;
        if ((code = kv_find(store, &keys->keys[i], &info, e)))
            break;
        add_key(m, KEY_BYTES, &info.key, info.bytes);
        add_key(m, KEY_PUSHES_TOTAL, &info.key, info.pushes);
    }
    return code;
}

/* The second number of this file counts pages in RAM; where there is none, there is no sample. */
static void add_memory(metrics *m)
{
    long long all, resident;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%lld %lld", &all, &resident) == 2)
        buf_printf(&m->samples[RESIDENT_BYTES], "%s{rank=\"%lld\"} %lld\n",
                   table[RESIDENT_BYTES].name, (long long)m->rank,
                   resident * (long long)sysconf(_SC_PAGESIZE));
    if (f)
        fclose(f);
}

/* ---- All ranks ---- */

static void add_missed(metrics *m, const char *missing)
{
    while (*missing) {
        size_t n = strcspn(missing, " ");
        buf *b = begin(m, RANK_MISSED);
        buf_printf(b, ",worker=\"%.*s\"", (int)n, missing);
        end(b, 1);
        missing += n + (missing[n] == ' ');
    }
}

/* Receives a row of the topic "cluster". */
static int add_rank(void *arg, const kv_field *f, int n, kv_err *e)
{
    metrics *m = arg;
    int64_t silent = field_number(f, n, "heard_ms");
    char seconds[NUM_TEXT_MAX];
    (void)e;
    m->rank = field_number(f, n, "rank");
    if (silent >= 0) {
        num_plain(seconds, (double)silent / 1000, NUM_BINARY64);
        buf *b = begin(m, RANK_SILENCE_SECONDS);
        add_label(b, "role", field_text(f, n, "role"));
        add_label(b, "host", field_text(f, n, "host"));
        buf_printf(b, "} %s\n", seconds);
    }
    if (field_number(f, n, "keys") < 0)
        return KV_OK; /* it does not serve */
    add(m, RANK_KEYS, field_number(f, n, "keys"));
    add(m, RANK_BYTES, field_number(f, n, "bytes"));
    add(m, RANK_ROUNDS_TOTAL, field_number(f, n, "rounds"));
    add(m, RANK_WAITING_ROUNDS, field_number(f, n, "open"));
    add_missed(m, field_text(f, n, "missing"));
    return KV_OK;
}

/* ---- The text ---- */

static int put_out(buf *out, metrics *m, int code, kv_err *e)
{
    for (int i = 0; i < METRICS; i++) {
        const buf *b = &m->samples[i];
        if (code == KV_OK && (code = buf_check(b, e)) == KV_OK && b->len > 0) {
            buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", table[i].name, table[i].help,
                       table[i].name, table[i].type);
            buf_put(out, buf_text(b), b->len);
        }
        buf_release(&m->samples[i]);
    }
    return code;
}

int metrics_text(buf *out, session *s, const key_list *keys, bool cluster, kv_err *e)
{
    metrics m = {0};
    kv *store;
    int code = session_store(s, &store, e);
    if (code == KV_OK && cluster) {
        m.store = s->stores[s->current].name;
        return put_out(out, &m, kv_describe(store, "cluster", add_rank, &m, e), e);
    }
    for (int64_t i = 0; i < s->nstores && code == KV_OK; i++) {
        kv *one = s->stores[i].store;
        m.store = s->stores[i].name;
        if ((code = kv_describe(one, "store", add_store, &m, e)) == KV_OK &&
            (code = add_counts(&m, one, e)) == KV_OK && one == store)
            code = add_keys(&m, one, keys, e);
    }
    if (code == KV_OK)
        add_memory(&m);
    return put_out(out, &m, code, e);
}
