/* The blocks of GGUF's quantised types as numbers: what each element is, the table in gguf_blocks.c
 * says. Every operation is one rounding in float32, in the order of the reference, gguf-py's
 * dequantize, so that results have its bits. */
#pragma once

#include "checkpoint/tensor_type.h"

/* Returns true if the blocks of a type are read; those of IQ1, IQ2, IQ3, Q8_1, Q8_K and Q1_0 are
 * not. */
bool gguf_blocks_can(tensor_type t);

/* The numbers of n whole blocks of such a type, which lie at any address. */
void gguf_blocks_decode(float *restrict out, tensor_type t, const void *restrict data, int64_t n);
