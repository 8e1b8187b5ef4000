/* Pulls: requests that ask for parts, and write them as they come. */
#include "array/device.h"
#include "base/mem.h"
#include "core/call.h"
#include "distributed/request.h"
#include "distributed/types.h"
#include "distributed/worker_keys.h"

enum { PULLED_TOGETHER = 1 << 20 /* bytes, about, of one request */ };

static net_step send_pull(net_item *i)
{
    send_queue *q = (send_queue *)(void *)i;
    const request *rq = q->request;
    const chunk *p = &rq->chunks[q->at];
    const request_item *c = &rq->items[p->item];
    link_rec *r = net_reserve(q->item.peer, 0);
    if (!r)
        return NET_FULL;
    *r = (link_rec){.kind = LINK_PULL,
                    .store = (uint16_t)rq->w->number,
                    .part = c->place.first + p->part,
                    .request = rq->token,
                    .pull = {.round = c->round, .chunk = p - rq->chunks, .priority = rq->priority}};
    net_commit(q->item.peer);
    return request_next_chunk(q);
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
    rq->name = "pull";
    rq->step = send_pull;
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

/* The number of pairs that go in one request: whole keys of few bytes, so that the elements that
 * are pulled into the values of a push begin to come while the push is still being sent. */
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

static int pull_found(worker *w, const int64_t *numbers, const kv_pairs *outs, const kv_call *how,
                      kv_err *e)
{
    request **list = NULL;
    request_pair *r = NULL;
    int64_t nlist = 0, cap = 0, n = 0;
    int rc = request_sort(w, numbers, outs->n, &r, e);
    for (int64_t i = 0; i < outs->n && !rc; i++) /* row_sparse ones stay as they are */
        if (outs->arrays[r[i].i]->storage == KV_DEFAULT)
            r[n++] = r[i];
    for (int64_t at = 0, some; at < n && !rc; at += some) {
        some = pull_together(w, numbers, r + at, n - at);
        rc = mem_grow(&list, &cap, nlist + 1, sizeof *list, e);
        if (!rc)
            rc = make_pull(&list[nlist], w, numbers, r + at, some, outs->arrays, how, e);
        nlist += rc == KV_OK;
    }
    for (int64_t i = 0; i < nlist; i++)
        rc ? request_free(list[i]) : commit_pull(list[i]);
    mem_free(list);
    mem_free(r);
    return rc;
}

int request_pull(worker *w, const kv_pairs *outs, const kv_call *how, kv_err *e)
{
    if (alive_is_lost(e))
        return KV_E_PEER;
    int64_t *numbers = mem_alloc(outs->n, sizeof *numbers, e);
    int rc = numbers ? worker_find(w, outs, false, numbers, e) : KV_E_MEMORY;
    for (int64_t i = 0; i < outs->n && !rc; i++)
        rc = call_check_shape(&w->store->slots.items[numbers[i]], outs->arrays[i], "array", e);
    if (!rc)
        rc = pull_found(w, numbers, outs, how, e);
    mem_free(numbers);
    return rc;
}

/* Arrays that are filled by rows are pulled as dense ones first. */
static int pull_filled(worker *w, const kv_pairs *outs, const kv_call *how, kv_err *e)
{
    int64_t n = outs->n;
    kv_array **dense = mem_zalloc(n, sizeof *dense, e);
    int rc = dense ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        kv_array *out = outs->arrays[i];
        if (out->storage == KV_DEFAULT)
            dense[i] = kv_array_ref(out);
        else
            rc = kv_array_new_raw(&dense[i], out->dtype, out->ndim, out->shape, out->ctx, e);
    }
    if (!rc)
        rc = request_pull(w, &(kv_pairs){outs->keys, dense, n}, how, e);
    for (int64_t i = 0; i < n && !rc; i++)
        if (outs->arrays[i]->storage != KV_DEFAULT)
            rc = kv_array_copy(outs->arrays[i], dense[i], e);
    for (int64_t i = 0; dense && i < n; i++)
        kv_array_unref(dense[i]);
    mem_free(dense);
    return rc;
}

int worker_pull(void *self, const kv_pairs *outs, const kv_call *how, kv_err *e)
{
    bool fills = false;
    for (int64_t i = 0; how && how->flags & KV_FILL_SPARSE && i < outs->n && !fills; i++)
        fills = outs->arrays[i]->storage != KV_DEFAULT;
    return fills ? pull_filled(self, outs, how, e) : request_pull(self, outs, how, e);
}
