/* The arrays that a workload is measured with: the values that are pushed, the outs that are pulled
 * into, and the blocks that the loops use in place of the store's own. They are made when they are
 * first asked for and serve all operations of a workload.
 *
 * Element i of array k of value v is ((i + k) % BENCH_PERIOD + 1) / 8 * (v + 1): small multiples of
 * 1/8, so that sums are exact and every result has at most BENCH_PERIOD different elements.
 */
#pragma once

#include "bench_place.h"
#include "bench_stream.h"
#include "bench_workload.h"

#define BENCH_PERIOD 13

/* One array for each key. */
typedef struct bench_set {
    kv_array **arrays;
    void **data; /* of each array, in host memory */
} bench_set;

typedef struct bench_arrays {
    const bench_data *data;
    const bench_place *place; /* of values and outs */
    bench_shapes shapes;
    kv_key *keys;      /* 0, 1, … */
    int64_t *bytes;    /* of the elements of each array */
    int64_t all_bytes; /* of all arrays */
    int64_t largest;   /* index of the largest array */
    stream_cut cut;
    bench_set values[BENCH_MAX_VALUES], outs[BENCH_MAX_VALUES];
    void *blocks[STREAM_MAX]; /* memory of scratch */
    void **scratch[STREAM_MAX];
    int nvalues, nouts, nscratch;
} bench_arrays;

/* Takes shapes, also on failure; borrows place. Released with bench_arrays_release in any case. */
int bench_arrays_init(bench_arrays *r, const bench_data *data, const bench_place *place,
                      bench_shapes *shapes, kv_err *e);
void bench_arrays_release(bench_arrays *r);

/* Makes what is missing up to these counts. Error: memory. */
int bench_arrays_need(bench_arrays *r, int nvalues, int nouts, int nscratch, kv_err *e);

/* On GPUs: as if these had just computed the first values, so that no other device has a copy, and
 * cleared the first outs. Nothing to do elsewhere. Errors: those of the device. */
int bench_arrays_renew(bench_arrays *r, int nvalues, int nouts, kv_err *e);

/* Bytes that programs can have without swapping; 0 when the system does not say. */
int64_t bench_memory_available(void);
