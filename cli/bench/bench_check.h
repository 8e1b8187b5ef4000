/* Whether a store computed what it should while it was timed: sampled elements against values that
 * are known otherwise. Sums, copies and codes have closed forms; for an optimizer a small store,
 * which gets the same pushes, has every element that the large one can have. */
#ifndef BENCH_BENCH_CHECK_H
#define BENCH_BENCH_CHECK_H

#include "bench/bench_op.h"
#include "bench/bench_room.h"

/* One array of BENCH_PERIOD elements: what the result of an operation holds after so many pushes of
 * n values. */
int bench_expect(kv_array **out, const bench_data *data, bench_op op, int n, int64_t pushes,
                 kv_err *e);

/* Compares the arrays of a set (an array a key) that are not NULL at sampled places; adds their
 * number to *checked. In a sparse room they are row_sparse. Error: internal. */
int bench_compare(const bench_room *r, kv_array *const *set, bench_op op, kv_array *expected,
                  int64_t *checked, kv_err *e);

/* The same of what a store holds, which is pulled. */
int bench_compare_store(const bench_room *r, kv *store, bench_op op, kv_array *expected,
                        int64_t *checked, kv_err *e);

#endif
