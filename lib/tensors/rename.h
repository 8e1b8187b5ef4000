/* New names by substitution: s/RE/TO/, with the regular expressions of texts. */
#pragma once

#include "base/buf.h"

typedef struct renaming renaming;

/* Reads `s/RE/TO/`: the first match of RE in a name becomes TO, with g behind it every match. RE is
 * a regular expression (base/regexp.h), and TO what regex_replace takes, \1, \g<1>, \g<name>, and &
 * or \g<0> for the whole match; \& is an ampersand. Any ASCII character but the backslash can stand
 * for /, and is written with a backslash before it within RE and TO. Errors: usage (with the reason
 * of the regular expression), memory, unsupported. */
int renaming_new(renaming **out, const char *text, kv_err *e);
void renaming_free(renaming *r); /* NULL is allowed */

/* Appends what becomes of a name, which may be the name itself. *matches (NULL is allowed): 0 where
 * it stays, else 1, or 2 where g would replace more. Errors: memory, value (a limit
 * of the search), interrupted. */
int renaming_apply(renaming *r, const char *name, buf *out, int *matches, kv_err *e);
