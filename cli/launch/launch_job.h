/* Jobs of several ranks: kvctl launch runs mpirun, and kvctl launch-rank, which mpirun starts on
 * every host, is what watches one rank. Watchers tell launch through mpirun (launch_folder.h) and
 * the ranks of their host through a folder (launch_folder.h). When a rank of a job over several
 * hosts is lost, launch runs kvctl launch-tell on each of them, through mpirun again. With
 * restarts each attempt has a folder of its own. */
#pragma once

#include "launch/launch_options.h"

/* Runs the job through mpirun and waits for it, again after a loss as often as it may; no process
 * of it is left then. *code becomes the exit code of the job. With dry_run it prints the command.
 * Errors: those of the file of hosts and of hosts that cannot be used; io, memory, unsupported,
 * when it could not begin. */
int launch_job(const launch_options *o, int *code, kv_err *e);

/* The same through a queue: launch runs inside of what the queue gives. Errors: timeout (the queue
 * did not start it), and as above. */
int launch_queue(const launch_options *o, int *code, kv_err *e);

/* The watcher: the words of a rank. Returns the exit code. */
int launch_rank(int argc, char **argv);

/* Sets KVSTORE_RANK_PID, "PID JOB", which tells what this rank starts from the rank itself. */
void launch_mark_rank(void);

/* SSH... HOST COMMAND: runs that ssh, and tells launch when it fails. */
int launch_ssh(int argc, char **argv);

/* FILE RANK SENTENCE, on each host: adds the line to the file in the folder of the job. */
int launch_tell(int argc, char **argv);

/* A job as objects of Kubernetes: an MPIJob for the MPI operator (kubeflow.org/v2beta1), a
 * ConfigMap with the scripts, and a Secret with the values of variables, if there are any. The
 * operator starts pods with sshd, and one with kvctl launch, which reaches them over ssh as the
 * hosts of a file that the operator writes. */

/* Prints the objects. Errors: usage, value (a name, file or text that the objects cannot have), io,
 * memory. */
int launch_k8s(const launch_options *o, kv_err *e);

/* kvctl launch, and kvctl serve, a rank that only keeps keys. argv begins behind their names; they
 * print their errors and return the exit code. The first `given` words of launch are options of
 * kvctl, which each worker gets. foresee: reports the first mistake that the inputs of a worker
 * show before they run, and returns the exit code for it; 0: there is none. */
int launch_main(int argc, char **argv, int given, int (*foresee)(const struct options *worker));
int launch_serve(int argc, char **argv);

/* ---- launch -i ---- */

/* launch -i: a prompt for a job. Each entry goes to all workers, `@0 ENTRY` to one.
 *
 * The prompt comes when all workers have begun. An entry that takes longer than a second goes on in
 * the background. While somebody types, the job goes on as well: it runs in this process, between
 * keys.
 *
 * Each worker has a named pipe for entries in the folder of the job, so workers are processes of
 * this host. What the pipe does not take at once, of a large entry or of a worker that is stopped,
 * launch keeps, and sends it on while it does the rest of its work. Whenever a worker can take an
 * entry, it writes a line, with the exit code of the one before, into a pipe whose number
 * is in KVSTORE_ENTRIES. Its watcher sends that on behind all that the worker has printed. */

/* Runs the job and the prompt. *code: the exit code of the job; without a terminal, of the first
 * entry that failed in a job that ended well. Errors: io, memory, unsupported, when it could not
 * begin. */
int launch_prompt(const launch_options *o, int *code, kv_err *e);

/* ---- The worker's side ---- */

/* Where a worker's entries come from, and where their answers go. */
typedef struct entry_source {
    int fd, done;
} entry_source;

/* named: the value of KVSTORE_ENTRIES. Error: io. */
int entry_source_open(entry_source *from, const char *named, kv_err *e);
/* Says how the entry before ended and waits for the next. *text: mem_free it; NULL at the end, and
 * with a signal pending. *line: of its first one in the session. Error: memory. */
int entry_source_next(const entry_source *from, int rc, char **text, size_t *n, int *line,
                      kv_err *e);
