/* Fixtures of the tests of a worker alone: rank 0 of a job whose other ranks are these tests. They
 * place its keys, see each record that it sends, and give it the answers. Key i has ELEMENTS
 * elements of one axis, cut into PARTS parts whose numbers begin with 100 * i; the last part is on
 * the second server. */
#pragma once

#include "records.h"

enum { KEYS = 40, SERVERS = 2, ELEMENTS = 40, STEP = 16, PARTS = 3, MOST_PARTS = 16 };

int kv_plugin_init(const kv_host *host, kv_err *e);

static ask_key made[KEYS]; /* as they were placed */
static kv_storage storage; /* of the keys that are made, */
static kv_dtype dtype = KV_FLOAT32;
static int64_t elements = ELEMENTS, step = STEP, row; /* and their places; row: of two axes */
static int rank_of[MOST_PARTS] = {0, 0, 1};           /* the server of each part */

static inline void *reply_to(const net_call *c, int64_t *bytes)
{
    buf b = {0};
    const char *at = c->data, *end = at + c->bytes;
    while ((c->what == ASK_PLACE || c->what == ASK_FIND) && at < end) {
        kv_key key;
        const ask_key *k = ask_get_key(&at, end, &key);
        CHECK(k && !key.name && key.id >= 0 && key.id < KEYS);
        ask_key *m = &made[key.id];
        if (c->what == ASK_FIND) {
            ask_put_key(&b, m, NULL);
            continue;
        }
        *m = *k;
        m->place = (place){.first = 100 * key.id, .size = elements, .step = step, .row = row,
                           .nparts = (int32_t)((elements - 1) / step + 1), .server = -1};
        if (m->place.nparts == 1)
            m->place.server = 1;
        buf_put(&b, (const char *)&m->place, sizeof m->place);
    }
    *bytes = (int64_t)b.len;
    return b.data;
}

/* Makes a store of a type. servers: how many ranks only serve; 0: both workers do. */
static inline kv *open_worker(const char *type, int servers)
{
    kv *s = NULL;
    char text[16];
    kv_host lib = {.size = sizeof lib, .version = KV_TYPE_VERSION, .library = KV_VERSION,
                   .register_type = kv_register_type, .find_type = kv_find_type};
    snprintf(text, sizeof text, "%d", servers);
    setenv("KVSTORE_SERVERS", text, 1);
    setenv("KVSTORE_THREADS", "1", 1);
    environment_read();
    alone_ranks(0, WORKERS + servers);
    alone_sees = see;
    alone_answers = reply_to;
    CHECK_OK(kv_plugin_init(&lib, &e));
    CHECK_OK(kv_create(type, NULL, 0, &s, &e));
    return s;
}

static inline int server_of(int p)
{
    return WORKERS + rank_of[p];
}

/* ---- Arrays: element i is first + i ---- */

static inline void put_number(void *data, kv_dtype type, int64_t i, double x)
{
    if (type == KV_FLOAT64)
        ((double *)data)[i] = x;
    else if (type == KV_INT32)
        ((int32_t *)data)[i] = (int32_t)x;
    else
        ((float *)data)[i] = (float)x;
}

static inline double number_at(const void *data, kv_dtype type, int64_t i)
{
    return type == KV_FLOAT64 ? ((const double *)data)[i]
           : type == KV_INT32 ? ((const int32_t *)data)[i]
                              : (double)((const float *)data)[i];
}

static inline kv_array *array_from(kv_dtype type, double first)
{
    int64_t shape[] = {row ? elements / row : elements, row};
    kv_array *a = MADE(kv_array, kv_array_new, type, row ? 2 : 1, shape, (kv_ctx){0});
    void *data = array_data(a);
    for (int64_t i = 0; i < elements; i++)
        put_number(data, type, i, first + (double)i);
    return a;
}

/* Waits for what is to write the array. */
static inline void holds(kv_array *a, double first)
{
    const void *data = array_elements(a);
    for (int64_t i = 0; i < elements; i++)
        CHECK_INT(number_at(data, kv_array_dtype(a), i) * 8, (first + (double)i) * 8);
}

static inline kv_key key_of(int64_t id)
{
    return (kv_key){.id = id};
}

/* Keys 0 to n - 1. */
static inline void init_keys(kv *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        kv_key key = key_of(i);
        own_array *a = NULL;
        if (storage == KV_ROW_SPARSE)
            CHECK_OK(kv_array_new_sparse(&a, dtype, 2, (int64_t[]){elements / row, row}, 0, NULL,
                                         (kv_ctx){0}, &e));
        else
            a = array_from(dtype, 0);
        CHECK_OK(kv_init(s, &key, 1, &a, NULL, &e));
    }
}

/* A store of dist_sync with keys 0 to n - 1. */
static inline kv *worker_with_keys(int64_t n)
{
    kv *s = open_worker("dist_sync", SERVERS);
    init_keys(s, n);
    return s;
}

/* ---- Records ---- */

/* What is sent next. */
static inline const sent *next_sent(int rank, link_kind kind)
{
    alone_send_all();
    CHECK(nread < nsent);
    const sent *x = &all[nread++];
    CHECK_INT(x->r.kind, kind);
    CHECK_INT(x->rank, rank);
    CHECK_INT(x->r.store, 0);
    CHECK(!link_is_call(&x->r));
    return x;
}

/* The records of a pull, or of another request, of n keys, by server, in the order of the keys. The
 * first of them is returned. */
static inline const sent *request_of(link_kind kind, const int64_t *ids, int n)
{
    const sent *first = NULL;
    for (int server = 0, chunk = 0; server < SERVERS; server++)
        for (int i = 0; i < n; i++)
            for (int p = 0; p < PARTS; p++) {
                if (rank_of[p] != server)
                    continue;
                const sent *x = next_sent(server_of(p), kind);
                first = first ? first : x;
                CHECK_INT(x->r.request, first->r.request);
                CHECK_INT(x->r.part, 100 * ids[i] + p);
                if (kind == LINK_PULL)
                    CHECK_INT(x->r.chunk, chunk);
                chunk++;
            }
    return first;
}

/* Elements of a part, from one on. */
static inline void give_some(const link_rec *asked, int64_t from, int64_t n, int flags,
                             double first)
{
    char data[ELEMENTS * 8];
    int64_t key = asked->part / 100, p = asked->part % 100;
    int64_t each = kv_dtype_bytes((kv_dtype)made[key].dtype);
    for (int64_t i = 0; i < n; i++)
        put_number(data, (kv_dtype)made[key].dtype, i,
                   first + (double)(p * made[key].place.step + from + i));
    link_rec r = {.kind = LINK_VALUE, .flags = (uint8_t)flags, .part = asked->part,
                  .request = asked->request};
    r.chunk = asked->chunk;
    r.from = from * each;
    give(server_of((int)p), r, data, n * each);
}

/* All elements of a part. */
static inline void give_part(const link_rec *asked, double first)
{
    const place *p = &made[asked->part / 100].place;
    give_some(asked, 0, place_count(p, (int32_t)(asked->part % 100)), LINK_LAST, first);
}

static inline void give_done(uint64_t request, int64_t pushes)
{
    link_rec r = {.kind = LINK_DONE, .request = request};
    r.n = pushes;
    give(WORKERS, r, NULL, 0);
}

static inline void give_failed(uint64_t request, const char *text)
{
    kv_err why = {0};
    kv_err_set(&why, KV_E_VALUE, "%s", text);
    give(WORKERS, (link_rec){.kind = LINK_FAILED, .request = request}, &why, sizeof why);
}

/* Nobody looks at what was sent so far any more. */
static inline void forget_sent(void)
{
    for (int i = 0; i < nsent; i++)
        free(all[i].data);
    nread = nsent = 0;
}

/* Ends the store, when nothing is on its way. */
static inline void end_worker(kv *s)
{
    nothing_comes();
    CHECK_OK(kv_wait(s, &e));
    kv_free(s);
}

/* A worker's store that ends with the block. */
#define own_worker OWN(end_own_worker) kv
static inline void end_own_worker(void *address)
{
    end_worker(*(kv **)address);
}
