/* The processes that one attempt at a job starts on this host, and ends: mpirun, the mpirun that
 * tells the hosts of a loss, the ranks of this host, and whatever lost its parent. */
#ifndef LAUNCH_LAUNCH_CHILDREN_H
#define LAUNCH_LAUNCH_CHILDREN_H

#include "launch/launch_attempt.h"

/* Starts mpirun with a pipe from it, j->heard. mask: the signals that are blocked in it. Errors:
 * io, memory, unsupported. */
int children_start(job *j, const launch_command *c, const sigset_t *mask, kv_err *e);

/* Those of this host at once, those of others through mpirun, whose daemons pass on SIGUSR2, and
 * SIGTERM by ending all watchers. */
void children_kill_ranks(const job *j, int signal);

/* Tells the watchers and ranks of all hosts that a rank is lost, or has ended (why NULL), through a
 * second mpirun. Without memory or processes for that they find out by the silence of the rank. */
void children_tell_hosts(job *j, int number, const char *why);

/* Ends all that is still a child, whatever it is. */
void children_end(void);

#endif
