/* The hosts of a job: which there are, and how many ranks each gets.
 *
 * A line of the file of hosts is HOST[:PORT] [slots=N]; # begins a comment. A host without slots
 * takes any number of ranks. Ranks go round the hosts in the order of the file. */
#pragma once

#include "base/buf.h"
#include "launch/launch_command.h"
#include "launch/launch_options.h"

/* ---- The file of hosts ---- */

typedef struct launch_host {
    char name[256];
    int slots; /* 0: any number */
    int ranks;
} launch_host;

typedef struct launch_hosts {
    launch_host *items;
    int64_t n, cap;
    int port; /* of ssh, the same for all; 0: what ssh takes */
} launch_hosts;

/* Reads the file and gives the ranks to the hosts. Errors: io, format (the line is named), value
 * (not enough slots), memory. On failure too h is to be released. */
int hosts_read(launch_hosts *h, const launch_options *o, kv_err *e);
void hosts_release(launch_hosts *h);

/* Appends "a:2,b:1", as mpirun reads it: the hosts with a rank. */
void hosts_list(const launch_hosts *h, buf *out);

/* Appends ssh with its options: no question is asked, and nobody is waited for beyond the deadline.
 */
void hosts_ssh(const launch_hosts *h, const launch_options *o, buf *out);

/* The command that copies this folder to a host. */
struct launch_command;
void hosts_sync_command(const launch_hosts *h, const launch_options *o, const char *host,
                        struct launch_command *out);

/* ---- The commands of Open MPI ---- */

/* The commands of Open MPI that run a job. */

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
