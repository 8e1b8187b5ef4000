/* Elements of the product of two small matrices, of low-rank adapters. */
#ifndef MERGE_MERGE_PRODUCT_H
#define MERGE_MERGE_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* b (rows, rank) times a (rank, columns), both float32, or float64 if wide. */
typedef struct merge_product {
    const void *a, *b;
    int64_t rank, columns;
    bool wide;
} merge_product;

/* The n elements of the product from element `from` on, in row-major order: each is a sum over
 * rank, from the first to the last, in float64, rounded once. */
void merge_product_part(void *out, const merge_product *p, int64_t from, int64_t n);

#endif
