/* The thread that writes checkpoint files while rounds go on. It writes an image: references to
 * arrays that nobody else changes, some of which may still be arriving, and copies of all else. It
 * writes around the page cache (base/file.h), whose work would slow down the rounds. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "core/image.h"

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

/* Returns true while a file is being written. */
bool checkpoint_is_writing(checkpoint_writer *x);

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
