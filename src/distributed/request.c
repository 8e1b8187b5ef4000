/* Requests: the code that pushes, pulls and sums share, from their turn in the engine until
 * the other side has answered.
 *
 * A push reads its values when their turn has come and they are sent; each is free again then. It
 * ends when the servers have applied it. A pull writes its outs as the chunks come.
 *
 * Replies name a request by a number, which is looked up: one that comes late finds nothing.
 */
#include "distributed/request.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "array/mirror.h"
#include "base/clock.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "distributed/environment.h"
#include "distributed/server.h"
#include "engine/trace.h"

enum { FIRST_LISTS = 8 };

/* The requests under way: each is in the list of its token. */
static struct {
    pthread_mutex_t lock;
    request **lists; /* nlists of them, from request_open on */
    int64_t nlists, n;
    uint64_t next;
} inflight = {.lock = PTHREAD_MUTEX_INITIALIZER};

int request_open(kv_err *e)
{
    inflight.lists = mem_zalloc(FIRST_LISTS, sizeof *inflight.lists, e);
    inflight.nlists = FIRST_LISTS;
    return inflight.lists ? KV_OK : KV_E_MEMORY;
}

static request **list_of(uint64_t token)
{
    return &inflight.lists[token % (uint64_t)inflight.nlists];
}

static void put_in_list(request *rq)
{
    request **list = list_of(rq->token);
    rq->next = *list;
    *list = rq;
}

/* Without memory for more lists they get longer. */
static void spread_lists(void)
{
    kv_err unused = {0};
    int64_t had = inflight.nlists;
    request **old = inflight.lists, **more = mem_zalloc(4 * had, sizeof *more, &unused);
    if (!more)
        return;
    inflight.lists = more;
    inflight.nlists = 4 * had;
    for (int64_t i = 0; i < had; i++)
        for (request *rq = old[i], *next; rq; rq = next) {
            next = rq->next;
            put_in_list(rq);
        }
    mem_free(old);
}

request *request_find(uint64_t token)
{
    pthread_mutex_lock(&inflight.lock);
    request *rq = *list_of(token);
    while (rq && rq->token != token)
        rq = rq->next;
    pthread_mutex_unlock(&inflight.lock);
    return rq;
}

/* ---- For a profile ---- */

static void add_trace(const request *rq, trace_event ev)
{
    kv_key keys[TRACE_KEYS];
    ev.name = rq->op.trace->name;
    ev.op = rq->op.trace->number;
    for (int64_t i = 0; i < rq->nitems && i < TRACE_KEYS; i++)
        keys[i] = rq->items[i].key;
    ev.keys = keys;
    ev.nkeys = rq->nitems;
    trace_add(&ev);
}

static void trace_end(const request *rq)
{
    const trace_op *t = rq->op.trace;
    if (!t)
        return;
    if (t->scheduled) {
        add_trace(rq, (trace_event){TRACE_WAIT, .begin = t->scheduled, .end = t->ready});
        add_trace(rq, (trace_event){TRACE_QUEUE, .begin = t->ready, .end = rq->begun});
    }
    add_trace(rq, (trace_event){TRACE_TRAVEL, .begin = rq->begun, .end = trace_now()});
}

/* ---- The end ---- */

void request_give_source(request_item *c, kv_array *a)
{
    if (c->held)
        array_drop(c->source);
    else
        kv_array_unref(c->source);
    c->source = a;
    c->held = false;
}

void request_free(request *rq)
{
    mem_free(rq->op.trace);
    for (int64_t i = 0; i < rq->nitems && rq->plain; i++)
        array_drop(rq->items[i].source);
    for (int64_t i = 0; i < rq->nitems && !rq->plain && !rq->pulls; i++) {
        request_give_source(&rq->items[i], NULL);
        mem_free(rq->items[i].blob);
        mem_free(rq->items[i].starts);
        kv_array_unref(rq->items[i].moved);
        kv_array_unref(rq->items[i].old);
    }
    for (int64_t i = 0; i < rq->nouts; i++)
        array_drop(rq->outs[i]);
    buf_release(&rq->host);
    mem_free(rq->blocks);
    mem_free(rq->staged);
    request_release_memory(rq);
}

static void done(engine_op *op)
{
    request_free((request *)(void *)op);
}

static void end_use(request_item *c)
{
    if (c->use)
        engine_end(c->use, 1);
    c->use = NULL;
}

static void mark_outs(request *rq, const request_item *c, bool unfilled)
{
    for (int64_t i = c->first; i < c->first + c->n; i++)
        rq->outs[i]->unfilled = unfilled ? KV_E_PEER : 0;
}

void request_chunk_ended(request *rq, const chunk *p)
{
    request_item *c = &rq->items[p->item];
    kv_assert(rq->waiting > 0 && c->left > 0, "request %llu ends a part too many",
              (unsigned long long)rq->token);
    rq->chunks[p - rq->chunks].ended = true;
    rq->waiting--;
    if (--c->left > 0)
        return;
    mark_outs(rq, c, c->failed);
    engine_end(&rq->uses[c->first], c->n);
    end_use(c);
}

void request_look_at_end(request *rq)
{
    if (rq->waiting > 0 || __atomic_load_n(&rq->nqueues, __ATOMIC_ACQUIRE) > 0)
        return;
    pthread_mutex_lock(&inflight.lock);
    request **at = list_of(rq->token);
    while (*at && *at != rq)
        at = &(*at)->next;
    if (kv_assert(*at, "request %llu ends, and is not under way", (unsigned long long)rq->token)) {
        *at = rq->next;
        inflight.n--;
    }
    pthread_mutex_unlock(&inflight.lock);
    trace_end(rq);
    int64_t pushing = __atomic_sub_fetch(&rq->w->pushing, rq->bytes, __ATOMIC_ACQ_REL);
    kv_assert(pushing >= 0, "pushes of %lld bytes end, which is %lld too many",
              (long long)rq->bytes, (long long)-pushing);
    kv_err e = rq->error.code ? rq->error : rq->bring_error;
    if (e.code) {
        /* Only the outs that lack chunks are marked: readers may have used the others already. */
        for (int64_t i = 0; i < rq->nitems && rq->nouts > 0; i++)
            if (rq->items[i].left > 0)
                mark_outs(rq, &rq->items[i], true);
    }
    engine_complete(&rq->op, &e);
}

/* ---- Sending ---- */

net_step request_next_chunk(send_queue *q)
{
    request *rq = q->request;
    request_item *c = &rq->items[rq->chunks[q->at].item];
    kv_assert(q->at < q->end && (rq->pulls || rq->sums || c->left > 0),
              "chunk %lld is sent, and the queue ends before %lld", (long long)q->at,
              (long long)q->end);
    q->offset = 0;
    if (!rq->pulls && !rq->sums && --c->left == 0)
        end_use(c);
    return ++q->at < q->end ? NET_MORE : NET_ENDED;
}

static void queue_ended(net_item *i)
{
    send_queue *q = (send_queue *)(void *)i;
    request *rq = q->request;
    int left = __atomic_sub_fetch(&rq->nqueues, 1, __ATOMIC_ACQ_REL);
    kv_assert(left >= 0, "request %llu has %d queues left", (unsigned long long)rq->token, left);
    if (left == 0)
        request_look_at_end(rq);
}

/* A request without queues has no items, and is not started. The queues are posted when a rank is
 * lost, too: the net drops them and then ends the request, which must not happen here, where the
 * engine may be in the middle of another operation's end. */
static int post_queues(engine_op *op, kv_err *e)
{
    request *rq = (request *)(void *)op;
    net_item *list = NULL;
    (void)e;
    kv_assert(!rq->posted, "request %llu is posted twice", (unsigned long long)rq->token);
    rq->begun = rq->op.trace ? trace_now() : 0;
    for (int i = server_count() - 1; i >= 0; i--) {
        send_queue *q = &rq->queues[i];
        if (q->at == q->end)
            continue;
        q->item.next = list;
        list = &q->item;
        rq->nqueues++;
    }
    __atomic_store_n(&rq->posted, true, __ATOMIC_RELEASE);
    if (kv_assert(list, "request %llu of %lld keys has nothing to send",
                  (unsigned long long)rq->token, (long long)rq->nitems))
        net_post_list(list);
    return KV_OK;
}

void request_count_bytes(request *rq, int64_t bytes)
{
    rq->bytes += bytes;
    __atomic_add_fetch(&rq->w->pushing, bytes, __ATOMIC_ACQ_REL);
}

int64_t request_bytes(const request *rq)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < rq->nitems; i++)
        if (rq->plain || rq->items[i].source->storage == KV_DEFAULT)
            bytes += rq->items[i].place.size * kv_dtype_bytes(rq->items[i].dtype);
    return bytes;
}

static net_step bringer_step(net_item *i)
{
    (void)i;
    return NET_ENDED;
}

/* The bringer is posted last, and a request whose queues are posted does not end before it. */
static int post_and_bring(request *rq, kv_err *e)
{
    net_item item = {.step = bringer_step, .release = queue_ended, .peer = link_rank(),
                     .priority = INT32_MAX};
    rq->bringer = (send_queue){.item = item, .request = rq};
    rq->nqueues = 1;
    post_queues(&rq->op, e);
    request_bring(rq);
    net_post(&rq->bringer.item);
    return KV_OK;
}

/* Starts a request whose values are coded first, or some of whose arrays are on a GPU. */
static int start_prepared(engine_op *op, kv_err *e)
{
    request *rq = (request *)(void *)op;
    int rc = request_stage(rq, e);
    for (int64_t i = 0; i < rq->nitems && !rq->pulls && !rc; i++) {
        request_item *c = &rq->items[i];
        bool whole = rq->sums || c->source->storage == KV_ROW_SPARSE;
        if (whole && !c->staged)
            rc = mirror_host(c->source, MIRROR_READ, e);
        if (!rc && rq->encode)
            rc = rq->encode(rq, c, e);
        request_count_bytes(rq, c->blob_bytes);
    }
    if (!rc)
        rc = request_place_outs(rq, e);
    if (!rc)
        return request_expect_streamed(rq) ? post_and_bring(rq, e) : post_queues(op, e);
    rq->error = *e;
    rq->waiting = 0;
    if (rc == KV_E_MEMORY && !rq->pulls) /* its round lacks this rank, and all wait for it */
        net_cannot_serve(e);
    request_look_at_end(rq);
    return rc;
}

void request_submit(request *rq, engine_group *g)
{
    kv_err e = {0};
    bool away = !rq->plain && request_has_gpus(rq);
    bool prepared = away || (!rq->plain && rq->codes.code); /* or coded as rows */
    for (int64_t i = 0; i < rq->nitems && !rq->plain && !rq->pulls && !prepared; i++)
        prepared = rq->items[i].source->storage == KV_ROW_SPARSE;
    kv_assert(rq->op.nuses > 0 && rq->waiting > 0, "a request of %lld keys waits for %lld parts",
              (long long)rq->nitems, (long long)rq->waiting);
    rq->op.run = prepared ? start_prepared : post_queues;
    rq->op.done = done;
    rq->op.group = g;
    rq->op.uses = rq->uses;
    rq->op.later = true;
    rq->op.quick = !prepared;
    rq->op.priority = rq->priority;
    pthread_mutex_lock(&inflight.lock);
    if (inflight.n++ >= inflight.nlists)
        spread_lists();
    rq->token = ++inflight.next;
    put_in_list(rq);
    pthread_mutex_unlock(&inflight.lock);
    if (rq->op.trace)
        rq->op.trace->name = rq->name;
    if (rq->op.trace)
        add_trace(rq, (trace_event){TRACE_ENQUEUE, .begin = rq->op.trace->begun, .end = trace_now(),
                                    .later = true});
    /* a request of a GPU always goes to the pool: the caller need not wait for the copies */
    if (!away && engine_try(&rq->op))
        rq->op.run(&rq->op, &e);
    else
        engine_submit(&rq->op);
    net_wake();
}

/* ---- Laying out ---- */

void request_lay_out(request *rq)
{
    int servers = server_count();
    int64_t n = 0;
    for (int64_t i = 0; i < rq->nitems; i++) {
        const place *cut = &rq->items[i].place;
        n += cut->nparts;
        for (int32_t p = 0; p < cut->nparts; p++)
            rq->queues[place_server(cut, p, servers)].end++;
    }
    rq->waiting = n;
    int64_t at = 0;
    for (int s = 0; s < servers; s++) {
        send_queue *q = &rq->queues[s];
        int64_t count = q->end;
        /* The records of a pull are small, and a server keeps them until it can answer, so they go
           early. */
        *q = (send_queue){.item = {.step = rq->step, .release = queue_ended, .peer = server_rank(s),
                                   .priority = rq->pulls ? INT32_MAX - 1 : rq->priority},
                          .request = rq, .at = at, .end = at};
        at += count;
    }
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        c->left = c->place.nparts;
        for (int32_t p = 0; p < c->place.nparts; p++)
            rq->chunks[rq->queues[place_server(&c->place, p, servers)].end++] =
                (chunk){.item = i, .part = p};
    }
    kv_assert(at == n && rq->queues[servers - 1].end == n, "%lld parts make %lld chunks",
              (long long)n, (long long)rq->queues[servers - 1].end);
}

/* ---- Grouping ---- */

static int by_order(const void *a, const void *b)
{
    const request_pair *x = a, *y = b;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

int request_sort(const worker *w, const int64_t *numbers, int64_t n, request_pair **out, kv_err *e)
{
    bool sorted = true;
    request_pair *r = mem_alloc(n, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        const kv_key *k = &w->store->slots.items[numbers[i]].key;
        r[i] = (request_pair){k->name ? numbers[i] : k->id, i};
        sorted &= i == 0 || r[i - 1].order <= r[i].order;
    }
    if (!sorted)
        qsort(r, (size_t)n, sizeof *r, by_order);
    *out = r;
    return KV_OK;
}

/* ---- Values ---- */

/* Adds a key to the store of sums, if it is not there yet. */
static int new_sum(const worker *w, const request_item *c, const kv_array *value, kv_err *e)
{
    own_array *like = NULL;
    if (slot_find(&w->sums->slots, &c->key, -1) >= 0)
        return KV_OK;
    TRY(kv_array_new(&like, c->dtype, value->ndim, array_shape(value), (kv_ctx){KV_CPU, 0}, e));
    return kv_init(w->sums, &c->key, 1, &like, NULL, e);
}

int request_sum_values(request *rq, const kv_pairs *values, const request_pair *r, kv_err *e)
{
    worker *w = rq->w;
    int64_t n = 0, all = 0;
    for (int64_t i = 0; i < rq->nitems; i++)
        all += rq->items[i].n;
    own_mem kv_key *some = mem_alloc(all, sizeof *some, e);
    own_mem kv_array **list = mem_alloc(all, sizeof *list, e);
    TRY(some && list ? KV_OK : KV_E_MEMORY);
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        kv_array *first = values->arrays[r[c->first].i];
        /* It can be sent as it is, without a sum or a conversion. */
        if (c->n == 1 && (kv_dtype)first->dtype == c->dtype &&
            (first->storage == KV_DEFAULT || place_fits(&c->place, PLACE_BY_ROWS))) {
            c->source = first;
            array_hold(c->source);
            c->held = true;
            continue;
        }
        TRY(new_sum(w, c, first, e));
        for (int64_t j = 0; j < c->n; j++) {
            some[n] = values->keys[r[c->first + j].i];
            list[n++] = values->arrays[r[c->first + j].i];
        }
    }
    if (n)
        TRY(kv_push(w->sums, some, n, list, NULL, e));
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        if (c->source)
            continue;
        int64_t at = slot_find(&w->sums->slots, &c->key, -1);
        if (!kv_assert(at >= 0, "the sum of %lld values is not in the store of sums",
                       (long long)c->n))
            return kv_assert_report(e);
        kv_array *sum = w->sums->slots.items[at].stored;
        if (sum->storage == KV_ROW_SPARSE && !place_fits(&c->place, PLACE_BY_ROWS))
            TRY(kv_array_to_dense(&c->source, sum, e));
        else
            c->source = kv_array_ref(sum);
    }
    return KV_OK;
}

/* ---- A rank that is lost ---- */

/* The first request from rq on that a loss ends now; NULL: there is none. A request that is not
 * posted sees by itself that a rank is lost, and the net drops queues that are being sent first. */
static request *find_posted(request *rq)
{
    while (rq && (!__atomic_load_n(&rq->posted, __ATOMIC_ACQUIRE) ||
                  __atomic_load_n(&rq->nqueues, __ATOMIC_ACQUIRE) > 0))
        rq = rq->next;
    return rq;
}

/* The next request that a loss ends, in list *i or behind it. The lock is taken once for all lists,
 * since a rank that has lost another one asks again each time that it drives. */
static request *next_posted(int64_t *i)
{
    request *rq = NULL;
    pthread_mutex_lock(&inflight.lock);
    while (*i < inflight.nlists && !(rq = find_posted(inflight.lists[*i])))
        ++*i;
    pthread_mutex_unlock(&inflight.lock);
    return rq;
}

void request_lost(const kv_err *why)
{
    int64_t i = 0;
    for (request *rq; (rq = next_posted(&i));) {
        rq->error = rq->error.code ? rq->error : *why;
        rq->waiting = 0;
        request_look_at_end(rq);
    }
}

/* ---- Memory ----
 *
 * A request and its lists are one block.
 *
 * A call of many pairs makes several requests of at most REQUEST_PAIRS pairs, so that the first are
 * sent while the last are made. Their blocks have one size, `usual`, and the worker keeps
 * WORKER_SPARES of those that have ended. A call must not fail half-way, so it allocates the blocks
 * of all its requests first; when it comes to make one, it takes a spare instead if there is one,
 * whose memory is still in the cache, and frees the block that it had reserved. */

/* The lengths of the lists of a request. */
typedef struct room {
    int64_t pairs, uses, outs, parts;
} room;

/* The room of a block that is kept and used again. */
static const room usual = {REQUEST_PAIRS, REQUEST_PAIRS, REQUEST_PAIRS, REQUEST_PAIRS};

/* An empty request, whose lists lie behind it. */
static void lay_lists(request *rq, worker *w, const room *x)
{
    memset(rq, 0, sizeof *rq);
    rq->w = w;
    rq->queues = (send_queue *)(void *)(rq + 1);
    memset(rq->queues, 0, (size_t)server_count() * sizeof *rq->queues);
    rq->items = (request_item *)(void *)(rq->queues + server_count());
    rq->uses = (engine_use *)(void *)(rq->items + x->pairs);
    rq->outs = (kv_array **)(void *)(rq->uses + x->uses);
    rq->chunks = (chunk *)(void *)(rq->outs + x->outs);
}

static int new_trace(request *rq, kv_err *e)
{
    if (!trace_on())
        return KV_OK;
    trace_op *t = mem_alloc(1, sizeof *t, e);
    if (!t)
        return KV_E_MEMORY;
    *t = (trace_op){.number = trace_number(), .begun = trace_now()};
    rq->op.trace = t;
    return KV_OK;
}

static request *reserve(worker *w, room x, kv_err *e)
{
    bool small = x.pairs <= usual.pairs && x.uses <= usual.uses && x.outs <= usual.outs &&
                 x.parts <= usual.parts;
    bool keeps = small && x.pairs > usual.pairs / 2;
    int64_t pairs = x.pairs;
    if (keeps)
        x = usual;
    int64_t bytes = (int64_t)sizeof(request) + server_count() * (int64_t)sizeof(send_queue) +
                    x.pairs * (int64_t)sizeof(request_item) + x.uses * (int64_t)sizeof(engine_use) +
                    x.outs * (int64_t)sizeof(kv_array *) + x.parts * (int64_t)sizeof(chunk);
    request *rq = mem_alloc(bytes, 1, e);
    if (!rq)
        return NULL;
    lay_lists(rq, w, &x);
    rq->npairs = pairs;
    rq->usual = keeps;
    if (new_trace(rq, e) == KV_OK)
        return rq;
    mem_free(rq);
    return NULL;
}

static request *take_spare(worker *w)
{
    request *rq = NULL;
    for (int i = 0; i < WORKER_SPARES && !rq; i++)
        rq = __atomic_exchange_n(&w->spares[i], NULL, __ATOMIC_ACQUIRE);
    return rq;
}

/* Returns a spare in the place of rq, a request that is reserved and has no items yet, and frees
 * rq; or rq itself when there is no spare. */
static request *warm(request *rq)
{
    request *spare = rq->usual ? take_spare(rq->w) : NULL;
    if (!spare)
        return rq;
    lay_lists(spare, rq->w, &usual);
    spare->npairs = rq->npairs;
    spare->usual = true;
    spare->op.trace = rq->op.trace;
    mem_free(rq);
    return spare;
}

void request_release_memory(request *rq)
{
    for (int i = 0; i < WORKER_SPARES && rq->usual; i++) {
        request *none = NULL;
        if (__atomic_compare_exchange_n(&rq->w->spares[i], &none, rq, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return;
    }
    mem_free(rq);
}

void request_free_spares(worker *w)
{
    for (request *rq; (rq = take_spare(w));)
        mem_free(rq);
}

/* Returns how many of the first of n sorted pairs one request takes, and in *parts how many parts
 * their keys have. It takes keys with all their pairs: one at least, then further ones while it has
 * fewer than `bytes` bytes and stays within `most` pairs and `most` parts. */
static int64_t count_together(const worker *w, const int64_t *numbers, const request_pair *r,
                              int64_t n, int64_t most, int64_t bytes, int64_t *parts)
{
    int64_t i = 0, have = 0;
    *parts = 0;
    while (i < n) {
        const worker_key *k = &w->keys[numbers[r[i].i]];
        int64_t end = i + 1;
        while (end < n && numbers[r[end].i] == numbers[r[i].i])
            end++;
        if (i > 0 && (have >= bytes || end > most || *parts + k->place.nparts > most))
            break;
        *parts += k->place.nparts;
        have += k->place.size * kv_dtype_bytes(k->dtype);
        i = end;
    }
    return i;
}

/* Makes an item for each key. */
static void fill(request *rq, const int64_t *numbers, const request_pair *r, const kv_call *how)
{
    worker *w = rq->w;
    rq->priority = how ? how->priority : 0;
    for (int64_t i = 0; i < rq->npairs; i++) {
        int64_t number = numbers[r[i].i];
        request_item *c = rq->nitems ? &rq->items[rq->nitems - 1] : NULL;
        if (!c || c->slot != number) {
            const worker_key *k = &w->keys[number];
            c = &rq->items[rq->nitems++];
            *c = (request_item){.slot = number, .key = w->store->slots.items[number].key,
                                .place = k->place, .dtype = k->dtype, .first = i,
                                .here = INT64_MAX};
        }
        c->n++;
    }
}

int request_new(request **out, worker *w, const int64_t *numbers, const request_pair *r, int64_t n,
                int64_t nuses, int64_t nouts, const kv_call *how, kv_err *e)
{
    room x = {n, nuses, nouts, 0};
    count_together(w, numbers, r, n, INT64_MAX, INT64_MAX, &x.parts);
    request *rq = reserve(w, x, e);
    if (!rq)
        return KV_E_MEMORY;
    fill(rq, numbers, r, how);
    *out = rq;
    return KV_OK;
}

int request_reserve(request_list *l, worker *w, const int64_t *numbers, const request_pair *r,
                    int64_t n, int64_t bytes, kv_err *e)
{
    int rc = KV_OK;
    *l = (request_list){.numbers = numbers, .pairs = r};
    for (int64_t at = 0, some, parts; at < n && !rc; at += some) {
        some = count_together(w, numbers, r + at, n - at, REQUEST_PAIRS, bytes, &parts);
        rc = mem_grow(&l->items, &l->cap, l->n + 1, sizeof(request *), e);
        if (!rc && !(l->items[l->n] = reserve(w, (room){some, some, some, parts}, e)))
            rc = KV_E_MEMORY;
        l->n += rc == KV_OK;
    }
    if (rc)
        request_release_list(l);
    return rc;
}

request *request_next(request_list *l, const kv_call *how)
{
    if (l->at == l->n)
        return NULL;
    request *rq = warm(l->items[l->at++]);
    l->from = l->pairs;
    l->pairs += rq->npairs;
    fill(rq, l->numbers, l->from, how);
    return rq;
}

void request_release_list(request_list *l)
{
    for (; l->at < l->n; l->at++) {
        mem_free(l->items[l->at]->op.trace);
        mem_free(l->items[l->at]);
    }
    mem_free(l->items);
    *l = (request_list){0};
}

/* ---- Backpressure ----
 *
 * The wait of a worker that is ahead. While it waits it asks the servers now and then whether a
 * rank waits for it, because then it must push on. */

enum {
    AHEAD_BYTES = 256 << 20,
    FIRST_ASKED_MS = 20, /* when nothing of this rank has ended for so long */
    LAST_ASKED_MS = 320,
    BEHIND_MS = 1000 /* the other rank may wait no more: it was lost, or has given up */
};

int64_t backpressure_bytes(void)
{
    const char *text = environment(ENV_AHEAD);
    return text && *text ? strtoll(text, NULL, 10) : AHEAD_BYTES;
}

/* Returns true if a server waits for a push that this rank has not made yet. */
static bool is_behind(const worker *w, const ask_missed *l, backpressure_missed *out)
{
    *out = (backpressure_missed){.rank = l->waits, .slot = -1, .in_call = l->part < 0};
    if (l->part < 0)
        return true;
    for (int64_t i = 0; i < w->store->slots.n; i++) {
        const place *p = &w->keys[i].place;
        if (l->part < p->first || l->part >= p->first + p->nparts)
            continue;
        out->key = w->store->slots.items[i].key;
        out->slot = i;
        return w->keys[i].pushes < l->round;
    }
    return true; /* it does not even know the key */
}

int backpressure_missed_by(worker *w, backpressure_missed *out, kv_err *e)
{
    *out = (backpressure_missed){.rank = -1, .slot = -1};
    for (int i = 0; i < w->how.servers && out->rank < 0; i++) {
        net_call c = {.rank = server_rank(i), .what = ASK_MISSED, .store = w->number,
                      .name = ask_name(ASK_MISSED)};
        own_mem void *reply = NULL;
        int64_t bytes = 0;
        TRY(net_call_wait(&c, &reply, &bytes, e));
        const ask_missed *list = reply;
        for (int64_t j = 0; j < bytes / (int64_t)sizeof *list; j++) {
            if (is_behind(w, &list[j], out))
                break;
            *out = (backpressure_missed){.rank = -1, .slot = -1};
        }
    }
    return KV_OK;
}

/* The number of operations that may be pending when one of `bytes` begins; -1: it begins now. */
static int64_t too_many(const worker *w, int64_t bytes)
{
    int64_t pending = __atomic_load_n(&w->store->calls.group.pending, __ATOMIC_ACQUIRE);
    int64_t pushing = __atomic_load_n(&w->pushing, __ATOMIC_ACQUIRE);
    kv_assert(pushing >= 0 && pending >= 0, "%lld operations push %lld bytes", (long long)pending,
              (long long)pushing);
    if (pending >= BACKPRESSURE_PENDING)
        return BACKPRESSURE_PENDING - 1;
    return bytes > 0 && pushing > 0 && pushing + bytes > w->ahead && pending > 0 ? pending - 1 : -1;
}

/* Returns true if this rank still has to push the key for which another one was seen to wait a
 * moment ago. */
static bool is_still_behind(const worker *w)
{
    int64_t i = w->missed.slot;
    return i >= 0 && i < w->store->slots.n && w->keys[i].pushes == w->missed.pushes &&
           clock_ms() < w->missed.until_ms;
}

void backpressure_wait(worker *w, int64_t bytes)
{
    engine_group *g = &w->store->calls.group;
    int64_t pending;
    int ms = FIRST_ASKED_MS;
    while ((pending = too_many(w, bytes)) >= 0 && !is_still_behind(w)) {
        backpressure_missed who;
        kv_err unused = {0};
        if (engine_wait_group_for(g, pending, ms))
            continue;
        /* an error here is met by the call that waits, or by the next one */
        if (backpressure_missed_by(w, &who, &unused))
            return;
        w->missed.slot = who.slot;
        w->missed.pushes = who.slot < 0 ? 0 : w->keys[who.slot].pushes;
        w->missed.until_ms = clock_ms() + BEHIND_MS;
        if (who.rank >= 0)
            return;
        ms = ms < LAST_ASKED_MS ? 2 * ms : ms;
    }
}
