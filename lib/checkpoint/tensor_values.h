/* The numbers that a model means, where its files hold codes: blocks of GGUF's quantised types, and
 * narrow codes with scales beside them (scales.h). A decoded tensor has type F32, its name and
 * shape are those of the numbers, and tensor_reader.h gives them as it gives stored ones; so
 * whatever reads tensors knows nothing of codes. */
#pragma once

#include "checkpoint/checkpoint.h"

/* Returns true if codes with scales are to be decoded. */
typedef bool tensor_values_choice(void *arg, const tensor_info *codes);

/* Decodes tensors of n files that are one model together, in place: scales may stand in another
 * file than their codes. From then on the codes, their scales, and what else belongs to them are
 * hidden: checkpoint_count and checkpoint_find do not know them. Blocks of quantised types are
 * decoded always, codes with scales if `choose` (optional) says so. What has scales of an unclear
 * form stays as it is, for scales_refuse. Every file has to stay open while any of them is read.
 * Errors: value (numbers have the name of another tensor), those of reading a scale, memory. After
 * an error the files can only be closed. */
int tensor_values_decode(checkpoint *const *files, int n, tensor_values_choice *choose, void *arg,
                         kv_err *e);

/* Of tensor i: the stored codes, or NULL where it is not decoded; and how many tensors are hidden
 * as its scales, which is 0 for blocks. */
const tensor_info *tensor_values_codes(const checkpoint *c, int64_t i);
int64_t tensor_values_scales(const checkpoint *c, int64_t i, const char **name);

/* Returns true if a tensor of the file has scales, or config.json beside it says that its codes
 * have some: F8 without a scale are then codes whose scale stands in another file. */
bool tensor_values_has_scales(const checkpoint *c);

/* The number of a hidden tensor that is not replaced by another one of its name, or -1:
 * checkpoint_load takes it. */
int64_t tensor_values_find_hidden(const checkpoint *c, const char *name);
