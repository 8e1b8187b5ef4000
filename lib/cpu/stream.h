/* Sums and conversions whose results go past the caches, for arrays that are larger than these: to
 * write a line the ordinary way it must be read first. The same bits as convert_elements and
 * sum_elements. */
#ifndef CPU_STREAM_H
#define CPU_STREAM_H

#include "array/kv_array.h"

void stream_convert(void *dst, kv_dtype to, const void *src, kv_dtype from, int64_t n);
void stream_sum(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n);

/* Copies whole lines: bytes are a multiple of 64, dst is aligned to that. Other threads see them
 * behind stream_fence, which the other functions end with. */
void stream_lines(char *dst, const char *src, int64_t bytes);
void stream_fence(void);

#endif
