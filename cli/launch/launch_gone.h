/* Workers that a job goes on without (launch --elastic). A worker that was killed or is silent is
 * gone where servers are ranks of their own: launch writes that into the file `gone` of every host,
 * kills what is left of it, and names it at the end. Ranks that cannot do without it, as those of a
 * dist_sync store without --elastic, write the file `lost` then, and the job ends as ever. */
#ifndef LAUNCH_LAUNCH_GONE_H
#define LAUNCH_LAUNCH_GONE_H

#include "launch/launch_attempt.h"

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

#endif
