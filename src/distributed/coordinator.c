/* The directory of keys, places by bytes, barriers, mail, and who waits for what. */
#include "distributed/coordinator.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "distributed/server.h"

typedef struct entry {
    ask_key key;
    char *name;
    place next; /* where it moves to; no parts: it stays */
    bool ready;
    int maker;    /* the worker that asked for its place */
    bool settled; /* the first worker has made it, or pushed to it, and brings no value any more */
} entry;

/* A worker that waits for keys, or for an optimizer. */
typedef struct waiter {
    int rank;
    uint64_t request;
    int64_t since_us;
    int64_t epoch;  /* or */
    char *keys;     /* call_keys */
    bool any;       /* of them: also those that are not settled */
    int64_t bytes;
    struct waiter *next;
} waiter;

/* What one worker sends another, or waits for. */
typedef struct mail {
    int from, to;
    int64_t tag;
    char *data;
    int64_t bytes;
    uint64_t request; /* of who waits; 0: the mail is there */
    int64_t since_us; /* when it began to wait */
    struct mail *next;
} mail;

typedef struct coordinator {
    map index;
    entry *entries;
    int64_t n, cap, parts;
    int64_t *load; /* bytes, by server */
    waiter *waiters;
    mail *mailbox; /* what has come, and workers that wait for something */
    uint64_t *at_barrier; /* by worker: its call, or 0 */
    int64_t barrier_us;   /* when the first came */
    bool first_asks;      /* only whether all others wait for the first worker */
    int64_t moves;
    int64_t epoch;
} coordinator;

static coordinator *of(server_state *s)
{
    kv_err unused = {0};
    if (s->coordinator)
        return s->coordinator;
    coordinator *c = mem_zalloc(1, sizeof *c, &unused);
    if (!c)
        return NULL;
    c->load = mem_zalloc(s->how.servers, sizeof *c->load, &unused);
    c->at_barrier = mem_zalloc(s->how.workers, sizeof *c->at_barrier, &unused);
    if (!c->load || !c->at_barrier) {
        mem_free(c->load);
        mem_free(c->at_barrier);
        mem_free(c);
        return NULL;
    }
    return s->coordinator = c;
}

static void free_mail(mail *l)
{
    mem_free(l->data);
    mem_free(l);
}

void coordinator_free(server_state *s)
{
    coordinator *c = s->coordinator;
    if (!c)
        return;
    for (int64_t i = 0; i < c->n; i++)
        mem_free(c->entries[i].name);
    for (mail *l = c->mailbox, *next; l; l = next) {
        next = l->next;
        free_mail(l);
    }
    map_release(&c->index);
    mem_free(c->entries);
    mem_free(c->load);
    mem_free(c->at_barrier);
    mem_free(c);
    s->coordinator = NULL;
}

/* ---- Places ---- */

static int lightest(const coordinator *c, int servers)
{
    int best = 0;
    for (int i = 1; i < servers; i++)
        if (c->load[i] < c->load[best])
            best = i;
    return best;
}

static void add_load(const server_state *s, coordinator *c, const ask_key *k, const place *p,
                     int sign)
{
    for (int32_t i = 0; i < p->nparts; i++)
        c->load[place_server(p, i, s->how.servers)] +=
            sign * place_count(p, i) * kv_dtype_bytes((kv_dtype)k->dtype);
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
    p.server = p.nparts > 1 && p.size >= PLACE_SPREAD && servers > 1
                   ? -1
                   : lightest(c, servers);
    add_load(s, c, k, &p, 1);
    c->parts += p.nparts;
    return p;
}

/* A key that was cut becomes one part. */
static place find_whole(const server_state *s, coordinator *c, entry *x)
{
    ask_key whole = x->key;
    if (x->next.nparts)
        add_load(s, c, &x->key, &x->next, -1); /* a move that was not carried out */
    whole.need = PLACE_WHOLE;
    return x->next = find_place(s, c, &whole);
}

static void move(const server_state *s, coordinator *c, entry *x)
{
    add_load(s, c, &x->key, &x->key.place, -1);
    x->key.place = x->next;
    x->key.need = PLACE_WHOLE;
    x->next = (place){0};
    c->moves++;
}

static int add_key(server_state *s, coordinator *c, int rank, const ask_key *in, const kv_key *key,
                   place *out, kv_err *e)
{
    entry x = {.key = *in, .maker = rank};
    int rc = mem_grow(&c->entries, &c->cap, c->n + 1, sizeof *c->entries, e);
    if (rc)
        return rc;
    kv_key own = {.id = key->id};
    if (key->name && !(own.name = x.name = mem_text(key->name, strlen(key->name), e)))
        return KV_E_MEMORY;
    if ((rc = map_put(&c->index, own, c->n, e))) {
        mem_free(x.name);
        return rc;
    }
    x.key.place = find_place(s, c, &x.key);
    *out = x.key.place;
    c->entries[c->n++] = x;
    return KV_OK;
}

/* ---- Keys that others wait for ---- */

/* Whether the worker that makes keys cannot make any: it waits itself, or has left. */
static bool nobody_makes(const server_state *s, const coordinator *c)
{
    return s->done[0] || s->ended[0] || c->at_barrier[0] != 0;
}

/* Replies if all keys are ready. */
static bool answer(server_state *s, coordinator *c, const waiter *w)
{
    const char *at = w->keys, *end = at + w->bytes;
    buf reply = {0};
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
    if (ready && buf_check(&reply, &e))
        server_refuse(w->rank, w->request, &e);
    else if (ready)
        server_reply(w->rank, w->request, reply.data, (int64_t)reply.len);
    buf_release(&reply);
    return ready;
}

static void refuse_waiter(const waiter *w)
{
    kv_err e = {0};
    const char *at = w->keys;
    kv_key key = {0};
    char text[SLOT_KEY_TEXT];
    if (!ask_get_key(&at, w->keys + w->bytes, &key))
        return;
    kv_err_set(&e, KV_E_KEY, "key %s was never initialised", slot_key_text(text, &key));
    kv_err_key(&e, &key);
    server_refuse(w->rank, w->request, &e);
}

static void look_at_waiters(server_state *s, coordinator *c)
{
    for (waiter **at = &c->waiters; *at;) {
        waiter *w = *at;
        bool over = answer(s, c, w);
        if (!over && w->keys && nobody_makes(s, c)) {
            refuse_waiter(w);
            over = true;
        }
        if (!over) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        mem_free(w->keys);
        mem_free(w);
    }
}

static void wait_for(server_state *s, coordinator *c, int rank, const link_rec *r, int64_t epoch)
{
    kv_err e = {0};
    waiter *w = mem_zalloc(1, sizeof *w, &e);
    if (w && r->bytes && !(w->keys = mem_alloc(r->bytes, 1, &e))) {
        mem_free(w);
        w = NULL;
    }
    if (!w) {
        server_refuse(rank, r->request, &e);
        return;
    }
    w->rank = rank;
    w->request = r->request;
    w->since_us = net_now_us();
    w->epoch = epoch;
    w->any = r->call.what == ASK_FIND && r->call.args.any;
    w->bytes = r->bytes;
    if (r->bytes)
        memcpy(w->keys, r + 1, r->bytes);
    w->next = c->waiters;
    c->waiters = w;
    look_at_waiters(s, c);
}

/* ---- Keys that are made ---- */

static bool is_alike(const ask_key *a, const ask_key *b)
{
    return a->dtype == b->dtype && a->storage == b->storage && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0;
}

static void put_form(buf *b, const ask_key *k)
{
    buf_printf(b, "%s%s (", k->storage == KV_ROW_SPARSE ? "row_sparse " : "",
               kv_dtype_name((kv_dtype)k->dtype));
    for (int i = 0; i < k->ndim; i++)
        buf_printf(b, i ? ", %lld" : "%lld", (long long)k->shape[i]);
    buf_add(b, k->ndim == 1 ? ",)" : ")");
}

/* Whether the first worker may init a key with this value. Where others have pushed to it already
 * they have sent what fits the key that they made. */
static int check_init(const coordinator *c, const ask_key *in, const kv_key *key, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    buf forms = {0};
    int64_t i = map_get(&c->index, *key);
    const entry *x = i < 0 ? NULL : &c->entries[i];
    if (!x || (!x->settled && is_alike(&x->key, in) &&
               place_fits(&x->key.place, (place_need)in->need)))
        return KV_OK;
    if (x->settled) {
        kv_err_set(e, KV_E_KEY, "key %s is initialised already", slot_key_text(text, key));
        return kv_err_key(e, key);
    }
    put_form(&forms, &x->key);
    buf_add(&forms, " before this init as ");
    put_form(&forms, in);
    kv_err_set(e, KV_E_VALUE, "rank %d has pushed key %s as %s", x->maker, slot_key_text(text, key),
               buf_text(&forms));
    buf_release(&forms);
    kv_err_key(e, key);
    return kv_err_hint(e, "let the others come to a barrier behind init before they push");
}

static int check_inits(const coordinator *c, const char *at, const char *end, kv_err *e)
{
    int rc = KV_OK;
    while (at < end && !rc) {
        kv_key key;
        const ask_key *in = ask_get_key(&at, end, &key);
        rc = in ? check_init(c, in, &key, e) : ask_malformed(e);
    }
    return rc;
}

/* The place of a key that somebody asked for before: a push of the first worker settles it. */
static place find_again(const server_state *s, coordinator *c, entry *x, int rank,
                        const ask_key *in, bool inits)
{
    if (inits)
        return x->key.place;
    x->settled |= rank == 0;
    if (x->ready && !place_fits(&x->key.place, (place_need)in->need))
        return find_whole(s, c, x);
    return (place){.first = -1};
}

static void call_place(server_state *s, coordinator *c, int rank, const link_rec *r)
{
    const char *at = (const char *)(r + 1), *end = at + r->bytes;
    bool inits = r->call.args.inits;
    buf reply = {0};
    kv_err e = {0};
    int rc = inits ? check_inits(c, at, end, &e) : KV_OK;
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
    look_at_waiters(s, c);
    if (!rc)
        rc = buf_check(&reply, &e);
    if (rc)
        server_refuse(rank, r->request, &e);
    else
        server_reply(rank, r->request, reply.data, (int64_t)reply.len);
    buf_release(&reply);
}

static void call_ready(server_state *s, coordinator *c, int rank, const link_rec *r)
{
    const char *at = (const char *)(r + 1), *end = at + r->bytes;
    const ask_key *in;
    kv_key key;
    while (at < end && (in = ask_get_key(&at, end, &key))) {
        int64_t i = map_get(&c->index, key);
        entry *x = i < 0 ? NULL : &c->entries[i];
        if (x && x->next.nparts && x->next.first == in->place.first)
            move(s, c, x);
        if (x) {
            x->ready = true;
            x->settled |= rank == 0;
        }
    }
    look_at_waiters(s, c);
}

/* ---- Barriers ---- */

static void give_up_barrier(const server_state *s, coordinator *c, const kv_err *why)
{
    for (int i = 0; i < s->how.workers; i++) {
        if (c->at_barrier[i])
            server_refuse(i, c->at_barrier[i], why);
        c->at_barrier[i] = 0;
    }
    c->barrier_us = 0;
}

static bool is_missing(const server_state *s, const coordinator *c, int rank)
{
    bool there = s->done[rank] || c->at_barrier[rank];
    for (const waiter *w = c->waiters; w && c->first_asks && !there; w = w->next)
        there = w->rank == rank && w->epoch > 0;
    for (const mail *l = c->mailbox; l && c->first_asks && !there; l = l->next)
        there = l->to == rank && l->from == 0 && l->request; /* of a file that brings a rule */
    return !there;
}

/* All have come. */
static void let_go(const server_state *s, coordinator *c)
{
    ask_met met = {c->moves, c->epoch};
    int some = c->first_asks ? 1 : s->how.workers;
    for (int i = 0; i < some; i++) {
        if (c->at_barrier[i])
            server_reply(i, c->at_barrier[i], &met, sizeof met);
        c->at_barrier[i] = 0;
    }
    c->first_asks = false;
    c->barrier_us = 0;
    for (int i = some; i < s->how.workers; i++)
        if (c->at_barrier[i])
            c->barrier_us = net_now_us();
}

static void look_at_barrier(server_state *s, coordinator *c)
{
    int missing = 0, ended = -1, waiting = 0;
    kv_err why = {0};
    for (int i = 0; i < s->how.workers; i++) {
        bool missed = is_missing(s, c, i);
        missing += missed;
        waiting += c->at_barrier[i] != 0;
        ended = missed && s->ended[i] ? i : ended;
    }
    if (waiting > 0 && !c->barrier_us)
        c->barrier_us = net_now_us();
    if (ended >= 0 && waiting > 0) {
        kv_err_set(&why, KV_E_PEER, "rank %d has ended; the barrier waits for it", ended);
        give_up_barrier(s, c, &why);
    } else if (missing == 0) {
        let_go(s, c);
    } else {
        look_at_waiters(s, c);
    }
}

/* ---- Mail ---- */

/* One that is there, or somebody who waits for it; NULL: none. */
static mail **find_mail(coordinator *c, int from, int to, int64_t tag, bool waits)
{
    for (mail **at = &c->mailbox; *at; at = &(*at)->next) {
        const mail *l = *at;
        if (l->from == from && l->to == to && l->tag == tag && !l->request == !waits)
            return at;
    }
    return NULL;
}

static void take_off(mail **at)
{
    mail *l = *at;
    *at = l->next;
    free_mail(l);
}

static mail *add_mail(coordinator *c, int from, int to, int64_t tag, kv_err *e)
{
    mail *l = mem_zalloc(1, sizeof *l, e);
    if (!l)
        return NULL;
    *l = (mail){.from = from, .to = to, .tag = tag, .next = c->mailbox};
    return c->mailbox = l;
}

static int send_mail(coordinator *c, int rank, const link_rec *r, kv_err *e)
{
    int to = (int)r->call.args.mail.peer;
    int64_t tag = r->call.args.mail.tag;
    mail **at = find_mail(c, rank, to, tag, true);
    if (at) {
        server_reply(to, (*at)->request, r + 1, r->bytes);
        take_off(at);
        return KV_OK;
    }
    char *data = mem_alloc(r->bytes, 1, e);
    if (!data)
        return KV_E_MEMORY;
    if ((at = find_mail(c, rank, to, tag, false)))
        take_off(at);
    mail *l = add_mail(c, rank, to, tag, e);
    if (!l) {
        mem_free(data);
        return KV_E_MEMORY;
    }
    memcpy(data, r + 1, r->bytes);
    l->data = data;
    l->bytes = r->bytes;
    return KV_OK;
}

static void refuse_ended(int rank, uint64_t request, int ended)
{
    kv_err e = {0};
    kv_err_set(&e, KV_E_PEER, "rank %d has ended, and this rank waits for it", ended);
    server_refuse(rank, request, &e);
}

static int receive_mail(const server_state *s, coordinator *c, int rank, const link_rec *r,
                        kv_err *e)
{
    int from = (int)r->call.args.mail.peer;
    int64_t tag = r->call.args.mail.tag;
    mail **at = find_mail(c, from, rank, tag, false);
    if (at) {
        server_reply(rank, r->request, (*at)->data, (*at)->bytes);
        take_off(at);
        return KV_OK;
    }
    if (s->ended[from]) {
        refuse_ended(rank, r->request, from);
        return KV_OK;
    }
    mail *l = add_mail(c, from, rank, tag, e);
    if (!l)
        return KV_E_MEMORY;
    l->request = r->request;
    l->since_us = net_now_us();
    return KV_OK;
}

static void refuse_receivers(coordinator *c, int from)
{
    for (mail **at = &c->mailbox; *at;) {
        mail *l = *at;
        if (l->from != from || !l->request) {
            at = &l->next;
            continue;
        }
        refuse_ended(l->to, l->request, from);
        take_off(at);
    }
}

/* ---- Who waits for whom ---- */

void coordinator_left(server_state *s, int rank)
{
    if (s->coordinator) {
        if (s->ended[rank])
            refuse_receivers(s->coordinator, rank);
        look_at_barrier(s, s->coordinator);
        look_at_waiters(s, s->coordinator);
    }
}

/* Which workers are at the barrier, and which are not. */
static void tell_barrier(const server_state *s, const coordinator *c, buf *out)
{
    buf_add(out, "a barrier has ranks");
    for (int i = 0; i < s->how.workers; i++)
        if (c->at_barrier[i])
            buf_printf(out, " %d", i);
    buf_add(out, " and lacks");
    for (int i = 0; i < s->how.workers; i++)
        if (is_missing(s, c, i))
            buf_printf(out, " %d", i);
}

static void tell_waiter(const waiter *w, buf *out)
{
    const char *at = w->keys;
    char text[SLOT_KEY_TEXT];
    kv_key key;
    if (w->keys && ask_get_key(&at, w->keys + w->bytes, &key))
        buf_printf(out, "rank %d waits for key %s, which rank 0 has not initialised", w->rank,
                   slot_key_text(text, &key));
    else
        buf_printf(out, "rank %d waits for an optimizer, which rank 0 has not set", w->rank);
}

static int64_t mail_waits(coordinator *c, int64_t before, int64_t first, buf *text)
{
    for (mail **at = &c->mailbox; *at;) {
        const mail *l = *at;
        kv_err why = {0};
        if (l->request && l->since_us < first) {
            first = l->since_us;
            buf_clear(text);
            buf_printf(text, "rank %d waits for rank %d to save or load states", l->to,
                       l->from);
        }
        if (!l->request || l->since_us >= before) {
            at = &(*at)->next;
            continue;
        }
        kv_err_set(&why, KV_E_TIMEOUT, "gave up: rank %d waits for rank %d to save or load states",
                   l->to, l->from);
        server_refuse(l->to, l->request, &why);
        take_off(at);
    }
    return first;
}

int64_t coordinator_waits(server_state *s, int64_t before, buf *out)
{
    coordinator *c = s->coordinator;
    int64_t first = INT64_MAX;
    buf text = {0};
    kv_err why = {0};
    if (c && c->barrier_us) {
        first = c->barrier_us;
        tell_barrier(s, c, &text);
        if (first < before) {
            kv_err_set(&why, KV_E_TIMEOUT, "gave up: %s", buf_text(&text));
            give_up_barrier(s, c, &why);
        }
    }
    for (waiter **at = c ? &c->waiters : NULL; at && *at;) {
        waiter *w = *at;
        if (w->since_us < first) {
            first = w->since_us;
            buf_clear(&text);
            tell_waiter(w, &text);
        }
        if (w->since_us >= before) {
            at = &w->next;
            continue;
        }
        buf own = {0};
        tell_waiter(w, &own);
        why = (kv_err){0};
        kv_err_set(&why, KV_E_TIMEOUT, "gave up: %s", buf_text(&own));
        buf_release(&own);
        server_refuse(w->rank, w->request, &why);
        *at = w->next;
        mem_free(w->keys);
        mem_free(w);
    }
    if (c)
        first = mail_waits(c, before, first, &text);
    buf_add(out, buf_text(&text));
    buf_release(&text);
    return first;
}

int coordinator_missed(const server_state *s, int rank)
{
    const coordinator *c = s->coordinator;
    if (!c)
        return -1;
    if (c->barrier_us && is_missing(s, c, rank))
        for (int i = 0; i < s->how.workers; i++)
            if (c->at_barrier[i])
                return i;
    if (rank == 0 && c->waiters)
        return c->waiters->rank;
    for (const mail *l = c->mailbox; l; l = l->next)
        if (l->request && l->from == rank)
            return l->to;
    return -1;
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
    if (r->call.what < ASK_PLACE || r->call.what > ASK_RECEIVE)
        return false;
    coordinator *c = of(s);
    kv_err e = {0};
    if (!c) {
        kv_err_set(&e, KV_E_MEMORY, "no memory for the coordinator");
        server_refuse(rank, r->request, &e);
        return true;
    }
    switch ((dist_ask)r->call.what) {
    case ASK_PLACE:
        call_place(s, c, rank, r);
        break;
    case ASK_READY:
        call_ready(s, c, rank, r);
        server_reply(rank, r->request, NULL, 0);
        break;
    case ASK_FIND:
        wait_for(s, c, rank, r, 0);
        break;
    case ASK_BARRIER:
        c->at_barrier[rank] = r->request;
        c->first_asks = rank == 0 ? r->call.args.barrier != ASK_MEET : c->first_asks;
        if (r->call.args.barrier == ASK_HOLD_ENDS)
            let_go(s, c);
        else
            look_at_barrier(s, c);
        break;
    case ASK_EPOCH:
        if (rank == 0) {
            c->epoch++;
            server_reply(rank, r->request, NULL, 0);
            look_at_waiters(s, c);
        } else {
            wait_for(s, c, rank, r, r->call.args.optimizers);
            look_at_barrier(s, c);
        }
        break;
    case ASK_SEND:
        if (send_mail(c, rank, r, &e))
            server_refuse(rank, r->request, &e);
        else
            server_reply(rank, r->request, NULL, 0);
        break;
    case ASK_RECEIVE:
        if (receive_mail(s, c, rank, r, &e))
            server_refuse(rank, r->request, &e);
        look_at_barrier(s, c);
        break;
    default:
        return false;
    }
    return true;
}
