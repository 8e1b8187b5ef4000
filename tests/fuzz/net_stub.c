/* The net of a fuzz target, and the system and link that it sees: see net_stub.h. */
#include "net_stub.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/pool.h"
#include "fuzz.h"

/* ---- What net.c asks of the system ---- */

enum { CLOCK_US = 1000, IDLE_POLLS = 10000 };

static int64_t clock_us;
static bool runs_thread;

static int64_t stub_clock(void)
{
    clock_us += CLOCK_US;
    return clock_us * 1000;
}

/* The thread that joins the job runs at once; the one that drives the net does not run, because
 * whoever waits drives. */
static int stub_thread(void *(*run)(void *arg), void *arg)
{
    if (!runs_thread)
        run(arg);
    runs_thread = true;
    return 0;
}

/* A thread that has polled for long would sleep and leave the rest to the thread of the net. Here
 * it polls on: its polls do nothing while another thread drives, which the system may halt. */
static bool poll_on(const int *set, int64_t us)
{
    (void)set, (void)us;
    return true;
}

#define clock_ns() stub_clock()
#define pool_set_rest(rest, end) pool_set_rest(poll_on, link_wake)
#define pthread_create(thread, how, run, arg) (*(thread) = pthread_self(), stub_thread(run, arg))
#define pthread_join(thread, result) ((void)(thread))
#define on_exit(run, arg) ((void)(run))
#define usleep(us) ((void)(us))
#include "../../src/distributed/alive.c"
#include "../../src/distributed/net.c"
#undef clock_ns
#undef pool_set_rest
#undef usleep

/* ---- The link -------------------------------------------------------------------------------- */

void (*stub_sees)(int rank, const link_rec *r);
void (*stub_idle)(void);

typedef struct coming {
    struct coming *next;
    int rank;
    link_rec *r;
} coming;

static int own_rank, ranks, idle_polls;
static coming *first_coming, **coming_end = &first_coming, *lying;
static link_rec *open_record; /* reserved, of `room` bytes of payload */
static int64_t room;

void stub_ranks(int rank, int size)
{
    own_rank = rank;
    ranks = size;
}

void stub_deliver(int rank, const link_rec *head, const void *payload)
{
    coming *c = malloc(sizeof *c);
    link_rec *r = malloc(sizeof *r + head->bytes);
    HOLDS(c && r, "memory");
    *r = *head;
    if (head->bytes)
        memcpy(r + 1, payload, head->bytes);
    *c = (coming){.rank = rank, .r = r};
    *coming_end = c;
    coming_end = &c->next;
}

static void free_coming(coming *c)
{
    for (coming *next; c; c = next) {
        next = c->next;
        free(c->r);
        free(c);
    }
}

bool link_poll(void (*take)(int rank, const link_rec *r), int64_t bytes)
{
    (void)bytes;
    HOLDS(!lying, "records that were taken are released before others come");
    if (!first_coming && stub_idle && ++idle_polls > IDLE_POLLS) {
        idle_polls = 0;
        stub_idle();
    }
    if (!first_coming)
        return false;
    idle_polls = 0;
    lying = first_coming;
    first_coming = NULL; /* what comes meanwhile is taken at the next poll */
    coming_end = &first_coming;
    for (const coming *c = lying; c; c = c->next)
        take(c->rank, c->r);
    return true;
}

void link_release(void)
{
    free_coming(lying);
    lying = NULL;
}

static void see(int rank, const link_rec *r)
{
    buf shown = {0};
    HOLDS(rank >= 0 && rank < ranks && r->kind < LINK_KINDS, "a record to a rank");
    if (r->kind == LINK_FAILED) {
        kv_err e;
        HOLDS(r->bytes == sizeof e, "an error");
        memcpy(&e, r + 1, sizeof e);
        HOLDS(e.code > KV_OK && e.code < KV_NCODES && e.text[0], e.text);
    }
    link_print(&shown, r);
    HOLDS(!strchr(buf_text(&shown), '\n'), buf_text(&shown));
    buf_release(&shown);
    if (stub_sees)
        stub_sees(rank, r);
}

link_rec *link_reserve(int rank, int64_t bytes)
{
    HOLDS(!open_record && rank >= 0 && rank < ranks, "one record at a time");
    HOLDS(bytes >= 0 && bytes <= LINK_PAYLOAD, "a payload that the link has room for");
    open_record = malloc(sizeof *open_record + (size_t)bytes);
    HOLDS(open_record != NULL, "memory");
    room = bytes;
    return open_record;
}

link_rec *link_reserve_by(int rank, int64_t bytes, int32_t priority, bool whole)
{
    (void)priority, (void)whole;
    return link_reserve(rank, bytes);
}

void link_commit(int rank)
{
    link_rec *r = open_record;
    HOLDS(r && r->bytes <= room, "no more than was reserved");
    open_record = NULL;
    see(rank, r);
    free(r);
}

int link_open(kv_err *e)
{
    (void)e;
    pool_set_spins(2 * IDLE_POLLS); /* who waits polls until stub_idle makes something come */
    return KV_OK;
}

int link_rank(void)
{
    return own_rank;
}

int link_size(void)
{
    return ranks;
}

bool link_shares_memory(int rank)
{
    return rank == own_rank;
}

bool link_prepare_sleep(bool listening)
{
    (void)listening;
    return false;
}

void link_sleep(int64_t us)
{
    (void)us;
}

void link_wake(void)
{
}

/* ---- For targets ----------------------------------------------------------------------------- */

void stub_run(void)
{
    pthread_mutex_lock(&net.drive);
    while (progress())
        ;
    pthread_mutex_unlock(&net.drive);
}

void stub_pass(int64_t us)
{
    clock_us += us;
}

void stub_reset(void)
{
    HOLDS(!net.calls.waiting, "no call waits");
    pthread_mutex_lock(&net.drive);
    take_posted();
    for (queue *q = net.busy; q; q = q->next)
        drop_queue(q);
    net_calls_drop(&net.calls, -1);
    net.told_loss = net.leaves = net.sent_own = false;
    net.stores = 0;
    pthread_mutex_unlock(&net.drive);
    free_coming(first_coming);
    first_coming = NULL;
    coming_end = &first_coming;
    idle_polls = 0;
    alive.is_lost = false;
    alive.lost = (kv_err){0};
    alive.nleft = 0;
    alive.now_us = alive.beat_us = net_now_us();
    for (int i = 0; i < alive.end - alive.first; i++)
        alive.heard_us[i] = alive.now_us;
}
