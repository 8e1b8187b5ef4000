/* Rounds of one store that a server keeps: pushes are collected, summed and applied when the
 * workers that take part have come, pulls are answered when what they must come behind was applied.
 * See server.h for when that is.
 */
#ifndef DISTRIBUTED_ROUNDS_H
#define DISTRIBUTED_ROUNDS_H

#include "distributed/server_state.h"

/* Takes a record of a push, or of a pull, also one of rows. What happens with it is up to
 * rounds_settle. Errors: key, shape, timeout (its round was given up), memory. */
int rounds_push(server_state *s, int rank, const link_rec *r, kv_err *e);
int rounds_pull(server_state *s, int rank, const link_rec *r, kv_err *e);
int rounds_pull_rows(server_state *s, int rank, const link_rec *r, kv_err *e); /* ASK_ROWS */

/* Does all that can be done now of parts with news, and copies what stays in the link's memory. */
void rounds_settle(server_state *s);

/* Sets the optimizers that no open round is before; says whether there was any. */
bool rounds_set_optimizers(server_state *s);

/* Gives up a round: its workers are told, and the part keeps its value. */
void rounds_give_up(server_state *s, part *p, round *x, const kv_err *why);

/* A reply of a part was sent. */
void rounds_sent(server_state *s, part *p);

void rounds_free_spare(server_state *s);

#endif
