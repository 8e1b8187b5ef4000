/* The commands on checkpoints: files of named arrays, as tools for models write them. The command
 * table describes them. */
#pragma once

#include "base/mem.h"
#include "cmd/commands.h"
#include "lang/ast.h"
#include "lang/source.h"
#include "patch/patch.h"
#include "session/unit.h"

/* cmd_look.c, cmd_compare.c, cmd_convert.c, cmd_merge.c, cmd_patch.c */
command_fn cmd_check, cmd_ls, cmd_stat, cmd_diff, cmd_hash, cmd_convert, cmd_merge, cmd_patch,
    cmd_apply, cmd_save;

/* Checks the literal words of a merge: see `check` in syntax/command.h. */
int cmd_merge_check(const source *src, const ast *call, const map *types, kv_err *e);

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

/* ---- The rule that the word or the block of a merge stands for ---- */

/* Begins zeroed. */
typedef struct merge_found {
    const rule_ast *rule; /* NULL: not known without reading a file, or evaluating a word */
    const char *library;  /* its name, of one that the library has; else NULL */
    source src;           /* of the rule */
    arena nodes;
    unit *unit; /* of a file or a computed text */
} merge_found;

/* Finds the rule by the words of the call. src: of the call. Errors, with place: usage (no
 * such rule), syntax (in a text). */
int merge_find_literal(const source *src, const ast *call, merge_found *f, kv_err *e);

/* Finds it when the command runs. Errors as above, and io. */
int merge_find(session *s, const ast *call, merge_found *f, kv_err *e);

/* failed: the text stays, since the report of the error shows its lines. */
void merge_found_release(session *s, merge_found *f, bool failed);

/* Checks the words that need no models: that each option which the command lacks is a
 * parameter, that literal ones have values which it takes, that the command does not hide one, that
 * base and weights are there for a rule that reads them, and only then. Errors: usage, value,
 * dtype, at the option or the rule. */
int merge_words_check(const source *src, const ast *call, const merge_found *f, kv_err *e);

/* Checks one value of a parameter. Errors, at the value: value (out of range), dtype (of another
 * kind). */
int merge_param_check(const source *src, const ast *option, const merge_found *f, const char *name,
                      const char *text, kv_err *e);
