/* Which ranks run a worker and which run a server: every rank has both, unless some only serve. */
#pragma once

#include <stdbool.h>

int server_count(void);
int server_rank(int i); /* of the i-th server */
int server_workers(void);
bool server_here(int *i); /* whether this rank is a server, and which */

/* The number of ranks that only serve; 0: every rank serves. */
int server_dedicated(void);

/* How many of the workers are spares (spares.h): those with the highest numbers, where some ranks
 * only serve. */
int server_spares(void);

/* The ranks that this one exchanges records with, from *first to *end - 1: all of them if it
 * serves, else the servers. So the records that keep a job together grow with workers times
 * servers, and what a worker keeps of other ranks with the servers alone. */
void server_peers(int *first, int *end);
