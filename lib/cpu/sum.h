/* The sum of several arrays, by the rules that array/device.h states. */
#ifndef CPU_SUM_H
#define CPU_SUM_H

#include <stdint.h>

#include "kv_array.h"

/* dst[i] = src[0][i] + src[1][i] + …, nsrc >= 1. dst may be src[0] but no other source. */
void sum_elements(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n);

#endif
