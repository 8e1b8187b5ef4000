/* A hint for functions and names of NumPy and PyTorch that are written otherwise here. */
#ifndef SYNTAX_HINT_FUNCTION_H
#define SYNTAX_HINT_FUNCTION_H

#include <stdbool.h>

#include "kv_err.h"

/* Adds a hint to e when the name is such a function. Returns whether it is. */
bool hint_function(const char *name, kv_err *e);

/* Adds a hint to e when the name, of a variable that is not there, is one of a dtype or a module.
 * Returns whether it is. */
bool hint_name(const char *name, kv_err *e);

#endif
