/* Statements that begin with a keyword. */
#ifndef SYNTAX_PARSE_CONTROL_H
#define SYNTAX_PARSE_CONTROL_H

#include "lang/parse.h"

/* Parses the statement whose keyword is next. *known is false when no keyword is next; then the
 * result is NULL, without an error. */
ast *parse_control(parser *p, bool *known);

/* The i-th keyword, from 0, and what follows it, "" for nothing; NULL behind the last. */
const char *statement_keyword(int i, const char **rest);

#endif
