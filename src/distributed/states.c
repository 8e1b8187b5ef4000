/* Encoding and decoding states, part by part, and their way between files and servers. */
#include "distributed/states.h"

#include <string.h>

#include "base/mem.h"
#include "core/residuals.h"
#include "core/slot_state.h"
#include "distributed/mailbox.h"
#include "distributed/rank_residuals.h"
#include "distributed/server.h"
#include "distributed/server_state.h"
#include "distributed/types.h"

/* What all keys share. */
typedef struct shared_states {
    int64_t num_update;
    double base_lr; /* where the schedule stands */
    int64_t at, count;
    uint64_t have;
    host shared[PLAN_MAX_STATES];
} shared_states;

/* A part's own, or a key's: the arrays follow, each behind its bytes and filled up to 8. */
typedef struct own_states {
    int64_t part;
    int64_t updates;
    int64_t bytes;    /* of all that follows */
    uint32_t kept;    /* whether there are any */
    uint32_t have;
    uint32_t arrays;  /* bit i: the array of state i follows; MASTER_BIT: the float32 master */
    uint32_t unused;
    host numbers[PLAN_MAX_STATES];
} own_states;

#define MASTER_BIT (1u << PLAN_MAX_STATES)

/* ---- What keys share ---- */

static void put_shared(buf *b, const optimizer *o)
{
    shared_states s = {.num_update = o->num_update,
                       .base_lr = o->schedule.base_lr,
                       .at = o->schedule.at,
                       .count = o->schedule.count,
                       .have = o->have};
    memcpy(s.shared, o->shared, sizeof s.shared);
    buf_put(b, (const char *)&s, sizeof s);
}

static void take_shared(optimizer *o, const shared_states *s)
{
    optimizer_draft d;
    optimizer_begin(o, &d);
    d.num_update = s->num_update;
    d.schedule.base_lr = s->base_lr;
    d.schedule.at = s->at;
    d.schedule.count = s->count;
    d.have = (uint32_t)s->have;
    memcpy(d.shared, s->shared, sizeof d.shared);
    optimizer_commit(o, &d);
}

/* ---- What each keeps ---- */

/* The array of state i, or the master. */
static kv_array **array_at(slot_state *s, int i)
{
    return i < PLAN_MAX_STATES ? &s->arrays[i] : &s->master;
}

static optimizer_form form_at(const optimizer *o, int i, const slot *s)
{
    return optimizer_state_form(o, i < PLAN_MAX_STATES ? i : -1, s);
}

/* The range of an array of a key, which has its elements or one for each of its rows, that belongs
 * to a part of it; p NULL: all of it. */
static void range_of(const place *p, int32_t number, int64_t size, int64_t *from, int64_t *n)
{
    bool cut = p && p->nparts > 1;
    int64_t each = cut && size < p->size ? p->row : 1;
    *from = cut ? place_from(p, number) / each : 0;
    *n = cut ? place_count(p, number) / each : size;
}

static void put_array(buf *b, const kv_array *a, const place *p, int32_t number)
{
    int64_t from, n, each = kv_dtype_bytes((kv_dtype)a->dtype);
    range_of(p, number, a->size, &from, &n);
    n *= each;
    buf_put(b, (const char *)&n, sizeof n);
    ask_put_padded(b, (const char *)a->data + from * each, n);
}

/* with_arrays: not only the numbers. */
static void put_own(buf *b, slot *s, int64_t id, const place *p, int32_t number, bool with_arrays)
{
    own_states own = {.part = id, .updates = s->updates, .kept = s->state != NULL};
    size_t head = b->len;
    if (s->state) {
        own.have = s->state->have;
        memcpy(own.numbers, s->state->numbers, sizeof own.numbers);
    }
    buf_put(b, (const char *)&own, sizeof own);
    for (int i = 0; s->state && with_arrays && i <= PLAN_MAX_STATES; i++) {
        const kv_array *a = *array_at(s->state, i);
        if (!a)
            continue;
        own.arrays |= 1u << i;
        put_array(b, a, p, number);
    }
    own.bytes = (int64_t)(b->len - head - sizeof own);
    if (!b->failed)
        memcpy(b->data + head, &own, sizeof own);
}

static int take_array(kv_array **to, const optimizer_form *form, const char **at, const char *end,
                      const place *p, int32_t number, kv_err *e)
{
    int64_t bytes, from, n, each = kv_dtype_bytes(form->dtype);
    if (end - *at < (int64_t)sizeof bytes)
        return ask_malformed(e);
    memcpy(&bytes, *at, sizeof bytes);
    int rc = *to ? KV_OK
                 : kv_array_new_raw(to, form->dtype, form->ndim, form->shape, (kv_ctx){KV_CPU, 0},
                                    e);
    if (rc)
        return rc;
    range_of(p, number, (*to)->size, &from, &n);
    if (bytes != n * each || from + n > (*to)->size || end - *at < (int64_t)sizeof bytes + bytes)
        return ask_malformed(e);
    memcpy((char *)(*to)->data + from * each, *at + sizeof bytes, (size_t)bytes);
    *at += (int64_t)sizeof bytes + (bytes + 7) / 8 * 8;
    return KV_OK;
}

static void take_numbers(slot *s, const own_states *own)
{
    s->updates = own->updates;
    if (!s->state)
        return;
    s->state->have = own->have;
    memcpy(s->state->numbers, own->numbers, sizeof own->numbers);
}

static int make_state(slot *s, const own_states *own, kv_err *e)
{
    if (own->kept && !s->state)
        s->state = mem_zalloc(1, sizeof *s->state, e);
    return own->kept && !s->state ? KV_E_MEMORY : KV_OK;
}

/* The arrays of a part, which follow own. */
static int take_arrays(const optimizer *o, slot *s, const own_states *own, const place *p,
                       int32_t number, kv_err *e)
{
    const char *at = (const char *)(own + 1), *end = at + own->bytes;
    int rc = make_state(s, own, e);
    for (int i = 0; i <= PLAN_MAX_STATES && !rc; i++) {
        if (!(own->arrays >> i & 1))
            continue;
        optimizer_form form = form_at(o, i, s);
        if (!own->kept || (i < PLAN_MAX_STATES && i >= o->nstates))
            return ask_malformed(e);
        rc = take_array(array_at(s->state, i), &form, &at, end, p, number, e);
    }
    return rc;
}

static const own_states *next_own(const char **at, const char *end, kv_err *e)
{
    const own_states *own = (const own_states *)(const void *)*at;
    if (end - *at < (int64_t)sizeof *own || own->bytes < 0 ||
        end - *at - (int64_t)sizeof *own < own->bytes) {
        ask_malformed(e);
        return NULL;
    }
    *at += (int64_t)sizeof *own + own->bytes;
    return own;
}

/* ---- On a server ---- */

static int check_rule(const kv *store, kv_err *e)
{
    return store->updater.kind == UPDATER_RULE
               ? KV_OK
               : kv_err_set(e, KV_E_VALUE, "no optimizer is in use, so there are no states");
}

int states_give(const server_state *s, buf *out, kv_err *e)
{
    int rc = check_rule(s->store, e);
    if (rc)
        return rc;
    put_shared(out, s->store->updater.optimizer);
    for (int64_t i = 0; i < s->nparts; i++)
        if (s->parts[i])
            put_own(out, &s->store->slots.items[s->parts[i]->slot], i, NULL, 0, true);
    return buf_check(out, e);
}

int states_take(server_state *s, const char *at, int64_t bytes, kv_err *e)
{
    const char *end = at + bytes;
    int rc = check_rule(s->store, e);
    optimizer *o = s->store->updater.optimizer;
    if (!rc && bytes < (int64_t)sizeof(shared_states))
        rc = ask_malformed(e);
    if (rc)
        return rc;
    take_shared(o, (const shared_states *)(const void *)at);
    for (at += sizeof(shared_states); at < end && !rc;) {
        const own_states *own = next_own(&at, end, e);
        if (!own)
            return KV_E_INTERNAL;
        if (own->part < 0 || own->part >= s->nparts || !s->parts[own->part])
            return ask_malformed(e);
        slot *x = &s->store->slots.items[s->parts[own->part]->slot];
        slot_forget(x);
        if ((rc = take_arrays(o, x, own, NULL, 0, e)) == KV_OK)
            take_numbers(x, own);
    }
    return rc;
}

/* ---- Between the servers and a worker's slots ---- */

/* The slots of parts, by the part's number. */
typedef struct part_slot {
    int64_t slot;
    int32_t number;
} part_slot;

static int list_parts(const worker *w, part_slot **out, int64_t *n, kv_err *e)
{
    *n = 0;
    for (int64_t i = 0; i < w->store->slots.n; i++) {
        int64_t end = w->keys[i].place.first + w->keys[i].place.nparts;
        *n = end > *n ? end : *n;
    }
    part_slot *list = mem_alloc(*n, sizeof *list, e);
    if (!list)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < *n; i++)
        list[i].slot = -1;
    for (int64_t i = 0; i < w->store->slots.n; i++)
        for (int32_t p = 0; p < w->keys[i].place.nparts; p++)
            list[w->keys[i].place.first + p] = (part_slot){i, p};
    *out = list;
    return KV_OK;
}

/* One server's reply. Its host side counts where the servers run it; then the first of those that
 * have the largest count says what keys share. */
static int take_reply(worker *w, int server, const part_slot *parts, int64_t n, const char *at,
                      int64_t bytes, kv_err *e)
{
    const char *end = at + bytes;
    optimizer *o = w->store->updater.optimizer;
    const shared_states *all = (const shared_states *)(const void *)at;
    int rc = bytes < (int64_t)sizeof *all ? ask_malformed(e) : KV_OK;
    if (!rc && w->how.is_async && (server == 0 || all->num_update > o->num_update))
        take_shared(o, all);
    for (at += sizeof *all; !rc && at < end;) {
        const own_states *own = next_own(&at, end, e);
        if (!own)
            return KV_E_INTERNAL;
        if (own->part < 0 || own->part >= n || parts[own->part].slot < 0)
            continue; /* of a key that this rank has never used */
        const part_slot *x = &parts[own->part];
        slot *s = &w->store->slots.items[x->slot];
        rc = take_arrays(o, s, own, &w->keys[x->slot].place, x->number, e);
        if (!rc && w->how.is_async && x->number == 0)
            take_numbers(s, own);
    }
    return rc;
}

static net_call *all_servers(const worker *w, dist_ask what, kv_err *e)
{
    net_call *calls = mem_zalloc(w->how.servers, sizeof *calls, e);
    for (int i = 0; calls && i < w->how.servers; i++)
        calls[i] = (net_call){.rank = server_rank(i), .what = what, .store = w->number,
                              .name = ask_name(what)};
    return calls;
}

/* Fills the slots. */
static int gather(worker *w, kv_err *e)
{
    int servers = w->how.servers;
    int64_t n;
    part_slot *parts = NULL;
    void **replies = mem_zalloc(servers, sizeof *replies, e);
    int64_t *bytes = mem_zalloc(servers, sizeof *bytes, e);
    net_call *calls = all_servers(w, ASK_STATES, e);
    int rc = replies && bytes && calls ? list_parts(w, &parts, &n, e) : KV_E_MEMORY;
    if (!rc)
        rc = net_calls_wait(calls, servers, replies, bytes, e);
    for (int i = 0; i < servers && !rc; i++)
        rc = take_reply(w, i, parts, n, replies[i], bytes[i], e);
    for (int i = 0; replies && i < servers; i++)
        mem_free(replies[i]);
    mem_free(parts);
    mem_free(calls);
    mem_free(bytes);
    mem_free(replies);
    return rc;
}

/* The slots keep no arrays but those of this rank. */
static void drop(const worker *w)
{
    for (int64_t i = 0; i < w->store->slots.n; i++) {
        slot *s = &w->store->slots.items[i];
        for (int j = 0; s->state && j <= PLAN_MAX_STATES; j++) {
            kv_array_unref(*array_at(s->state, j));
            *array_at(s->state, j) = NULL;
        }
        for (int64_t j = 0; s->residuals && j < s->residuals->n; j++) {
            if (j == net_rank())
                continue;
            kv_array_unref(s->residuals->items[j]);
            s->residuals->items[j] = NULL;
        }
    }
}

/* Sends what the slots hold to the servers. */
static int scatter(worker *w, kv_err *e)
{
    int servers = w->how.servers;
    net_call *calls = all_servers(w, ASK_SET_STATES, e);
    buf *b = mem_zalloc(servers, sizeof *b, e);
    int rc = calls && b ? KV_OK : KV_E_MEMORY;
    for (int i = 0; i < servers && !rc; i++)
        put_shared(&b[i], w->store->updater.optimizer);
    for (int64_t i = 0; i < w->store->slots.n && !rc; i++) {
        const place *p = &w->keys[i].place;
        for (int32_t j = 0; j < p->nparts; j++)
            put_own(&b[place_server(p, j, servers)], &w->store->slots.items[i], p->first + j, p, j,
                    true);
    }
    for (int i = 0; i < servers && !rc; i++) {
        rc = buf_check(&b[i], e);
        calls[i].data = b[i].data;
        calls[i].bytes = (int64_t)b[i].len;
    }
    if (!rc)
        rc = net_calls_wait(calls, servers, NULL, NULL, e);
    for (int i = 0; b && i < servers; i++)
        buf_release(&b[i]);
    mem_free(b);
    mem_free(calls);
    return rc;
}

/* ---- save ---- */

/* All ranks get rank 0's result. */
static int save_together(worker *w, int (*use)(void *arg, kv_err *e), void *arg, kv_err *e)
{
    bool compressed = w->store->compression.code != 0;
    kv_err why = {0};
    buf b = {0};
    int rc = gather(w, &why);
    for (int i = 1; compressed && i < w->how.workers && !rc; i++)
        rc = rank_residuals_receive(w, i, &why);
    if (!rc && (rc = rank_residuals_complete(w, &why)) == KV_OK)
        rc = use(arg, &why);
    drop(w);
    buf_put(&b, (const char *)&why, sizeof why);
    kv_err unused = {0};
    for (int i = 1; i < w->how.workers; i++)
        mailbox_send(w, i, MAIL_SAVED, &b, &unused);
    buf_release(&b);
    if (rc)
        *e = why;
    return rc;
}

static int take_result(const char *data, int64_t bytes, kv_err *e)
{
    kv_err why;
    if (bytes < (int64_t)sizeof why)
        return ask_malformed(e);
    memcpy(&why, data, sizeof why);
    if (why.code)
        *e = why;
    return why.code;
}

static int wait_saved(const worker *w, kv_err *e)
{
    void *data = NULL;
    int64_t bytes = 0;
    int rc = w->store->compression.code ? rank_residuals_send(w, e) : KV_OK;
    if (!rc)
        rc = mailbox_receive(w, 0, MAIL_SAVED, &data, &bytes, e);
    if (!rc)
        rc = take_result(data, bytes, e);
    mem_free(data);
    return rc;
}

/* ---- load ---- */

/* The texts of worker_set_optimizer: a rule and its parameters. */
typedef struct rule_texts {
    const char *text;
    kv_opt *params;
    int64_t n, cap;
} rule_texts;

static void put_rule(buf *b, const optimizer *o)
{
    buf texts = {0};
    buf_put(&texts, o->rule->text, strlen(o->rule->text) + 1);
    for (int i = 0; i < o->nparams; i++) {
        buf_put(&texts, o->params[i].name, strlen(o->params[i].name) + 1);
        buf_put(&texts, o->params[i].value, strlen(o->params[i].value) + 1);
    }
    int64_t bytes = (int64_t)texts.len;
    buf_put(b, (const char *)&bytes, sizeof bytes);
    ask_put_padded(b, buf_text(&texts), bytes);
    b->failed |= texts.failed;
    buf_release(&texts);
}

static int read_rule(rule_texts *r, const char *at, const char *end, kv_err *e)
{
    int rc = KV_OK;
    *r = (rule_texts){.text = at};
    for (at += strlen(at) + 1; at < end && !rc;) {
        rc = mem_grow(&r->params, &r->cap, r->n + 1, sizeof *r->params, e);
        if (rc)
            break;
        r->params[r->n].name = at;
        at += strlen(at) + 1;
        r->params[r->n++].value = at;
        at += strlen(at) + 1;
    }
    return rc;
}

/* What the file brought, to another rank: the result, the rule if it is a new one, numbers, and the
 * rank's own residuals. */
static int send_loaded(const worker *w, int rank, const kv_err *why, bool new_rule, kv_err *e)
{
    const int64_t none = 0;
    int rc = KV_OK;
    buf b = {0};
    buf_put(&b, (const char *)why, sizeof *why);
    if (!why->code) {
        const optimizer *o = w->store->updater.optimizer;
        if (new_rule)
            put_rule(&b, o);
        else
            buf_put(&b, (const char *)&none, sizeof none);
        put_shared(&b, o);
        for (int64_t i = 0; i < w->store->slots.n && !rc; i++) {
            slot *s = &w->store->slots.items[i];
            ask_key k = {.id = s->key.id, .place = w->keys[i].place, .dtype = s->stored->dtype,
                         .storage = s->stored->storage, .ndim = s->stored->ndim};
            memcpy(k.shape, s->stored->shape, s->stored->ndim * sizeof *s->stored->shape);
            ask_put_key(&b, &k, s->key.name);
            put_own(&b, s, i, NULL, 0, false);
            rc = rank_residuals_put(&b, s, rank, e);
        }
    }
    if (!rc)
        rc = mailbox_send(w, rank, MAIL_LOADED, &b, e);
    buf_release(&b);
    return rc;
}

/* Behind the servers' rule comes this rank's. */
static int take_rule(worker *w, const char *at, const char *end, kv_err *e)
{
    rule_texts r;
    kv_rule *rule = NULL;
    updater next = {0};
    int rc = read_rule(&r, at, end, e);
    if (!rc)
        rc = worker_set_optimizer(w, "rule", r.text, r.params, (int)r.n, e);
    if (!rc && (rc = kv_rule_new(&rule, r.text, NULL, 0, 0, e)) == KV_OK)
        rc = updater_init_rule(&next, rule, r.params, (int)r.n, e);
    if (!rc) {
        updater_release(&w->store->updater);
        w->store->updater = next;
    }
    kv_rule_free(rule);
    mem_free(r.params);
    return rc;
}

static int take_key(worker *w, const char **at, const char *end, kv_err *e)
{
    kv_key key;
    const ask_key *k = ask_get_key(at, end, &key);
    int64_t i = k ? worker_know(w, k, &key, e) : -1;
    const own_states *own = i < 0 ? NULL : next_own(at, end, e);
    if (!own)
        return k && e->code ? (int)e->code : ask_malformed(e);
    slot *s = &w->store->slots.items[i];
    slot_forget(s);
    residuals_free(s->residuals);
    s->residuals = NULL;
    int rc = make_state(s, own, e);
    if (rc)
        return rc;
    take_numbers(s, own);
    return rank_residuals_take(s, net_rank(), at, end, e);
}

static int take_loaded(worker *w, const char *at, int64_t n, kv_err *e)
{
    const char *end = at + n;
    int64_t bytes;
    int rc = take_result(at, n, e);
    at += sizeof(kv_err);
    if (rc)
        return rc;
    if (end - at < (int64_t)sizeof bytes)
        return ask_malformed(e);
    memcpy(&bytes, at, sizeof bytes);
    at += sizeof bytes;
    if (end - at < (bytes + 7) / 8 * 8 + (int64_t)sizeof(shared_states))
        return ask_malformed(e);
    if (bytes && (rc = take_rule(w, at, at + bytes, e)))
        return rc;
    at += (bytes + 7) / 8 * 8;
    take_shared(w->store->updater.optimizer, (const shared_states *)(const void *)at);
    for (at += sizeof(shared_states); at < end && !rc;)
        rc = take_key(w, &at, end, e);
    w->store->changes++;
    return rc;
}

/* A file may bring a rule of its own: the servers need it before its states. */
static int tell_rule(worker *w, kv_err *e)
{
    buf b = {0};
    rule_texts r = {0};
    put_rule(&b, w->store->updater.optimizer);
    int rc = buf_check(&b, e);
    if (!rc) {
        const char *at = b.data + sizeof(int64_t);
        int64_t bytes;
        memcpy(&bytes, b.data, sizeof bytes);
        rc = read_rule(&r, at, at + bytes, e);
    }
    if (!rc)
        rc = worker_set_optimizer(w, "rule", r.text, r.params, (int)r.n, e);
    mem_free(r.params);
    buf_release(&b);
    return rc;
}

static int load_together(worker *w, int (*use)(void *arg, kv_err *e), void *arg, kv_err *e)
{
    const optimizer *before = w->store->updater.optimizer;
    kv_err why = {0};
    int rc = use(arg, &why);
    bool new_rule = w->store->updater.optimizer != before;
    if (!rc)
        rc = rank_residuals_fold(w, &why);
    if (!rc && new_rule)
        rc = tell_rule(w, &why);
    if (!rc)
        rc = scatter(w, &why);
    for (int i = 1; i < w->how.workers; i++) {
        kv_err unused = {0};
        send_loaded(w, i, &why, new_rule, &unused);
    }
    drop(w);
    if (rc)
        *e = why;
    return rc;
}

static int wait_loaded(worker *w, kv_err *e)
{
    void *data = NULL;
    int64_t bytes = 0;
    int rc = mailbox_receive(w, 0, MAIL_LOADED, &data, &bytes, e);
    if (!rc)
        rc = take_loaded(w, data, bytes, e);
    mem_free(data);
    return rc;
}

int states_visit(void *self, kv_states_visit why, int (*use)(void *arg, kv_err *e), void *arg,
                 kv_err *e)
{
    worker *w = self;
    int rc = KV_OK;
    switch (why) {
    case KV_STATES_LOOK:
        if (w->store->updater.kind == UPDATER_RULE)
            rc = gather(w, e);
        rc = rc ? rc : use(arg, e);
        drop(w);
        break;
    case KV_STATES_SAVE:
        rc = net_rank() == 0 ? save_together(w, use, arg, e) : wait_saved(w, e);
        break;
    case KV_STATES_LOAD:
        rc = net_rank() == 0 ? load_together(w, use, arg, e) : wait_loaded(w, e);
        break;
    }
    return rc;
}
