/* XXH64 by libxxhash (Yann Collet): a checksum of 64 bits that finds damage, at the speed of
 * memory. It does not protect against somebody who constructs two texts with the same sum. Sums of
 * data that come in parts are made by the library's own functions, with seed 0. */
#pragma once

#define XXH_STATIC_LINKING_ONLY /* so that a state may lie in memory of the caller's */
#include <xxhash.h>

/* The sum of n bytes, with seed 0. data may be NULL where n is 0. */
uint64_t xxh64(const void *data, size_t n);
