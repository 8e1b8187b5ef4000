/* Records of workers to a server: pushes, pulls, values to be summed and calls, in any order and of
 * any content, from two workers. The input is a list of steps; a step builds a record whose fields
 * are drawn, mostly from small numbers, and whose payload is what the call carries with some bytes
 * changed, or any bytes. Every record lies in memory of its own size. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "distributed/asks.h"
#include "distributed/environment.h"
#include "distributed/link_record.h"
#include "distributed/server.h"
#include "distributed/server_state.h"
#include "net_stub.h"

enum { WORKERS = 2, SERVER = 2, RANKS = 3, MOST_STEPS = 64 };

/* ---- Drawing --------------------------------------------------------------------------------- */

/* Any bytes of the input. */
static void put_bytes(buf *b, fuzz_bytes *in)
{
    size_t n = fuzz_draw(in, 256), left = (size_t)(in->end - in->at);
    n = n < left ? n : left;
    buf_put(b, (const char *)in->at, n);
    in->at += n;
}

static void put_numbers(buf *b, fuzz_bytes *in)
{
    for (unsigned n = fuzz_draw(in, 9); n > 0; n--) {
        int64_t x = fuzz_number(in);
        buf_put(b, (const char *)&x, sizeof x);
    }
}

static void put_floats(buf *b, fuzz_bytes *in)
{
    for (unsigned n = fuzz_draw(in, 33); n > 0; n--)
        buf_put(b, (const char *)&(float){(float)n / 2}, sizeof(float));
}

static void put_store(buf *b, fuzz_bytes *in)
{
    unsigned what = fuzz_draw(in, 16);
    ask_store how = {.workers = WORKERS, .servers = 1, .is_async = what & 1, .sums = what >> 1 & 1,
                     .staleness = (int64_t)(what >> 2) - 1};
    strcpy(how.type, how.is_async ? "dist_async" : "dist_sync");
    buf_put(b, (const char *)&how, sizeof how);
}

static ask_key draw_key(fuzz_bytes *in)
{
    unsigned what = fuzz_draw(in, 256);
    ask_key k = {.id = what % 4, .ndim = what / 4 % 3, .storage = what / 12 % 8 == 7};
    k.dtype = (uint8_t)(what >= 200 ? fuzz_dtype(in) : KV_FLOAT32);
    for (int i = 0; i < k.ndim; i++)
        k.shape[i] = i ? 2 : 4;
    k.place = place_new((kv_dtype)k.dtype, (kv_storage)k.storage, k.ndim, k.shape, PLACE_ANYWHERE,
                        1);
    k.place.first = k.id;
    return k;
}

static const char *draw_name(fuzz_bytes *in)
{
    return fuzz_draw(in, 4) == 3 ? "w" : NULL;
}

static void put_keys(buf *b, fuzz_bytes *in)
{
    for (unsigned n = 1 + fuzz_draw(in, 3); n > 0; n--) {
        ask_key k = draw_key(in);
        ask_put_key(b, &k, draw_name(in));
    }
}

static void put_slots(buf *b, fuzz_bytes *in)
{
    for (unsigned n = 1 + fuzz_draw(in, 2); n > 0; n--) {
        kv_err e = {0};
        kv_array *a = NULL;
        ask_key k = draw_key(in);
        int code = k.storage == KV_ROW_SPARSE
                       ? kv_array_new_sparse(&a, (kv_dtype)k.dtype, k.ndim, k.shape, 0, NULL,
                                             (kv_ctx){0}, &e)
                       : kv_array_new(&a, (kv_dtype)k.dtype, k.ndim, k.shape, (kv_ctx){0}, &e);
        if (code)
            continue; /* no row_sparse array has no axis */
        HOLDS(ask_put_slot(b, &k, draw_name(in), 0, a, &e) == KV_OK, e.text);
        kv_array_unref(a);
    }
}

static void put_optimizer(buf *b, fuzz_bytes *in)
{
#define TEXT(text) {text, sizeof text}
    static const struct {
        const char *text;
        size_t n;
    } texts[] = {
        TEXT("optimizer\0sgd\0momentum\0000.9"), TEXT("optimizer\0adam"), TEXT("assign"),
        TEXT("rule\0{ stored += input * 2 }"), TEXT("update\0\0learning_rate\0000.5"),
        TEXT("rule\0updater r { state key n = 0\n n += 1; state m = stored\n stored -= m * n }")};
#undef TEXT
    unsigned i = fuzz_draw(in, 6);
    buf_put(b, texts[i].text, texts[i].n);
}

static uint32_t host_bytes; /* of the host step in the payload */

/* The host step of an update: what is given, and numbers of states. It is a plain struct of the
 * same build, and nothing in it is changed. */
static void put_host(buf *b, fuzz_bytes *in)
{
    rule_given given;
    host number;
    memset(&given, 0, sizeof given);
    memset(&number, 0, sizeof number);
    int64_t n = fuzz_draw(in, 8) == 7 ? fuzz_number(in) : fuzz_draw(in, 3);
    buf_put(b, (const char *)&given, sizeof given);
    buf_put(b, (const char *)&n, sizeof n);
    for (int64_t i = 0; i < n && i < 3; i++)
        buf_put(b, (const char *)&number, sizeof number);
    host_bytes = (uint32_t)b->len;
}

static void put_codes(buf *b, fuzz_bytes *in)
{
    push_codes how = {.code = (int16_t)(1 + fuzz_draw(in, 2)), .back = (int16_t)fuzz_draw(in, 3),
                      .threshold = 0.5f};
    buf_put(b, (const char *)&how, sizeof how);
    put_bytes(b, in);
    buf_put(b, "\0\0\0", (size_t)-b->len % 4); /* codes fill whole words */
}

static void put_rows(buf *b, fuzz_bytes *in)
{
    int64_t n = fuzz_draw(in, 4);
    buf_put(b, (const char *)&n, sizeof n);
    for (int64_t i = 0; i < n; i++)
        buf_put(b, (const char *)&i, sizeof i);
    put_floats(b, in);
}

typedef void put(buf *b, fuzz_bytes *in);

static void put_payload(buf *b, fuzz_bytes *in)
{
    static put *const kinds[] = {put_bytes, put_numbers,   put_floats, put_store, put_keys,
                                 put_slots, put_optimizer, put_host,   put_codes, put_rows};
    unsigned kind = fuzz_draw(in, sizeof kinds / sizeof *kinds);
    host_bytes = 0;
    kinds[kind](b, in);
    if (kind == 7)
        put_floats(b, in); /* behind the host step */
    for (unsigned n = fuzz_draw(in, 8) == 7 ? 1 + fuzz_draw(in, 3) : 0; n > 0 && b->len; n--) {
        size_t at = (fuzz_draw(in, 256) * 256u + fuzz_draw(in, 256)) % b->len;
        b->data[at] = (char)(at < host_bytes ? b->data[at] : (int)fuzz_draw(in, 256));
    }
}

static void draw_fields(link_rec *r, fuzz_bytes *in)
{
    switch ((link_kind)r->kind) {
    case LINK_PUSH:
        r->round = fuzz_number(in);
        r->pulls = fuzz_draw(in, 4) == 3 ? fuzz_number(in) : 0;
        r->from = fuzz_draw(in, 4) == 3 ? fuzz_number(in) : 0;
        r->n = r->flags & LINK_CODES || fuzz_draw(in, 4) == 3 ? fuzz_number(in)
                                                               : r->bytes - host_bytes;
        break;
    case LINK_PULL:
        r->round = fuzz_number(in);
        r->chunk = fuzz_number(in);
        r->priority = (int)fuzz_draw(in, 3) - 1;
        r->from = fuzz_number(in);
        r->state = fuzz_draw(in, 4) == 3 ? (int)fuzz_number(in) : (int)fuzz_draw(in, 3);
        break;
    case LINK_ADD:
        r->round = fuzz_number(in);
        r->chunk = fuzz_number(in);
        r->dtype = fuzz_draw(in, 8) == 7 ? (int)fuzz_number(in) : KV_FLOAT32;
        break;
    default:
        r->what = (int)fuzz_draw(in, ASK_RECEIVE + 2);
        r->args.rows.part = fuzz_number(in);
        r->args.rows.round = fuzz_number(in);
        break;
    }
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void hand_over(int rank, const link_rec *head, const buf *payload)
{
    link_rec r = *head;
    r.bytes = (uint32_t)payload->len;
    stub_deliver(rank, &r, buf_text(payload));
}

static void call_server(int rank, dist_ask what, int store, const buf *payload)
{
    link_rec head = {.kind = LINK_CALL, .flags = LINK_LAST, .store = (uint16_t)store,
                     .request = link_call_number(7), .what = what};
    hand_over(rank, &head, payload);
}

static void one_record(fuzz_bytes *in)
{
    static const link_kind kinds[] = {LINK_CALL, LINK_PUSH, LINK_PULL, LINK_ADD};
    unsigned what = fuzz_draw(in, 256);
    link_rec r = {.kind = kinds[what % 4], .store = (uint16_t)(what / 64)};
    own_buf payload = {0};
    put_payload(&payload, in);
    r.bytes = (uint32_t)payload.len;
    r.flags = LINK_LAST;
    if (r.kind == LINK_CALL)
        r.request = link_call_number(fuzz_draw(in, 16));
    else
        r.request = fuzz_draw(in, 16);
    if (r.kind != LINK_CALL && what / 8 % 4 == 3)
        r.flags = (uint8_t)fuzz_draw(in, 256);
    if (!host_bytes)
        r.flags &= (uint8_t)~LINK_HOST;
    r.part = (int64_t)(what / 32 % 2 ? fuzz_number(in) : fuzz_draw(in, 4));
    draw_fields(&r, in);
    hand_over(what / 4 % 2, &r, &payload);
}

/* A call in several records, which may not follow on each other or lack the end. */
static void long_call(fuzz_bytes *in)
{
    int rank = (int)fuzz_draw(in, WORKERS);
    size_t pieces = 2 + fuzz_draw(in, 3), at = 0;
    link_rec r = {.kind = LINK_CALL, .request = link_call_number(fuzz_draw(in, 16)),
                  .store = (uint16_t)(fuzz_draw(in, 8) == 7)};
    own_buf payload = {0};
    put_payload(&payload, in);
    draw_fields(&r, in);
    for (size_t i = 0; i < pieces; i++) {
        size_t left = payload.len - at;
        size_t n = i + 1 == pieces ? left : left * fuzz_draw(in, 256) / 256;
        unsigned odd = fuzz_draw(in, 16);
        r.bytes = (uint32_t)n;
        r.from = odd == 15 ? fuzz_number(in) : (int64_t)at;
        r.flags = odd == 14 || i + 1 == pieces ? LINK_LAST : 0;
        if (odd == 13)
            one_record(in); /* between them */
        if (odd != 12)
            stub_deliver(rank, &r, payload.data ? payload.data + at : NULL);
        at += n;
    }
}

/* A record of a kind that no worker sends to a server, or of none. */
static void odd_record(fuzz_bytes *in)
{
    kv_err e = {.code = (int32_t)fuzz_number(in), .text = "the rank is lost"};
    link_rec r = {.kind = (uint8_t)fuzz_draw(in, LINK_KINDS + 2), .request = fuzz_draw(in, 16)};
    if (fuzz_draw(in, 2))
        r.request = link_call_number(r.request);
    r.bytes = fuzz_draw(in, 2) ? sizeof e : fuzz_draw(in, 256);
    if (r.kind > LINK_SKIP) /* the link takes it itself */
        stub_deliver((int)fuzz_draw(in, WORKERS), &r, &e);
}

static void one_step(fuzz_bytes *in)
{
    unsigned which = fuzz_draw(in, 256), what = which % 16;
    if (which >= 240 && which < 248)
        long_call(in);
    else if (which >= 248 && which < 255)
        odd_record(in);
    else if (what == 15)
        stub_deliver((int)fuzz_draw(in, WORKERS), &(link_rec){.kind = LINK_LEFT}, NULL);
    else if (what == 14)
        stub_pass(10000000ll * fuzz_draw(in, 3));
    else if (what > 10)
        stub_run();
    else
        one_record(in);
}

/* Both workers release all stores. A server that cannot serve, say because of an optimizer that is
 * none, takes nothing more, and finds that out again as long as the store is there. */
static void end(void)
{
    const buf none = {0};
    stub_run();
    for (int i = 0; i < 16 && server_stores; i++) {
        int number = server_stores->number;
        stub_reset();
        for (int rank = 0; rank < WORKERS; rank++)
            call_server(rank, ASK_FREE, number, &none);
        stub_run();
    }
    stub_reset();
    HOLDS(!server_stores, "no store is left");
}

static void open_server(void)
{
    static bool open;
    kv_err e = {0};
    if (open)
        return;
    open = true;
    setenv("KVSTORE_SERVERS", "1", 1);
    setenv("KVSTORE_TIMEOUT", "1", 1);
    setenv("KVSTORE_DEADLINE", "0", 1);
    stub_ranks(SERVER, RANKS);
    HOLDS(net_open(server_open, &e) == KV_OK, e.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_bytes in = {data, data + n};
    open_server();
    buf how = {0};
    put_store(&how, &in);
    for (int rank = 0; rank < WORKERS; rank++)
        call_server(rank, ASK_CREATE, 0, &how);
    buf_release(&how);
    for (int i = 0; i < MOST_STEPS && in.at < in.end; i++)
        one_step(&in);
    end();
    return 0;
}
