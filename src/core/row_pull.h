/* Pulls into row_sparse arrays. How much memory such a pull needs depends on rows, so the new
 * contents of every array are made first; what is scheduled then only fills them in and exchanges
 * them for the old ones, and fails only where a GPU does. Until the call ends they are behind
 * call.rows.
 */
#ifndef CORE_ROW_PULL_H
#define CORE_ROW_PULL_H

#include "core/call.h"

/* The row_sparse arrays of the call will hold all rows of their keys. Blocks until the operations
 * on these keys have ended. Errors: key, shape, memory. */
extern const call_ops row_pull_all_ops;

/* The i-th array will hold the rows call.ids[i] of its key, by the contract of kv_row_sparse_pull.
 * Errors: key, shape, value, dtype, index, memory. */
extern const call_ops row_pull_some_ops;

#endif
