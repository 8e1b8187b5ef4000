/* The names and locks of the files around a change in place, and the messages when they cannot
 * be had. Private to in_place.c and in_place_recover.c. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "kv_err.h"

#define JOURNAL_ENDING ".kv-journal"

typedef struct in_place_names {
    const char *given;   /* as the caller named the file, for messages; borrowed */
    char file[PATH_MAX]; /* links followed */
    char journal[PATH_MAX + 32];
    char temp[PATH_MAX + 36]; /* where the journal is until it is complete */
    int folder;               /* bytes of the folder's part of all three, the / included */
} in_place_names;

/* The last part of one of the three. */
const char *in_place_base(const in_place_names *n, const char *path);

/* Finds the names for the file at path, which is borrowed. Error: io. */
int in_place_names_of(in_place_names *n, const char *path, kv_err *e);

/* *named: whether the open file still stands at path. Error: io, it cannot be looked at. */
int in_place_look(int fd, const char *path, bool *named, kv_err *e);

/* Whether it surely does, and whether anything does. */
bool in_place_is_named(int fd, const char *path);
bool in_place_exists(const char *path);

/* ---- Locks ---- */

typedef enum lock_result {
    LOCKED,
    LOCK_HELD, /* by somebody else */
    NO_LOCKS   /* the file system has none, or none for a file that is open for reading only */
} lock_result;

/* Lock the journal, or the file (F_RDLCK, F_WRLCK, F_UNLCK). */
lock_result in_place_lock_whole(int fd);
lock_result in_place_lock_file(int fd, short kind);

/* Waiting for a lock: asking again and again lets Ctrl-C in. All zero begins. */
typedef struct in_place_patience {
    int64_t until, pause_ms;
} in_place_patience;

/* Error: interrupted. *over: the time is up. */
int in_place_wait(in_place_patience *p, bool *over, kv_err *e);

/* ---- Errors: each gives its code ---- */

int in_place_changing(const in_place_names *n, kv_err *e);
int in_place_in_use(const in_place_names *n, kv_err *e);
int in_place_damaged(const in_place_names *n, kv_err *e);
int in_place_not_now(const in_place_names *n, kv_err *e);
int in_place_cannot_end(const in_place_names *n, const char *doing, kv_err *e);

/* What to do about an error that left the file half changed: the journal cannot end the change, or
 * it can. */
void in_place_hint_lost(const in_place_names *n, kv_err *e);
void in_place_hint_kept(const in_place_names *n, kv_err *e);
