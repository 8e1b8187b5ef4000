/* Arrays from files: @x.csv in expressions, load() with its options, and files of named arrays as
 * the values of keys. */
#pragma once

#include "base/num.h"
#include "checkpoint/checkpoint.h"
#include "eval/eval.h"
#include "lang/ast.h"
#include "session/session.h"
#include "syntax/function.h"

/* The value of an AST_FILE: an array, or a list of them for a file with one a line. Errors: io,
 * format, usage (no known ending; several arrays and no name), name (of an array not there). */
int load_eval(session *s, const ast *node, value *out, kv_err *e);

/* load(file, dtype=, cols=, ...) and categories(file, col, ...), see function.h. */
int load_call(function_args *args, value *out, kv_err *e);
int load_categories(function_args *args, value *out, kv_err *e);

/* Opens the file of an AST_FILE when it is one of arrays by name, or the part of a file of PyTorch,
 * and node does not choose one array; else *out is NULL. Close it with checkpoint_close. The error
 * has the place of node. */
int load_named(session *s, const ast *node, checkpoint **out, kv_err *e);

/* ---- Values into files ---- */

/* By the ending of their names: all of a file or nothing. Writes what a command gave to path, "-"
 * for stdout. {key} in the path stands for the key of each of several values; then all files are
 * written before the first is renamed, and an error or a crash between two renames leaves the files
 * behind it as they were. append: lines are added behind what the file holds. Nothing is written
 * before everything was checked. A .txt file gets what would be shown, never shortened. A
 * safetensors file gets the metadata of other tools that the store in use holds. Errors: usage (see
 * file_kind_check; several values for a file of one), dtype, shape, value, io, interrupted. */
int save_result(session *s, const char *path, const result *r, bool append, kv_err *e);

/* Writes text that is whole as it is to path, or adds it. Errors: unsupported (--safe), io. */
int save_text(session *s, const char *path, const buf *text, bool append, kv_err *e);

/* Writes v to stdout as a file would hold it: JSON when that is the session's format, else CSV. */
int save_stdout(session *s, value v, kv_err *e);

/* ---- Files of named arrays ---- */

/* As the values of keys: `init * @m.safetensors`, `push fc1.w @m.safetensors`. Arrays and keys
 * belong together by name; an integer key is called as it is written. */

/* A checkpoint by its ending; a folder; a file of another tool, which is named for what it is. */
bool named_is_checkpoint(const char *path);

/* Returns true if KEYS are one pattern, such as * or conv*. */
bool named_is_pattern(const ast *keys);

/* The keys for those arrays of f whose names match the pattern KEYS, in the order of the file. They
 * are integers when all of these names are and the store in use holds no text keys. The caller
 * releases out, also after an error. Errors: key (nothing matches), value (a name that no key can
 * have). */
int named_keys(session *s, const ast *keys, const checkpoint *f, key_list *out, kv_err *e);

/* Counts tensor i (-1: none) if it is read as F8 numbers, and says how many are if other tensors of
 * the file have scales: theirs stand in another file. */
typedef struct bare_codes {
    int64_t n;
    const char *name; /* of the first one; f's */
    const checkpoint *f;
} bare_codes;
void bare_codes_count(bare_codes *b, const checkpoint *f, int64_t i);
void bare_codes_tell(session *s, const bare_codes *b);

/* The value of one array of a file: `name`, NULL: the only one. Errors: io, format, name, value. */
int named_read(session *s, const char *path, const char *name, value *out, kv_err *e);

/* The name of a key in files: its text, or its number as it is written, in `number`. */
const char *named_key(kv_key key, char number[NUM_TEXT_MAX]);

/* The array of f for a key. Errors: name (there is none), those of named_load. */
int named_array(kv_array **out, const checkpoint *f, kv_key key, kv_err *e);

/* The texts of other tools that a store holds, such as `format: pt`, in memory. Error: memory. */
int named_texts(kv *store, arena *memory, checkpoint_text **texts, int64_t *n, kv_err *e);

/* Takes those of f over into the store; those that it has stay. Error: memory. */
int named_metadata(kv *store, const checkpoint *f, kv_err *e);
