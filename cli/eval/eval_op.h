/* One element operation over whole arrays, for functions that are made of several. Shapes broadcast
 * and dtypes are as in expressions (vm/expr.h). */
#ifndef EVAL_EVAL_OP_H
#define EVAL_EVAL_OP_H

#include "kv_array.h"
#include "lang/ast.h"
#include "vm/host.h"

/* a op b */
int eval_op_binary(kv_array **out, ast_op op, kv_array *a, kv_array *b, kv_err *e);

/* a op number */
int eval_op_number(kv_array **out, ast_op op, kv_array *a, host number, kv_err *e);

/* function(a), or function(a, low, high) where bounds is not NULL. */
int eval_op_call(kv_array **out, const char *function, kv_array *a, const int64_t *bounds,
                 kv_err *e);

#endif
