/* The jobs that can be attached to, as their sockets in the folder of jobs tell. */
#ifndef ATTACH_ATTACH_JOBS_H
#define ATTACH_ATTACH_JOBS_H

#include "base/buf.h"
#include "kv_err.h"
#include "launch/jobs_folder.h"

typedef struct job_entry {
    char name[JOBS_NAME + 1];
    buf told;    /* lines `name value` */
    bool silent; /* its launcher does not answer: told has the state "silent" alone */
} job_entry;

typedef struct job_list {
    job_entry *items;
    int64_t n, cap;
    int dir; /* the folder; -1: there is none */
} job_list;

/* Lists the jobs by name, also those that are silent, and tidies away what dead ones have left. To
 * be released also after an error. Errors: io, memory. */
int attach_jobs(job_list *list, kv_err *e);
void attach_jobs_release(job_list *list);

/* The value that a job told under a name: "" if it told none. The text is borrowed. *n: its
 * bytes. */
const char *attach_job_field(const job_entry *x, const char *name, int *n);

/* *name becomes the job of that name; NULL: the only one. Errors: name, with a hint; peer (it is
 * silent). */
int attach_jobs_choose(const job_list *list, const char *job, const char **name, kv_err *e);

/* Asks the job for one worker more: *number is the rank that becomes one. Errors: io, peer. */
int attach_grow(const job_list *list, const char *name, int *number, kv_err *e);

/* Connects to a worker of the job: rank -1 is the first one of this host. Returns the socket, and
 * *number is which worker it is, -1 where that is not known. -1 with an error: io, peer. */
int attach_enter(const job_list *list, const char *name, int rank, int *number, kv_err *e);

#endif
