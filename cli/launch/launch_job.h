/* Jobs of several ranks: kvctl launch runs mpirun, and kvctl launch-rank, which mpirun starts on
 * every host, is what watches one rank. Watchers tell launch through mpirun (launch_folder.h) and
 * the ranks of their host through a folder (launch_folder.h). When a rank of a job over several
 * hosts is lost, launch runs kvctl launch-tell on each of them, through mpirun again. With
 * restarts each attempt has a folder of its own. */
#ifndef LAUNCH_LAUNCH_JOB_H
#define LAUNCH_LAUNCH_JOB_H

#include "base/buf.h"
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

/* SSH... HOST COMMAND: runs that ssh, and tells launch when it fails. */
int launch_ssh(int argc, char **argv);

/* RANK [SENTENCE], on each host: tells its watchers and ranks that one is lost, or has ended. */
int launch_tell(int argc, char **argv);

/* A job as objects of Kubernetes: an MPIJob for the MPI operator (kubeflow.org/v2beta1), a
 * ConfigMap with the scripts, and a Secret with the values of variables, if there are any. The
 * operator starts pods with sshd, and one with kvctl launch, which reaches them over ssh as the
 * hosts of a file that the operator writes. */

/* Names of objects obey RFC 1123, and end before what the operator appends. */
enum { K8S_NAME = 64 };

/* Prints the objects. Errors: usage, value (a name, file or text that the objects cannot have), io,
 * memory. */
int launch_k8s(const launch_options *o, kv_err *e);

/* kvctl launch, and kvctl serve, a rank that only keeps keys. argv begins behind their names; they
 * print their errors and return the exit code. The first `given` words of launch are options of
 * kvctl, which each worker gets. foresee: reports the first mistake that the inputs of a worker
 * show before they run, and returns the exit code for it; 0: there is none. */
int launch_main(int argc, char **argv, int given, int (*foresee)(const struct options *worker));
int launch_serve(int argc, char **argv);

#endif
