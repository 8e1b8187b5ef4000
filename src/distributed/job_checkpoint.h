/* Checkpoints: the whole store in a file every some rounds or seconds, and a job that goes on from
 * such a file.
 *
 * A round is over when a key gets its next push: the rounds of a store are the largest number of
 * pushes of a key, which every rank counts alike. Before the push that begins round k*EVERY + 1
 * rank 0 begins to pull all keys and their states, and a thread writes FILE while rounds go on
 * (checkpoint_writer.h); the file of one such round is complete before that of the next is begun.
 * Rank 0 pulls alone, since no server ends a round to which it has not contributed, and waits only
 * until the servers have said which states there are. A later push of a key is applied when the
 * value is on its way; a state that is not yet is copied first. With compression the others take
 * part, and rank 0 waits for states, because the residuals of their pushes are in the file. The
 * last round is written when the worker says that it is done, or when all workers release their
 * store, which kvctl does at the end of a script that did not fail, and only there; then the file
 * is complete.
 *
 * Rank 0 keeps the arrays of the last file, as many bytes as the file has, for the next one.
 *
 * By time it is the first round that begins EVERY seconds after the last such pull, when the file
 * before is complete: a disk too slow for EVERY delays files, and no round. The clock is rank 0's.
 * With compression all ranks would have to know what it says, so that goes by rounds only.
 *
 * The file is that of a store of type device (core/store_file.h) to which one process would have
 * pushed the values of all workers in a list, so that other commands read it.
 *
 * A job that finds FILE goes on from it: a key that it holds begins with the value and the number
 * of pushes in it, whatever init gives; the states of the optimizer follow before the first push,
 * when all keys are there. The script leaves out what was done: rounds() says how much that is.
 *
 * Environment: KVSTORE_CHECKPOINT, the file; KVSTORE_CHECKPOINT_EVERY, rounds, "50", or seconds,
 * "30s"; KVSTORE_CHECKPOINT_ROUND, from the launcher, the round that the file holds. For it each
 * worker keeps the number of rounds that it has begun in $KVSTORE_RUN_DIR/rounds.RANK.
 */
#ifndef DISTRIBUTED_JOB_CHECKPOINT_H
#define DISTRIBUTED_JOB_CHECKPOINT_H

#include "distributed/array_reuse.h"
#include "distributed/checkpoint_writer.h"
#include "kvstore.h"

struct worker;

enum { CHECKPOINT_LINE = 21 /* bytes of that number, with blanks in front and a newline */ };

/* All zero: none is kept. */
typedef struct job_checkpoint {
    const char *path; /* NULL: none */
    int64_t every;         /* rounds; 0: every_ms counts */
    int64_t every_ms, last_ms;
    int64_t rounds, saved; /* begun; of the last file */
    checkpoint_writer writer;
    array_reuse arrays; /* of the last file: the next one is as large */
    kv *kept;         /* the store of the file; NULL: there was none, or all of it was taken */
    int64_t left;     /* keys of kept that this rank does not know yet */
    bool has_states;  /* of kept: they are to be taken */
    int fd;           /* of `rounds.RANK`; -1: none */
} job_checkpoint;

/* Reads the environment, and the file if there is one. Errors: unsupported (the type has no rounds,
 * or keeps nothing; a second store), value (also a file of another round than the launcher's),
 * those of kv_load. */
int job_checkpoint_open(struct worker *w, kv_err *e);

/* The store is released: writes the last round when all workers have come to that. */
void job_checkpoint_close(struct worker *w);
void job_checkpoint_release(struct worker *w); /* of one that was not made */

/* Before a push of these keys: takes the states of the file, writes a checkpoint. What hinders the
 * writing is a warning only. Errors: value (the file is of another optimizer or compression, or has
 * keys that are not there), io, format, peer, memory. */
int job_checkpoint_push(struct worker *w, const int64_t *numbers, int64_t n, kv_err *e);

/* This worker makes no further round: writes the last one, unless the file has it. */
void job_checkpoint_end(struct worker *w);

#endif
