/* The operation pull: into default arrays, or into row_sparse ones. */
#ifndef CORE_PULL_H
#define CORE_PULL_H

#include "core/call.h"

/* row_sparse arrays stay as they are. Errors: key, shape, memory. */
extern const call_ops pull_ops;

/* The row_sparse arrays of the call will hold all rows of their keys. Blocks until the operations
 * on these keys have ended. Errors: key, shape, memory. */
extern const call_ops row_pull_all_ops;

/* The i-th array will hold the rows call.ids[i] of its key, by the contract of kv_row_sparse_pull.
 * Errors: key, shape, value, dtype, index, memory. */
extern const call_ops row_pull_some_ops;

#endif
