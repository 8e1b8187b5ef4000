/* Changing a file where it stands: after kill -9 or a power cut at any moment, whoever opens the
 * file next finds it as it was (A) or as it shall be (B), never a mixture.
 *
 *     in_place *j;
 *     int rc = in_place_open(&j, path, e);
 *     …                                        read the file, find out what to change:
 *     rc = in_place_put(j, offset, now, n, e);
 *     rc = in_place_expect(j, key, offset, n, sum, e);
 *     …                                        close every checkpoint of this file, then:
 *     rc = in_place_commit(j, e);            or in_place_abandon(j)
 *
 * A file system that shares blocks between files (FICLONE) makes a copy of the file at no cost. The
 * places are written into that, which is synced and renamed over the file, so every reader has A or
 * B. It is not done where the file has other hard links, which would keep A.
 *
 * Elsewhere a journal is needed. Such a change has six steps, and each is on the disk before the
 * next begins:
 *
 *     1  the journal is written under a temporary name: every place, what comes there, and the sum
 *        of each key in B
 *     2  it is renamed to .NAME.kv-journal, beside the file
 *     3  the first 8 bytes of the file become IN_PLACE_MARK
 *     4  the places are written
 *     5  the first 8 bytes come back
 *     6  the journal is removed
 *
 * Why this is right. A file without the mark is whole, so the next reader drops the journal. One
 * with the mark may be a mixture: the journal is complete, and the reader does steps 3 to 6 again.
 * New bytes written twice are the same, so that gives B, which the sums prove before the mark goes.
 *
 *     crash after                    first bytes      places       next reader, and then
 *     1 the journal is written       its own          A            drops the journal: A
 *     2 it has its name              its own          A            drops the journal: A
 *     3 the mark is not synced       either           A            A as above, or again: B
 *     4 any of the places            the mark         a mixture    again: B
 *     5 they are not synced          either           B            again: B, or drops it: B
 *     6 the folder is not synced     its own          B            drops it, if it is there: B
 *
 * No program reads a file with the mark as a model, since no format begins so. A mixture that
 * lost its journal (the file was moved, or is read by another of its hard links) is an error.
 * A file that another program wrote meanwhile has no mark, and stays as it is.
 *
 * A write that fails in step 4 or 5 is tried three times with all before it, since a disk that
 * failed to sync has forgotten what was written. Then the file is copied, the places are written
 * into the copy, and that takes its place; where there are other hard links, or no room, the file
 * keeps its mark.
 *
 * Locks. A reader of ours holds a shared one on the file while it is open (of the kind
 * F_OFD_SETLK). A writer holds an exclusive one on the journal from in_place_open on (flock), and
 * on the file during steps 2 to 6 (both kinds, since sessions lock the file of their store with
 * flock). Where a file system has no locks, nothing keeps a reader from reading during a change.
 *
 * Links are followed: the journal stands beside the real file. All hard links to it change. The
 * size stays. GAP: of a file that is redirected to stdin no journal is looked for; the mark is
 * seen.
 */
#pragma once

#include <stdint.h>

#include "kv_err.h"

typedef struct in_place in_place;

/* Stands in the first 8 bytes while the file may be a mixture. As the length of a safetensors
 * header it is too large for any reader. */
#define IN_PLACE_MARK "kv-half\xff"

/* How long readers wait for a writer, and writers for readers. */
#define IN_PLACE_WAIT_MS 3000

/* Begins a change of the regular file at path, whose first 8 bytes cannot be changed. A change that
 * was cut short is ended first. Errors: io (missing, not writable, no room); usage (it has fewer
 * than 8 bytes); busy (another process changes it, N is named where it is known); format (see
 * in_place_shared); memory, interrupted. */
int in_place_open(in_place **out, const char *path, kv_err *e);

/* The n bytes from offset on shall become `now`; offset is at least 8. Borrowed for the call. No
 * byte is put twice. Any order is allowed, ascending is quickest. Errors: io (also no room for the
 * journal), memory; then abandon. */
int in_place_put(in_place *j, int64_t offset, const void *now, int64_t n, kv_err *e);

/* Says that the n bytes of a key from offset on have this XXH64 (base/xxh64.h) behind the change.
 * Whoever ends a change that was cut short compares them. Errors: io, memory; then abandon. */
int in_place_expect(in_place *j, const char *key, int64_t offset, int64_t n, uint64_t sum,
                    kv_err *e);

/* Changes the file; this process has no checkpoint of it open. Releases j either way. Asks whether
 * to stop only before the first byte changes. Errors that leave the file as it was: io, busy (a
 * reader has it open, or a session uses it as its store), interrupted, value (it was changed or
 * replaced since in_place_open). Where writing itself and the copy fail (io), the file keeps its
 * mark, and the hint names it, the journal, and what ends the change. */
int in_place_commit(in_place *j, kv_err *e);

/* Drops the change; the file is as it was. NULL is allowed. */
void in_place_abandon(in_place *j);

/* (optional) For tests: nothing waits for the disk. */
void in_place_unsynced(in_place *j);

/* ---- For readers ----------------------------------------------------------------------------- */

/* Called by whoever has opened the regular file at path for reading, before it reads: takes the
 * shared lock on fd, which closing gives back, and ends a change of the file that was cut short.
 * Afterwards the file is A or B, and stays so while fd is open. Costs three system calls that find
 * nothing; fd may become another file at path. Errors: busy (it is being changed); format (half
 * changed, and the journal is damaged, or the file was changed by another program); io (half
 * changed, and this user may not write it, or the journal is another user's). */
int in_place_shared(int fd, const char *path, kv_err *e);

/* (optional) From now on this process ends no change that was cut short, but that of the file
 * `but` (borrowed for good; NULL: of none): a file without the mark is read as it stands, and one
 * with it is an error of code unsupported. on: false undoes this. */
void in_place_leave(bool on, const char *but);

/* Called by whoever has replaced the file at path by a whole one: removes a journal that was left
 * there. */
void in_place_forget(const char *path);

/* The error for a file, called name, whose first 8 bytes are IN_PLACE_MARK although it was opened
 * as above: its journal is not there. Returns KV_E_FORMAT. */
int in_place_lost(const char *name, kv_err *e);
