/* Memory of requests: a request and its lists are one block.
 *
 * A call of many pairs makes several requests of at most REQUEST_PAIRS pairs, so that the first are
 * sent while the last are made. Their blocks have one size, `usual`, and the worker keeps
 * WORKER_SPARES of those that have ended. A call must not fail half-way, so it allocates the blocks
 * of all its requests first; when it comes to make one, it takes a spare instead if there is one,
 * whose memory is still in the cache, and frees the block that it had reserved.
 */
#include <string.h>

#include "base/mem.h"
#include "distributed/request.h"
#include "engine/trace.h"

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

static int64_t block_bytes(const room *x)
{
    return (int64_t)sizeof(request) + server_count() * (int64_t)sizeof(send_queue) +
           x->pairs * (int64_t)sizeof(request_item) + x->uses * (int64_t)sizeof(engine_use) +
           x->outs * (int64_t)sizeof(kv_array *) + x->parts * (int64_t)sizeof(chunk);
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
    request *rq = mem_alloc(block_bytes(&x), 1, e);
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
