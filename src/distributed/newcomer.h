/* A worker that was a spare. It begins with the counts that rank 0 had when it let the spare in
 * (grow.h), which rank 0 sends it (mail: ASK_SEND, ASK_RECEIVE): a newcomer_counts, then for each
 * key an ask_key, as ask_put_key writes it, and a newcomer_key; then the
 * optimizer, if a file of load-states has brought it. */
#pragma once

#include "distributed/worker.h"

typedef struct newcomer_counts {
    int64_t rounds, saved; /* begun; of the last file of a checkpoint */
    int64_t epochs, moves; /* see worker.h */
    int64_t updater;       /* bytes of states_put_updater; 0: scripts set the optimizer */
} newcomer_counts;

typedef struct newcomer_key {
    int64_t first;           /* the key's first part; another one: the key has moved since */
    int64_t pushes;          /* to the key in that place */
    int64_t rounds, updates; /* pushes and updates of the slot: see slot.h */
} newcomer_key;

/* Makes the worker a newcomer, from the mail, which it then owns (also after an error). Errors:
 * internal (malformed), memory. */
int newcomer_new(worker *w, void *mail, int64_t bytes, kv_err *e);

/* Called on every worker when it has learned of a key, its number: on a newcomer the key begins
 * with the counts of the mail. */
void newcomer_know(worker *w, int64_t number);

/* Returns true on a newcomer that has not pushed yet, so has not called newcomer_push: until then
 * it waits at no barrier. */
bool newcomer_catches_up(const worker *w);

/* Called before each push, and before the store closes: from now on its barriers wait for the
 * others, and its counts of them (epochs, moves) are those of the mail. */
void newcomer_push(worker *w);

/* Returns the optimizer of the mail, borrowed, and its bytes; 0: there is none. */
const char *newcomer_updater(const worker *w, int64_t *bytes);

void newcomer_release(worker *w);
