/* Names of commands, options and parameters, in which - and _ are the same letter: a word of a
 * command has dashes, a keyword of a call has underscores. */
#ifndef BASE_NAME_H
#define BASE_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Returns true if n bytes of a word are the name. */
bool name_is_word(const char *name, const char *word, size_t n);

/* Appends n bytes of a name with this sign, - or _, for both. */
void name_put(buf *out, const char *name, size_t n, char sign);

#endif
