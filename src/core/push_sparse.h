/* Sums of row_sparse values, as a part of preparing a push. */
#ifndef CORE_PUSH_SPARSE_H
#define CORE_PUSH_SPARSE_H

#include "core/call.h"

/* Makes the sums of the groups that have row_sparse values or a row_sparse key, for a call with
 * such groups, and waits for the values where an operation writes them. Behind it such a group has
 * a sum of rows, a fresh array or one dense value. Errors: memory, those of a device. */
int push_sum_sparse(call *c, kv_err *e);

#endif
