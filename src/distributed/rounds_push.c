/* Pushes that come to a server: each record is added to the contribution of its worker to a round.
 * Elements stay in the link's memory where they can. */
#include "distributed/rounds.h"

#include <string.h>

#include "base/compiler.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "distributed/parts.h"

static round *new_round(server_state *s, part *p, int64_t number, int worker)
{
    kv_err unused = {0};
    int64_t n = s->how.is_async ? 1 : s->how.workers;
    round *x = s->spare;
    kv_assert(number > (s->how.is_async ? p->workers[worker].applied : p->applied),
              "round %lld of part %lld begins behind its end", (long long)number,
              (long long)p->id);
    if (x)
        s->spare = x->next;
    else if (!(x = mem_alloc(1, sizeof *x + (size_t)n * sizeof *x->by, &unused)))
        return NULL;
    else
        x->step = NULL;
    host_step *step = x->step;
    memset(x, 0, sizeof *x + (size_t)n * sizeof *x->by);
    x->step = step;
    x->number = number;
    x->worker = worker;
    s->now_us = s->now_us ? s->now_us : net_now_us();
    x->since_us = s->now_us;
    round **at = &p->rounds; /* by number */
    while (*at && (*at)->number <= number)
        at = &(*at)->next;
    x->next = *at;
    *at = x;
    return x;
}

static round *find_round(server_state *s, part *p, int64_t number, int worker)
{
    for (round *x = p->rounds; x; x = x->next)
        if (x->number == number && (!s->how.is_async || x->worker == worker))
            return x;
    return new_round(s, p, number, worker);
}

/* Reads the host step of an update, which stands in front of a push. The round keeps that of the
 * lowest rank, because all ranks must apply the same one. Returns the address behind it; NULL, with
 * an error: internal (malformed), memory. */
static const char *take_host(round *x, const char *data, const char *end, bool is_lowest, kv_err *e)
{
    int64_t n;
    host_step *to = x->step;
    const size_t head = sizeof to->given + sizeof n;
    if ((size_t)(end - data) < head)
        return ask_malformed(e), NULL;
    memcpy(&n, data + sizeof to->given, sizeof n);
    const char *numbers = data + head;
    if (n < 0 || n > PLAN_MAX_STATES || n * (int64_t)sizeof *to->numbers > end - numbers)
        return ask_malformed(e), NULL;
    size_t bytes = (size_t)n * sizeof *to->numbers;
    if (!to && !(to = x->step = mem_alloc(1, sizeof *to, e)))
        return NULL;
    if (is_lowest || !x->has_step) {
        memcpy(&to->given, data, sizeof to->given);
        memset(to->numbers, 0, sizeof to->numbers);
        memcpy(to->numbers, numbers, bytes);
        x->has_step = true;
    }
    return numbers + bytes;
}

/* The lowest rank of the workers that take part. */
static int lowest_rank(const server_state *s)
{
    for (int i = 0; i < s->how.workers; i++)
        if (!s->workers[i].done)
            return i;
    return 0;
}

/* Allocates memory for a contribution that comes in several records, or as codes, unless it has it.
 * Errors: memory, internal (the records do not agree on its size). */
static int allocate_data(contribution *c, int64_t bytes, kv_err *e)
{
    if (c->data)
        return c->owned && c->bytes == bytes ? KV_OK : ask_malformed(e);
    if (bytes < 0)
        return ask_malformed(e);
    char *data = mem_alloc(bytes, 1, NULL);
    if (!data)
        return kv_err_set(e, KV_E_MEMORY, "no memory for a push");
    c->data = data;
    c->owned = true;
    c->bytes = bytes;
    return KV_OK;
}

/* Leaves the bytes of a contribution in the link's memory; keep_lent copies them if the round has
 * not ended when settling does. */
static void lend_data(server_state *s, contribution *c, const char *data, int64_t bytes)
{
    c->data = (char *)(uintptr_t)data;
    c->bytes = bytes;
    c->next_lent = s->lent;
    s->lent = c;
}

/* Decodes codes, whose header is at data, into the memory of a contribution. */
static int take_codes(const part *p, const link_rec *r, contribution *c, const char *data,
                      kv_err *e)
{
    push_codes how;
    const char *codes = elements_codes(r, data, p->dtype, p->count, &how);
    if (!codes)
        return ask_malformed(e);
    if (allocate_data(c, p->bytes, e))
        return e->code;
    c->how = how;
    quantise_decode((float *)(void *)c->data + r->from, codes, (quantise_code)how.code,
                    how.threshold, r->n);
    return KV_OK;
}

/* Adds the bytes of a record, from `data` on, to a contribution. stays: the record lies in the
 * link's memory until settling ends, and is the last one of its push. Errors: shape, memory,
 * internal (malformed). */
static int take_data(server_state *s, part *p, const link_rec *r, contribution *c, const char *data,
                     bool stays, kv_err *e)
{
    int64_t n = (const char *)(r + 1) + r->bytes - data;
    if (r->flags & LINK_CODES)
        return take_codes(p, r, c, data, e);
    bool sparse = r->flags & LINK_SPARSE;
    if (!sparse && r->n != p->bytes)
        return kv_err_set(e, KV_E_SHAPE, "a push of %lld bytes came for a part of %lld",
                          (long long)r->n, (long long)p->bytes);
    if (stays && n == r->n && !c->data) {
        c->sparse = sparse;
        lend_data(s, c, data, n);
        return KV_OK;
    }
    if (!elements_fit(r, n, r->n) || (c->data && c->sparse != sparse))
        return ask_malformed(e);
    if (allocate_data(c, r->n, e))
        return e->code;
    c->sparse = sparse;
    memcpy(c->data + r->from, data, (size_t)n);
    return KV_OK;
}

/* Counts a contribution whose last record has come. */
static void complete(server_state *s, part *p, round *x, int rank, uint64_t request)
{
    contribution *c = &x->by[s->how.is_async ? 0 : rank];
    kv_assert(!c->complete, "rank %d completes its values of round %lld a second time", rank,
              (long long)x->number);
    c->complete = true;
    c->request = request;
    x->have++;
    if (rank == lowest_rank(s) && !x->counted) { /* once, though a lower rank may be done since */
        x->optimizer = s->optimizers_come;
        x->counted = !s->how.is_async;
        s->open_rounds += server_is_open(s, x);
    }
    parts_touch(s, p);
}

/* Returns the round to which a push belongs; NULL when that round is over or has this push already,
 * or with an error: key, timeout, memory. */
static round *find_pushed(server_state *s, part *p, int rank, const link_rec *r, kv_err *e)
{
    if (!p)
        kv_err_set(e, KV_E_KEY, "there is no such key on server %d", net_rank());
    if (!p || r->round <= p->workers[rank].applied)
        return NULL; /* it was applied already */
    if (!s->how.is_async && r->round <= p->applied) {
        kv_err_set(e, KV_E_TIMEOUT, "this push came when its round had been given up");
        return NULL;
    }
    round *x = find_round(s, p, r->round, rank);
    if (!x)
        kv_err_set(e, KV_E_MEMORY, "no memory for a push");
    return x && x->by[s->how.is_async ? 0 : rank].complete ? NULL : x;
}

/* Answers a push with an error. Where memory is missing this rank gives up as well: the round would
 * stay open, all workers would wait for it, and this one perhaps before it looks at the error. */
static void refuse(int rank, const link_rec *r, const kv_err *e)
{
    server_fail(rank, r->request, r->store, r->part, e);
    if (e->code == KV_E_MEMORY)
        net_cannot_serve(e);
}

void rounds_expect_next(const server_state *s, int64_t id)
{
    enum { PARTS = 12 };
    const part *p = s && id >= 0 && id < s->nparts - PARTS ? s->parts[id + PARTS] : NULL;
    if (!p)
        return;
    prefetch_write(p);
    prefetch_write(&p->rounds);
    prefetch_write(p->workers);
}

void rounds_push(int rank, const link_rec *r)
{
    kv_err e = {0};
    const char *data = (const char *)(r + 1), *end = data + r->bytes;
    server_state *s = server_store_of(rank, r, &e);
    part *p = s ? parts_find(s, r->part) : NULL;
    rounds_expect_next(s, r->part);
    round *x = s ? find_pushed(s, p, rank, r, &e) : NULL;
    contribution *c = x ? &x->by[s->how.is_async ? 0 : rank] : NULL;
    if (c && r->flags & LINK_HOST)
        data = take_host(x, data, end, rank == lowest_rank(s), &e);
    bool stays = r->flags & LINK_LAST && rank != net_rank();
    if (c && !e.code)
        take_data(s, p, r, c, data, stays, &e);
    if (e.code) {
        refuse(rank, r, &e);
    } else if (c && r->flags & LINK_LAST) {
        c->before = r->pulls;
        complete(s, p, x, rank, r->request);
    }
}

int rounds_add(server_state *s, int rank, const link_rec *r, const own_add *own, kv_err *e)
{
    part *p = parts_of_sum(s, r->part, e);
    bool broadcast = r->flags & LINK_BROADCAST;
    if (!p)
        return e->code;
    int64_t each = kv_dtype_bytes((kv_dtype)r->dtype); /* 0: there is no such dtype */
    if (!each || r->bytes % each)
        return ask_malformed(e);
    if (r->round <= p->applied)
        return kv_err_set(e, KV_E_TIMEOUT,
                          "these values came when their round had been given up");
    round *x = find_round(s, p, r->round, rank);
    if (!x)
        return kv_err_set(e, KV_E_MEMORY, "no memory for a push");
    contribution *c = &x->by[rank];
    if (c->complete)
        return kv_err_set(e, KV_E_INTERNAL, "rank %d contributes twice to one round", rank);
    if (own)
        x->own = *own;
    if (!broadcast || rank == 0) { /* the others bring no elements to a broadcast */
        if (p->bytes && p->bytes != r->bytes)
            return kv_err_set(e, KV_E_SHAPE, "a push of %lld bytes came for a part of %lld",
                              (long long)r->bytes, (long long)p->bytes);
        p->dtype = (kv_dtype)r->dtype;
        p->bytes = r->bytes;
        p->count = p->bytes / each;
        if (own)
            *c = (contribution){.data = (char *)(uintptr_t)own->data, .bytes = r->bytes};
        else
            lend_data(s, c, (const char *)(r + 1), r->bytes);
    }
    x->broadcasts += broadcast;
    c->chunk = r->chunk;
    c->priority = r->priority;
    complete(s, p, x, rank, r->request);
    return KV_OK;
}

void rounds_take_add(int rank, const link_rec *r)
{
    kv_err e = {0};
    server_state *s = server_store_of(rank, r, &e);
    if (!s || rounds_add(s, rank, r, NULL, &e))
        refuse(rank, r, &e);
}
