/* Expressions that are texts. */
#ifndef EVAL_EVAL_TEXT_H
#define EVAL_EVAL_TEXT_H

#include "lang/ast.h"
#include "session/session.h"

/* The value of an AST_FTEXT. */
int eval_ftext(session *s, const ast *node, value *out, kv_err *e);

/* Appends v as the field of an f-string does. how: 'r' or 's' of {v!r}, or 0. format: what stands
 * behind the colon, or NULL. Errors: dtype, value. */
int text_put_field(session *s, buf *out, value v, char how, const char *format, kv_err *e);

#endif
