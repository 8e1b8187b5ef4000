/* The data of sparse tensors, as the dense ones that they mean: zeros but where a number is stored.
 *
 *   TENSOR_ROWS: t->first rows of values; then the index of each row, ascending
 *   TENSOR_CSR:  t->first values; for each row the number of the values before it, and that of all
 *                of them; then the column of each value
 *
 * Indices are int64. Source: row_sparse and csr of MXNet's include/mxnet/ndarray.h. */
#pragma once

#include "checkpoint/checkpoint_build.h"

/* What one reader needs for it. All zero is nothing. */
typedef struct tensor_sparse {
    int64_t checked; /* the tensor + 1 whose indices were found right */
    struct sparse_room *room;
} tensor_sparse;

/* Makes *data point to n bytes (TENSOR_BLOCK at most) of tensor i from its byte `at` on, until the
 * next call. All indices of a tensor are checked before its first block is given out. Errors: io,
 * format (an index is wrong), memory, interrupted. */
int tensor_sparse_read(tensor_sparse *s, const checkpoint *c, const void **data, int64_t i,
                       int64_t at, int64_t n, kv_err *e);

void tensor_sparse_release(tensor_sparse *s);
