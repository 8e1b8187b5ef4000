/* Fixtures of the tests of a server alone: records that two workers send, and the answers, which
 * are looked at one by one. Each file that includes this has its own state; a test is a process of
 * its own. */
#pragma once

#include <unistd.h>

#include "../unit/test.h"
#include "core/store.h"
#include "distributed/alive.h"
#include "distributed/environment.h"
#include "distributed/server.h"
#include "distributed/server_state.h"
#include "server_alone.h"

enum { WORKERS = 2, SERVER = 2, RANKS = 3, MOST = 1024, STORE = 5, N = 8 /* elements of a part */ };
enum { BYTES = N * (int)sizeof(float) };

/* ---- What the server sends, and what lies in the link ---- */

typedef struct sent {
    int rank;
    link_rec r;
    char *data;
} sent;

static sent all[MOST];
static int nsent, nread;
static link_rec *lying[MOST];
static int64_t lying_bytes[MOST];
static int nlying;

static inline void see(int rank, const link_rec *r)
{
    sent *x = &all[nsent++];
    CHECK(nsent < MOST);
    *x = (sent){rank, *r, malloc(r->bytes + 1u)};
    memcpy(x->data, r + 1, r->bytes);
}

static inline void give(int rank, link_rec head, const void *data, int64_t n)
{
    link_rec *r = malloc(sizeof *r + (size_t)n);
    head.bytes = (uint32_t)n;
    *r = head;
    if (n)
        memcpy(r + 1, data, (size_t)n);
    CHECK(nlying < MOST);
    lying_bytes[nlying] = (int64_t)sizeof *r + n;
    lying[nlying++] = r;
    alone_taker.take[head.kind](rank, r);
}

/* Then the link takes its memory back. */
static inline void settle(void)
{
    if (alone_taker.settle)
        alone_taker.settle();
    alone_send_all();
    for (int i = 0; i < nlying; i++) {
        memset(lying[i], 0xEE, (size_t)lying_bytes[i]);
        free(lying[i]);
    }
    nlying = 0;
}

static inline const sent *next_to(int rank, link_kind kind, uint64_t request)
{
    CHECK(nread < nsent);
    const sent *x = &all[nread++];
    CHECK_INT(x->r.kind, kind);
    CHECK_INT(x->rank, rank);
    CHECK_INT(x->r.request, request);
    return x;
}

static inline void no_more(void)
{
    CHECK_INT(nsent - nread, 0);
}

/* Nothing was sent that a test has not looked at, also once the link has its memory back. */
static inline void nothing_comes(void)
{
    settle();
    no_more();
}

static inline void failed(int rank, uint64_t request, kv_code code, const char *text)
{
    kv_err e;
    const sent *x = next_to(rank, LINK_FAILED, request);
    if (link_is_call(&x->r)) /* it names neither a store nor a part */
        CHECK(!x->r.store && !x->r.part);
    memcpy(&e, x->data, sizeof e);
    CHECK_TEXT(e.text, text);
    CHECK_INT(e.code, code);
}

static inline void malformed(int rank, uint64_t request)
{
    failed(rank, request, KV_E_INTERNAL, "a record of another rank is malformed");
}

static inline void done(int rank, uint64_t request, int64_t pushes)
{
    CHECK_INT(next_to(rank, LINK_DONE, request)->r.n, pushes);
}

static inline const sent *replied(int rank, uint64_t number)
{
    const sent *x = next_to(rank, LINK_REPLY, link_call_number(number));
    CHECK_INT(x->r.flags, LINK_LAST);
    return x;
}

/* All elements of a part, in one record: each is first + its number * step. */
static inline void value(int rank, uint64_t request, int64_t chunk, float first, float step)
{
    const sent *x = next_to(rank, LINK_VALUE, request);
    CHECK_INT(x->r.chunk, chunk);
    CHECK_INT(x->r.from, 0);
    CHECK_INT(x->r.bytes, BYTES);
    CHECK_INT(x->r.flags, LINK_LAST);
    CHECK_INT(x->r.store, STORE);
    for (int i = 0; i < N; i++)
        CHECK_INT(((const float *)(const void *)x->data)[i] * 8, (first + (float)i * step) * 8);
}

/* The pushes of both workers are done. */
static inline void both_done(uint64_t first, uint64_t second, int64_t pushes)
{
    settle();
    done(0, first, pushes);
    done(1, second, pushes);
}

/* ---- Records ---- */

static inline void ask(int rank, uint64_t number, dist_ask what, link_args args, const void *data,
                int64_t n)
{
    link_rec r = {.kind = LINK_CALL, .flags = LINK_LAST, .store = STORE,
                  .request = link_call_number(number), .what = what, .args = args};
    give(rank, r, data, n);
}

/* The same, which is answered at once. */
static inline void asked(int rank, uint64_t number, dist_ask what, link_args args,
                         const void *data, int64_t n)
{
    ask(rank, number, what, args, data, n);
    replied(rank, number);
}

static const link_args none;

static inline ask_store form(const char *type, bool is_async, bool sums, int64_t staleness)
{
    ask_store how = {.workers = WORKERS, .servers = 1, .is_async = is_async, .sums = sums,
                     .staleness = staleness};
    strcpy(how.type, type);
    return how;
}

/* This rank serves alone, and is the last one. */
static inline void be_server(int rank, int size)
{
    setenv("KVSTORE_SERVERS", "1", 1);
    environment_read();
    alone_ranks(rank, size);
    alone_sees = see;
}

/* ---- Launchers that go on without a worker ---- */

static char run_folder[] = "/tmp/kvstore-unit-XXXXXX";

/* how: KVSTORE_ELASTIC. */
static inline void be_elastic(const char *how)
{
    CHECK(mkdtemp(run_folder) != NULL);
    setenv("KVSTORE_RUN_DIR", run_folder, 1);
    setenv("KVSTORE_ELASTIC", how, 1);
}

/* The launcher says that a worker is gone. */
static inline void say_gone(int rank)
{
    char path[64];
    snprintf(path, sizeof path, "%s/gone", run_folder);
    FILE *f = fopen(path, "a");
    CHECK(f && fprintf(f, "%d rank %d was killed\n", rank, rank) > 0 && fclose(f) == 0);
}

static inline void end_elastic(void)
{
    static const char *const files[] = {"gone", "lost"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", run_folder, files[i]);
        remove(path);
    }
    CHECK(rmdir(run_folder) == 0);
}

/* ---- Stores ---- */

static inline void open_server(void)
{
    be_server(SERVER, RANKS);
    CHECK_OK(net_open(server_open, &e));
}

static inline server_state *open_store(ask_store how)
{
    open_server();
    ask(0, 1, ASK_CREATE, none, &how, sizeof how);
    no_more(); /* until all have come */
    ask(1, 2, ASK_CREATE, none, &how, sizeof how);
    CHECK_INT(replied(0, 1)->r.bytes, 0);
    CHECK_INT(replied(1, 2)->r.bytes, 0);
    no_more();
    return server_store(STORE);
}

static inline void floats(float *x, float first, float step)
{
    for (int i = 0; i < N; i++)
        x[i] = first + (float)i * step;
}

static inline kv_array *array_of(kv_dtype dtype, float first)
{
    kv_array *a = MADE(kv_array, kv_array_new, dtype, 2, (int64_t[]){4, 2}, (kv_ctx){0});
    void *data = array_data(a);
    if (dtype == KV_FLOAT32)
        floats(data, first, 0);
    return a;
}

/* One part with all of a key, (4, 2) of float32. */
static inline void init_key(int64_t number, const char *name, float first)
{
    own_buf b = {0};
    int64_t shape[] = {4, 2};
    ask_key k = {.id = name ? 0 : number, .dtype = KV_FLOAT32, .ndim = 2,
                 .shape = {4, 2}};
    own_array *a = array_of(KV_FLOAT32, first);
    k.place = place_new(KV_FLOAT32, KV_DEFAULT, 2, shape, PLACE_ANYWHERE, 1);
    k.place.first = number;
    CHECK_OK(ask_put_slot(&b, &k, name, 0, a, &e));
    asked(0, 3, ASK_INIT, (link_args){.inits = 1}, b.data, (int64_t)b.len);
    nothing_comes();
}

/* A store of dist_sync with one key, 0, whose elements are all `first`. */
static inline server_state *store_with_key(float first)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, first);
    return s;
}

/* One part with all of a key of one axis, whose elements are their numbers. */
static inline kv_array *init_flat(int64_t n, int64_t number)
{
    own_buf b = {0};
    void *data;
    kv_array *a = MADE(kv_array, kv_array_new, KV_FLOAT32, 1, &n, (kv_ctx){0});
    CHECK_OK(kv_array_write(a, &data, &e));
    for (int64_t i = 0; i < n; i++)
        ((float *)data)[i] = (float)i;
    ask_key k = {.id = number, .dtype = KV_FLOAT32, .ndim = 1, .shape = {n}};
    k.place = (place){.first = number, .size = n, .step = n, .nparts = 1, .server = -1};
    CHECK_OK(ask_put_slot(&b, &k, NULL, 0, a, &e));
    asked(0, 3, ASK_INIT, (link_args){.inits = 1}, b.data, (int64_t)b.len);
    settle();
    return a;
}

static inline void set_rule(const char *text)
{
    own_buf b = {0};
    buf_put(&b, "rule", 5);
    buf_put(&b, text, strlen(text) + 1);
    asked(0, 4, ASK_OPTIMIZER, none, b.data, (int64_t)b.len);
}

static inline link_rec push_head(int64_t id, int64_t turn, uint64_t request)
{
    return (link_rec){.kind = LINK_PUSH, .flags = LINK_LAST, .store = STORE, .part = id,
                      .request = request, .round = turn, .n = BYTES};
}

static inline void push(int rank, int64_t id, int64_t turn, uint64_t request, float first,
                        float step)
{
    float x[N];
    floats(x, first, step);
    give(rank, push_head(id, turn, request), x, sizeof x);
}

static inline link_rec pull_head(int64_t id, int64_t turn, uint64_t request)
{
    return (link_rec){.kind = LINK_PULL, .flags = LINK_LAST, .store = STORE, .part = id,
                      .request = request, .round = turn, .chunk = 9};
}

static inline void pull(int rank, int64_t id, int64_t turn, uint64_t request)
{
    give(rank, pull_head(id, turn, request), NULL, 0);
}

/* A pull, and the elements that it gives: each is first + its number * step. */
static inline void pull_gives(int rank, int64_t id, int64_t turn, uint64_t request, float first,
                              float step)
{
    pull(rank, id, turn, request);
    settle();
    value(rank, request, 9, first, step);
}

/* The answers to it must be the next ones: each other was looked at. */
static inline void give_up_store(void)
{
    for (int rank = 0; rank < WORKERS; rank++) {
        asked(rank, 90, ASK_FREE, none, NULL, 0);
    }
    nothing_comes();
    CHECK(!server_stores);
}

/* A store that is given up at the end of the block. */
#define own_store OWN(give_up_own_store) server_state
static inline void give_up_own_store(void *address)
{
    (void)address;
    give_up_store();
}
