/* Keys whose values stand in files under their names: `init * @m/`, `push * @a.npz @b.npz`. Of
 * several files each gives every key one value. */
#ifndef CMD_VALUE_FILES_H
#define CMD_VALUE_FILES_H

#include "checkpoint/checkpoint.h"
#include "cmd/pairs.h"

typedef struct value_files {
    checkpoint **files;
    int64_t n; /* 0: VALUES are something else */
} value_files;

/* Opens the files of VALUES if all of these are files of named arrays, and KEYS are a pattern or
 * more than one array stands in each. Errors: those of checkpoint_open, with their place. */
int value_files_open(value_files *f, session *s, const ast *call, kv_err *e);
void value_files_close(value_files *f);

/* The keys of the call: those that KEYS name, or for a pattern those of the first file that match.
 * Checks that every file has all of them, and no other name that matches. init: there is one file,
 * and a pattern makes keys; else the store has to have them. Errors: key, name, value, usage. */
int value_files_keys(const value_files *f, session *s, const ast *call, kv *store, bool init,
                     key_list *keys, kv_err *e);

/* Adds the values of keys from..to. Errors: memory, io, dtype, format. */
int value_files_pairs(const value_files *f, const key_list *keys, int64_t from, int64_t to,
                      pairs *p, kv_err *e);

/* Where a run of keys from `from` on ends whose values are about so large that memory holds them
 * well: one key at least. */
int64_t value_files_batch(const value_files *f, const key_list *keys, int64_t from);

/* The first key whose call would fail, or -1: a file lacks it; init, it is there already; else its
 * shape in a file differs. */
int64_t value_files_misfit(const value_files *f, kv *store, const key_list *keys, bool init);

#endif
