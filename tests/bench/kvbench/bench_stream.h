/* The speed that the memory of this machine allows: loops that read and write the same arrays as an
 * operation of the store, with the same threads, and do next to nothing else.
 *
 * A mix is a number of streams: arrays that are read, that are read and written back, and that are
 * only written; each stream has one block for every array of the workload. A loop goes over the
 * arrays in pieces of 256 KB that the threads of the pool share, small arrays together, as an
 * operation of the store is cut. Elements are added as 32-bit integers, whatever they mean, so that
 * no pattern of bits is slow.
 *
 * There are two loops: with plain stores, before which the processor reads what it will overwrite,
 * and with streaming stores, which save that and pass by the caches. Which of them is the limit
 * depends on sizes and machine, so the caller times both.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_err.h"

#define STREAM_MAX 24 /* streams of one kind */

/* Arrays of these sizes, cut into parts for threads. All zero is empty. */
typedef struct stream_cut {
    struct stream_piece *pieces;
    int64_t *first; /* piece of each part, and one behind the last */
    int64_t nparts;
} stream_cut;

/* bytes[i]: the size of array i, borrowed for the call. What is left behind whole 4 bytes is not
 * touched. Released with stream_cut_release, also after a failure. Error: memory. */
int stream_cut_init(stream_cut *c, const int64_t *bytes, int64_t narrays, kv_err *e);
void stream_cut_release(stream_cut *c);

/* read[s][i] is array i of stream s, at least 4 bytes aligned; written ones that are not aligned
 * to 64 bytes get plain stores in either loop. */
typedef struct stream_mix {
    const stream_cut *cut;
    int nread, nboth, nwrite;
    void *const *read[STREAM_MAX];
    void *const *both[STREAM_MAX];
    void *const *write[STREAM_MAX];
} stream_mix;

/* Goes over all arrays once with the pool's threads. */
void stream_run(const stream_mix *m, bool streaming);

/* Seconds on a clock that only goes forward. */
double stream_now(void);

/* The median of n numbers, which are sorted; n is at least 1. */
double stream_median(double *x, int n);

/* The median of limit[i] / ours[i]: pairs that were timed in turn share whatever else the machine
 * did. n is at most STREAM_PAIRS. */
#define STREAM_PAIRS 1000
double stream_ratio(const double *ours, const double *limit, int n);
