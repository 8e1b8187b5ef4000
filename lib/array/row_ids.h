/* Row ids: ascending lists of them, which are searched and united, and ids as a caller gives them,
 * in an array of any shape, in any order, some of them several times. */
#pragma once

#include "cpu/cpu.h"
#include "kv_array.h"

/* The elements of ids, a default array of integers, or of floats that are whole and lie where every
 * integer is exact (in float32 up to 2^24). Blocks as a read of ids does.
 * Out: *out, which has kv_array_size(ids) places; released with mem_free.
 * Errors: value (row_sparse), dtype (bool; a float that is not whole, or too large), memory. */
int row_ids_read(int64_t **out, kv_array *ids, kv_err *e);

/* The index of the first id outside of 0 to rows - 1, or -1. */
int64_t row_ids_outside(const int64_t *ids, int64_t n, int64_t rows);

/* Returns true if the ids ascend, each once, and all are rows of an array with `rows` rows. */
bool row_ids_ordered(const int64_t *ids, int64_t n, int64_t rows);

/* Puts *n ids, which are rows of such an array, in ascending order, each once, and sets *n to how
 * many are left. Error: memory. */
int row_ids_sort(int64_t *ids, int64_t *n, int64_t rows, kv_err *e);

/* The ids of all n sources, ascending and each once, of arrays with `rows` rows.
 * Out: *ids, released with mem_free, and *count, how many they are. Error: memory. */
int row_ids_unite(int64_t **ids, int64_t *count, const sparse_rows *src, int64_t n, int64_t rows,
                  kv_err *e);
