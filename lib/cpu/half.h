/* float16 and bfloat16, to and from float32, many at a time. Narrowing rounds to nearest, half to
 * even; nan stays nan with the leading bits of its payload. */
#ifndef CPU_HALF_H
#define CPU_HALF_H

#include <stdint.h>

void half_widen_f16(float *restrict dst, const uint16_t *restrict src, int64_t n);
void half_narrow_f16(uint16_t *restrict dst, const float *restrict src, int64_t n);
void half_widen_bf16(float *restrict dst, const uint16_t *restrict src, int64_t n);
void half_narrow_bf16(uint16_t *restrict dst, const float *restrict src, int64_t n);

/* The conversions of float16 without the instructions of the processor, for machines that lack
 * them; shared so that tests compare both. */
void half_widen_f16_soft(float *restrict dst, const uint16_t *restrict src, int64_t n);
void half_narrow_f16_soft(uint16_t *restrict dst, const float *restrict src, int64_t n);

#endif
