/* What lists and tuples can do, as in Python: join, repeat, grow, compare. */
#ifndef SESSION_LIST_H
#define SESSION_LIST_H

#include "lang/ast.h"
#include "session/value.h"

/* A new sequence of a's kind: the items of a, then those of b. */
int list_join(value *out, value a, value b, kv_err *e);
/* A new sequence that holds the items of v `times` times; 0 or less: none. Errors: value, memory.
 */
int list_repeat(value *out, value v, int64_t times, kv_err *e);

/* These change the list itself, so that every name of it sees the change. Errors: value (the list
 * would hold itself), memory; the list is unchanged then. */
int list_append(value list, value item, kv_err *e);
int list_extend(value list, value from,
                kv_err *e); /* from: a list or tuple, also the list itself */
int list_set(value list, int64_t i, value item, kv_err *e); /* 0 <= i < n */
/* Puts the items of `from` in the place of the n items that begin at i. */
int list_splice(value list, int64_t i, int64_t n, value from, kv_err *e);

/* Whether `a op b` holds, op being one of OP_EQ … OP_GE: item by item, the first two items that are
 * not equal decide; for the comparisons by order a and b are sequences of one kind. Errors: dtype
 * (items that cannot be compared, as an array of several elements), value (nested too deep). */
int list_compare(ast_op op, value a, value b, bool *holds, kv_err *e);

#endif
