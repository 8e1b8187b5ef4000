/* The thread that drives holds one lock; a small one guards posted items until it queues them. */
#include "distributed/net.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/stop.h"
#include "distributed/alive.h"
#include "distributed/asks.h"
#include "distributed/environment.h"
#include "distributed/net_calls.h"
#include "distributed/server_ranks.h"
#include "engine/pool.h"
#include "runtime.h"

enum {
    TAKE_CROWDED = 1 << 20, /* bytes of one rank's records, before the net settles */
    SPIN_US = 50,
    SLEEP_LEAST_US = 10,
    SLEEP_MOST_US = 1000,
    SLEEP_HEARD_US = 10000, /* where every rank wakes this one */
    STARVED_US = 200000,    /* without memory for a record to itself, until a rank gives up */
    LOOK_US = 100000,       /* between two looks at the other ranks and at waits */
    LONG_US = 500000,       /* a wait to which a millisecond more does no harm */
    LOG_US = 5000000,       /* until a call without a reply is logged for the first time */
    GRACE_US = 2000000      /* the server gives up first, since it knows the missing ranks */
};

/* The items to be sent to one rank: the most urgent first. */
typedef struct queue {
    net_item *first, *last;
    net_item *recent; /* queued last, or NULL: many of one priority come one behind the other */
    struct queue *next; /* in net.busy */
    bool listed;        /* it is in net.busy */
} queue;

static struct {
    bool open;
    bool crowded; /* more ranks than processors: threads that wait let others run */
    bool remote;     /* some ranks cannot wake this one */
    bool shared;     /* crowded, and all ranks are here: a thread that waits sleeps for the net */
    pthread_mutex_t drive;
    pthread_mutex_t seat; /* held by the thread that sleeps in the link */
    int thread_sits;      /* it is the net's; atomic */
    pthread_t thread;

    pthread_mutex_t lock; /* of posted and posted_end */
    net_item *posted, **posted_end;
    net_calls calls;
    int stop;           /* atomic */
    bool leaves;        /* atomic: LINK_LEFT has been posted, or is about to be */
    bool changed;       /* atomic: takers have news of their own */
    int64_t driven_us;  /* when another thread than the net's drove last; atomic */

    /* Of the driver. */
    int first_peer, end_peer; /* the ranks that this one exchanges records with */
    queue *queues;            /* one for each of them */
    net_item *farewells;      /* the LINK_LEFT to each of them */
    queue *busy, **busy_end;  /* the queues that may have items */
    int64_t *sent, *taken;    /* records to and from each of them, but heartbeats */
    int ngone;                /* workers that are gone */
    bool told_loss;           /* the others have been told of a rank that is lost */
    struct self_record *own; /* records to this rank that are open */
    int64_t starved_us;     /* since when there is no memory for one; 0: there is */
    net_item *answers;
    net_taker taker;
    int stores; /* made so far; atomic */
    int64_t looked_us;
    bool sent_own; /* to this rank, since the last settling */
} net = {.drive = PTHREAD_MUTEX_INITIALIZER,
         .seat = PTHREAD_MUTEX_INITIALIZER,
         .lock = PTHREAD_MUTEX_INITIALIZER,
         .calls.lock = PTHREAD_MUTEX_INITIALIZER,
         .posted_end = &net.posted,
         .busy_end = &net.busy};

int64_t net_now_us(void)
{
    return clock_ns() / 1000;
}

double net_timeout(void)
{
    return environment_number(ENV_TIMEOUT, 300);
}

/* ---- Sending ---- */

void net_wake(void)
{
    __atomic_store_n(&net.changed, 1, __ATOMIC_RELEASE);
    link_wake();
}

void net_post_list(net_item *first)
{
    kv_assert(first->peer >= net.first_peer && first->peer < net.end_peer,
              "something is sent to rank %d, and this one exchanges records with ranks %d to %d",
              first->peer, net.first_peer, net.end_peer - 1);
    net_item *last = first;
    while (last->next)
        last = last->next;
    pthread_mutex_lock(&net.lock);
    __atomic_store_n(net.posted_end, first, __ATOMIC_RELAXED); /* looked at without the lock */
    net.posted_end = &last->next;
    pthread_mutex_unlock(&net.lock);
    link_wake();
}

void net_post(net_item *i)
{
    i->next = NULL;
    net_post_list(i);
}

static queue *queue_of(int rank)
{
    return &net.queues[rank - net.first_peer];
}

static void enqueue(net_item *i)
{
    queue *q = queue_of(i->peer);
    if (!q->listed) {
        q->listed = true;
        q->next = NULL;
        *net.busy_end = q;
        net.busy_end = &q->next;
    }
    net_item **at = &q->first;
    kv_assert(!q->first == !q->last,
              "the queue to rank %d has a first item or a last one, not both", i->peer);
    if (q->first && q->last->priority >= i->priority)
        at = &q->last->next;
    else if (q->recent && q->recent->priority >= i->priority)
        at = &q->recent->next;
    while (*at && (*at)->priority >= i->priority)
        at = &(*at)->next;
    i->next = *at;
    *at = i;
    q->recent = i;
    if (!i->next)
        q->last = i;
}

static void take_posted(void)
{
    if (!__atomic_load_n(&net.posted, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&net.lock);
    net_item *i = net.posted;
    __atomic_store_n(&net.posted, NULL, __ATOMIC_RELAXED);
    net.posted_end = &net.posted;
    pthread_mutex_unlock(&net.lock);
    for (net_item *next; i; i = next) {
        next = i->next;
        enqueue(i);
    }
}

static void take_record(int rank, const link_rec *r);

/* A record to this rank is taken at once. Its taker may send others to this rank meanwhile. */
typedef struct self_record {
    struct self_record *below;
    _Alignas(8) char bytes[];
} self_record;

link_rec *net_reserve_own(int64_t bytes)
{
    kv_err e = {0};
    self_record *r = mem_alloc(1, sizeof(self_record) + sizeof(link_rec) + (size_t)bytes, &e);
    if (!r) {
        /* It gives up when memory has been missing for STARVED_US: no other rank knows of the
         * record that this one cannot send to itself, so all would wait until their timeout. */
        int64_t now = net_now_us();
        net.starved_us = net.starved_us ? net.starved_us : now;
        if (now - net.starved_us > STARVED_US)
            net_cannot_serve(&e);
        return NULL;
    }
    net.starved_us = 0;
    r->below = net.own;
    net.own = r;
    return (link_rec *)(void *)r->bytes;
}

void net_commit_own(void)
{
    self_record *r = net.own;
    if (!kv_assert(r, "rank %d commits a record to itself that it did not reserve", link_rank()))
        return;
    net.own = r->below;
    net.sent_own = true;
    take_record(link_rank(), (link_rec *)(void *)r->bytes);
    mem_free(r);
}

static void drop_queue(queue *q)
{
    while (q->first) {
        net_item *i = q->first;
        q->first = i->next;
        if (i->release)
            i->release(i);
    }
    q->last = q->recent = NULL;
}

/* Sends the items queued for a rank while there is room. An item that a step makes room for is seen
 * at its next record. */
static bool send_queued(queue *q)
{
    bool any = false;
    if (alive_any_gone() && alive_is_gone(net.first_peer + (int)(q - net.queues)))
        drop_queue(q);
    while (q->first) {
        net_item *i = q->first;
        net_step s = i->step(i);
        if (s == NET_FULL)
            return any;
        any = true;
        if (s == NET_MORE) {
            take_posted();
            if (link_sent_much())
                return true;
            continue;
        }
        q->first = i->next;
        if (!q->first)
            q->last = NULL;
        if (q->recent == i)
            q->recent = NULL;
        if (i->release)
            i->release(i);
    }
    return any;
}

/* The same for all ranks; with `until_posted` only until an item is posted. */
static bool send_all(bool until_posted)
{
    bool any = false;
    queue **at = &net.busy, *q;
    while ((q = *at) && !(until_posted && __atomic_load_n(&net.posted, __ATOMIC_RELAXED))) {
        any |= send_queued(q);
        if (q->first) {
            at = &q->next;
            continue;
        }
        *at = q->next;
        q->listed = false;
    }
    if (!q)
        net.busy_end = at;
    return any;
}

/* An item that sends what it holds, in as many records as that needs. */
typedef struct answer {
    net_item item;
    link_rec head;
    buf bytes;
    size_t sent;
} answer;

static net_step send_answer(net_item *i)
{
    answer *a = (answer *)(void *)i;
    size_t left = a->bytes.len - a->sent, n = left < LINK_PAYLOAD ? left : LINK_PAYLOAD;
    link_rec *r = net_reserve_by(i, (int64_t)n, false); /* nothing overtakes it */
    if (!r)
        return NET_FULL;
    *r = a->head;
    r->bytes = (uint32_t)n;
    r->flags &= n < left ? (uint8_t)~LINK_LAST : UINT8_MAX;
    if (n)
        net_copy(i->peer, r + 1, a->bytes.data + a->sent, (int64_t)n);
    a->sent += n;
    if (a->head.kind == LINK_BEAT)
        link_commit(i->peer); /* is not counted */
    else
        net_commit(i->peer);
    return n < left ? NET_MORE : NET_ENDED;
}

static void free_answer(net_item *i)
{
    buf_release(&((answer *)(void *)i)->bytes);
    mem_free(i);
}

void net_cannot_serve(const kv_err *why)
{
    char text[256];
    snprintf(text, sizeof text, "rank %d on %s can serve no more: %.160s", link_rank(),
             link_host(link_rank()), why->text);
    alive_lost(link_rank(), text);
}

void net_answer_buf(int rank, link_rec head, buf *b)
{
    kv_err e = {0};
    answer *a = buf_check(b, &e) ? NULL : mem_alloc(1, sizeof *a, &e);
    if (!a) {
        buf_release(b);
        net_cannot_serve(&e);
        return;
    }
    *a = (answer){.item = {.step = send_answer, .release = free_answer, .peer = rank,
                           .priority = INT32_MAX},
                  .head = head, .bytes = *b};
    *b = (buf){0};
    net_post_list(&a->item);
}

void net_answer(int rank, link_rec head, const void *payload)
{
    buf b = {0};
    if (head.bytes)
        buf_put(&b, payload, head.bytes);
    net_answer_buf(rank, head, &b);
}

/* ---- Receiving ---- */

void net_add_taker(const net_taker *t)
{
    for (int i = 0; i < LINK_KINDS; i++)
        net.taker.take[i] = t->take[i] ? t->take[i] : net.taker.take[i];
    net.taker.settle = t->settle ? t->settle : net.taker.settle;
    net.taker.left = t->left ? t->left : net.taker.left;
    net.taker.gone = t->gone ? t->gone : net.taker.gone;
    net.taker.look = t->look ? t->look : net.taker.look;
    net.taker.rest = t->rest ? t->rest : net.taker.rest;
    net.taker.settled = t->settled ? t->settled : net.taker.settled;
    net.taker.lost = t->lost ? t->lost : net.taker.lost;
}

int net_new_store(kv_err *e)
{
    int number = __atomic_fetch_add(&net.stores, 1, __ATOMIC_RELAXED);
    if (number < NET_MOST_STORES)
        return number;
    __atomic_store_n(&net.stores, NET_MOST_STORES, __ATOMIC_RELAXED);
    kv_err_set(e, KV_E_UNSUPPORTED, "a job makes at most %d stores", NET_MOST_STORES);
    return -1;
}

/* A call whose records do not follow on each other is refused. */
static void take_call(int rank, const link_rec *r)
{
    kv_err e = {0};
    const link_rec *whole;
    if (!net.taker.take[LINK_CALL])
        return;
    int rc = net_calls_take(&net.calls, rank, r, &whole, &e);
    if (rc == KV_E_MEMORY)
        net_cannot_serve(&e);
    else if (rc)
        net_answer(rank,
                   (link_rec){.bytes = sizeof e, .kind = LINK_FAILED, .request = r->request}, &e);
    if (!whole)
        return;
    net.taker.take[LINK_CALL](rank, whole);
    net_calls_end(whole, r);
}

static void take_loss(const link_rec *r)
{
    kv_err lost = {0};
    ask_error(&lost, r + 1, r->bytes);
    alive_told(lost.has_rank ? lost.rank : -1, lost.text);
}

/* Hands a record to the taker of its kind. Records of a worker that is gone are dropped: only what
 * had come when it was declared gone counts. */
static void take_record(int rank, const link_rec *r)
{
    if (alive_any_gone() && alive_is_gone(rank))
        return;
    alive_heard(rank);
    link_trace("from", rank, r);
    if (rank != link_rank() && r->kind != LINK_BEAT)
        net.taken[rank - net.first_peer]++;
    if (r->kind == LINK_LEFT) {
        alive_left(rank);
        if (net.taker.left)
            net.taker.left(rank);
    } else if (r->kind == LINK_LOST)
        take_loss(r);
    else if (r->kind == LINK_CALL)
        take_call(rank, r);
    else if (r->kind == LINK_REPLY || (r->kind == LINK_FAILED && link_is_call(r))) {
        net_calls_take_reply(&net.calls, rank, r);
        if (net.shared) /* its caller may sleep in `rest` */
            link_wake();
    } else if (r->kind < LINK_KINDS && net.taker.take[r->kind])
        net.taker.take[r->kind](rank, r);
}

/* ---- Driving ---- */

/* A rank is lost: nothing else is sent any more, and all requests fail. */
static bool give_up(void)
{
    kv_err lost = {0};
    alive_is_lost(&lost);
    /* The others learn of it as far as their links have room: they may exchange no records with the
     * rank that is lost, and so not miss it. */
    net.told_loss |= alive_is_gone(link_rank()); /* the others do without this one */
    for (int i = net.first_peer; i < net.end_peer && !net.told_loss; i++) {
        link_rec *r = i == link_rank() || alive_has_left(i) ? NULL : link_reserve(i, sizeof lost);
        if (!r)
            continue;
        *r = (link_rec){.kind = LINK_LOST, .bytes = sizeof lost};
        memcpy(r + 1, &lost, sizeof lost);
        link_commit(i);
    }
    net.told_loss = true;
    link_flush();
    take_posted();
    for (queue *q = net.busy; q; q = q->next)
        drop_queue(q);
    if (net.taker.lost)
        net.taker.lost(&lost);
    return false;
}

void net_count_sent(int rank)
{
    net.sent[rank - net.first_peer]++;
}

/* Those of ranks that are gone count as none, from the moment when this rank knows of it. */
net_traffic net_count_traffic(void)
{
    net_traffic t = {.gone = net.ngone};
    for (int i = 0; i < net.end_peer - net.first_peer; i++) {
        t.sent += net.sent[i];
        t.taken += net.taken[i];
    }
    return t;
}

/* Forgets workers that are gone: nothing is sent to them, and the servers do not wait for them. */
static void take_gone(void)
{
    char why[ALIVE_WHY];
    for (int rank; (rank = alive_next_gone(why)) >= 0;) {
        net.ngone++;
        if (rank >= net.first_peer && rank < net.end_peer) {
            drop_queue(queue_of(rank));
            net_calls_drop(&net.calls, rank);
            alive_left(rank);
            kv_err e = {0};
            if (link_gone(rank, &e))
                net_cannot_serve(&e);
            net.sent[rank - net.first_peer] = net.taken[rank - net.first_peer] = 0;
        }
        if (net.taker.gone)
            net.taker.gone(rank, why);
        __atomic_store_n(&net.changed, true, __ATOMIC_RELEASE); /* rounds may be complete now */
    }
}

/* Returns true if nothing waits to be sent. The drive lock is held. */
static bool has_sent_all(void)
{
    bool all = !__atomic_load_n(&net.posted, __ATOMIC_RELAXED);
    for (const queue *q = net.busy; q && all; q = q->next)
        all = !q->first;
    return all;
}

/* Receives, sends and settles once; says if there was anything to do. The drive lock is held. */
static bool progress(void)
{
    if (alive_is_lost(NULL))
        return give_up();
    bool any = link_poll(take_record, net.crowded ? TAKE_CROWDED : LINK_PAYLOAD);
    take_posted();
    any |= send_all(false);
    /* records to this rank come outside link_poll */
    any |= net.sent_own | __atomic_exchange_n(&net.changed, 0, __ATOMIC_ACQ_REL);
    net.sent_own = false;
    if (any && net.taker.settle)
        net.taker.settle();
    link_release();
    take_posted();
    net.sent_own |= send_all(true); /* a record to this rank may belong to one of its rounds */
    any |= net.sent_own;
    link_flush();
    int64_t now = net_now_us();
    if (now - net.looked_us > LOOK_US) {
        bool idle = !net.sent_own && has_sent_all(); /* heartbeats of the look do not count */
        net.looked_us = now;
        if (alive_look(now)) {
            /* Heartbeats go to ranks that have left, too, which wait for all; one that leaves sends
             * none. */
            bool leaves = __atomic_load_n(&net.leaves, __ATOMIC_ACQUIRE);
            for (int i = net.first_peer; i < net.end_peer && !leaves; i++)
                if (i != link_rank())
                    net_answer(i, (link_rec){.kind = LINK_BEAT}, NULL);
        }
        take_gone();
        if (net.taker.look)
            net.taker.look(now);
        if (net.taker.rest)
            net.taker.rest(now, idle && !__atomic_load_n(&net.changed, __ATOMIC_ACQUIRE),
                           __atomic_load_n(&net.leaves, __ATOMIC_ACQUIRE));
    }
    return any;
}

/* For threads that wait: drives if no other thread does. */
static bool drive(void)
{
    bool any = false;
    if (pthread_mutex_trylock(&net.drive) == 0) {
        __atomic_store_n(&net.driven_us, net_now_us(), __ATOMIC_RELAXED);
        any = progress();
        pthread_mutex_unlock(&net.drive);
    }
    if (!any && net.crowded)
        sched_yield();
    return any;
}

/* Sleeps in the link; the caller has the seat. While another thread drives, the other ranks need
 * not wake this one. Once a rank is lost no record is taken any more, so records that lie there are
 * no reason to stay awake. `set`: NULL, or not 0 ends the sleep; false: another drives. */
static bool sleep_us(int64_t us, bool other_drives, const int *set)
{
    bool listening = !other_drives && !alive_is_lost(NULL) && !pthread_mutex_trylock(&net.drive);
    if (set && !listening && !alive_is_lost(NULL))
        return false;
    bool idle = link_prepare_sleep(listening);
    if (listening)
        pthread_mutex_unlock(&net.drive);
    bool posted = __atomic_load_n(&net.posted, __ATOMIC_RELAXED) ||
                  __atomic_load_n(&net.changed, __ATOMIC_RELAXED) ||
                  (set && __atomic_load_n(set, __ATOMIC_ACQUIRE));
    bool heard = listening && !net.remote;
    if (idle)
        link_sleep(posted ? 0 : heard || us < SLEEP_MOST_US ? us : SLEEP_MOST_US);
    return true;
}

/* For threads that wait, where ranks outnumber processors: drives, and sleeps for the net when
 * there is nothing to do, so that a record wakes the thread that waits for it and no other. Before
 * it sleeps it lets others run some times, and for as long as a thread spins elsewhere, since they
 * may bring records: that costs a microsecond each time, and a wake-up of another processor ten and
 * more in virtual machines. Returns false if another thread drives, which goes on until there is
 * nothing to do. */
static bool rest(const int *set, int64_t us)
{
    enum { YIELDS = 10 };
    if (pthread_mutex_trylock(&net.seat)) {
        if (!__atomic_load_n(&net.thread_sits, __ATOMIC_ACQUIRE))
            return false;
        __atomic_store_n(&net.driven_us, net_now_us(), __ATOMIC_RELAXED);
        link_wake(); /* the net's thread leaves the seat, see run_thread */
        sched_yield();
        return true;
    }
    bool any = false, drives = true;
    int64_t until = net_now_us() + SPIN_US;
    for (int i = 0; !any && !__atomic_load_n(set, __ATOMIC_ACQUIRE) && !alive_is_lost(NULL); i++) {
        if (i >= YIELDS && net_now_us() > until)
            break;
        any = drive();
    }
    if (!any && !__atomic_load_n(set, __ATOMIC_ACQUIRE))
        drives = sleep_us(us, false, set);
    pthread_mutex_unlock(&net.seat);
    return drives;
}

/* Lets the net's thread sleep when it has nothing to do. */
static void idle_us(int us, bool other_drives)
{
    if (pthread_mutex_trylock(&net.seat)) {
        usleep(SLEEP_MOST_US);
        return;
    }
    __atomic_store_n(&net.thread_sits, 1, __ATOMIC_RELEASE);
    sleep_us(us, other_drives, NULL);
    __atomic_store_n(&net.thread_sits, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&net.seat);
}

static bool other_drives(int64_t now)
{
    int64_t since = now - __atomic_load_n(&net.driven_us, __ATOMIC_RELAXED);
    return since < (net.shared ? SLEEP_MOST_US : SPIN_US);
}

static void *run_thread(void *arg)
{
    int64_t busy_us = net_now_us();
    int nap = SLEEP_LEAST_US;
    (void)arg;
    while (!__atomic_load_n(&net.stop, __ATOMIC_ACQUIRE)) {
        bool any = false;
        if (net.shared && other_drives(net_now_us())) { /* that thread sleeps for the net, too */
            usleep(SLEEP_MOST_US);
            continue;
        }
        if (pthread_mutex_trylock(&net.drive) == 0) {
            if (net.shared)
                __atomic_store_n(&net.driven_us, 0, __ATOMIC_RELAXED); /* this one goes on */
            any = progress();
            pthread_mutex_unlock(&net.drive);
        }
        int64_t now = net_now_us();
        if (any) {
            busy_us = now;
            nap = SLEEP_LEAST_US;
        }
        bool other = !net.shared && other_drives(now);
        if (!other && (any || (now - busy_us < SPIN_US && !net.crowded)))
            continue;
        idle_us(nap, other);
        nap = nap * 5 / 4 < SLEEP_HEARD_US ? nap * 5 / 4 + 1 : SLEEP_HEARD_US;
    }
    return NULL;
}

/* ---- Waiting ---- */

/* begin: when the call was made. */
static int wait_reply(const int *done, const net_call *c, int64_t begin, kv_err *e)
{
    int64_t limit = (int64_t)(net_timeout() * 1e6), log_at = LOG_US, looked = begin;
    int rc = KV_OK;
    for (int idle = 0; !__atomic_load_n(done, __ATOMIC_ACQUIRE);) {
        bool rested = net.shared && rest(done, SLEEP_HEARD_US);
        idle = rested || drive() ? 0 : idle + 1;
        if (alive_is_lost(e))
            return KV_E_PEER;
        int64_t waited = net_now_us() - begin;
        if (idle > 2000)
            usleep(waited > LONG_US ? SLEEP_MOST_US : SLEEP_LEAST_US);
        if (limit && waited > limit + (c->name ? 0 : GRACE_US)) {
            long long seconds = limit / 1000000;
            if (!c->name)
                return kv_err_set(e, KV_E_TIMEOUT, "gave up after %lld s: a call to another rank",
                                  seconds);
            return kv_err_set(e, KV_E_TIMEOUT, "gave up after %lld s: rank %d has not answered %s",
                              seconds, c->rank, c->name);
        }
        if (begin + waited - looked > LOOK_US) {
            looked = begin + waited;
            if ((c->may_stop && (rc = stop_check(e))) ||
                (c->meanwhile && (rc = c->meanwhile(c->arg, e))))
                return rc;
        }
        if (!c->name || waited < log_at)
            continue;
        runtime_log("rank %d has not answered %s; %lld s so far", c->rank, c->name,
                    (long long)(waited / 1000000));
        log_at *= 2;
    }
    return KV_OK;
}

/* ---- Calls ---- */

/* Sends a call in several records. Its bytes stay in the memory of the caller, which waits. */
typedef struct sending {
    net_item item;
    const net_call *call;
    uint64_t request;
    int64_t sent;
} sending;

static net_step send_call(net_item *i)
{
    sending *s = (sending *)(void *)i;
    const net_call *c = s->call;
    int64_t n = c->bytes - s->sent < LINK_PAYLOAD ? c->bytes - s->sent : LINK_PAYLOAD;
    link_rec *r = net_reserve(c->rank, n);
    if (!r)
        return NET_FULL;
    bool last = s->sent + n == c->bytes;
    *r = (link_rec){.bytes = (uint32_t)n,
                    .kind = LINK_CALL,
                    .flags = last ? LINK_LAST : 0,
                    .store = (uint16_t)c->store,
                    .request = s->request,
                    .from = s->sent, .args = c->args, .what = (uint16_t)c->what};
    if (n)
        net_copy(c->rank, r + 1, (const char *)c->data + s->sent, n);
    s->sent += n;
    net_commit(c->rank);
    return last ? NET_ENDED : NET_MORE;
}

/* Stops the sending of a call whose caller waits no more, since the data are the caller's. */
static void withdraw(const sending *s)
{
    pthread_mutex_lock(&net.drive);
    take_posted();
    queue *q = queue_of(s->item.peer);
    net_item *before = NULL, *i = q->first;
    while (i && i != &s->item) {
        before = i;
        i = i->next;
    }
    if (i) {
        *(before ? &before->next : &q->first) = i->next;
        q->last = q->last == i ? before : q->last;
        q->recent = NULL;
    }
    pthread_mutex_unlock(&net.drive);
}

int net_calls_wait(const net_call *calls, int n, void **replies, int64_t *bytes, kv_err *e)
{
    waiting *w = mem_alloc(n, sizeof *w, e);
    sending *s = mem_alloc(n, sizeof *s, e);
    e = e ? e : &(kv_err){0};
    int64_t begin = net_now_us();
    int rc = w && s ? KV_OK : KV_E_MEMORY;
    waiting_group g = {.n = rc ? 0 : n, .calls = w};
    if (g.n > 0) {
        for (int i = 0; i < g.n; i++)
            g.calls[i] = (waiting){.rank = calls[i].rank};
        net_calls_begin(&net.calls, &g);
        for (int i = 0; i < g.n; i++) {
            net_item item = {.step = send_call, .peer = calls[i].rank, .priority = INT32_MAX - 1};
            s[i] = (sending){.item = item, .call = &calls[i], .request = g.first + (uint64_t)i};
            s[i].item.next = i + 1 < g.n ? &s[i + 1].item : NULL;
        }
        net_post_list(&s[0].item);
    }
    for (int i = 0; i < g.n; i++) {
        if (!calls[i].meanwhile) /* which may end the wait */
            script_wait_begins(&w[i].done, false);
        int failed = rc ? rc : wait_reply(&w[i].done, &calls[i], begin, e);
        if (!calls[i].meanwhile)
            script_wait_ends(false);
        if (failed)
            withdraw(&s[i]);
        if (!failed && w[i].failed)
            failed = w[i].reply ? ask_error(e, w[i].reply, w[i].bytes)
                                : kv_err_set(e, KV_E_MEMORY, "no memory for a reply");
        rc = rc ? rc : failed;
    }
    if (g.n > 0)
        net_calls_forget(&net.calls, &g); /* no reply is written any more */
    for (int i = 0; i < n && replies; i++) {
        replies[i] = rc ? NULL : w[i].reply;
        bytes[i] = rc ? 0 : w[i].bytes;
    }
    for (int i = 0; i < g.n && (rc || !replies); i++)
        mem_free(w[i].reply);
    mem_free(w);
    mem_free(s);
    return rc;
}

int net_call_wait(const net_call *c, void **reply, int64_t *reply_bytes, kv_err *e)
{
    return net_calls_wait(c, 1, reply, reply_bytes, e);
}

/* ---- Joining and leaving ---- */

static void stop_thread(void)
{
    pool_set_poll(NULL);
    pool_set_rest(NULL, NULL);
    __atomic_store_n(&net.stop, 1, __ATOMIC_RELEASE);
    net_wake();
    pthread_join(net.thread, NULL);
    net.open = false;
}

/* A process that ends well leaves; one that fails just ends, and its launcher sees it. */
static void at_exit(int status, void *arg)
{
    (void)arg;
    if (status == 0)
        net_close();
    else if (net.open)
        stop_thread();
}

/* Joining waits for ranks that may never come, and cannot be stopped: so it has its own thread.
 * Afterwards no rank waits for all the others any more, so that one of them may be gone. */
static struct {
    int done, rc;
    kv_err error;
} joining;

static void *join_thread(void *arg)
{
    (void)arg;
    int other;
    joining.rc = link_open(&joining.error);
    if (!joining.rc && !link_agree(ask_build(), &other)) {
        joining.rc = kv_err_set(&joining.error, KV_E_PEER,
                                "rank %d on %s runs another build of kvstore than rank %d on %s",
                                other, link_host(other), link_rank(), link_host(link_rank()));
        kv_err_hint(&joining.error,
                    "install the same version of kvctl and its plugin on all hosts");
    }
    if (!joining.rc && !link_agree(server_dedicated(), &other))
        joining.rc = kv_err_set(&joining.error, KV_E_VALUE,
                                "rank %d was told of %d servers, rank %d of another number: "
                                "KVSTORE_SERVERS differs",
                                link_rank(), server_dedicated(), other);
    if (!joining.rc && environment_count(ENV_SERVERS) >= link_size())
        joining.rc = kv_err_set(&joining.error, KV_E_VALUE,
                                "KVSTORE_SERVERS is %d, which leaves no worker among %d ranks",
                                environment_count(ENV_SERVERS), link_size());
    __atomic_store_n(&joining.done, 1, __ATOMIC_RELEASE);
    return NULL;
}

static int join_others(kv_err *e)
{
    pthread_t thread;
    int64_t begin = net_now_us(), limit = (int64_t)(net_timeout() * 1e6);
    if (alive_is_lost(e))
        return KV_E_PEER;
    joining.error = (kv_err){0};
    joining.done = 0;
    if (pthread_create(&thread, NULL, join_thread, NULL))
        return kv_err_set(e, KV_E_MEMORY, "no thread for the net");
    int64_t looked = begin;
    while (!__atomic_load_n(&joining.done, __ATOMIC_ACQUIRE)) {
        usleep(SLEEP_MOST_US);
        if (net_now_us() - looked > LOOK_US) { /* many ranks would read what many have told */
            looked = net_now_us();
            alive_read();
            alive_read_ends(looked);
        }
        if (limit && net_now_us() - begin > limit)
            alive_lost(-1, "gave up joining the other ranks: not all of them have come");
        if (alive_is_lost(e)) {
            pthread_detach(thread);
            return KV_E_PEER;
        }
    }
    pthread_join(thread, NULL);
    if (joining.rc && e && !e->code)
        *e = joining.error;
    return joining.rc;
}

int net_open(int (*ready)(kv_err *e), kv_err *e)
{
    if (net.open)
        return KV_OK;
    environment_read();
    TRY(environment_check(e));
    TRY(join_others(e));
    server_peers(&net.first_peer, &net.end_peer);
    net.queues = mem_zalloc(net.end_peer - net.first_peer, sizeof *net.queues, e);
    net.farewells = mem_alloc(net.end_peer - net.first_peer, sizeof *net.farewells, e);
    net.sent = mem_zalloc(net.end_peer - net.first_peer, sizeof *net.sent, e);
    net.taken = mem_zalloc(net.end_peer - net.first_peer, sizeof *net.taken, e);
    if (!net.queues || !net.farewells || !net.sent || !net.taken)
        return KV_E_MEMORY;
    TRY(alive_open(net_now_us(), e));
    /* The ranks of this machine, which may outnumber its processors, divide these. */
    int here = 0;
    for (int i = 0; i < link_size(); i++) {
        here += strcmp(link_host(i), link_host(link_rank())) == 0;
        net.remote |= !link_shares_memory(i);
    }
    pool_share(here);
    net.crowded = here > link_processors();
    net.shared = net.crowded && !net.remote;
    if (net.shared)
        pool_set_spins(0);
    TRY(ready(e));
    if (pthread_create(&net.thread, NULL, run_thread, NULL))
        return kv_err_set(e, KV_E_MEMORY, "no thread for the net");
    pool_set_poll(net.shared ? NULL : drive);
    pool_set_rest(net.shared ? rest : NULL, link_wake);
    net.open = true;
    on_exit(at_exit, NULL);
    return KV_OK;
}

static net_step send_left(net_item *i)
{
    link_rec *r = net_reserve(i->peer, 0);
    if (!r)
        return NET_FULL;
    *r = (link_rec){.kind = LINK_LEFT};
    net_commit(i->peer);
    return NET_ENDED;
}

static bool all_left(void)
{
    bool all = true;
    for (int i = net.first_peer; i < net.end_peer && all; i++)
        all = alive_has_left(i);
    pthread_mutex_lock(&net.drive);
    all = all && (!net.taker.settled || net.taker.settled()) && has_sent_all();
    pthread_mutex_unlock(&net.drive);
    return all;
}

void net_close(void)
{
    if (!net.open)
        return;
    /* LINK_LEFT goes to all, behind all other records. The others wait for it, and would not hear
     * of a failure any more: so the items were allocated when the net was opened. */
    __atomic_store_n(&net.leaves, true, __ATOMIC_RELEASE);
    for (int i = net.first_peer; i < net.end_peer; i++) {
        net_item *item = &net.farewells[i - net.first_peer];
        *item = (net_item){.step = send_left, .peer = i, .priority = INT32_MIN};
        net_post(item);
    }
    for (int idle = 0; !all_left() && !alive_is_lost(NULL);)
        if ((idle = drive() ? 0 : idle + 1) > 2000)
            usleep(SLEEP_MOST_US);
    kv_err lost = {0};
    if (alive_is_lost(&lost) && lost.has_rank && lost.rank == link_rank())
        alive_told(lost.rank, lost.text); /* links may have no room to tell the others */
    pthread_mutex_lock(&net.drive);
    if (lost.code)
        give_up();
    else
        take_gone(); /* workers that were lost since the last look */
    pthread_mutex_unlock(&net.drive);
    stop_thread();
    if (!alive_is_lost(NULL))
        link_close();
}
