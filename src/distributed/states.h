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
#include "kvstore.h"

struct server_state;

/* See kv_type_ops. */
int states_visit(void *self, kv_states_visit why, int (*use)(void *arg, kv_err *e), void *arg,
                 kv_err *e);

/* On a server: its reply to ASK_STATES, and the states that ASK_SET_STATES brings; data are those
 * of the call. Errors: value (no optimizer is in use, or another one), internal (malformed), format
 * (an image that cannot be read), memory; nothing changed then. */
int states_give(const struct server_state *s, const char *data, int64_t bytes, buf *out, kv_err *e);
int states_take(struct server_state *s, const char *data, int64_t bytes, kv_err *e);

#endif
