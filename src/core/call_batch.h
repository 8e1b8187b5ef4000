/* A call of very many small arrays, batch by batch: each batch goes the whole way of a call, from
 * its keys to its elements, while its headers are in the caches, and batches share the threads.
 *
 * All pairs are checked before the first batch runs. A call with a pair for which batches are not
 * made, such as a large array, or with an array that a scheduled operation uses, stays one
 * operation; and so does every call while a profile is taken, which shows operations.
 */
#ifndef CORE_CALL_BATCH_H
#define CORE_CALL_BATCH_H

#include "core/call.h"

typedef struct call_batches {
    call_pool *pool;
    slot_table *table;
    const kv_key *keys;
    kv_array *const *arrays;
    int64_t n;
    bool changes_stored; /* a push; its keys stand in the order of updates, those of one together */
    bool changes_arrays; /* a pull: no array stands there twice. Both are a push that pulls too */
    const void *arg;     /* for those below */

    /* NULL, or whether nothing can fail for a pair, beyond keys, shapes and storage. */
    bool (*fits)(const struct call_batches *b, const slot *s, const kv_array *a);
    /* NULL, or takes what a call that runs batches needs. Error: memory. */
    int (*begin)(const struct call_batches *b, call *c, kv_err *e);
    /* Groups the pairs of a batch, which fit. */
    void (*group)(const struct call_batches *b, call *c, const kv_key *keys);
    /* Does the work of the groups, when it is its turn. */
    void (*run)(const struct call_batches *b, call *c);
    /* NULL, or ends what begin began, before the call itself is ended. */
    void (*end)(const struct call_batches *b, call *c);
} call_batches;

enum {
    BATCH_FEWEST = 2048, /* pairs of a call: the headers of fewer stay in the caches */
    BATCH_VALUES = 64    /* values of a key, at most */
};

/* Runs the call in batches if it may, on this thread and those of the pool, and returns when all of
 * them have ended. *did says whether it did; else the caller makes it one operation. Whoever calls
 * holds the store's lock. Error: memory, nothing changed. */
int call_in_batches(const call_batches *b, bool *did, kv_err *e);

#endif
