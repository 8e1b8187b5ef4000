/* The substitutions of --rename, one after the other. */
#ifndef CHECKPOINTS_RENAMES_H
#define CHECKPOINTS_RENAMES_H

#include "eval/eval_keys.h"
#include "tensors/rename.h"

#define RENAMES_SEEN 3

/* Begins zeroed. */
typedef struct renames {
    words given;
    renaming **each;
    bool *matched;                  /* of each: it matched a name */
    const char *seen[RENAMES_SEEN]; /* the first names, borrowed */
    int nseen;
} renames;

/* Reads those of a command. Errors: usage (no substitution), with their place; those of
 * eval_option_words. */
int renames_read(session *s, const ast *call, result *out, renames *r, kv_err *e);
void renames_release(renames *r);

/* The new name of a key, kept by names; the name itself where there is no --rename. NULL after
 * an error: key (nothing is left of it), memory, value (a limit of the search). */
const char *renames_apply(renames *r, const session *s, const char *name, arena *names, kv_err *e);

/* To be called when all names have been offered: a substitution that matched none of them is most
 * likely mistyped. Error: key, at it, with the first names as a hint. */
int renames_check(const renames *r, const session *s, kv_err *e);

#endif
