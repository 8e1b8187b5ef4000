/* The states of optimizers on several machines. Servers keep the states of parts. To write a file,
 * the states are put together in the slots of one worker's store, from where they are written like
 * those of one machine (core/state_file.h). Reading goes the other way, and the number of servers
 * may have changed meanwhile.
 *
 * Rank 0 reads and writes the files. What each worker keeps itself, the host side of rules and the
 * residuals of compressed pushes, travels between rank 0 and the others as messages, which the
 * coordinator keeps until the receiver asks for them.
 */
#pragma once

#include "base/buf.h"
#include "core/slot.h"
#include "distributed/job_checkpoint.h"
#include "kvstore.h"

struct part;
struct server_state;
struct worker;

/* See kv_type_ops. While the checkpoint has states that were not taken (job_checkpoint.h), a
 * description shows those, and all other visits take them first; KV_STATES_LOAD without `use` does
 * nothing else. */
int states_visit(void *self, kv_states_visit why, int (*use)(void *arg, kv_err *e), void *arg,
                 kv_err *e);

/* For a checkpoint of compressed gradients: all ranks call it behind the same round, or when they
 * push no more (last), and rank 0's files have those residuals from then on. On rank 0 calls use,
 * as KV_STATES_SAVE does; the others wait for nothing. Errors: as above. */
int states_checkpoint(struct worker *w, bool last, int (*use)(void *arg, kv_err *e), void *arg,
                      kv_err *e);

/* Appends the rule in use, without the states of keys. Errors: those of state_file_check. */
int states_put_updater(const struct worker *w, buf *out, kv_err *e);

/* Fills the slots of this worker, whose pushes have all ended, with the states that the servers
 * keep. The elements of arrays come after the return: a reader of an array waits for them, and the
 * server sends or copies the states of a key before it applies a later push. memory: where the
 * arrays come from, see array_reuse_get; NULL: new ones. The caller calls states_drop afterwards,
 * also on an error. Errors: those of state_file_check, peer, memory, those of states_give. */
int states_pull(struct worker *w, array_reuse *memory, kv_err *e);

/* Releases the arrays of states in all slots, and the residuals of the other ranks. */
void states_drop(const struct worker *w);

/* On a server: array n of the states of a part. Numbers begin at 1: array n is that of state n - 1
 * of the optimizer, and the last, PLAN_MAX_STATES + 1, is the master. NULL: there is none. */
kv_array *states_array(const struct server_state *s, const struct part *p, int n);

/* On a server: states_give appends the reply to ASK_STATES, states_take takes over the states that
 * ASK_SET_STATES brings; data are those of the call. The reply has for each part a word of bits
 * that say which arrays exist, and an image of everything but arrays; these are pulled afterwards
 * (request_pull_states). Errors: value (no optimizer is in use, or another one), internal
 * (malformed), format (an image that cannot be read), memory; nothing changed then. */
int states_give(const struct server_state *s, const char *data, int64_t bytes, buf *out, kv_err *e);
int states_take(struct server_state *s, const char *data, int64_t bytes, kv_err *e);

/* ---- Residuals (rank_residuals.c) ----
 *
 * Of compressed pushes: each rank has one for each key. A file holds the residuals of all ranks,
 * which are collected for it and given back from it.
 */

/* *out becomes the residual of this rank for a slot, borrowed. *anew: there was none, and *out is a
 * new one, zeros in context ctx. Errors: memory, those of a device. */
int rank_residuals_find(slot *s, kv_ctx ctx, kv_array **out, bool *anew, kv_err *e);

/* Puts another array in the place of this rank's residual, and returns the old one, the caller's.
 */
kv_array *rank_residuals_replace(slot *s, kv_array *by);

/* Replaces this rank's residual by a copy: other holders of the array keep its elements. Errors:
 * memory, those of a device; nothing changed then. */
int rank_residuals_detach(slot *s, kv_err *e);

/* *out gets the residual of a rank as its only one; NULL where the rank has none. Error: memory. */
int rank_residuals_share(residuals **out, const slot *s, int rank, kv_err *e);

/* The first of `from` becomes the residual of a rank; from NULL: nothing changes. Error: memory. */
int rank_residuals_take(slot *s, int rank, residuals *from, kv_err *e);

/* Releases the residuals of all other ranks. */
void rank_residuals_drop_others(slot *s);

/* Makes residuals of zeros where a rank below the last has none: a file holds them without gaps.
 * Error: memory. */
int rank_residuals_complete(const struct worker *w, kv_err *e);

/* On rank 0: adds the residuals of ranks that do not work to those of the highest rank that does: a
 * job of fewer ranks than the file, or with spares that wait, loses no gradient. Error: memory. */
int rank_residuals_fold(const struct worker *w, kv_err *e);
