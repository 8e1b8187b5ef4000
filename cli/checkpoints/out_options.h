/* The options that commands which write checkpoints share: --dtype, --metadata, --drop-metadata,
 * --shard-size and --force. Texts live as long as the result of the command. */
#ifndef CHECKPOINTS_OUT_OPTIONS_H
#define CHECKPOINTS_OUT_OPTIONS_H

#include "checkpoint/checkpoint_write.h"
#include "eval/eval_words.h"
#include "tensors/convert.h"

/* Where an output was wanted and the word does not end as one. */
#define CHECKPOINT_OUT_HINT                                                                        \
    "names end in .safetensors, .npz or .kvs, that of a folder ends in /"

/* The values of --dtype: T, or GLOB=T. Begins zeroed; there is nothing to release. */
typedef struct retypes {
    convert_type *items;
    int64_t n;
    words given;
} retypes;

/* Errors: usage (an unknown dtype), those of eval_words. */
int retypes_read(session *s, const ast *call, result *out, retypes *t, kv_err *e);

/* To be called when every key has had its type: a GLOB that matched none is most likely mistyped.
 * Error: key. */
int retypes_check(const session *s, const retypes *t, kv_err *e);

/* The texts of --metadata K=V, in the order given. */
typedef struct metadata_words {
    checkpoint_text *items;
    int64_t n;
    bool drop; /* --drop-metadata */
} metadata_words;

/* to: the output. Errors: usage (a word without =; a name that belongs to files of stores; npz
 * holds none), those of eval_words. */
int metadata_words_read(session *s, const ast *call, const char *to, result *out,
                        metadata_words *m, kv_err *e);

/* Reads --shard-size, --force, and whether files wait for the disk. Errors: usage (no size; the
 * output is no folder). */
int out_options_read(session *s, const ast *call, const char *to, result *out,
                     checkpoint_out_options *o, kv_err *e);

#endif
