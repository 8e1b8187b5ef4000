/* The commands on checkpoints: files of named arrays, as tools for models write them. The command
 * table describes them. */
#pragma once

#include "cmd/commands.h"
#include "patch/patch.h"

/* cmd_look.c, cmd_compare.c, cmd_convert.c, cmd_merge.c, cmd_patch.c */
command_fn cmd_check, cmd_ls, cmd_stat, cmd_diff, cmd_hash, cmd_convert, cmd_merge, cmd_patch,
    cmd_apply, cmd_save;

/* Checks the literal words of a merge: see `check` in syntax/command.h. */
check_fn cmd_merge_check;

/* Appends a name, with # for each run of digits: --fold. */
void fold_name(buf *out, const char *name);

/* ---- Patches ---- */

struct word;

/* Patches that are open, in the order given. Begins zeroed. */
typedef struct patches {
    patch **items;
    int n;
} patches;

/* Refuses to write a patch over a file of the checkpoint that it is made from: it could be applied
 * to nothing any more. Error: usage, at the word. */
int patches_check_place(const session *s, const struct word *to, const checkpoint *from, kv_err *e);
