/* The keys that a command on checkpoints works on: its GLOBs, less those of --exclude. */
#ifndef CHECKPOINTS_CHOOSE_H
#define CHECKPOINTS_CHOOSE_H

#include "checkpoint/scales.h"
#include "eval/eval_words.h"

/* Begins zeroed; there is nothing to release. */
typedef struct choice {
    words globs, excluded;
    bool *matched;  /* of globs: a key matched it */
    bool *left_out; /* of excluded: the same */
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
int choose_check_excluded(const session *s, const choice *c, kv_err *e);

/* The numbers of the keys that are chosen from one checkpoint, and how many; the caller releases
 * them with mem_free. Errors: key, as above; memory. */
int choose_keys(const session *s, choice *c, const checkpoint *from, int64_t **keys, int64_t *n,
                kv_err *e);

/* Refuses a tensor of file number `file` of a model that is codes or scales which belong together
 * (checkpoint/scales.h), unless the command has --raw. Error: dtype, without a place. */
int choose_check_scales(const ast *call, scales_model m, int file, const tensor_info *t, kv_err *e);

/* The same for n keys of one checkpoint, at the argument that names it. */
int choose_check_all_scales(session *s, const ast *call, const ast *argument, checkpoint *c,
                            const int64_t *keys, int64_t n, kv_err *e);

/* Opens the checkpoint that an argument names, without what a store keeps about itself unless `all`
 * is set. Errors have the place of the argument. */
int choose_open(session *s, const ast *argument, bool all, result *out, checkpoint **c, kv_err *e);

#endif
