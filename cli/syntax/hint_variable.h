/* A hint for a word that was meant as a variable. */
#ifndef SYNTAX_HINT_VARIABLE_H
#define SYNTAX_HINT_VARIABLE_H

#include "lang/ast.h"
#include "lang/source.h"

/* Adds a hint at $name to the error e of the command call in src, when a bare word of it is the
 * name of a variable. At the place of the error it says more than another hint. */
void hint_variable(const source *src, const ast *call,
                   bool (*is_variable)(void *arg, const char *name), void *arg, kv_err *e);

#endif
