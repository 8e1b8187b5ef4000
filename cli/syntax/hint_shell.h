/* A hint for words of a shell, which many type at any prompt. */
#ifndef SYNTAX_HINT_SHELL_H
#define SYNTAX_HINT_SHELL_H

#include <stdbool.h>
#include <stddef.h>

#include "kv_err.h"

/* Adds a hint at `!ls` to e when the word, n bytes long, is a usual command of a shell. Returns
 * whether it is one. */
bool hint_shell(const char *word, size_t n, kv_err *e);

/* The same for a statement of n bytes that begins with the path of a program, as ./run.sh does. */
bool hint_shell_path(const char *statement, size_t n, kv_err *e);

#endif
