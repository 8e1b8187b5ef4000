/* Functions of the script: what `def` makes, and their calls. */
#ifndef EVAL_EVAL_DEF_H
#define EVAL_EVAL_DEF_H

#include "lang/ast.h"
#include "session/object.h"
#include "session/session.h"
#include "session/unit.h"

/* The values that a call gives to parameters, n of them; names[i] is NULL for one by its place. */
typedef struct call_values {
    const value *items;
    const char *const *names;
    int64_t n;
} call_values;

/* Runs a STMT_DEF: evaluates the defaults. Errors: unsupported (it reads variables of the function
 * around it), those of the defaults. */
int eval_def(session *s, const ast *node, def_values **out, kv_err *e);

/* Calls a function. node: the call. Errors: usage (the arguments do not fit), those of its body. */
int eval_call_definition(session *s, const definition *d, const ast *node, const call_values *given,
                         value *out, kv_err *e);

#endif
