/* Workers: the store types of several machines, as a rank that runs a script sees them. A store
 * keeps for each key where its parts live and how many pushes and pulls it has made; the values are
 * the servers'. The slots of the store hold shapes without elements, and its updater runs only the
 * host side of rules: counts, schedules, numbers.
 */
#pragma once

#include "core/store.h"
#include "distributed/asks.h"
#include "distributed/job_checkpoint.h"
#include "distributed/net.h"

typedef struct worker_key {
    place place;
    int64_t pushes, pulls;
    kv_dtype dtype;
    bool inited;        /* by this rank's own call */
} worker_key;

enum { WORKER_SPARES = 8 };

typedef struct worker {
    kv *store;
    int number; /* of the store in every process */
    ask_store how;
    kv *sums; /* of several values, or values of another dtype: a store of one process */
    worker_key *keys; /* by slot */
    int64_t keys_cap;
    bool done;
    int64_t epochs; /* optimizers that this rank has set, or heard of at a barrier */
    int64_t moves;  /* of keys, that it knows of */
    bool loaded_rule; /* on rank 0: a file of states has brought a rule */
    struct newcomer *newcomer; /* a spare that was let in (newcomer.h); NULL: it is none */
    job_checkpoint checkpoint;
    int64_t ahead;   /* bytes that it may push ahead of the others, see backpressure.h */
    int64_t pushing; /* bytes of pushes that have not ended; atomic */
    struct request *spares[WORKER_SPARES]; /* blocks of requests that have ended, or NULL; atomic
                                              (request_memory.c) */
} worker;

/* *out becomes an array like the one that the servers keep for a slot, row_sparse ones with their
 * rows; it is filled when its turn has come. Errors: those of a pull. */
int worker_pull_stored(worker *w, const slot *s, kv_array **out, kv_err *e);
