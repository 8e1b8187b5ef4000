/* The call form of commands: kv.push(3, a). */
#ifndef SYNTAX_PARSE_METHOD_H
#define SYNTAX_PARSE_METHOD_H

#include "lang/parse.h"

/* The method of a store, of which the name was taken, with its arguments if a `(` is next. Gives an
 * AST_STORE; NULL without an error when no command has such a method. */
ast *parse_method(parser *p, const ast *store, const token *name);

/* `kv = mx.kv.create('local')` makes a store called kv: the command for it. Any other assignment
 * stays as it is. */
ast *parse_store_made(parser *p, ast *assign);

#endif
