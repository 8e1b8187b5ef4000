/* The way into a job that runs: the launcher has a socket (jobs_folder.h) from which `kvctl jobs`
 * learns what it is, and through which `kvctl attach` comes to a worker.
 *
 * The launcher only opens the door: it connects to the socket `attach.RANK` that each worker has in
 * the folder of the job on its host, and hands that connection to the client. So nothing that is
 * asked or answered passes through the launcher, and a client that stops reading holds nobody up.
 */
#ifndef LAUNCH_LAUNCH_DOOR_H
#define LAUNCH_LAUNCH_DOOR_H

#include "launch/launch_options.h"

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

#endif
