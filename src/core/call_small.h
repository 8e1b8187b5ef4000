/* Calls over small arrays that need no operation of the engine: pulls, and pushes and pushpulls
 * without an updater.
 *
 * To sum or to copy an array of some hundred bytes takes less time than to make an operation of it.
 * So the whole call runs on the caller's thread while it holds the engine's lock: an array that
 * nothing uses when it is checked is still unused when its turn comes, and nothing has to be
 * claimed.
 *
 * Time goes to fetching cache lines and pages, so each key is checked and worked on in one step,
 * while the header of an array and the elements behind it come in together. The elements that are
 * overwritten are kept until the call has succeeded: when a later pair has no place here, they are
 * put back, last key first. To check all keys before the first one is changed would fetch each page
 * twice, which takes nearly twice as long.
 *
 * A call with a pair that has no place here, such as a large array, one on a GPU or of another
 * dtype, or one that a scheduled operation uses, becomes an operation as a whole. So do all while a
 * profile is taken, which shows operations.
 */
#pragma once

#include "core/call.h"

/* The lists of a direct call, which a store keeps for the next one. All zero is empty. */
typedef struct direct_lists {
    void **data; /* the elements of the arrays of one key */
    int64_t data_cap;
    char *kept;  /* elements that the call has overwritten, as they were, in its order */
    int64_t kept_cap;
} direct_lists;

/* Runs a push of values (NULL: none), then a pull into outs (NULL: none), if the call may run this
 * way. *did says whether it did; else nothing has changed, and whatever is wrong with the call is
 * for an operation to find. The caller holds the store's lock. Error: memory, nothing changed. */
int call_direct(kv *store, const kv_pairs *values, const kv_pairs *outs, bool *did, kv_err *e);

void call_direct_release(direct_lists *lists);

/* ---- Batches ----
 *
 * A call of very many small arrays that is not a direct one runs batch by batch: each
 * batch goes the whole way of a call, from its keys to its elements, while its headers are in the
 * caches, and batches share the threads.
 *
 * All pairs are checked before the first batch runs. A call with a pair for which batches are not
 * made, such as a large array, or with an array that a scheduled operation uses, stays one
 * operation; and so does every call while a profile is taken, which shows operations.
 */

enum { BATCH_VALUES = 64 }; /* of a key, at most */

/* Runs the call in batches if it may, on this thread and those of the pool, and returns when all of
 * them have ended. in_place: the arrays of a push receive the stored elements, too. *did says
 * whether it did; else the caller makes it one operation. Error: memory, nothing changed. */
int call_in_batches(kv *store, const call_ops *ops, const kv_pairs *pairs, bool in_place, bool *did,
                    kv_err *e);
