/* A server sends parts that were pulled, sums and ends of pushes, and sets optimizers. */
#include "distributed/server_state.h"

#include <string.h>

#include "array/device.h"
#include "array/sparse.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "distributed/states.h"

/* ---- Stores ---- */

server_state *server_stores;

server_state *server_store(int number)
{
    server_state *s = server_stores;
    while (s && s->number != number)
        s = s->next;
    return s;
}

server_state *server_store_of(int rank, const link_rec *r, kv_err *e)
{
    server_state *s = server_store(r->store);
    if (!s)
        kv_err_set(e, KV_E_INTERNAL, "server %d has no such store", link_rank());
    else if (!s->how.sums == (r->kind == LINK_ADD) || rank >= s->how.workers)
        ask_malformed(e);
    return e->code ? NULL : s;
}

/* ---- Replies to calls ---- */

void server_fail(int rank, uint64_t request, int store, int64_t id, const kv_err *e)
{
    link_rec r = {.bytes = sizeof *e, .kind = LINK_FAILED, .store = (uint16_t)store,
                  .request = request, .part = id};
    net_answer(rank, r, e);
}

void server_refuse(int rank, uint64_t request, const kv_err *e)
{
    server_fail(rank, request, 0, 0, e);
}

void server_reply(int rank, uint64_t request, const void *data, int64_t bytes)
{
    net_answer(rank, (link_rec){.bytes = (uint32_t)bytes, .kind = LINK_REPLY, .flags = LINK_LAST,
                                .request = request}, data);
}

void server_reply_buf(int rank, uint64_t request, buf *b, kv_err *e)
{
    if (e->code || buf_check(b, e))
        server_refuse(rank, request, e);
    else
        net_answer_buf(rank, (link_rec){.kind = LINK_REPLY, .flags = LINK_LAST, .request = request},
                       b);
    buf_release(b);
}

/* ---- Replies of parts ---- */

typedef struct reply {
    part *part;
    round *round; /* its sum is sent; NULL: the stored elements */
    kv_array *own; /* NULL; or this one is sent, a reference: an array of its states, of which the
                      next round, which does not wait, changes a copy then */
    int64_t key_round; /* that `own` holds; 0 of states */
    int64_t id, index; /* of the part; in its request */
    bool changes; /* behind `since` alone */
    int64_t since;
} reply;

/* Parts that one request of a worker receives. Collected while the net settles, then an item. */
typedef struct server_replies {
    net_item item;
    server_state *s;
    uint64_t request;
    reply *list;
    int64_t n, cap, at;
    int64_t from; /* bytes of the one at `at` that were sent; elements of codes and changes */
} server_replies;

void server_end_sum(server_state *s, part *p, round *x)
{
    const contribution *own = &x->by[x->own.ended ? link_rank() : 0];
    kv_assert(x->replies == 0, "the sum of round %lld ends while %d workers are sent it",
              (long long)x->number, x->replies);
    if (x->own.ended)
        x->own.ended(own->request, own->chunk, x->sum);
    parts_free_round(s, p, x);
}

/* A reply was sent, or a rank is lost and it never will be. A round of the part may have waited for
 * that. */
static void end_reply(server_replies *r)
{
    const reply *x = &r->list[r->at++];
    r->from = 0;
    kv_array_unref(x->own);
    if (x->own)
        return;
    kv_assert((x->round ? x->round->replies : x->part->replies) > 0,
              "part %lld sends a reply that was not counted", (long long)x->part->id);
    if (x->round) {
        if (--x->round->replies == 0)
            server_end_sum(r->s, x->part, x->round);
    } else if (--x->part->replies == 0 && x->part->rounds) {
        parts_touch(r->s, x->part);
        net_wake();
    }
}

/* Sends elements that changed. A record is reserved for the bytes that it may have at most. */
static net_step send_changes(server_replies *r)
{
    const reply *x = &r->list[r->at];
    const part *p = x->part;
    int64_t from = r->from, room = part_changes_bound(p, from);
    room = room < LINK_PAYLOAD ? room : LINK_PAYLOAD;
    link_rec *to = net_reserve_by(&r->item, room, false);
    if (!to)
        return NET_FULL;
    int64_t n = part_changes_put(p, server_stored(r->s, p)->data, x->since, &r->from, to + 1, room);
    bool last = r->from == p->count;
    *to = (link_rec){.bytes = (uint32_t)n,
                     .kind = LINK_VALUE,
                     .flags = (uint8_t)(LINK_CHANGES | (last ? LINK_LAST : 0)),
                     .store = (uint16_t)r->s->number,
                     .part = (int32_t)p->id,
                     .chunk = (int32_t)x->index,
                     .request = r->request,
                     .from = from,
                     .n = r->from - from,
                     .round = part_round(p)};
    net_commit(r->item.peer);
    return last ? NET_ENDED : NET_MORE;
}

static net_step send_elements(server_state *s, const net_item *i, uint64_t request, const reply *x,
                              int64_t *from)
{
    const part *p = x->part;
    const kv_array *a = x->own || x->round ? x->own : server_stored(s, p);
    elements_out all = {.data = a ? (const char *)a->data : x->round->sum,
                    .all = x->own ? kv_array_bytes(x->own) : p->bytes};
    if (!x->own && p->coded.code)
        all = (elements_out){.data = p->codes, .all = p->count, .code = &p->coded};
    const link_rec head = {.kind = LINK_VALUE,
                           .store = (uint16_t)s->number,
                           .part = (int32_t)x->id,
                           .chunk = (int32_t)x->index,
                           .request = request,
                           .n = all.all,
                           .round = x->own ? x->key_round : part_round(p)};
    return elements_send(i, &head, &all, from);
}

static net_step send_next(net_item *i)
{
    server_replies *r = (server_replies *)(void *)i;
    const reply *x = &r->list[r->at];
    net_step step = x->changes ? send_changes(r)
                               : send_elements(r->s, i, r->request, x, &r->from);
    if (step != NET_ENDED)
        return step;
    end_reply(r);
    return r->at < r->n ? NET_MORE : NET_ENDED;
}

static void free_replies(net_item *i)
{
    own_mem server_replies *r = (server_replies *)(void *)i;
    while (r->at < r->n)
        end_reply(r);
    mem_free(r->list);
}

static void post_replies(server_worker *w)
{
    if (w->replies)
        net_post(&w->replies->item);
    w->replies = NULL;
}

/* Lists a worker that has replies or ends of pushes to get when the net has settled. */
static void list_worker(server_state *s, int rank)
{
    server_worker *w = &s->workers[rank];
    if (w->listed || !kv_assert(s->nnews < s->how.workers, "rank %d is listed a second time", rank))
        return;
    s->news[s->nnews++] = rank;
    w->listed = true;
}

/* One more reply to a request of a worker. False: there is no memory, and this rank is lost. */
static bool add_reply(server_state *s, int rank, uint64_t request, int32_t priority, reply x)
{
    kv_err e = {0};
    server_worker *w = &s->workers[rank];
    if (w->replies && w->replies->request != request)
        post_replies(w);
    server_replies *r = w->replies;
    if (!r && !(r = mem_zalloc(1, sizeof *r, &e))) {
        net_cannot_serve(&e);
        return false;
    }
    if (!w->replies) {
        r->item = (net_item){.step = send_next, .release = free_replies, .peer = rank,
                             .priority = priority};
        r->s = s;
        r->request = request;
        w->replies = r;
        list_worker(s, rank);
    }
    if (mem_grow(&r->list, &r->cap, r->n + 1, sizeof *r->list, &e)) {
        if (r->n == 0) { /* an empty list is not posted */
            mem_free(r);
            w->replies = NULL;
        }
        net_cannot_serve(&e);
        return false;
    }
    r->list[r->n++] = x;
    return true;
}

/* A row_sparse part as a dense array, for workers that pull it whole. */
static void send_dense(server_state *s, const part *p, const server_pull *x)
{
    kv_err e = {0};
    reply r = {.id = p->id, .index = x->index, .key_round = part_round(p)};
    if (kv_array_to_dense(&r.own, server_stored(s, p), &e))
        server_fail(x->rank, x->request, s->number, p->id, &e);
    else if (!add_reply(s, x->rank, x->request, x->priority, r))
        kv_array_unref(r.own);
}

/* An array of the states as it is now. */
static void send_state(server_state *s, const part *p, const server_pull *x)
{
    char text[SLOT_KEY_TEXT];
    kv_err e = {0};
    reply r = {.id = p->id, .index = x->index, .own = states_array(s, p, x->state)};
    if (!r.own) {
        kv_err_set(&e, KV_E_VALUE, "key %s has no array %d of states", slot_key_text(text, &p->key),
                   x->state);
        server_fail(x->rank, x->request, s->number, p->id, &e);
    } else if (add_reply(s, x->rank, x->request, x->priority, r)) {
        kv_array_ref(r.own);
    }
}

void server_send(server_state *s, part *p, const server_pull *x)
{
    if (x->state) {
        send_state(s, p, x);
        return;
    }
    if (server_stored(s, p)->storage == KV_ROW_SPARSE) {
        send_dense(s, p, x);
        return;
    }
    if (x->changes)
        part_changes_ask(s, p);
    reply part_of = {.part = p, .id = p->id, .index = x->index, .since = x->since};
    part_of.changes = x->changes && part_changes_reach(p, x->since);
    p->replies += add_reply(s, x->rank, x->request, x->priority, part_of);
}

void server_send_sum(server_state *s, part *p, round *x, int worker)
{
    const contribution *c = &x->by[worker];
    kv_assert(x->sum, "the sum of round %lld is sent before it is made", (long long)x->number);
    if (x->own.ended && worker == link_rank())
        return;
    /* The sum is in the cache now, so it goes at once where the link takes it. */
    reply whole = {.part = p, .round = x, .id = p->id, .index = c->chunk};
    const net_item now = {.peer = worker, .priority = c->priority};
    int64_t from = 0;
    if (p->bytes > LINK_PAYLOAD ||
        send_elements(s, &now, c->request, &whole, &from) == NET_FULL)
        x->replies += add_reply(s, worker, c->request, c->priority, whole);
}

/* Appends the rows that have these ids, as ask_put_rows does. */
static int put_chosen(buf *b, const kv_array *a, kv_dtype dtype, int64_t *ids, int64_t n, kv_err *e)
{
    if (a->storage != KV_ROW_SPARSE || row_ids_outside(ids, n, array_shape(a)[0]) >= 0)
        return ask_malformed(e);
    TRY(row_ids_sort(ids, &n, array_shape(a)[0], e));
    if (array_nrows(a) == 0)
        n = 0;
    int64_t row = sparse_row(a), at = 0;
    size_t head = (size_t)(n + 1) * sizeof n, bytes = (size_t)(n * row * kv_dtype_bytes(dtype));
    char *to = buf_room(b, head + bytes);
    if (!to)
        return buf_check(b, e);
    memcpy(to, &n, sizeof n);
    if (n > 0)
        memcpy(to + sizeof n, ids, head - sizeof n);
    for (int64_t i = 0; i < n && !sparse_is_full(a); i++) {
        int64_t id = ids[i];
        at = row_ids_find(array_rows(a), at, array_nrows(a), id);
        ids[i] = at < array_nrows(a) && array_rows(a)[at] == id ? at : -1;
    }
    gather_rows(to + head, dtype, a->data, (kv_dtype)a->dtype, ids, n, 0, row, false);
    buf_grew(b, head + bytes);
    return KV_OK;
}

void server_send_rows(server_state *s, part *p, const server_pull *x)
{
    kv_err e = {0};
    buf bytes = {0};
    int rc = put_chosen(&bytes, server_stored(s, p), p->dtype, x->ids, x->nids, &e);
    bool fits = !rc && bytes.len <= LINK_PAYLOAD;
    link_rec *r = fits ? net_reserve(x->rank, (int64_t)bytes.len) : NULL;
    if (!r) {
        server_reply_buf(x->rank, x->request, &bytes, &e);
        return;
    }
    /* The rows are in the cache now, so they go at once where the link takes them. */
    *r = (link_rec){.kind = LINK_REPLY,
                    .flags = LINK_LAST,
                    .request = x->request,
                    .bytes = (uint32_t)bytes.len};
    net_copy(x->rank, r + 1, bytes.data, (int64_t)bytes.len);
    net_commit(x->rank);
    buf_release(&bytes);
}

/* ---- Ends of pushes ---- */

static void send_news(server_state *s, int rank)
{
    server_worker *x = &s->workers[rank];
    link_rec done = {.kind = LINK_DONE, .store = (uint16_t)s->number, .request = x->request,
                     .n = x->applied};
    post_replies(x);
    link_rec *r = x->applied ? net_reserve(rank, 0) : NULL;
    if (r) {
        *r = done;
        net_commit(rank);
    } else if (x->applied) {
        net_answer(rank, done, NULL);
    }
    x->applied = 0;
}

void server_note_done(server_state *s, int worker, uint64_t request)
{
    server_worker *x = &s->workers[worker];
    if (x->applied && x->request != request)
        send_news(s, worker);
    x->request = request;
    x->applied++;
    list_worker(s, worker);
}

void server_flush(server_state *s)
{
    for (int i = 0; i < s->nnews; i++) {
        s->workers[s->news[i]].listed = false;
        send_news(s, s->news[i]);
    }
    s->nnews = 0;
}

/* ---- Sums ---- */

bool server_is_sum(const server_state *s, const part *p, const round *x)
{
    if (s->how.is_async || s->store->updater.kind != UPDATER_ASSIGN || p->storage != KV_DEFAULT)
        return false;
    for (int i = 0; i < s->how.workers; i++)
        if (x->by[i].complete && x->by[i].sparse)
            return false;
    return true;
}

/* The codes in which the first worker wants the sum of a round; code 0: in none. */
static push_codes back_of(const server_state *s, const round *x)
{
    for (int i = 0; i < s->how.workers; i++)
        if (x->by[i].complete)
            return x->by[i].how.back ? x->by[i].how : (push_codes){0};
    return (push_codes){0};
}

/* Collects the elements that workers contributed, by rank, in s->sources; *n becomes how many. */
static int find_sources(server_state *s, const round *x, int *n, kv_err *e)
{
    *n = 0;
    for (int i = 0; i < s->how.workers; i++) {
        const contribution *c = &x->by[i];
        if (!c->complete || !c->bytes)
            continue;
        if (!c->data)
            return kv_err_set(e, KV_E_MEMORY, "no memory for a push");
        s->sources[(*n)++] = c->data;
    }
    return KV_OK;
}

/* A sum that is made in the place of one of its values, but not of the first, would overwrite
 * elements before they are added. It is made beside, block by block, and copied while it is in the
 * cache. */
static void add_beside(char *to, const void **list, int n, kv_dtype dtype, int64_t bytes)
{
    enum { AT_ONCE = 16 << 10 };
    _Alignas(64) char some[AT_ONCE];
    int64_t each = kv_dtype_bytes(dtype);
    for (int64_t at = 0; at < bytes; at += AT_ONCE) {
        int64_t m = bytes - at < AT_ONCE ? bytes - at : AT_ONCE;
        sum_elements(some, list, n, dtype, m / each);
        memcpy(to + at, some, (size_t)m);
        for (int i = 0; i < n; i++)
            list[i] = (const char *)list[i] + m;
    }
}

/* Finds the place where the sum of a round is made. */
static int find_sum(server_state *s, part *p, round *x, void **to, kv_err *e)
{
    push_codes how = back_of(s, x);
    kv_assert(!p->keeps || p->replies == 0, "part %lld is summed while %d workers are sent it",
              (long long)p->id, p->replies);
    if (p->keeps) {
        TRY(kv_array_write(server_stored(s, p), to, e));
        /* Place for the codes of the sum and for their residual, which begins as 0. */
        if (!how.code || how.back == BACK_ANEW)
            parts_drop_codes(p);
        if (!how.code || p->codes || !p->count)
            return KV_OK;
        p->codes = mem_alloc(quantise_bytes((quantise_code)how.code, p->count), 1, e);
        p->residual = p->codes ? mem_zalloc(p->count, sizeof *p->residual, e) : NULL;
        if (p->residual)
            return KV_OK;
        parts_drop_codes(p);
        return KV_E_MEMORY;
    }
    if (x->broadcasts && x->broadcasts < x->have)
        return kv_err_set(e, KV_E_VALUE,
                          "some ranks broadcast the key while others push and pull it");
    if (x->broadcasts && !x->by[0].complete)
        return kv_err_set(e, KV_E_VALUE, "rank 0 is done, and the others broadcast its value");
    *to = x->sum = x->own.out ? x->own.out : mem_alloc(p->bytes, 1, e);
    return x->sum ? KV_OK : KV_E_MEMORY;
}

int server_add_up(server_state *s, part *p, round *x, kv_err *e)
{
    int n = 0;
    bool beside = false;
    void *to = NULL;
    push_codes how = back_of(s, x);
    TRY(find_sum(s, p, x, &to, e));
    TRY(find_sources(s, x, &n, e));
    if (n == 0)
        return KV_OK;
    for (int i = 1; i < n; i++)
        beside |= s->sources[i] == to;
    if (beside)
        add_beside(to, s->sources, n, p->dtype, p->bytes);
    else
        sum_elements(to, s->sources, n, p->dtype, p->count);
    p->coded = how;
    if (how.code) {
        quantise_encode(p->codes, p->residual, to, (quantise_code)how.code, how.threshold,
                        p->count);
        quantise_decode(to, p->codes, (quantise_code)how.code, how.threshold, p->count);
    }
    return KV_OK;
}

/* ---- Optimizers ---- */

/* The texts of ASK_OPTIMIZER: "assign"; or "optimizer", its name and parameters as pairs; "rule"
 * with its text; "update" with "". */
int server_set_optimizer(server_state *s, const server_optimizer *o, kv_err *e)
{
    enum { MOST = 256 };
    kv_opt params[MOST];
    int n = 0;
    const char *kind = o->text, *end = o->text + o->bytes;
    const char *text = kind + strlen(kind) + 1;
    if (strcmp(kind, "assign") == 0)
        return kv_set_updater(s->store, NULL, NULL, NULL, e);
    for (const char *at = text + strlen(text) + 1; at < end && n < MOST;) {
        params[n].name = at;
        at += strlen(at) + 1;
        params[n++].value = at;
        at += strlen(at) + 1;
    }
    if (strcmp(kind, "update") == 0)
        return kv_update_optimizer(s->store, params, n, e);
    if (strcmp(kind, "optimizer") == 0)
        return kv_set_optimizer(s->store, text, params, n, e);
    kv_rule *rule;
    TRY(kv_rule_new(&rule, text, NULL, 0, 0, e));
    int rc = kv_set_rule(s->store, rule, params, n, e);
    kv_rule_free(rule);
    return rc;
}
