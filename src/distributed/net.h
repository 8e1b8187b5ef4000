/* The net moves the records of the process. Any thread posts items to send; each record that comes
 * is handed to the taker of its kind; a call waits for its reply.
 *
 * One thread at a time drives the net: it takes the records that have come, sends the posted items,
 * and checks that the other ranks are alive. It is the net's own thread, or one that waits for a
 * reply (see pool_set_poll), which then needs no wake-up. The net's thread spins for 50
 * microseconds when there is nothing to do, then sleeps: ranks of this machine wake it, for others
 * it looks every 10 microseconds, rising to a millisecond.
 *
 * Where a machine has more ranks than processors, and all ranks are on it, no thread spins: a
 * thread that waits leaves its processor to one that has work. It drives, and sleeps until a record
 * wakes it; the net's thread looks every millisecond whether a thread has driven since, and sleeps
 * for the records of others if not. What is posted meanwhile is sent within that time.
 */
#pragma once

#include <string.h>

#include "cpu/cpu.h"
#include "distributed/alive.h"
#include "distributed/link.h"

enum { NET_MOST_STORES = 1 << 16 /* that a record can name */ };

/* Joins the job at the first call; ready runs before the first record is taken. Errors: those of
 * link_open and ready, value (the ranks were told different numbers of servers, or as many as there
 * are ranks; a variable of the environment holds no number), memory. */
int net_open(int (*ready)(kv_err *e), kv_err *e);

/* Says that this rank needs nothing any more, serves the others until all have said so, and leaves
 * the job. Nothing may use the net afterwards. A process that ends with status 0 does it too. */
void net_close(void);

/* ---- Sending ---- */

/* Something to be sent: step sends its next record with net_reserve and net_commit, and says how it
 * went. The net owns it until it is done; release may be NULL. */
typedef enum net_step { NET_FULL, NET_MORE, NET_ENDED } net_step;

typedef struct net_item {
    net_step (*step)(struct net_item *i);
    void (*release)(struct net_item *i);
    int peer;
    int32_t priority;
    struct net_item *next; /* the net's */
} net_item;

/* Any thread. Larger priorities are sent sooner, equal ones in the order of posting; a new item
 * overtakes a less urgent one that is under way at its next record. */
void net_post(net_item *i);

/* The same for the items of a list, which `next` joins. */
void net_post_list(net_item *first);

/* Reserves a record to a rank, this one included; NULL: there is no room now. For functions that
 * send the next record of an item, or take records. A record to this rank is taken when it is
 * committed. */
link_rec *net_reserve_own(int64_t bytes);
void net_commit_own(void);

static inline link_rec *net_reserve(int rank, int64_t bytes)
{
    return rank == link_rank() ? net_reserve_own(bytes) : link_reserve(rank, bytes);
}

/* The same for a record of an item; `whole` as in link_reserve_by. */
static inline link_rec *net_reserve_by(const net_item *i, int64_t bytes, bool whole)
{
    return i->peer == link_rank() ? net_reserve_own(bytes)
                                  : link_reserve_by(i->peer, bytes, i->priority, whole);
}

/* Counts a record that was sent to another rank. */
void net_count_sent(int rank);

static inline void net_commit(int rank)
{
    if (rank == link_rank())
        net_commit_own();
    else {
        link_commit(rank);
        net_count_sent(rank);
    }
}

/* Copies bytes into the record reserved to a rank. In the ring of another rank of this machine many
 * of them are stored past the caches: a processor that stores the ordinary way first gets each line
 * back from the one that has read it, which takes several times as long where the two share no
 * cache. */
static inline void net_copy(int rank, void *to, const void *from, int64_t bytes)
{
    enum { MANY = 4 << 10 };
    if (bytes >= MANY && rank != link_rank() && link_shares_memory(rank))
        stream_copies(&to, 1, from, bytes);
    else
        memcpy(to, from, (size_t)bytes);
}

/* Queues a small record with the highest priority; for functions that take records. */
void net_answer(int rank, link_rec head, const void *payload);

/* The same for an answer of any length, in as many records as it needs: a LINK_LAST of the head is
 * the last one's. The buffer becomes empty. */
void net_answer_buf(int rank, link_rec head, buf *b);

/* This rank cannot do something that others wait for, such as an answer for which it has no memory:
 * it counts as lost, and the job ends with a sentence that names it. Otherwise the ranks that wait
 * would do so until their timeout. */
void net_cannot_serve(const kv_err *why);

/* ---- Receiving ---- */

/* Functions that the driving thread calls, one at a time; they must not wait for the net. `settle`
 * is called when records were taken, and they stay in memory until it has returned. */
typedef struct net_taker {
    void (*take[LINK_KINDS])(int rank, const link_rec *r); /* NULL: such records are dropped */
    void (*settle)(void);
    void (*left)(int rank);
    void (*gone)(int rank, const char *why); /* a worker that the others can do without */
    void (*look)(int64_t now_us);   /* ten times a second */
    void (*lost)(const kv_err *why); /* a rank is lost */
    /* Behind look. idle: nothing waits to be sent or done; leaves: this rank has left. */
    void (*rest)(int64_t now_us, bool idle, bool leaves);
    bool (*settled)(void); /* false: this rank must not close its links yet */
} net_taker;

/* Adds the functions that are not NULL. Called before records come, see net_open. */
void net_add_taker(const net_taker *t);

/* The number of the next store: the same in every rank, since all make them in one order. -1, with
 * an error: unsupported (NET_MOST_STORES have been made). */
int net_new_store(kv_err *e);

/* ---- Calls ---- */

/* Sends a call to a rank and waits for its reply. reply: NULL, or becomes its payload, to be
 * released with mem_free. Errors: those of the other side, peer, timeout, memory. */
typedef struct net_call {
    int rank, what; /* a dist_ask */
    int store;
    link_args args;
    const void *data;
    int64_t bytes; /* any number; long ones travel in several records */
    int (*meanwhile)(void *arg, kv_err *e); /* or NULL: called ten times a second; its error ends
                                               the wait, of a single call */
    void *arg;
    bool may_stop; /* the wait ends when this thread's work shall end early: nothing has begun */
    const char *name; /* of a call that is answered at once: after 5 seconds a message names it and
                         the rank. NULL: the server waits for other ranks, and logs its own waits */
} net_call;

int net_call_wait(const net_call *c, void **reply, int64_t *reply_bytes, kv_err *e);

/* The same to several ranks at once; n replies, or NULL. */
int net_calls_wait(const net_call *calls, int n, void **replies, int64_t *bytes, kv_err *e);

/* The records to and from ranks that are not gone, and how many workers are gone. For functions of
 * takers. */
typedef struct net_traffic {
    int64_t sent, taken;
    int gone;
} net_traffic;

net_traffic net_count_traffic(void);

/* Wakes the net after another thread has changed something that it should look at. */
void net_wake(void);

/* ---- The ranks ---- */

int64_t net_now_us(void);

/* Seconds until a wait is given up; 0: never. From $KVSTORE_TIMEOUT, 300. */
double net_timeout(void);
