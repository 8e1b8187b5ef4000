/* Arrays whose memory is used again by the next checkpoint: the first write to each page of fresh
 * memory costs more than all the rest of a checkpoint. */
#ifndef DISTRIBUTED_ARRAY_REUSE_H
#define DISTRIBUTED_ARRAY_REUSE_H

#include "kv_array.h"

/* References to the arrays of the last checkpoint, in the order of its requests. All zero: there
 * are none. One thread calls these functions; other threads may hold the arrays. */
typedef struct array_reuse {
    kv_array **items;
    int64_t n, cap;
    int64_t at; /* the item that the next request looks at */
} array_reuse;

/* Begins again with the first array. */
void array_reuse_begin(array_reuse *r);

/* *out becomes an array in host memory whose elements are not initialised: the next of the kept
 * arrays, if it has this dtype and shape and nobody else holds it, else a new array, which takes
 * its place. The caller unrefs it. r NULL: always a new array, which is not kept. Error: memory. */
int array_reuse_get(array_reuse *r, kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape,
                    kv_err *e);

/* Gives up all references; r is as at first. */
void array_reuse_release(array_reuse *r);

#endif
