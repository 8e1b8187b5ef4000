/* Jobs of several ranks: kvctl launch starts one on this machine, and kvctl launch-rank, which it
 * starts through mpirun, is what watches one rank.
 *
 * launch makes a folder for the job, $KVSTORE_RUN_DIR of its ranks:
 *
 *   events   a line for each thing that happens to a rank, from its watcher:
 *            "RANK start PID WATCHER", "RANK exit CODE", "RANK signal NUMBER"
 *   R.out    pipes with a name: what rank R writes
 *   R.err
 *   lost     "RANK sentence", once a rank is lost: from launch, or from a rank that has heard
 *            nothing of another one; all other ranks end then, with that sentence
 *   end      there once the job is over: the watchers end then. Until then they stay, because
 *            mpirun ends all other ranks with the first one that ends badly
 *   mpirun   what mpirun itself says
 *   rounds   (with a checkpoint) a line for each worker: how many rounds it has begun
 *
 * With restarts each attempt has a folder of its own.
 */
#ifndef TOOLS_LAUNCH_JOB_H
#define TOOLS_LAUNCH_JOB_H

#include <stdbool.h>

#include "base/buf.h"

/* What kvctl launch was asked for. */
typedef struct launch_options {
    int workers, servers;
    double deadline, timeout; /* seconds; timeout 0: none */
    const char *checkpoint; /* or NULL */
    int every;              /* rounds between two of them */
    int restarts;           /* at most */
    bool dry_run, help;
    char **words; /* of each worker's command line */
    int nwords;
} launch_options;

/* Appends what `help launch` and `kvctl launch --help` show. */
void launch_help(buf *out);

/* The round that a checkpoint holds; 0: there is no such file. Errors: those of kv_load, value (it
 * is none). */
int launch_round(const char *path, int64_t *round, kv_err *e);

/* Runs the job and waits for it, again after a loss as often as it may; no process of it is left
 * then. *code becomes the exit code of the job. With dry_run it prints the command. Errors: io,
 * memory, unsupported, when it could not begin. */
int launch_job(const launch_options *o, int *code, kv_err *e);

/* The watcher: WORKERS, then the words of a worker. Returns the exit code. */
int launch_rank(int argc, char **argv);

#endif
