/* A run of a merge from inside. merge_run.c goes through batches and passes, and samples the
 * terms of selections before the first sweep, merge_batch.c makes the jobs of a batch, and
 * merge_piece.c does the work on a piece.
 *
 * An element that is not finite, though all that it was made of is, has most often left the range
 * of float32 on the way: (-3e38 + -3e38) / 2. Then the key is merged again, all of it, in float64.
 * If that does not help any element, as with 1 / 0, it is merged as before, and they are counted as
 * lost. */
#pragma once

#include <stdatomic.h>

#include "base/mem.h"
#include "engine/pool.h"
#include "merge/merge_job.h"

/* The most keys of a batch, since each takes memory while the batch runs. */
#define MERGE_BATCH_KEYS 1024

/* The bytes of the terms that all selections of a batch keep, together. */
#define MERGE_KEPT_BYTES ((int64_t)48 << 20)

/* A key that is merged, most often again. See merge_job for the rest. */
typedef struct merge_repeat {
    int64_t key;
    bool wide, last;
    int64_t lost;
} merge_repeat;

typedef struct merging {
    const merge *m;
    checkpoint *inputs[MERGE_INPUTS];
    int ninputs;
    merge_plans *plans;
    checkpoint_out *out;
    int64_t next; /* the first key that no batch had yet */

    /* The batch. */
    merge_job *jobs; /* room for MERGE_BATCH_KEYS, njobs of them in use */
    int64_t njobs;
    arena memory; /* of the jobs */
    merge_room room;
    int64_t nselects;

    /* The jobs that the next walk goes over: they have another pass, or a sweep of this one. */
    merge_job **active;
    merge_repeat *repeats; /* room for MERGE_BATCH_KEYS */
    int64_t nactive;
    int64_t *at, *pieces; /* of the active jobs, as walk.h wants them */

    merge_worker *workers;
    char *worker_memory;
    int64_t worker_bytes;
    int nworkers;
    atomic_int taken;           /* workers that have a thread */
    int slot[POOL_MAX_WORKERS]; /* by thread of the pool: the index of its worker plus 1; 0: none */

    /* For progress. */
    int64_t done;       /* bytes of the walks before */
    int64_t left;       /* bytes of the keys that no batch had yet */
    int64_t passes;     /* of the last batch, on average over its bytes, rounded up */
    int64_t batch_left; /* bytes of the passes of the batch that are to come */
} merging;

/* The bytes of the inputs of a job. */
int64_t merge_input_bytes(const merging *r, const merge_job *j);

/* Makes the jobs of the first *taken of n >= 1 such keys, as merge_batch_fill does. */
int merge_batch_repeat(merging *r, const merge_repeat *keys, int64_t n, int64_t *taken, kv_err *e);

/* Makes the jobs of the next batch, then workers with room for any of them; release frees the jobs.
 * Errors: those of merge_check, memory. */
int merge_batch_fill(merging *r, kv_err *e);
int merge_batch_workers(merging *r, kv_err *e);
void merge_batch_release(merging *r);

/* Handles a piece of an active job: the callback of walk.h. arg: the merging. */
int merge_piece_handle(void *arg, const walk_piece *p, int worker, kv_err *e);
