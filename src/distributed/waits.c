/* One function visits all waits of a store, in a fixed order; its visitors log them or end them.
 * Behind that: the reports of this rank, on the first server those of all ranks, and the proof of a
 * deadlock. */
#include "distributed/waits.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/slot.h"
#include "distributed/alive.h"
#include "distributed/coordinator.h"
#include "distributed/environment.h"
#include "distributed/link.h"
#include "distributed/server_ranks.h"
#include "distributed/server_state.h"
#include "distributed/spares.h"
#include "engine/pool.h"
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
    own_buf text = {0};
    describe_wait(&l.oldest, &text);
    if (l.oldest.kind == WAIT_ROUND && l.rounds > 1)
        buf_printf(&text, ", and so have %lld other parts of keys", (long long)l.rounds - 1);
    s->told_us = now_us;
    s->wait_us *= 2;
    runtime_log("%s; %lld s so far", buf_text(&text),
                (long long)((now_us - l.oldest.since_us) / SECOND_US));
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

/* Finds for each worker that waits at this server one that it waits for. */
static void find_lacked(ask_lack *by_worker)
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

/* ---- Deadlocks ---- */

enum {
    REPORT_US = 1000000,  /* between two reports of a rank that waits */
    QUESTION_US = 1000000, /* between two questions */
    WAIT_US = 1000000      /* all wait for so long before they are in a deadlock */
};

/* On the first server: what a rank has reported. */
typedef struct reported {
    ask_report last;
    int64_t before; /* the number of the next question when such a report came first */
    bool come;
} reported;

/* The worker that a worker waits for, as one of the servers that wait for it has reported. */
typedef struct lacking {
    ask_lack lack; /* lacks < 0: no server waits for the worker */
    int32_t server;
} lacking;

/* All of it belongs to the thread that drives the net. */
static struct {
    int64_t asked, answered; /* the last question that came, and that was answered */
    int64_t reported_us;
    char *report;    /* ask_report, and behind it as many ask_lack as there are workers */

    reported *ranks;  /* on the first server: by rank */
    lacking *lacks;   /* on the first server: by worker */
    int64_t question; /* the last one that was sent */
    int64_t asked_us, wait_us; /* when; since when all wait, 0: they do not */
    bool told;
} here;

/* ---- The report of this rank ---- */

/* Returns the number of ask_lack behind the report. */
static int make_report(bool idle, bool leaves)
{
    ask_report *r = (ask_report *)(void *)here.report;
    ask_lack *lacks = (ask_lack *)(void *)(r + 1);
    int n = 0, unused;
    net_traffic t = net_count_traffic();
    bool has_script = link_rank() < server_workers() && !spares_waits(link_rank());
    *r = (ask_report){.sent = t.sent, .taken = t.taken, .gone = t.gone, .asked = here.asked,
                      .ended = leaves || !has_script};
    /* The script is asked twice, since the end of a task may end its wait. */
    uint64_t waiting = r->ended || !idle ? 0 : script_waits(r->place, sizeof r->place);
    r->idle = idle && pool_is_idle() && (r->ended || (waiting && script_waits(NULL, 0) == waiting));
    r->waits = r->idle && !r->ended;
    if (!r->idle || !server_here(&unused))
        return 0;
    find_lacked(lacks);
    for (int w = 0; w < server_workers(); w++)
        if (lacks[w].lacks >= 0)
            lacks[n++] = lacks[w];
    return n;
}

static void send_report(int64_t now_us, bool idle, bool leaves)
{
    const ask_report *r = (const ask_report *)(void *)here.report;
    bool answers = here.asked != here.answered;
    if (!answers && (leaves || alive_has_left(server_rank(0)) ||
                     now_us - here.reported_us < REPORT_US))
        return;
    int n = make_report(idle, leaves);
    if (!answers && !r->waits)
        return;
    here.reported_us = now_us;
    size_t bytes = sizeof *r + (size_t)n * sizeof(ask_lack);
    net_answer(server_rank(0), (link_rec){.kind = LINK_BEAT, .bytes = (uint32_t)bytes}, r);
    here.answered = here.asked;
}

/* ---- The first server ---- */

static void keep_report(int rank, const void *payload, int n)
{
    reported *x = &here.ranks[rank];
    const ask_report *r = payload;
    const ask_lack *lacks = (const ask_lack *)(const void *)(r + 1);
    if (!x->come || x->last.sent != r->sent || x->last.taken != r->taken ||
        x->last.gone != r->gone || !x->last.idle || !r->idle || x->last.ended != r->ended)
        x->before = here.question + 1;
    x->come = true;
    x->last = *r;
    x->last.place[sizeof x->last.place - 1] = '\0';
    for (int w = 0; w < server_workers(); w++)
        if (here.lacks[w].server == rank)
            here.lacks[w].lack.lacks = -1;
    for (int i = 0; i < n; i++)
        if (lacks[i].rank >= 0 && lacks[i].rank < server_workers() &&
            lacks[i].lacks < server_workers())
            here.lacks[lacks[i].rank] = (lacking){lacks[i], rank};
}

static void take_beat(int rank, const link_rec *r)
{
    int64_t question;
    if (r->bytes == sizeof question && rank == server_rank(0)) {
        memcpy(&question, r + 1, sizeof question);
        here.asked = question;
    } else if (r->bytes >= sizeof(ask_report) && here.ranks) {
        keep_report(rank, r + 1, (int)((r->bytes - sizeof(ask_report)) / sizeof(ask_lack)));
    }
}

/* The worker that a worker waits for; NULL: no server knows one. Of several servers that know one
 * the last report counts: another one that it hid comes back with the next question. */
static const ask_lack *lack_of(int rank)
{
    const lacking *x = &here.lacks[rank];
    return x->lack.lacks >= 0 && !alive_is_gone(x->server) ? &x->lack : NULL;
}

/* Returns true if every worker waits or has left, as they have reported, and some wait. Servers and
 * ranks that have left report when they are asked. */
static bool all_wait(void)
{
    bool all = true, waits = false;
    for (int r = 0; r < server_workers() && all; r++) {
        const ask_report *last = &here.ranks[r].last;
        waits |= last->waits;
        all = last->waits || alive_is_gone(r) || spares_waits(r) || alive_has_left(r);
    }
    return all && waits;
}

static bool is_asked(void)
{
    bool answered = true;
    for (int r = 0; r < link_size() && answered; r++)
        answered = alive_is_gone(r) || r == link_rank() ||
                   here.ranks[r].last.asked == here.question;
    return !answered;
}

static bool is_proven(void)
{
    int64_t sent = 0, taken = 0;
    for (int r = 0; r < link_size(); r++) {
        const reported *x = &here.ranks[r];
        if (alive_is_gone(r))
            continue;
        if (!x->come || !x->last.idle || x->last.gone != here.ranks[link_rank()].last.gone)
            return false;
        if (x->before > here.question || x->last.asked != here.question)
            return false;
        sent += x->last.sent;
        taken += x->last.taken;
        const ask_lack *lack = x->last.waits ? lack_of(r) : NULL;
        if (x->last.waits && (!lack || !here.ranks[lack->lacks].last.waits))
            return false;
    }
    return sent == taken;
}

/* "rank 1: pull w, round 1 lacks rank 0, d.kv:7": the round stands in front of the place. */
static void describe_rank(buf *out, int rank)
{
    const char *at = here.ranks[rank].last.place, *file = strrchr(at, ',');
    const ask_lack *lack = lack_of(rank);
    size_t n = file ? (size_t)(file - at) : strlen(at);
    buf_printf(out, "; rank %d: %.*s", rank, (int)n, at);
    if (lack && lack->in_round) {
        char text[SLOT_KEY_TEXT];
        kv_key key;
        const server_state *s = server_store(lack->store);
        bool known = s && s->coordinator && coordinator_key(s, lack->part, &key);
        buf_printf(out, ", round %lld", (long long)lack->round);
        if (known && !memchr(at, ' ', n))
            buf_printf(out, " of key %s", slot_key_text(text, &key));
        buf_printf(out, " lacks rank %d", lack->lacks);
    }
    if (file)
        buf_add(out, file);
}

static void tell(void)
{
    enum { MOST = 440 /* bytes: it travels in a cell of the launcher */ };
    own_buf text = {0}, one = {0};
    int left = 0;
    buf_add(&text, "deadlock: all ranks wait for each other");
    for (int r = 0; r < server_workers(); r++) {
        if (!here.ranks[r].last.waits || alive_is_gone(r))
            continue;
        buf_clear(&one);
        describe_rank(&one, r);
        if (left > 0 || text.len + one.len > MOST)
            left++;
        else
            buf_add(&text, buf_text(&one));
    }
    if (left > 0)
        buf_printf(&text, "; and %d more", left);
    const char *how = environment(ENV_DEADLOCK);
    if (how && strcmp(how, "0") == 0)
        runtime_log("%s", buf_text(&text));
    else
        alive_told(-1, buf_text(&text));
}

static void look_at_all(int64_t now_us, bool idle, bool leaves)
{
    if (leaves) /* the others may have left as well: who asks them would not be heard */
        return;
    here.asked = here.question;
    keep_report(link_rank(), here.report, make_report(idle, leaves));
    if (!all_wait()) {
        here.wait_us = 0;
        here.told = false;
        return;
    }
    here.wait_us = here.wait_us ? here.wait_us : now_us;
    if (here.told || is_asked())
        return;
    if (now_us - here.wait_us >= WAIT_US && is_proven()) {
        here.told = true;
        tell();
    } else if (now_us - here.asked_us >= QUESTION_US) {
        here.asked_us = now_us;
        here.question++;
        const link_rec beat = {.kind = LINK_BEAT, .bytes = sizeof here.question};
        for (int r = 0; r < link_size(); r++)
            if (r != link_rank() && !alive_is_gone(r))
                net_answer(r, beat, &here.question);
    }
}

/* ---- For the net ---- */

static void rest(int64_t now_us, bool idle, bool leaves)
{
    if (here.ranks)
        look_at_all(now_us, idle, leaves);
    else
        send_report(now_us, idle, leaves);
}

/* A question that was sent gets an answer: until it has come the link of neither rank may close. */
static bool is_settled(void)
{
    return here.ranks ? !is_asked() : here.answered == here.asked;
}

int deadlock_open(kv_err *e)
{
    static const net_taker taker = {.take = {[LINK_BEAT] = take_beat}, .rest = rest,
                                    .settled = is_settled};
    here.report =
        mem_zalloc(1, sizeof(ask_report) + (size_t)server_workers() * sizeof(ask_lack), e);
    bool good = here.report != NULL;
    if (good && link_rank() == server_rank(0)) {
        here.ranks = mem_zalloc(link_size(), sizeof *here.ranks, e);
        here.lacks = mem_zalloc(server_workers(), sizeof *here.lacks, e);
        good = here.ranks && here.lacks;
        for (int w = 0; w < server_workers() && good; w++)
            here.lacks[w].lack.lacks = -1;
    }
    net_add_taker(&taker);
    return good ? KV_OK : KV_E_MEMORY;
}
