/* The processes that one attempt at a job starts on this host, and ends: mpirun, the mpirun that
 * tells the hosts of a loss, the ranks of this host, and whatever lost its parent. */
#ifndef LAUNCH_LAUNCH_CHILDREN_H
#define LAUNCH_LAUNCH_CHILDREN_H

#include "launch/launch_attempt.h"

/* Blocks the signals that launch looks for. */
void children_watch_signals(signal_masks *m);
/* The next of them that has come, besides SIGCHLD; 0: there is none. */
int children_next_signal(const sigset_t *watched);

/* In a child: becomes a program in a group of its own, because Ctrl-C is for launch, which passes
 * it on. other: another such program has the stdin. said: its stdout and stderr; -1: those of
 * launch. */
_Noreturn void children_become(char **words, bool other, int said, const sigset_t *mask);

/* Starts mpirun with a pipe from it, j->heard. mask: the signals that are blocked in it. Errors:
 * io, memory, unsupported. */
int children_start(job *j, const launch_command *c, const sigset_t *mask, kv_err *e);

/* Signals the ranks of this host at once, the ranks of other hosts through mpirun, whose daemons
 * pass on SIGUSR2, and SIGTERM by ending all watchers. */
void children_kill_ranks(const job *j, int signal);

/* Tells the watchers and ranks of all hosts that a rank is lost, or has ended (why NULL), through a
 * second mpirun. Without memory or processes for that they find out by the silence of the rank. */
void children_tell_hosts(job *j, int number, const char *why, bool gone);

/* Ends all that is still a child, whatever it is. */
void children_end(void);

#endif
