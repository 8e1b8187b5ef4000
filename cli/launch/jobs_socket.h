/* Sockets by which a job that runs is found and looked at: their folder, the messages on them, and
 * what a launcher answers. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "kv_err.h"
#include "launch/launch_options.h"

/* ---- The folder ---- */

/* The folder in which the jobs of a user can be found on this host: $KVCTL_JOBS, else
 * /tmp/kvctl.UID. The launcher of a job has a socket there that bears the job's name, and each
 * worker has one called NAME:ID:RANK on its own host. Launchers of several hosts may have given the
 * same name, so the ID is the end of the job's folder (launch_folder.h).
 *
 * The folder is the user's alone (0700), and a real folder: one that another user made, that others
 * may enter, or that is a link, is refused and not used. Sockets have mode 0600, and both sides ask
 * the kernel who the other one is. Who changes the folder holds its lock, so that the socket of a
 * job that is gone can be told from one that begins.
 */

enum {
    JOBS_NAME = 64, /* bytes of the name of a job, at most */
    JOBS_ID = 6,
    JOBS_SOCKET = JOBS_NAME + 16
};

/* Letters, digits, '-', '_' and '.', no '.' first. */
bool jobs_is_name(const char *name);

/* The name of a worker's socket; they sort by rank. `folder` may be its ID instead. */
void jobs_name_worker(char file[JOBS_SOCKET], const char *name, const char *folder, int number);

/* Opens the folder; makes: also makes it. Out: *dir, -1 where there is none and it is not made.
 * Errors: io (it cannot be made or opened, or is not this user's alone). */
int jobs_folder_open(bool makes, int *dir, kv_err *e);

/* A new socket of that name in an open folder, which listens. A socket of that name that a dead job
 * has left is replaced. Errors: busy (a job of that name runs), io. */
int jobs_listen(int dir, const char *name, int *fd, kv_err *e);

/* Connects to it, and waits at most so many seconds where many others do at the same time. Returns
 * the socket; -1, errno: ECONNREFUSED (nobody listens any more), EAGAIN (it accepts none now),
 * EPERM (no socket, or another user's), … */
int jobs_connect(int dir, const char *name, int seconds);

/* The next connection to a socket that listens, whose other side is of this user; -1: none now. */
int jobs_accept(int fd);

/* Removes the socket of this name, or that of a worker of $KVSTORE_JOB, if its job is gone. folder:
 * that of the job. */
void jobs_tidy(int dir, const char *name);
void jobs_tidy_worker(const char *folder, int number);

/* Removes the socket when the job ends; dir, fd and name are those of jobs_listen. */
void jobs_unlisten(int dir, int fd, const char *name);

/* ---- Messages ---- */

/* The messages between `kvctl attach` or `kvctl jobs`, a launcher and a rank, on a Unix socket.
 *
 *   offset  size  a message
 *        0     4  how many bytes of text follow
 *        4     4  the kind
 *
 * A launcher answers JOBS_ASK with JOBS_TOLD, lines `name value`. JOBS_ENTER asks it whether the
 * worker of that number can be looked at here, with no number which one can; JOBS_GROW asks it to
 * let a spare in as a worker. It answers both with JOBS_TOLD, whose text is the number of the
 * worker, or with JOBS_REFUSED.
 *
 * To a worker the client sends JOBS_ENTRY, and JOBS_STOP to give it up. The number of an entry is
 * that of the records so far if records are wanted (out/record.h), else none. The worker answers
 * with any number of JOBS_OUT, JOBS_ERR, JOBS_NOTE, JOBS_PLOT and JOBS_FILE, and JOBS_DONE with the
 * exit code as text. JOBS_ASK it answers with JOBS_TOLD, too.
 *
 * Lengths are not believed: what is longer than the reader expects ends the connection. */

typedef enum jobs_kind {
    JOBS_ASK = 'j',
    JOBS_TOLD = 'i',
    JOBS_ENTER = 'a',
    JOBS_GROW = 'g',
    JOBS_REFUSED = 'r', /* a sentence */
    JOBS_ENTRY = 'c',   /* a line with a number, and the text of an entry */
    JOBS_STOP = 'x',
    JOBS_OUT = 'o',
    JOBS_ERR = 'e',
    JOBS_NOTE = 'n', /* why there is no answer yet */
    JOBS_PLOT = 'p', /* attach.h: the table of a picture's bytes */
    JOBS_FILE = 'w', /* a name with its NUL, and what is to be written into that file */
    JOBS_DONE = 'd'
} jobs_kind;

enum {
    JOBS_SMALL = 64 << 10, /* bytes of an entry, at most */
    JOBS_LARGE = 1 << 30   /* and of what a worker sends */
};

typedef struct jobs_head {
    uint32_t bytes, kind;
} jobs_head;

/* Sends a message. Returns whether all of it went. A peer that is gone raises no signal; one that
 * does not read for the timeout of the socket counts as gone. */
bool jobs_send(int fd, jobs_kind kind, const void *text, size_t n);

/* The same for a text up to its NUL. */
bool jobs_say(int fd, jobs_kind kind, const char *text);

/* Waits for a message of at most `most` bytes; *text becomes its own. Returns 1; 0 when the peer
 * has ended the connection before its first byte; -1, errno: a message that is cut or too long
 * (EPROTO), a timeout (EAGAIN), … */
int jobs_receive(int fd, jobs_kind *kind, buf *text, size_t most);

/* ---- The door of a launcher ---- */

/* The way into a job that runs: from the socket of the launcher `kvctl jobs` learns what the job
 * is, and `kvctl attach` which worker it may look at. It then connects to that one itself, so a
 * client that stops reading holds no launcher up. */

struct job;

enum { DOOR_CLIENTS = 16 /* that have connected and not asked yet */ };

typedef struct launch_door {
    int dir, fd; /* fd: -1 where nobody can attach */
    const char *name;
    int64_t since; /* seconds since 1970 */
    int clients[DOOR_CLIENTS], n;
} launch_door;

/* Makes the socket, under the name of the job. Without a folder that is safe it says so, and the
 * job runs without a door. Error: busy (a job of that name runs). */
int door_open(launch_door *d, const launch_options *o, kv_err *e);

/* Answers what clients have asked; waits for none of them. */
void door_look(launch_door *d, struct job *j);

void door_close(launch_door *d);
