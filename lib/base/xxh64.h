/* XXH64: a checksum of 64 bits that finds damage, at the speed of memory. It is no defence against
 * somebody who wants two texts with the same sum. The algorithm is public (Yann Collet, xxHash):
 * `xxhsum -H1` and libraries of most languages compute the same numbers. */
#ifndef BASE_XXH64_H
#define BASE_XXH64_H

#include <stddef.h>
#include <stdint.h>

/* The sum of n bytes, with seed 0. data may be NULL where n is 0. */
uint64_t xxh64(const void *data, size_t n);

#endif
