/* sum, any, all, max and min of lists and numbers, as Python has them: of arrays they are
 * reductions (func_reduce.c). */
#ifndef EVAL_LIST_REDUCE_H
#define EVAL_LIST_REDUCE_H

#include "syntax/function.h"

/* Returns true if the arguments hold no array and ask for no axis or dtype. A list of lists is no
 * plain one for a sum: NumPy adds all its numbers, Python refuses it. */
bool list_is_plain(const function_args *args);

int list_sum(function_args *args, value *out, kv_err *e);
int list_any(function_args *args, value *out, kv_err *e);
int list_all(function_args *args, value *out, kv_err *e);
int list_extreme(function_args *args, bool largest, value *out, kv_err *e);

#endif
