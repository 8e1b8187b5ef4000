/* Rounds of one store that a server keeps: pushes are collected, summed and applied when the
 * workers that take part have come, pulls are answered when the pushes before them were applied.
 * server.h tells the rules. rounds_push.c takes pushes, rounds.c does the rest.
 */
#pragma once

#include "distributed/server_state.h"

/* Take a record of a push, of a pull, or of a push that is answered by its sum; rounds_settle does
 * the rest. The worker is told of errors: key, shape, timeout (its round was given up), memory. */
void rounds_push(int rank, const link_rec *r);
void rounds_pull(int rank, const link_rec *r);
void rounds_take_add(int rank, const link_rec *r);

/* Prefetches a part that the next records are likely to name after part id, since those of one call
 * mostly have consecutive numbers. s: the store, or NULL. */
void rounds_expect_next(const server_state *s, int64_t id);

/* ASK_ROWS. Errors: key, memory. */
int rounds_pull_rows(server_state *s, int rank, const link_rec *r, kv_err *e);

/* Takes an ADD. own: NULL, or this rank's own contribution, with a record that was not sent.
 * Errors: shape, timeout, memory, internal. */
int rounds_add(server_state *s, int rank, const link_rec *r, const own_add *own, kv_err *e);

/* Applies rounds and answers pulls of all parts with news, in all stores, and copies the
 * contributions that would stay in the link's memory. */
void rounds_settle(void);

/* Sets the optimizers that wait, once no open round needs the one before; returns true if it has
 * set any. */
bool rounds_set_optimizers(server_state *s);

/* Gives up a round: its workers are told, and the part keeps its value. */
void rounds_give_up(server_state *s, part *p, round *x, const kv_err *why);

void rounds_free_spare(server_state *s);

/* Drops the pulls of a worker that is gone, and its pushes that have not come whole. Its parts are
 * looked at again: their rounds may go on without it. */
void rounds_lose_worker(server_state *s, int rank);
