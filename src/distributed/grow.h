/* A spare (spares.h) becomes a worker of a store while rounds go on.
 *
 * Rank 0 does that where it begins a round, as job_checkpoint.h says what a round is, when all that
 * it has pushed was applied. No server ends a round to which rank 0 has not contributed, so each
 * server lets the newcomer take part from the same place of rank 0's script on, however far the
 * others are; they wait for nothing but its values. What rank 0 has counted there, of keys and
 * rounds, goes to the newcomer, whose counts go on from those: it has pushed to a key as often as
 * if it had been there from the first round.
 *
 * So its script may run from the first line, as after a restart from a checkpoint: init takes the
 * values that the servers hold, rounds() says how many rounds have begun. The optimizers that rank
 * 0 has set are there, also one that a file of load-states has brought. Barriers, save-states and
 * load-states before its first push wait for nobody, since the others have passed them; the states
 * are those that the servers hold. */
#pragma once

#include "distributed/worker.h"

/* Refuses a store that cannot grow: unsupported (a type without common rounds, or that keeps
 * nothing; a second store), usage (of a spare that waits). */
int grow_check(const worker *w, kv_err *e);

/* Before a push of these keys: on rank 0 lets the spares in for which the launcher has asked, if a
 * round begins. Errors: peer, memory. */
int grow_push(worker *w, const int64_t *numbers, int64_t n, kv_err *e);

/* On a newcomer, when its store was made. Errors: internal, peer, timeout, memory. */
int grow_begin(worker *w, kv_err *e);
