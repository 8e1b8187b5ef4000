/* The workloads of the benchmark: which arrays there are, and what is done with them. */
#pragma once

#include "kvstore.h"

typedef struct bench_shape {
    int ndim;
    int64_t shape[4];
    int64_t size; /* elements */
} bench_shape;

typedef struct bench_shapes {
    bench_shape *items;
    int64_t n, cap;
    int64_t elements; /* of all arrays */
} bench_shapes;

/* The dtype and the compression of a workload's values. */
typedef struct bench_data {
    const char *name; /* "float32", "2bit": a column of the table */
    kv_dtype dtype;
    const char *compression; /* or NULL */
} bench_data;

typedef struct bench_workload {
    const char *name, *about;
    int (*shapes)(bench_shapes *out, int64_t size, kv_err *e);
    bench_data data[2]; /* each is measured; name NULL: there is no second */
    const char *ops;    /* what is measured when nothing is said, with commas */
    const char *values; /* of push, pull and pushpull, likewise */
    int64_t size;       /* elements or keys as shapes takes them; 0: fixed */
    bool counts_keys;   /* it is a number of keys */
} bench_workload;

/* W1 to W8 without W6, the rows of make bench-rows; an entry without a name ends them. */
extern const bench_workload bench_workloads[];

/* One array of `size` elements. Error: memory. */
int bench_one_array(bench_shapes *out, int64_t size, kv_err *e);

/* The arrays of w, with `size` in place of its own where that is not 0 and w has one. quick, for
 * tests: a 64th of the elements in as many arrays, or a 100th of w's own size. The one array of W5
 * gets rows of `row` elements where that is not 0. Release the items by mem_free. Error: memory. */
int bench_workload_shapes(const bench_workload *w, int64_t size, int64_t row, bool quick,
                          bench_shapes *out, kv_err *e);
