/* Answers of servers, the coordinator among them, to a worker: elements, codes, changes and sums,
 * ends of pushes, errors, and replies to calls. The worker is the real one, with its net; the
 * servers are this file. The input is the type of a store, a list of calls that the worker makes,
 * and choices of the servers: a record is answered as a server would, or the answer is changed: a
 * field, the payload, its length, what it is, how often and when it comes. Behind the end of the
 * input all is as it should be. Every record lies in memory of its own size. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "core/image.h"
#include "core/state_file.h"
#include "cpu/changes.h"
#include "cpu/cpu.h"
#include "distributed/asks.h"
#include "distributed/request.h"
#include "net_stub.h"

int kv_plugin_init(const kv_host *host, kv_err *e);

enum { WORKERS = 2, SERVERS = 2, RANKS = 4, KEYS = 5, MOST_CALLS = 24, HELD = 8, OUTS = 8 };

/* The keys that calls use. */
static const struct form {
    const char *name;
    int64_t shape[2];
    int ndim;
    kv_storage storage;
} forms[KEYS] = {{NULL, {40, 2}, 2, KV_DEFAULT},
                 {NULL, {48}, 1, KV_DEFAULT},
                 {NULL, {32, 2}, 2, KV_ROW_SPARSE},
                 {NULL, {3, 20}, 2, KV_DEFAULT},
                 {NULL, {1}, 0, KV_DEFAULT}};

static struct {
    fuzz_bytes in; /* choices of the servers */
    kv *store;
    int rank;
    bool sums;
    kv_dtype dtype; /* of key 1 */
    ask_key keys[KEYS];
    bool made[KEYS]; /* it has a place */
    int64_t nparts;  /* that were given to keys */
    const char *optimizer; /* or NULL */
    bool compresses;
    int64_t moves, epochs;
    uint64_t request; /* of the last record that was not a call */
    buf call;         /* the records so far of a call to each server */
    struct held {
        int rank;
        link_rec head;
        buf payload;
    } held[HELD];
    int nheld;
    kv_array *outs[OUTS];
    int nouts;
} job;

/* ---- Sending --------------------------------------------------------------------------------- */

static void deliver(int rank, link_rec r, const buf *payload)
{
    r.bytes = (uint32_t)payload->len;
    stub_deliver(rank, &r, buf_text(payload));
}

static void deliver_held(void)
{
    for (int i = 0; i < job.nheld; i++) {
        deliver(job.held[i].rank, job.held[i].head, &job.held[i].payload);
        buf_release(&job.held[i].payload);
    }
    job.nheld = 0;
}

static void hold(int rank, const link_rec *r, const buf *payload)
{
    if (job.nheld == HELD)
        deliver_held();
    struct held *h = &job.held[job.nheld++];
    *h = (struct held){.rank = rank, .head = *r};
    buf_put(&h->payload, buf_text(payload), payload->len);
}

/* An error, or bytes that are none. */
static void put_error(buf *b, fuzz_bytes *in)
{
    unsigned what = fuzz_draw(in, 8);
    kv_err e = {.code = what < 4 ? KV_E_VALUE : (int)fuzz_number(in), .rank = 3, .text = "why"};
    if (what == 5)
        memset(e.text, 'x', sizeof e.text + sizeof e.hint);
    if (what == 6)
        e.text[0] = 0;
    if (what == 3)
        e.has_key = e.has_rank = 1;
    buf_put(b, (const char *)&e, what == 7 ? fuzz_draw(in, 256) : sizeof e);
}

/* One of the fields behind the length. */
static void change_field(link_rec *r, fuzz_bytes *in)
{
    unsigned which = fuzz_draw(in, 10);
    int64_t x = fuzz_number(in);
    if (which == 0)
        r->flags = (uint8_t)x;
    else if (which == 1)
        r->kind = (uint8_t)(LINK_PUSH + (unsigned)x % (LINK_KINDS - LINK_PUSH + 1));
    else if (which == 2)
        r->store = (uint16_t)x;
    else
        memcpy((char *)r + (which < 9 ? which - 2 : 6) * sizeof x, &x, sizeof x);
}

static void change_payload(buf *b, fuzz_bytes *in)
{
    size_t size = (size_t)1 << fuzz_draw(in, 4); /* of a number */
    size_t at = (fuzz_draw(in, 256) * 256u + fuzz_draw(in, 256)) % (b->len / size + 1) * size;
    int64_t x = fuzz_number(in);
    if (at + size <= b->len)
        memcpy(b->data + at, &x, size);
}

/* The record in several, of which the first ones lack the flag of the last. */
static void deliver_cut(int rank, link_rec r, const buf *payload, fuzz_bytes *in)
{
    size_t at = 0, pieces = 2 + fuzz_draw(in, 2);
    uint8_t flags = r.flags;
    int64_t offset = r.kind == LINK_VALUE ? r.from : 0;
    for (size_t i = 0; i < pieces; i++) {
        bool last = i + 1 == pieces;
        size_t left = payload->len - at;
        size_t n = last ? left : left * fuzz_draw(in, 256) / 256 & ~(size_t)7;
        r.bytes = (uint32_t)n;
        r.flags = last ? flags : flags & ~LINK_LAST;
        if (r.kind == LINK_VALUE)
            r.from = offset + (int64_t)at;
        stub_deliver(rank, &r, payload->data ? payload->data + at : NULL);
        at += n;
    }
}

/* Sends an answer, or something else. */
static void answer(int rank, link_rec r, buf *payload)
{
    fuzz_bytes *in = &job.in;
    unsigned what = fuzz_draw(in, 256), times = 1;
    switch (what < 160 ? 0 : what % 11) {
    case 1:
        times = 0;
        break;
    case 2:
        times = 2;
        break;
    case 3:
        hold(rank, &r, payload);
        times = 0;
        break;
    case 4:
        change_field(&r, in);
        break;
    case 5:
    case 6:
        for (unsigned n = 1 + fuzz_draw(in, 2); n > 0; n--)
            change_payload(payload, in);
        break;
    case 7:
        payload->len -= payload->len ? 1 + fuzz_draw(in, 256) % payload->len : 0;
        break;
    case 8:
        for (unsigned n = 1 + fuzz_draw(in, 64); n > 0; n--)
            buf_char(payload, (char)n);
        break;
    case 9:
        r = (link_rec){.kind = fuzz_draw(in, 8) == 7 ? LINK_LOST : LINK_FAILED,
                       .request = r.request, .part = r.part};
        payload->len = 0;
        put_error(payload, in);
        break;
    case 10:
        deliver_cut(rank, r, payload, in);
        times = 0;
        break;
    default:
        break;
    }
    for (; times > 0; times--)
        deliver(rank, r, payload);
    buf_release(payload);
}

/* ---- The keys of the servers ----------------------------------------------------------------- */

static ask_key key_form(int i)
{
    const struct form *f = &forms[i];
    ask_key k = {.id = f->name ? 0 : i, .ndim = (uint8_t)f->ndim, .storage = (uint8_t)f->storage};
    k.dtype = (uint8_t)(i == 1 ? job.dtype : KV_FLOAT32);
    memcpy(k.shape, f->shape, (size_t)f->ndim * sizeof *f->shape);
    return k;
}

/* Gives a key a place, whose parts may be smaller than those of the coordinator are. */
static void make_place(int i, int need)
{
    ask_key *k = &job.keys[i];
    *k = key_form(i);
    place p = place_new((kv_dtype)k->dtype, (kv_storage)k->storage, k->ndim, k->shape,
                        (place_need)need, SERVERS);
    unsigned how = fuzz_draw(&job.in, 4);
    int64_t row = p.row > 0 ? p.row : 1;
    if (how < 2 && need != PLACE_WHOLE && p.size > 16 && !job.sums) {
        p.step = 16;
        p.nparts = (int32_t)((p.size + 15) / 16);
        p.row = 16 % row ? 0 : row;
        if (need == PLACE_BY_ROWS && p.row == 0)
            p.step = p.size, p.nparts = 1, p.row = row;
    }
    if (job.sums)
        p = place_in_records(p.size, (kv_dtype)k->dtype);
    p.server = how == 1 ? -1 : (int32_t)how % SERVERS;
    p.first = job.nparts;
    job.nparts += p.nparts;
    k->place = p;
    job.made[i] = true;
}

/* The key of a part; -1: none. */
static int key_of(int64_t part)
{
    for (int i = 0; i < KEYS; i++) {
        const place *p = &job.keys[i].place;
        if (job.made[i] && part >= p->first && part - p->first < p->nparts)
            return i;
    }
    return -1;
}

static int key_named(const kv_key *key)
{
    return key->name || key->id < 0 || key->id >= KEYS ? -1 : (int)key->id;
}

/* ---- Images ---------------------------------------------------------------------------------- */

static void set_up(kv *store)
{
    kv_err e = {0};
    const kv_opt codes[] = {{"type", "2bit"}, {"threshold", "0.5"}};
    if (job.compresses)
        kv_set_gradient_compression(store, codes, 2, &e);
    if (job.optimizer)
        kv_set_optimizer(store, job.optimizer, NULL, 0, &e);
}

/* A key of a store of one process, with a push. */
static void add_key(kv *store, int64_t id, int dtype, int ndim, const int64_t *shape)
{
    kv_err e = {0};
    own_array *a = NULL;
    kv_key key = {.id = id};
    if (kv_array_new(&a, (kv_dtype)dtype, ndim, shape, (kv_ctx){0}, &e) == KV_OK &&
        kv_init(store, &key, 1, &a, NULL, &e) == KV_OK)
        kv_push(store, &key, 1, &a, NULL, &e);
}

/* The image of the states of a store; nothing if it has none. */
static void put_image(buf *b, const kv *store, bool with_rule, bool owed)
{
    kv_err e = {0};
    image im = {0};
    if (owed) {
        residual_parts_add(&im, &store->compression, &store->slots);
        if (image_finish(&im, &e) == KV_OK)
            image_print(b, &im, "states", &e);
        image_release(&im);
    } else if (job.optimizer && state_file_take(&im, store, with_rule, &e) == KV_OK) {
        image_print(b, &im, "states", &e);
        image_release(&im);
    }
}

static void put_states(buf *b, const buf *list)
{
    kv_err e = {0};
    for (size_t at = sizeof(int64_t); at < list->len; at += sizeof(int64_t)) {
        uint32_t arrays = job.optimizer ? fuzz_draw(&job.in, 4) : 0;
        buf_put(b, (const char *)&arrays, sizeof arrays);
    }
    kv *store = NULL;
    HOLDS(kv_create("local", NULL, 0, &store, &e) == KV_OK, e.text);
    bool compresses = job.compresses;
    job.compresses = false; /* residuals are the workers' */
    set_up(store);
    for (size_t at = sizeof(int64_t); at < list->len; at += sizeof(int64_t)) {
        int64_t part, shape[KV_MAX_NDIM];
        memcpy(&part, list->data + at, sizeof part);
        int i = key_of(part);
        if (i < 0)
            continue;
        const ask_key *k = &job.keys[i];
        int32_t number = (int32_t)(part - k->place.first);
        int ndim = place_shape(&k->place, place_count(&k->place, number), k->ndim, k->shape, shape);
        add_key(store, part, k->dtype, ndim, shape);
    }
    put_image(b, store, false, false);
    job.compresses = compresses;
    kv_free(store);
}

enum { SAVED, LOADED, RESIDUALS };

/* What another worker sent: of rank 0 how a file went, of others their residuals. */
static void put_mail(buf *b, int64_t tag)
{
    struct {
        kv_err why;
        int64_t keys;
    } result;
    kv_err e = {0};
    kv *store = NULL;
    memset(&result, 0, sizeof result);
    HOLDS(kv_create("local", NULL, 0, &store, &e) == KV_OK, e.text);
    set_up(store);
    if (tag != RESIDUALS)
        buf_put(b, (const char *)&result, sizeof result);
    for (int i = 0; i < KEYS && tag != SAVED; i++) {
        ask_key *k = &job.keys[i];
        if (!job.made[i])
            continue;
        add_key(store, i, k->dtype, k->ndim, k->shape);
        if (tag == LOADED)
            ask_put_key(b, k, forms[i].name);
    }
    int64_t keys = (int64_t)(b->len - sizeof result);
    if (tag == LOADED)
        memcpy(b->data + sizeof result - sizeof keys, &keys, sizeof keys);
    if (tag != SAVED)
        put_image(b, store, fuzz_draw(&job.in, 4) == 3, tag == RESIDUALS);
    kv_free(store);
}

/* ---- Answers to calls ------------------------------------------------------------------------ */

static void put_places(buf *b, const buf *asked)
{
    const char *at = buf_text(asked), *end = at + asked->len;
    while (at < end) {
        kv_key key;
        const ask_key *k = ask_get_key(&at, end, &key);
        HOLDS(k != NULL, "keys that are placed");
        int i = key_named(&key);
        place none = {.first = -1};
        bool there = i < 0 || (job.made[i] && k->need != PLACE_WHOLE && fuzz_draw(&job.in, 4) == 0);
        if (!there)
            make_place(i, k->need);
        buf_put(b, (const char *)(there ? &none : &job.keys[i].place), sizeof none);
    }
}

static void put_found(buf *b, const buf *asked)
{
    const char *at = buf_text(asked), *end = at + asked->len;
    while (at < end) {
        kv_key key;
        HOLDS(ask_get_key(&at, end, &key) != NULL, "keys that are looked for");
        int i = key_named(&key);
        if (i >= 0 && (!job.made[i] || fuzz_draw(&job.in, 8) == 7))
            make_place(i, fuzz_draw(&job.in, 4) == 3 ? PLACE_WHOLE : PLACE_BY_ROWS);
        if (i >= 0)
            ask_put_key(b, &job.keys[i], forms[i].name);
    }
}

/* The rows that are asked for. */
static void put_rows(buf *b, int64_t part, const buf *ids)
{
    int i = key_of(part);
    int64_t n = (int64_t)(ids->len / sizeof n);
    const int64_t *k = i < 0 ? NULL : job.keys[i].shape;
    buf_put(b, (const char *)&n, sizeof n);
    buf_put(b, buf_text(ids), ids->len);
    for (int64_t j = 0; k && j < n * k[1]; j++)
        buf_put(b, (const char *)&(float){(float)j}, sizeof(float));
}

static void put_missed(buf *b)
{
    for (unsigned n = fuzz_draw(&job.in, 3); n > 0; n--) {
        ask_missed x = {.part = (int64_t)fuzz_draw(&job.in, 8) - 1,
                        .round = fuzz_draw(&job.in, 4), .waits = fuzz_draw(&job.in, 2)};
        buf_put(b, (const char *)&x, sizeof x);
    }
}

static void answer_call(int rank, const link_rec *r, const buf *asked)
{
    link_rec head = {.kind = LINK_REPLY, .flags = LINK_LAST, .request = r->request};
    const ask_counts counts = {.rounds = 3, .keys = 2, .missing = 1};
    ask_met met = {.moves = job.moves, .epochs = job.epochs};
    buf b = {0};
    switch ((dist_ask)r->what) {
    case ASK_PLACE:
        put_places(&b, asked);
        break;
    case ASK_FIND:
        put_found(&b, asked);
        break;
    case ASK_BARRIER:
        job.moves += fuzz_draw(&job.in, 4) == 3;
        met.moves = job.moves;
        if (r->args.barrier != ASK_HOLD)
            buf_put(&b, (const char *)&met, sizeof met);
        break;
    case ASK_ROWS:
        put_rows(&b, r->args.rows.part, asked);
        break;
    case ASK_COUNTS:
        buf_put(&b, (const char *)&counts, sizeof counts);
        break;
    case ASK_MISSED:
        put_missed(&b);
        break;
    case ASK_STATES:
        put_states(&b, asked);
        break;
    case ASK_RECEIVE:
        put_mail(&b, r->args.mail.tag);
        break;
    case ASK_OPTIMIZER:
        job.epochs += rank == WORKERS;
        break;
    case ASK_CREATE:
    case ASK_FREE:
    case ASK_DONE:
    case ASK_INIT:
    case ASK_DROP:
    case ASK_COMMAND:
    case ASK_SET_STATES:
    case ASK_READY:
    case ASK_EPOCH:
    case ASK_ROUNDS:
    case ASK_LOOK:
    case ASK_GROW:
    case ASK_KEYS:
    case ASK_SEND:
        break;
    }
    answer(rank, head, &b);
}

/* Collects a call; the calls of this worker do not mix, since one follows on another. */
static void take_call(int rank, const link_rec *r)
{
    HOLDS(r->from == (int64_t)job.call.len, "records of a call follow on each other");
    buf_put(&job.call, (const char *)(r + 1), r->bytes);
    if (!(r->flags & LINK_LAST))
        return;
    buf all = job.call;
    job.call = (buf){0};
    answer_call(rank, r, &all);
    buf_release(&all);
}

/* ---- Answers to requests --------------------------------------------------------------------- */

static void fail_part(int rank, const link_rec *r)
{
    buf b = {0};
    kv_err e = {.code = KV_E_INTERNAL, .text = "no such part"};
    buf_put(&b, (const char *)&e, sizeof e);
    answer(rank, (link_rec){.kind = LINK_FAILED, .request = r->request, .part = r->part}, &b);
}

/* All elements of a part, as numbers, or in the pull of changes some of them. */
static void send_value(int rank, const link_rec *r, int64_t number)
{
    int i = key_of(r->part);
    if (i < 0) {
        fail_part(rank, r);
        return;
    }
    const ask_key *k = &job.keys[i];
    int64_t n = place_count(&k->place, (int32_t)(r->part - k->place.first));
    int64_t each = kv_dtype_bytes((kv_dtype)k->dtype), round = fuzz_draw(&job.in, 4);
    link_rec head = {.kind = LINK_VALUE, .flags = LINK_LAST, .part = r->part,
                     .request = r->request, .chunk = number, .round = round};
    buf b = {0};
    if (r->kind == LINK_PULL && r->state && each < (int64_t)sizeof(float))
        each = sizeof(float); /* half-precision keys have states in single precision */
    char *elements = calloc((size_t)n + 1, (size_t)each);
    uint8_t marks[128] = {0};
    char room[2048];
    HOLDS(elements && n <= (int64_t)sizeof marks, "elements");
    unsigned how = fuzz_draw(&job.in, 4);
    if (r->kind == LINK_PULL && r->flags & LINK_CHANGES && how) {
        for (int64_t at = 0; at < n; at++)
            marks[at] = (uint8_t)(at % (how == 3 ? 3 : 1 + 5 * how) == 0);
        head.flags |= LINK_CHANGES;
        head.n = n;
        buf_put(&b, room, (size_t)changes_encode(room, marks, 0, elements, (int)each, n));
    } else if (r->kind == LINK_PULL && job.compresses && k->dtype == KV_FLOAT32 && how > 1) {
        const push_codes codes = {.code = (int16_t)(how - 1), .threshold = 0.5f};
        head.flags |= LINK_CODES;
        head.n = n;
        buf_put(&b, (const char *)&codes, sizeof codes);
        buf_put(&b, room, (size_t)quantise_bytes((quantise_code)codes.code, n));
    } else {
        buf_put(&b, elements, (size_t)(n * each));
    }
    free(elements);
    answer(rank, head, &b);
}

static void see(int rank, const link_rec *r)
{
    buf none = {0};
    if (r->kind == LINK_PUSH || r->kind == LINK_PULL || r->kind == LINK_ADD)
        job.request = r->request;
    if (r->kind == LINK_CALL)
        take_call(rank, r);
    else if (r->kind == LINK_PULL)
        send_value(rank, r, r->chunk);
    else if (r->kind == LINK_ADD)
        send_value(rank, r, r->chunk);
    else if (r->kind == LINK_PUSH && r->flags & LINK_LAST)
        answer(rank, (link_rec){.kind = LINK_DONE, .request = r->request, .n = 1}, &none);
}

/* Nothing has come for long: what was held comes now, or the servers give the job up. */
static void idle(void)
{
    const kv_err why = {.code = KV_E_PEER, .rank = WORKERS, .text = "rank 2 is lost"};
    if (job.nheld)
        deliver_held();
    else
        stub_deliver(WORKERS, &(link_rec){.kind = LINK_LOST, .bytes = sizeof why}, &why);
}

/* A record that answers nothing. */
static void send_odd(fuzz_bytes *in)
{
    link_rec r = {.kind = (uint8_t)(LINK_PUSH + fuzz_draw(in, LINK_KINDS - LINK_PUSH + 1)),
                  .request = job.request, .flags = fuzz_draw(in, 4) ? LINK_LAST : 0};
    own_buf b = {0};
    r.chunk = fuzz_draw(in, 4);
    if (fuzz_draw(in, 4) == 3)
        change_field(&r, in);
    if (fuzz_draw(in, 2))
        put_error(&b, in);
    if (r.kind == LINK_LOST && fuzz_draw(in, 4))
        r.kind = LINK_BEAT; /* a loss ends everything */
    deliver(WORKERS + (int)fuzz_draw(in, SERVERS), r, &b);
}

/* ---- The worker ------------------------------------------------------------------------------ */

static bool good(int code, const kv_err *e)
{
    HOLDS(code == e->code && code >= KV_OK && code < KV_NCODES, e->text);
    HOLDS(code == KV_OK || e->text[0], kv_code_name(code));
    HOLDS(strnlen(e->text, sizeof e->text) < sizeof e->text, "a text that ends");
    return code == KV_OK;
}

static kv_array *new_array(int key, int dtype)
{
    kv_err e = {0};
    kv_array *a = NULL;
    const struct form *f = &forms[key];
    if (f->storage == KV_ROW_SPARSE && !job.sums) {
        static const int64_t rows[] = {1, 17, 18};
        HOLDS(kv_array_new_sparse(&a, (kv_dtype)dtype, f->ndim, f->shape, 3, rows, (kv_ctx){0},
                                  &e) == KV_OK, e.text);
        return a;
    }
    HOLDS(kv_array_new(&a, (kv_dtype)dtype, f->ndim, f->shape, (kv_ctx){0}, &e) == KV_OK, e.text);
    return a;
}

static void drop_outs(bool waits)
{
    for (int i = 0; i < job.nouts; i++) {
        kv_err e = {0};
        const void *data;
        if (waits && job.outs[i]->storage == KV_DEFAULT)
            good(kv_array_read(job.outs[i], &data, &e), &e);
        kv_array_unref(job.outs[i]);
    }
    job.nouts = 0;
}

/* Up to three keys of the input, which may stand twice. */
static int draw_keys(kv_key *keys, kv_array **arrays, fuzz_bytes *in)
{
    int n = 1 + (int)fuzz_draw(in, 3);
    for (int i = 0; i < n; i++) {
        int k = (int)fuzz_draw(in, KEYS);
        keys[i] = (kv_key){.id = k, .name = forms[k].name};
        int dtype = fuzz_draw(in, 8) == 7 ? (int)fuzz_dtype(in)
                    : k == 1              ? (int)job.dtype
                                          : KV_FLOAT32;
        arrays[i] = new_array(k, dtype);
    }
    return n;
}

/* The outs stay until they are read. */
static void keep(kv_array *const *arrays, int n)
{
    if (job.nouts + n > OUTS)
        drop_outs(true);
    for (int i = 0; i < n; i++)
        job.outs[job.nouts++] = kv_array_ref(arrays[i]);
}

static void set_optimizer(fuzz_bytes *in)
{
    static const char *const names[] = {"sgd", "adam", "lamb", "nag", "test", "adagrad"};
    kv_err e = {0};
    job.optimizer = names[fuzz_draw(in, 6)];
    const kv_opt param = {"momentum", "0.5"};
    bool more = strcmp(job.optimizer, "sgd") == 0 || strcmp(job.optimizer, "nag") == 0;
    good(kv_set_optimizer(job.store, job.optimizer, &param, more, &e), &e);
}

static void pull_rows(const kv_key *keys, kv_array *const *arrays, int n)
{
    kv_err e = {0};
    kv_array *ids[3] = {NULL};
    int64_t some = 3;
    for (int i = 0; i < n; i++) {
        void *data = NULL;
        HOLDS(kv_array_new(&ids[i], KV_INT64, 1, &some, (kv_ctx){0}, &e) == KV_OK &&
                  kv_array_write(ids[i], &data, &e) == KV_OK, e.text);
        memcpy(data, (const int64_t[]){1, 17, 31}, 3 * sizeof(int64_t));
    }
    good(kv_row_sparse_pull(job.store, keys, n, ids, arrays, NULL, &e), &e);
    for (int i = 0; i < n; i++)
        kv_array_unref(ids[i]);
}

static void load_states(void)
{
    kv_err e = {0};
    own_buf b = {0};
    kv *store = NULL;
    HOLDS(kv_create("local", NULL, 0, &store, &e) == KV_OK, e.text);
    set_up(store);
    for (int i = 0; i < KEYS; i++)
        if (job.made[i])
            add_key(store, i, job.keys[i].dtype, job.keys[i].ndim, job.keys[i].shape);
    put_image(&b, store, fuzz_draw(&job.in, 2), false);
    kv_free(store);
    good(kv_load_states(job.store, fuzz_file("states", buf_text(&b), b.len), &e), &e);
}

static int visit(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)arg, (void)fields, (void)n, (void)e;
    return KV_OK;
}

static void one_call(fuzz_bytes *in)
{
    static const kv_opt codes[] = {{"type", "2bit"}, {"threshold", "0.5"}, {"pull", "1"}};
    kv_err e = {0};
    kv_key keys[3];
    kv_array *a[3];
    int64_t rounds[3];
    unsigned what = fuzz_draw(in, 64), many = fuzz_draw(in, 8);
    int n = draw_keys(keys, a, in);
    kv_call how = {.priority = (int32_t)(many % 3)};
    for (int i = 0; i < n; i++)
        rounds[i] = many ? KV_NO_ROUND : (int64_t)fuzz_draw(in, 3);
    if (job.sums && what < 32)
        what = 32 + what % 2;
    if (what < 8)
        good(kv_init(job.store, keys, n, a, NULL, &e), &e);
    else if (what < 16)
        good(kv_push(job.store, keys, n, a, &how, &e), &e);
    else if (what < 22 && good(kv_pull(job.store, keys, n, a, &how, &e), &e))
        keep(a, n);
    else if (what >= 22 && what < 27)
        good(kv_pull_since(job.store, keys, n, a, rounds, &how, &e), &e);
    else if (what >= 27 && what < 32)
        pull_rows(keys, a, n);
    else if (what == 32 && good(kv_pushpull(job.store, keys, n, a, keys, n, a, &how, &e), &e))
        keep(a, n);
    else if (what == 33 && good(kv_broadcast(job.store, keys, n, a, keys, n, a, &how, &e), &e))
        keep(a, n);
    else if (what > 33 && what < 38)
        good(kv_barrier(job.store, &e), &e);
    else if (what >= 38 && what < 42)
        set_optimizer(in);
    else if (what == 42)
        job.compresses |= good(kv_set_gradient_compression(job.store, codes, 2 + many % 2, &e), &e);
    else if (what == 43)
        good(kv_describe(job.store, "cluster", visit, NULL, &e), &e);
    else if (what < 47 && what > 43)
        good(kv_save_states(job.store, fuzz_path("states"), many % 2 * KV_DUMP_OPTIMIZER, &e), &e);
    else if (what >= 47 && what < 51)
        load_states();
    else if (what == 51)
        good(kv_send_command(job.store, 1, "stop", &e), &e);
    else if (what == 52 && many == 7)
        good(kv_done(job.store, &e), &e);
    else if (what == 53)
        good(kv_await_key(job.store, keys, &(kv_info){0}, &e), &e);
    else if (what == 54 && many < 2)
        good(kv_wait(job.store, &e), &e);
    else if (what == 55)
        deliver_held();
    else if (what == 56)
        drop_outs(true);
    else if (what > 56)
        send_odd(in);
    for (int i = 0; i < n; i++)
        kv_array_unref(a[i]);
}

static void create(unsigned what)
{
    static const char *const types[] = {"dist_sync", "dist_async", "dist_device_sync", "horovod"};
    kv_err e = {0};
    job.rank = (int)(what / 4 % WORKERS);
    job.sums = what % 4 == 3;
    job.dtype = what < 128 ? KV_FLOAT32 : fuzz_dtype(&job.in);
    stub_ranks(job.rank, RANKS);
    if (!good(kv_create(types[what % 4], NULL, 0, &job.store, &e), &e))
        job.store = NULL;
}

static void begin(void)
{
    static bool begun;
    kv_err e = {0};
    kv_host lib = {.size = sizeof lib, .version = KV_TYPE_VERSION, .library = KV_VERSION,
                   .register_type = kv_register_type, .find_type = kv_find_type};
    if (begun)
        return;
    begun = true;
    setenv("KVSTORE_SERVERS", "2", 1);
    setenv("KVSTORE_THREADS", "1", 1);
    setenv("KVSTORE_TIMEOUT", "1", 1);
    setenv("KVSTORE_DEADLINE", "0", 1);
    HOLDS(kv_plugin_init(&lib, &e) == KV_OK, e.text);
    stub_sees = see;
    stub_idle = idle;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    kv_err e = {0};
    begin();
    memset(&job, 0, sizeof job);
    fuzz_bytes calls = {data, data + n};
    unsigned what = fuzz_draw(&calls, 256), bytes = fuzz_draw(&calls, 256);
    if (calls.end - calls.at > bytes)
        calls.end = calls.at + bytes;
    job.in = (fuzz_bytes){calls.end, data + n};
    create(what);
    for (int i = 0; i < MOST_CALLS && job.store && calls.at < calls.end; i++)
        one_call(&calls);
    if (job.store)
        good(kv_wait(job.store, &e), &e);
    drop_outs(true);
    kv_free(job.store);
    deliver_held();
    stub_run();
    stub_reset();
    buf_release(&job.call);
    return 0;
}
