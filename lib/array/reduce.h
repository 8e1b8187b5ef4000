/* Reductions: one number made of many, over a whole array or along axes.
 *
 * Sums add in float32 for float32, float16 and bfloat16 and in float64 for float64; integers add
 * exactly and wrap. Every block of 4096 consecutive elements is added in order, then the results of
 * the blocks from left to right; along axes, the elements of each result are counted by themselves.
 */
#ifndef ARRAY_REDUCE_H
#define ARRAY_REDUCE_H

#include "kv_array.h"

#define REDUCE_BLOCK 4096

/* What is made, and its dtype for elements of dtype t. */
typedef enum reduce_op {
    REDUCE_SUM,   /* t; int64 for bool. 0 of no elements */
    REDUCE_MEAN,  /* t, rounded once from the type that sums; float32 for integers and bool, whose
                     sum is then taken in float64. nan of no elements */
    REDUCE_NORM,  /* the root of the sum of squares, each rounded; dtypes as those of the mean */
    REDUCE_MAX,   /* t; nan if there is one */
    REDUCE_MIN,   /* t; nan if there is one */
    REDUCE_ARGMAX /* int64: the index of the first largest element, a nan being larger than all */
} reduce_op;

/* "sum", "mean", … */
const char *reduce_name(reduce_op op);

/* A new array on a's context without the axes named, or of shape () when axes is NULL. Elements are
 * taken in row-major order. Errors: index (an axis that is not there), value (an axis twice; max,
 * min and argmax of no elements), memory. */
int reduce_array(kv_array **out, kv_array *a, reduce_op op, const int64_t *axes, int naxes,
                 kv_err *e);

#endif
