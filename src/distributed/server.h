/* A server keeps the parts of keys, collects the pushes of a round and hands them to a store of
 * its own, of type local, in which every part is a key. So sums, rules, optimizers, their states
 * and row_sparse arrays are those of one machine.
 *
 * A round of a part is complete when every worker that takes part has contributed to it once; its
 * sum is taken by rank. A worker's next push of the key belongs to the next round. With dist_async
 * every push is a round of its own. A pull says how many pushes of its worker it must come behind,
 * a push how many pulls: so each worker's calls on a key take effect in its program order, even if
 * their records overtake each other on the way.
 */
#pragma once

#include "distributed/asks.h"
#include "distributed/elements.h"
#include "distributed/server_ranks.h"

/* Begins to serve, if this rank does: for net_open. It cannot fail. */
int server_open(kv_err *e);

/* On a rank that only serves: returns when all workers have left. Errors: peer. */
int server_run(kv_err *e);
