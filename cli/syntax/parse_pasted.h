/* The first lines of pages in other languages: the class of a store type in Python, and Perl. */
#ifndef SYNTAX_PARSE_PASTED_H
#define SYNTAX_PARSE_PASTED_H

#include "lang/parse.h"

/* Returns true if `@mx.kvstore.KVStoreBase.register` stands at the `@` that is next. */
bool parse_at_class(parser *p);

/* That line and `class NAME(KVStoreBase): pass` below it: the command `register NAME`. */
ast *parse_class(parser *p);

/* Hints how a statement that could not be read is written here, when it looks like Perl. pos: where
 * it begins. */
void parse_hint_perl(parser *p, uint32_t pos);

#endif
