/* Doing what a complete journal says: looking whether it fits the file, then writing its places.
 * Memory is bounded, whatever the size of file and journal. See in_place.h. */
#ifndef CHECKPOINT_IN_PLACE_REDO_H
#define CHECKPOINT_IN_PLACE_REDO_H

#include <stdbool.h>

#include "checkpoint/in_place_journal.h"

typedef struct in_place_target {
    int fd;
    const char *name; /* for messages, borrowed */
    int64_t bytes;
    bool unsynced; /* nothing waits for the disk */
} in_place_target;

/* How a file stands to its journal. */
typedef struct in_place_state {
    bool marked;   /* it begins with the mark: it may be a mixture */
    bool has_old;  /* a byte is the old one, where the new one is another */
    bool has_new;  /* a byte is the new one, where the old one was another */
    int64_t alien; /* a byte that is neither; -1: there is none */
} in_place_state;

/* Compares the whole file with the journal; *whole as of journal_next, and when it is false nothing
 * else is known. Errors: io, memory. */
int in_place_compare(in_place_state *s, bool *whole, const in_place_target *t, journal_reader *r,
                     kv_err *e);

/* Writes the mark, the places and the first bytes, each synced before the next. back: the places
 * get their old bytes. The journal was read to its end before. Errors: io, memory; the file may be
 * a mixture then. */
int in_place_redo(const in_place_target *t, journal_reader *r, bool back, kv_err *e);

/* Waits until the writes are on the disk. Error: io. */
int in_place_sync(const in_place_target *t, kv_err *e);

#endif
