/* Pulls into row_sparse arrays. How much memory such a pull needs depends on rows, so the new
 * contents of every array are made first; what is scheduled then only fills them in and exchanges
 * them for the old ones, and fails only where a GPU does. Until the call ends they are behind
 * call.rows.
 */
#ifndef CORE_ROW_PULL_H
#define CORE_ROW_PULL_H

#include "core/call.h"

/* Prepares a call whose pairs were found: the row_sparse ones among its arrays will hold all rows
 * of their keys. Blocks until what was scheduled on these keys has ended. Error: memory. */
int row_pull_all(call *c, kv_err *e);

/* The rows ids[i] of keys[i] for the i-th array, by the contract of kv_row_sparse_pull. Errors:
 * value, dtype, index, memory. */
int row_pull_some(call *c, const kv_key *keys, kv_array *const *ids, kv_err *e);

/* Runs either: see call_run. */
int row_pull_run(call *c, kv_err *e);

#endif
