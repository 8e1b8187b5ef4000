/* A worker that was a spare, and goes on from what rank 0 had counted where it let it in (grow.h).
 * That comes by mail: a newcomer_counts, and for each key an ask_key, as ask_put_key writes it,
 * with a newcomer_key behind it. */
#ifndef DISTRIBUTED_NEWCOMER_H
#define DISTRIBUTED_NEWCOMER_H

#include "distributed/worker.h"

typedef struct newcomer_counts {
    int64_t rounds, saved; /* begun; of the last file of a checkpoint */
    int64_t epochs, moves; /* see worker.h */
} newcomer_counts;

typedef struct newcomer_key {
    int64_t first;           /* the part with which the next holds */
    int64_t pushes;          /* to that place */
    int64_t rounds, updates; /* see slot.h */
} newcomer_key;

/* Makes the worker one; the mail becomes its own. Errors: internal (malformed), memory. */
int newcomer_new(worker *w, void *mail, int64_t bytes, kv_err *e);

/* It has come to know a key: which begins with the counts of that. For all workers. */
void newcomer_know(worker *w, int64_t number);

/* Is it a newcomer that has not pushed yet? It is none any more behind newcomer_push. */
bool newcomer_catches_up(const worker *w);
void newcomer_push(worker *w);

void newcomer_release(worker *w);

#endif
