/* The inner loop of matrix products, for what the processor can do.
 *
 * A kernel multiplies DOT_ROWS rows with as many columns as fit DOT_LINE bytes; their sums stay in
 * registers. A product and a sum are rounded each by itself and the depth is walked in order, so
 * the results are the same bits on every processor. (A fused multiply-add would be faster, where
 * there is one, and give other bits.)
 */
#ifndef ARRAY_DOT_KERNEL_H
#define ARRAY_DOT_KERNEL_H

#include <stdint.h>

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

/* The fastest of them. */
const dot_kernels *dot_kernel_best(void);

#endif
