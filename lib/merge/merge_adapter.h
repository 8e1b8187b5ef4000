/* Low-rank adapters: the two matrices, lora_A and lora_B, that an adapter has for a key; and
 * adapter_config.json, which PEFT writes beside them. */
#pragma once

#include "checkpoint/checkpoint.h"

/* b (rows, rank) times a (rank, columns), both float32, or float64 if wide. */
typedef struct merge_product {
    const void *a, *b;
    int64_t rank, columns;
    bool wide;
} merge_product;

/* The n elements of the product from element `from` on, in row-major order: each is a sum over
 * rank, from the first to the last, in float64, rounded once. */
void merge_product_part(void *out, const merge_product *p, int64_t from, int64_t n);

/* The indices of the tensors lora_A and lora_B of a key in an adapter; -1: it has none. */
typedef struct merge_factors {
    int64_t a, b;
} merge_factors;

/* Checks that every tensor of an adapter belongs to a key of the base. Errors: key, memory. */
int merge_adapter_check(const checkpoint *adapter, const checkpoint *base, kv_err *e);

/* Finds the matrices for a key of the base, and checks that they fit it. rank: the one that the
 * configuration says, or 0. Errors: key (one of them is missing), shape (also another rank), dtype
 * (not floating), unsupported (larger than MERGE_FACTORS_BYTES), memory. */
int merge_adapter_find(merge_factors *out, const checkpoint *adapter, const tensor_info *key,
                       double rank, kv_err *e);

/* The most bytes of the matrices of one key. */
#define MERGE_FACTORS_BYTES ((int64_t)64 << 20)

/* The bytes that the matrices of a key take in memory. */
int64_t merge_adapter_bytes(const checkpoint *adapter, merge_factors f, bool wide);

/* Reads the matrices into memory of merge_adapter_bytes. Errors: those of tensor_read. */
int merge_adapter_read(merge_product *out, void *memory, const checkpoint *adapter, merge_factors f,
                       bool wide, kv_err *e);

/* *scale becomes the number by which the product of B and A is multiplied: lora_alpha / r, with
 * use_rslora lora_alpha / sqrt(r); 1 where no configuration stands in the folder path, or beside
 * the file path, and of stdin. *rank becomes r, or 0 without a configuration. Errors: io; format
 * (malformed; r or lora_alpha is missing); unsupported (another kind of adapter; those that are
 * more than a product: DoRA, other ranks for some keys, transposed weights, repeated layers; those
 * that are not for the base as it is, such as PiSSA's); memory. */
int adapter_config_read(const char *path, double *scale, double *rank, kv_err *e);
