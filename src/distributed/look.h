/* Looks: `kvctl attach` reads the store of a job while the script goes on, the rounds of its keys
 * and their elements between two rounds.
 *
 * A look is no pull. The server answers it at once, in the order in which it comes, whatever rounds
 * are open; it counts for no worker, so that no push waits for it, and it waits for no push. So it
 * costs a round the time in which the server copies the elements, and nothing else: not a bit of a
 * result depends on it. A key of several parts may be in two rounds while it is looked at; then the
 * parts are looked at again, and at the end the rounds of the oldest and of the newest are told.
 */
#pragma once

#include "distributed/server_state.h"

/* ---- The server's side: calls that the thread that drives the net answers ---- */

/* Answer an ASK_ROUNDS. Error: memory. */
void look_rounds(const server_state *s, int rank, const link_rec *r);

/* Answer an ASK_LOOK. Errors: key (this server has no such part), memory. */
void look_at_part(const server_state *s, int rank, const link_rec *r);

/* ---- The worker's side: operations of kv_type_ops that need no lock of the store ---- */

int look_visit_rounds(void *self, kv_visitor visit, void *arg, kv_err *e);
int look_value(void *self, const kv_key *key, kv_array **out, int64_t rounds[2], kv_err *e);
