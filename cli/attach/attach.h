/* kvctl attach: a prompt on a job that runs, which reads and changes nothing. kvctl jobs: the jobs
 * of this user that run here, or whose launcher does. kvctl launch --grow: one worker more. */
#pragma once

#include "base/buf.h"
#include "kv_err.h"
#include "launch/jobs_socket.h"
#include "out/plot.h"
#include "session/session.h"

/* ---- Jobs ---- */

typedef struct job_entry {
    char name[JOBS_SOCKET]; /* NAME:ID of one elsewhere where another job has the name, too */
    char id[JOBS_ID + 1];   /* what the names of its workers' sockets have of it */
    buf told;               /* lines `name value` */
    int first; /* the worker that told them, where the launcher runs elsewhere; -1: the launcher */
    bool silent; /* that one does not answer: told has only the state "silent" */
} job_entry;

typedef struct job_list {
    job_entry *items;
    int64_t n, cap;
    int dir; /* the folder; -1: there is none */
} job_list;

/* Lists the jobs by name, also those that are silent, and tidies away what dead ones have left. A
 * worker is asked only where it is the first one of a job whose launcher runs elsewhere. To be
 * released also after an error. Errors: io, memory. */
int attach_jobs(job_list *list, kv_err *e);
void attach_jobs_release(job_list *list);
#define own_jobs OWN(attach_jobs_release) job_list /* begins as {.dir = -1} */

/* ---- The client ---- */

/* The words behind `attach`, `jobs` and `launch --grow`; they return the exit code. */
int attach_main(int argc, char **argv);
int jobs_main(int argc, char **argv);
int grow_main(int argc, char **argv);

/* ---- The worker that is looked at ---- */

/* A worker of a job under `kvctl launch` lets people look at it: it has a socket in the user's
 * folder of jobs on its host (jobs_socket.h).
 *
 * One thread accepts clients and runs their entries, one after the other, each in a guest session
 * (attach_serve.c). A client that does not read what it asked for is dropped. */

/* ---- Pictures ---- */

/* A picture on its way from the worker that has the numbers to the terminal that shows it. */
void attach_plot_put(buf *out, const plot *p);

/* Reads one; plot_release releases it. Errors: format (malformed), memory. */
int attach_plot_take(plot *p, const char *bytes, size_t n, kv_err *e);

/* ---- Sockets ---- */

typedef struct attach_server attach_server;

/* Begins to serve the session of a worker's script, which is borrowed until attach_end. NULL: this
 * process is not a worker under a launcher, or has no socket; then nobody can attach, and
 * the script runs. */
attach_server *attach_begin(session *s);

/* Waits for an entry that runs, and lets go of the session. NULL is allowed. */
void attach_end(attach_server *a);
