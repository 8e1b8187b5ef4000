/* Ranks of the terms of a row. */
#ifndef MERGE_ROW_RANKS_H
#define MERGE_ROW_RANKS_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of scratch memory for a row of n terms. */
int64_t row_ranks_bytes(int64_t n);

/* rank[i], from 0 to 1, tells the place of terms[i] among all n: place / (n - 1). Of equal terms
 * the first is the smaller; -0 equals 0; nan is above all. 0.5 if n is 1. Terms and ranks are
 * float32, or float64 if wide, and may be one array. scratch: row_ranks_bytes, aligned to 64. */
void row_ranks(void *rank, const void *terms, bool wide, int64_t n, void *scratch);

#endif
