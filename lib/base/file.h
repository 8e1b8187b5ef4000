/* Whole files in and out. What is written appears at once or not at all: it goes to a new file
 * beside the old one, which is synced and then renamed over it.
 *
 * The new file has the mode, the owner and the group of the old one; where they cannot be given to
 * it, the file is not written. Links are followed, and one that leads nowhere gets its target.
 * Other hard links to the old file keep what it held: a file that is written in place could be cut.
 */
#pragma once

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

#include "kv_err.h"
#include "mem.h"

/* What a block owns (mem.h): a descriptor, -1 for none, a stream and an open folder. errno stays.
 */
void file_close_fd(int *fd);
void file_close_stream(FILE **f);
void file_close_dir(DIR **dir);
#define own_fd     OWN(file_close_fd) int
#define own_stream OWN(file_close_stream) FILE
#define own_dir    OWN(file_close_dir) DIR

/* Reads a file, or stdin for "-", to its end. A NUL stands behind the text. The caller releases
 * *text with mem_free. A signal whose handler was set without
 * SA_RESTART ends the wait. Errors: interrupted, io (missing, a folder, no permission, read error),
 * memory. */
int file_read(const char *path, char **text, size_t *n, kv_err *e);

/* The same for a text, such as a script; a device may have no end. Error:
 * value, more than FILE_TEXT_MAX bytes. */
#define FILE_TEXT_MAX ((size_t)256 << 20)
int file_read_text(const char *path, char **text, size_t *n, kv_err *e);

/* *there: whether a regular file stands at path. Errors: io; anything else that stands there is one
 * too: what is read from a device may have no end. */
int file_look(const char *path, bool *there, kv_err *e);

/* The file that a write to path reaches: links are followed, also to a file that is not there yet.
 * Error: io. */
int file_follow(const char *path, char out[PATH_MAX], kv_err *e);

/* A file being written. Fill it through f; then exactly one of commit and abandon. */
typedef struct file_out {
    FILE *f;
    char *name; /* the path as it was given, for messages */
    char *path; /* where it goes: name with its links followed */
    char *temp; /* where it is meanwhile; NULL for stdout, a pipe or a device, written directly */
    bool part;  /* temp is for people, and stays when the file cannot be completed */
    /* (optional) set behind the open: nothing waits for the disk. The file is old or new after a
     * crash of the process; after one of the machine it may be old, new or empty. */
    bool unsynced;
} file_out;

/* Opens a file to replace path, "-" for stdout. Errors: io, memory. On failure nothing is left. */
int file_out_open(file_out *out, const char *path, kv_err *e);

/* The same for a file that grows for long: it is written as PATH.part, which remains if the process
 * is killed or the commit fails. An older PATH.part is replaced. Also busy:
 * another process writes it. */
int file_out_open_part(file_out *out, const char *path, kv_err *e);

/* (optional) The slow part of a commit, which can fail: flushes, syncs and closes f, which is then
 * NULL. For several files that shall appear together. Error: io; then abandon. */
int file_out_sync(file_out *out, kv_err *e);

/* Flushes, syncs and renames; on failure the old file stays as it was. Releases out either way. */
int file_out_commit(file_out *out, kv_err *e);

/* Drops the new file. Allowed after a failed open. */
void file_out_abandon(file_out *out);

/* Ends writing and leaves the new file as temp. */
void file_out_leave(file_out *out);

/* Removes the remains of killed writers in the folder of a file being written: temporary files and
 * folders that no writer holds, and whose process is gone or which have not changed for a day.
 * Looks at a bounded number of names; a file that cannot be removed stays. */
void file_out_clean(const file_out *out);

/* The same in the folder that path stands in. */
void file_clean_beside(const char *path);

/* Gives a new file or folder, as `what` says, the owner and the group of the old one. Error: io. */
int file_take_owner(int fd, const struct stat *old, const char *what, const char *name, kv_err *e);

/* Returns true if both paths name one file or folder, also through different links. */
bool file_is_same(const char *a, const char *b);

/* Removes a folder of files. Links are not followed; folders in it stay, and then it does too.
 * Returns whether it is gone; else errno says why it stays. */
bool file_remove_folder(const char *path);

/* An io error that names the path and the reason of errno: `cannot write "x.csv": No space left on
 * device`. `doing` is "read", "write", … Returns KV_E_IO. */
int file_error(kv_err *e, const char *doing, const char *path, int errnum);

/* Writes n bytes to fd from byte `at` of the file on; at < 0: where fd stands. Data may be those of
 * a mapped file that became shorter: bytes that cannot be read are touched, so that they become
 * zeros and their reader finds out (file_window.h). A write that takes nothing is EIO, or it would
 * be repeated for ever. Error: io, with name as the path. */
int file_write_at(int fd, const char *name, int64_t at, const void *data, int64_t n, kv_err *e);

/* Reads n bytes from byte `at` of the file on. *got is less where it ends before; without got that
 * is an error. Error: io. */
int file_read_at(int fd, const char *name, int64_t at, void *to, int64_t n, int64_t *got,
                 kv_err *e);

/* fsync, again where a signal cut it short, as file systems of a network let it: not for ever. */
int file_sync(int fd);

/* Makes what happened to the names in the folder of path last. A file system that cannot sync a
 * folder, or a user who may not open it, is not an error; a disk that fails is: io. */
int file_sync_folder(const char *path, kv_err *e);

/* Writes n bytes to f. Error: io, as above with name as the path. */
int file_put(FILE *f, const char *name, const void *data, size_t n, kv_err *e);

/* An error in the contents of a file: `x.npy: …`. Returns code. */
int file_bad(kv_err *e, kv_code code, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Writing large files around the page cache of the system. The cache would take fresh memory and a
 * copy for each page, which costs several times as much processor time as the disk needs, and keep
 * a file that nobody is about to read. Where the file system cannot do that, writes go through the
 * cache as usual.
 */

/* *out becomes a stream that writes to fd, an empty file that is open for writing. fclose writes
 * what is still in the buffer, so its result must be checked; it leaves fd open, and syncs nothing.
 * path is for messages. Errors: io, memory; *out is NULL then. */
int file_around_open(FILE **out, int fd, const char *path, kv_err *e);
