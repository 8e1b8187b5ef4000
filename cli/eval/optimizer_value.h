/* Optimizers and schedules of MXNet as values: opt = mx.optimizer.SGD(learning_rate=0.1), opt.lr,
 * kv.set_optimizer(opt). */
#ifndef EVAL_OPTIMIZER_VALUE_H
#define EVAL_OPTIMIZER_VALUE_H

#include "lang/ast.h"
#include "session/session.h"

/* More parameters than any rule has. */
#define OPTIMIZER_OPTS_MAX 64

/* Parameters of a rule as the library takes them: names with texts. Begin with {0}. Names are
 * borrowed. */
typedef struct optimizer_opts {
    kv_opt opts[OPTIMIZER_OPTS_MAX];
    value texts[OPTIMIZER_OPTS_MAX];
    int n;
} optimizer_opts;

/* Adds one with the text of its value. Errors: usage (too many), dtype. */
int optimizer_opts_add(optimizer_opts *o, const char *name, value v, kv_err *e);
/* Adds all of an optimizer. */
int optimizer_opts_object(optimizer_opts *o, value object, kv_err *e);
void optimizer_opts_release(optimizer_opts *o);

/* Returns true if a call, which names no function, makes an optimizer or a schedule or asks for a
 * part of one. */
bool optimizer_value_takes(const ast *call, const value *args, int64_t n);

/* Its value. names[i] is NULL for a positional argument. Errors: usage, and those of the optimizer,
 * which is tried in a store of its own. */
int optimizer_value_call(const ast *call, const value *args, const char *const *names, int64_t n,
                         value *out, kv_err *e);

#endif
