/* The file of a journal: what it records and how it is read again. See in_place.h for what it is
 * for.
 *
 *     offset  size
 *     0       8     "kvjourn2"
 *     8       4     process that wrote it
 *     12      4     0
 *     16      8     size of the file that it changes
 *     24      8     first 8 bytes of that file
 *     32      8     size of the journal
 *     40      8     records
 *     48      8     sum of the last block
 *     56      8     sum of the 56 bytes above
 *     64            blocks
 *
 * A block: the sum of the block before it (8 bytes, 0 for the first), the size of its records (4),
 * their number (4), the records. So the sums are a chain, and each depends on all bytes before it.
 * Sums are XXH64. A record:
 *
 *     code          a number: (d << 1 | s), where d tells the place as a difference from the end of
 *                   the record before (an even d is d/2 forward, an odd one (d+1)/2 back), and s
 *                   is 1 when it has as many bytes as that one
 *     n             a number, only when s is 0
 *     bytes         n, that the place gets
 *
 * An n of 0 says what a key is afterwards; the place is that of its first byte:
 *
 *     bytes         a number: the size of the key
 *     name          a number, and so many bytes: its name, for messages, cut to JOURNAL_NAME
 *     sum           8 bytes: XXH64 of the key's bytes
 *
 * Numbers are little-endian in groups of 7 bits, the highest bit of a byte means that more follow.
 * Changes of single BF16 elements, 1 in 100 at random, take 3.9 bytes each.
 *
 * "kvjourn1", which earlier versions wrote, is read too: a record has the old bytes before the new
 * ones, and there are no sums of keys.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_err.h"

#define JOURNAL_HEADER 64
#define JOURNAL_BLOCK  ((int64_t)1 << 20) /* the most bytes of a block */
#define JOURNAL_RECORD ((int64_t)1 << 17) /* the most bytes that a record changes */
#define JOURNAL_NAME   200                /* the most bytes of a key's name */

typedef struct journal_about {
    int64_t target_bytes; /* size of the file that is changed */
    char first[8];        /* its first bytes */
    int32_t pid;          /* that wrote it */
    int64_t bytes;        /* of the journal */
    int64_t records;
} journal_about;

/* n bytes from offset on become `now`; where that is NULL, they are those of a key, and have this
 * XXH64 behind the change. Pointers are borrowed until the next record is read. */
typedef struct journal_record {
    int64_t offset, n;
    const char *now;
    const char *key; /* no NUL ends it */
    int64_t key_bytes;
    uint64_t sum;
} journal_record;

/* ---- Writing --------------------------------------------------------------------------------- */

typedef struct journal_writer {
    int fd;
    const char *name; /* for messages, borrowed */
    journal_about about;
    char *block;
    int64_t used;     /* bytes of block */
    int64_t in_block; /* records of block */
    int64_t end, n;   /* of the record before */
    uint64_t sum;     /* of the block before */
} journal_writer;

/* fd is an empty file. Error: memory. */
int journal_begin(journal_writer *w, int fd, const char *name, kv_err *e);

/* Adds a record: at most JOURNAL_RECORD bytes, and a name of at most JOURNAL_NAME. Error: io. */
int journal_add(journal_writer *w, const journal_record *r, kv_err *e);

/* Writes what is left, and the header: from now on the journal is complete. w->about has all but
 * bytes and records. Error: io. */
int journal_end(journal_writer *w, kv_err *e);

void journal_release(journal_writer *w);

/* ---- Reading --------------------------------------------------------------------------------- */

/* A journal that was found deserves no more trust than any file. */
typedef struct journal_reader {
    int fd;
    const char *name; /* for messages, borrowed */
    journal_about about;
    char *block;
    int64_t used;  /* bytes of block */
    int64_t taken; /* of them */
    int64_t left_in_block, left;
    int64_t at;     /* of the next block in the file */
    int64_t end, n; /* of the record before */
    uint64_t sum, last_sum;
    bool has_old; /* the records of an earlier version */
} journal_reader;

/* Reads the header; *whole is false if it is cut or damaged. Errors: io, memory. */
int journal_open(journal_reader *r, int fd, const char *name, bool *whole, kv_err *e);

/* Reads all of it for that; *whole is true before. Errors: io. */
int journal_check(journal_reader *r, bool *whole, kv_err *e);

void journal_close(journal_reader *r);
#define own_journal_reader OWN(journal_close) journal_reader

/* ---- Writing what a journal says ------------------------------------------------------------- */

/* Writing places into a file, and doing what a complete journal says. Memory is bounded, whatever
 * the size of file and journal, and taken before the first byte changes. See in_place.h. */

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
