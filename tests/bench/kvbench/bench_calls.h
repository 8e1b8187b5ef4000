/* One operation as a row measures it: a store, and the call on all keys of an array set. The store
 * that is timed has a twin of one key with BENCH_PERIOD elements on the CPU, which gets the same
 * calls: it holds every element that the large one can have, so sampled elements are compared with
 * it. */
#pragma once

#include "bench_arrays.h"
#include "bench_op.h"

/* One row to be measured. */
typedef struct bench_case {
    bench_op op;
    int n; /* values, and outs, a key */
} bench_case;

/* The key list of a call: the values of a key stand one behind the other. */
typedef struct bench_pairs {
    kv_key *keys;
    kv_array **arrays;
    int64_t n;
} bench_pairs;

typedef struct bench_calls {
    bench_arrays *arrays;
    bench_case which;
    kv *store;
    bench_pairs push, pull;
} bench_calls;

/* Makes the arrays that are missing, and the store with its keys. Released with
 * bench_calls_release, also after a failure. Errors: memory, those of a device. */
int bench_calls_init(bench_calls *c, bench_arrays *r, bench_case which, kv_err *e);
void bench_calls_release(bench_calls *c);

/* The operation once, until the store has done it. */
int bench_calls_run(bench_calls *c, kv_err *e);

/* Compares what the last call gave with that of the twin, which has had as many; without a pull,
 * three stored arrays. Adds the elements compared to *checked. Error: internal. */
int bench_calls_compare(bench_calls *c, bench_calls *twin, int64_t *checked, kv_err *e);
