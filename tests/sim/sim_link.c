/* A record that was sent lies with its receiver, in a heap by the time of its arrival, until it was
 * handed out and released. */
#include "sim_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/link.h"
#include "engine/pool.h"

enum { POLL_NS = 1000 /* of a poll that finds nothing */, MEET_NS = 1000000 };

typedef struct record {
    int64_t arrives_ns;
    uint64_t order;
    struct channel *by;
    int64_t bytes; /* with the header */
    int32_t priority; /* INT32_MIN: none */
    bool overtakes;
    struct record *next; /* of those that were handed out, or wait for link_flush */
    _Alignas(8) link_rec head;
} record;

/* One direction between two ranks. */
typedef struct channel {
    int from, to;
    int64_t in_flight; /* bytes that were committed and not released */
    int64_t last_ns;   /* when the last record arrives */
    int32_t urgent;    /* the largest priority of those in flight, or of some before */
    int64_t taken;     /* bytes in this poll */
    bool full;         /* its sender waits for room */
    struct channel *next; /* of its sender, in the same list */
} channel;

typedef struct end {
    channel **to;  /* all channels of this sender: lists, by the receiver's number */
    int64_t nto, lists;
    record *open;  /* reserved */
    record *unsent, **unsent_end; /* committed, and not flushed */
    record **heap; /* arriving, heap[1] first */
    int64_t nheap, cap;
    record *given, **given_end; /* handed out, not released */
    bool woken, leaves;
    enum { AWAKE, DEAF, LISTENING } sleeper; /* where fibers share processors */
    int64_t bytes, records;
} end;

static struct {
    link_costs near, far;
    bool drawn;
    end *ends;
    uint64_t orders;
    int opened, closed; /* ranks that have come, or have ended */
    struct agreement {
        int *numbers; /* of the ranks */
        int n;        /* that came */
        int first;    /* of them */
        int differs;  /* a rank that passed another number than that; -1: none did */
    } agreements[2];
    int *agreed; /* by rank: how often it has called link_agree */
    int late;    /* this rank goes on so much later than the others when all have joined */
    int64_t late_ns;
    char (*names)[16]; /* of hosts */
    void (*watch)(int from, int to, const void *head);
    int long_a, long_b; /* hosts */
    link_costs longer;  /* between them; latency 0: as between others */
    int64_t lose; /* the record that gets lost, counted down */
    struct cut {
        int a, b;
        int64_t until_ns;
    } cuts[8];
    int ncuts;
} net;

static int here(void)
{
    return world_here()->number;
}

static const link_costs *costs_of(int from, int to)
{
    int a = world_ranks[from].host, b = world_ranks[to].host;
    if (a == b)
        return &net.near;
    bool is_long = net.longer.latency_ns && ((a == net.long_a && b == net.long_b) ||
                                             (a == net.long_b && b == net.long_a));
    return is_long ? &net.longer : &net.far;
}

void sim_link_longer(int host, int other, int64_t latency_ns)
{
    net.long_a = host;
    net.long_b = other;
    net.longer = net.far;
    net.longer.latency_ns = latency_ns;
}

void sim_link_watch(void (*taken)(int from, int to, const void *head))
{
    net.watch = taken;
}

void sim_link_open(const link_costs *near, const link_costs *far, bool drawn)
{
    net.near = *near;
    net.far = *far;
    net.drawn = drawn;
    net.ends = calloc((size_t)world_size, sizeof *net.ends);
    net.agreed = calloc((size_t)world_size, sizeof *net.agreed);
    for (int i = 0; i < 2; i++)
        net.agreements[i] = (struct agreement){
            .numbers = calloc((size_t)world_size, sizeof(int)), .differs = -1};
    int hosts = 0;
    for (int i = 0; i < world_size; i++)
        hosts = world_ranks[i].host >= hosts ? world_ranks[i].host + 1 : hosts;
    net.names = calloc((size_t)hosts, sizeof *net.names);
    for (int h = 0; h < hosts; h++)
        snprintf(net.names[h], sizeof *net.names, "n%d", h);
    for (int i = 0; i < world_size; i++) {
        net.ends[i].unsent_end = &net.ends[i].unsent;
        net.ends[i].given_end = &net.ends[i].given;
    }
}

void sim_link_lose(int64_t n)
{
    net.lose = n;
}

void sim_link_cut(int host, int other, int64_t until_ns)
{
    net.cuts[net.ncuts++ % 8] = (struct cut){host, other, until_ns};
}

void sim_link_late(int rank, int64_t ns)
{
    net.late = rank;
    net.late_ns = ns;
}

bool sim_link_joined(void)
{
    return net.agreements[1].n == world_size;
}

bool sim_link_leaves(int rank)
{
    return net.ends[rank].leaves;
}

int64_t sim_link_bytes(int rank)
{
    return net.ends[rank].bytes;
}

int64_t sim_link_records(int rank)
{
    return net.ends[rank].records;
}

/* ---- Joining ---- */

/* Waits until `count` has come to the number of ranks, as ranks that are killed never do. */
static void meet(int *count)
{
    for (++*count; *count < world_size;)
        world_block(NULL, world_now() + MEET_NS);
}

int link_open(kv_err *e)
{
    (void)e;
    world_call();
    meet(&net.opened);
    return KV_OK;
}

bool link_agree(int number, int *other)
{
    int mine = here();
    struct agreement *a = &net.agreements[net.agreed[mine]++];
    if (a->n == 0)
        a->first = mine;
    a->numbers[mine] = number;
    if (number != a->numbers[a->first] && a->differs < 0)
        a->differs = mine;
    meet(&a->n);
    if (net.agreed[mine] == 2 && mine == net.late && net.late_ns > 0)
        world_block(NULL, world_now() + net.late_ns);
    *other = a->differs < 0 ? -1 : a->numbers[a->first] != number ? a->first : a->differs;
    return *other < 0;
}

void link_close(void)
{
    net.ends[here()].leaves = true;
    if (!getenv("KVSTORE_ELASTIC"))
        meet(&net.closed);
}

/* As in Open MPI, where MPI_Finalize returns when the others have ended. */
void sim_link_gone(int rank)
{
    net.closed += !net.ends[rank].leaves;
}

int link_rank(void)
{
    return here();
}

int link_size(void)
{
    return world_size;
}

const char *link_host(int rank)
{
    return net.names[world_ranks[rank].host];
}

int link_processors(void)
{
    return pool_workers();
}

bool link_shares_memory(int rank)
{
    return world_ranks[rank].host == world_here()->host;
}

/* ---- Sending ---- */

/* More lists, so that each has about one channel. */
static bool spread_channels(end *mine)
{
    int64_t more = mine->lists ? 4 * mine->lists : 8;
    channel **to = calloc((size_t)more, sizeof(channel *));
    if (!to)
        return false;
    for (int64_t i = 0; i < mine->lists; i++)
        for (channel *c = mine->to[i], *next; c; c = next) {
            next = c->next;
            c->next = to[c->to & (more - 1)];
            to[c->to & (more - 1)] = c;
        }
    free(mine->to);
    mine->to = to;
    mine->lists = more;
    return true;
}

static channel *channel_to(int rank)
{
    end *mine = &net.ends[here()];
    if (mine->nto == mine->lists && !spread_channels(mine))
        return NULL;
    channel **at = &mine->to[rank & (mine->lists - 1)], *c = *at;
    while (c && c->to != rank)
        c = c->next;
    if (c || !(c = calloc(1, sizeof *c)))
        return c;
    *c = (channel){.from = here(), .to = rank, .next = *at};
    mine->nto++;
    return *at = c;
}

/* Small records that overtake others have room of their own. */
static bool has_room(const channel *c, int64_t bytes, bool overtakes)
{
    enum { OWN = 64 << 10 };
    int64_t room = costs_of(c->from, c->to)->room_bytes + (overtakes ? OWN : 0);
    return c->in_flight == 0 || c->in_flight + bytes <= room;
}

link_rec *link_reserve_by(int rank, int64_t bytes, int32_t priority, bool whole)
{
    end *mine = &net.ends[here()];
    channel *c = channel_to(rank);
    int64_t all = link_whole(bytes);
    if (c && c->in_flight == 0)
        c->urgent = INT32_MIN;
    bool overtakes = c && whole && bytes <= LINK_EXPRESS && c->in_flight > 0 &&
                     costs_of(here(), rank) == &net.near && priority > c->urgent;
    if (!c || !has_room(c, all, overtakes)) {
        if (c)
            c->full = true;
        return NULL;
    }
    free(mine->open);
    mine->open = malloc(sizeof(record) + (size_t)all);
    if (!mine->open)
        return NULL;
    *mine->open = (record){.by = c, .bytes = all, .priority = priority, .overtakes = overtakes};
    return &mine->open->head;
}

link_rec *link_reserve(int rank, int64_t bytes)
{
    return link_reserve_by(rank, bytes, INT32_MIN, false);
}

static void send_off(record *r);

void link_commit(int rank)
{
    end *mine = &net.ends[here()];
    record *r = mine->open;
    const link_costs *k = costs_of(here(), rank);
    mine->open = NULL;
    if (r->head.bytes > 0 && net.lose > 0 && --net.lose == 0) {
        free(r);
        return;
    }
    r->bytes = link_whole(r->head.bytes);
    r->by->in_flight += r->bytes;
    r->next = NULL;
    if (r->overtakes) {
        send_off(r);
    } else {
        r->by->urgent = r->priority > r->by->urgent ? r->priority : r->by->urgent;
        *mine->unsent_end = r;
        mine->unsent_end = &r->next;
    }
    mine->bytes += r->bytes;
    mine->records++;
    double copy_ns = k == &net.near ? k->gap_ns * (double)r->bytes : 0;
    world_spend(k->overhead_ns + (int64_t)copy_ns);
}

int64_t sim_link_cut_until(int a, int b)
{
    int64_t until = 0;
    for (int i = 0; i < 8; i++) {
        const struct cut *c = &net.cuts[i];
        if (((c->a == a && c->b == b) || (c->a == b && c->b == a)) && c->until_ns > until)
            until = c->until_ns;
    }
    return until;
}

static bool before(const record *a, const record *b)
{
    return a->arrives_ns < b->arrives_ns ||
           (a->arrives_ns == b->arrives_ns && a->order < b->order);
}

static void arrive(end *to, record *r)
{
    if (to->nheap + 2 > to->cap) {
        to->cap = to->cap ? 2 * to->cap : 64;
        to->heap = realloc(to->heap, (size_t)to->cap * sizeof(record *));
    }
    int64_t i = ++to->nheap;
    for (; i > 1 && before(r, to->heap[i / 2]); i /= 2)
        to->heap[i] = to->heap[i / 2];
    to->heap[i] = r;
}

static record *take_first(end *to)
{
    record *first = to->heap[1], *last = to->heap[to->nheap--];
    int64_t i = 1;
    for (int64_t c; (c = 2 * i) <= to->nheap; i = c) {
        if (c < to->nheap && before(to->heap[c + 1], to->heap[c]))
            c++;
        if (!before(to->heap[c], last))
            break;
        to->heap[i] = to->heap[c];
    }
    if (to->nheap > 0)
        to->heap[i] = last;
    return first;
}

static void send_off(record *r)
{
    channel *c = r->by;
    const link_costs *k = costs_of(c->from, c->to);
    int64_t latency = net.drawn ? world_about(k->latency_ns) : k->latency_ns;
    int64_t leaves = world_now();
    int64_t cut = sim_link_cut_until(world_ranks[c->from].host, world_ranks[c->to].host);
    if (k != &net.near) /* the wire takes one record behind the other */
        leaves = (leaves > c->last_ns - k->latency_ns ? leaves : c->last_ns - k->latency_ns) +
                 (int64_t)(k->gap_ns * (double)r->bytes);
    r->arrives_ns = leaves + latency;
    r->arrives_ns = r->arrives_ns > cut ? r->arrives_ns : cut;
    r->arrives_ns = r->arrives_ns > c->last_ns ? r->arrives_ns : c->last_ns;
    r->order = net.orders++;
    if (r->overtakes)
        r->arrives_ns = 0; /* it lies before all that have come, and behind those that did so too */
    else
        c->last_ns = r->arrives_ns;
    arrive(&net.ends[c->to], r);
    int64_t seen = r->overtakes ? leaves : r->arrives_ns;
    if (net.ends[c->to].sleeper == LISTENING && k == &net.near) {
        net.ends[c->to].sleeper = AWAKE;
        world_owe((double)world_wake_at(&world_ranks[c->to], &net.ends[c->to], seen));
    }
    world_news(&world_ranks[c->to], seen);
}

bool link_sent_much(void)
{
    return false; /* a thread that sends takes no virtual time from the one that polls */
}

void link_flush(void)
{
    end *mine = &net.ends[here()];
    while (mine->unsent) {
        record *r = mine->unsent;
        mine->unsent = r->next;
        send_off(r);
    }
    mine->unsent_end = &mine->unsent;
}

/* ---- Receiving ---- */

static void note_news(int rank)
{
    const end *e = &net.ends[rank];
    world_ranks[rank].news_ns = e->nheap > 0 ? e->heap[1]->arrives_ns : WORLD_FOREVER;
}

bool link_poll(void (*take)(int rank, const link_rec *r), int64_t bytes)
{
    end *mine = &net.ends[here()];
    bool any = false;
    world_call();
    int64_t left = bytes; /* of all senders together */
    while (mine->nheap > 0 && mine->heap[1]->arrives_ns <= world_now() && left > 0) {
        record *r = take_first(mine);
        left -= r->bytes;
        r->next = NULL;
        *mine->given_end = r;
        mine->given_end = &r->next;
        world_spend(costs_of(r->by->from, r->by->to)->overhead_ns);
        if (net.watch && r->head.bytes > 0)
            net.watch(r->by->from, r->by->to, &r->head);
        take(r->by->from, &r->head);
        any = true;
    }
    note_news(here());
    if (!any && !world_prices()->processors)
        world_doze(POLL_NS);
    return any;
}

void link_release(void)
{
    end *mine = &net.ends[here()];
    while (mine->given) {
        record *r = mine->given;
        mine->given = r->next;
        r->by->in_flight -= r->bytes;
        if (r->by->full) { /* the sender has room: it looks again */
            r->by->full = false;
            net.ends[r->by->from].woken = true;
            world_ranks[r->by->from].news_ns = WORLD_FOREVER;
            world_news(&world_ranks[r->by->from], world_now());
        }
        memset(&r->head, 0xa5, (size_t)r->bytes); /* nobody may read it any more */
        free(r);
    }
    mine->given_end = &mine->given;
}

/* ---- Sleep ---- */

bool link_prepare_sleep(bool listening)
{
    end *mine = &net.ends[here()];
    world_call();
    mine->sleeper = listening ? LISTENING : DEAF;
    bool came = listening && mine->nheap > 0 && mine->heap[1]->arrives_ns <= world_now();
    bool rests = !came && !mine->woken;
    if (!rests)
        mine->sleeper = AWAKE;
    mine->woken = mine->woken && rests; /* once: the thread looks again */
    return rests;
}

void link_sleep(int64_t us)
{
    end *mine = &net.ends[here()];
    if (us > 0 && mine->sleeper != AWAKE && world_prices()->processors)
        world_block(mine, world_now() + us * 1000);
    else if (us > 0 && !mine->woken && !world_prices()->processors)
        world_doze(us * 1000);
    mine->sleeper = AWAKE;
    mine->woken = false;
}

/* A thread that dozes for its rank looks again. */
void link_wake(void)
{
    int rank = here();
    net.ends[rank].woken = true;
    if (net.ends[rank].sleeper != AWAKE && world_prices()->processors) {
        net.ends[rank].sleeper = AWAKE;
        world_owe((double)world_wake_at(&world_ranks[rank], &net.ends[rank], world_now()));
    }
    world_ranks[rank].news_ns = WORLD_FOREVER;
    world_news(&world_ranks[rank], world_now());
    note_news(rank);
    world_call();
}

bool link_outlives_ranks(void)
{
    return true;
}

int link_gone(int rank, kv_err *e)
{
    (void)rank, (void)e;
    return KV_OK;
}
