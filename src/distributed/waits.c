/* One function visits all waits of a store, in a fixed order; its visitors log them or end them. */
#include "distributed/waits.h"

#include "base/kv_assert.h"
#include "distributed/coordinator.h"
#include "distributed/environment.h"
#include "distributed/rounds.h"
#include "distributed/server_ranks.h"
#include "runtime.h"

enum {
    SECOND_US = 1000000,
    FIRST_TOLD_S = 5 /* KVSTORE_NOTICE overrides it where a worker waits */
};

typedef struct wait {
    enum { WAIT_CREATE, WAIT_BARRIER, WAIT_WORKER, WAIT_ROUND } kind;
    server_state *s;
    int64_t since_us;
    waiter *waiter; /* WAIT_WORKER */
    round *round;   /* WAIT_ROUND */
    part *part;     /* of the round */
} wait;

/* Returns true if the worker has come, and waits for others. */
static bool has(const wait *x, int worker)
{
    switch (x->kind) {
    case WAIT_CREATE:
        return x->s->workers[worker].joined;
    case WAIT_BARRIER:
        return x->s->coordinator->at_barrier[worker];
    case WAIT_WORKER:
        return x->waiter->rank == worker;
    case WAIT_ROUND:
        return x->round->by[worker].complete;
    }
    return false;
}

/* Returns true if the others wait for the worker. */
static bool lacks(const wait *x, int worker)
{
    switch (x->kind) {
    case WAIT_CREATE:
        return !x->s->workers[worker].joined && !x->s->workers[worker].done;
    case WAIT_BARRIER:
        return coordinator_lacks(x->s, worker);
    case WAIT_WORKER:
        return x->waiter->lacks == worker;
    case WAIT_ROUND:
        return server_lacks(x->s, x->round, worker);
    }
    return false;
}

/* ---- In words ---- */

static void tell_ranks(const wait *x, const char *word, bool (*is)(const wait *x, int worker),
                       buf *out)
{
    buf_add(out, word);
    for (int i = 0; i < x->s->how.workers; i++)
        if (is(x, i))
            buf_printf(out, " %d", i);
}

static void tell_waiter(const waiter *w, buf *out)
{
    const char *at = w->keys;
    char text[SLOT_KEY_TEXT];
    kv_key key;
    if (w->tag >= 0)
        buf_printf(out, "rank %d waits for rank %d to save or load states", w->rank, w->lacks);
    else if (w->keys && ask_get_key(&at, w->keys + w->bytes, &key))
        buf_printf(out, "rank %d waits for key %s, which rank 0 has not initialised", w->rank,
                   slot_key_text(text, &key));
    else
        buf_printf(out, "rank %d waits for an optimizer, which rank 0 has not set", w->rank);
}

static void describe_wait(const wait *x, buf *out)
{
    char text[SLOT_KEY_TEXT];
    kv_key key = x->part ? x->part->key : (kv_key){0};
    bool known = x->part && (x->part->keeps || coordinator_key(x->s, x->part->id, &key));
    switch (x->kind) {
    case WAIT_CREATE:
        buf_printf(out, "create of a store of type \"%s\"", x->s->how.type);
        break;
    case WAIT_BARRIER:
        buf_add(out, "a barrier");
        break;
    case WAIT_WORKER:
        tell_waiter(x->waiter, out);
        return;
    case WAIT_ROUND:
        buf_printf(out, "round %lld of %s %s", (long long)x->round->number, known ? "key" : "a",
                   known ? slot_key_text(text, &key) : "key");
        break;
    }
    tell_ranks(x, " has ranks", has, out);
    tell_ranks(x, " and lacks", lacks, out);
}

/* ---- Giving up ---- */

/* Refuses create to its callers so far and to later ones. */
static void refuse_store(server_state *s, const kv_err *why)
{
    s->refusal = *why;
    for (int i = 0; i < s->how.workers; i++)
        if (s->workers[i].joined)
            server_refuse(i, s->workers[i].joined, why);
}

void waits_refuse_ended(server_state *s)
{
    kv_err why = {0};
    /* Asked at each call of create, of many workers it would take the square of their number. */
    if (!alive_any_left() || s->njoined == s->how.workers)
        return;
    for (int i = 0; i < s->how.workers; i++) {
        if (s->workers[i].joined || s->refusal.code || !alive_has_left(i))
            continue;
        kv_err_set(&why, KV_E_PEER, "rank %d has ended, and create waits for it", i);
        why.rank = i;
        why.has_rank = true;
        refuse_store(s, &why);
    }
}

static void give_up(const wait *x)
{
    kv_err why = {0};
    buf text = {0};
    kv_assert(x->kind != WAIT_ROUND || x->round->number == x->part->applied + 1,
              "round %lld of part %lld is given up before an earlier one",
              (long long)(x->round ? x->round->number : 0), (long long)(x->part ? x->part->id : 0));
    describe_wait(x, &text);
    kv_err_set(&why, KV_E_TIMEOUT, "gave up: %s", buf_text(&text));
    buf_release(&text);
    switch (x->kind) {
    case WAIT_CREATE:
        refuse_store(x->s, &why);
        break;
    case WAIT_BARRIER:
        coordinator_end_barrier(x->s, &why);
        break;
    case WAIT_WORKER:
        coordinator_end_waiter(x->s, x->waiter, &why);
        break;
    case WAIT_ROUND:
        if (x->part->keeps)
            kv_err_key(&why, &x->part->key);
        rounds_give_up(x->s, x->part, x->round, &why);
    }
}

/* ---- All waits ---- */

/* Returns true if nobody waits for the round: those that have contributed are gone. */
static bool only_gone_have(const server_state *s, const round *x)
{
    bool only = true;
    for (int i = 0; i < s->how.workers && only; i++)
        only = !x->by[i].complete || s->workers[i].gone;
    return only;
}

/* A visitor may give up the wait that it is shown. */
static void visit_waits(server_state *s, void (*visit)(const wait *x, void *arg), void *arg)
{
    const coordinator *c = s->coordinator;
    if (s->njoined < s->how.workers && !s->refusal.code)
        visit(&(wait){.kind = WAIT_CREATE, .s = s, .since_us = s->created_us}, arg);
    if (c && c->barrier_us)
        visit(&(wait){.kind = WAIT_BARRIER, .s = s, .since_us = c->barrier_us}, arg);
    for (waiter *w = c ? c->waiters : NULL, *next; w; w = next) {
        next = w->next;
        visit(&(wait){.kind = WAIT_WORKER, .s = s, .since_us = w->since_us, .waiter = w}, arg);
    }
    for (int64_t i = 0; i < s->nparts && !s->how.is_async; i++) {
        part *p = s->parts[i];
        for (round *r = p ? p->rounds : NULL, *next; r; r = next) {
            next = r->next;
            if (r->have > 0 && !(s->any_gone && only_gone_have(s, r)))
                visit(&(wait){.kind = WAIT_ROUND, .s = s, .since_us = r->since_us, .round = r,
                              .part = p}, arg);
        }
    }
}

/* The result of a visit of all waits. */
typedef struct look {
    int64_t before; /* waits that began before this time are given up */
    wait oldest;    /* of the others, the first that is due in the log; s is NULL: there is none */
    int64_t due_us; /* when that is */
    int64_t rounds; /* how many of the others are rounds */
} look;

/* When the log tells it. A round whose pushes alone have come, so that no worker waits for it yet,
 * is not worth an early line. */
static int64_t due_us(const wait *x)
{
    bool waits = x->kind != WAIT_ROUND || x->part->pulls || !x->part->keeps;
    double after = waits ? environment_number(ENV_NOTICE, FIRST_TOLD_S) : FIRST_TOLD_S;
    return x->since_us + (int64_t)(after * SECOND_US);
}

static void look_at(const wait *x, void *arg)
{
    look *l = arg;
    bool waits = x->kind != WAIT_ROUND;
    for (int i = 0; i < x->s->how.workers && !waits; i++)
        waits = x->round->number == x->part->applied + 1 && lacks(x, i);
    if (!waits)
        return;
    if (x->since_us < l->before) {
        give_up(x);
        return;
    }
    l->rounds += x->kind == WAIT_ROUND;
    int64_t due = due_us(x);
    if (!l->oldest.s || due < l->due_us) {
        l->oldest = *x;
        l->due_us = due;
    }
}

void waits_look(server_state *s, int64_t now_us)
{
    double limit = net_timeout();
    look l = {.before = limit > 0 ? now_us - (int64_t)(limit * SECOND_US) : INT64_MIN};
    visit_waits(s, look_at, &l);
    if (!l.oldest.s || now_us < l.due_us) {
        s->told_us = 0;
        s->wait_us = FIRST_TOLD_S * SECOND_US;
        return;
    }
    if (now_us - s->told_us <= s->wait_us)
        return;
    buf text = {0};
    describe_wait(&l.oldest, &text);
    if (l.oldest.kind == WAIT_ROUND && l.rounds > 1)
        buf_printf(&text, ", and so have %lld other parts of keys", (long long)l.rounds - 1);
    s->told_us = now_us;
    s->wait_us *= 2;
    runtime_log("%s; %lld s so far", buf_text(&text),
                (long long)((now_us - l.oldest.since_us) / SECOND_US));
    buf_release(&text);
}

/* ---- Workers that are missed ---- */

typedef struct missed {
    int rank;
    ask_missed *list;
    int64_t n;
} missed;

static void add_missed(missed *m, int64_t id, int64_t number, int waits)
{
    if (m->n < ASK_MOST_MISSED)
        m->list[m->n++] = (ask_missed){id, number, waits};
}

static void add_if_missed(const wait *x, void *arg)
{
    missed *m = arg;
    int other = 0;
    while (other < x->s->how.workers && !has(x, other))
        other++;
    if (other == x->s->how.workers || !lacks(x, m->rank))
        return;
    if (x->kind == WAIT_ROUND)
        add_missed(m, x->part->id, x->round->number, other);
    else
        add_missed(m, -1, 0, other);
}

/* With a bound on staleness a push or a pull waits for the workers that are too far behind. */
static void add_if_stale(const server_state *s, const part *p, missed *m)
{
    int64_t bound = s->how.staleness, at = p->workers[m->rank].applied;
    int waits = -1;
    for (const round *x = p->rounds; x && waits < 0; x = x->next)
        if (x->worker != m->rank && x->by[0].complete && x->number - 1 - at > bound)
            waits = x->worker;
    for (const server_pull *x = p->pulls; x && waits < 0; x = x->next)
        if (x->rank != m->rank && x->round > bound && x->round - bound > at) /* may be any number */
            waits = x->rank;
    if (waits >= 0)
        add_missed(m, p->id, at + 1, waits);
}

int64_t waits_for(server_state *s, int rank, ask_missed *list)
{
    missed m = {rank, list, 0};
    if (s->refusal.code || s->workers[rank].done)
        return 0;
    visit_waits(s, add_if_missed, &m);
    for (int64_t i = 0; i < s->nparts && s->how.is_async && s->how.staleness >= 0; i++)
        if (s->parts[i])
            add_if_stale(s, s->parts[i], &m);
    return m.n;
}

/* ---- Workers that wait ---- */

static void add_lack(ask_lack *by_worker, const ask_lack *one)
{
    if (by_worker[one->rank].lacks < 0)
        by_worker[one->rank] = *one;
}

static void add_lacked(const wait *x, void *arg)
{
    int other = 0, workers = x->s->how.workers;
    bool in_round = x->kind == WAIT_ROUND;
    while (other < workers && !lacks(x, other))
        other++;
    for (int i = 0; i < workers && other < workers; i++)
        if (has(x, i))
            add_lack(arg, &(ask_lack){.rank = i, .lacks = other, .store = x->s->number,
                                      .in_round = in_round, .part = in_round ? x->part->id : 0,
                                      .round = in_round ? x->round->number : 0});
}

/* With a bound on staleness: a worker whose pushes are more than that behind those of `rank`. */
static void add_slow(const server_state *s, const part *p, int rank, int64_t at, ask_lack *list)
{
    for (int i = 0; i < s->how.workers; i++)
        if (i != rank && !s->workers[i].done && at - s->how.staleness > p->workers[i].applied)
            add_lack(list, &(ask_lack){.rank = rank, .lacks = i, .store = s->number, .in_round = 1,
                                       .part = p->id, .round = p->workers[i].applied + 1});
}

void waits_lacked(ask_lack *by_worker)
{
    for (int i = 0; i < server_workers(); i++)
        by_worker[i] = (ask_lack){.rank = i, .lacks = -1};
    for (server_state *s = server_stores; s; s = s->next) {
        visit_waits(s, add_lacked, by_worker);
        for (int64_t i = 0; i < s->nparts && s->how.is_async && s->how.staleness >= 0; i++) {
            const part *p = s->parts[i];
            for (const round *x = p ? p->rounds : NULL; x; x = x->next)
                if (x->by[0].complete)
                    add_slow(s, p, x->worker, x->number - 1, by_worker);
            for (const server_pull *x = p ? p->pulls : NULL; x; x = x->next)
                add_slow(s, p, x->rank, x->round, by_worker);
        }
    }
}
