/* The inner loops of sorting, over items: unsigned numbers in the order of the elements, alone or
 * with the indices of the elements. */
#ifndef ARRAY_SORT_ITEM_H
#define ARRAY_SORT_ITEM_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_dtype.h"

typedef struct sort_items {
    int64_t bytes; /* of an item */
    /* Makes items of n elements (float32, float64, int32 or int64) whose first has the index `at`.
     * down: their order is reversed. */
    void (*make)(void *items, const void *x, int64_t n, int64_t at, bool down);
    /* Sorts n items; room is for as many. Stable. */
    void (*sort)(void *items, void *room, int64_t n);
    /* Merges na sorted items with nb that came behind them, as far as they give the n items of the
     * result from number `from` on, which are written to `to`. */
    void (*merge)(void *to, const void *a, int64_t na, const void *b, int64_t nb, int64_t from,
                  int64_t n);
    /* The elements, or as int64 the indices, of n items. */
    void (*give)(void *to, const void *items, int64_t n, bool down);
} sort_items;

/* The dtype that elements of a dtype are sorted in: float32, float64, int32 or int64. */
kv_dtype sort_dtype(kv_dtype dtype);

/* For elements of sort_dtype. Indices of float32 and int32 are below 2^32. */
const sort_items *sort_items_of(kv_dtype dtype, bool indices);

#endif
