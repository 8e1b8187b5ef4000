/* Error-feedback residuals of compressed pushes: each rank has one for each key. A file holds the
 * residuals of all ranks, which are collected for it and given back from it.
 */
#pragma once

#include "core/slot.h"
#include "distributed/worker.h"

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
int rank_residuals_complete(const worker *w, kv_err *e);

/* On rank 0: adds the residuals of ranks that do not work to those of the highest rank that does: a
 * job of fewer ranks than the file, or with spares that wait, loses no gradient. Error: memory. */
int rank_residuals_fold(const worker *w, kv_err *e);
