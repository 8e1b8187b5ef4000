/* Reductions: one number made of many, over a whole array or along axes.
 *
 * Sums of floats add in float64 and are rounded once, at the end; integers add exactly and wrap.
 * The order is fixed, whatever the processor and the number of threads. In every block of 4096
 * consecutive elements, element i goes to lane i % 16 and each lane is added in order, then lane l
 * and lane l + 8, l + 4, l + 2, l + 1; elements behind the last multiple of 16 are added to that in
 * order. The results of the blocks are added as elements are, until one is left. Along axes, the
 * elements of each result are counted by themselves.
 */
#pragma once

#include "kv_array.h"

#define REDUCE_BLOCK 4096

/* Reductions, and the dtype that each gives for elements of dtype t. Those from max on need an
 * element. */
typedef enum reduce_op {
    REDUCE_SUM,    /* t; int64 for integers and bool. 0 of no elements */
    REDUCE_PROD,   /* the same; 1 of no elements. Products of a block are made in order */
    REDUCE_MEAN,   /* t, rounded once; float32 for integers and bool, whose sum is then taken in
                      float64. nan of no elements */
    REDUCE_VAR,    /* the mean square of the deviations from the mean, both in float64; as the mean.
                      The divisor is the number of elements less ddof */
    REDUCE_STD,    /* its root */
    REDUCE_NORM,   /* the root of the sum of squares; dtypes as those of the mean. Means, deviations
                      and norms of float64 that it holds do not overflow or vanish in between */
    REDUCE_ANY,    /* bool: one is not 0 */
    REDUCE_ALL,    /* bool: none is 0 */
    REDUCE_MAX,    /* t; nan if there is one */
    REDUCE_MIN,    /* t; nan if there is one */
    REDUCE_ARGMAX, /* int64: the index of the first largest element, a nan being larger than all */
    REDUCE_ARGMIN  /* int64: of the first smallest, a nan being smaller than all */
} reduce_op;

/* "sum", "mean", … */
const char *reduce_name(reduce_op op);

typedef struct reduce_how {
    bool keepdims; /* the axes stay, with size 1 */
    double ddof;   /* var and std */
} reduce_how;

/* A new array on a's context without the axes named, or of shape () when axes is NULL. Elements are
 * taken in row-major order. how: NULL means all 0. Errors: index (an axis that is not there), value
 * (an axis twice; max, min and their places of no elements), memory, interrupted. */
int reduce_array(kv_array **out, kv_array *a, reduce_op op, const int64_t *axes, int naxes,
                 const reduce_how *how, kv_err *e);

/* to[i] = the sum of a[i][k] * b[k] over k, for each of n rows, in the order of sums: products and
 * sums are float64, or int64. dtype is float32, float64 or int64. Errors: memory, interrupted. */
int reduce_products(void *to, const void *a, const void *b, kv_dtype dtype, int64_t n,
                    int64_t depth, kv_err *e);

/* ---- Sums that run along an axis (scan.c) ---- */

/* Element i of each line along axis is the sum of elements 0 to i: of a's shape, and of dtype `to`,
 * a float for floats and int64 for others. Floats add in float64 and are rounded once; the order
 * does not depend on the number of threads. Errors: index (axis), memory, interrupted. */
int scan_sum(kv_array **out, kv_array *a, int64_t axis, kv_dtype to, kv_err *e);
