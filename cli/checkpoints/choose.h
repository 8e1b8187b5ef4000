/* The keys that a command on checkpoints works on, its GLOBs less those of --exclude, and the
 * names that they get by --rename. */
#pragma once

#include "checkpoint/scales.h"
#include "eval/eval_keys.h"
#include "files/files.h"
#include "tensors/conversion.h"
#include "term/terminal.h"

/* Long work, a call that has progress_bytes as its callback, under a bar; gives what the call
 * returns. */
#define PROGRESS(name, call) (progress_begin(name, 0, PROGRESS_BYTES), progress_after(call))
static inline int progress_after(int rc)
{
    progress_end();
    return rc;
}

/* ---- Keys ---- */

/* The first names that were looked at, for the error about a pattern that matches none. */
typedef struct first_names {
    char text[3][64];
    int n;
} first_names;

void first_names_add(first_names *f, const char *name);
void first_names_hint(const first_names *f, kv_err *e);

/* Begins zeroed; there is nothing to release. */
typedef struct choice {
    words globs, excluded;
    first_names seen;
    bool any;       /* a key was taken */
    int64_t n;      /* of the last file: how many were, for check */
    bool goes_on;   /* more files follow: choose_check has nothing to say yet */
} choice;

/* Reads the patterns: globs is the argument of the command that holds them, or NULL. Patterns that
 * choose are added to those that c has already. Errors: those of eval_words. */
int choose_read(session *s, const ast *call, const ast *globs, result *out, choice *c, kv_err *e);

/* Returns true for a key that a GLOB matches, or any without GLOBs, unless one of --exclude
 * does. */
bool choose_takes(choice *c, const char *key);

/* To be called when all keys have been offered to choose_takes: a GLOB that matched none of them is
 * most likely mistyped, and so is one of --exclude. Error: key, at the pattern. */
int choose_check(const session *s, const choice *c, kv_err *e);

/* The same, for commands that compare or write: a list may be empty, but a comparison of nothing
 * would be a yes, and an output of nothing is nobody's wish. */
int choose_check_some(const session *s, const choice *c, kv_err *e);

/* The numbers of the keys that are chosen from one checkpoint, and how many; the caller releases
 * them with mem_free. Errors: key, as above; memory. */
int choose_keys(const session *s, choice *c, const checkpoint *from, int64_t **keys, int64_t *n,
                kv_err *e);

/* Makes n files that are one model tensors of the numbers that they mean (see
 * checkpoint/scales.h, also for choose), unless the command has --raw. Errors have the place
 * of the argument. */
int choose_decode(session *s, const ast *call, const ast *argument, checkpoint *const *files, int n,
                  tensor_values_choice *choose, void *arg, kv_err *e);

/* The keys among those of a command that were decoded. Begins zeroed. */
typedef struct decoded {
    int64_t blocks, scaled, scales;
    const char *name; /* that the first scales have */
    int64_t unused; /* keys that are called scales, without a weight of codes */
    const char *unused_name; /* of the first */
    bare_codes bare;
} decoded;

/* Counts key i of file number `file` of a model. reads: its numbers are looked at. */
void choose_count_decoded(decoded *d, scales_model m, int file, int64_t i, bool reads);

/* Says it, in a line for each of the two kinds; blocks: and what those became, or NULL. */
void choose_tell_decoded(session *s, const decoded *d, const char *blocks);

/* The same for n keys of one checkpoint, at the argument that names it. */
int choose_check_all_scales(session *s, const ast *call, const ast *argument, checkpoint *c,
                            const int64_t *keys, int64_t n, kv_err *e);

/* Looks at one checkpoint; chosen has been read. */
typedef int choose_fn(session *s, const ast *call, const word *file, choice *chosen, result *out,
                      kv_err *e);

/* Runs a command `FILE... [GLOB...]` for each of its files. Words are files as long as they name
 * something that exists, or end as a checkpoint does; the others are patterns; each must
 * match a key of any file. Of several files, the text of each stands behind a line `FILE:`, and
 * out->files has their results. Errors: those of look, at the first file that has one. With all, a
 * file that cannot be read does not keep the others from being looked at: the worst error comes
 * behind the result, as with result_answer. */
int choose_each(session *s, const ast *call, choose_fn *look, bool all, result *out, kv_err *e);

/* Returns true if a word ends as the name of a checkpoint, and is not a pattern. */
bool choose_ends_as_file(const char *text);

/* The same, or the word names a file or a folder that is there. */
bool choose_names_file(const char *text);

/* Opens a checkpoint, without what a store keeps about itself unless `all` is set. Errors have the
 * place of the word. */
int choose_open_word(session *s, const word *file, bool all, checkpoint **c, kv_err *e);

/* The same for a command that makes another one of it: a note says which entries of a file of
 * PyTorch are left out because they are not tensors. */
int choose_open_tensors(session *s, const word *file, checkpoint **c, kv_err *e);

/* Notes that tensor i, which is kept, stands beside the model of a training: states of its
 * optimizer. Returns false where it does not. */
bool choose_tell_training(session *s, const checkpoint *c, int64_t i);

/* Opens the checkpoint that an argument names, without what a store keeps about itself unless `all`
 * is set. Errors have the place of the argument. */
int choose_open(session *s, const ast *argument, bool all, result *out, checkpoint **c, kv_err *e);

/* ---- Names ---- */

/* The substitutions of --rename, one after the other. */

/* Begins zeroed. */
typedef struct renames {
    words given;
    struct {
        renaming *by;
        int64_t matched, more; /* names that it matched, that it matched twice */
    } * each;
    first_names seen;
} renames;

/* Reads those of a command. Errors: usage (no substitution), with their place; those of
 * eval_option_words. */
int renames_read(session *s, const ast *call, result *out, renames *r, kv_err *e);
void renames_release(renames *r);

/* The new name of a key, kept by names; without --rename that is the name itself. NULL after an
 * error: key (nothing is left of it), memory, value (a limit of the search). */
const char *renames_apply(renames *r, const session *s, const char *name, arena *names, kv_err *e);

/* To be called when all names have been offered: a substitution that matched none of them is most
 * likely mistyped. Error: key, at it, with the first names as a hint. A note says which replaced
 * the first of several matches. */
int renames_check(const renames *r, session *s, kv_err *e);
