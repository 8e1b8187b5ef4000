/* What a job loses: the processes of an attempt and how they are ended, workers that it goes on
 * without, hosts that are silent. */
#ifndef LAUNCH_LAUNCH_LOSSES_H
#define LAUNCH_LAUNCH_LOSSES_H

#include "launch/launch_attempt.h"

/* ---- Processes ---- */

/* The processes that one attempt at a job starts on this host, and ends: mpirun, the mpirun that
 * tells the hosts of a loss, the ranks of this host, and whatever lost its parent. */

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

/* ---- Workers that are gone ---- */

/* Workers that a job goes on without (launch --elastic). A worker that was killed or is silent is
 * gone where servers are ranks of their own: launch writes that into the file `gone` of every host,
 * kills what is left of it, and names it at the end. Ranks that cannot do without it, as those of a
 * dist_sync store without --elastic, write the file `lost` then, and the job ends as ever. */

/* Returns whether the others may go on without this rank: it is a worker, and not the first, which
 * makes the keys and writes the files. */
bool gone_may(const job *j, int number);

/* The others go on, and are told why. */
void gone_let(job *j, int number, const char *why);

/* Once a tick: tells other hosts, and takes what ranks of this host have asked for. */
void gone_look(job *j);

/* A rank on some host misses another one: "RANK sentence". */
void gone_take_missed(job *j, const char *text);

/* Names them, when the attempt is over. */
void gone_say(const job *j);

/* ---- Hosts that are lost ---- */

/* Finds out if a job over several hosts has lost one of them with all its ranks. A host is alive as
 * long as its watchers send launch their heartbeats (WIRE_BEAT): a rank that is stopped is silent
 * while its watcher goes on, and if the watchers are silent too no process of the job is left.
 *
 * mpirun may notice first, or a rank that hears nothing of another one, or launch by itself. In all
 * these cases the sentence is that of loss_name_host. */

/* Once a tick, when `full` says whether there was more to read than was read: then, and when ticks
 * stood still, nobody is silent because launch has heard nothing. */
void loss_tick(job *j, bool full);

/* Returns true if the whole host of a silent rank is silent. */
bool loss_is_host(const job *j, int number);

/* A rank that has not ended and whose host is silent: for half of the deadline when an ssh has
 * ended, else for longer than the ranks wait for each other, because those that have not joined do
 * not. Also one whose watcher alone is silent for so long: it was killed, and its rank with it.
 * -1: there is none. */
int loss_find(const job *j);

/* "rank 1 (worker) on n2 has not been heard for 15 s": `name` of it, and its watcher's silence. */
void loss_name_silent(const job *j, int number, const char *name, char *why, size_t size);

/* The same of a job on this host: its watcher is stopped, or mpirun is. */
void loss_name_local(const job *j, int number, const char *name, char *why, size_t size);

/* "host n2 is lost, with ranks 1, 3 and 5": those on the host of this one that have not ended. */
void loss_name_host(const job *j, int number, char *why, size_t size);

/* They have ended with it: nobody will tell. */
void loss_end_host(job *j, int number);

#endif
