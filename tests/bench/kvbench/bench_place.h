/* The place of the arrays of a benchmark, and the limit of GPUs with memory of their own: copies of
 * as many bytes as an operation must move.
 *
 * On a GPU the limit of an operation is a copy within its memory that reads half of the bytes and
 * writes the other half; what lies on another GPU than the keys is copied from there, or to there,
 * instead. Where the keys stay in host memory each value comes from its GPU and each out goes to
 * it, one after the other, by way of memory that is pinned already.
 *
 * Virtual GPUs are host memory: their limits are the loops of bench_stream.h.
 */
#pragma once

#include "kvstore.h"

#define BENCH_MAX_VALUES 8

typedef struct bench_place {
    kv_ctx ctx[BENCH_MAX_VALUES]; /* of value v and out v: ctx[v % n]; all cpu or all gpu */
    int n;                        /* 0: cpu(0) */
    bool home; /* keys stay in host memory, as in stores of type local */
} bench_place;

kv_ctx bench_place_of(const bench_place *p, int v);

/* Returns true if the place is on GPUs with memory of their own. */
bool bench_place_is_gpu(const bench_place *p);

/* Waits until those have done their work. Nothing to do elsewhere. Errors: those of the device. */
int bench_place_wait(const bench_place *p, kv_err *e);

/* The name of the first device; or that it is virtual. Error: those of the device. */
int bench_place_name(char out[128], const bench_place *p, kv_err *e);

/* Bytes that the device of the keys can give; 0: it does not say. */
int64_t bench_place_available(const bench_place *p);

/* The bytes that one run of an operation moves. */
typedef struct bench_traffic {
    int64_t bytes; /* in all, counted once for reading and once for writing */
    int64_t each;  /* of one value of every key; of one out likewise */
    int nvalues, nouts;
} bench_traffic;

typedef struct bench_copies {
    bench_place place;
    bench_traffic traffic;
    int64_t block; /* bytes of each of these, which lie on ctx[i] */
    void *from[BENCH_MAX_VALUES], *to[BENCH_MAX_VALUES];
} bench_copies;

/* Bytes that these copies need on the device of the keys. */
int64_t bench_copies_need(const bench_traffic *t);

/* place is on GPUs. Released with bench_copies_release, also after a failure. Errors: memory, those
 * of the device. */
int bench_copies_init(bench_copies *c, const bench_place *place, const bench_traffic *t, kv_err *e);
void bench_copies_release(bench_copies *c);

/* Copies once, and waits until all is copied. */
int bench_copies_run(bench_copies *c, kv_err *e);
