/* Hints for what Python has and this language has not. */
#ifndef SYNTAX_HINT_PYTHON_H
#define SYNTAX_HINT_PYTHON_H

#include <stdbool.h>
#include <stddef.h>

#include "lang/parse.h"

/* Adds a hint to e when the word, n bytes long, begins a statement of Python that is not here.
 * Returns whether it does. */
bool hint_python_word(const char *word, size_t n, kv_err *e);

/* The same for the statement that could not be read, by the line of its error. */
void hint_python(parser *p);

#endif
