/* One attempt at a job: mpirun, what its watchers tell, and how it ends. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "kv_err.h"
#include "launch/launch_command.h"

/* ---- The output of the ranks ---- */

/* The output of a job's ranks, on its way to the user: whole lines, each behind its rank.
 *
 * A mistake that all ranks make would be printed once a rank. So a line waits up to half a second
 * for the other ranks to write it too, and is printed once, behind `[0..3]`, or `[0 2]` where not
 * all wrote it. It waits for no rank that has ended, or whose next line stands behind it already.
 * The lines of a rank stay in their order. A stdout that is not a terminal is read by programs,
 * which look for ranks: its lines are not joined. */

enum { OUTPUT_JOIN_MS = 500 };

/* All zero is none. */
typedef struct launch_output {
    int workers, n;            /* ranks: the workers come first, then the servers */
    struct output_rank *ranks; /* n of them */
    struct output_line *first; /* lines that wait, in the order in which they are printed */
    int64_t waiting;           /* how many */
    bool joins[2];             /* the lines of stdout, of stderr */
    int64_t join_ms;           /* a line waits for so long at most: OUTPUT_JOIN_MS */
    int error;                 /* why stdout could not be written, an errno; 0: nobody reads it */
    void (*done)(void *arg, int rank, int rc); /* NULL: for nobody (output_done) */
    void *arg;
} launch_output;

/* Error: memory. */
int output_begin(launch_output *o, int workers, int servers, kv_err *e);

/* A rank has written n bytes to stdout or stderr. */
void output_take(launch_output *o, int rank, bool to_stderr, const char *text, size_t n);

/* A rank is done with an entry of a prompt: calls o->done once all that it wrote is printed. */
void output_done(launch_output *o, int rank, int rc);

/* A rank writes nothing until further notice: lines do not wait for it. */
void output_idles(launch_output *o, int rank, bool idles);

/* A rank has ended, and writes no more. */
void output_ended(launch_output *o, int rank);

/* Prints the lines that wait no longer; all of them when `all` is set. */
void output_look(launch_output *o, bool all);

/* Prints what is left. */
void output_release(launch_output *o);

/* ---- The attempt ---- */

typedef struct rank {
    pid_t pid, watcher; /* on their host; 0: has not started */
    char host[64];
    bool ended;
    bool stopped;     /* by its watcher, because mpirun ended the job */
    int64_t heard_ms; /* when its watcher last told anything */
    long long rounds; /* begun, as told at its end; -1: not told */
    bool asked;       /* a spare that was told to become a worker */
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

/* How many ranks have begun, and how many have ended. */
typedef struct rank_count {
    int begun, ended;
} rank_count;
static inline rank_count attempt_count(const job *j)
{
    rank_count n = {0, 0};
    for (int i = 0; i < j->n; i++) {
        n.begun += j->ranks[i].pid != 0;
        n.ended += j->ranks[i].ended;
    }
    return n;
}

/* Returns true until the ranks have ended. */
bool attempt_runs(const job *j);

/* Takes n bytes that mpirun has passed on from the watchers. all: nothing more will come. */
void attempt_take(job *j, const char *bytes, size_t n, bool all);

/* ---- Losses ---- */

/* Blocks the signals that launch looks for. */
void children_watch_signals(signal_masks *m);
/* The next of them that has come, besides SIGCHLD; 0: there is none. */
int children_next_signal(const sigset_t *watched);

/* In a child: becomes a program in a group of its own, because Ctrl-C is for launch, which passes
 * it on. other: another such program has the stdin. out, err: stdout and stderr; -1: none. */
_Noreturn void children_become(char **words, bool other, int out, int err, const sigset_t *mask);

/* Once a tick, when `full` says whether there was more to read than was read: then, and when ticks
 * stood still, nobody is silent because launch has heard nothing. */
void loss_tick(job *j, bool full);

/* A rank that has not ended and whose host is silent: for half of the deadline when an ssh has
 * ended, else for longer than the ranks wait for each other, because those that have not joined do
 * not. Also one with a watcher that is silent for so long: it was killed, and its rank with it.
 * -1: there is none. */
int loss_find(const job *j);

/* Returns true if the whole host of a silent rank is silent. */
bool loss_is_host(const job *j, int number);

/* "rank 1 (worker) on n2 has not been heard for 15 s": `name` of it, and its watcher's silence. Of
 * a job on this host its watcher is stopped, or mpirun is, through which the cells of all come. */
void loss_name_silent(const job *j, int number, const char *name, char *why, size_t size);

/* "host n2 is lost, with ranks 1, 3 and 5": those on the host of this one that have not ended. */
void loss_name_host(const job *j, int number, char *why, size_t size);

/* They have ended with it: nobody will tell. */
void loss_end_host(job *j, int number);
