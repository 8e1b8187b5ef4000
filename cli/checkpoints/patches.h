/* Helpers of the commands on patches. */
#ifndef CHECKPOINTS_PATCHES_H
#define CHECKPOINTS_PATCHES_H

#include "eval/eval_keys.h"
#include "patch/patch.h"

/* Patches that are open, in the order given. Begins zeroed. */
typedef struct patches {
    patch **items;
    int n;
} patches;

/* Opens n patches. Errors: those of patch_open, at the word; memory. */
int patches_open(session *s, const words *w, int64_t n, patches *p, kv_err *e);
void patches_release(patches *p);

/* Refuses to write a patch over a file of the checkpoint that it is made from: it could be applied
 * to nothing any more. Error: usage, at the word. */
int patches_check_place(const session *s, const word *to, const checkpoint *from, kv_err *e);

/* When code is an error that `wrong` explains, the answer is no: its keys become the table of the
 * result, and e is cleared; else returns code. */
int patches_refuse(const patch_misfits *wrong, rows *table, int code, result *out, kv_err *e);

/* The columns of that table. */
rows patches_table(void);

/* Ends a command with its table, or without a text where the table is empty. */
int patches_end(rows *table, int code, result *out, kv_err *e);

#endif
