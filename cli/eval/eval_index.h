/* Parts of arrays are copies; in NumPy they are views. What changes one in place says so, once. */
#ifndef EVAL_EVAL_INDEX_H
#define EVAL_EVAL_INDEX_H

#include "lang/ast.h"
#include "session/session.h"

/* The same for all arrays in the result of a call, whose arguments are n wholes. */
void eval_mark_parts(session *s, const ast *node, const value *wholes, int64_t n, value parts);
/* The same for a row that is taken out of the value of node. */
void eval_mark_row(session *s, const ast *node, value whole, value row);

/* Warns before v, the value of node, is changed in place, where it holds such parts. */
void eval_warn_parts(session *s, const ast *node, value v);

#endif
