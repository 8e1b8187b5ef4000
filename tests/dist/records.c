/* A server of two workers, without a net: records that workers send are handed to it, and what it
 * answers is looked at one by one. What a job of real workers never sends is sent here too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "base/buf.h"
#include "base/mem.h"
#include "core/store.h"
#include "distributed/environment.h"
#include "distributed/rounds.h"
#include "distributed/server.h"
#include "server_alone.h"
#include "unit/test.h"

enum { WORKERS = 2, SERVER = 2, RANKS = 3, MOST = 256, STORE = 5, N = 8 /* elements of a part */ };
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

static void see(int rank, const link_rec *r)
{
    sent *x = &all[nsent++];
    CHECK(nsent < MOST);
    *x = (sent){rank, *r, malloc(r->bytes + 1u)};
    memcpy(x->data, r + 1, r->bytes);
}

static void give(int rank, link_rec head, const void *data, int64_t n)
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
static void settle(void)
{
    alone_taker.settle();
    alone_send_all();
    for (int i = 0; i < nlying; i++) {
        memset(lying[i], 0xEE, (size_t)lying_bytes[i]);
        free(lying[i]);
    }
    nlying = 0;
}

static const sent *next_to(int rank, link_kind kind, uint64_t request)
{
    CHECK(nread < nsent);
    const sent *x = &all[nread++];
    CHECK_INT(x->r.kind, kind);
    CHECK_INT(x->rank, rank);
    CHECK_INT(x->r.request, request);
    return x;
}

static void no_more(void)
{
    CHECK_INT(nsent - nread, 0);
}

static void failed(int rank, uint64_t request, kv_code code, const char *text)
{
    kv_err e;
    const sent *x = next_to(rank, LINK_FAILED, request);
    memcpy(&e, x->data, sizeof e);
    CHECK_TEXT(e.text, text);
    CHECK_INT(e.code, code);
}

static void malformed(int rank, uint64_t request)
{
    failed(rank, request, KV_E_INTERNAL, "a record of another rank is malformed");
}

static void done(int rank, uint64_t request, int64_t pushes)
{
    CHECK_INT(next_to(rank, LINK_DONE, request)->r.done.pushes, pushes);
}

static const sent *replied(int rank, uint64_t number)
{
    const sent *x = next_to(rank, LINK_REPLY, link_call_number(number));
    CHECK_INT(x->r.flags, LINK_LAST);
    return x;
}

/* All elements of a part, in one record: each is first + its number * step. */
static void value(int rank, uint64_t request, int64_t chunk, float first, float step)
{
    const sent *x = next_to(rank, LINK_VALUE, request);
    CHECK_INT(x->r.value.chunk, chunk);
    CHECK_INT(x->r.value.offset, 0);
    CHECK_INT(x->r.bytes, BYTES);
    CHECK_INT(x->r.flags, LINK_LAST);
    CHECK_INT(x->r.store, STORE);
    for (int i = 0; i < N; i++)
        CHECK_INT(((const float *)(const void *)x->data)[i] * 8, (first + (float)i * step) * 8);
}

/* ---- Records ---- */

static void ask(int rank, uint64_t number, dist_ask what, link_args args, const void *data,
                int64_t n)
{
    link_rec r = {.kind = LINK_CALL, .flags = LINK_LAST, .store = STORE,
                  .request = link_call_number(number), .call = {.what = what, .args = args}};
    give(rank, r, data, n);
}

static const link_args none;

static ask_store form(const char *type, bool is_async, bool sums, int64_t staleness)
{
    ask_store how = {.workers = WORKERS, .servers = 1, .is_async = is_async, .sums = sums,
                     .staleness = staleness};
    strcpy(how.type, type);
    return how;
}

static void open_server(void)
{
    kv_err e = {0};
    setenv("KVSTORE_SERVERS", "1", 1);
    environment_read();
    alone_ranks(SERVER, RANKS);
    alone_sees = see;
    CHECK_OK(net_open(server_open, &e));
}

static server_state *open_store(ask_store how)
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

static void floats(float *x, float first, float step)
{
    for (int i = 0; i < N; i++)
        x[i] = first + (float)i * step;
}

static kv_array *array_of(kv_dtype dtype, float first)
{
    kv_err e = {0};
    kv_array *a = NULL;
    void *data;
    CHECK_OK(kv_array_new(&a, dtype, 2, (int64_t[]){4, 2}, (kv_ctx){0}, &e));
    CHECK_OK(kv_array_write(a, &data, &e));
    if (dtype == KV_FLOAT32)
        floats(data, first, 0);
    return a;
}

/* One part with all of a key, (4, 2) of float32. */
static void init_key(int64_t number, const char *name, float first)
{
    kv_err e = {0};
    buf b = {0};
    int64_t shape[] = {4, 2};
    ask_key k = {.id = name ? 0 : number, .dtype = KV_FLOAT32, .ndim = 2,
                 .shape = {4, 2}};
    kv_array *a = array_of(KV_FLOAT32, first);
    k.place = place_new(KV_FLOAT32, KV_DEFAULT, 2, shape, PLACE_ANYWHERE, 1);
    k.place.first = number;
    CHECK_OK(ask_put_slot(&b, &k, name, 0, a, &e));
    ask(0, 3, ASK_INIT, (link_args){.inits = 1}, b.data, (int64_t)b.len);
    replied(0, 3);
    settle();
    no_more();
    kv_array_unref(a);
    buf_release(&b);
}

/* One part with all of a key of one axis, whose elements are their numbers. */
static kv_array *init_flat(int64_t n)
{
    kv_err e = {0};
    buf b = {0};
    kv_array *a = NULL;
    void *data;
    CHECK_OK(kv_array_new(&a, KV_FLOAT32, 1, &n, (kv_ctx){0}, &e));
    CHECK_OK(kv_array_write(a, &data, &e));
    for (int64_t i = 0; i < n; i++)
        ((float *)data)[i] = (float)i;
    ask_key k = {.dtype = KV_FLOAT32, .ndim = 1, .shape = {n}};
    k.place = (place){.size = n, .step = n, .nparts = 1, .server = -1};
    CHECK_OK(ask_put_slot(&b, &k, NULL, 0, a, &e));
    ask(0, 3, ASK_INIT, (link_args){.inits = 1}, b.data, (int64_t)b.len);
    replied(0, 3);
    settle();
    buf_release(&b);
    return a;
}

static void set_rule(const char *text)
{
    buf b = {0};
    buf_put(&b, "rule", 5);
    buf_put(&b, text, strlen(text) + 1);
    ask(0, 4, ASK_OPTIMIZER, none, b.data, (int64_t)b.len);
    replied(0, 4);
    buf_release(&b);
}

static link_rec push_head(int64_t id, int64_t turn, uint64_t request)
{
    return (link_rec){.kind = LINK_PUSH, .flags = LINK_LAST, .store = STORE, .part = id,
                      .request = request, .push = {.round = turn, .total = BYTES}};
}

static void push(int rank, int64_t id, int64_t turn, uint64_t request, float first, float step)
{
    float x[N];
    floats(x, first, step);
    give(rank, push_head(id, turn, request), x, sizeof x);
}

static link_rec pull_head(int64_t id, int64_t turn, uint64_t request)
{
    return (link_rec){.kind = LINK_PULL, .flags = LINK_LAST, .store = STORE, .part = id,
                      .request = request, .pull = {.round = turn, .chunk = 9}};
}

static void pull(int rank, int64_t id, int64_t turn, uint64_t request)
{
    give(rank, pull_head(id, turn, request), NULL, 0);
}

static void give_up_store(void)
{
    for (int rank = 0; rank < WORKERS; rank++) {
        ask(rank, 90, ASK_FREE, none, NULL, 0);
        replied(rank, 90);
    }
    settle();
    no_more();
    CHECK(!server_stores);
}

/* ---- Rounds ---- */

TEST(records_a_round_ends_when_all_have_pushed)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 2);
    pull(0, 0, 0, 10);
    settle();
    value(0, 10, 9, 2, 0);
    push(0, 0, 1, 11, 1, 1);
    pull(0, 0, 1, 12); /* behind it */
    settle();
    no_more();
    CHECK_INT(s->open_rounds, 1);
    push(1, 0, 1, 21, 16, 2);
    settle();
    done(0, 11, 1);
    done(1, 21, 1);
    value(0, 12, 9, 17, 3);
    no_more();
    CHECK_INT(s->rounds, 1);
    CHECK_INT(s->open_rounds, 0);
    CHECK_INT(s->parts[0]->contributors, 2);
    push(0, 0, 1, 13, 5, 5); /* applied already: nothing comes of it */
    settle();
    no_more();
    pull(1, 0, 1, 22);
    settle();
    value(1, 22, 9, 17, 3);
    give_up_store();
}

TEST(records_rounds_come_in_any_order)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    push(0, 0, 3, 13, 4, 0);
    push(0, 0, 1, 11, 1, 0);
    push(0, 0, 2, 12, 2, 0);
    settle();
    no_more();
    push(1, 0, 2, 22, 200, 0);
    settle();
    no_more();
    push(1, 0, 1, 21, 100, 0);
    settle();
    done(0, 11, 1);
    done(1, 21, 1);
    done(0, 12, 1);
    done(1, 22, 1);
    no_more();
    pull(1, 0, 2, 23);
    settle();
    value(1, 23, 9, 202, 0);
    push(1, 0, 3, 24, 400, 0);
    pull(1, 0, 3, 25);
    settle();
    done(0, 13, 1);
    done(1, 24, 1);
    value(1, 25, 9, 404, 0);
    no_more();
    give_up_store();
}

TEST(records_pushes_of_a_request_are_told_together)
{
    open_store(form("dist_sync", false, false, -1));
    for (int i = 0; i < 3; i++)
        init_key(i, NULL, 0);
    for (int i = 0; i < 3; i++) {
        push(0, i, 1, 11, 1, 0);
        push(1, i, 1, 20 + (uint64_t)i, 1, 0);
    }
    settle();
    int told = 0;
    while (nread < nsent) {
        const sent *x = &all[nread++];
        CHECK_INT(x->r.kind, LINK_DONE);
        CHECK_INT(x->r.done.pushes, x->rank == 0 ? 3 : 1);
        told++;
    }
    CHECK_INT(told, 4);
    give_up_store();
}

/* A push may have to come behind pulls of its worker. */
TEST(records_a_push_waits_for_pulls_before_it)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 7);
    link_rec r = push_head(0, 1, 11);
    float x[N];
    floats(x, 1, 0);
    r.push.pulls = 1;
    give(0, r, x, sizeof x);
    push(1, 0, 1, 21, 1, 0);
    settle();
    no_more();
    pull(0, 0, 0, 12);
    settle();
    value(0, 12, 9, 7, 0);
    no_more();
    settle(); /* the elements were sent, and can change */
    done(0, 11, 1);
    done(1, 21, 1);
    no_more();
    give_up_store();
}

TEST(records_a_push_in_pieces)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    float x[N];
    floats(x, 1, 1);
    link_rec r = push_head(0, 1, 11);
    r.flags = 0;
    r.push.offset = 12;
    give(0, r, x + 3, BYTES - 12);
    settle();
    push(1, 0, 1, 21, 0, 0);
    settle();
    no_more();
    r.flags = LINK_LAST;
    r.push.offset = 0;
    give(0, r, x, 12);
    settle();
    done(0, 11, 1);
    done(1, 21, 1);
    pull(0, 0, 1, 12);
    settle();
    value(0, 12, 9, 1, 1);
    give_up_store();
}

/* What a push says of its size is checked against the part and against the pieces before. */
TEST(records_pushes_that_are_malformed)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 3);
    float x[2 * N];
    floats(x, 1, 1);
    static const struct {
        int64_t n, offset, total;
        bool fits;
    } cases[] = {{8, -1, BYTES, false},         {8, BYTES - 7, BYTES, false},
                 {8, BYTES, BYTES, false},      {BYTES + 4, 0, BYTES, false},
                 {8, INT64_MAX, BYTES, false},  {BYTES, 1, BYTES, false},
                 {8, BYTES - 8, BYTES, true},   {0, BYTES, BYTES, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        link_rec r = push_head(0, 1, 11);
        r.flags = 0;
        r.push.offset = cases[i].offset;
        r.push.total = cases[i].total;
        give(0, r, x, cases[i].n);
        if (!cases[i].fits)
            malformed(0, 11);
        settle();
        no_more();
    }
    for (int total = BYTES - 4; total <= BYTES + 4; total += 8) {
        char text[64];
        link_rec r = push_head(0, 1, 12);
        r.push.total = total;
        give(0, r, x, total);
        snprintf(text, sizeof text, "a push of %d bytes came for %d", total, BYTES);
        failed(0, 12, KV_E_SHAPE, text);
    }
    push(0, 1, 1, 13, 0, 0);
    failed(0, 13, KV_E_KEY, "there is no such key on server 2");
    push(0, -1, 1, 14, 0, 0);
    failed(0, 14, KV_E_KEY, "there is no such key on server 2");
    pull(1, 1, 0, 15);
    failed(1, 15, KV_E_KEY, "there is no such key on server 2");
    link_rec r = push_head(0, 1, 16);
    r.store = STORE + 1;
    give(0, r, x, BYTES);
    failed(0, 16, KV_E_INTERNAL, "server 2 has no such store");
    r = pull_head(0, 0, 17);
    r.store = STORE + 1;
    give(0, r, NULL, 0);
    failed(0, 17, KV_E_INTERNAL, "server 2 has no such store");
    give(WORKERS, push_head(0, 1, 18), x, BYTES);
    malformed(WORKERS, 18);
    r = push_head(0, 1, 19);
    r.kind = LINK_ADD;
    give(0, r, x, BYTES); /* of a store that keeps */
    malformed(0, 19);
    settle();
    no_more();
    give_up_store();
}

/* The last record of a push, which comes alone, brings the end of the part. */
TEST(records_the_end_of_a_part_alone)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    for (int rank = 0; rank < 2; rank++) {
        float x[2] = {1, 2};
        link_rec r = push_head(0, 1, 11);
        r.push.offset = BYTES - 8;
        give(rank, r, x, sizeof x);
    }
    pull(0, 0, 1, 12);
    settle();
    done(0, 11, 1);
    done(1, 11, 1);
    const float *got = (const float *)(const void *)next_to(0, LINK_VALUE, 12)->data;
    CHECK_INT(got[N - 2], 2);
    CHECK_INT(got[N - 1], 4);
    no_more();
    give_up_store();
}

/* The elements of a GPU-direct message lie elsewhere. */
TEST(records_elements_of_a_message)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    float x[N];
    floats(x, 5, 1);
    link_packed packed = {.bytes = BYTES, .data = (const char *)x};
    link_rec r = push_head(0, 1, 11);
    r.flags |= LINK_PACKED;
    give(0, r, &packed, (int64_t)sizeof packed - 1);
    malformed(0, 11);
    give(0, r, &packed, sizeof packed);
    push(1, 0, 1, 21, 0, 0);
    pull(1, 0, 1, 22);
    settle();
    done(0, 11, 1);
    done(1, 21, 1);
    value(1, 22, 9, 5, 1);
    no_more();
    give_up_store();
}

/* Rounds of several parts are one push to the store. Of one that fails the others are
 * not held up. */
TEST(records_a_part_of_a_batch_fails)
{
    open_store(form("dist_sync", false, false, -1));
    set_rule("{ stored += input }");
    const int64_t bad[4] = {2, 0, 9, 0}; /* rows that the part does not have */
    for (int i = 0; i < 4; i++)
        init_key(i, NULL, (float)i);
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < 4; i++) {
            link_rec r = push_head(i, 1, 10 * (uint64_t)(rank + 1) + (uint64_t)i);
            if (i != 2) {
                push(rank, i, 1, r.request, 1, 0);
                continue;
            }
            r.flags |= LINK_SPARSE;
            r.push.total = sizeof bad;
            give(rank, r, bad, sizeof bad);
        }
    settle();
    int told = 0, refused = 0;
    for (; nread < nsent; nread++) {
        const sent *x = &all[nread];
        CHECK(x->r.kind == LINK_DONE || x->r.kind == LINK_FAILED);
        CHECK((x->r.request % 10 == 2) == (x->r.kind == LINK_FAILED));
        told++;
        refused += x->r.kind == LINK_FAILED;
    }
    CHECK_INT(told, 8);
    CHECK_INT(refused, 2);
    for (int i = 0; i < 4; i++) {
        pull(0, i, 1, 30);
        settle();
        value(0, 30, 9, (float)i + (i == 2 ? 0 : 2), 0);
    }
    no_more();
    give_up_store();
}

/* ---- Host steps ---- */

/* What stands before the elements: a rule's numbers. They are those of the lowest rank. */
static void push_with_host(int rank, int64_t turn, uint64_t request, int64_t t, int64_t n,
                           int64_t cut)
{
    char data[8192] = {0};
    rule_given given = {.t = t, .lr = 1, .dtype = KV_FLOAT32, .row = N, .size = N};
    host number = {0};
    int64_t at = sizeof given;
    memcpy(data, &given, sizeof given);
    memcpy(data + at, &n, sizeof n);
    at += (int64_t)sizeof n;
    for (int64_t i = 0; i < n && i < PLAN_MAX_STATES; i++, at += (int64_t)sizeof number)
        memcpy(data + at, &number, sizeof number);
    float x[N];
    floats(x, 1, 0);
    memcpy(data + at, x, sizeof x);
    at += (int64_t)sizeof x;
    link_rec r = push_head(0, turn, request);
    r.flags |= LINK_HOST;
    give(rank, r, data, cut >= 0 ? cut : at);
}

TEST(records_the_host_step_is_that_of_the_lowest_rank)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    set_rule("{ stored = input + t * 100 }");
    push_with_host(1, 1, 21, 5, 0, -1);
    settle();
    push_with_host(0, 1, 11, 7, 0, -1);
    settle();
    done(0, 11, 1);
    done(1, 21, 1);
    push_with_host(0, 2, 12, 8, 2, -1);
    push_with_host(1, 2, 22, 6, 0, -1);
    pull(0, 0, 1, 13);
    settle();
    done(0, 12, 1);
    done(1, 22, 1);
    value(0, 13, 9, 802, 0);
    no_more();
    give_up_store();
}

TEST(records_host_steps_that_are_malformed)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    set_rule("{ stored = input + t * 100 }");
    const int64_t head = (int64_t)sizeof(rule_given) + 8, each = (int64_t)sizeof(host);
    push_with_host(0, 1, 11, 1, -1, -1);
    push_with_host(0, 1, 11, 1, PLAN_MAX_STATES + 1, -1);
    push_with_host(0, 1, 11, 1, INT64_MAX, -1);
    push_with_host(0, 1, 11, 1, 0, head - 1);
    push_with_host(0, 1, 11, 1, 0, 0);
    push_with_host(0, 1, 11, 1, 2, head + 2 * each - 1);
    for (int i = 0; i < 6; i++)
        malformed(0, 11);
    settle();
    no_more();
    push_with_host(0, 1, 12, 1, PLAN_MAX_STATES, -1);
    push_with_host(1, 1, 22, 1, 0, -1);
    settle();
    done(0, 12, 1);
    done(1, 22, 1);
    no_more();
    give_up_store();
}

/* A record may end with the host step; the elements come in the next ones. */
TEST(records_a_host_step_without_elements)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    set_rule("{ stored = input + t * 100 }");
    char data[8192] = {0};
    float x[N];
    floats(x, 1, 0);
    for (int n = 0; n <= 2; n++) {
        rule_given given = {.t = n + 5, .lr = 1, .dtype = KV_FLOAT32, .row = N, .size = N};
        int64_t numbers = n, bytes = (int64_t)sizeof given + 8 + n * (int64_t)sizeof(host);
        memcpy(data, &given, sizeof given);
        memcpy(data + sizeof given, &numbers, sizeof numbers);
        link_rec r = push_head(0, n + 1, 21);
        r.flags = LINK_HOST;
        give(1, r, data, bytes);
        push(1, 0, n + 1, 21, 1, 0);
        push(0, 0, n + 1, 11, 1, 0); /* the lowest rank brings none */
        pull(0, 0, n + 1, 12);
        settle();
        done(0, 11, 1);
        done(1, 21, 1);
        value(0, 12, 9, 2 + 100 * (float)(n + 5), 0);
        no_more();
    }
    give_up_store();
}

/* ---- Codes ---- */

static link_rec codes_head(int64_t turn, uint64_t request, int64_t element, bool last)
{
    link_rec r = push_head(0, turn, request);
    r.flags = (uint8_t)(LINK_CODES | (last ? LINK_LAST : 0));
    r.push.element = element;
    return r;
}

typedef struct coded {
    push_codes how;
    unsigned char codes[N];
} coded;

TEST(records_codes)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    coded two = {.how = {QUANTISE_2BIT, BACK_NUMBERS, 0.5f}};
    float x[N], got[N];
    for (int i = 0; i < N; i++)
        x[i] = i % 2 ? 0.5f : -0.5f;
    float residual[N] = {0};
    quantise_encode(two.codes, residual, x, QUANTISE_2BIT, 0.5f, N);
    const int64_t head = sizeof two.how;
    const coded bad[] = {{.how = {0, 0, 0.5f}},  {.how = {3, 0, 0.5f}},  {.how = {-1, 0, 0.5f}},
                         {.how = {2, -1, 0.5f}}, {.how = {2, 3, 0.5f}}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        give(0, codes_head(1, 11, 0, true), &bad[i], head + 2);
        malformed(0, 11);
    }
    give(0, codes_head(1, 11, -1, true), &two, head + 2);
    give(0, codes_head(1, 11, N + 1, true), &two, head + 2);
    give(0, codes_head(1, 11, 0, true), &two, head - 1);
    for (int i = 0; i < 3; i++)
        malformed(0, 11);
    give(0, codes_head(1, 12, 4, false), (char[]){(char)two.how.code, 0, 0, 0, 0, 0, 0, 0x3F,
                                                  (char)two.codes[1]}, head + 1);
    give(0, codes_head(1, 12, 0, true), &two, head + 1);
    settle();
    no_more();
    give(1, codes_head(1, 22, 0, true), &two, head + 2);
    settle();
    done(0, 12, 1);
    done(1, 22, 1);
    pull(0, 0, 1, 13);
    settle();
    memcpy(got, next_to(0, LINK_VALUE, 13)->data, sizeof got);
    for (int i = 0; i < N; i++)
        CHECK_INT(got[i] * 8, x[i] * 16);
    CHECK(!s->parts[0]->codes);
    /* more codes than the part has elements: the rest is not looked at */
    give(0, codes_head(2, 14, N, false), &two, head + 2);
    give(0, codes_head(2, 14, 0, true), &two, (int64_t)sizeof two);
    give(1, codes_head(2, 24, 0, true), &two, head + 2);
    settle();
    done(0, 14, 1);
    done(1, 24, 1);
    no_more();
    give_up_store();
}

TEST(records_codes_of_one_bit)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    coded one = {.how = {QUANTISE_1BIT, BACK_NUMBERS, 0}};
    float x[N], residual[N] = {0};
    for (int i = 0; i < N; i++)
        x[i] = i % 3 ? 1 : -1;
    quantise_encode(one.codes, residual, x, QUANTISE_1BIT, 0, N);
    one.codes[1] = (unsigned char)~one.codes[0]; /* behind the elements */
    for (int rank = 0; rank < 2; rank++)
        give(rank, codes_head(1, 11, 0, true), &one, (int64_t)sizeof one.how + 2);
    pull(0, 0, 1, 12);
    settle();
    done(0, 11, 1);
    done(1, 11, 1);
    const sent *got = next_to(0, LINK_VALUE, 12);
    for (int i = 0; i < N; i++)
        CHECK_INT(((const float *)(const void *)got->data)[i], 2 * x[i]);
    no_more();
    give_up_store();
}

/* A byte holds eight codes of one bit: what is behind them is not in the record. */
TEST(records_codes_of_one_bit_in_pieces)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    kv_array_unref(init_flat(12));
    coded ones = {.how = {QUANTISE_1BIT, BACK_NUMBERS, 0}};
    float x[8] = {1, 1, 1, 1, 1, 1, 1, 1}, residual[8] = {0};
    quantise_encode(ones.codes, residual, x, QUANTISE_1BIT, 0, 8);
    ones.codes[1] = (unsigned char)~ones.codes[0];
    give(0, codes_head(1, 11, 8, false), &ones, (int64_t)sizeof ones.how + 1);
    give(0, codes_head(1, 11, 0, true), &ones, (int64_t)sizeof ones.how + 1);
    const float *got = (const float *)(const void *)s->parts[0]->rounds->by[0].data;
    for (int i = 0; i < 12; i++)
        CHECK_INT(got[i], 1);
    settle();
    no_more();
    give_up_store();
}

/* A part without elements, whose push comes in pieces. */
TEST(records_a_part_of_nothing)
{
    open_store(form("dist_sync", false, false, -1));
    kv_array_unref(init_flat(0));
    for (int rank = 0; rank < 2; rank++) {
        link_rec r = push_head(0, 1, 11);
        r.push.total = 0;
        r.flags = 0;
        give(rank, r, NULL, 0);
        r.flags = LINK_LAST;
        give(rank, r, NULL, 0);
    }
    settle();
    done(0, 11, 1);
    done(1, 11, 1);
    no_more();
    give_up_store();
}

/* The sum goes back in codes if the first worker wants that, with a residual that stays. */
TEST(records_codes_go_back)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    coded two = {.how = {QUANTISE_2BIT, BACK_CODES, 0.5f}},
          other = {.how = {QUANTISE_2BIT, 0, 0.5f}};
    float x[N], y[N], want[N], residual[N] = {0}, kept[N] = {0};
    for (int i = 0; i < N; i++)
        x[i] = i % 3 ? 0.5f : -0.5f;
    quantise_encode(two.codes, residual, x, QUANTISE_2BIT, 0.5f, N);
    memcpy(other.codes, two.codes, N);
    const int64_t bytes = (int64_t)sizeof two.how + quantise_bytes(QUANTISE_2BIT, N);
    for (int turn = 1; turn <= 3; turn++) {
        unsigned char codes[N];
        if (turn == 3) {
            two.how.back = BACK_ANEW;
            memset(kept, 0, sizeof kept);
        }
        give(1, codes_head(turn, 20, 0, true), &other, bytes);
        give(0, codes_head(turn, 10, 0, true), &two, bytes);
        pull(1, 0, turn, 21);
        settle();
        done(0, 10, 1);
        done(1, 20, 1);
        const sent *got = next_to(1, LINK_VALUE, 21);
        for (int i = 0; i < N; i++)
            y[i] = 2 * x[i];
        quantise_encode(codes, kept, y, QUANTISE_2BIT, 0.5f, N);
        quantise_decode(want, codes, QUANTISE_2BIT, 0.5f, N);
        CHECK_INT(got->r.flags, LINK_CODES | LINK_LAST);
        CHECK_INT(got->r.bytes, bytes);
        CHECK_INT(got->r.value.element, 0);
        CHECK_INT(got->r.value.elements, N);
        CHECK_INT(got->r.value.round, turn);
        CHECK(memcmp(got->data, &two.how, sizeof two.how) == 0);
        CHECK(memcmp(got->data + sizeof two.how, codes, (size_t)quantise_bytes(QUANTISE_2BIT, N)) ==
              0);
        CHECK(memcmp(s->store->slots.items[0].stored->data, want, sizeof want) == 0);
        CHECK(memcmp(s->parts[0]->residual, kept, sizeof kept) == 0);
    }
    push(0, 0, 4, 11, 1, 0); /* plain: no codes any more */
    push(1, 0, 4, 22, 1, 0);
    settle();
    done(0, 11, 1);
    done(1, 22, 1);
    CHECK(!s->parts[0]->codes && !s->parts[0]->residual && !s->parts[0]->coded.code);
    give_up_store();
}

/* ---- Workers that are done, or have left ---- */

TEST(records_rounds_without_a_worker_that_is_done)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    push(1, 0, 1, 21, 5, 0);
    settle();
    no_more();
    CHECK_INT(s->open_rounds, 0); /* the lowest rank has not come */
    ask(0, 8, ASK_DONE, none, NULL, 0);
    replied(0, 8);
    settle();
    done(1, 21, 1);
    push(1, 0, 2, 22, 6, 0);
    CHECK_INT(s->open_rounds, 1); /* now rank 1 is */
    settle();
    done(1, 22, 1);
    CHECK_INT(s->parts[0]->contributors, 1);
    CHECK_INT(s->open_rounds, 0);
    pull(1, 0, 2, 23);
    settle();
    value(1, 23, 9, 6, 0);
    no_more();
    give_up_store();
}

TEST(records_rounds_of_a_worker_that_has_left)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, "w", 4);
    push(0, 0, 1, 11, 5, 0);
    push(0, 0, 2, 12, 5, 0);
    pull(0, 0, 1, 13);
    settle();
    no_more();
    alone_taker.left(1);
    settle();
    failed(0, 11, KV_E_PEER, "rank 1 has ended; key \"w\" waits for its push of round 1");
    kv_err e;
    memcpy(&e, all[nread - 1].data, sizeof e);
    CHECK(e.has_key && e.key_is_text);
    CHECK_TEXT(e.key_name, "w");
    failed(0, 13, KV_E_PEER, "rank 1 has ended; key \"w\" waits for its push of round 1");
    failed(0, 12, KV_E_PEER, "rank 1 has ended; key \"w\" waits for its push of round 2");
    no_more();
    CHECK_INT(s->open_rounds, 0);
    pull(0, 0, 2, 14);
    settle();
    value(0, 14, 9, 4, 0); /* it keeps its value */
    push(1, 0, 2, 22, 1, 0);
    failed(1, 22, KV_E_TIMEOUT, "this push came when its round had been given up");
    no_more();
    give_up_store();
}

/* Of a round that was given up the pulls were answered, with its error: what comes
 * behind goes on. */
TEST(records_rounds_go_on_behind_one_that_was_given_up)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 4);
    push(0, 0, 1, 11, 5, 0);
    pull(0, 0, 1, 12);
    pull(0, 0, 2, 13);
    settle();
    no_more();
    alone_taker.look(net_now_us() + 500000); /* the limit is a second */
    no_more();
    alone_taker.look(net_now_us() + 10000000);
    const char *why = "gave up: key 0 waits for the push of round 1 of rank 1; rank 0 has pushed";
    kv_err e;
    memcpy(&e, all[nread].data, sizeof e);
    CHECK_INT(e.code, KV_E_TIMEOUT);
    CHECK(e.has_key && e.key_id == 0);
    why = strncmp(e.text, "gave up: ", 9) == 0 ? e.text : why;
    failed(0, 11, KV_E_TIMEOUT, why);
    failed(0, 12, KV_E_TIMEOUT, why);
    no_more();
    CHECK_INT(s->parts[0]->workers[0].pulls, 1);
    link_rec r = push_head(0, 2, 14);
    float x[N];
    floats(x, 1, 0);
    r.push.pulls = 1;
    give(0, r, x, sizeof x);
    push(1, 0, 2, 21, 1, 0);
    settle();
    done(0, 14, 1);
    done(1, 21, 1);
    value(0, 13, 9, 2, 0);
    no_more();
    give_up_store();
}

/* ---- dist_async ---- */

TEST(records_async_pushes_are_rounds_of_their_own)
{
    server_state *s = open_store(form("dist_async", true, false, -1));
    init_key(0, NULL, 0);
    set_rule("{ stored += input }");
    push(0, 0, 1, 11, 1, 0);
    push(0, 0, 2, 12, 2, 0);
    settle();
    done(0, 11, 1);
    done(0, 12, 1);
    push(1, 0, 2, 22, 16, 0); /* its first comes later */
    settle();
    no_more();
    push(1, 0, 1, 21, 32, 0);
    pull(1, 0, 2, 23);
    settle();
    CHECK_INT(next_to(1, LINK_DONE, 21)->r.done.pushes, 1);
    CHECK_INT(next_to(1, LINK_DONE, 22)->r.done.pushes, 1);
    value(1, 23, 9, 51, 0);
    no_more();
    CHECK_INT(s->rounds, 4);
    alone_taker.left(0);
    push(1, 0, 3, 24, 1, 0);
    settle();
    done(1, 24, 1);
    no_more();
    give_up_store();
}

TEST(records_async_within_a_bound)
{
    server_state *s = open_store(form("dist_async", true, false, 1));
    init_key(0, NULL, 0);
    set_rule("{ stored += input }");
    for (int i = 1; i <= 4; i++)
        push(0, 0, i, 10 + (uint64_t)i, 1, 0);
    settle();
    done(0, 11, 1);
    done(0, 12, 1);
    no_more(); /* two ahead of worker 1 */
    pull(0, 0, 2, 15);
    settle();
    no_more();
    push(1, 0, 1, 21, 100, 0);
    settle();
    done(1, 21, 1);
    value(0, 15, 9, 102, 0);
    settle();
    done(0, 13, 1);
    no_more();
    CHECK_INT(s->stalest, 1);
    ask(1, 8, ASK_DONE, none, NULL, 0); /* nobody waits for it */
    replied(1, 8);
    settle();
    done(0, 14, 1);
    no_more();
    give_up_store();
}

TEST(records_async_in_step)
{
    open_store(form("dist_async", true, false, 0));
    init_key(0, NULL, 0);
    push(0, 0, 1, 11, 1, 0);
    push(0, 0, 2, 12, 1, 0);
    settle();
    done(0, 11, 1);
    no_more();
    push(1, 0, 1, 21, 1, 0);
    settle();
    done(1, 21, 1);
    done(0, 12, 1);
    no_more();
    give_up_store();
}

/* Nobody is behind where nobody takes part any more. */
TEST(records_async_when_all_are_done)
{
    open_store(form("dist_async", true, false, 0));
    init_key(0, NULL, 0);
    push(0, 0, 1, 11, 5, 0);
    settle();
    done(0, 11, 1);
    for (int rank = 0; rank < 2; rank++) {
        ask(rank, 8, ASK_DONE, none, NULL, 0);
        replied(rank, 8);
    }
    pull(0, 0, 1, 12);
    settle();
    value(0, 12, 9, 5, 0);
    no_more();
    give_up_store();
}

/* ---- Changes ---- */

TEST(records_changes_behind_a_round)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    link_rec r = pull_head(0, 0, 12);
    r.flags |= LINK_CHANGES;
    r.pull.since = -1;
    give(0, r, NULL, 0);
    settle();
    value(0, 12, 9, 0, 0);
    for (int turn = 1; turn <= 3; turn++) {
        float x[N] = {[3] = (float)turn};
        give(0, push_head(0, turn, 11), x, sizeof x);
        push(1, 0, turn, 21, 0, 0);
        r.pull.round = turn;
        r.pull.since = turn - 1;
        give(0, r, NULL, 0);
        settle();
        done(0, 11, 1);
        done(1, 21, 1);
        const sent *got = next_to(0, LINK_VALUE, 12);
        CHECK_INT(got->r.flags, LINK_CHANGES | LINK_LAST);
        CHECK_INT(got->r.value.element, 0);
        CHECK_INT(got->r.value.elements, N);
        CHECK_INT(got->r.value.round, turn);
        CHECK_INT(got->r.value.chunk, 9);
        CHECK(got->r.bytes < BYTES);
        CHECK_INT(s->copied, 0);
    }
    r.pull.since = 99; /* a round that is not known */
    give(0, r, NULL, 0);
    settle();
    const float *got = (const float *)(const void *)next_to(0, LINK_VALUE, 12)->data;
    for (int i = 0; i < N; i++) /* all of them */
        CHECK_INT(got[i], i == 3 ? 3 : 0);
    no_more();
    give_up_store();
}

/* ---- Without memory ---- */

/* Whichever allocation fails: the worker is told, and the same record is taken afterwards. */
TEST(records_without_memory)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    float x[N];
    floats(x, 1, 0);
    for (int piece = 0; piece < 2; piece++) {
        int n = 0;
        for (bool again = true; again; n++) {
            link_rec r = push_head(0, 1 + piece, 11);
            r.flags = piece ? 0 : LINK_LAST;
            mem_fail_at(-(n + 1));
            give(0, r, x, piece ? BYTES / 2 : BYTES);
            mem_fail_at(0);
            again = nread < nsent;
            if (again)
                failed(0, 11, KV_E_MEMORY, "no memory for a push");
        }
        CHECK(n > 1);
    }
    int64_t before = s->parts[0]->workers[1].pulls;
    mem_fail_at(-1);
    pull(1, 0, 1, 22);
    mem_fail_at(0);
    CHECK_INT(next_to(1, LINK_FAILED, 22)->rank, 1);
    CHECK_INT(s->parts[0]->workers[1].pulls, before + 1); /* it was answered: pushes may go on */
    settle();
    no_more();
    push(1, 0, 1, 21, 1, 0);
    settle();
    done(0, 11, 1);
    done(1, 21, 1);
    no_more();
    give_up_store();
}

/* Elements that would have to be copied out of the link: without memory this rank is lost. */
TEST(records_without_memory_to_keep_a_push)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    push(0, 0, 1, 11, 1, 0);
    CHECK_INT(alone_cannot_serve, 0);
    mem_fail_at(-1);
    alone_taker.settle();
    mem_fail_at(0);
    CHECK_INT(alone_cannot_serve, 1);
    settle();
    push(1, 0, 1, 21, 1, 0);
    settle();
    failed(0, 11, KV_E_MEMORY, "no memory for a push");
    failed(1, 21, KV_E_MEMORY, "no memory for a push");
    CHECK_INT(s->parts[0]->applied, 1);
    no_more();
    give_up_store();
}

/* ---- A link without room ---- */

TEST(records_wait_for_room)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 3);
    link_rec r = pull_head(0, 0, 12);
    r.pull.priority = -7;
    give(1, r, NULL, 0);
    push(0, 0, 1, 11, 1, 0);
    push(1, 0, 1, 21, 1, 0);
    alone_full = true;
    alone_taker.settle();
    alone_full = false;
    done(0, 11, 1); /* the net keeps these */
    done(1, 21, 1);
    no_more();
    CHECK_INT(alone_priority, -7);
    settle();
    value(1, 12, 9, 2, 0);
    no_more();
    give_up_store();
}

/* ---- Sums that are not kept ---- */

static link_rec add_head(int64_t id, int64_t turn, uint64_t request)
{
    return (link_rec){.kind = LINK_ADD, .flags = LINK_LAST, .store = STORE, .part = id,
                      .request = request, .add = {.round = turn, .chunk = 4, .dtype = KV_FLOAT32}};
}

static void add(int rank, int64_t turn, uint64_t request, float first, float step, int flags)
{
    float x[N];
    link_rec r = add_head(0, turn, request);
    floats(x, first, step);
    r.flags |= (uint8_t)flags;
    give(rank, r, x, sizeof x);
}

TEST(records_sums)
{
    server_state *s = open_store(form("horovod", false, true, -1));
    add(0, 1, 11, 1, 1, 0);
    add(0, 2, 12, 5, 0, 0);
    settle();
    no_more();
    add(0, 1, 13, 1, 1, 0);
    failed(0, 13, KV_E_INTERNAL, "rank 0 contributes twice to one round");
    add(1, 1, 21, 10, 0, 0);
    settle();
    value(0, 11, 4, 11, 1);
    value(1, 21, 4, 11, 1);
    no_more();
    add(1, 1, 22, 10, 0, 0);
    failed(1, 22, KV_E_TIMEOUT, "these values came when their round had been given up");
    float x[N + 1] = {0};
    link_rec r = add_head(0, 2, 23);
    give(1, r, x, BYTES - 4);
    failed(1, 23, KV_E_SHAPE, "a push of 28 bytes came for 32");
    give(1, r, x, BYTES - 1);
    r.add.dtype = -1;
    give(1, r, x, BYTES);
    r.add.dtype = KV_DTYPE_END;
    give(1, r, x, BYTES);
    r.add.dtype = KV_FLOAT32;
    r.part = -1;
    give(1, r, x, BYTES);
    for (int i = 0; i < 4; i++)
        malformed(1, 23);
    give(1, push_head(0, 2, 24), x, BYTES); /* of a store that keeps nothing */
    malformed(1, 24);
    add(1, 2, 25, 2, 0, 0);
    settle();
    value(0, 12, 4, 7, 0);
    value(1, 25, 4, 7, 0);
    no_more();
    CHECK_INT(s->rounds, 2);
    give_up_store();
}

TEST(records_sums_wait_for_room)
{
    open_store(form("horovod", false, true, -1));
    float x[N];
    floats(x, 1, 0);
    for (int rank = 0; rank < 2; rank++) {
        link_rec r = add_head(0, 1, 11);
        r.add.priority = rank + 6;
        r.add.chunk = rank;
        give(rank, r, x, sizeof x);
    }
    alone_full = true;
    alone_taker.settle();
    alone_full = false;
    no_more();
    CHECK_INT(alone_priority, 7);
    settle();
    value(0, 11, 0, 2, 0);
    value(1, 11, 1, 2, 0);
    no_more();
    give_up_store();
}

TEST(records_sums_of_nothing)
{
    open_store(form("horovod", false, true, -1));
    for (int rank = 0; rank < 2; rank++)
        give(rank, add_head(0, 1, 11), NULL, 0);
    settle();
    for (int rank = 0; rank < 2; rank++) {
        const sent *x = next_to(rank, LINK_VALUE, 11);
        CHECK_INT(x->r.bytes, 0);
        CHECK_INT(x->r.flags, LINK_LAST);
    }
    no_more();
    give_up_store();
}

TEST(records_broadcasts)
{
    open_store(form("horovod", false, true, -1));
    link_rec r = add_head(0, 1, 21);
    r.flags |= LINK_BROADCAST;
    give(1, r, NULL, 0);
    settle();
    add(0, 1, 11, 3, 1, LINK_BROADCAST);
    settle();
    value(0, 11, 4, 3, 1);
    value(1, 21, 4, 3, 1);
    no_more();
    add(0, 2, 12, 3, 1, 0); /* a sum, and the other broadcasts */
    r.add.round = 2;
    give(1, r, NULL, 0);
    settle();
    failed(0, 12, KV_E_VALUE, "some ranks broadcast the key while others push and pull it");
    failed(1, 21, KV_E_VALUE, "some ranks broadcast the key while others push and pull it");
    no_more();
    ask(0, 8, ASK_DONE, none, NULL, 0);
    replied(0, 8);
    r.add.round = 3;
    give(1, r, NULL, 0);
    settle();
    failed(1, 21, KV_E_VALUE, "rank 0 is done, and the others broadcast its value");
    no_more();
    give_up_store();
}

TEST(records_sums_of_a_worker_that_has_left)
{
    open_store(form("horovod", false, true, -1));
    add(1, 1, 21, 1, 0, 0);
    settle();
    alone_taker.left(0);
    settle();
    failed(1, 21, KV_E_PEER, "rank 0 has ended, and a sum waits for its values");
    no_more();
    give_up_store();
}

/* ---- Calls ---- */

TEST(records_stores_that_are_not_made)
{
    open_server();
    ask_store how = form("dist_sync", false, false, -1), bad = how;
    bad.workers = WORKERS + 1;
    ask(0, 1, ASK_CREATE, none, &bad, sizeof bad);
    bad = how;
    bad.servers = 2;
    ask(0, 1, ASK_CREATE, none, &bad, sizeof bad);
    bad = how;
    bad.sums = bad.is_async = 1;
    ask(0, 1, ASK_CREATE, none, &bad, sizeof bad);
    bad = how;
    memset(bad.type, 'x', sizeof bad.type);
    ask(0, 1, ASK_CREATE, none, &bad, sizeof bad);
    ask(0, 1, ASK_CREATE, none, &how, sizeof how - 8);
    ask(WORKERS, 1, ASK_CREATE, none, &how, sizeof how);
    for (int i = 0; i < 6; i++)
        malformed(i == 5 ? WORKERS : 0, link_call_number(1));
    CHECK(!server_stores);
    ask(0, 1, ASK_COUNTS, none, NULL, 0);
    failed(0, link_call_number(1), KV_E_INTERNAL, "server 2 has no such store");
    ask(0, 1, ASK_CREATE, none, &how, sizeof how);
    bad = form("dist_async", true, false, -1);
    ask(1, 2, ASK_CREATE, none, &bad, sizeof bad);
    failed(1, link_call_number(2), KV_E_VALUE,
           "rank 1 makes a store of type \"dist_async\", others one of \"dist_sync\"");
    bad = how;
    bad.staleness = 3;
    ask(1, 2, ASK_CREATE, none, &bad, sizeof bad);
    failed(1, link_call_number(2), KV_E_VALUE,
           "rank 1 makes a store of type \"dist_sync\", others one of \"dist_sync\"");
    ask(1, 3, ASK_CREATE, none, &how, sizeof how);
    replied(0, 1);
    replied(1, 3);
    no_more();
    ask(1, 4, (dist_ask)99, none, NULL, 0);
    failed(1, link_call_number(4), KV_E_INTERNAL, "server 2 does not know call 99");
    ask(1, 5, ASK_COMMAND, none, "x", 1); /* without its end */
    malformed(1, link_call_number(5));
    ask(1, 5, ASK_COMMAND, none, NULL, 0);
    malformed(1, link_call_number(5));
    ask(1, 5, ASK_COMMAND, none, "x", 2);
    replied(1, 5);
    no_more();
    give_up_store();
}

static ask_counts counts(int rank)
{
    ask_counts c;
    ask(rank, 30, ASK_COUNTS, none, NULL, 0);
    const sent *x = replied(rank, 30);
    CHECK_INT(x->r.bytes, sizeof c);
    memcpy(&c, x->data, sizeof c);
    return c;
}

TEST(records_counts)
{
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    init_key(1, NULL, 0);
    ask_counts c = counts(0);
    CHECK_INT(c.keys, 2);
    CHECK_INT(c.bytes, 2 * BYTES);
    CHECK_INT(c.rounds, 0);
    CHECK_INT(c.late, 0);
    CHECK_INT(c.missing, 0);
    CHECK_INT(c.contributors, 0);
    push(1, 1, 1, 21, 1, 0);
    settle();
    c = counts(1);
    CHECK_INT(c.late, 1);
    CHECK_INT(c.missing, 1);
    push(0, 1, 1, 11, 1, 0);
    push(0, 0, 1, 12, 1, 0);
    settle();
    done(0, 11, 1);
    done(1, 21, 1);
    c = counts(1);
    CHECK_INT(c.rounds, 1);
    CHECK_INT(c.contributors, 2);
    CHECK_INT(c.late, 1);
    CHECK_INT(c.missing, 2);
    ask(0, 9, ASK_DROP, (link_args){.drop = {1, 1}}, NULL, 0);
    replied(0, 9);
    ask(0, 9, ASK_DROP, (link_args){.drop = {0, 1}}, NULL, 0);
    failed(0, link_call_number(9), KV_E_INTERNAL, "part 0 is in use");
    c = counts(0);
    CHECK_INT(c.keys, 1);
    CHECK_INT(c.bytes, BYTES);
    settle();
    no_more();
    give_up_store();
}

/* An optimizer holds for rounds that the lowest rank has not begun. */
TEST(records_an_optimizer_waits_for_open_rounds)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    push(0, 0, 1, 11, 1, 0);
    set_rule("{ stored = input * 10 }");
    push(0, 0, 2, 12, 2, 0);
    settle();
    CHECK_INT(s->optimizers_come, 1);
    CHECK_INT(s->optimizers_set, 0);
    push(1, 0, 1, 21, 1, 0);
    pull(0, 0, 1, 13);
    settle();
    done(0, 11, 1);
    done(1, 21, 1);
    value(0, 13, 9, 2, 0);
    CHECK_INT(s->open_rounds, 1);
    no_more();
    give_up_store();
}

TEST(records_optimizers)
{
    static const char *const texts[] = {"assign", "optimizer\0sgd\0learning_rate\0000.5",
                                        "update\0\0learning_rate\0000.25"};
    static const int64_t bytes[] = {7, 32, 27};
    static const float want[] = {2, 1, 0.5f}; /* the sum; less half the sum; less a quarter */
    open_store(form("dist_sync", false, false, -1));
    init_key(0, NULL, 0);
    for (int i = 0; i < 3; i++) {
        ask(0, 4, ASK_OPTIMIZER, none, texts[i], bytes[i]);
        replied(0, 4);
        push(0, 0, i + 1, 11, 1, 0);
        push(1, 0, i + 1, 21, 1, 0);
        pull(0, 0, i + 1, 12);
        settle();
        done(0, 11, 1);
        done(1, 21, 1);
        value(0, 12, 9, want[i], 0);
    }
    no_more();
    give_up_store();
}

/* ---- Large parts ---- */

TEST(records_a_part_larger_than_a_record)
{
    enum { LARGE = LINK_PAYLOAD / 4 * 2 + 5 };
    int64_t n = LARGE, at = 0;
    open_store(form("dist_sync", false, false, -1));
    kv_array *a = init_flat(n);
    const char *data = a->data;
    pull(1, 0, 0, 20);
    settle();
    while (at < 4 * n) {
        const sent *x = next_to(1, LINK_VALUE, 20);
        CHECK_INT(x->r.value.offset, at);
        CHECK_INT(x->r.bytes, 4 * n - at < LINK_PAYLOAD ? 4 * n - at : LINK_PAYLOAD);
        CHECK(memcmp(x->data, data + at, x->r.bytes) == 0);
        at += x->r.bytes;
        CHECK_INT(x->r.flags, at == 4 * n ? LINK_LAST : 0);
    }
    no_more();
    kv_array_unref(a);
    give_up_store();
}

/* ---- row_sparse ---- */

static void init_rows(void)
{
    kv_err e = {0};
    buf b = {0};
    int64_t shape[] = {4, 2};
    ask_key k = {.dtype = KV_FLOAT32, .storage = KV_ROW_SPARSE, .ndim = 2, .shape = {4, 2}};
    kv_array *a = NULL;
    CHECK_OK(kv_array_new_sparse(&a, KV_FLOAT32, 2, shape, 0, NULL, (kv_ctx){0}, &e));
    k.place = place_new(KV_FLOAT32, KV_ROW_SPARSE, 2, shape, PLACE_ANYWHERE, 1);
    CHECK_OK(ask_put_slot(&b, &k, NULL, 0, a, &e));
    ask(0, 3, ASK_INIT, (link_args){.inits = 1}, b.data, (int64_t)b.len);
    replied(0, 3);
    settle();
    kv_array_unref(a);
    buf_release(&b);
}

typedef struct rows {
    int64_t n, ids[2];
    float data[4];
} rows;

static void push_rows(int rank, uint64_t request, const rows *x, bool in_pieces)
{
    link_rec r = push_head(0, 1, request);
    r.push.total = sizeof *x;
    r.flags = LINK_SPARSE;
    if (in_pieces) {
        give(rank, r, x, 20);
        r.push.offset = 20;
    }
    r.flags |= LINK_LAST;
    give(rank, r, (const char *)x + r.push.offset, (int64_t)sizeof *x - r.push.offset);
}

TEST(records_rows)
{
    open_store(form("dist_sync", false, false, -1));
    init_rows();
    const rows a = {2, {0, 3}, {1, 2, 3, 4}}, b = {2, {1, 3}, {10, 20, 30, 40}};
    const float want[N] = {1, 2, 10, 20, 0, 0, 33, 44};
    int64_t ids[] = {3, 2, 3};
    push_rows(0, 11, &a, true);
    push_rows(1, 21, &b, false);
    ask(0, 12, ASK_ROWS, (link_args){.rows = {0, 1}}, ids, sizeof ids);
    pull(1, 0, 1, 22);
    no_more();
    settle();
    const sent *whole = next_to(1, LINK_VALUE, 22);
    CHECK_INT(whole->r.bytes, sizeof want);
    CHECK(memcmp(whole->data, want, sizeof want) == 0);
    const sent *some = replied(0, 12);
    int64_t n;
    memcpy(&n, some->data, sizeof n);
    CHECK_INT(n, 2);
    const int64_t got[] = {2, 3};
    CHECK(memcmp(some->data + 8, got, sizeof got) == 0);
    CHECK(memcmp(some->data + 24, want + 4, 16) == 0);
    done(0, 11, 1);
    done(1, 21, 1);
    ask(0, 13, ASK_ROWS, (link_args){.rows = {7, 1}}, ids, sizeof ids);
    failed(0, link_call_number(13), KV_E_KEY, "there is no such key on server 2");
    no_more();
    give_up_store();
}

/* Rows are sent at once, so that the push behind them goes on in the same settling. */
TEST(records_a_push_behind_rows)
{
    server_state *s = open_store(form("dist_sync", false, false, -1));
    init_rows();
    const rows a = {2, {0, 3}, {1, 2, 3, 4}};
    int64_t id = 3;
    for (int rank = 0; rank < 2; rank++) {
        link_rec r = push_head(0, 1, 11);
        r.push.total = sizeof a;
        r.flags |= LINK_SPARSE;
        r.push.pulls = rank == 0;
        give(rank, r, &a, sizeof a);
    }
    settle();
    no_more();
    ask(0, 12, ASK_ROWS, (link_args){.rows = {0, 0}}, &id, sizeof id);
    settle();
    replied(0, 12);
    done(0, 11, 1);
    done(1, 11, 1);
    no_more();
    CHECK_INT(s->parts[0]->applied, 1);
    give_up_store();
}

TEST(records_rows_and_elements_do_not_mix)
{
    open_store(form("dist_sync", false, false, -1));
    init_rows();
    const rows a = {2, {0, 3}, {1, 2, 3, 4}};
    link_rec r = push_head(0, 1, 11);
    r.flags = LINK_SPARSE;
    r.push.total = BYTES;
    give(0, r, &a, 16);
    r.flags = 0;
    r.push.offset = 16;
    give(0, r, (const char *)&a + 16, 16);
    malformed(0, 11);
    r.flags = LINK_SPARSE;
    r.push.total = BYTES + 8; /* others than the first record said */
    give(0, r, (const char *)&a + 16, 16);
    malformed(0, 11);
    settle();
    no_more();
    give_up_store();
}
