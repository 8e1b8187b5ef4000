/* Which ranks serve, the stores that this one serves, and the calls of workers; pushes and pulls
 * go to rounds.c. */
#include "distributed/server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "core/store.h"
#include "distributed/coordinator.h"
#include "distributed/environment.h"
#include "distributed/missed.h"
#include "distributed/parts.h"
#include "distributed/rounds.h"
#include "distributed/server_state.h"
#include "distributed/states.h"
#include "distributed/straggler.h"
#include "distributed/sums.h"
#include "runtime.h"

/* ---- Which ranks serve ---- */

static int dedicated(void)
{
    const char *text = environment(ENV_SERVERS);
    int n = text ? atoi(text) : 0;
    return n > 0 && n < net_size() ? n : 0;
}

int server_workers(void)
{
    return net_size() - dedicated();
}

int server_count(void)
{
    return dedicated() ? dedicated() : net_size();
}

int server_rank(int i)
{
    return dedicated() ? server_workers() + i : i;
}

bool server_here(int *i)
{
    *i = net_rank() - (dedicated() ? server_workers() : 0);
    return *i >= 0;
}

/* ---- Stores ---- */

static struct {
    server_state *first;
} here;

void server_fail(int rank, uint64_t request, int store, int64_t id, const kv_err *e)
{
    link_rec r = {.bytes = sizeof *e, .kind = LINK_FAILED, .store = (uint16_t)store,
                  .request = request, .part = id};
    net_answer(rank, r, e);
}

server_state *server_store(int number)
{
    server_state *s = here.first;
    while (s && s->number != number)
        s = s->next;
    return s;
}

void server_reply(int rank, uint64_t request, const void *data, int64_t bytes)
{
    int64_t at = 0;
    do { /* replies to calls are short, or rare */
        int64_t n = bytes - at < LINK_PAYLOAD ? bytes - at : LINK_PAYLOAD;
        link_rec r = {.bytes = (uint32_t)n, .kind = LINK_REPLY, .request = request,
                      .flags = at + n == bytes ? LINK_LAST : 0};
        net_answer(rank, r, (const char *)data + at);
        at += n;
    } while (at < bytes);
}

void server_refuse(int rank, uint64_t request, const kv_err *e)
{
    server_fail(rank, request, 0, 0, e);
}

/* ---- Settling ---- */

static void settle(void *self)
{
    (void)self;
    for (server_state *s = here.first; s; s = s->next)
        if (s->sums)
            sums_keep(s);
        else if (s->touched || s->optimizers)
            rounds_settle(s);
}

/* ---- Calls ---- */

static void free_store(server_state *s)
{
    server_state **at = &here.first;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    coordinator_free(s);
    sums_free(s->sums);
    for (int64_t i = 0; i < s->nparts; i++)
        parts_free(s->parts[i]);
    rounds_free_spare(s);
    kv_free(s->store);
    mem_free(s->parts);
    mem_free(s->values);
    mem_free(s->keys);
    mem_free(s->batch);
    mem_free(s->batch_rounds);
    mem_free(s->done);
    mem_free(s->ended);
    mem_free(s->joined);
    mem_free(s->sources);
    mem_free(s->ends);
    mem_free(s);
}

static server_state *new_store(int number, const ask_store *how, kv_err *e)
{
    server_state *s = mem_zalloc(1, sizeof *s, e);
    if (!s)
        return NULL;
    s->number = number;
    s->created_us = net_now_us();
    s->how = *how;
    s->touched_end = &s->touched;
    s->done = mem_zalloc(how->workers, sizeof *s->done, e);
    s->ended = mem_zalloc(how->workers, sizeof *s->ended, e);
    s->joined = mem_zalloc(how->workers, sizeof *s->joined, e);
    s->sources = mem_alloc(how->workers, sizeof *s->sources, e);
    s->ends = mem_zalloc(how->workers, sizeof *s->ends, e);
    bool made = s->done && s->ended && s->joined && s->sources && s->ends;
    if (made && how->sums)
        made = (s->sums = sums_new(how->workers, e)) != NULL;
    if (!made || kv_create("local", NULL, 0, &s->store, e)) {
        sums_free(s->sums);
        mem_free(s->done);
        mem_free(s->ended);
        mem_free(s->joined);
        mem_free(s->sources);
        mem_free(s->ends);
        mem_free(s);
        return NULL;
    }
    kv_set_print(s->store, runtime_print, NULL);
    s->next = here.first;
    return here.first = s;
}

static int call_create(int rank, const link_rec *r, kv_err *e)
{
    const ask_store *how = (const ask_store *)(const void *)(r + 1);
    server_state *s = server_store(r->store);
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
    s->joined[rank] = r->request;
    if (++s->njoined == s->how.workers)
        for (int i = 0; i < s->how.workers; i++)
            server_reply(i, s->joined[i], NULL, 0);
    straggler_refuse_ended(s);
    return KV_OK;
}

static void ask_optimizer(server_state *s, const link_rec *r)
{
    kv_err unused = {0};
    server_optimizer *o = mem_zalloc(1, sizeof *o, &unused);
    if (!o || !(o->text = mem_alloc(r->bytes + 1, 1, &unused)))
        return;
    memcpy(o->text, r + 1, r->bytes);
    o->bytes = r->bytes;
    server_optimizer **at = &s->optimizers;
    while (*at)
        at = &(*at)->next;
    *at = o;
    s->optimizers_come++;
}

/* Takes part no more; or has left the job, without a word: with dist_async nobody waits for it. */
static void call_done(server_state *s, int rank, bool ended)
{
    s->done[rank] |= !ended || s->how.is_async;
    s->ended[rank] |= ended;
    s->any_ended |= ended;
    if (s->sums)
        sums_look(s);
    for (int64_t i = 0; i < s->nparts; i++)
        if (s->parts[i] && (s->parts[i]->rounds || s->parts[i]->pulls))
            parts_touch(s, s->parts[i]);
}

static void count_open(const server_state *s, const round *x, ask_counts *c)
{
    c->late++;
    for (int i = 0; i < s->how.workers && i < 64; i++)
        if (!x->by[i].complete && !s->done[i])
            c->missing |= 1ull << i;
}

static void call_counts_of(const server_state *s, int rank, const link_rec *r)
{
    ask_counts c = {.rounds = s->rounds, .bytes = s->bytes, .stalest = s->stalest};
    for (int64_t i = 0; i < s->nparts; i++) {
        const part *p = s->parts[i];
        c.keys += p && p->from == 0;
        if (p && p->rounds && !s->how.is_async)
            count_open(s, p->rounds, &c);
        if (p && p->contributors)
            c.contributors = p->contributors;
    }
    server_reply(rank, r->request, &c, sizeof c);
}

/* Also in other stores, where all that is known is that somebody waits. */
static void call_missed(const server_state *s, int rank, const link_rec *r)
{
    ask_missed list[ASK_MOST_MISSED];
    int64_t n = missed_list(s, rank, list);
    for (const server_state *other = here.first; other && n < ASK_MOST_MISSED;
         other = other->next) {
        ask_missed one[ASK_MOST_MISSED];
        if (other != s && missed_list(other, rank, one) > 0)
            list[n++] = (ask_missed){.part = -1, .waits = one[0].waits};
    }
    server_reply(rank, r->request, list, n * (int64_t)sizeof *list);
}

static int give_states(const server_state *s, int rank, const link_rec *r, kv_err *e)
{
    buf b = {0};
    int rc = states_give(s, &b, e);
    if (!rc)
        server_reply(rank, r->request, b.data, (int64_t)b.len);
    buf_release(&b);
    return rc;
}

static void take_call(int rank, const link_rec *r)
{
    kv_err e = {0};
    int rc = KV_OK;
    server_state *s = server_store(r->store);
    if (r->call.what != ASK_CREATE && !s)
        rc = kv_err_set(&e, KV_E_INTERNAL, "server %d has no such store", net_rank());
    else if (coordinator_call(s, rank, r))
        return;
    else
        switch ((dist_ask)r->call.what) {
        case ASK_CREATE:
            if ((rc = call_create(rank, r, &e)) == KV_OK)
                return;
            break;
        case ASK_FREE:
            if (++s->freed == s->how.workers)
                free_store(s);
            break;
        case ASK_DONE:
            call_done(s, rank, false);
            coordinator_left(s, rank);
            break;
        case ASK_INIT:
            rc = parts_init(s, r, &e);
            break;
        case ASK_DROP:
            rc = parts_drop(s, r->call.args.drop.first, r->call.args.drop.nparts, &e);
            break;
        case ASK_OPTIMIZER:
            ask_optimizer(s, r);
            rounds_set_optimizers(s);
            break;
        case ASK_COMMAND:
            runtime_control((int)r->call.args.head, (const char *)(r + 1));
            break;
        case ASK_ROWS:
            if ((rc = rounds_pull_rows(s, rank, r, &e)) == KV_OK)
                return;
            break;
        case ASK_STATES:
            if ((rc = give_states(s, rank, r, &e)) == KV_OK)
                return;
            break;
        case ASK_SET_STATES:
            rc = states_take(s, (const char *)(r + 1), r->bytes, &e);
            break;
        case ASK_COUNTS:
            call_counts_of(s, rank, r);
            return;
        case ASK_MISSED:
            call_missed(s, rank, r);
            return;
        default:
            rc = kv_err_set(&e, KV_E_INTERNAL, "server %d does not know call %d", net_rank(),
                            r->call.what);
        }
    if (rc)
        server_refuse(rank, r->request, &e);
    else
        server_reply(rank, r->request, NULL, 0);
}

static void take(void *self, int rank, const link_rec *r)
{
    kv_err e = {0};
    server_state *s = server_store(r->store);
    (void)self;
    if (r->kind == LINK_CALL) {
        take_call(rank, r);
        return;
    }
    int rc;
    if (!s)
        rc = kv_err_set(&e, KV_E_INTERNAL, "server %d has no such store", net_rank());
    else if (!s->sums != (r->kind != LINK_ADD))
        rc = ask_malformed(&e);
    else if (r->kind == LINK_ADD)
        rc = sums_take(s, rank, r, &e);
    else
        rc = r->kind == LINK_PUSH ? rounds_push(s, rank, r, &e) : rounds_pull(s, rank, r, &e);
    if (rc)
        server_fail(rank, r->request, r->store, r->part, &e);
}

static void look(void *self, int64_t now_us)
{
    (void)self;
    for (server_state *s = here.first; s; s = s->next)
        straggler_look(s, now_us);
}

static void left(void *self, int rank)
{
    (void)self;
    for (server_state *s = here.first; s && rank < server_workers(); s = s->next) {
        straggler_refuse_ended(s);
        call_done(s, rank, true);
        coordinator_left(s, rank);
    }
}

int server_run(kv_err *e)
{
    int rc = net_open(server_open, e);
    for (int i = 0; !rc && i < server_workers(); i++)
        while (!net_has_left(i) && !(rc = net_is_lost(e) ? KV_E_PEER : KV_OK))
            usleep(1000);
    return rc;
}

int server_open(kv_err *e)
{
    int i, other;
    net_taker t = {.take = take, .settle = settle, .left = left, .look = look, .self = &here};
    runtime_set_rank(net_rank(), net_size());
    if (!link_agree(dedicated(), &other))
        return kv_err_set(e, KV_E_VALUE,
                          "rank %d was told of %d servers, rank %d of another number: "
                          "KVSTORE_SERVERS differs",
                          net_rank(), dedicated(), other);
    if (server_here(&i))
        net_set_servers(&t);
    return KV_OK;
}
