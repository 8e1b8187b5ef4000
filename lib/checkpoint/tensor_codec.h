/* Numbers out of and into the packed bytes of tensors, for every type that has numbers: all but C64
 * and quantised ones, for which tensor_type_dtype is false. C64 can be decoded, as pairs of floats.
 *
 * Data begin at a run of the type (tensor_type_run), at any address. n elements may end within a
 * byte: its other bits are not read, and are written as 0. Arrays of numbers lie at multiples of
 * their size. Regions do not overlap.
 *
 * Each number rounds once, to nearest even, whatever it comes from. One too large becomes infinity
 * in F32, F16, BF16 and F8_E5M2, nan in F8_E4M3, FNUZ types and F8_E8M0, the largest number in F6
 * and F4; cpu/half.h has the rest of F8_E8M0. nan stays nan: F32, F16 and BF16 keep the
 * leading bits of its payload where they come from a float of at most 32 bits.
 *
 * Functions that return an int64_t return the first element that the destination has no number for,
 * or -1; elements behind it may not be written. That is, for an integer, what is out of its range,
 * and nan; for BOOL all but 0 and 1 (nothing is rounded there); for F6 and F4, nan.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "array/kv_array.h"
#include "checkpoint/tensor_type.h"

/* Returns true if float32 holds every number of the type; float64 holds all but those of I64 and
 * U64 beyond 2^53. */
bool tensor_fits_f32(tensor_type t);

/* n numbers, of C64 2 n. A byte of BOOL other than 0 is 1. Numbers that do not fit are rounded. */
void tensor_decode_f32(float *out, tensor_type t, const void *data, int64_t n);
void tensor_decode_f64(double *out, tensor_type t, const void *data, int64_t n);

/* The same exactly, for integers and BOOL only. U64 does not fit from 2^63 on, and what is negative
 * not into uint64. */
int64_t tensor_decode_i64(int64_t *out, tensor_type t, const void *data, int64_t n);
int64_t tensor_decode_u64(uint64_t *out, tensor_type t, const void *data, int64_t n);

/* From one type to another, or the same. A byte of BOOL that is neither 0 nor 1 does not fit. */
int64_t tensor_convert(void *dst, tensor_type to, const void *src, tensor_type from, int64_t n);

/* Numbers that a conversion lost: finite ones that became inf, nan, or the largest of F6 and F4,
 * whole numbers of an integer type that a float type rounded, and floats whose fraction an integer
 * type dropped. Rounding of floats to floats, also to 0, is not a loss, nor are the infs and nans
 * that there were. */
typedef struct tensor_loss {
    int64_t inf, nan, saturated, rounded, fraction;
    int64_t first; /* the first element of them, or -1: to begin with */
} tensor_loss;

/* tensor_convert, which adds what is lost. */
int64_t tensor_convert_counting(void *dst, tensor_type to, const void *src, tensor_type from,
                                int64_t n, tensor_loss *loss);

/* Rounds n float32 to BF16. Returns true if all of them became finite numbers, so that none was
 * lost, and none was infinite or nan. data: at a multiple of 2 bytes. */
bool tensor_encode_finite(void *data, const float *x, int64_t n);

/* Refuses an array whose numbers another dtype cannot hold, as readers of texts do. Rounding is
 * what was asked for. name: of its file, for messages. Errors: value, an array's own. */
int tensor_check_fits(kv_array *a, kv_dtype dtype, const char *name, kv_err *e);

/* To the memory of an array of tensor_type_dtype(t), where only U64 from 2^63 on, and bytes that
 * are no BOOL, do not fit. */
int64_t tensor_to_array(void *array, tensor_type t, const void *data, int64_t n);

/* ---- GGUF's blocks --------------------------------------------------------------------------- */

/* The blocks of GGUF's quantised types as numbers: what each element is, the table in gguf_blocks.c
 * says. Every operation is one rounding in float32, in the order of the reference, gguf-py's
 * dequantize, so that results have its bits. */

/* Returns true if the blocks of a type are read; those of IQ1, IQ2, IQ3, Q8_1, Q8_K and Q1_0 are
 * not. */
bool gguf_blocks_can(tensor_type t);

/* The numbers of n whole blocks of such a type, which lie at any address. */
void gguf_blocks_decode(float *restrict out, tensor_type t, const void *restrict data, int64_t n);
