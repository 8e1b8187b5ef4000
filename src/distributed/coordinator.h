/* The coordinator: what one rank decides for all, on the first server. Which keys there are and
 * where they live; who waits at a barrier; how many optimizers the job has set. It also keeps the
 * messages of workers to each other (mailbox.h).
 */
#ifndef DISTRIBUTED_COORDINATOR_H
#define DISTRIBUTED_COORDINATOR_H

#include "distributed/server_state.h"

/* Takes a call that is the coordinator's; says whether it was. */
bool coordinator_call(server_state *s, int rank, const link_rec *r);

/* A worker is done or has left: what waits for it is told. */
void coordinator_left(server_state *s, int rank);

/* What has waited longest: appends a sentence, and returns since when; INT64_MAX when nothing
 * waits. Calls that waited since `before` are given up. */
int64_t coordinator_waits(server_state *s, int64_t before, buf *out);

/* A worker that waits for another one, or -1. */
int coordinator_missed(const server_state *s, int rank);

/* Whose part has that number; false: this server does not know. The name is borrowed. */
bool coordinator_key(const server_state *s, int64_t number, kv_key *key);

void coordinator_free(server_state *s);

#endif
