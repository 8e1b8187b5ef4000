/* Sums of whole lines of the cache, the running sums in registers. */
#ifndef CPU_LINES_H
#define CPU_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_array.h"

/* dst = src[0] + … for as many of the first n elements as fill whole chunks of lines; returns how
 * many those are, 0 where there is no such loop for the dtype or the processor. nsrc >= 2, and dst
 * may be src[0]. far: the stores go past the caches, dst begins a line, and whoever calls makes the
 * fence that other threads need. The same bits as sum_elements. */
int64_t lines_sum(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n,
                  bool far);

/* The same with vectors of at most 512, 256 or 128 bits, shared so that tests compare them. */
int64_t lines_sum_bits(int bits, void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype,
                       int64_t n, bool far);

#endif
