/* Tensors of narrow codes whose numbers are those codes times scales that stand beside them, as
 * FP8, FP4, MX and integer quantisers write them. Codes and scales apart are not numbers of the
 * model: means, differences and conversions of them are wrong, and nothing shows it.
 *
 * A pair is known by names and by the type of the codes. A weight_scale beside a weight of BF16, or
 * without a weight, is a tensor like others. The table of names is in scales.c.
 */
#pragma once

#include "checkpoint/checkpoint.h"

/* Files that are one model together: scales may stand in another one than their codes. */
typedef struct scales_model {
    checkpoint *const *files;
    int n;
} scales_model;

#define SCALES_MOST 4 /* names that a message shows */

typedef struct scales {
    const checkpoint *file;   /* of the codes */
    const tensor_info *codes;
    const tensor_info *scale[SCALES_MOST];
    int home[SCALES_MOST]; /* the file of each */
    int n;
    const char *scheme; /* "GPTQ"; NULL: plain scales */
} scales;

/* Returns true if tensor t of file number `file` belongs to codes with scales, as the codes or as
 * one of the scales, and then tells all of them. */
bool scales_find(scales *out, scales_model m, int file, const tensor_info *t);

/* The same for codes only. */
bool scales_find_codes(scales *out, scales_model m, int file, const tensor_info *codes);

/* Returns true if a name is that of a scale of a weight that is not there, or is not codes. */
bool scales_is_unused(scales_model m, const char *name);

/* The same for a file that is a model by itself, and the codes only. In a file that a store wrote
 * arrays are what the store held, whatever their names. */
bool scales_find_of(scales *out, const checkpoint *c, const tensor_info *t);

/* The error for what would take them for numbers: code dtype, with their names, and a hint for a
 * command that has --raw, or for one that has not. */
int scales_refuse(const scales *s, bool has_raw, kv_err *e);

/* ---- Decoding -------------------------------------------------------------------------------- */

/* The numbers that a model means, where its files hold codes: blocks of GGUF's quantised types, and
 * narrow codes with scales beside them. A decoded tensor has type F32, its name and
 * shape are those of the numbers, and tensor_reader.h gives them as it gives stored ones; so
 * whatever reads tensors knows nothing of codes. */

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
