/* adapter_config.json, which PEFT writes beside the tensors of a low-rank adapter. */
#pragma once

#include "kv_err.h"

/* *scale becomes the number by which the product of B and A is multiplied: lora_alpha / r, with
 * use_rslora lora_alpha / sqrt(r); 1 where no configuration stands in the folder path, or beside
 * the file path, and of stdin. *rank becomes r, or 0 without a configuration. Errors: io; format
 * (malformed; r or lora_alpha is missing); unsupported (another kind of adapter; those that are
 * more than a product: DoRA, other ranks for some keys, transposed weights, repeated layers; those
 * that are not for the base as it is, such as PiSSA's); memory. */
int adapter_config_read(const char *path, double *scale, double *rank, kv_err *e);
