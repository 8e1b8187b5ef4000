/* Which ranks run a worker and which run a server: every rank has both, unless some only serve. */
#ifndef DISTRIBUTED_SERVER_RANKS_H
#define DISTRIBUTED_SERVER_RANKS_H

#include <stdbool.h>

int server_count(void);
int server_rank(int i); /* of the i-th server */
int server_workers(void);
bool server_here(int *i); /* whether this rank is a server, and which */

/* The number of ranks that only serve; 0: every rank serves. */
int server_dedicated(void);

#endif
