/* Options: --name [=] [value]. */
#ifndef SYNTAX_PARSE_OPTION_H
#define SYNTAX_PARSE_OPTION_H

#include "lang/parse.h"
#include "syntax/bind.h"

/* The option that is next: STMT_OPTION with its value, if it has one. A parameter of a rule that is
 * not known yet may have two: an expression, and a word. */
ast *parse_option(parser *p, binding *b);

/* Returns true at an option; for completion also at dashes alone that end at the cursor. */
bool parse_at_option(parser *p);

/* The end of a run of dashes, letters and digits. */
uint32_t parse_option_end(const parser *p, uint32_t pos);

#endif
