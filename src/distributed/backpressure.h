/* How far a worker may run ahead of the others. What it has pushed lies in its memory and in that
 * of servers until the others have pushed too, so it is held when that is too much.
 *
 * Holding it must not make others wait for it: where workers push their keys in different orders,
 * each could be held for what another one would push next. So a worker is held only while nobody
 * waits for it. Whoever others wait for, in a round to which it has not contributed, at a barrier,
 * for a store, is behind them there and goes on. What those who are held wait for comes from one
 * who is not.
 *
 * Environment: KVSTORE_AHEAD, bytes, 256 MB.
 */
#ifndef DISTRIBUTED_BACKPRESSURE_H
#define DISTRIBUTED_BACKPRESSURE_H

#include "distributed/worker.h"

/* Bytes that a worker may push ahead, as the environment says. */
int64_t backpressure_bytes(void);

/* Operations that may be under way. */
enum { BACKPRESSURE_PENDING = 256 };

/* Waits until one more operation may begin, which pushes so many bytes. One that is larger than
 * what a worker may run ahead goes alone. */
void backpressure_wait(worker *w, int64_t bytes);

/* Who waits for this rank, and for what. */
typedef struct backpressure_missed {
    int rank;   /* one that waits, or -1: nobody does */
    kv_key key; /* whose round this rank lacks, its name the slot's; or no key: */
    bool in_call;
} backpressure_missed;

/* Asks the servers; what this rank has sent and they have not received yet does not count. Errors:
 * peer, timeout, memory. */
int backpressure_missed_by(worker *w, backpressure_missed *out, kv_err *e);

#endif
