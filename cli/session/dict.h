/* Dicts: values by keys, in the order in which the keys came. A dict is an object as a list is, and
 * like one it never holds itself. Its box is a value_list: key, value, key, value, …
 */
#ifndef SESSION_DICT_H
#define SESSION_DICT_H

#include "session/value.h"

/* An empty one. */
int dict_new(value *out, kv_err *e);

/* The number of keys. */
int64_t dict_count(value dict);

/* Closes the gaps that keys leave that are taken out: whoever reads the items of the box calls it
 * first. A dict does it by itself when half of its pairs are gaps, so that taking out all keys one
 * by one is linear. */
void dict_settle(value dict);

/* The value of a key, NULL when there is none; valid until the dict changes. Error: dtype (only
 * texts and whole numbers are keys). */
int dict_find(value dict, value key, const value **out, kv_err *e);

/* Gives a key a value; a new key comes last. Errors: dtype, value (the dict would hold itself). */
int dict_set(value dict, value key, value v, kv_err *e);

/* Gives the keys of another dict, or the pairs of a list, their values. Errors: as above. */
int dict_update(value dict, value from, kv_err *e);

/* Takes a key out: its value becomes *out. *found is false when there is no such key. */
int dict_take(value dict, value key, value *out, bool *found, kv_err *e);

/* Another dict with the same keys and values. */
int dict_copy(value *out, value dict, kv_err *e);

/* Takes all keys out. */
void dict_clear(value dict);

/* A list of the keys (from 0), of the values (from 1). */
int dict_column(value dict, int from, value *out, kv_err *e);

/* A list of tuples (key, value). */
int dict_pairs(value dict, value *out, kv_err *e);

/* The error for a key that is not there: key, with the keys that are like it. */
int dict_no_key(value dict, value key, kv_err *e);

#endif
