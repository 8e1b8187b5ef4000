/* The thread that writes checkpoint files while rounds go on. It writes an image: references to
 * arrays that nobody else changes, some of which may still be arriving, and copies of all else. It
 * writes around the page cache (base/file.h), whose work would slow down the rounds. */
#ifndef DISTRIBUTED_CHECKPOINT_WRITER_H
#define DISTRIBUTED_CHECKPOINT_WRITER_H

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

#endif
