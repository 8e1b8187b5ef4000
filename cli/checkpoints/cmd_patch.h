/* Commands on patches: `patch` writes the differences between two checkpoints as a file, or
 * several such files as one; `apply` puts patches into another checkpoint or in its place. */
#ifndef CHECKPOINTS_CMD_PATCH_H
#define CHECKPOINTS_CMD_PATCH_H

#include "eval/eval_keys.h"
#include "patch/patch.h"

/* Patches that are open, in the order given. Begins zeroed. */
typedef struct patches {
    patch **items;
    int n;
} patches;

/* Refuses to write a patch over a file of the checkpoint that it is made from: it could be applied
 * to nothing any more. Error: usage, at the word. */
int patches_check_place(const session *s, const word *to, const checkpoint *from, kv_err *e);

#endif
