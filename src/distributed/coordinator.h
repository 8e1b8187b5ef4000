/* The coordinator is on the first server, and decides for all ranks: which keys there are and where
 * they live, when a barrier is complete, how many optimizers the job has set. It also keeps the
 * messages of workers to each other (states.c).
 */
#pragma once

#include "base/map.h"
#include "distributed/server_state.h"

/* A worker that waits for another one: for keys or an optimizer of the first worker,
 * or for mail. */
typedef struct waiter {
    int rank, lacks;
    uint64_t request;
    int64_t since_us;
    int64_t epoch; /* the number of optimizers that it waits for */
    int64_t text;  /* the hash of the last one, as the worker has set it */
    int64_t tag;   /* of the mail; -1: it waits for none */
    char *keys;    /* or NULL; as calls carry them */
    int64_t bytes;
    bool any;      /* keys will do that are not settled */
    struct waiter *next;
} waiter;

typedef struct coordinator {
    map index;
    struct entry *entries;
    int64_t n, cap, parts;
    int64_t *load; /* bytes, by server */
    waiter *waiters;
    struct mail *mailbox;
    uint64_t *at_barrier; /* by worker: its call, or 0 */
    int *awaits_first;    /* by worker: how many of its waiters are for the first worker */
    int nat_barrier;      /* workers that are there */
    int lacked;           /* a worker that the barrier lacked when it was looked at last */
    int64_t barrier_us;   /* when the first came */
    bool first_asks;      /* only whether all others wait for the first worker, */
    bool holds;           /* who goes on while they do */
    int64_t moves;
    int64_t epoch, text; /* optimizers that the first worker has set; the hash of the last one */
} coordinator;

/* Takes a call that is the coordinator's; says whether it was. */
bool coordinator_call(server_state *s, int rank, const link_rec *r);

/* A worker is done or has left: calls that wait for it are answered or refused. */
void coordinator_left(server_state *s);

/* The same of one that is gone, as if it had never called. A worker that waits for its mail gets an
 * empty one, and a key that it was about to make is the next one's to make. */
void coordinator_lose_worker(server_state *s, int rank);

/* Returns true if the barrier waits for this worker. */
bool coordinator_lacks(const server_state *s, int rank);

/* Give up a wait: the calls of its workers are refused. */
void coordinator_end_barrier(server_state *s, const kv_err *why);
void coordinator_end_waiter(server_state *s, waiter *w, const kv_err *why);

/* The key that has the part of that number, its name borrowed; false: this server does not know. */
bool coordinator_key(const server_state *s, int64_t number, kv_key *key);

void coordinator_free(server_state *s);
