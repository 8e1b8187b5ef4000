/* A call of very many small arrays that is no direct one (call_direct.h), batch by batch: each
 * batch goes the whole way of a call, from its keys to its elements, while its headers are in the
 * caches, and batches share the threads.
 *
 * All pairs are checked before the first batch runs. A call with a pair for which batches are not
 * made, such as a large array, or with an array that a scheduled operation uses, stays one
 * operation; and so does every call while a profile is taken, which shows operations.
 */
#ifndef CORE_CALL_BATCH_H
#define CORE_CALL_BATCH_H

#include "core/call.h"

enum { BATCH_VALUES = 64 }; /* of a key, at most */

/* Runs the call in batches if it may, on this thread and those of the pool, and returns when all of
 * them have ended. in_place: the arrays of a push receive the stored elements, too. *did says
 * whether it did; else the caller makes it one operation. Error: memory, nothing changed. */
int call_in_batches(kv *store, const call_ops *ops, const kv_pairs *pairs, bool in_place, bool *did,
                    kv_err *e);

#endif
