/* A folder of files that appears at once or not at all: the files go to a new folder beside the old
 * one, which is then renamed over it. It holds files only, no folders.
 *
 * The old folder is exchanged with the new one in one step, where the file system can do that; its
 * files are removed afterwards. A process that is killed before that step leaves the old folder,
 * one that is killed behind it the new one; either may leave the other beside it under a hidden
 * name, which the next writer there removes. Where the file system cannot exchange, the old folder
 * is first renamed to .kv-PID-N.old: a process that is killed then leaves it there, complete, and
 * nothing removes it.
 */
#pragma once

#include <stdbool.h>

#include "kv_err.h"

/* A folder being written. Make its files with openat(fd, …); then exactly one of commit and
 * abandon. */
typedef struct folder_out {
    char *name;    /* the path as it was given, for messages */
    char *path;    /* where it goes: links followed, nothing behind the last name */
    char *temp;    /* where it is meanwhile */
    int fd;        /* of temp, locked */
    unsigned mode; /* that it gets */
    bool replaces; /* there is an old one */
    bool unsynced; /* (optional) set behind the open: nothing waits for the disk */
} folder_out;

/* Opens a folder that shall appear at path, which may end in "/". What stands there must be a
 * folder without folders in it, and only replace allows that. Until the commit no other user can
 * look into the new one; then it has the mode, the owner and the group of the old one. Errors: io;
 * usage (it exists, and replace is false; it holds a folder); memory. On failure nothing is
 * left. */
int folder_out_open(folder_out *out, const char *path, bool replace, kv_err *e);

/* Puts the folder in its place; its files are synced already. On failure the old folder stays as it
 * was. Releases out either way. Error: io. */
int folder_out_commit(folder_out *out, kv_err *e);

/* (optional) `tell` hears of each folder that should have gone, the old one behind the exchange or
 * the new one that has no place, and stays: its path, and the errno that says why. One for the
 * process. NULL, the default: no callback. */
void folder_out_tell(void (*tell)(void *arg, const char *path, int why), void *arg);

/* Drops the new folder. Allowed after a failed open. */
void folder_out_abandon(folder_out *out);

/* Folders whose files are trusted because nobody else can have put them there: code that is kept in
 * one runs later. */

/* Makes the folder and its parents where they are missing, private to this user; then opens it.
 * Out: *fd, for openat or /proc/self/fd; the caller closes it. The checks are of the folder
 * that was opened. Errors: io (it cannot be made or opened; it is a link; another user owns it, or
 * may write into it). */
int own_folder_open(int *fd, const char *path, kv_err *e);
