/* Finds out if a job over several hosts has lost one of them with all its ranks. A host is alive as
 * long as its watchers send launch their heartbeats (WIRE_BEAT): a rank that is stopped is silent
 * while its watcher goes on, and if the watchers are silent too no process of the job is left.
 *
 * mpirun may notice first, or a rank that hears nothing of another one, or launch by itself. In all
 * these cases the sentence is that of loss_name_host. */
#ifndef LAUNCH_LAUNCH_LOSS_H
#define LAUNCH_LAUNCH_LOSS_H

#include "launch/launch_attempt.h"

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
