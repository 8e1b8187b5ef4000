/* Gradients as codes of one or two bits, by the rules that array/device.h states. */
#ifndef CPU_QUANTISE_H
#define CPU_QUANTISE_H

#include "array/device.h"

void quantise_encode(void *codes, float *residual, const float *src, dev_code code, float threshold,
                     int64_t n);
void quantise_decode(float *dst, const void *codes, dev_code code, float threshold, int64_t n);
void quantise_decode_add(float *dst, const void *codes, dev_code code, float threshold, int64_t n);
void quantise_sum(float *dst, const float *sum, float *residual, const float *src, dev_code code,
                  float threshold, int64_t n, bool far);

/* The same without the instructions of the processor, for machines that lack them; shared so that
 * tests compare both. */
void quantise_encode_plain(void *codes, float *residual, const float *src, dev_code code,
                           float threshold, int64_t n);
void quantise_decode_plain(float *dst, const void *codes, dev_code code, float threshold,
                           int64_t n);
void quantise_decode_add_plain(float *dst, const void *codes, dev_code code, float threshold,
                               int64_t n);
void quantise_sum_plain(float *dst, const float *sum, float *residual, const float *src,
                        dev_code code, float threshold, int64_t n);

#endif
