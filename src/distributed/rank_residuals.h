/* Error-feedback residuals of compressed pushes: each rank has one for each key. Those of all ranks
 * come together for a file and go back from it.
 */
#ifndef DISTRIBUTED_RANK_RESIDUALS_H
#define DISTRIBUTED_RANK_RESIDUALS_H

#include "base/buf.h"
#include "core/slot.h"
#include "distributed/worker.h"

/* The residual of this rank for a slot, borrowed. *anew: there was none, so it is zeros in this
 * context. Errors: memory, those of a device. */
int rank_residuals_find(slot *s, kv_ctx ctx, kv_array **out, bool *anew, kv_err *e);

/* Takes another array in its place; the caller has the old one then. */
kv_array *rank_residuals_replace(slot *s, kv_array *by);

/* Appends that of a rank; reads it, at *at and before end. Errors: internal (malformed), memory,
 * those of a device. */
int rank_residuals_put(buf *b, const slot *s, int rank, kv_err *e);
int rank_residuals_take(slot *s, int rank, const char **at, const char *end, kv_err *e);

/* Those of this rank go to rank 0, which waits for those of a rank. Errors: those of mailbox.h. */
int rank_residuals_send(const worker *w, kv_err *e);
int rank_residuals_receive(const worker *w, int rank, kv_err *e);

/* Zeros where a rank has none: the files hold residuals without gaps. Error: memory. */
int rank_residuals_complete(const worker *w, kv_err *e);

/* The last rank takes those of ranks that this job does not have. Error: memory. */
int rank_residuals_fold(const worker *w, kv_err *e);

#endif
