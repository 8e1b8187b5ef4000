/* The data of tensors that the file holds codes of (tensor_values.h): a block of them becomes
 * numbers when it is read. */
#ifndef CHECKPOINT_TENSOR_DECODED_H
#define CHECKPOINT_TENSOR_DECODED_H

#include "checkpoint/checkpoint_build.h"
#include "checkpoint/tensor_reader.h"

/* Reads stored bytes: of tensor i of the reader's own checkpoint, or if `scaled` is not NULL, of
 * that one. Data of the one live while data of the other are read. */
typedef int tensor_fetch(tensor_reader *r, const checkpoint *scaled, const void **data, int64_t i,
                         int64_t at, int64_t n, kv_err *e);

/* What one reader needs for it. All zero is nothing. */
typedef struct tensor_decoded {
    float *numbers; /* the block that was decoded last */
    int64_t numbers_cap;
    char *matrix;   /* codes of a whole matrix whose axes are swapped, then its scales */
    int64_t matrix_cap, matrix_of, matrix_tensor; /* its number, and that of the tensor + 1 */
} tensor_decoded;

/* Makes *data point to n bytes of tensor i from its byte `at` on, until the next call. Errors:
 * those of fetch, memory, unsupported (a matrix whose axes are swapped is too large). */
int tensor_decoded_read(tensor_decoded *d, const checkpoint *c, tensor_fetch *fetch,
                        tensor_reader *r, const void **data, int64_t i, int64_t at, int64_t n,
                        kv_err *e);

void tensor_decoded_release(tensor_decoded *d);

#endif
