/* The directory of keys, their places by load, barriers, mail, and the workers that wait. */
#include "distributed/coordinator.h"

#include <string.h>

#include "base/kv_assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "runtime.h"

typedef struct entry {
    ask_key key;
    char *name;
    place next; /* the key moves there; no parts: it stays */
    bool ready;
    int maker;    /* the worker that asked for its place */
    bool settled; /* the first worker has made it, or pushed to it, and brings no value any more */
} entry;

/* A message that its receiver has not asked for yet. */
typedef struct mail {
    int from, to;
    int64_t tag, bytes;
    struct mail *next;
    char data[];
} mail;

static void drop_mail(mail **at)
{
    mail *l = *at;
    *at = l->next;
    mem_free(l);
}

/* For an optimizer, or for mail, since a file brings a rule: the first worker may hold the others
 * meanwhile. */
static bool awaits_first(const waiter *w)
{
    return w->lacks == 0 && !w->keys;
}

static void drop_waiter(coordinator *c, waiter **at)
{
    waiter *w = *at;
    *at = w->next;
    c->awaits_first[w->rank] -= awaits_first(w);
    mem_free(w->keys);
    mem_free(w);
}

void coordinator_free(server_state *s)
{
    coordinator *c = s->coordinator;
    if (!c)
        return;
    for (int64_t i = 0; i < c->n; i++)
        mem_free(c->entries[i].name);
    while (c->mailbox)
        drop_mail(&c->mailbox);
    while (c->waiters)
        drop_waiter(c, &c->waiters);
    map_release(&c->index);
    mem_free(c->entries);
    mem_free(c->load);
    mem_free(c->at_barrier);
    mem_free(c->awaits_first);
    mem_free(c);
    s->coordinator = NULL;
}

static coordinator *coordinator_of(server_state *s)
{
    kv_err unused = {0};
    if (s->coordinator)
        return s->coordinator;
    coordinator *c = s->coordinator = mem_zalloc(1, sizeof *c, &unused);
    if (!c)
        return NULL;
    c->load = mem_zalloc(s->how.servers, sizeof *c->load, &unused);
    c->at_barrier = mem_zalloc(s->how.workers, sizeof *c->at_barrier, &unused);
    c->awaits_first = mem_zalloc(s->how.workers, sizeof *c->awaits_first, &unused);
    if (!c->load || !c->at_barrier || !c->awaits_first)
        coordinator_free(s);
    return s->coordinator;
}

/* ---- Places ---- */

static void add_load(const server_state *s, coordinator *c, const ask_key *k, const place *p,
                     int sign)
{
    for (int32_t i = 0; i < p->nparts; i++) {
        int64_t *load = &c->load[place_server(p, i, s->how.servers)];
        /* The bytes of the part, and the time that a record takes beside that of its bytes (about
         * 1.4 us where a byte takes 0.12 ns). */
        *load += sign * (place_count(p, i) * kv_dtype_bytes((kv_dtype)k->dtype) + (12 << 10));
        kv_assert(*load >= 0, "a server is left with a load of %lld when part %lld goes",
                  (long long)*load, (long long)p->first + i);
    }
}

static place find_place(const server_state *s, coordinator *c, const ask_key *k)
{
    kv_dtype dtype = (kv_dtype)k->dtype;
    int servers = s->how.servers;
    place p = place_new(dtype, (kv_storage)k->storage, k->ndim, k->shape, (place_need)k->need,
                        servers);
    if (s->how.sums)
        p = place_in_records(p.size, dtype);
    p.first = c->parts;
    p.server = 0;
    for (int i = 1; i < servers; i++) /* the lightest */
        if (c->load[i] < c->load[p.server])
            p.server = i;
    if (p.nparts > 1)
        p.server = -1 - p.server;
    add_load(s, c, k, &p, 1);
    c->parts += p.nparts;
    return p;
}

static int add_key(server_state *s, coordinator *c, int rank, const ask_key *in, const kv_key *key,
                   place *out, kv_err *e)
{
    entry x = {.key = *in, .maker = rank};
    TRY(mem_grow(&c->entries, &c->cap, c->n + 1, sizeof *c->entries, e));
    kv_key own = {.id = key->id};
    if (key->name && !(own.name = x.name = mem_text(key->name, strlen(key->name), e)))
        return KV_E_MEMORY;
    int rc = map_put(&c->index, own, c->n, e);
    if (rc) {
        mem_free(x.name);
        return rc;
    }
    x.key.place = find_place(s, c, &x.key);
    *out = x.key.place;
    c->entries[c->n++] = x;
    return KV_OK;
}

/* ---- Keys that others wait for ---- */

/* Returns true if the first worker cannot make keys now: it waits itself, or has left. */
static bool nobody_makes(const server_state *s, const coordinator *c)
{
    return s->workers[0].done || s->workers[0].ended || c->at_barrier[0] != 0;
}

static mail **find_mail(coordinator *c, int from, int to, int64_t tag)
{
    mail **at = &c->mailbox;
    while (*at && ((*at)->from != from || (*at)->to != to || (*at)->tag != tag))
        at = &(*at)->next;
    return at;
}

/* Replies if the mail is there, or will never come, and returns true then. */
static bool answer_mail(const server_state *s, coordinator *c, const waiter *w)
{
    mail **at = find_mail(c, w->lacks, w->rank, w->tag);
    if (!*at && w->tag == MAIL_RESIDUALS)
        at = find_mail(c, w->lacks, w->rank, MAIL_LAST_RESIDUALS);
    if (!*at && !s->workers[w->lacks].gone)
        return false;
    if (!*at) {
        server_reply(w->rank, w->request, NULL, 0);
        return true;
    }
    buf reply = {0};
    buf_put(&reply, (*at)->data, (size_t)(*at)->bytes);
    server_reply_buf(w->rank, w->request, &reply, &(kv_err){0});
    if ((*at)->tag != MAIL_LAST_RESIDUALS)
        drop_mail(at);
    return true;
}

/* Replies if all keys, or the optimizers, are ready. */
static bool answer(server_state *s, coordinator *c, const waiter *w)
{
    if (w->tag >= 0)
        return answer_mail(s, c, w);
    const char *at = w->keys, *end = at ? at + w->bytes : NULL;
    own_buf reply = {0};
    kv_err e = {0};
    bool ready = w->epoch <= c->epoch, given_up = nobody_makes(s, c);
    while (at < end && ready) {
        kv_key key;
        const ask_key *in = ask_get_key(&at, end, &key);
        int64_t i = in ? map_get(&c->index, key) : -1;
        ready = i >= 0 && c->entries[i].ready && (w->any || c->entries[i].settled || given_up);
        if (ready)
            ask_put_key(&reply, &c->entries[i].key, c->entries[i].name);
    }
    if (ready)
        server_reply_buf(w->rank, w->request, &reply, &e);
    if (ready && w->epoch > 0 && w->epoch == c->epoch && w->text != c->text)
        runtime_log("rank %d sets another optimizer than rank 0: that of rank 0 is used", w->rank);
    return ready;
}

/* Refuses a worker that waits for something that will not come. */
static bool refuse_in_vain(const server_state *s, const coordinator *c, const waiter *w)
{
    kv_err e = {0};
    const char *at = w->keys;
    kv_key key = {0};
    if (w->tag >= 0 && s->workers[w->lacks].ended) {
        kv_err_set(&e, KV_E_PEER, "rank %d has ended, and this rank waits for it", w->lacks);
    } else if (w->keys && nobody_makes(s, c)) {
        if (!ask_get_key(&at, w->keys + w->bytes, &key))
            return true;
        slot_refuse_unknown(&key, &e);
    } else {
        return false;
    }
    server_refuse(w->rank, w->request, &e);
    return true;
}

/* Answers or refuses a waiting call if it can be now; returns true if it did. */
static bool look_at_waiter(server_state *s, coordinator *c, waiter **at)
{
    bool ends = answer(s, c, *at) || refuse_in_vain(s, c, *at);
    if (ends)
        drop_waiter(c, at);
    return ends;
}

static void look_at_waiters(server_state *s, coordinator *c)
{
    for (waiter **at = &c->waiters; *at;)
        at = look_at_waiter(s, c, at) ? at : &(*at)->next;
}

static int check_keys(const char *at, const char *end, kv_err *e)
{
    kv_key key;
    while (at < end)
        if (!ask_get_key(&at, end, &key))
            return ask_malformed(e);
    return KV_OK;
}

/* Keeps a call that asks for keys, optimizers or mail, and answers it when they are there. */
static void wait_for(server_state *s, coordinator *c, int rank, const link_rec *r)
{
    kv_err e = {0};
    const char *asked = (const char *)(r + 1);
    int64_t bytes = link_call_bytes(r);
    check_keys(asked, asked + bytes, &e);
    waiter *w = e.code ? NULL : mem_alloc(1, sizeof *w, &e);
    char *keys = w && bytes ? mem_alloc(bytes, 1, &e) : NULL;
    if (e.code) {
        mem_free(w);
        server_refuse(rank, r->request, &e);
        return;
    }
    *w = (waiter){.rank = rank, .request = r->request, .since_us = net_now_us(), .tag = -1,
                  .keys = keys, .bytes = bytes, .next = c->waiters};
    if (bytes)
        memcpy(keys, r + 1, (size_t)bytes);
    if (r->what == ASK_FIND) {
        w->any = r->args.any;
    } else if (r->what == ASK_EPOCH) {
        w->epoch = r->args.optimizer.number;
        w->text = r->args.optimizer.text;
    } else {
        w->lacks = (int)r->args.mail.peer;
        w->tag = r->args.mail.tag;
    }
    c->waiters = w;
    c->awaits_first[rank] += awaits_first(w);
    look_at_waiter(s, c, &c->waiters); /* for the others nothing is new */
}

/* ---- Keys that are made ---- */

static void put_form(buf *b, const ask_key *k)
{
    buf_printf(b, "%s%s (", k->storage == KV_ROW_SPARSE ? "row_sparse " : "",
               kv_dtype_name((kv_dtype)k->dtype));
    for (int i = 0; i < k->ndim; i++)
        buf_printf(b, i ? ", %lld" : "%lld", (long long)k->shape[i]);
    buf_add(b, k->ndim == 1 ? ",)" : ")");
}

/* Checks that the first worker may init a key with this value. Where others have pushed to the key
 * before, the value must fit the key that they made, since their pushes are on the way already. */
static int check_init(const coordinator *c, const ask_key *in, const kv_key *key, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    buf forms = {0};
    int64_t i = map_get(&c->index, *key);
    const entry *x = i < 0 ? NULL : &c->entries[i];
    if (!x || (!x->settled && x->key.dtype == in->dtype && x->key.storage == in->storage &&
               x->key.ndim == in->ndim &&
               memcmp(x->key.shape, in->shape, x->key.ndim * sizeof *x->key.shape) == 0 &&
               place_fits(&x->key.place, (place_need)in->need)))
        return KV_OK;
    if (x->settled)
        return slot_refuse_inited(key, e);
    put_form(&forms, &x->key);
    buf_add(&forms, " before this init as ");
    put_form(&forms, in);
    kv_err_set(e, KV_E_VALUE, "rank %d has pushed key %s as %s", x->maker, slot_key_text(text, key),
               buf_text(&forms));
    buf_release(&forms);
    kv_err_key(e, key);
    return kv_err_hint(e, "let the others come to a barrier behind init before they push"),
           KV_E_VALUE;
}

/* The place of a key that was asked for before. A push of the first worker settles it, because that
 * worker brings no first value behind it. */
static place find_again(const server_state *s, coordinator *c, entry *x, int rank,
                        const ask_key *in, bool inits)
{
    if (inits)
        return x->key.place;
    x->settled |= rank == 0;
    if (!x->ready && s->workers[x->maker].gone) {
        x->maker = rank;
        return x->key.place;
    }
    if (x->ready && !place_fits(&x->key.place, (place_need)in->need)) {
        /* A key that was cut becomes one part. */
        ask_key whole = x->key;
        if (x->next.nparts)
            add_load(s, c, &x->key, &x->next, -1); /* a move that was not carried out */
        whole.need = PLACE_WHOLE;
        return x->next = find_place(s, c, &whole);
    }
    return (place){.first = -1};
}

static void call_place(server_state *s, coordinator *c, int rank, const link_rec *r)
{
    const char *at = (const char *)(r + 1), *end = at + link_call_bytes(r);
    bool inits = r->args.inits;
    buf reply = {0};
    kv_err e = {0};
    int rc = KV_OK;
    for (const char *asked = at; asked < end && inits && !rc;) { /* all, before one is made */
        kv_key key;
        const ask_key *in = ask_get_key(&asked, end, &key);
        rc = in ? check_init(c, in, &key, &e) : ask_malformed(&e);
    }
    while (at < end && !rc) {
        kv_key key;
        place p;
        const ask_key *in = ask_get_key(&at, end, &key);
        if (!in) {
            rc = ask_malformed(&e);
            break;
        }
        int64_t i = map_get(&c->index, key);
        if (i < 0)
            rc = add_key(s, c, rank, in, &key, &p, &e);
        else
            p = find_again(s, c, &c->entries[i], rank, in, inits);
        buf_put(&reply, (const char *)&p, sizeof p);
    }
    if (rank == 0) /* whose call may settle keys */
        look_at_waiters(s, c);
    server_reply_buf(rank, r->request, &reply, &e);
}

static void call_ready(server_state *s, coordinator *c, int rank, const link_rec *r)
{
    const char *at = (const char *)(r + 1), *end = at + link_call_bytes(r);
    const ask_key *in;
    kv_key key;
    while (at < end && (in = ask_get_key(&at, end, &key))) {
        int64_t i = map_get(&c->index, key);
        entry *x = i < 0 ? NULL : &c->entries[i];
        if (x && x->next.nparts && x->next.first == in->place.first) {
            kv_assert(x->next.first != x->key.place.first, "a key moves from part %lld to itself",
                      (long long)x->next.first);
            add_load(s, c, &x->key, &x->key.place, -1);
            x->key.place = x->next;
            x->key.need = PLACE_WHOLE;
            x->next = (place){0};
            c->moves++;
        }
        if (x) {
            x->ready = true;
            x->settled |= rank == 0;
        }
    }
    look_at_waiters(s, c);
}

static void call_keys(const coordinator *c, int rank, const link_rec *r)
{
    buf reply = {0};
    kv_err e = {0};
    const char *at = (const char *)(r + 1), *end = at + link_call_bytes(r);
    kv_key key;
    check_keys(at, end, &e);
    while (at < end && !e.code && ask_get_key(&at, end, &key)) {
        int64_t i = map_get(&c->index, key);
        if (i >= 0 && c->entries[i].ready)
            ask_put_key(&reply, &c->entries[i].key, c->entries[i].name);
    }
    server_reply_buf(rank, r->request, &reply, &e);
}

/* ---- Barriers ---- */

static void come(coordinator *c, int rank, uint64_t request)
{
    c->nat_barrier += (request != 0) - (c->at_barrier[rank] != 0);
    c->at_barrier[rank] = request;
}

void coordinator_end_barrier(server_state *s, const kv_err *why)
{
    coordinator *c = s->coordinator;
    for (int i = 0; i < s->how.workers; i++) {
        if (c->at_barrier[i])
            server_refuse(i, c->at_barrier[i], why);
        come(c, i, 0);
    }
    c->barrier_us = 0;
}

bool coordinator_lacks(const server_state *s, int rank)
{
    const coordinator *c = s->coordinator;
    const server_worker *x = &s->workers[rank];
    bool there = (x->done && !(rank == 0 && c->holds)) || c->at_barrier[rank];
    if (c->first_asks && s->workers[0].done) /* no round waits for it, so others may have left */
        there |= x->ended;
    return !there && !(c->first_asks && c->awaits_first[rank]);
}

/* Returns true if the barrier lacks a worker. Asked at each call of many workers, it begins with
 * the one that was lacking before: all calls together look at each worker about once. */
static bool lacks_any(const server_state *s, coordinator *c)
{
    for (int i = 0; i < s->how.workers; i++) {
        if (coordinator_lacks(s, c->lacked))
            return true;
        c->lacked = (c->lacked + 1) % s->how.workers;
    }
    return false;
}

/* Ends the barrier: replies to all workers. */
static void let_go(const server_state *s, coordinator *c)
{
    ask_met met = {c->moves, c->epoch};
    int some = c->first_asks ? 1 : s->how.workers;
    for (int i = 0; i < some; i++) {
        if (c->at_barrier[i])
            server_reply(i, c->at_barrier[i], &met, sizeof met);
        come(c, i, 0);
    }
    c->holds = c->first_asks;
    c->first_asks = false;
    c->barrier_us = c->nat_barrier > 0 ? net_now_us() : 0;
}

static void look_at_barrier(server_state *s, coordinator *c)
{
    kv_err why = {0};
    bool waits = c->nat_barrier > 0 && s->any_ended;
    int ended = waits ? s->how.workers - 1 : -1; /* the last that has, and is waited for */
    while (ended >= 0 && !(s->workers[ended].ended && coordinator_lacks(s, ended)))
        ended--;
    if (c->nat_barrier > 0 && !c->barrier_us)
        c->barrier_us = net_now_us();
    if (ended >= 0) {
        kv_err_set(&why, KV_E_PEER, "rank %d has ended; the barrier waits for it", ended);
        coordinator_end_barrier(s, &why);
    } else if (!lacks_any(s, c)) {
        let_go(s, c);
    } else if (nobody_makes(s, c)) { /* which may be new, and is all that is */
        look_at_waiters(s, c);
    }
}

/* ---- Mail ---- */

static int send_mail(server_state *s, coordinator *c, int rank, const link_rec *r, kv_err *e)
{
    int64_t bytes = link_call_bytes(r);
    int to = (int)r->args.mail.peer;
    if (s->workers[to].gone)
        return KV_OK;
    mail *l = mem_alloc(1, sizeof *l + (size_t)bytes, e);
    if (!l)
        return KV_E_MEMORY;
    *l = (mail){.from = rank, .to = to, .tag = r->args.mail.tag, .bytes = bytes};
    memcpy(l->data, r + 1, (size_t)bytes);
    mail **at = find_mail(c, l->from, l->to, l->tag);
    if (*at)
        drop_mail(at); /* it was not received yet, and this one replaces it */
    l->next = c->mailbox;
    c->mailbox = l;
    look_at_waiters(s, c);
    return KV_OK;
}

void coordinator_left(server_state *s)
{
    if (s->coordinator) {
        look_at_barrier(s, s->coordinator);
        look_at_waiters(s, s->coordinator);
    }
}

void coordinator_lose_worker(server_state *s, int rank)
{
    coordinator *c = s->coordinator;
    if (!c)
        return;
    come(c, rank, 0);
    for (waiter **at = &c->waiters; *at;) {
        if ((*at)->rank == rank)
            drop_waiter(c, at);
        else
            at = &(*at)->next;
    }
    for (mail **at = &c->mailbox; *at;) {
        if ((*at)->to == rank)
            drop_mail(at);
        else
            at = &(*at)->next;
    }
    coordinator_left(s);
}

void coordinator_end_waiter(server_state *s, waiter *w, const kv_err *why)
{
    waiter **at = &s->coordinator->waiters;
    while (*at && *at != w)
        at = &(*at)->next;
    if (!kv_assert(*at, "rank %d is given up, and the coordinator does not know that it waits",
                   w->rank))
        return;
    server_refuse(w->rank, w->request, why);
    drop_waiter(s->coordinator, at);
}

bool coordinator_key(const server_state *s, int64_t number, kv_key *key)
{
    const coordinator *c = s->coordinator;
    for (int64_t i = 0; c && i < c->n; i++) {
        const place *p = &c->entries[i].key.place;
        if (number < p->first || number >= p->first + p->nparts)
            continue;
        *key = (kv_key){.id = c->entries[i].key.id, .name = c->entries[i].name};
        return true;
    }
    return false;
}

/* ---- Calls ---- */

bool coordinator_call(server_state *s, int rank, const link_rec *r)
{
    if (r->what < ASK_PLACE || r->what > ASK_RECEIVE)
        return false;
    coordinator *c = coordinator_of(s);
    kv_err e = {0};
    if (!c) {
        kv_err_set(&e, KV_E_MEMORY, "no memory for the coordinator");
        server_refuse(rank, r->request, &e);
        return true;
    }
    if (r->what >= ASK_SEND && (r->args.mail.peer < 0 || r->args.mail.tag < 0 ||
                                r->args.mail.peer >= s->how.workers)) {
        ask_malformed(&e);
        server_refuse(rank, r->request, &e);
        return true;
    }
    switch ((dist_ask)r->what) {
    case ASK_PLACE:
        call_place(s, c, rank, r);
        break;
    case ASK_READY:
        call_ready(s, c, rank, r);
        server_reply(rank, r->request, NULL, 0);
        break;
    case ASK_FIND:
        wait_for(s, c, rank, r);
        break;
    case ASK_BARRIER:
        come(c, rank, r->request);
        c->first_asks = rank == 0 ? r->args.barrier != ASK_MEET : c->first_asks;
        if (r->args.barrier == ASK_HOLD_ENDS) {
            let_go(s, c);
            c->holds = false;
        }
        look_at_barrier(s, c);
        break;
    case ASK_EPOCH:
        if (rank == 0) {
            c->epoch++;
            c->text = r->args.optimizer.text;
            c->holds = false;
            server_reply(rank, r->request, NULL, 0);
            look_at_waiters(s, c);
            look_at_barrier(s, c); /* a first worker that is done does not come to it */
        } else {
            wait_for(s, c, rank, r);
            look_at_barrier(s, c);
        }
        break;
    case ASK_KEYS:
        call_keys(c, rank, r);
        break;
    case ASK_SEND:
        if (send_mail(s, c, rank, r, &e))
            net_cannot_serve(&e); /* a rank waits for it */
        else
            server_reply(rank, r->request, NULL, 0);
        break;
    case ASK_RECEIVE:
        wait_for(s, c, rank, r);
        look_at_barrier(s, c);
        break;
    default:
        return false;
    }
    return true;
}
