/* kvctl attach: a prompt on a job that runs, which reads and changes nothing. kvctl jobs: the jobs
 * of this user that run here, or whose launcher does. kvctl launch --grow: one worker more. */
#ifndef ATTACH_ATTACH_H
#define ATTACH_ATTACH_H

#include "base/buf.h"
#include "kv_err.h"
#include "launch/jobs_socket.h"

/* ---- Jobs ---- */

/* The jobs that can be attached to, as their sockets in the folder of jobs tell. */

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

/* ---- The client ---- */

/* The words behind `attach`, `jobs` and `launch --grow`; they return the exit code. */
int attach_main(int argc, char **argv);
int jobs_main(int argc, char **argv);
int grow_main(int argc, char **argv);

#endif
