/* Spares: ranks that a job has beside its workers, which are let in as workers one after the other
 * (kvctl launch --spares and --grow). They are the workers with the highest numbers, where the
 * servers are ranks of their own: they exchange heartbeats with the servers, take part in
 * nothing and run no script until then. To a server one is like a worker that is gone.
 *
 * The launcher asks rank 0 in the file `grow` of its folder, a line "RANK -" for each. Rank 0 lets
 * the spare in where it begins a round (grow.c), and then the first server tells all workers. When
 * the workers have left, the servers tell spares that still wait, and leave behind these. So no
 * rank ends before all have joined (alive_read_ends), however late a spare is.
 *
 * Environment: KVSTORE_SPARES, how many; from the launcher. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "distributed/link_record.h"
#include "kv_err.h"

/* On every rank, when it joins. Error: memory. */
int spares_open(kv_err *e);

/* Return true if the rank is a spare that waits; if it was one and has been let in, as far as this
 * rank knows. Any thread. */
bool spares_waits(int rank);
bool spares_was(int rank);

/* The workers at the start, and the spares that were let in. Any thread. */
int spares_workers(void);

/* See kv_await_turn. Error: peer. */
int spares_await(bool *works, kv_err *e);

/* On a server: the rank is a worker from now on; spares that still wait are needed no more. */
void spares_let_in(int rank);
void spares_end(void);

/* For the net of a worker. look, on rank 0, reads the launcher's file; take receives a LINK_GROWN
 * and warns that the rank has joined. */
void spares_look(int64_t now_us);
void spares_take(int rank, const link_rec *r);

/* On rank 0: the spare that is to be let in next, or -1. */
int spares_asked(void);
