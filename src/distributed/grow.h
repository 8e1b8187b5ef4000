/* A spare (spares.h) becomes a worker of a store while rounds go on.
 *
 * Rank 0 does that where it begins a round, as job_checkpoint.h says what a round is, when all that
 * it has pushed was applied: no server ends a round to which rank 0 has not contributed, so each
 * server lets the newcomer take part from the same place of rank 0's script on, however far the
 * others are; they wait for nothing but its values. What rank 0 has counted there, of keys and
 * rounds, goes to the newcomer by mail, which goes on from those counts: a key that it comes to know
 * has the pushes that it would have if the newcomer had been there from the first round.
 *
 * So its script may run from the first line, as after a restart from a checkpoint: init takes the
 * values that the servers hold, rounds() says how many rounds have begun. Optimizers that rank 0 has
 * set are there, and barriers before the first push wait for nobody: the others have passed them. */
#ifndef DISTRIBUTED_GROW_H
#define DISTRIBUTED_GROW_H

#include "distributed/worker.h"

/* Refuses a store that cannot grow: unsupported (a type without common rounds, or that keeps
 * nothing; a second store). */
int grow_check(const worker *w, kv_err *e);

/* Before a push of these keys: on rank 0 lets the spares in for which the launcher has asked, if a
 * round begins. Errors: peer, memory. */
int grow_push(worker *w, const int64_t *numbers, int64_t n, kv_err *e);

/* On a newcomer: when its store was made; when it comes to know a key; before its first push; at
 * the end. Errors: internal, peer, timeout, memory. */
int grow_begin(worker *w, kv_err *e);
void grow_know(worker *w, int64_t number);
void grow_first_push(worker *w);
void grow_release(worker *w);

/* Is it one that has not pushed yet? */
bool grow_catches_up(const worker *w);

#endif
