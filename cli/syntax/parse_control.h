/* Statements that begin with a keyword. */
#ifndef SYNTAX_PARSE_CONTROL_H
#define SYNTAX_PARSE_CONTROL_H

#include "lang/parse.h"

/* ---- import, and npx.set_np() ---- */

/* Returns true if such a statement is next. */
bool parse_at_import(parser *p);

/* Parses it, to a block that holds nothing. Errors: unsupported (a module that is neither MXNet's
 * nor NumPy's), syntax. */
ast *parse_import(parser *p);

/* ---- Branches, loops, functions ---- */

/* Parses the statement whose keyword is next. *known is false when no keyword is next; then the
 * result is NULL, without an error. */
ast *parse_control(parser *p, bool *known);

/* The i-th keyword, from 0, and what follows it, "" for nothing; NULL behind the last. */
const char *statement_keyword(int i, const char **rest);

#endif
