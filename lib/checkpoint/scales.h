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

/* The tensor whose name is the first n bytes of this one, then the ending; *file becomes its
 * number. NULL: there is none. */
const tensor_info *scales_look_up(scales_model m, const char *name, size_t n, const char *ending,
                                  int *file);

/* The same for a file that is a model by itself, and the codes only. In a file that a store wrote
 * arrays are what the store held, whatever their names. */
bool scales_find_of(scales *out, const checkpoint *c, const tensor_info *t);

/* Which code a scale belongs to, by the shapes of both. Returns false if the types and shapes are
 * not in the table in scales.c, so that nobody knows what the numbers are. */
struct scales_fit;
bool scales_find_fit(struct scales_fit *out, const scales *s, const int64_t block[2]);

/* How many rows and columns share a scale, from the config.json of a model; 128 by 128 where that
 * does not say. Returns true if that has a quantization_config. */
bool scales_block_size(int64_t block[2], const char *model);

/* The error for what would take them for numbers: code dtype, with their names, and a hint for a
 * command that has --raw, or for one that has not. */
int scales_refuse(const scales *s, bool has_raw, kv_err *e);
