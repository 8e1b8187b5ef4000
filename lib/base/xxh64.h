/* XXH64: a checksum of 64 bits that finds damage, at the speed of memory. It does not
 * protect against somebody who constructs two texts with the same sum. The algorithm is public
 * (Yann Collet, xxHash): `xxhsum -H1` and libraries of most languages compute the same numbers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The sum of n bytes, with seed 0. data may be NULL where n is 0. */
uint64_t xxh64(const void *data, size_t n);

/* The same of data that come in parts. xxh64_add takes parts whose bytes are a multiple of 32, and
 * xxh64_end the last one, of any size, and returns the sum. */
typedef struct xxh64_parts {
    uint64_t lanes[4];
    uint64_t n; /* bytes so far */
} xxh64_parts;

void xxh64_begin(xxh64_parts *p);
void xxh64_add(xxh64_parts *p, const void *data, size_t n);
uint64_t xxh64_end(xxh64_parts *p, const void *last, size_t n);
