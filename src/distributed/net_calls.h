/* The calls of a rank that wait for their replies, by the numbers of their requests, and the calls
 * of other ranks of which some records have come. The tables of net.c, which sends, waits and
 * drives. */
#pragma once

#include <pthread.h>

#include "distributed/link_record.h"
#include "kv_err.h"

/* A call that waits for its reply. */
typedef struct waiting {
    uint64_t request;
    char *reply;
    int64_t bytes, cap;
    int done; /* atomic */
    int rank;
    bool failed; /* the reply is an error; NULL: this rank has no memory for it */
} waiting;

/* Calls that were made together: their requests have consecutive numbers. */
typedef struct waiting_group {
    uint64_t first;
    int n;
    waiting *calls;
    struct waiting_group *next;
} waiting_group;

typedef struct net_calls {
    pthread_mutex_t lock; /* of waiting and requests */
    waiting_group *waiting;
    uint64_t requests;
    struct partial_call *partial; /* of the thread that drives */
} net_calls;

/* Gives the calls of a group their numbers, and looks for their replies until net_calls_forget.
 * Their ranks are set. */
void net_calls_begin(net_calls *t, waiting_group *g);
void net_calls_forget(net_calls *t, const waiting_group *g);

/* A reply, a failure, or some bytes of a reply. */
void net_calls_take_reply(net_calls *t, int rank, const link_rec *r);

/* A call, or some bytes of one. A call in one record is left as it is: *whole becomes that. Of one
 * in several *whole is NULL until the last has come; then the header is the last one's, and the
 * payload of all of them follows. net_calls_end releases it. Errors: internal (the records do not
 * follow on each other), memory. */
int net_calls_take(net_calls *t, int rank, const link_rec *r, const link_rec **whole, kv_err *e);
void net_calls_end(const link_rec *whole, const link_rec *r);

/* Frees the calls of a rank, or with -1 of all ranks, of which some records have come. */
void net_calls_drop(net_calls *t, int rank);
