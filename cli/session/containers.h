/* Lists, tuples and dicts, with the operations of Python. Dicts keep the order in which the keys
 * came. A list and a dict are objects; the box of a dict is a value_list: key, value, key, value, …
 */
#pragma once

#include "base/map.h"
#include "lang/ast.h"
#include "session/value.h"

/* ---- Lists and tuples ---- */

/* A new sequence of a's kind: the items of a, then those of b. */
int list_join(value *out, value a, value b, kv_err *e);
/* A new sequence that holds the items of v `times` times; 0 or less: none. Errors: value, memory.
 */
int list_repeat(value *out, value v, int64_t times, kv_err *e);

/* from, from + step, … before to, or with it. Error: value (a step of 0; a list that is too long,
 * as one takes 16 bytes an item). */
int list_range(value *out, int64_t from, int64_t to, int64_t step, bool with_to, kv_err *e);

/* These change the list itself, so that every name of it sees the change. Errors: value (the list
 * would hold itself), memory; the list is unchanged then. */
int list_append(value list, value item, kv_err *e);
int list_set(value list, int64_t i, value item, kv_err *e); /* 0 <= i < n */
/* Puts the items of `from`, a list or tuple, also the list itself, in the place of the n items that
 * begin at i. */
int list_splice(value list, int64_t i, int64_t n, value from, kv_err *e);

/* *holds becomes the result of `a op b`, op being one of OP_EQ … OP_GE: the first two items that
 * are not equal decide; for the comparisons by order a and b are sequences of one kind. Errors:
 * dtype (items that cannot be compared, as an array of several elements), value (nested too
 * deep). */
int list_compare(ast_op op, value a, value b, bool *holds, kv_err *e);

/* *holds becomes `a op b` for items of lists, op being a comparison by order. Errors: as above. */
int list_order_items(ast_op op, value a, value b, bool *holds, kv_err *e);

/* *at becomes the place of the first item of the list or tuple, from item `from` on, that is equal
 * to x; -1: none is. Errors: as above. */
int list_find(value list, value x, int64_t from, int64_t *at, kv_err *e);

void list_reverse(value list);

/* Sorts a list; equal items keep their order. Errors: as above; the items are in any order then. */
int list_sort(value list, bool reverse, kv_err *e);

/* All zero is an empty one. The first few need no memory, so it must not be copied. */
typedef struct value_stack {
    value *items;
    int64_t n, cap;
    value small[8];
} value_stack;

/* Adds v, which is taken, also on failure. Errors: memory, interrupted. */
int value_stack_add(value_stack *s, value v, kv_err *e);
/* Adds n bytes of a text; -1: all of it. Errors: the same. */
int value_stack_text(value_stack *s, const char *text, int64_t n, kv_err *e);

void value_stack_release(value_stack *s);
#define own_stack OWN(value_stack_release) value_stack

/* The end of what fills a stack: its values become a list, unless rc is an error, and nothing is
 * left to release. Returns rc, or KV_E_MEMORY. */
int value_stack_take(value *out, value_stack *s, int rc, kv_err *e);

/* ---- Dicts ---- */

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

typedef enum dict_view { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } dict_view;

/* The key or the value of pair i of a dict that is settled, or both in a tuple. */
int dict_pair(value dict, int64_t i, dict_view view, value *out, kv_err *e);

/* A list of them all. */
int dict_list(value dict, dict_view view, value *out, kv_err *e);

/* The error for a key that is not there: key, with the keys that are like it. */
int dict_no_key(value dict, value key, kv_err *e);

/* ---- Values of a def ---- */

typedef struct def_values {
    int64_t refs;
    map assigned; /* its parameters and the names that the function sets, to 0 */
    int64_t n;
    value defaults[]; /* for each parameter; none where it has no default */
} def_values;

void def_values_unref(def_values *d); /* NULL is fine */

/* ---- Objects ---- */

/* Values with a name and named parts that never change: an optimizer of MXNet, such as
 * SGD(momentum=0.9), or a schedule of learning rates. A store and the class that type(x) gives are
 * names without parts, <KVStore local> and <class 'KVStore'>. */

/* Its parts are the arguments of a call (NULL: it has none) from number `from` on, whose values are
 * args; lr of an optimizer is its learning_rate. Takes references of its own. Error: usage (a part
 * is given twice). */
int object_new(value *out, const char *name, const ast *call, const value *args, uint32_t from,
               kv_err *e);
/* A store of this type. */
int object_store(value *out, const char *type, kv_err *e);
/* The class of any value, by the name that Python or MXNet gives it. */
int object_class(value *out, value of, kv_err *e);

const char *object_name(value v);
/* The part of this name, or NULL. */
const value *object_find(value v, const char *name);

bool object_is_optimizer(value v);
bool object_is_schedule(value v);
