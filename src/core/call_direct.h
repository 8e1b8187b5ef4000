/* Calls over small arrays that need no operation of the engine: pulls, and pushes without an
 * updater.
 *
 * To sum or to copy an array of some hundred bytes takes less time than to make an operation of it.
 * So the whole call runs on the caller's thread while it holds the engine's lock: an array that
 * nothing uses when it is checked is still unused when its turn comes, nothing has to be claimed,
 * and each line of memory is read once. The first pass checks all pairs, from the headers of their
 * arrays, and lists where elements are; the second one touches only elements.
 *
 * A call with a pair that has no place here, such as a large array, one on a GPU or of another
 * dtype, or one that a scheduled operation uses, becomes an operation as a whole. So do all while a
 * profile is taken, which shows operations.
 */
#ifndef CORE_CALL_DIRECT_H
#define CORE_CALL_DIRECT_H

#include "core/slot.h"
#include "kvstore.h"

/* The lists of a direct call, which a store keeps for the next one. All zero is empty. */
typedef struct direct_lists {
    struct direct_key *keys; /* one a key, in the order of the call */
    int64_t keys_cap;
    void **data;             /* one a pair: the elements of its array */
    int64_t data_cap;
} direct_lists;

/* Run the call if it may run this way. *did says whether they did; else nothing has changed, and
 * whatever is wrong with the call is for an operation to find. The caller holds the store's lock.
 * Error: memory, nothing changed. */
int call_direct_push(kv *store, const kv_pairs *values, bool *did, kv_err *e);
int call_direct_pull(kv *store, const kv_pairs *outs, bool *did, kv_err *e);

void call_direct_release(direct_lists *lists);

#endif
