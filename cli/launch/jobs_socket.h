/* Sockets by which a job that runs is found and looked at: their folder, the messages on them, and
 * the launcher that hands its clients over to a worker. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "kv_err.h"
#include "launch/launch_options.h"

/* ---- The folder ---- */

/* The folder in which the jobs of a user can be found on this host: $KVCTL_JOBS, else
 * /tmp/kvctl.UID. Each job that runs has a socket there, which bears its name.
 *
 * The folder is the user's alone (0700), and a real folder: one that another user made, that others
 * may enter, or that is a link, is refused and not used. Sockets have mode 0600, and both sides ask
 * the kernel who the other one is. Who changes the folder holds its lock, so that the socket of a
 * job that is gone can be told from one that begins.
 */

enum { JOBS_NAME = 64 /* bytes of the name of a job, at most */ };

/* Letters, digits, '-', '_' and '.', no '.' first. */
bool jobs_is_name(const char *name);

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

/* Removes the socket of this name if its job is gone. Returns whether it was. */
bool jobs_tidy(int dir, const char *name);

/* Removes the socket when the job ends; dir, fd and name are those of jobs_listen. */
void jobs_unlisten(int dir, int fd, const char *name);

/* ---- Messages ---- */

/* The messages between `kvctl attach` or `kvctl jobs`, a launcher and a rank, on a Unix socket.
 *
 *   offset  size  a message
 *        0     4  how many bytes of text follow
 *        4     4  the kind
 *
 * A launcher answers JOBS_ASK with JOBS_TOLD, lines `name value`, and JOBS_ENTER, whose text is the
 * number of a worker or "", with JOBS_DOOR: the socket of that worker comes with it, and what is
 * then said on that one is between the client and the worker. JOBS_GROW asks it to let a spare in
 * as a worker, and it answers JOBS_TOLD, whose text is the number of that one, or JOBS_REFUSED. A
 * worker that is listed itself, because its launcher is elsewhere, answers JOBS_HERE: it serves on
 * the same socket.
 *
 * To a worker the client sends JOBS_ENTRY, the text of an entry, or JOBS_RECORDS, and JOBS_STOP to
 * give it up. The worker answers with any number of JOBS_OUT, JOBS_ERR, JOBS_NOTE, JOBS_PLOT and
 * JOBS_FILE, and JOBS_DONE with the exit code as text. JOBS_ASK it answers with JOBS_TOLD, too.
 *
 * Lengths are not believed: what is longer than the reader expects ends the connection. */

typedef enum jobs_kind {
    JOBS_ASK = 'j',
    JOBS_TOLD = 'i',
    JOBS_ENTER = 'a',
    JOBS_GROW = 'g',
    JOBS_DOOR = 'f',
    JOBS_HERE = 'h',
    JOBS_REFUSED = 'r', /* a sentence */
    JOBS_ENTRY = 'c',
    JOBS_RECORDS = 'k', /* a line with the number of records so far, and an entry: out/record.h */
    JOBS_STOP = 'x',
    JOBS_OUT = 'o',
    JOBS_ERR = 'e',
    JOBS_NOTE = 'n', /* why there is no answer yet */
    JOBS_PLOT = 'p', /* attach.h: the table of a picture's bytes */
    JOBS_FILE = 'w', /* a name with its NUL, and what is to be written into that file */
    JOBS_DONE = 'd'
} jobs_kind;

enum {
    JOBS_SMALL = 64 << 10,  /* bytes of what a client sends, at most */
    JOBS_LARGE = 1 << 30 /* and of what a worker does */
};

typedef struct jobs_head {
    uint32_t bytes, kind;
} jobs_head;

/* Sends a message, with a descriptor if pass is not -1. Returns whether all of it went. A peer that
 * is gone raises no signal; one that does not read for the timeout of the socket counts as gone. */
bool jobs_send(int fd, jobs_kind kind, const void *text, size_t n, int pass);

/* The same for a text up to its NUL. */
bool jobs_say(int fd, jobs_kind kind, const char *text);

/* Waits for a message of at most `most` bytes; *text becomes its own. *passed: NULL, or becomes the
 * descriptor that came with it, or -1. Returns 1; 0 when the peer has ended the connection before
 * its first byte; -1, errno: a message that is cut or too long (EPROTO), a timeout (EAGAIN), … */
int jobs_receive(int fd, jobs_kind *kind, buf *text, size_t most, int *passed);

/* ---- The door of a launcher ---- */

/* The way into a job that runs: the launcher has a socket (jobs_socket.h) from which `kvctl jobs`
 * learns what it is, and through which `kvctl attach` comes to a worker.
 *
 * The launcher only opens the door: it connects to the socket `attach.RANK` that each worker has in
 * the folder of the job on its host, and hands that connection to the client. So nothing that is
 * asked or answered passes through the launcher, and a client that stops reading holds nobody up.
 */

struct job;

enum { DOOR_CLIENTS = 16 /* that have connected and not asked yet */ };

typedef struct launch_door {
    bool open;
    int dir, fd;
    char name[80];
    int64_t since; /* seconds since 1970 */
    int clients[DOOR_CLIENTS], n;
} launch_door;

/* Sets KVSTORE_JOB and KVSTORE_JOB_HOST, from which ranks know the name of the job and the host of
 * its launcher: before the command of mpirun is made, which lists such variables. */
void door_tell_ranks(const launch_options *o);

/* Makes the socket, under --name or the number of this process. Without a folder that is safe it
 * says so, and the job runs without a door. Error: busy (a job of that name runs). */
int door_open(launch_door *d, const launch_options *o, kv_err *e);

/* Answers what clients have asked; waits for none of them. */
void door_look(launch_door *d, struct job *j);

void door_close(launch_door *d);
