/* Optimizers and schedules of MXNet as values: opt = mx.optimizer.SGD(learning_rate=0.1), opt.lr,
 * kv.set_optimizer(opt). */
#ifndef EVAL_OPTIMIZER_VALUE_H
#define EVAL_OPTIMIZER_VALUE_H

#include "eval/rule_variables.h"
#include "lang/ast.h"

/* The value of a parameter as the library takes it: of a scalar, an array of one element, a
 * schedule or a dict. Error: dtype. */
int optimizer_param_text(value *out, value v, kv_err *e);

/* Adds the parameters of an optimizer. Errors: usage (too many), dtype. */
int optimizer_params_add(rule_params *p, value object, kv_err *e);

/* Returns true if a call, which names no function, makes an optimizer or a schedule or asks for a
 * part of one. */
bool optimizer_value_takes(const ast *call, const value *args, int64_t n);

/* Its value. names[i] is NULL for a positional argument. Errors: usage, and those of the optimizer,
 * which is tried in a store of its own. */
int optimizer_value_call(const ast *call, const value *args, const char *const *names, int64_t n,
                         value *out, kv_err *e);

#endif
