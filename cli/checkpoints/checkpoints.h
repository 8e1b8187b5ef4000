/* The commands on checkpoints: files of named arrays, as tools for models write them. The command
 * table describes them. */
#ifndef CHECKPOINTS_CHECKPOINTS_H
#define CHECKPOINTS_CHECKPOINTS_H

#include "cmd/commands.h"

/* cmd_patch.c */
command_fn cmd_apply;
/* cmd_look.c */
command_fn cmd_check;
/* cmd_compare.c */
command_fn cmd_diff;
/* cmd_convert.c */
command_fn cmd_convert;
/* cmd_compare.c */
command_fn cmd_hash;
/* cmd_look.c */
command_fn cmd_ls;
/* cmd_patch.c */
command_fn cmd_patch;
/* cmd_look.c */
command_fn cmd_stat;
/* cmd_merge.c */
command_fn cmd_merge;
/* Checks the literal words of a merge: see `check` in syntax/command.h. */
int cmd_merge_check(const source *src, const ast *call, const map *types, kv_err *e);
/* cmd_save.c */
command_fn cmd_save;

/* Appends a name, with # for each run of digits: --fold. */
void fold_name(buf *out, const char *name);

#endif
