/* The substitutions of --rename, one after the other. */
#ifndef CHECKPOINTS_RENAMES_H
#define CHECKPOINTS_RENAMES_H

#include "eval/eval_words.h"
#include "tensors/rename.h"

/* Begins zeroed. */
typedef struct renames {
    words given;
    renaming **each;
} renames;

/* Reads those of a command. Errors: usage (no substitution), with their place; those of
 * eval_option_words. */
int renames_read(session *s, const ast *call, result *out, renames *r, kv_err *e);
void renames_release(renames *r);

/* The new name of a key, kept by names; the name itself where there is no --rename. NULL after
 * an error: key (nothing is left of it), memory. */
const char *renames_apply(const renames *r, const session *s, const char *name, arena *names,
                          kv_err *e);

#endif
