/* Blocks of a device's memory that were freed, kept for the next array of their size, because an
 * allocation by the driver takes as long as the sum of a large array, and makes the device wait.
 *
 * Sizes are rounded up so that few classes of them remain. The cache is bounded; blocks beyond that
 * go back to the driver. The owner's lock covers everything.
 */
#pragma once

#include <stdint.h>

#include "base/map.h"

enum { CACHE_CLASSES = 512 };

typedef struct cache_class {
    void **blocks;
    int64_t n, cap;
} cache_class;

/* All zero but bound is an empty one. */
typedef struct cache {
    cache_class classes[CACHE_CLASSES];
    map sizes;     /* of each block that the driver has not got back, by its address */
    int64_t kept;  /* bytes, */
    int64_t bound; /* and how many at most */
} cache;

/* The size of a block for this many bytes: at most an eighth more, at least 512. */
int64_t cache_round(int64_t bytes);

/* A block of that size that was kept, or NULL. */
void *cache_take(cache *c, int64_t size);

/* Notes the size of a block that came from the driver. Error: memory. */
int cache_note(cache *c, void *block, int64_t size, kv_err *e);

/* Keeps a block; says whether it did. If not, it is to go back to the driver. */
bool cache_keep(cache *c, void *block);

/* Any block that is kept, which is no longer, or NULL. */
void *cache_drop(cache *c);
