/* The thread that writes checkpoint files, so that rounds go on meanwhile. What it writes is an
 * image: references to arrays that nobody else changes, some of which may still be coming, and
 * copies of all else. It writes around the page cache, which would take processors from rounds. */
#ifndef DISTRIBUTED_CHECKPOINT_WRITER_H
#define DISTRIBUTED_CHECKPOINT_WRITER_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/image.h"

/* All zero writes nothing. One thread of the caller's uses it. */
typedef struct checkpoint_writer {
    pthread_t thread;
    bool started;    /* and not joined */
    atomic_bool over;
    image image;
    const char *path; /* borrowed */
    int64_t round;
} checkpoint_writer;

/* Begins to write path, which is replaced at once or not at all, behind the file before. The image
 * is the writer's from now on. What goes wrong is a warning: the file before stays. Where no thread
 * can be had, this call writes. */
void checkpoint_write(checkpoint_writer *x, image *im, const char *path, int64_t round);

/* Says whether a file is being written. */
bool checkpoint_writes(checkpoint_writer *x);

/* Returns when no file is being written. */
void checkpoint_written(checkpoint_writer *x);

/* The warning that there is no checkpoint of a round. */
void checkpoint_missing(int64_t round, const kv_err *why);

#endif
