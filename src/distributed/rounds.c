/* Rounds and pulls on a server. Records are only collected when they come. The net settles after
 * each batch of them, and then all parts with news are looked at together, so that many small
 * rounds cost one push to the store. */

#include <string.h>

#include "base/compiler.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "distributed/server_state.h"

/* ---- Rounds ---- */

/* The number of pushes of the slowest worker that takes part; INT64_MAX where none does. */
static int64_t slowest(const server_state *s, const part *p)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < s->how.workers; i++)
        if (!s->workers[i].done && p->workers[i].applied < least)
            least = p->workers[i].applied;
    return least;
}

/* Returns true if the pulls that the worker made before this push are answered. */
static bool may_follow(const part *p, int worker, const contribution *c)
{
    return p->workers[worker].pulls >= c->before;
}

/* The first round of a part, if it can be applied now: every worker that is not done has pushed,
 * the pulls that they made before are answered, no answer that is being sent still reads the stored
 * array, and the optimizer that was set before the round is there. */
static round *ready_sync(const server_state *s, const part *p)
{
    round *x = p->rounds;
    if (!x || x->number != p->applied + 1 || p->replies > 0 || x->have == 0)
        return NULL;
    if (x->optimizer > s->optimizers_set)
        return NULL;
    if (x->have + s->ndone < s->how.workers) /* some worker has not come and is not done */
        return NULL;
    for (int i = 0; i < s->how.workers; i++) {
        if (server_lacks(s, x, i) || (x->by[i].complete && !may_follow(p, i, &x->by[i])))
            return NULL;
    }
    return x;
}

/* The same where each push of a worker is a round of its own: the next one of some worker that is
 * not too far ahead of the slowest. */
static round *ready_async(const server_state *s, const part *p)
{
    int64_t bound = s->how.staleness, least = bound < 0 ? 0 : slowest(s, p);
    for (round *x = p->rounds; x && p->replies == 0; x = x->next) {
        const part_worker *w = &p->workers[x->worker];
        if (x->by[0].complete && x->number == w->applied + 1 &&
            may_follow(p, x->worker, &x->by[0]) && (bound < 0 || w->applied - least <= bound))
            return x;
    }
    return NULL;
}

/* Adds the keys and values of a round to the batch, which is one push to the store. */
static int add_values(server_state *s, part *p, round *x, kv_err *e)
{
    int64_t n = s->how.is_async ? 1 : s->how.workers;
    int64_t first = s->nvalues;
    int rc = mem_grow(&s->values, &s->values_cap, first + n, sizeof *s->values, e);
    if (!rc)
        rc = mem_grow(&s->keys, &s->keys_cap, first + n, sizeof *s->keys, e);
    for (int64_t i = 0; i < n && !rc; i++) {
        const contribution *c = &x->by[i];
        kv_array *a = NULL;
        if (!c->complete)
            continue;
        if (!c->data && c->bytes)
            rc = kv_err_set(e, KV_E_MEMORY, "no memory for a push");
        else if (c->sparse)
            rc = ask_array(&a, KV_ROW_SPARSE, p->dtype, p->ndim, p->shape, c->data, c->bytes, e);
        else
            rc = kv_array_wrap(&a, c->data, p->dtype, p->ndim, p->shape, (kv_ctx){KV_CPU, 0}, NULL,
                               NULL, e);
        if (!rc) {
            s->values[s->nvalues] = a;
            s->keys[s->nvalues++] = (kv_key){.id = p->id};
        }
    }
    while (rc && s->nvalues > first)
        kv_array_unref(s->values[--s->nvalues]);
    return rc;
}

/* Tells the workers of a round how it went, and forgets it. */
static void end_round(server_state *s, part *p, round *x, const kv_err *why)
{
    int64_t n = s->how.is_async ? 1 : s->how.workers;
    p->contributors = 0;
    kv_assert(s->how.is_async || p->rounds == x,
              "round %lld of part %lld ends before an earlier one", (long long)x->number,
              (long long)p->id);
    kv_assert(s->how.is_async || x->number == p->applied + 1,
              "round %lld of part %lld ends behind round %lld", (long long)x->number,
              (long long)p->id, (long long)p->applied);
    for (int64_t i = 0; i < n; i++) {
        int worker = s->how.is_async ? x->worker : (int)i;
        if (!x->by[i].complete)
            continue;
        p->contributors++;
        p->workers[worker].applied = x->number;
        if (why->code)
            server_fail(worker, x->by[i].request, s->number, p->id, why);
        else if (p->keeps)
            server_note_done(s, worker, x->by[i].request);
        else
            server_send_sum(s, p, x, worker);
    }
    kv_assert(p->contributors == x->have, "round %lld has %d contributions and tells %d workers",
              (long long)x->number, x->have, p->contributors);
    p->applied++;
    s->rounds++;
    s->open_rounds -= server_is_open(s, x);
    kv_assert(s->open_rounds >= 0, "store %d has %lld open rounds", s->number,
              (long long)s->open_rounds);
    if (x->replies > 0)
        parts_take_off(s, p, x); /* its sum stays until it is sent */
    else if (x->sum && !why->code)
        server_end_sum(s, p, x);
    else
        parts_free_round(s, p, x);
}

void rounds_give_up(server_state *s, part *p, round *x, const kv_err *why)
{
    kv_assert(x->replies == 0, "round %lld is given up while %d workers are sent its sum",
              (long long)x->number, x->replies);
    end_round(s, p, x, why);
    for (server_pull **at = &p->pulls; *at;) {
        server_pull *y = *at;
        if (y->round > p->applied || y->rows) {
            at = &y->next;
            continue;
        }
        *at = y->next;
        server_fail(y->rank, y->request, s->number, p->id, why);
        p->workers[y->rank].pulls++;
        mem_free(y);
    }
    parts_touch(s, p);
}

/* Pushes the rounds from … to - 1 of the batch. If that fails, each is pushed alone, so that only
 * the parts at fault keep their old values. */
static void apply_batch(server_state *s, int64_t from, int64_t to)
{
    kv_err e = {0};
    int rc = KV_OK;
    kv_assert(s->nvalues == 0, "a batch begins with %lld values of another one",
              (long long)s->nvalues);
    for (int64_t i = from; i < to && !rc; i++)
        rc = add_values(s, s->batch[i], s->batch[i]->applying, &e);
    if (!rc && (rc = kv_push(s->store, s->keys, s->nvalues, s->values, NULL, &e)) == KV_OK)
        rc = kv_wait(s->store, &e);
    while (s->nvalues > 0)
        kv_array_unref(s->values[--s->nvalues]);
    if (rc && to - from > 1) {
        for (int64_t i = from; i < to; i++)
            apply_batch(s, i, i + 1);
        return;
    }
    for (int64_t i = from; i < to; i++) {
        part_changes_end_round(s, s->batch[i]);
        end_round(s, s->batch[i], s->batch[i]->applying, &e);
    }
}

/* Rounds that need the store are pushed to it together. Without memory the round fails. */
static void add_to_batch(server_state *s, part *p, round *x)
{
    kv_err e = {0};
    if (mem_grow(&s->batch, &s->batch_cap, s->nbatch + 1, sizeof *s->batch, &e)) {
        end_round(s, p, x, &e);
        return;
    }
    kv_assert(p->replies == 0, "part %lld is updated while %d workers are sent its values",
              (long long)p->id, p->replies);
    parts_drop_codes(p);
    p->origin.given = x->has_step ? &x->step->given : NULL;
    p->origin.numbers = x->has_step ? x->step->numbers : NULL;
    p->applying = x;
    part_changes_begin_round(s, p);
    s->batch[s->nbatch++] = p;
}

/* ---- Pulls ---- */

static int add_pull(server_state *s, int64_t id, const server_pull *pull, kv_err *e)
{
    part *p = parts_find(s, id);
    if (!p || !p->keeps)
        return kv_err_set(e, KV_E_KEY, "there is no such key on server %d", link_rank());
    server_pull *x = s->spare_pulls;
    if (x)
        s->spare_pulls = x->next;
    else if (!(x = mem_alloc(1, sizeof *x, e))) {
        p->workers[pull->rank].pulls++; /* answered, with an error: pushes behind it may go on */
        parts_touch(s, p);
        return KV_E_MEMORY;
    }
    *x = *pull;
    x->next = p->pulls;
    p->pulls = x;
    parts_touch(s, p);
    return KV_OK;
}

/* Prefetches a part that the next records are likely to name after part id, since those of one call
 * mostly have consecutive numbers. s: the store, or NULL. */
static void expect_next(const server_state *s, int64_t id)
{
    enum { PARTS = 12 };
    const part *p = s && id >= 0 && id < s->nparts - PARTS ? s->parts[id + PARTS] : NULL;
    if (!p)
        return;
    prefetch_write(p);
    prefetch_write(&p->rounds);
    prefetch_write(p->workers);
}

void rounds_pull(int rank, const link_rec *r)
{
    kv_err e = {0};
    server_state *s = server_store_of(rank, r, &e);
    const server_pull x = {.rank = rank, .request = r->request, .round = r->round,
                           .index = r->chunk, .priority = r->priority, .state = r->state,
                           .changes = r->flags & LINK_CHANGES, .since = r->from};
    expect_next(s, r->part);
    if (!s || add_pull(s, r->part, &x, &e))
        server_fail(rank, r->request, r->store, r->part, &e);
}

int rounds_pull_rows(server_state *s, int rank, const link_rec *r, kv_err *e)
{
    int64_t bytes = link_call_bytes(r);
    server_pull x = {.rank = rank, .request = r->request, .round = r->args.rows.round,
                     .rows = true, .nids = bytes / (int64_t)sizeof *x.ids};
    if (bytes) {
        x.ids = mem_alloc(bytes, 1, e);
        if (!x.ids)
            return KV_E_MEMORY;
        memcpy(x.ids, r + 1, (size_t)bytes);
    }
    int rc = add_pull(s, r->args.rows.part, &x, e);
    if (rc)
        mem_free(x.ids);
    return rc;
}

static bool may_answer(server_state *s, const part *p, const server_pull *x)
{
    int64_t applied = s->how.is_async ? p->workers[x->rank].applied : p->applied;
    if (applied < x->round)
        return false;
    if (s->how.is_async) {
        int64_t least = slowest(s, p), behind = x->round > least ? x->round - least : 0;
        if (s->how.staleness >= 0 && behind > s->how.staleness)
            return false;
        s->stalest = behind > s->stalest ? behind : s->stalest;
    }
    return true;
}

/* Answers the pulls whose pushes were applied. Returns whether it answered any, because a push
 * waits for the pulls before it. */
static bool answer_pulls(server_state *s, part *p)
{
    bool any = false;
    for (server_pull **at = &p->pulls; *at;) {
        server_pull *x = *at;
        if (!may_answer(s, p, x)) {
            at = &x->next;
            continue;
        }
        *at = x->next;
        if (x->rows)
            server_send_rows(s, p, x);
        else
            server_send(s, p, x);
        p->workers[x->rank].pulls++;
        any = true;
        mem_free(x->ids);
        x->next = s->spare_pulls;
        s->spare_pulls = x;
    }
    return any;
}

/* ---- Workers that have ended ---- */

/* A worker that a round waits for and that has ended, so that it cannot push any more; or -1. */
static int ended_without(const server_state *s, const round *x)
{
    for (int i = 0; i < s->how.workers && x->have > 0; i++)
        if (server_lacks(s, x, i) && (s->workers[i].ended || s->workers[i].closes))
            return i;
    return -1;
}

/* Gives up, in their order, the rounds that an ended worker will never complete. */
static void give_up_ended(server_state *s, part *p)
{
    char text[SLOT_KEY_TEXT];
    for (round *x; (x = p->rounds) && !s->how.is_async && x->number == p->applied + 1;) {
        int rank = ended_without(s, x);
        kv_err why = {0};
        if (rank < 0)
            return;
        if (p->keeps) {
            kv_err_set(&why, KV_E_PEER,
                       "rank %d has ended; key %s waits for its push of round %lld", rank,
                       slot_key_text(text, &p->key), (long long)x->number);
            kv_err_key(&why, &p->key);
        } else {
            kv_err_set(&why, KV_E_PEER, "rank %d has ended, and a sum waits for its values", rank);
        }
        rounds_give_up(s, p, x, &why);
    }
}

/* ---- Workers that are gone ---- */

static void drop_pulls(part *p, int rank)
{
    for (server_pull **at = &p->pulls; *at;) {
        server_pull *x = *at;
        if (x->rank != rank) {
            at = &x->next;
            continue;
        }
        *at = x->next;
        mem_free(x->ids);
        mem_free(x);
    }
}

/* dist_async: keeps the rounds of a worker that is gone up to the first one that is missing or
 * incomplete, and drops the others. */
static void drop_own_rounds(server_state *s, part *p, int rank)
{
    int64_t number = p->workers[rank].applied;
    for (round *x = p->rounds, *next; x; x = next) {
        next = x->next;
        if (x->worker != rank)
            continue;
        if (x->by[0].complete && x->number == number + 1)
            number++;
        else
            parts_free_round(s, p, x);
    }
}

void rounds_lose_worker(server_state *s, int rank)
{
    for (int64_t i = 0; i < s->nparts; i++) {
        part *p = s->parts[i];
        if (!p)
            continue;
        drop_pulls(p, rank);
        p->workers[rank].pulls = INT64_MAX; /* its pushes wait for none of them */
        if (s->how.is_async)
            drop_own_rounds(s, p, rank);
        if (p->rounds || p->pulls)
            parts_touch(s, p);
    }
}

/* ---- Settling ---- */

/* Copies the contributions of open rounds: the link's memory is given back when settling ends. */
static void keep_lent(server_state *s)
{
    kv_err e = {0};
    for (contribution *c = s->lent, *next; c; c = next) {
        next = c->next_lent;
        c->next_lent = NULL;
        if (!c->data || c->owned)
            continue;
        char *copy = mem_alloc(c->bytes, 1, &e);
        if (copy)
            memcpy(copy, c->data, (size_t)c->bytes);
        else
            net_cannot_serve(&e);
        c->data = copy;
        c->owned = true;
    }
    s->lent = NULL;
}

static int64_t count_open_rounds(const server_state *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->nparts; i++)
        for (const round *x = s->parts[i] ? s->parts[i]->rounds : NULL; x; x = x->next)
            n += server_is_open(s, x);
    return n;
}

/* Sets the optimizers that wait: an open round was begun with the one before. */
bool rounds_set_optimizers(server_state *s)
{
    bool any = false;
    while (s->optimizers && s->open_rounds == 0) {
        server_optimizer *o = s->optimizers;
        kv_err e = {0};
        if (server_set_optimizer(s, o, &e)) /* its worker could: this rank lacks memory */
            net_cannot_serve(&e);
        s->optimizers = o->next;
        s->optimizers_set++;
        s->open_rounds = count_open_rounds(s);
        kv_assert(s->optimizers_set <= s->optimizers_come, "%lld optimizers are set, and %lld came",
                  (long long)s->optimizers_set, (long long)s->optimizers_come);
        mem_free(o->text);
        mem_free(o);
        any = true;
        for (int64_t i = 0; i < s->nparts; i++)
            if (s->parts[i] && s->parts[i]->rounds)
                parts_touch(s, s->parts[i]);
    }
    return any;
}

/* Of many small parts, each lies in cache lines of its own that were not read since the last round:
 * settling asks for the next ones, in steps, since each address is read from the line before. */
static void look_ahead(const server_state *s, int64_t i)
{
    enum { ARRAYS = 8, ELEMENTS = 4 };
    if (i + ARRAYS < s->ntouched && s->touched[i + ARRAYS]->keeps)
        prefetch(server_stored(s, s->touched[i + ARRAYS]));
    if (i + ELEMENTS < s->ntouched && s->touched[i + ELEMENTS]->keeps)
        prefetch_write(server_stored(s, s->touched[i + ELEMENTS])->data);
}

static void apply_all(server_state *s)
{
    if (s->nbatch)
        apply_batch(s, 0, s->nbatch);
    s->nbatch = 0;
    part_changes_forget_copies(s);
}

/* Applies the batch, answers pulls and sets optimizers. Returns true if another round may be ready
 * then. */
static bool go_on(server_state *s)
{
    bool more = false;
    apply_all(s);
    for (int64_t i = 0; i < s->ntouched; i++) {
        part *p = s->touched[i];
        if (p->pulls && answer_pulls(s, p))
            more |= p->rounds != NULL;
    }
    return more | rounds_set_optimizers(s);
}

void rounds_settle(void)
{
    for (server_state *s = server_stores; s; s = s->next) {
        bool any = s->ntouched > 0 || s->optimizers;
        for (bool more = any; more; more &= s->ntouched > 0) {
            more = false;
            for (int64_t i = 0; i < s->ntouched; i++) { /* ends of rounds may add parts */
                part *p = s->touched[i];
                look_ahead(s, i);
                if (s->any_ended)
                    give_up_ended(s, p);
                round *x = s->how.is_async ? ready_async(s, p) : ready_sync(s, p);
                if (x && p->keeps && !server_is_sum(s, p, x)) {
                    add_to_batch(s, p, x);
                } else if (x) {
                    kv_err e = {0};
                    part_changes_begin_round(s, p);
                    server_add_up(s, p, x, &e);
                    part_changes_end_round(s, p);
                    end_round(s, p, x, &e);
                }
                more |= x != NULL;
                if (s->copied >= PART_CHANGES_TOGETHER)
                    apply_all(s);
            }
            more |= go_on(s);
        }
        if (any) {
            server_flush(s);
            keep_lent(s);
            for (int64_t i = 0; i < s->ntouched; i++)
                s->touched[i]->touched = false;
            s->ntouched = 0;
            s->now_us = 0;
        }
    }
}

void rounds_free_spare(server_state *s)
{
    for (round *x = s->spare, *next; x; x = next) {
        next = x->next;
        mem_free(x->step);
        mem_free(x);
    }
    for (server_pull *x = s->spare_pulls, *next; x; x = next) {
        next = x->next;
        mem_free(x);
    }
}

/* ---- Pushes ----
 *
 * Each record is added to the contribution of its worker to a round. Elements stay in the link's
 * memory where they can. */

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

/* Adds the bytes of a record, from `data` on, to a contribution. stays: the record lies in the
 * link's memory until settling ends, and is the last one of its push. Errors: shape, memory,
 * internal (malformed). */
static int take_data(server_state *s, part *p, const link_rec *r, contribution *c, const char *data,
                     bool stays, kv_err *e)
{
    int64_t n = (const char *)(r + 1) + r->bytes - data;
    if (r->flags & LINK_CODES) {
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
        kv_err_set(e, KV_E_KEY, "there is no such key on server %d", link_rank());
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

void rounds_push(int rank, const link_rec *r)
{
    kv_err e = {0};
    const char *data = (const char *)(r + 1), *end = data + r->bytes;
    server_state *s = server_store_of(rank, r, &e);
    part *p = s ? parts_find(s, r->part) : NULL;
    expect_next(s, r->part);
    round *x = s ? find_pushed(s, p, rank, r, &e) : NULL;
    contribution *c = x ? &x->by[s->how.is_async ? 0 : rank] : NULL;
    if (c && r->flags & LINK_HOST)
        data = take_host(x, data, end, rank == lowest_rank(s), &e);
    bool stays = r->flags & LINK_LAST && rank != link_rank();
    if (c && !e.code)
        take_data(s, p, r, c, data, stays, &e);
    if (e.code) {
        refuse(rank, r, &e);
    } else if (c && r->flags & LINK_LAST) {
        c->before = r->pulls;
        complete(s, p, x, rank, r->request);
    }
}

int rounds_add(server_state *s, int rank, const link_rec *r, const local_add *own, kv_err *e)
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
