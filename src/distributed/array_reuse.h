/* Arrays of which the memory is used again: the first write of each page of fresh memory costs more
 * than a checkpoint does otherwise. */
#ifndef DISTRIBUTED_ARRAY_REUSE_H
#define DISTRIBUTED_ARRAY_REUSE_H

#include "kv_array.h"

/* A reference to each array that was asked for since the last begin, in that order. All zero is
 * none. One thread uses it; others may hold the arrays. */
typedef struct array_reuse {
    kv_array **items;
    int64_t n, cap, at;
} array_reuse;

/* From now on the arrays of before are given again, in the same order. */
void array_reuse_begin(array_reuse *r);

/* *out becomes an array in host memory, whose elements are anything: the next one of before, if it
 * has this form and nobody else holds it, or a new one. It is the caller's to unref. r NULL: a new
 * one. Error: memory. */
int array_reuse_get(array_reuse *r, kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape,
                    kv_err *e);

void array_reuse_release(array_reuse *r);

#endif
