/* The output of a job's ranks, on its way to the user: whole lines, each behind its rank.
 *
 * A mistake that all ranks make would be printed once a rank. So a line waits up to half a second
 * for the other ranks to write it too, and is printed once, behind `[0..3]`, or `[0 2]` where not
 * all wrote it. It waits for no rank that has ended, or whose next line stands behind it already.
 * The lines of a rank stay in their order. A stdout that is not a terminal is read by programs,
 * which look for ranks: its lines are not joined. */
#ifndef LAUNCH_LAUNCH_OUTPUT_H
#define LAUNCH_LAUNCH_OUTPUT_H

#include <stdbool.h>

#include "base/buf.h"
#include "kv_err.h"

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

#endif
