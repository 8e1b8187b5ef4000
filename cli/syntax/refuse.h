/* Words of Python that this language has not. Each is refused with what to write instead. */
#ifndef SYNTAX_REFUSE_H
#define SYNTAX_REFUSE_H

#include "lang/parse.h"

/* Refuses a statement of Python that the language does not have; true after that error. */
bool refuse_statement(parser *p);

/* Returns true after an error: a lambda stands where an updater is wanted. */
bool refuse_lambda(parser *p);

/* Returns true after an error: the name that is next is that of a module which is neither MXNet's
 * nor NumPy's. */
bool refuse_module(parser *p);

/* Adds a hint to e when the name is that of a module of Python whose work functions do here.
 * Returns whether it is. */
bool hint_module(const char *name, kv_err *e);

#endif
