/* The net: one for the process, and what moves its records. Who has something to send posts it,
 * who receives is called with each record, and a request is answered by its reply.
 *
 * One thread at a time drives the net: it takes what has come, sends what is posted, and looks
 * after the other ranks. That is a thread of the net's own, or one that waits for something (see
 * pool_set_poll), which then needs nobody to wake it up. The net's thread spins for 50 microseconds
 * when there is nothing to do, then sleeps: ranks of this machine wake it, for others it looks
 * every 10 microseconds, rising to a millisecond. Where a machine has more ranks than processors,
 * and all ranks are on it, nobody spins: who waits leaves its processor to those that have work.
 */
#ifndef DISTRIBUTED_NET_H
#define DISTRIBUTED_NET_H

#include "distributed/link.h"

enum { NET_MOST_STORES = 1 << 16 /* that a record can name */ };

/* Joins the job at the first call; ready runs before the first record is taken. Errors: those of
 * link_open and ready, memory. */
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

/* The same for n items of a list joined by next. */
void net_post_list(net_item *first);

/* Reserves a record to a rank, this one included; NULL: not now. For step functions, and for those
 * that take records. */
link_rec *net_reserve(int rank, int64_t bytes);
void net_commit(int rank);

/* A small record from a function that takes records: it is sent soon, whatever is queued. */
void net_answer(int rank, link_rec head, const void *payload);

/* ---- Receiving ---- */

/* Who takes the records of a store. They are called by the thread that drives, one at a time, and
 * must not wait for the net. A record lies there until `settle` has returned, which is called when
 * some were taken. self NULL takes no more. */
typedef struct net_taker {
    void (*take)(void *self, int rank, const link_rec *r);
    void (*settle)(void *self);
    void (*left)(void *self, int rank);            /* or NULL */
    void (*look)(void *self, int64_t now_us);      /* or NULL: called ten times a second */
    void (*lost)(void *self, const kv_err *why);   /* or NULL: a rank is lost */
    void *self;
} net_taker;

void net_set_servers(const net_taker *t); /* PUSH, PULL and CALL of all stores */
void net_set_worker(int store, const net_taker *t); /* the others of one store */

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
    const char *name; /* of one that is answered at once: then it is told after 5 seconds that the
                         rank has not. NULL: who is asked waits for others, and tells itself */
} net_call;

int net_call_wait(const net_call *c, void **reply, int64_t *reply_bytes, kv_err *e);

/* The same to several ranks at once; n replies, or NULL. */
int net_calls_wait(const net_call *calls, int n, void **replies, int64_t *bytes, kv_err *e);

/* A thread that changed what the net should look at. */
void net_wake(void);

/* ---- The ranks ---- */

int64_t net_now_us(void);
int net_rank(void);
int net_size(void);

/* Seconds until a wait is given up; 0: never. From $KVSTORE_TIMEOUT, 300. */
double net_timeout(void);

/* Another rank is lost: what waits fails from now on, with this sentence. */
void net_lost(int rank, const char *why);
bool net_is_lost(kv_err *e);

/* Whether the rank has left. */
bool net_has_left(int rank);

/* Microseconds since the rank was last heard; 0 for this one. */
int64_t net_silence(int rank);

#endif
