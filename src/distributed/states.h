/* The states of optimizers, between the servers and one worker: the states of the parts are put
 * together in the slots of the worker's store, from where they are written to files like those of
 * one machine, and read back (core/state_file.h); then they go to the servers again, of which there
 * may be another number.
 *
 * Rank 0 reads and writes the files. The memory of each worker, the host side of rules and the
 * residuals of compressed pushes, travels between rank 0 and the others as messages, which the
 * coordinator keeps until they are asked for.
 */
#ifndef DISTRIBUTED_STATES_H
#define DISTRIBUTED_STATES_H

#include "base/buf.h"
#include "distributed/array_reuse.h"
#include "kvstore.h"

struct part;
struct server_state;
struct worker;

/* See kv_type_ops. */
int states_visit(void *self, kv_states_visit why, int (*use)(void *arg, kv_err *e), void *arg,
                 kv_err *e);

/* Fills the slots of this worker, whose pushes have all ended, with the states that the servers
 * keep. The elements of arrays come while others go on: who reads an array waits for it, and a push
 * of the same key changes the states behind that. memory: of the arrays, see array_reuse_get.
 * states_drop follows, also on an error: then the slots hold none of these arrays. Errors: those of
 * state_file_check, peer, memory, those of states_give. */
int states_pull(struct worker *w, array_reuse *memory, kv_err *e);
void states_drop(const struct worker *w);

/* On a server: array n of the states of a part, from 1 on: that of state n - 1 of the optimizer, or
 * behind all states the master. NULL: there is none. */
kv_array *states_array(const struct server_state *s, const struct part *p, int n);

/* On a server: its reply to ASK_STATES, and the states that ASK_SET_STATES brings; data are those
 * of the call. The reply says of each part which arrays there are, in bits, and has an image of all
 * that is no array; pulls bring the arrays (request_pull_states). Errors: value (no optimizer is in
 * use, or another one), internal (malformed), format (an image that cannot be read), memory;
 * nothing changed then. */
int states_give(const struct server_state *s, const char *data, int64_t bytes, buf *out, kv_err *e);
int states_take(struct server_state *s, const char *data, int64_t bytes, kv_err *e);

#endif
