/* Conversions between all dtypes, by the rules that array/device.h states. */
#ifndef CPU_CONVERT_H
#define CPU_CONVERT_H

#include <stdint.h>

#include "kv_array.h"

/* dst[i] = src[i] for n elements. dst and src do not overlap. */
void convert_elements(void *dst, kv_dtype to, const void *src, kv_dtype from, int64_t n);

#endif
