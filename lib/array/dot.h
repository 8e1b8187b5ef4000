/* Products of vectors and matrices. */
#ifndef ARRAY_DOT_H
#define ARRAY_DOT_H

#include "kv_array.h"

/* The sum of products over the last axis of a and the last but one of b (the only one of a vector):
 * (k) (k) gives (), (n, k) (k) gives (n), (k) (k, m) gives (m), (n, k) (k, m) gives (n, m). Both
 * have one or two axes and are converted to dtype first. Products are rounded and added in order,
 * from k = 0 on, by the blocks and in the types of array/reduce.h. The result is on a's context.
 * Errors: shape, memory. */
int dot_arrays(kv_array **out, kv_array *a, kv_array *b, kv_dtype dtype, kv_err *e);

#endif
