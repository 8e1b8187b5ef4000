/* Pulls: requests that ask for parts, and write them as they come; and pulls of some rows, for
 * which each part of a key is asked for its own. */
#include "distributed/request.h"

#include <string.h>

#include "array/device.h"
#include "array/sparse.h"
#include "base/kv_assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/call.h"
#include "distributed/server_ranks.h"
#include "distributed/worker.h"

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
                    .flags = rq->changes ? LINK_CHANGES : 0,
                    .store = (uint16_t)rq->w->number,
                    .part = (int32_t)(c->place.first + p->part),
                    .chunk = (int32_t)(p - rq->chunks),
                    .request = rq->token,
                    .from = c->since,
                    .round = c->round,
                    .priority = rq->priority,
                    .state = (uint8_t)rq->state};
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

/* A request takes keys of few bytes, so that the elements that are pulled into the values of a push
 * begin to come while the push is still being sent. rounds: NULL, or of a pull of changes. state:
 * as in a request. */
static int pull_found(worker *w, const pull_outs *x, const pull_rounds *rounds, int32_t state,
                      const kv_call *how, kv_err *e)
{
    own_request_list l = {0};
    own_mem request_pair *r = NULL;
    int64_t n = 0; /* pairs of default arrays that are not overwritten; row_sparse ones stay */
    TRY(request_sort(w, x->numbers, x->pairs->n, &r, e));
    for (int64_t i = 0; i < x->pairs->n; i++) {
        int64_t at = r[i].i;
        bool overwritten = x->overwritten && x->overwritten[at];
        if (x->pairs->arrays[at]->storage == KV_DEFAULT && !overwritten)
            r[n++] = r[i];
    }
    TRY(request_reserve(&l, w, x->numbers, r, n, PULLED_TOGETHER, e));
    backpressure_wait(w, 0);
    for (request *rq; (rq = request_next(&l, how));) {
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
        for (int64_t i = 0; i < rq->nitems; i++) {
            worker_key *k = &w->keys[rq->items[i].slot];
            rq->items[i].round = rq->state ? 0 : k->pushes;
            k->pulls += 1;
        }
        request_submit(rq, &w->store->calls.group);
    }
    return KV_OK;
}

static void release_outs(pull_outs *x)
{
    mem_free((int64_t *)x->numbers);
    mem_free(x->overwritten);
}
#define own_pull_outs OWN(release_outs) pull_outs

/* To be released also after an error. */
static int find_outs(worker *w, const kv_pairs *outs, pull_outs *x, kv_err *e)
{
    *x = (pull_outs){.pairs = outs};
    if (alive_is_lost(e))
        return KV_E_PEER;
    int64_t *numbers = mem_alloc(outs->n, sizeof *numbers, e);
    x->numbers = numbers;
    TRY(numbers ? worker_find(w, outs, false, numbers, e) : KV_E_MEMORY);
    for (int64_t i = 0; i < outs->n; i++)
        TRY(call_check_shape(&w->store->slots.items[numbers[i]], outs->arrays[i], "array", e));
    return request_find_overwritten(numbers, outs, &x->overwritten, e);
}

int request_pull(worker *w, const kv_pairs *outs, const kv_call *how, kv_err *e)
{
    own_pull_outs x = {0};
    TRY(find_outs(w, outs, &x, e));
    return pull_found(w, &x, NULL, 0, how, e);
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

static int wait_for_outs(const worker *w, const kv_pairs *outs, kv_err *e)
{
    bool failed = false;
    for (int64_t i = 0; i < outs->n; i++) {
        engine_wait_read(array_var(outs->arrays[i]));
        failed |= outs->arrays[i]->unfilled;
    }
    if (!failed)
        return KV_OK;
    TRY(engine_take_error(&w->store->calls.group, e));
    return kv_err_set(e, KV_E_PEER, "what these arrays wait for did not come");
}

int worker_pull_since(void *self, const kv_pairs *outs, int64_t *rounds, int64_t *moved,
                      const kv_call *how, kv_err *e)
{
    worker *w = self;
    int64_t n = outs->n;
    own_pull_outs x = {0};
    TRY(find_outs(w, outs, &x, e));
    own_mem int64_t *since = mem_alloc(n, sizeof *since, e);
    own_mem int64_t *told = since ? mem_alloc(w->store->slots.n, sizeof *told, e) : NULL;
    if (!told)
        return KV_E_MEMORY;
    /* Without rounds of all workers, and where this one takes no part in them any more, it does not
     * know how far a key is; there a round that the key has not reached brings the whole array. */
    for (int64_t i = 0; i < n && !w->how.is_async && !w->done; i++)
        TRY(call_check_round(&w->store->slots.items[x.numbers[i]], rounds[i], e));
    for (int64_t i = 0; i < n; i++) {
        since[i] = rounds[i];
        told[x.numbers[i]] = INT64_MAX;
    }
    /* An array that a failed pull has left holds no round. */
    for (int64_t i = 0; i < outs->n; i++) {
        engine_wait_read(array_var(outs->arrays[i]));
        if (outs->arrays[i]->unfilled)
            since[i] = -1;
    }
    TRY(pull_found(w, &x, &(pull_rounds){since, told, moved}, 0, how, e));
    TRY(wait_for_outs(w, outs, e));
    for (int64_t i = 0; i < n; i++)
        rounds[i] = x.overwritten && x.overwritten[i] ? KV_NO_ROUND : told[x.numbers[i]];
    return KV_OK;
}

/* ---- Arrays of rows ---- */

/* Arrays that are filled by rows are pulled as dense ones first. */
static int pull_filled(worker *w, const kv_pairs *outs, const kv_call *how, kv_err *e)
{
    int64_t n = outs->n;
    own_mem kv_array **dense = mem_zalloc(n, sizeof *dense, e);
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
    return rc;
}

int worker_pull(void *self, const kv_pairs *outs, const kv_call *how, kv_err *e)
{
    bool fills = false;
    for (int64_t i = 0; how && how->flags & KV_FILL_SPARSE && i < outs->n && !fills; i++)
        fills = outs->arrays[i]->storage != KV_DEFAULT;
    return fills ? pull_filled(self, outs, how, e) : request_pull(self, outs, how, e);
}

/* ---- Rows by their ids ---- */

/* A pair of a call: the rows of one key that it wants, ascending and each once, and the replies of
 * the parts of that key. */
typedef struct row_pull {
    int64_t slot, *ids, n;
    void **replies; /* by part, like their bytes */
    const int64_t *bytes;
} row_pull;

/* The rows that came, those of all parts one behind the other, and the array that they become. */
typedef struct arrival {
    engine_op op;
    const row_pull *from;
    const place *place;
    const kv_array *like; /* of their shape and dtype */
    int64_t n;
    kv_array *out;
} arrival;

/* Checks the replies, and counts their rows: those of each part ascend and lie in it, so that all
 * of them ascend. */
static int count_arrived(arrival *x, kv_err *e)
{
    const place *p = x->place;
    int64_t row = sparse_row(x->like) * kv_dtype_bytes((kv_dtype)x->like->dtype);
    for (int32_t i = 0; i < p->nparts; i++) {
        const int64_t *reply = x->from->replies[i];
        int64_t some = 0, behind = place_first_row(p, i + 1), all = array_shape(x->like)[0];
        int64_t rows = (behind < all ? behind : all) - place_first_row(p, i);
        TRY(ask_count_rows(reply, x->from->bytes[i], row, &some, e));
        if (!row_ids_ordered(reply + 1, some, rows))
            return ask_malformed(e);
        x->n += some;
    }
    return KV_OK;
}

static void put_arrived(const arrival *x, kv_array *to)
{
    int64_t row = sparse_row(to) * kv_dtype_bytes((kv_dtype)to->dtype), at = 0;
    for (int32_t i = 0; i < x->place->nparts; i++) {
        const int64_t *reply = x->from->replies[i];
        int64_t n = reply[0], first = place_first_row(x->place, i);
        for (int64_t j = 0; j < n; j++)
            to->rows[at + j] = reply[1 + j] + first;
        if (n * row > 0)
            memcpy((char *)to->data + at * row, reply + 1 + n, (size_t)(n * row));
        at += n;
    }
}

/* An array that has as many rows keeps its memory: to get other memory for each key would take
 * longer than to copy the rows. */
static int take_arrived(engine_op *op, kv_err *e)
{
    const arrival *x = (arrival *)op;
    const kv_ctx cpu = {KV_CPU, 0};
    kv_array *out = x->out;
    bool same = out->dtype == x->like->dtype && kv_ctx_same(out->ctx, cpu);
    own_array *made = NULL;
    if (!same || out->nrows != x->n)
        TRY(sparse_new_rows(&made, x->like, (kv_dtype)x->like->dtype, cpu, x->n, NULL, e));
    put_arrived(x, made ? made : out);
    if (made && same)
        array_swap(out, made);
    return same ? KV_OK : sparse_replace(out, made, e);
}

/* Makes the rows that came for a pair those of its array. */
static int finish_pair(const worker *w, const row_pull *x, kv_array *out, kv_err *e)
{
    engine_use use = {.var = array_var(out), .write = true};
    arrival a = {{.run = take_arrived, .uses = &use, .nuses = 1}, x, &w->keys[x->slot].place,
                 w->store->slots.items[x->slot].stored,           0, out};
    TRY(count_arrived(&a, e));
    return engine_run_now(&a.op, e);
}

/* The call to each part: its rows, counted from its first one. */
static void ask_parts(const worker *w, const row_pull *x, net_call *calls)
{
    const worker_key *k = &w->keys[x->slot];
    int64_t at = 0;
    for (int32_t part = 0; part < k->place.nparts; part++) {
        int64_t from = at, behind = place_first_row(&k->place, part + 1);
        int64_t end = row_ids_find(x->ids, at, x->n, behind);
        for (; at < end; at++)
            x->ids[at] -= place_first_row(&k->place, part);
        calls[part] = (net_call){.rank = server_rank(place_server(&k->place, part, w->how.servers)),
                                 .what = ASK_ROWS,
                                 .store = w->number,
                                 .args.rows = {k->place.first + part, k->pushes},
                                 .data = x->ids + from,
                                 .bytes = (end - from) * (int64_t)sizeof *x->ids};
    }
}

/* Asks for the rows of n pairs at once, whose keys have nparts parts together. */
static int pull_together(worker *w, row_pull *list, int64_t n, int nparts, const kv_pairs *outs,
                         kv_err *e)
{
    own_mem net_call *calls = mem_alloc(nparts, sizeof *calls, e);
    own_mem void **replies = mem_zalloc(nparts, sizeof *replies, e);
    own_mem int64_t *bytes = mem_alloc(nparts, sizeof *bytes, e);
    int rc = calls && replies && bytes ? KV_OK : KV_E_MEMORY, at = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        const worker_key *k = &w->keys[list[i].slot];
        list[i].replies = replies + at;
        list[i].bytes = bytes + at;
        ask_parts(w, &list[i], calls + at);
        at += k->place.nparts;
    }
    if (!rc)
        rc = net_calls_wait(calls, nparts, replies, bytes, e);
    for (int64_t i = 0; i < n && !rc; i++) {
        w->keys[list[i].slot].pulls++;
        if ((rc = finish_pair(w, &list[i], outs->arrays[i], e)))
            kv_err_key(e, &outs->keys[i]);
    }
    for (int i = 0; replies && i < nparts; i++)
        mem_free(replies[i]);
    return rc;
}

/* Reads the ids of a pair. */
static int read_ids(const worker *w, row_pull *x, kv_array *ids, const kv_array *out, kv_err *e)
{
    const slot *s = &w->store->slots.items[x->slot];
    TRY(call_check_shape(s, out, "array", e));
    if (s->stored->storage != KV_ROW_SPARSE || out->storage != KV_ROW_SPARSE)
        return kv_err_set(e, KV_E_VALUE, "%s is not row_sparse",
                          out->storage == KV_ROW_SPARSE ? "the key" : "this array");
    int64_t rows = array_shape(s->stored)[0], outside;
    TRY(row_ids_read(&x->ids, ids, e));
    x->n = kv_array_size(ids);
    if (row_ids_ordered(x->ids, x->n, rows))
        return KV_OK;
    if ((outside = row_ids_outside(x->ids, x->n, rows)) >= 0)
        return kv_err_set(e, KV_E_INDEX, "row %lld is outside 0 to %lld",
                          (long long)x->ids[outside], (long long)rows - 1);
    return row_ids_sort(x->ids, &x->n, rows, e);
}

/* The pairs go to the servers together, but not so many that all their replies would need as much
 * memory again as the arrays. */
int worker_pull_rows(void *self, kv_array *const *ids, const kv_pairs *outs, const kv_call *how,
                     kv_err *e)
{
    enum { TOGETHER = 1024 /* parts, about */ };
    worker *w = self;
    int64_t n = outs->n, first = 0;
    int parts = 0;
    (void)how;
    own_mem int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    own_mem row_pull *list = mem_zalloc(n, sizeof *list, e);
    int rc = numbers && list ? worker_find(w, outs, false, numbers, e) : KV_E_MEMORY;
    engine_wait_group(&w->store->calls.group, 0);
    for (int64_t i = 0; i < n && !rc; i++) {
        list[i].slot = numbers[i];
        if ((rc = read_ids(w, &list[i], ids[i], outs->arrays[i], e)))
            kv_err_key(e, &outs->keys[i]);
    }
    for (int64_t i = 0; i < n && !rc; i++) {
        parts += w->keys[numbers[i]].place.nparts;
        if (parts < TOGETHER && i + 1 < n)
            continue;
        const kv_pairs some = {outs->keys + first, outs->arrays + first, i + 1 - first};
        rc = pull_together(w, list + first, some.n, parts, &some, e);
        first = i + 1;
        parts = 0;
    }
    for (int64_t i = 0; list && i < n; i++)
        mem_free(list[i].ids);
    return rc;
}

int worker_pull_stored(worker *w, const slot *s, kv_array **out, kv_err *e)
{
    const kv_array *a = s->stored;
    const kv_ctx cpu = {KV_CPU, 0};
    if (a->storage == KV_ROW_SPARSE) {
        TRY(kv_array_new_sparse(out, a->dtype, a->ndim, array_shape(a), 0, NULL, cpu, e));
        own_array *ids = NULL; /* of all rows */
        TRY(kv_array_new_raw(&ids, KV_INT64, 1, array_shape(a), cpu, e));
        for (int64_t i = 0; i < ids->size; i++)
            ((int64_t *)ids->data)[i] = i;
        return worker_pull_rows(w, &ids, &(kv_pairs){&s->key, out, 1}, NULL, e);
    }
    TRY(kv_array_new_raw(out, a->dtype, a->ndim, array_shape(a), cpu, e));
    return request_pull(w, &(kv_pairs){&s->key, out, 1}, NULL, e);
}

/* ---- Outs that stand in several pairs ----
 *
 * The replies come in any order, so only the key of its last pair writes such an out. */

/* Views share the memory and the variable of their base. */
static kv_key memory_of(const kv_pairs *outs, int64_t i)
{
    return (kv_key){.id = (int64_t)(uintptr_t)array_var(outs->arrays[i])};
}

/* Arrays that were made one after the other, which most calls have, mostly lie in memory like that:
 * all are different. */
static bool all_rise_or_fall(const kv_pairs *outs)
{
    bool rise = true, fall = true;
    for (int64_t i = 1; i < outs->n && (rise || fall); i++) {
        int64_t before = memory_of(outs, i - 1).id, here = memory_of(outs, i).id;
        rise &= before < here;
        fall &= before > here;
    }
    return rise || fall;
}

/* Bits by hashes of arrays: the arrays of a call, and the arrays that two pairs have. A
 * pair whose bit no other has needs no look into a map, which for all pairs would take 5 to 8 % of
 * a call of small arrays. */
typedef struct bits {
    uint64_t *some, *again;
    int shift; /* of a hash */
} bits;

static uint64_t bit_of(const bits *b, kv_key memory)
{
    return (uint64_t)memory.id * 0x9E3779B97F4A7C15u >> b->shift;
}

/* To be released by its `some`. */
static int set_bits(bits *b, const kv_pairs *outs, kv_err *e)
{
    int log = 6;
    while (1LL << log < 16 * outs->n)
        log++;
    int64_t words = 1LL << (log - 6);
    *b = (bits){.some = mem_zalloc(2 * words, sizeof *b->some, e), .shift = 64 - log};
    if (!b->some)
        return KV_E_MEMORY;
    b->again = b->some + words;
    for (int64_t i = 0; i < outs->n; i++) {
        uint64_t at = bit_of(b, memory_of(outs, i)), bit = 1ULL << at % 64;
        b->again[at / 64] |= b->some[at / 64] & bit;
        b->some[at / 64] |= bit;
    }
    return KV_OK;
}

static bool may_repeat(const bits *b, kv_key memory)
{
    uint64_t at = bit_of(b, memory);
    return b->again[at / 64] >> at % 64 & 1;
}

int request_find_overwritten(const int64_t *numbers, const kv_pairs *outs, bool **overwritten,
                             kv_err *e)
{
    map last = {0}; /* of an array: its last pair */
    bits b;
    *overwritten = NULL;
    if (all_rise_or_fall(outs))
        return KV_OK;
    int rc = set_bits(&b, outs, e);
    for (int64_t i = outs->n - 1; i >= 0 && !rc; i--) {
        kv_key memory = memory_of(outs, i);
        if (!may_repeat(&b, memory))
            continue;
        int64_t later = map_get(&last, memory);
        if (later < 0)
            rc = map_put(&last, memory, i, e);
        else if (numbers[later] != numbers[i]) {
            if (!*overwritten && !(*overwritten = mem_zalloc(outs->n, sizeof **overwritten, e)))
                rc = KV_E_MEMORY;
            else
                (*overwritten)[i] = true;
        }
    }
    map_release(&last);
    mem_free(b.some);
    return rc;
}
