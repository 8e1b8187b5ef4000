/* The types that keep nothing: pushpull gives every rank the sum over ranks, broadcast the value of
 * rank 0. A key is known from its first call on, with the shape and the dtype that one rank brings;
 * where its parts are added up is settled like the places of other types.
 *
 * One request sends the parts of its keys and receives their sums. Those that this rank adds up
 * itself are not sent: the round reads them in place.
 */
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/call.h"
#include "distributed/request.h"
#include "distributed/server_state.h"
#include "distributed/worker.h"

/* ---- Sending ---- */

/* The first array of a key that can hold the sum as it is. */
static char *out_of(const request *rq, const request_item *c, const chunk *p)
{
    for (int64_t i = c->first; i < c->first + c->n; i++) {
        const kv_array *out = rq->outs[i];
        if ((kv_dtype)out->dtype == c->dtype && !(rq->blocks && rq->blocks[i]))
            return (char *)out->data + place_from(&c->place, p->part) * kv_dtype_bytes(c->dtype);
    }
    return NULL;
}

static link_rec record_of(const request *rq, const request_item *c, const chunk *p, int64_t bytes)
{
    int32_t sooner = rq->priority < INT32_MAX - 2 ? rq->priority + 1 : rq->priority;
    return (link_rec){.bytes = (uint32_t)bytes,
                      .kind = LINK_ADD,
                      .flags = (uint8_t)(LINK_LAST | (rq->broadcasts ? LINK_BROADCAST : 0)),
                      .store = (uint16_t)rq->w->number,
                      .part = (int32_t)(c->place.first + p->part),
                      .chunk = (int32_t)(p - rq->chunks),
                      .request = rq->token,
                      .round = c->round,
                      .priority = sooner, /* answers go before new requests */
                      .dtype = (uint8_t)c->dtype};
}

/* The sum of a part that this rank has added up itself. */
static void end_own(uint64_t token, int64_t number, const char *sum)
{
    request *rq = request_find(token);
    if (!rq)
        return;
    const chunk *p = &rq->chunks[number];
    const request_item *c = &rq->items[p->item];
    request_value(rq, p, 0, sum, place_count(&c->place, p->part) * kv_dtype_bytes(c->dtype));
    request_chunk_ended(rq, p);
    request_look_at_end(rq);
}

static net_step send_add(net_item *i)
{
    send_queue *q = (send_queue *)(void *)i;
    request *rq = q->request;
    const chunk *p = &rq->chunks[q->at];
    const request_item *c = &rq->items[p->item];
    int64_t each = kv_dtype_bytes(c->dtype);
    int64_t bytes = place_count(&c->place, p->part) * each;
    const char *data = request_elements(c) + place_from(&c->place, p->part) * each;
    if (q->item.peer == link_rank()) {
        kv_err e = {0};
        link_rec r = record_of(rq, c, p, bytes);
        local_add own = {data, out_of(rq, c, p), end_own};
        server_state *s = server_store(rq->w->number);
        int rc = kv_assert(s, "rank %d adds to its own sums of store %d, which it does not serve",
                           link_rank(), rq->w->number)
                     ? rounds_add(s, link_rank(), &r, &own, &e)
                     : kv_assert_report(&e);
        if (rc) {
            if (rc == KV_E_MEMORY)
                net_cannot_serve(&e); /* the other ranks wait for this round */
            request_fail(rq, p, &e);
            request_chunk_ended(rq, p);
        }
        return request_next_chunk(q);
    }
    if (rq->broadcasts && link_rank() != 0)
        bytes = 0;
    const link_rec head = record_of(rq, c, p, bytes);
    const elements_out all = {.data = data, .all = bytes};
    net_step step = elements_send(&q->item, &head, &all, &q->offset);
    return step == NET_FULL ? step : request_next_chunk(q);
}

/* ---- Checks ---- */

static int check_dense(const worker *w, const kv_pairs *p, kv_err *e)
{
    for (int64_t i = 0; i < p->n; i++) {
        if (p->arrays[i]->storage == KV_DEFAULT)
            continue;
        kv_err_set(e, KV_E_UNSUPPORTED, "the type \"%s\" takes no row_sparse arrays",
                   kv_type(w->store));
        return kv_err_key(e, &p->keys[i]), KV_E_UNSUPPORTED;
    }
    return KV_OK;
}

static int check_values(const worker *w, const kv_pairs *values, const int64_t *numbers, kv_err *e)
{
    for (int64_t i = 0; i < values->n; i++) {
        const slot *s = &w->store->slots.items[numbers[i]];
        const kv_array *value = values->arrays[i];
        TRY(call_check_shape(s, value, "value", e));
        if (value->dtype == s->stored->dtype)
            continue;
        kv_err_set(e, KV_E_DTYPE, "the ranks add up the key as %s, this value is %s",
                   kv_dtype_name((kv_dtype)s->stored->dtype),
                   kv_dtype_name((kv_dtype)value->dtype));
        return kv_err_key(e, &values->keys[i]), KV_E_DTYPE;
    }
    return KV_OK;
}

/* ---- Calls ---- */

static int no_value(const kv_key *key, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    kv_err_set(e, KV_E_KEY, "no value of the call has key %s", slot_key_text(text, key));
    return kv_err_key(e, key), KV_E_KEY;
}

/* Gives each item the outs of its key, but for those that another one overwrites. */
static int give_outs(request *rq, const kv_pairs *outs, const int64_t *numbers,
                     const bool *overwritten, const request_pair *r, kv_err *e)
{
    int64_t at = 0, given = 0;
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        c->first = given;
        for (; at < outs->n && numbers[r[at].i] == c->slot; at++)
            if (!(overwritten && overwritten[r[at].i]))
                rq->outs[given++] = outs->arrays[r[at].i];
        c->n = given - c->first;
    }
    if (at < outs->n)
        return no_value(&outs->keys[r[at].i], e);
    rq->nouts = given;
    return KV_OK;
}

static int by_address(const void *a, const void *b)
{
    const engine_var *x = *(engine_var *const *)a, *y = *(engine_var *const *)b;
    return (x > y) - (x < y);
}

/* Values that are also outs are copied: those of other keys may be written first. */
static int copy_shared(request *rq, kv_err *e)
{
    own_mem engine_var **written = mem_alloc(rq->nouts, sizeof(engine_var *), e);
    TRY(written ? KV_OK : KV_E_MEMORY);
    for (int64_t i = 0; i < rq->nouts; i++)
        written[i] = array_var(rq->outs[i]);
    qsort(written, (size_t)rq->nouts, sizeof *written, by_address);
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        const engine_var *var = array_var(c->source);
        if (!bsearch(&var, written, (size_t)rq->nouts, sizeof *written, by_address))
            continue;
        own_array *copy = NULL;
        TRY(kv_array_new_raw(&copy, c->source->dtype, c->source->ndim, array_shape(c->source),
                             c->source->ctx, e));
        TRY(kv_array_copy(copy, c->source, e));
        request_give_source(c, copy);
        copy = NULL;
    }
    return KV_OK;
}

/* Nothing fails from here on. */
static void commit(request *rq)
{
    worker *w = rq->w;
    int64_t bytes = request_bytes(rq);
    backpressure_wait(w, bytes);
    request_count_bytes(rq, bytes);
    for (int64_t i = 0; i < rq->nouts; i++) {
        array_hold(rq->outs[i]);
        rq->uses[i] = (engine_use){.var = array_var(rq->outs[i]), .write = true};
    }
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        c->round = ++w->keys[c->slot].pushes;
        c->use = &rq->uses[rq->nouts + i];
        *c->use = (engine_use){.var = array_var(c->source)};
    }
    rq->op.nuses = rq->nouts + rq->nitems;
    request_submit(rq, &w->store->calls.group);
}

static int make_request(worker *w, const kv_pairs *values, const int64_t *numbers,
                        const kv_pairs *outs, const int64_t *onumbers, bool broadcasts,
                        const kv_call *how, kv_err *e)
{
    int64_t n = values->n;
    own_mem request_pair *r = NULL, *ro = NULL;
    own_mem bool *overwritten = NULL;
    own_request *rq = NULL;
    TRY(request_sort(w, numbers, n, &r, e));
    TRY(request_sort(w, onumbers, outs->n, &ro, e));
    TRY(request_find_overwritten(onumbers, outs, &overwritten, e));
    TRY(request_new(&rq, w, numbers, r, n, n + outs->n, outs->n, how, e));
    if (broadcasts && rq->nitems < n)
        return kv_err_set(e, KV_E_KEY, "a key stands twice in the call");
    TRY(request_sum_values(rq, values, r, e));
    TRY(give_outs(rq, outs, onumbers, overwritten, ro, e));
    rq->name = "pushpull";
    rq->step = send_add;
    request_lay_out(rq);
    rq->sums = true;
    rq->broadcasts = broadcasts;
    int shared = KV_OK;
    if (outs != values || overwritten) /* in place, each value is an out of its own key alone */
        shared = copy_shared(rq, e);
    if (shared) {
        rq->nouts = 0; /* they are not referenced yet */
        return shared;
    }
    commit(rq);
    rq = NULL;
    return KV_OK;
}

/* The slots of the outs, which are the slots of the values. */
static int find_outs(const worker *w, const kv_pairs *outs, int64_t *onumbers, kv_err *e)
{
    const slot_table *t = &w->store->slots;
    int64_t guess = 0;
    for (int64_t i = 0; i < outs->n; i++) {
        onumbers[i] = slot_find(t, &outs->keys[i], guess);
        guess = onumbers[i] + 1;
        TRY(onumbers[i] < 0
                ? no_value(&outs->keys[i], e)
                : call_check_shape(&t->items[onumbers[i]], outs->arrays[i], "array", e));
    }
    return KV_OK;
}

static int run_call(worker *w, const kv_pairs *values, const kv_pairs *outs, bool broadcasts,
                    const kv_call *how, kv_err *e)
{
    if (alive_is_lost(e))
        return KV_E_PEER;
    TRY(check_dense(w, values, e));
    TRY(check_dense(w, outs, e));
    own_mem int64_t *numbers = mem_alloc(values->n, sizeof *numbers, e);
    own_mem int64_t *onumbers = mem_alloc(outs->n, sizeof *onumbers, e);
    TRY(numbers && onumbers ? KV_OK : KV_E_MEMORY);
    TRY(worker_find(w, values, true, numbers, e));
    TRY(check_values(w, values, numbers, e));
    TRY(find_outs(w, outs, onumbers, e));
    TRY(make_request(w, values, numbers, outs, onumbers, broadcasts, how, e));
    w->store->changes++;
    return KV_OK;
}

int worker_pushpull(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                    kv_err *e)
{
    return run_call(self, values, outs, false, how, e);
}

int worker_broadcast(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                     kv_err *e)
{
    return run_call(self, values, outs, true, how, e);
}
