/* Sums and copies of whole lines of the cache, shared by the files of lib/cpu. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_dtype.h"

/* The sum of the sources to each of ndst >= 1 places, for as many of the first n elements as fill
 * whole chunks of lines; returns how many those are, 0 where there is no such loop for the dtype or
 * the processor. nsrc >= 2. A place may be a source. far: the stores go past the caches, each place
 * begins a line, and the caller makes the fence that other threads need. The same bits as
 * sum_elements. */
int64_t lines_sum(void *const *dst, int64_t ndst, const void *const *src, int64_t nsrc,
                  kv_dtype dtype, int64_t n, bool far);

/* The same with vectors of at most 512, 256 or 128 bits, shared so that tests compare them. */
int64_t lines_sum_bits(int bits, void *const *dst, int64_t ndst, const void *const *src,
                       int64_t nsrc, kv_dtype dtype, int64_t n, bool far);

/* Copies whole lines past the caches: bytes are a multiple of 64, dst begins a line. */
void lines_copy(char *dst, const char *src, int64_t bytes);

/* Other threads see stores that went past the caches in order only behind this. */
void lines_fence(void);
