/* Pulls: requests that ask for parts, and write them as they come. */
#include "array/device.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/call.h"
#include "distributed/backpressure.h"
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
    link_rec *r = net_reserve_by(&q->item, 0, true);
    if (!r)
        return NET_FULL;
    *r = (link_rec){.kind = LINK_PULL,
                    .store = (uint16_t)rq->w->number,
                    .part = c->place.first + p->part,
                    .flags = rq->changes ? LINK_CHANGES : 0,
                    .request = rq->token,
                    .pull = {.round = c->round, .chunk = p - rq->chunks, .priority = rq->priority,
                             .state = rq->state, .since = c->since}};
    net_commit(q->item.peer);
    return request_next_chunk(q);
}

/* ---- Calls ---- */

/* The outs of a call. */
typedef struct pull_outs {
    const kv_pairs *pairs;
    const int64_t *numbers; /* the slots of the pairs */
    bool *overwritten;      /* see request_find_overwritten */
} pull_outs;

/* The rounds of a pull of changes, before and after it. */
typedef struct pull_rounds {
    const int64_t *since; /* by pair of the call: the round that the out holds; -1: none */
    int64_t *told;        /* by slot: becomes the round of the value that came */
    int64_t *bytes_came;  /* NULL, or counts them */
} pull_rounds;

/* Asks for the changes behind the oldest round among the outs of a key, and writes them into all of
 * these. Arrays on GPUs are pulled whole. */
static void add_rounds(request *rq, const request_pair *r, const pull_rounds *x)
{
    rq->changes = !request_has_gpus(rq);
    rq->bytes_came = x->bytes_came;
    for (int64_t i = 0; i < rq->nitems; i++) {
        request_item *c = &rq->items[i];
        c->told = &x->told[c->slot];
        c->since = INT64_MAX;
        for (int64_t j = c->first; j < c->first + c->n; j++)
            c->since = x->since[r[j].i] < c->since ? x->since[r[j].i] : c->since;
    }
}

/* Gives an item the form of the state that it pulls: its dtype, and where that has an element for
 * each row, parts of as many elements as there are rows. */
static void take_form(request_item *c, const kv_array *out)
{
    place *p = &c->place;
    bool by_row = out->size < p->size;
    c->dtype = (kv_dtype)out->dtype;
    kv_assert(!by_row || p->nparts == 1 || p->row > 0, "a part cuts a row, which has a state");
    if (!by_row)
        return;
    p->step = p->nparts > 1 && p->row > 0 ? p->step / p->row : out->size;
    p->size = out->size;
    p->row = 1;
}

static void commit_pull(request *rq)
{
    worker *w = rq->w;
    for (int64_t i = 0; i < rq->nitems; i++) {
        worker_key *k = &w->keys[rq->items[i].slot];
        rq->items[i].round = rq->state ? 0 : k->pushes;
        k->pulls += 1;
    }
    request_submit(rq, &w->store->calls.group);
}

/* Sorts the pairs of default arrays that are not overwritten; row_sparse ones stay as they are. */
static int sort_default(const worker *w, const pull_outs *x, request_pair **r, int64_t *n,
                        kv_err *e)
{
    int rc = request_sort(w, x->numbers, x->pairs->n, r, e);
    *n = 0;
    for (int64_t i = 0; i < x->pairs->n && !rc; i++) {
        int64_t at = (*r)[i].i;
        bool overwritten = x->overwritten && x->overwritten[at];
        if (x->pairs->arrays[at]->storage == KV_DEFAULT && !overwritten)
            (*r)[(*n)++] = (*r)[i];
    }
    return rc;
}

/* A request takes keys of few bytes, so that the elements that are pulled into the values of a push
 * begin to come while the push is still being sent. rounds: NULL, or of a pull of changes. state:
 * as in a request. */
static int pull_found(worker *w, const pull_outs *x, const pull_rounds *rounds, int32_t state,
                      const kv_call *how, kv_err *e)
{
    request_list l = {0};
    request_pair *r = NULL;
    int64_t n;
    int rc = sort_default(w, x, &r, &n, e);
    if (!rc)
        rc = request_reserve(&l, w, x->numbers, r, n, PULLED_TOGETHER, e);
    if (!rc)
        backpressure_wait(w, 0);
    for (request *rq; !rc && (rq = request_next(&l, how));) {
        rq->pulls = true;
        rq->name = "pull";
        rq->step = send_pull;
        request_lay_out(rq);
        for (int64_t i = 0; i < rq->npairs; i++) {
            kv_array *out = x->pairs->arrays[l.from[i].i];
            rq->outs[rq->nouts++] = out;
            array_hold(out);
            rq->uses[i] = (engine_use){.var = array_var(out), .write = true};
        }
        rq->op.nuses = rq->npairs;
        if (rounds)
            add_rounds(rq, l.from, rounds);
        rq->state = state;
        for (int64_t i = 0; state && i < rq->nitems; i++)
            take_form(&rq->items[i], rq->outs[rq->items[i].first]);
        commit_pull(rq);
    }
    if (!rc)
        request_release_list(&l);
    mem_free(r);
    return rc;
}

static void release_outs(const pull_outs *x)
{
    mem_free((int64_t *)x->numbers);
    mem_free(x->overwritten);
}

/* To be released also after an error. */
static int find_outs(worker *w, const kv_pairs *outs, pull_outs *x, kv_err *e)
{
    *x = (pull_outs){.pairs = outs};
    if (alive_is_lost(e))
        return KV_E_PEER;
    int64_t *numbers = mem_alloc(outs->n, sizeof *numbers, e);
    x->numbers = numbers;
    int rc = numbers ? worker_find(w, outs, false, numbers, e) : KV_E_MEMORY;
    for (int64_t i = 0; i < outs->n && !rc; i++)
        rc = call_check_shape(&w->store->slots.items[numbers[i]], outs->arrays[i], "array", e);
    return rc ? rc : request_find_overwritten(numbers, outs, &x->overwritten, e);
}

int request_pull(worker *w, const kv_pairs *outs, const kv_call *how, kv_err *e)
{
    pull_outs x;
    int rc = find_outs(w, outs, &x, e);
    if (!rc)
        rc = pull_found(w, &x, NULL, 0, how, e);
    release_outs(&x);
    return rc;
}

int request_pull_states(worker *w, const int64_t *slots, kv_array *const *outs, int64_t n,
                        int state, kv_err *e)
{
    const kv_pairs pairs = {.arrays = outs, .n = n};
    if (alive_is_lost(e))
        return KV_E_PEER;
    return pull_found(w, &(pull_outs){.pairs = &pairs, .numbers = slots}, NULL, state, NULL, e);
}

/* ---- Changes ---- */

/* Without rounds of all workers, and where this one takes no part in them any more, it does not
 * know how far a key is; there a round that the key has not reached brings the whole array. */
static int check_rounds(const worker *w, const int64_t *numbers, const kv_pairs *outs,
                        const int64_t *rounds, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < outs->n && !rc && !w->how.is_async && !w->done; i++)
        rc = call_check_round(&w->store->slots.items[numbers[i]], rounds[i], e);
    return rc;
}

/* An array that a failed pull has left holds no round. */
static void drop_unfilled(const kv_pairs *outs, int64_t *since)
{
    for (int64_t i = 0; i < outs->n; i++) {
        engine_wait_read(array_var(outs->arrays[i]));
        if (outs->arrays[i]->unfilled)
            since[i] = -1;
    }
}

static int wait_for_outs(const worker *w, const kv_pairs *outs, kv_err *e)
{
    bool failed = false;
    for (int64_t i = 0; i < outs->n; i++) {
        engine_wait_read(array_var(outs->arrays[i]));
        failed |= outs->arrays[i]->unfilled;
    }
    if (!failed)
        return KV_OK;
    int rc = engine_take_error(&w->store->calls.group, e);
    return rc ? rc : kv_err_set(e, KV_E_PEER, "what these arrays wait for did not come");
}

int request_pull_since(worker *w, const kv_pairs *outs, int64_t *rounds, int64_t *moved,
                       const kv_call *how, kv_err *e)
{
    int64_t n = outs->n;
    pull_outs x;
    int rc = find_outs(w, outs, &x, e);
    int64_t *since = rc ? NULL : mem_alloc(n, sizeof *since, e);
    int64_t *told = since ? mem_alloc(w->store->slots.n, sizeof *told, e) : NULL;
    if (!rc)
        rc = told ? check_rounds(w, x.numbers, outs, rounds, e) : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        since[i] = rounds[i];
        told[x.numbers[i]] = INT64_MAX;
    }
    if (!rc) {
        drop_unfilled(outs, since);
        rc = pull_found(w, &x, &(pull_rounds){since, told, moved}, 0, how, e);
    }
    if (!rc)
        rc = wait_for_outs(w, outs, e);
    for (int64_t i = 0; i < n && !rc; i++)
        rounds[i] = x.overwritten && x.overwritten[i] ? KV_NO_ROUND : told[x.numbers[i]];
    mem_free(told);
    mem_free(since);
    release_outs(&x);
    return rc;
}

int worker_pull_since(void *self, const kv_pairs *outs, int64_t *rounds, int64_t *moved,
                      const kv_call *how, kv_err *e)
{
    return request_pull_since(self, outs, rounds, moved, how, e);
}

/* ---- Arrays of rows ---- */

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
            rc = kv_array_new_raw(&dense[i], out->dtype, out->ndim, array_shape(out), out->ctx, e);
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
