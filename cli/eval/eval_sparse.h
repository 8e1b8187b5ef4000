/* Operators over row_sparse arrays. */
#ifndef EVAL_EVAL_SPARSE_H
#define EVAL_EVAL_SPARSE_H

#include "lang/ast.h"
#include "session/session.h"

bool value_is_sparse(value v);

/* One operator or element-wise function over values of which one at least is row_sparse. As in
 * MXNet the result is row_sparse where rows that are zero stay zero: r * 2, r / 2, -r, abs(r) and
 * its like, r + r and r - r. Any other result holds all rows. */
int sparse_operate(session *s, const ast *node, const value *args, value *out, kv_err *e);

#endif
