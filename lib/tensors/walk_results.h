/* Results of the pieces of a walk, combined in the order of the pieces, so that sums have the same
 * bits whatever the threads did first.
 *
 * Results are kept for those tensors alone of which some pieces are missing, and are as many as the
 * pieces that one thread has: a few tensors at a time. */
#ifndef TENSORS_WALK_RESULTS_H
#define TENSORS_WALK_RESULTS_H

#include "tensors/walk.h"

typedef struct walk_results walk_results;

/* Called once a tensor, when its last piece has come, with the results of all n pieces in order; at
 * the same time for other tensors. */
typedef void walk_results_fn(void *arg, int64_t tensor, const void *results, int64_t n);

/* For a walk over ntensors; a result has result_bytes. Error: memory. */
int walk_results_new(walk_results **out, int64_t ntensors, size_t result_bytes,
                     walk_results_fn *combine, void *arg, kv_err *e);
void walk_results_free(walk_results *g); /* NULL is allowed; also when pieces are missing */

/* Hands over the result of a piece of a tensor with so many elements. Any thread may call it.
 * Error: memory. */
int walk_results_put(walk_results *g, const walk_piece *p, int64_t elements, const void *result,
                     kv_err *e);

#endif
