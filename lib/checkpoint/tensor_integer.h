/* The loops of tensor_codec.c over integers and bools in memory. t is one of these types; its
 * elements lie at multiples of their size, and a byte of a bool other than 0 is 1. */
#ifndef CHECKPOINT_TENSOR_INTEGER_H
#define CHECKPOINT_TENSOR_INTEGER_H

#include <stdint.h>

#include "checkpoint/tensor_type.h"

/* Rounded to nearest even; exact up to 24 and 53 bits. */
void integer_to_f32(tensor_type t, float *restrict dst, const void *restrict src, int64_t n);
void integer_to_f64(tensor_type t, double *restrict dst, const void *restrict src, int64_t n);

/* These return the first element that the destination does not hold, where they stop, or -1. From
 * float64 the nearest integer is taken, half to even; a bool holds 0 and 1 only. */
int64_t integer_to_i64(tensor_type t, int64_t *restrict dst, const void *restrict src, int64_t n);
int64_t integer_to_u64(tensor_type t, uint64_t *restrict dst, const void *restrict src, int64_t n);
int64_t integer_from_f64(tensor_type t, void *restrict dst, const double *restrict src, int64_t n);
int64_t integer_from_i64(tensor_type t, void *restrict dst, const int64_t *restrict src, int64_t n);
int64_t integer_from_u64(tensor_type t, void *restrict dst, const uint64_t *restrict src,
                         int64_t n);

/* dst[i] = src[i] rounded to odd as a float64 (head of cpu/convert.c): rounding that again, to a
 * float of at most 40 bits of significand, gives what rounding src[i] once gives. */
void integer_odd_u64(double *restrict dst, const uint64_t *restrict src, int64_t n);

#endif
