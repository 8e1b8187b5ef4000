/* The operations of lists and tuples, as in Python: join, repeat, grow, compare. And the values of
 * a list whose length is not known yet. */
#ifndef SESSION_LIST_H
#define SESSION_LIST_H

#include "lang/ast.h"
#include "session/value.h"

/* A new sequence of a's kind: the items of a, then those of b. */
int list_join(value *out, value a, value b, kv_err *e);
/* A new sequence that holds the items of v `times` times; 0 or less: none. Errors: value, memory.
 */
int list_repeat(value *out, value v, int64_t times, kv_err *e);

/* from, from + step, …: n integers, which do not overflow. */
int list_range(value *out, int64_t from, int64_t step, int64_t n, kv_err *e);

/* These change the list itself, so that every name of it sees the change. Errors: value (the list
 * would hold itself), memory; the list is unchanged then. */
int list_append(value list, value item, kv_err *e);
int list_extend(value list, value from,
                kv_err *e); /* from: a list or tuple, also the list itself */
int list_set(value list, int64_t i, value item, kv_err *e); /* 0 <= i < n */
/* Puts the items of `from` in the place of the n items that begin at i. */
int list_splice(value list, int64_t i, int64_t n, value from, kv_err *e);

/* *holds becomes the result of `a op b`, op being one of OP_EQ … OP_GE: the first two items that
 * are not equal decide; for the comparisons by order a and b are sequences of one kind. Errors:
 * dtype (items that cannot be compared, as an array of several elements), value (nested too
 * deep). */
int list_compare(ast_op op, value a, value b, bool *holds, kv_err *e);

/* *less becomes a < b, for items of lists. Errors: as above. */
int list_less_item(value a, value b, bool *less, kv_err *e);

/* *out becomes whether two items of lists are equal. Errors: as above. */
int list_same_item(value a, value b, bool *out, kv_err *e);

/* *holds becomes whether an item of the list or tuple is equal to x. Errors: as above. */
int list_holds(value list, value x, bool *holds, kv_err *e);

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

/* A list of the same values. */
int value_stack_list(const value_stack *s, value *out, kv_err *e);

void value_stack_release(value_stack *s);

#endif
