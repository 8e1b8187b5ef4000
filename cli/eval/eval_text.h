/* Expressions that are texts. */
#ifndef EVAL_EVAL_TEXT_H
#define EVAL_EVAL_TEXT_H

#include "lang/ast.h"
#include "session/session.h"

/* The value of an AST_FTEXT. */
int eval_ftext(session *s, const ast *node, value *out, kv_err *e);

#endif
