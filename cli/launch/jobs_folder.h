/* The folder in which the jobs of a user can be found on this host: $KVCTL_JOBS, else
 * /tmp/kvctl.UID. Each job that runs has a socket there, which bears its name.
 *
 * The folder is the user's alone (0700), and a real folder: one that another user made, that others
 * may enter, or that is a link, is refused and not used. Sockets have mode 0600, and both sides ask
 * the kernel who the other one is. Who changes the folder holds its lock, so that the socket of a
 * job that is gone can be told from one that begins.
 */
#ifndef LAUNCH_JOBS_FOLDER_H
#define LAUNCH_JOBS_FOLDER_H

#include <stdbool.h>

#include "kv_err.h"

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

/* Removes the sockets of jobs that are gone. */
void jobs_tidy(int dir);

/* Removes the socket when the job ends; dir, fd and name are those of jobs_listen. */
void jobs_unlisten(int dir, int fd, const char *name);

#endif
