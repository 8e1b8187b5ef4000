/* The commands of Open MPI that run a job. */
#ifndef LAUNCH_LAUNCH_MPIRUN_H
#define LAUNCH_LAUNCH_MPIRUN_H

#include "launch/launch_command.h"
#include "launch/launch_hosts.h"

/* Appends mpirun with the ranks of a job. h may be empty: mpirun knows the hosts. */
int mpirun_command(launch_command *c, const launch_options *o, const launch_hosts *h, kv_err *e);

/* The same hosts, and on each one process that tells the watchers and ranks there of a rank that is
 * lost, or gone, or with why NULL of one that has ended well. */
int mpirun_tell_command(launch_command *c, const launch_options *o, const launch_hosts *h,
                        int number, const char *why, bool gone, kv_err *e);

/* Adds the environment of the command: NAME=VALUE for each variable that ranks read. round: that of
 * the checkpoint, or 0. folder NULL: only what matters to somebody who runs the command by hand. */
void mpirun_environment(launch_command *set, const launch_options *o, const char *folder,
                        int64_t round);

#endif
