/* Pulls: what is asked for, and what comes of compressed sums. */
#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "core/call.h"
#include "distributed/request.h"

enum { PULLED_TOGETHER = 1 << 20 /* bytes, about, of one request */ };

/* ---- Asking and receiving ---- */

net_step request_pull_step(const send_queue *q, const request_item *c, const chunk *p)
{
    const request *rq = q->request;
    link_rec *r = net_reserve(q->item.peer, 0);
    if (!r)
        return NET_FULL;
    *r = (link_rec){.kind = LINK_PULL,
                    .store = (uint16_t)rq->w->number,
                    .part = c->place.first + p->part,
                    .request = rq->token,
                    .pull = {.round = c->round, .chunk = p - rq->chunks, .priority = rq->priority}};
    net_commit(q->item.peer);
    return NET_ENDED;
}

/* Codes of n elements of a chunk, from one on, for the outs in host memory. */
static void read_codes(const request *rq, const chunk *p, int64_t from, const push_codes *how,
                       const char *codes, int64_t n)
{
    enum { SOME = 2048 }; /* a multiple of 8, so that codes begin at bytes */
    float some[SOME];
    for (int64_t at = 0; at < n; at += SOME) {
        int64_t m = n - at < SOME ? n - at : SOME;
        cpu_dev_ops.dequantise(some, codes + at / 8 * how->code, (dev_code)how->code,
                               how->threshold, m);
        request_value_here(rq, p, (from + at) * (int64_t)sizeof *some, some,
                           m * (int64_t)sizeof *some);
    }
}

/* The codes of a chunk. */
void request_pull_codes(request *rq, const chunk *p, const link_rec *r)
{
    push_codes how;
    kv_err e = {0};
    const request_item *c = &rq->items[p->item];
    int64_t at = (place_from(&c->place, p->part) + r->value.element) * (int64_t)sizeof(float);
    memcpy(&how, r + 1, sizeof how);
    const char *codes = (const char *)(r + 1) + sizeof how;
    if (request_has_outs_here(rq, c))
        read_codes(rq, p, r->value.element, &how, codes, r->value.elements);
    if (request_write_codes(rq, c, at, &how, codes, r->value.elements, &e))
        request_fail(rq, p, &e);
}

/* ---- Calls ---- */

/* One request for some pairs of a call. */
static int make_pull(request **out, worker *w, const int64_t *numbers, const request_pair *r,
                     int64_t n, kv_array *const *outs, const kv_call *how, kv_err *e)
{
    request *rq = NULL;
    int rc = request_new(&rq, w, numbers, r, n, n, how, e);
    if (rc)
        return rc;
    rq->pulls = true;
    rq->outs = mem_alloc(n, sizeof *rq->outs, e);
    rc = rq->outs ? request_lay_out(rq, e) : KV_E_MEMORY;
    if (rc) {
        request_free(rq);
        return rc;
    }
    for (int64_t i = 0; i < n; i++) {
        rq->outs[rq->nouts++] = outs[r[i].i];
        array_hold(outs[r[i].i]);
        rq->uses[i] = (engine_use){.var = array_var(outs[r[i].i]), .write = true};
    }
    rq->op.nuses = n;
    *out = rq;
    return KV_OK;
}

/* How many of the pairs go together: those of whole keys, and few bytes, so that what is pulled
 * into the values of a push begins to come while the push is still being sent. */
static int64_t pull_together(const worker *w, const int64_t *numbers, const request_pair *r,
                             int64_t n)
{
    int64_t i = 0;
    for (int64_t bytes = 0; i < n; i++) {
        const kv_array *a = w->store->slots.items[numbers[r[i].i]].stored;
        bool same = i > 0 && numbers[r[i].i] == numbers[r[i - 1].i];
        if (!same && bytes >= PULLED_TOGETHER)
            break;
        bytes += same ? 0 : a->size * kv_dtype_bytes((kv_dtype)a->dtype);
    }
    return i;
}

static void commit_pull(request *rq)
{
    worker *w = rq->w;
    request_backpressure(rq);
    for (int64_t i = 0; i < rq->nitems; i++) {
        worker_key *k = &w->keys[rq->items[i].slot];
        rq->items[i].round = k->pushes;
        k->pulls += 1;
    }
    request_submit(rq, &w->store->calls.group);
}

static int pull_found(worker *w, const int64_t *numbers, int64_t n, kv_array *const *outs,
                      const kv_call *how, kv_err *e)
{
    request **list = NULL;
    request_pair *r = NULL;
    int64_t nlist = 0, cap = 0;
    int rc = request_sort(w, numbers, n, &r, e);
    for (int64_t at = 0, some; at < n && !rc; at += some) {
        some = pull_together(w, numbers, r + at, n - at);
        rc = mem_grow(&list, &cap, nlist + 1, sizeof *list, e);
        if (!rc && (rc = make_pull(&list[nlist], w, numbers, r + at, some, outs, how, e)) == KV_OK)
            nlist++;
    }
    for (int64_t i = 0; i < nlist; i++)
        rc ? request_free(list[i]) : commit_pull(list[i]);
    mem_free(list);
    mem_free(r);
    return rc;
}

int request_pull(worker *w, const kv_key *keys, int64_t n, kv_array *const *outs,
                 const kv_call *how, kv_err *e)
{
    if (net_is_lost(e))
        return KV_E_PEER;
    int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    int rc = numbers ? worker_find(w, keys, n, NULL, numbers, e) : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++)
        rc = call_check_shape(&w->store->slots.items[numbers[i]], outs[i], "array", e);
    if (!rc)
        rc = pull_found(w, numbers, n, outs, how, e);
    mem_free(numbers);
    return rc;
}
