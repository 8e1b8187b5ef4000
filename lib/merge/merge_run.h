/* A run of a merge from inside: what its files share. merge_run.c goes through batches and passes,
 * merge_batch.c makes the jobs of a batch, merge_sample.c looks at some of their terms first,
 * merge_piece.c does the work on a piece. */
#ifndef MERGE_MERGE_RUN_H
#define MERGE_MERGE_RUN_H

#include <stdatomic.h>

#include "base/mem.h"
#include "engine/pool.h"
#include "merge/merge_job.h"
#include "merge/merge_plans.h"

/* The most keys of a batch, which take memory. */
#define MERGE_BATCH_KEYS 1024

/* The bytes of all selections together. */
#define MERGE_KEPT_BYTES ((int64_t)48 << 20)

typedef struct merging {
    const merge *m;
    checkpoint *inputs[MERGE_INPUTS];
    int ninputs;
    merge_plans *plans;
    checkpoint_out *out;
    int64_t next; /* key */

    /* The batch. */
    merge_job *jobs; /* BATCH_KEYS of them */
    int64_t njobs;
    arena memory; /* of the jobs */
    merge_room room;
    int64_t nselects;

    /* Those that the next walk goes over. */
    merge_job **active;
    int64_t nactive;
    int64_t *at, *pieces; /* see walk */

    merge_worker *workers;
    char *worker_memory;
    int64_t worker_bytes;
    int nworkers;
    atomic_int taken;
    int slot[POOL_MAX_WORKERS]; /* which of them a worker of the pool is, from 1 */

    int64_t done, left; /* bytes of the walks before, and of the keys that no batch had yet */
    int64_t passes;     /* of the last batch */
    int64_t batch_left; /* bytes of the passes of the batch that are to come */
} merging;

/* The bytes of the inputs of a job. */
int64_t merge_input_bytes(const merging *r, const merge_job *j);

/* Makes the jobs of the next batch, then the workers that they need; release: of the jobs. Errors:
 * those of merge_check, memory. */
int merge_batch_fill(merging *r, kv_err *e);
int merge_batch_workers(merging *r, kv_err *e);
void merge_batch_release(merging *r);

/* Samples the terms of all selections of the active jobs' passes. Errors: those of tensor_read. */
int merge_sample(merging *r, kv_err *e);

/* Handles a piece of an active job: arg is the run. See walk.h. */
int merge_piece_handle(void *arg, const walk_piece *p, int worker, kv_err *e);

#endif
