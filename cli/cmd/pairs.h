/* Keys with arrays, as the store's calls take them, and the arrays that they fill. */
#pragma once

#include "checkpoint/checkpoint.h"
#include "eval/eval.h"
#include "session/result.h"

/* ---- Keys with arrays ---- */

/* The pairs of a call: keys[i] with arrays[i]. A call with few pairs needs no memory.
 * All zero is none. */
typedef struct pairs {
    kv_key *keys;
    kv_array **arrays;
    const ast **nodes; /* where each stands: the item of a list that is written out */
    const ast *node;   /* of the pairs that are added next */
    int64_t n, cap;
    bool in_place;        /* they are filled, too */
    bool since;           /* only with elements that changed: for explain */
    int64_t first, twice; /* two that are one array for different keys; twice 0: none */
    arena memory;         /* of more than 8 */
    kv_key small_keys[8];
    kv_array *small_arrays[8];
    const ast *small_nodes[8];
} pairs;

void pairs_release(pairs *p);
#define own_pairs OWN(pairs_release) pairs

/* Adds a pair; takes a, also on failure. Error: memory. */
int pairs_add(pairs *p, kv_key key, kv_array *a, kv_err *e);

/* Adds an array that is filled, with elements of its own. Errors: memory, those of value_own. */
int pairs_fill(pairs *p, kv_key key, value array, kv_err *e);

/* The node of item i of the sequence v that node gives: the item where it is written out. */
const ast *pairs_item(const ast *node, value v, int64_t i);

/* The node of the first array whose shape is not its key's, or where a key is new that of its first
 * array; NULL: all fit. */
const ast *pairs_misfit(const pairs *p, kv *store);

/* Warns of two keys that fill one array of node. */
void pairs_warn_twice(const pairs *p, session *s, const ast *node);

/* Returns true if something else refers to an array of v: filling it is seen. held: something
 * refers to what holds v. */
bool pairs_are_held(value v, bool held);

/* Adds the arrays of an --out: for one key an array or a list of them, for a list of keys a list of
 * those. Errors: name, dtype, value, usage (an array that nothing refers to), memory, with the
 * place of the option. */
int pairs_into(pairs *p, session *s, const ast *node, const key_list *keys, kv_err *e);

/* Adds new arrays of the form that info has, for key number i of the result: one on the context, or
 * one on each of a list of them; they are the result's value, too. sparse: row_sparse ones without
 * rows. Errors: memory, unsupported. */
int pairs_new(pairs *p, const kv_info *info, value where, bool sparse, result *out, int64_t i,
              kv_err *e);

/* The arrays that a pull fills: those of --out, else new ones, on --ctx. sparse: as in pairs_new.
 * Errors: usage (both options), those of pairs_into, eval_contexts and kv_await_key. */
int pairs_outs(pairs *p, session *s, kv *store, const ast *call, const key_list *keys, bool sparse,
               result *out, kv_err *e);

/* Gives an error that concerns a text key "did you mean" among those of the store: names that are
 * close, else those that begin with it. */
void pairs_suggest(kv *store, kv_err *e);

/* Gives the names of a command's keys to its result, in which none stand yet, and the keys to its
 * record. Error: memory. */
int command_keys(session *s, key_list *keys, result *out, kv_err *e);

/* The value of --priority, 0 when it was not given. Errors: dtype, value (out of int range). */
int command_priority(session *s, const ast *call, kv_call *out, kv_err *e);

/* ---- Files as values of keys ---- */

/* Keys whose values stand in files under their names: `init * @m/`, `push * @a.npz @b.npz`. Of
 * several files each gives every key one value. */

typedef struct value_files {
    checkpoint **files;
    int64_t n; /* 0: VALUES are something else */
} value_files;

/* Opens the files of VALUES if all of these are files of named arrays, and KEYS are a pattern or
 * more than one array stands in each. f begins zeroed, and is closed after an error, too. Errors:
 * those of checkpoint_open, with their place. */
int value_files_open(value_files *f, session *s, const ast *call, kv_err *e);
void value_files_close(value_files *f);
#define own_value_files OWN(value_files_close) value_files

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
