/* A worker of a job under `kvctl launch` lets people look at it: it listens at the socket
 * `attach.RANK` in the folder of the job on its host, where the launcher hands its clients over
 * (launch_door.h). The first worker of a host on which the launcher does not run also has a socket
 * in the user's folder of jobs (jobs_folder.h), so that the job is found there.
 *
 * One thread accepts clients and runs their entries, one after the other, each in a guest session
 * (attach_guest.h). A client that does not read what it asked for is dropped. */
#ifndef ATTACH_ATTACH_SERVE_H
#define ATTACH_ATTACH_SERVE_H

#include "session/session.h"

typedef struct attach_server attach_server;

/* Begins to serve the session of a worker's script, which is borrowed until attach_end. NULL: this
 * process is no worker under a launcher, or there is no socket for it; then nobody can attach, and
 * the script runs. */
attach_server *attach_begin(session *s);

/* Waits for an entry that runs, and lets go of the session. NULL is allowed. */
void attach_end(attach_server *a);

#endif
