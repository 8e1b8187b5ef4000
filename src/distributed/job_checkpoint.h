/* Checkpoints: every few rounds or seconds the whole store is written to a file, and a job that
 * begins again goes on from that file.
 *
 * Rounds: the number of rounds of a store is the largest number of pushes of any key, which every
 * rank counts alike. A round ends when some key gets its next push.
 *
 * Writing: before the push that begins round k*EVERY + 1, rank 0 begins to pull all keys and their
 * states, and a thread writes FILE while rounds go on (below). One file is complete
 * before the next is begun. Rank 0 pulls alone: the servers end no round to which it has not
 * contributed, so the values stay those of one round. It waits only until the servers have said
 * which states exist. A server applies a later push of a key when the key's value has been sent; a
 * state that has not been sent by then is copied first. With compression the other ranks take part
 * and rank 0 waits for the states, because the residuals of all ranks belong into the file. A rank
 * that is done has sent those that it ends with, and later files have these.
 *
 * The last round is written when this worker says that it is done, or when all workers release
 * their store. kvctl does that at the end of a script that did not fail, and only there.
 *
 * Rank 0 keeps the arrays of the last file for the next one: as much memory as the file is large.
 *
 * By time: a file is due at the first round that begins EVERY seconds after the last pull began, if
 * the file before is complete. So a disk that is too slow for EVERY delays files, and no round. The
 * clock is that of rank 0. With compression all ranks would need its answer, so there checkpoints
 * go by rounds only.
 *
 * The file is the same as that of a store of type device (core/store_file.h) in one process that
 * pushes the values of all workers in a list, so other commands read it.
 *
 * A job that finds FILE goes on from it: a key of the file begins with its value and number of
 * pushes there, whatever init gives; the states of the optimizer follow before the first push, when
 * all keys exist, or before they are saved or described. They hold over those that load-states
 * brings before that, as the values hold over those of init. The script itself leaves out what was
 * done: rounds() says how much that is.
 *
 * Environment: KVSTORE_CHECKPOINT, the file; KVSTORE_CHECKPOINT_EVERY, rounds, "50", or seconds,
 * "30s"; KVSTORE_CHECKPOINT_ROUND, from the launcher, the round that the file holds. For it each
 * worker keeps the number of rounds that it has begun in $KVSTORE_RUN_DIR/rounds.RANK.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "core/image.h"
#include "kvstore.h"

/* ---- The thread that writes (checkpoint_writer.c) ----
 *
 * It writes checkpoint files while rounds go on: an image is references to arrays that nobody else
 * changes, some of which may still be arriving, and copies of all else. It writes around the page
 * cache (base/file.h), whose work would slow down the rounds.
 */

/* All zero: nothing is being written. One thread calls these functions. */
typedef struct checkpoint_writer {
    pthread_t thread;
    bool started; /* the thread was started, and not joined yet */
    atomic_bool over; /* the file is complete, or failed */
    image image;
    const char *path; /* borrowed */
    int64_t round;
} checkpoint_writer;

/* Waits for the file before, and begins to write path, which is replaced whole or not at all. Takes
 * the image over. An error is a warning, and the file before stays. If no thread can be started,
 * this call writes the file itself. */
void checkpoint_write(checkpoint_writer *x, image *im, const char *path, int64_t round);

/* Returns when no file is being written. */
void checkpoint_wait(checkpoint_writer *x);

/* Warns that the checkpoint of a round is missing, and says whether the file has an earlier one. */
void checkpoint_missing(const char *path, int64_t round, const kv_err *why);

/* ---- Arrays whose memory the next checkpoint uses again ----
 *
 * The first write to each page of fresh memory costs more than all the rest of a checkpoint. */

/* References to the arrays of the last checkpoint, in the order of its requests. All zero: there
 * are none. One thread calls these functions; other threads may hold the arrays. */
typedef struct array_reuse {
    kv_array **items;
    int64_t n, cap;
    int64_t at; /* the item that the next request looks at */
} array_reuse;

/* Begins again with the first array. */
void array_reuse_begin(array_reuse *r);

/* *out becomes an array in host memory whose elements are not initialised: the next of the kept
 * arrays, if it has this dtype and shape and nobody else holds it, else a new array, which takes
 * its place. The caller unrefs it. r NULL: always a new array, which is not kept. Error: memory. */
int array_reuse_get(array_reuse *r, kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape,
                    kv_err *e);

/* Gives up all references; r is as at first. */
void array_reuse_release(array_reuse *r);

/* ---- A job with checkpoints ---- */

struct worker;

enum { CHECKPOINT_LINE = 21 /* bytes of that number, with blanks in front and a newline */ };

/* All zero: the job writes no checkpoints. */
typedef struct job_checkpoint {
    const char *path;   /* FILE; NULL: no checkpoints */
    int64_t every;      /* rounds; 0: every_ms counts */
    int64_t every_ms;   /* milliseconds between two files */
    int64_t last_ms;    /* when the last pull began, by clock_ms */
    int64_t rounds;     /* rounds that have begun */
    int64_t saved;      /* the round of the last file */
    checkpoint_writer writer;
    array_reuse arrays; /* of the last file: the next one is as large */
    kv *kept;           /* the store in FILE; NULL: there was none, or all of it was taken */
    int64_t left;       /* keys of kept that this rank does not know yet */
    bool has_states;    /* kept has states that are still to be taken */
    int fd;             /* of rounds.RANK; -1: none */
} job_checkpoint;

/* Reads the environment, and the file if there is one. Errors: unsupported (a type without rounds
 * or without values; a second store), value (a variable; a file of another round than the launcher
 * saw), those of kv_load. */
int job_checkpoint_open(struct worker *w, kv_err *e);

/* Collective, unless the worker is done: waits for all workers to release their store, writes the
 * last round, and releases all memory. What hinders the writing is a warning. */
void job_checkpoint_close(struct worker *w);
/* Releases memory alone, of a worker that failed to open. */
void job_checkpoint_release(struct worker *w);

/* Called before a push of n slots: takes the states of the file before the first push, and begins a
 * checkpoint if one is due. An error of the thread that writes is a warning only. Errors: value
 * (the file is of another optimizer or compression, or has keys that this job has not), unsupported
 * (compression by time, or without an optimizer), io, format, peer, memory. */
int job_checkpoint_push(struct worker *w, const int64_t *numbers, int64_t n, kv_err *e);

/* Called when this worker begins no further round: writes the last one, unless the file has it, and
 * waits until the file is complete. What hinders the writing is a warning. */
void job_checkpoint_end(struct worker *w);
