/* The store's own benchmark: times operations on workloads in turn with loops that only move the
 * same bytes, and gives what each reached of that limit.
 *
 * A row is one operation with one number of values. It is run once unmeasured, then `runs` times in
 * turn with the plain and the streaming loop (bench_stream.h): ours, plain, streaming, ours, …. The
 * loop with the smaller median is the limit; the fraction is the median of the ratios of the pairs,
 * so that what else the machine does meanwhile counts on both sides. A time ends when kv_wait has
 * returned. Results are compared with those of a small store (bench_calls.h), outside of what is
 * timed.
 *
 * On GPUs the limit is what copies take there (bench_place.h), and a time ends when they have done
 * their work; before it begins the values are theirs alone, as gradients are that they have just
 * computed.
 */
#pragma once

#include "bench_op.h"
#include "bench_place.h"
#include "bench_stream.h"
#include "bench_workload.h"

#define BENCH_MAX_WORKLOADS 32
#define BENCH_MAX_OPS       48

typedef struct bench_plan {
    const bench_workload *workloads[BENCH_MAX_WORKLOADS];
    int nworkloads;
    int64_t size; /* of the workloads that have one; 0: their own */
    int64_t row;  /* elements of a row of W5; 0: it has one axis */
    bench_op ops[BENCH_MAX_OPS]; /* none: those of the workload */
    int nops;
    int values[BENCH_MAX_VALUES]; /* none: those of the workload */
    int nvalues;
    bench_place place; /* of values and outs; the type of the store is device or local */
    int runs; /* 1 to STREAM_PAIRS */
    bool quick;
} bench_plan;

typedef struct bench_row {
    const char *workload, *op, *data;
    int64_t values, arrays, elements;
    int64_t bytes; /* that the model counts */
    int runs;
    double *samples, *limit_samples; /* seconds, in the order of the runs; borrowed for the call */
    double least, median, p95;       /* seconds */
    double limit;                    /* seconds, median of the better loop, or of the copies */
    double gb_s, limit_gb_s;         /* of those bytes, by the medians */
    const char *limit_is; /* "plain" or "streaming" loop; on GPUs "copy", by the bus "transfer" */
    double fraction; /* of the limit that was reached */
    int64_t checked; /* elements that were compared */
} bench_row;

/* Callbacks of a run: row gets each row, stop returns an error when the work shall end; may be
 * NULL. */
typedef struct bench_watch {
    int (*row)(void *arg, const bench_row *row, kv_err *e);
    int (*stop)(void *arg, kv_err *e);
    void *arg;
} bench_watch;

/* Adds workloads by name ("W1", "all"), operations ("push", "optimizers") and counts of values, n
 * bytes of text each. Errors: usage (unknown, too many), value (a count). */
typedef int bench_take(bench_plan *p, const char *text, size_t n, kv_err *e);
bench_take bench_plan_workload, bench_plan_op, bench_plan_values;

/* Adds the words of a list with commas, each by take. Errors: those of take. */
int bench_plan_words(bench_plan *p, const char *list, bench_take *take, kv_err *e);

/* Runs the plan. Before anything is measured all of it is checked, and whether the memory is there.
 * Out: *drift, the largest by the smallest median of one loop that ran at the start and at the end,
 * less 1. Errors: memory (a workload needs more than there is), internal (a wrong result),
 * those of watch and of a device. */
int bench_run(double *drift, const bench_plan *p, const bench_watch *watch, kv_err *e);

/* The threads of the store and of the loops. */
int bench_threads(void);
