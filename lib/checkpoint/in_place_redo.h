/* Writing places into a file, and doing what a complete journal says. Memory is bounded, whatever
 * the size of file and journal, and taken before the first byte changes. See in_place.h. */
#pragma once

#include <stdbool.h>

#include "checkpoint/in_place_journal.h"

#define TARGET_WINDOW ((int64_t)1 << 20)
#define TARGET_PART   ((int64_t)1 << 16)
#define TARGET_PAGE   ((int64_t)1 << 12)

/* A file that is changed. Places go through a window of it: a megabyte that begins where the first
 * place does that is not in the one before. Parts of 64 KB are read into it when a place in them is
 * asked for, and pages of 4 KB are written when the window moves on, neighbours together. So places
 * that are close cost no call each, and pages without a change are not written. */
typedef struct in_place_target {
    int fd;           /* open for reading and writing */
    const char *name; /* for messages, borrowed */
    int64_t bytes;
    bool unsynced; /* nothing waits for the disk */
    char *data;
    int64_t begin; /* a multiple of TARGET_PART; data holds at most a window from here on */
    bool is_read[TARGET_WINDOW / TARGET_PART], is_changed[TARGET_WINDOW / TARGET_PAGE];
    bool any_changed;
} in_place_target;

/* t has all above data. Error: memory. */
int in_place_target_begin(in_place_target *t, kv_err *e);

/* Puts n <= JOURNAL_RECORD bytes into place `at`; in_place_target_flush, the last of them too.
 * Errors: io. */
int in_place_target_put(in_place_target *t, int64_t at, const char *data, int64_t n, kv_err *e);
int in_place_target_flush(in_place_target *t, kv_err *e);

void in_place_target_release(in_place_target *t);

/* Writes the first 8 bytes of the file, and waits until they are on the disk. Error: io. */
int in_place_put_first(const in_place_target *t, const char first[8], kv_err *e);

/* Writes the places and then the first bytes into a file that has the mark, and syncs both. check:
 * before the mark goes, every key must have the sum that the journal says; else the error is of
 * code format. The journal was read to its end before. Errors: io, format; the file may be a
 * mixture then. */
int in_place_redo(in_place_target *t, journal_reader *r, bool check, kv_err *e);

/* The same into a copy of the file, which then stands at path, where t does: blocks of a disk that
 * cannot be written stay behind. Another name of t would keep the mixture, and is an error. Errors:
 * io, format, memory; t is as it was. */
int in_place_copy(const in_place_target *t, const char *path, journal_reader *r, kv_err *e);

/* Waits until the writes are on the disk. Error: io. */
int in_place_sync(const in_place_target *t, kv_err *e);
