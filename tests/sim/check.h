/* The judge of a simulated job. The ranks report to it what they do and see (job.c); it notes each
 * report that the rules of the job forbid, and check_job says at the end whether all is well. */
#pragma once

#include "job.h"
#include "kv_err.h"

/* Begins with an attempt of a job: nothing is noted yet. */
void check_open(const job *j, int attempt, job_past *past);

/* Notes a mistake; only the first 8 are kept. */
__attribute__((format(printf, 1, 2))) void check_bad(const char *fmt, ...);

/* An assertion of the product reports that it does not hold. */
void check_assertion(const char *report);

/* A rank reports the round from which it goes on, which must be the same on all ranks. */
void check_start(int rank, int64_t round);

/* A spare that was let in reports the same, which is its own. */
void check_joined(int rank, int64_t round);

/* A worker reports that its push of a round has returned. */
void check_pushed(int rank, int64_t round);

/* A worker reports that it is about to push a round. */
void check_begins(int rank, int64_t round);

/* A worker reports the array that it pulled of a key after `own` pushes of it. all: every worker
 * had made all its pushes before the pull. */
void check_pulled(int rank, int key, int64_t own, bool all, const kv_array *a);

typedef enum ending { RUNNING, WELL, FAILED, KILLED, STOPPED /* by the launcher */ } ending;

/* The mishap strikes, when all ranks have joined or before that. */
void check_struck(bool joined);

/* Returns true if all ranks but the struck one have ended well, in a job that may go on so. */
bool check_goes_on(void);

/* Reports the end of a rank; e is the error of one that failed, else NULL. */
void check_ended(int rank, ending how, const kv_err *e);
ending check_ending(int rank);

/* The error of a rank that failed, and when a rank ended. */
const kv_err *check_why(int rank);
int64_t check_end_ms(int rank);

/* Returns true if the mishap of the job strikes this attempt. */
bool check_strikes(void);

/* Judges the ends when the job is over. Returns whether every rank ended well, which a mishap may
 * prevent without a mistake. */
bool check_job(bool deadlock);

/* The mistakes, a line each; "" if there are none. */
const char *check_report(void);
