/* Pushes: requests that send values, and the host side of the updates that servers make of them.
 */
#include <string.h>

#include "array/device.h"
#include "array/mirror.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/call.h"
#include "distributed/request.h"
#include "distributed/states.h"
#include "distributed/worker.h"

enum { PUSHED_TOGETHER = 1 << 20 /* bytes, about, of one request */ };

/* ---- Sending ---- */

/* A record waits for the last of its elements that are still copied from a GPU. */
static net_step send_push(net_item *i)
{
    send_queue *q = (send_queue *)(void *)i;
    request *rq = q->request;
    const chunk *p = &rq->chunks[q->at];
    request_item *c = &rq->items[p->item];
    push_codes how = rq->codes;
    int64_t each = kv_dtype_bytes(c->dtype), first = place_from(&c->place, p->part);
    int64_t here = __atomic_load_n(&c->here, __ATOMIC_ACQUIRE);
    elements_out x = {.all = place_count(&c->place, p->part), .host_bytes = c->host_bytes};
    x.host = c->host_bytes ? rq->host.data + c->host : NULL;
    if (here < 0) {
        rq->waiting = 0; /* the servers cannot complete this round, so they report no end of it */
        return request_next_chunk(q);
    }
    if (how.code) {
        how.back = how.back && c->anew ? BACK_ANEW : how.back;
        x.code = &how;
        x.data = (c->staged ? c->staged : c->blob) + first / 8 * how.code;
    } else if (c->blob) {
        x.all = c->starts[p->part + 1] - c->starts[p->part];
        x.data = c->blob + c->starts[p->part];
    } else {
        x.all *= each;
        x.data = request_elements(c) + first * each;
        if (here < first * each + q->offset + elements_next(&x, q->offset))
            return NET_FULL; /* its queue is tried again when more have come */
    }
    const link_rec head = {.kind = LINK_PUSH,
                           .flags = c->blob && !how.code ? LINK_SPARSE : 0,
                           .store = (uint16_t)rq->w->number,
                           .part = (int32_t)(c->place.first + p->part),
                           .request = rq->token,
                           .n = x.all,
                           .round = c->round,
                           .pulls = c->before};
    net_step step = elements_send(&q->item, &head, &x, &q->offset);
    return step == NET_ENDED ? request_next_chunk(q) : step;
}

static int encode(request *rq, request_item *c, kv_err *e)
{
    enum { WORD = 4 };
    quantise_code code = (quantise_code)rq->codes.code;
    if (code) {
        c->blob_bytes = quantise_bytes(code, c->place.size);
        if (c->staged)
            return KV_OK;
        TRY(mirror_host(c->residual, MIRROR_CHANGE, e));
        /* a part may begin within a word: then its last word ends behind that of the key */
        c->blob = mem_alloc(c->blob_bytes + WORD, 1, e);
        if (!c->blob)
            return KV_E_MEMORY;
        memset(c->blob + c->blob_bytes, 0, WORD);
        quantise_encode(c->blob, c->residual->data, c->source->data, code, rq->codes.threshold,
                        c->place.size);
        return KV_OK;
    }
    if (c->source->storage != KV_ROW_SPARSE)
        return KV_OK;
    /* Every part gets a list of rows, even an empty one, because a round waits for every part. */
    const place *p = &c->place;
    buf rows = {0};
    c->starts = mem_zalloc(p->nparts + 1, sizeof *c->starts, e);
    if (!c->starts)
        return KV_E_MEMORY;
    for (int32_t i = 0; i < p->nparts; i++) {
        ask_put_rows(&rows, c->source, place_first_row(p, i), place_first_row(p, i + 1));
        c->starts[i + 1] = (int64_t)rows.len;
    }
    c->blob = rows.data;
    c->blob_bytes = (int64_t)rows.len;
    return buf_check(&rows, e);
}

/* ---- Calls ---- */

/* Returns true if this rank runs the host side of the updater that runs on the servers. */
static bool has_host_steps(const worker *w)
{
    return w->store->updater.kind == UPDATER_RULE && !w->how.is_async;
}

/* Runs the host side of every update here; the servers use its numbers. */
static int run_host(request *rq, optimizer_draft *d, optimizer_step *steps, kv_err *e)
{
    optimizer *o = rq->w->store->updater.optimizer;
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        rule_given host_step;
        host numbers[PLAN_MAX_STATES] = {{0}};
        const slot *s = &rq->w->store->slots.items[c->slot];
        int64_t n = o->nstates;
        TRY(optimizer_follow(o, d, s, c->source->storage == KV_ROW_SPARSE, &steps[i], &host_step,
                             numbers, e));
        c->host = (int64_t)rq->host.len;
        buf_put(&rq->host, (const char *)&host_step, sizeof host_step);
        buf_put(&rq->host, (const char *)&n, sizeof n);
        buf_put(&rq->host, (const char *)numbers, (size_t)n * sizeof *numbers);
        c->host_bytes = (int64_t)rq->host.len - c->host;
    }
    return buf_check(&rq->host, e);
}

/* The residual of a key, which moves to the GPU that its source is on. */
static int find_residual(request_item *c, slot *s, kv_err *e)
{
    bool away = mirror_has(c->source);
    kv_ctx ctx = away ? c->source->ctx : (kv_ctx){KV_CPU, 0};
    TRY(rank_residuals_find(s, ctx, &c->residual, &c->anew, e));
    if (!away || mirror_gpu(c->residual) == mirror_gpu(c->source))
        return KV_OK;
    return kv_array_new_raw(&c->moved, KV_FLOAT32, c->residual->ndim, array_shape(c->residual), ctx,
                            e);
}

/* Nothing fails from here on. */
static void commit_push(request *rq, const optimizer_draft *d, optimizer_step *steps)
{
    worker *w = rq->w;
    optimizer *o = steps ? w->store->updater.optimizer : NULL;
    rq->op.nuses = rq->nitems * (rq->codes.code ? 2 : 1);
    kv_assert(!steps || w->store->updater.kind == UPDATER_RULE,
              "%lld keys have the steps of a rule, and the updater is of kind %d",
              (long long)rq->nitems, (int)w->store->updater.kind);
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        worker_key *k = &w->keys[c->slot];
        slot *s = &w->store->slots.items[c->slot];
        c->round = ++k->pushes;
        c->before = k->pulls;
        s->pushes++;
        c->use = &rq->uses[i];
        *c->use = (engine_use){.var = array_var(c->source)};
        if (c->residual) {
            /* The residual is used as well, behind the sources of the request. One that moves to
             * another context also uses the old one, from which it begins. */
            if (c->moved) {
                c->old = rank_residuals_replace(s, c->moved);
                c->residual = c->moved;
                c->moved = NULL;
                rq->uses[rq->op.nuses++] = (engine_use){.var = array_var(c->old)};
            }
            rq->uses[rq->nitems + i] = (engine_use){.var = array_var(c->residual), .write = true};
        }
        if (o)
            optimizer_commit_step(o, &steps[i], s);
    }
    if (o)
        optimizer_commit(o, d);
    w->store->changes++;
}

/* *plain becomes true if all values can be sent from host memory as they are. */
static int check_push(worker *w, const kv_pairs *values, int64_t *numbers, bool *plain, kv_err *e)
{
    *plain = !w->store->compression.code;
    if (w->done)
        return kv_err_set(e, KV_E_VALUE, "this worker is done: it pushes no more");
    bool makes = w->store->updater.kind == UPDATER_ASSIGN && (!w->how.is_async || w->how.sums);
    if (w->how.is_async && w->store->updater.kind == UPDATER_ASSIGN) {
        kv_err_set(e, KV_E_VALUE, "a push to a store of type \"%s\" needs an optimizer",
                   kv_type(w->store));
        return kv_err_hint(e, "kv_set_optimizer sets one"), KV_E_VALUE;
    }
    TRY(worker_find(w, values, makes, numbers, e));
    for (int64_t i = 0; i < values->n; i++) {
        if (i + CALL_AHEAD < values->n)
            call_prefetch(values->arrays[i + CALL_AHEAD]);
        const slot *s = &w->store->slots.items[numbers[i]];
        const kv_array *a = values->arrays[i];
        TRY(call_check_shape(s, a, "value", e));
        if (w->store->compression.code) { /* another rank may have made the key without codes */
            TRY(compression_check(&s->key, a, e));
            TRY(compression_check(&s->key, s->stored, e));
        }
        *plain &= a->storage == KV_DEFAULT && (kv_dtype)a->dtype == w->keys[numbers[i]].dtype &&
                  s->stored->storage == KV_DEFAULT && !mirror_has(a);
    }
    return KV_OK;
}

/* Makes one request of all pairs, ready to be submitted: for values that are coded or summed first,
 * or whose updater has a host step for each. */
static int make_whole(request **out, worker *w, const kv_pairs *values, const int64_t *numbers,
                      const request_pair *r, const kv_call *how, kv_err *e)
{
    request *rq = NULL;
    optimizer_step *steps = NULL;
    optimizer_draft d;
    int64_t n = values->n;
    int rc = request_new(&rq, w, numbers, r, n, 3 * n, 0, how, e);
    if (!rc)
        rc = request_sum_values(rq, values, r, e);
    if (!rc && has_host_steps(w)) {
        steps = mem_zalloc(rq->nitems, sizeof *steps, e);
        optimizer_begin(w->store->updater.optimizer, &d);
        rc = steps ? run_host(rq, &d, steps, e) : KV_E_MEMORY;
    }
    if (!rc) {
        const compression *z = &w->store->compression;
        rq->codes =
            (push_codes){(int16_t)z->code, z->pull ? BACK_CODES : BACK_NUMBERS, z->threshold};
        for (int64_t i = 0; i < rq->nitems && rq->codes.code && !rc; i++) {
            request_item *c = &rq->items[i];
            rc = find_residual(c, &w->store->slots.items[c->slot], e);
        }
    }
    if (!rc) {
        rq->name = "push";
        rq->step = send_push;
        rq->encode = encode;
        request_lay_out(rq);
        int64_t bytes = request_bytes(rq);
        backpressure_wait(w, bytes);
        request_count_bytes(rq, bytes);
        commit_push(rq, &d, steps);
    }
    for (int64_t i = 0; steps && i < rq->nitems; i++)
        optimizer_release_step(&steps[i]);
    mem_free(steps);
    if (rc && rq)
        request_free(rq);
    *out = rc ? NULL : rq;
    return rc;
}

/* Reserves requests of arrays that are sent as they are. The worker waits for its turn once, as for
 * one request. */
static int begin_plain(request_list *l, worker *w, const int64_t *numbers, const request_pair *r,
                       int64_t n, kv_err *e)
{
    int64_t bytes = 0;
    TRY(request_reserve(l, w, numbers, r, n, n > REQUEST_PAIRS ? PUSHED_TOGETHER : INT64_MAX, e));
    for (int64_t i = 0; i < n; i++)
        bytes += w->keys[numbers[i]].place.size * kv_dtype_bytes(w->keys[numbers[i]].dtype);
    backpressure_wait(w, bytes);
    return KV_OK;
}

/* Makes the next request of the list, which is ready to be submitted; NULL: there is none. */
static request *next_plain(request_list *l, const kv_pairs *values, const kv_call *how)
{
    request *rq = request_next(l, how);
    if (!rq)
        return NULL;
    rq->plain = true;
    rq->name = "push";
    rq->step = send_push;
    for (int64_t i = 0; i < rq->nitems; i++) {
        rq->items[i].source = values->arrays[l->from[i].i];
        rq->items[i].held = true;
        array_hold(rq->items[i].source);
    }
    request_lay_out(rq);
    request_count_bytes(rq, request_bytes(rq));
    commit_push(rq, NULL, NULL);
    return rq;
}

int worker_push(void *self, const kv_pairs *values, const kv_call *how, kv_err *e)
{
    worker *w = self;
    own_request_list l = {0};
    own_mem request_pair *r = NULL;
    request *rq = NULL;
    bool plain = false;
    if (alive_is_lost(e))
        return KV_E_PEER;
    int64_t n = values->n;
    own_mem int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    TRY(numbers ? check_push(w, values, numbers, &plain, e) : KV_E_MEMORY);
    newcomer_push(w);
    TRY(job_checkpoint_push(w, numbers, n, e));
    TRY(grow_push(w, numbers, n, e));
    TRY(request_sort(w, numbers, n, &r, e));
    plain &= !has_host_steps(w);
    for (int64_t i = 1; i < n && plain; i++) /* no key may stand twice */
        plain = numbers[r[i].i] != numbers[r[i - 1].i];
    TRY(plain ? begin_plain(&l, w, numbers, r, n, e)
              : make_whole(&rq, w, values, numbers, r, how, e));
    while (rq || (rq = next_plain(&l, values, how))) {
        request_submit(rq, &w->store->calls.group);
        rq = NULL;
    }
    return KV_OK;
}
