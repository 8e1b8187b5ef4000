/* import and from of Python, and npx.set_np(): all that they bring is built in, so they do nothing,
 * but what is no such statement is an error. */
#ifndef SYNTAX_PARSE_IMPORT_H
#define SYNTAX_PARSE_IMPORT_H

#include "lang/parse.h"

/* Returns true if such a statement is next. */
bool parse_at_import(parser *p);

/* Parses it, to a block that holds nothing. Errors: unsupported (a module that is neither MXNet's
 * nor NumPy's), syntax. */
ast *parse_import(parser *p);

#endif
