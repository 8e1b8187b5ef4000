/* Products of vectors and matrices. */
#pragma once

#include <stdint.h>

#include "kv_array.h"

/* The sum of products over the last axis of a and the last but one of b (the only one of a vector):
 * (k) (k) gives (), (n, k) (k) gives (n), (k) (k, m) gives (m), (n, k) (k, m) gives (n, m). Both
 * have one or two axes and are converted to dtype first. The result is on a's context, and of the
 * same bits whatever the processor and the number of threads.
 *
 * A result with one column, of b with one axis or one column, is added as array/reduce.h adds, of
 * products in float64. Else products and sums are float32 for float32 and the half types, float64
 * for float64, each rounded by itself: blocks of 4096 consecutive k are added in order, then the
 * blocks from left to right. Integers add exactly and wrap. Errors: shape, memory, interrupted. */
int dot_arrays(kv_array **out, kv_array *a, kv_array *b, kv_dtype dtype, kv_err *e);

/* The same product of matrices of float32 or float64 in memory, row by row, into `to`, which
 * does not overlap a or b: (n, depth) and (depth, m) give (n, m). room: dot_product_bytes of
 * memory. Cannot fail, and is not interrupted. */
void dot_product(void *to, const void *a, const void *b, int64_t n, int64_t depth, int64_t m,
                 kv_dtype dtype, void *room);
int64_t dot_product_bytes(int64_t n, int64_t depth, int64_t m, kv_dtype dtype);

/* The inner loop of matrix products, for what the processor can do.
 *
 * A kernel multiplies DOT_ROWS rows with as many columns as fit DOT_LINE bytes; their sums stay in
 * registers. A product and a sum are rounded each by itself and the depth is walked in order, so
 * the results are the same bits on every processor. (A fused multiply-add would be faster, where
 * there is one, and give other bits.) */

enum { DOT_ROWS = 6, DOT_LINE = 64 };

/* sums[r][c] += a[k][r] * b[k][c] for each k in order: sums are rows of DOT_LINE bytes, `stride`
 * elements apart, a has DOT_ROWS elements for each k, b DOT_LINE bytes. */
typedef void dot_kernel(void *sums, int64_t stride, const void *a, const void *b, int64_t depth);

typedef struct dot_kernels {
    const char *name;
    dot_kernel *f32, *f64, *i64;
} dot_kernels;

/* The i-th table that this processor can use, slowest first, or NULL behind the last. */
const dot_kernels *dot_kernel_tables(int i);
