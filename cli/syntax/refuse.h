/* Words of Python that this language has not. Each is refused with what to write instead. */
#ifndef SYNTAX_REFUSE_H
#define SYNTAX_REFUSE_H

#include "lang/parse.h"

/* Returns true after an error: a statement of Python begins here that there is not. */
bool refuse_statement(parser *p);

/* Returns true after an error: the `import` or `from` that is next names a module that is neither
 * MXNet's nor NumPy's. */
bool refuse_import(parser *p);

#endif
