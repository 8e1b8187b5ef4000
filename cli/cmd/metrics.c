/* Samples are collected store by store and put out metric by metric, as the format wants it. */
#include "cmd/metrics.h"

#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "session/result.h"
#include "session/unit.h"

/* topic    of kv_describe, or one whose fields are made here: "counts", "key", "process"
 * field    whose number is the sample, below 0 there is none; NULL: the number is 1
 * words    a field of blank-separated words: a sample for each, which becomes the first label
 * labels   fields that become labels, beside the rank and the store
 * A field that ends in _ms becomes seconds. */
static const struct {
    const char *topic, *field, *words, *metric, *type, *help, *labels[4];
} table[] = {
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

enum { METRICS = sizeof table / sizeof *table };

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
    const char *field = table[i].field;
    char number[NUM_TEXT_MAX] = "1";
    if (field && strstr(field, "_ms"))
        num_plain(number, (double)field_number(f, nf, field) / 1000, NUM_BINARY64);
    else if (field)
        snprintf(number, sizeof number, "%lld", (long long)field_number(f, nf, field));
    buf_printf(b, "%s{rank=\"%lld\"", table[i].metric, (long long)m->rank);
    if (m->store)
        add_label(b, "store", m->store, strlen(m->store));
    for (const char *const *l = table[i].labels; *l; l++) {
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
        const char *field = table[i].field;
        const char *word = table[i].words ? field_text(f, nf, table[i].words) : NULL;
        if (strcmp(table[i].topic, m->topic) != 0)
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
        if (kv_info_at(store, i, &info, e))
            return e->code;
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
        char id[32];
        if (kv_find(store, &keys->keys[i], &info, e))
            return e->code;
        snprintf(id, sizeof id, "%lld", (long long)info.key.id);
        const kv_field fields[] = {{"key", info.key.name ? info.key.name : id, 0},
                                   {"bytes", NULL, info.bytes},
                                   {"pushes", NULL, info.pushes}};
        add_fields(m, fields, 3, e);
    }
    return KV_OK;
}

/* The second number of this file counts pages in RAM; where there is none, there is no sample. */
static void add_memory(metrics *m, kv_err *e)
{
    long long all, resident;
    FILE *f = fopen("/proc/self/statm", "re");
    m->topic = "process";
    m->store = NULL;
    if (f && fscanf(f, "%lld %lld", &all, &resident) == 2)
        add_fields(m, &(kv_field){"resident", NULL, resident * sysconf(_SC_PAGESIZE)}, 1, e);
    if (f)
        fclose(f);
}

static int put_out(buf *out, metrics *m, int rc, kv_err *e)
{
    for (int i = 0; i < METRICS; i++) {
        const buf *b = &m->samples[i];
        if (rc == KV_OK && (rc = buf_check(b, e)) == KV_OK && b->len > 0) {
            buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", table[i].metric, table[i].help,
                       table[i].metric, table[i].type);
            buf_put(out, buf_text(b), b->len);
        }
        buf_release(&m->samples[i]);
    }
    return rc;
}

int metrics_text(buf *out, session *s, const key_list *keys, bool cluster, kv_err *e)
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
    if (rc == KV_OK)
        add_memory(&m, e);
    return put_out(out, &m, rc, e);
}
