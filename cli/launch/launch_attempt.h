/* One attempt at a job: mpirun, what its watchers tell, and how it ends. */
#ifndef LAUNCH_LAUNCH_ATTEMPT_H
#define LAUNCH_LAUNCH_ATTEMPT_H

#include <signal.h>
#include <stdio.h>
#include <sys/types.h>

#include "launch/launch_command.h"
#include "launch/launch_hosts.h"
#include "launch/launch_output.h"

typedef struct rank {
    pid_t pid, watcher; /* on their host; 0: has not started */
    char host[64];
    bool ended;
    bool stopped;     /* by its watcher, because mpirun ended the job */
    int64_t heard_ms; /* when its watcher last told anything */
    long long rounds; /* begun, as told at its end; -1: not told */
    bool asked;       /* a spare that was told to become a worker */
    int entries;      /* the named pipe of its entries, in a job with a prompt */
    bool gone;        /* the others go on without it */
    bool untold;      /* and the other hosts have not been told */
    char why[256];    /* the sentence of that */
} rank;

typedef struct job {
    struct launch_door *door; /* jobs_socket.h */
    const launch_options *o;
    const launch_hosts *hosts;
    bool is_local; /* all ranks are processes of this host */
    int n;
    rank *ranks;
    char folder[4096];
    int held;                   /* of the folder */
    int heard;                  /* the pipe from mpirun; -1: closed */
    int64_t looked_ms;          /* the last tick */
    int64_t unheard_ms;         /* when something was last left in the pipe, or nobody looked */
    launch_output output;       /* of the ranks */
    buf bytes;                  /* of it, the part of a cell that has come */
    buf log;                    /* what mpirun itself said */
    pid_t mpirun;               /* 0: has ended */
    pid_t telling;              /* mpirun that tells the hosts of a loss; 0: none */
    int64_t round;              /* of the checkpoint from which it goes on */
    int64_t stopped_ms;         /* when mpirun ended the first rank by itself; 0: it did not */
    bool ssh_ended;             /* one that mpirun had started: perhaps its host is lost */
    long missed_at;             /* bytes of the file `missed` that were read */
    int early;                  /* the rank that ended first, and well; -1: none */
    int64_t early_ms;           /* when; 0: the hosts have been told */
    int cut;                    /* the first rank that Open MPI has ended (tell_cut) */
    int64_t cut_ms;             /* when; 0: none, or it was told */
    int64_t first_ms, begin_ms; /* when the first attempt began, and this one */
    int64_t end_ms;             /* when the remaining ranks are killed; 0: nothing failed */
    int alike;                  /* ranks that ended with this code; 0: it was said why */
    int64_t say_ms;             /* when that is said at the latest */
    char why[512];              /* the sentence */
    int code;
    bool killed; /* the remaining ranks were */
    bool lost;   /* a rank was: the job may begin again */
} job;

/* The signals of launch, which are blocked and looked for, and those that were blocked before. */
typedef struct signal_masks {
    sigset_t watched, before;
} signal_masks;

/* Runs the command, which is mpirun with the ranks, and waits for it; no process of it is left
 * then. j has what was asked for, its code and whether it may begin again are found in it. *rounds:
 * how many rounds all workers have begun; -1: not known. Errors: io, memory, unsupported, when it
 * could not begin. */
int attempt_run(job *j, const launch_command *c, const signal_masks *m, long long *rounds,
                kv_err *e);

/* Goes on for at most a few milliseconds. watched: the signals that end the job. */
void attempt_tick(job *j, const sigset_t *watched);

/* Returns true until the ranks have ended. */
bool attempt_runs(const job *j);

/* Takes n bytes that mpirun has passed on from the watchers. all: nothing more will come. */
void attempt_take(job *j, const char *bytes, size_t n, bool all);

#endif
