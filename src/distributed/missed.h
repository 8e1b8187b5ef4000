/* What others wait for one worker with: see backpressure.h. */
#ifndef DISTRIBUTED_MISSED_H
#define DISTRIBUTED_MISSED_H

#include "distributed/server_state.h"

/* What workers have come to and this one has not, the first ASK_MOST_MISSED; how many. */
int64_t missed_list(const server_state *s, int rank, ask_missed *list);

#endif
