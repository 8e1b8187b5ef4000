/* Files of named arrays as the values of keys: `init * @m.safetensors`, `push fc1.w
 * @m.safetensors`. Arrays and keys belong together by name; an integer key is called as it is
 * written. */
#ifndef FILES_NAMED_H
#define FILES_NAMED_H

#include "checkpoint/checkpoint.h"
#include "eval/eval.h"

/* Opens a file of named arrays, "-" for stdin: of a store's own file the weights, of codes the
 * numbers (checkpoint/tensor_values.h). Errors: those of both. */
int named_open(const char *path, checkpoint **out, kv_err *e);

/* The same for a part of a file that ends as those of PyTorch do. *out is NULL for other files, and
 * where only the file has an array of this name. *one: the part is one tensor. Errors also: name
 * (there is no such part), unsupported (another tool wrote the file). */
int named_open_part(const char *path, const char *part, checkpoint **out, bool *one, kv_err *e);

/* Returns true if KEYS are one pattern, such as * or conv*. */
bool named_is_pattern(const ast *keys);

/* The keys for those arrays of f whose names match the pattern KEYS, in the order of the file. They
 * are integers when all of these names are and the store in use holds no text keys. Errors: key
 * (nothing matches), value (a name that no key can have). */
int named_keys(session *s, const ast *keys, const checkpoint *f, key_list *out, kv_err *e);

/* The number of the array of this name, or -1: those too that are scales of another one, which no
 * pattern chooses. */
int64_t named_find(const checkpoint *f, const char *name);

/* Array i of f. Errors: those of checkpoint_load; dtype (it is codes, whose scales are other
 * arrays: checkpoint/scales.h). */
int named_load(kv_array **out, const checkpoint *f, int64_t i, kv_err *e);

/* Counts tensor i (-1: none) if it is read as F8 numbers, and says how many are if other tensors of
 * the file have scales: theirs stand in another file. */
typedef struct bare_codes {
    int64_t n;
    const char *name; /* of the first one; f's */
    const checkpoint *f;
} bare_codes;
void bare_codes_count(bare_codes *b, const checkpoint *f, int64_t i);
void bare_codes_tell(session *s, const bare_codes *b);

/* The array of f for a key. Errors: name (there is none), those of named_load. */
int named_array(kv_array **out, const checkpoint *f, kv_key key, kv_err *e);

/* Takes the texts of f that are of other tools, such as `format: pt`, over into the store; those
 * that it has stay. Error: memory. */
int named_metadata(kv *store, const checkpoint *f, kv_err *e);

#endif
