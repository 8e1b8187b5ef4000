/* Backpressure: a worker that is too far ahead of the others waits before it pushes more. Its
 * pushes take memory, its own and the servers', until the others have pushed the same keys.
 *
 * The wait must not cause a deadlock: where workers push their keys in different orders, each
 * could wait for another one's next push. So a worker waits only while no other rank waits for it,
 * in a round to which it has not contributed, at a barrier or for a store: there it is behind, and
 * it goes on. The slowest worker therefore never waits here, and its pushes end the others' waits.
 *
 * Environment: KVSTORE_AHEAD, bytes, 256 MB.
 */
#pragma once

#include "distributed/worker.h"

/* Bytes that a worker may push ahead, as the environment says. */
int64_t backpressure_bytes(void);

/* Operations that may be under way. */
enum { BACKPRESSURE_PENDING = 256 };

/* Waits until one more operation, which pushes `bytes`, may begin. An operation that is larger than
 * the limit runs alone. */
void backpressure_wait(worker *w, int64_t bytes);

/* A rank that waits for this one, and the round or the call that it waits for. */
typedef struct backpressure_missed {
    int rank;   /* the one that waits, or -1: none does */
    kv_key key; /* whose round this rank lacks, its name the slot's; or no key: */
    bool in_call;
} backpressure_missed;

/* Asks the servers. They do not know of pushes that are still on the way to them. Errors: peer,
 * timeout, memory. */
int backpressure_missed_by(worker *w, backpressure_missed *out, kv_err *e);
