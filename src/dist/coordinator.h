/* The coordinator: what one rank decides for all, on the first server. Which keys there are and
 * where they live; who waits at a barrier; how many optimizers the job has set.
 */
#ifndef DIST_COORDINATOR_H
#define DIST_COORDINATOR_H

#include "dist/served.h"

/* Takes a call that is the coordinator's; says whether it was. */
bool coordinator_call(served *s, int rank, const link_rec *r);

/* A worker has left: what waits for it is told. */
void coordinator_left(served *s, int rank);

void coordinator_free(served *s);

#endif
