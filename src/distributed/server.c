/* The stores that this rank serves, and the calls of workers; pushes and pulls go to rounds.c. */
#include "distributed/server.h"

#include <string.h>
#include <unistd.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "distributed/coordinator.h"
#include "distributed/server_state.h"
#include "distributed/spares.h"
#include "distributed/states.h"
#include "distributed/waits.h"
#include "runtime.h"

/* ---- Calls ---- */

static void free_store(server_state *s)
{
    server_state **at = &server_stores;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    coordinator_free(s);
    for (int64_t i = 0; i < s->nparts; i++)
        parts_free(s, s->parts[i]);
    rounds_free_spare(s);
    for (server_optimizer *o = s->optimizers, *next; o; o = next) {
        next = o->next;
        mem_free(o->text);
        mem_free(o);
    }
    kv_free(s->store);
    mem_free(s->parts);
    mem_free(s->touched);
    mem_free(s->values);
    mem_free(s->keys);
    mem_free(s->batch);
    mem_free(s->copies);
    mem_free(s->workers);
    mem_free(s->news);
    mem_free(s->sources);
    mem_free(s);
}

/* A worker is gone, or a spare that has not come: it is done with the store. */
static void lose_worker(server_state *s, int rank)
{
    server_worker *w = &s->workers[rank];
    s->ndone += !w->done;
    s->njoined += !w->joined;
    s->nfreed += !w->freed;
    w->done = w->freed = w->gone = s->any_gone = true;
}

static server_state *new_store(int number, const ask_store *how, kv_err *e)
{
    server_state *s = mem_zalloc(1, sizeof *s, e);
    if (!s)
        return NULL;
    s->number = number;
    s->created_us = net_now_us();
    s->how = *how;
    s->workers = mem_zalloc(how->workers, sizeof *s->workers, e);
    s->news = mem_alloc(how->workers, sizeof *s->news, e);
    s->sources = mem_alloc(how->workers, sizeof *s->sources, e);
    s->next = server_stores;
    server_stores = s;
    if (!s->workers || !s->news || !s->sources || kv_create("local", NULL, 0, &s->store, e)) {
        free_store(s);
        return NULL;
    }
    s->store->is_server = true;
    kv_set_print(s->store, runtime_print, NULL);
    for (int i = 0; i < how->workers; i++)
        if (alive_is_gone(i) || spares_waits(i))
            lose_worker(s, i);
    return s;
}

/* All have called create. */
static void tell_made(const server_state *s)
{
    for (int i = 0; i < s->how.workers; i++)
        if (!s->workers[i].gone)
            server_reply(i, s->workers[i].joined, NULL, 0);
}

static int call_create(int rank, const link_rec *r, kv_err *e)
{
    const ask_store *how = (const ask_store *)(const void *)(r + 1);
    server_state *s = server_store(r->store);
    if (link_call_bytes(r) != sizeof *how || how->workers != server_workers() ||
        how->servers != server_count() || (how->sums && how->is_async) ||
        !memchr(how->type, '\0', sizeof how->type))
        return ask_malformed(e);
    if (!s && !(s = new_store(r->store, how, e)))
        return KV_E_MEMORY;
    if (strcmp(s->how.type, how->type) != 0 || s->how.staleness != how->staleness)
        return kv_err_set(e, KV_E_VALUE,
                          "rank %d makes a store of type \"%s\", others one of \"%s\"", rank,
                          how->type, s->how.type);
    if (s->refusal.code) {
        *e = s->refusal;
        return (int)e->code;
    }
    if (!how->is_async)
        alive_need_all();
    s->workers[rank].joined = r->request;
    if (spares_was(rank)) { /* all others have made it, or rank 0 had not let this one in */
        server_reply(rank, r->request, NULL, 0);
        return KV_OK;
    }
    if (++s->njoined == s->how.workers)
        tell_made(s);
    waits_refuse_ended(s);
    return KV_OK;
}

static void ask_optimizer(server_state *s, const link_rec *r)
{
    kv_err e = {0};
    server_optimizer *o = mem_zalloc(1, sizeof *o, &e);
    /* Two NULs behind it: whatever it holds, the texts of a pair end. */
    int64_t bytes = link_call_bytes(r);
    if (!o || !(o->text = mem_zalloc(bytes + 2, 1, &e))) {
        mem_free(o);
        net_cannot_serve(&e);
        return;
    }
    memcpy(o->text, r + 1, (size_t)bytes);
    o->bytes = bytes;
    server_optimizer **at = &s->optimizers;
    while (*at)
        at = &(*at)->next;
    *at = o;
    s->optimizers_come++;
}

static void touch_waiting(server_state *s)
{
    for (int64_t i = 0; i < s->nparts; i++)
        if (s->parts[i] && (s->parts[i]->rounds || s->parts[i]->pulls))
            parts_touch(s, s->parts[i]);
}

/* A worker takes part no more, or has left the job without saying so. With dist_async no round
 * waits for a worker, so that leaving is the same there. */
static void call_done(server_state *s, int rank, bool ended)
{
    bool done = s->workers[rank].done || !ended || s->how.is_async;
    s->ndone += done - s->workers[rank].done;
    s->workers[rank].done = done;
    s->workers[rank].ended |= ended;
    s->any_ended |= ended;
    touch_waiting(s);
}

static void call_counts_of(const server_state *s, int rank, const link_rec *r)
{
    ask_counts c = {.rounds = s->rounds, .bytes = s->bytes, .stalest = s->stalest};
    for (int64_t i = 0; i < s->nparts; i++) {
        const part *p = s->parts[i];
        c.keys += p && p->keeps && p->from == 0;
        if (p && p->rounds && !s->how.is_async) {
            c.late++;
            for (int w = 0; w < s->how.workers && w < 64; w++)
                if (server_lacks(s, p->rounds, w))
                    c.missing |= 1ull << w;
        }
        if (p && p->contributors)
            c.contributors = p->contributors;
    }
    server_reply(rank, r->request, &c, sizeof c);
}

/* Lists the waits of this store, and of each other store that one worker waits: its keys are not
 * known to the asking store. */
static void call_missed(server_state *s, int rank, const link_rec *r)
{
    ask_missed list[ASK_MOST_MISSED];
    int64_t n = waits_for(s, rank, list);
    for (server_state *other = server_stores; other && n < ASK_MOST_MISSED;
         other = other->next) {
        ask_missed one[ASK_MOST_MISSED];
        if (other != s && waits_for(other, rank, one) > 0)
            list[n++] = (ask_missed){.part = -1, .waits = one[0].waits};
    }
    server_reply(rank, r->request, list, n * (int64_t)sizeof *list);
}

static void give_states(const server_state *s, int rank, const link_rec *r)
{
    kv_err e = {0};
    buf b = {0};
    states_give(s, (const char *)(r + 1), link_call_bytes(r), &b, &e);
    server_reply_buf(rank, r->request, &b, &e);
}

/* All that rank 0 has pushed was applied, and no round ends without it: so each part is at the
 * round from which the new worker takes part in it. */
static int call_grow(server_state *s, int rank, const link_rec *r, kv_err *e)
{
    int64_t number = r->args.grow.rank;
    if (rank != 0 || number != (int)number || !spares_waits((int)number) || s->how.is_async)
        return ask_malformed(e);
    spares_let_in((int)number);
    server_worker *w = &s->workers[number];
    kv_assert(w->gone, "rank %lld is let in, and takes part in store %d", (long long)number,
              s->number);
    if (!alive_is_gone((int)number)) {
        s->ndone--;
        s->nfreed--;
        w->done = w->freed = w->gone = false;
    }
    for (int64_t i = 0; i < s->nparts; i++)
        if (s->parts[i])
            s->parts[i]->workers[number] = (part_worker){.applied = s->parts[i]->applied};
    const link_rec told = {.kind = LINK_GROWN, .args.grow = {number, r->args.grow.round}};
    for (int i = 0; i < s->how.workers && link_rank() == server_rank(0); i++)
        if (!alive_is_gone(i) && !alive_has_left(i))
            net_answer(i, told, NULL);
    return KV_OK;
}

static int call_command(const link_rec *r, kv_err *e)
{
    const char *text = (const char *)(r + 1);
    int64_t bytes = link_call_bytes(r);
    if (bytes == 0 || text[bytes - 1])
        return ask_malformed(e);
    runtime_control((int)r->args.head, text);
    return KV_OK;
}

static void take_call(int rank, const link_rec *r)
{
    kv_err e = {0};
    int rc = KV_OK;
    server_state *s = server_store(r->store);
    if (rank >= server_workers())
        rc = ask_malformed(&e);
    else if (r->what != ASK_CREATE && !s)
        rc = kv_err_set(&e, KV_E_INTERNAL, "server %d has no such store", link_rank());
    else if (r->what != ASK_CREATE && coordinator_call(s, rank, r))
        return;
    else
        switch ((dist_ask)r->what) {
        case ASK_CREATE:
            if ((rc = call_create(rank, r, &e)) == KV_OK)
                return;
            break;
        case ASK_FREE:
            s->nfreed += !s->workers[rank].freed;
            s->workers[rank].freed = true;
            if (s->nfreed == s->how.workers)
                free_store(s);
            break;
        case ASK_DONE:
            if (r->args.closes) {
                /* one that has not said that it is done waits for the others before it leaves */
                s->workers[rank].closes = s->any_ended = true;
                touch_waiting(s);
            } else
                call_done(s, rank, false);
            coordinator_left(s);
            break;
        case ASK_INIT:
            rc = parts_init(s, r, &e);
            break;
        case ASK_DROP:
            rc = parts_drop(s, r->args.drop.first, r->args.drop.nparts, &e);
            break;
        case ASK_OPTIMIZER:
            ask_optimizer(s, r);
            rounds_set_optimizers(s);
            break;
        case ASK_COMMAND:
            rc = call_command(r, &e);
            break;
        case ASK_ROWS:
            if ((rc = rounds_pull_rows(s, rank, r, &e)) == KV_OK)
                return;
            break;
        case ASK_STATES:
            give_states(s, rank, r);
            return;
        case ASK_SET_STATES:
            rc = states_take(s, (const char *)(r + 1), link_call_bytes(r), &e);
            break;
        case ASK_GROW:
            rc = call_grow(s, rank, r, &e);
            break;
        case ASK_COUNTS:
            call_counts_of(s, rank, r);
            return;
        case ASK_MISSED:
            call_missed(s, rank, r);
            return;
        case ASK_ROUNDS:
            look_rounds(s, rank, r);
            return;
        case ASK_LOOK:
            look_at_part(s, rank, r);
            return;
        default:
            rc = kv_err_set(&e, KV_E_INTERNAL, "server %d does not know call %d", link_rank(),
                            r->what);
        }
    if (rc)
        server_refuse(rank, r->request, &e);
    else
        server_reply(rank, r->request, NULL, 0);
}

static void look(int64_t now_us)
{
    for (server_state *s = server_stores; s; s = s->next)
        waits_look(s, now_us);
}

static void left(int rank)
{
    for (server_state *s = server_stores; s && rank < server_workers(); s = s->next) {
        waits_refuse_ended(s);
        call_done(s, rank, true);
        coordinator_left(s);
    }
}

/* A worker is gone: drops its calls and its mail, and no wait lacks it any more. Its contributions
 * to open rounds count if all of their records have come. */
static void gone(int rank, const char *why)
{
    (void)why;
    for (server_state *s = server_stores, *next; s && rank < server_workers(); s = next) {
        next = s->next;
        bool made = s->njoined == s->how.workers;
        if (s->workers[rank].gone)
            continue;
        lose_worker(s, rank);
        if (!made && s->njoined == s->how.workers && !s->refusal.code)
            tell_made(s);
        rounds_lose_worker(s, rank);
        coordinator_lose_worker(s, rank);
        if (s->nfreed == s->how.workers)
            free_store(s);
    }
}

static int await_leaves(bool of_spares, kv_err *e)
{
    for (int i = 0; i < server_workers(); i++)
        for (; !alive_has_left(i) && (of_spares || !spares_waits(i)); usleep(1000))
            if (alive_is_lost(e))
                return KV_E_PEER;
    return KV_OK;
}

int server_run(kv_err *e)
{
    TRY(net_open(server_open, e));
    TRY(await_leaves(false, e));
    spares_end();
    return await_leaves(true, e);
}

int server_open(kv_err *e)
{
    int i;
    static const net_taker taker = {.take = {[LINK_PUSH] = rounds_push,
                                             [LINK_PULL] = rounds_pull,
                                             [LINK_ADD] = rounds_take_add,
                                             [LINK_CALL] = take_call},
                                    .settle = rounds_settle, .left = left, .gone = gone,
                                    .look = look};
    runtime_set_rank(link_rank(), link_size());
    if (server_here(&i))
        net_add_taker(&taker);
    TRY(spares_open(e));
    return deadlock_open(e);
}
