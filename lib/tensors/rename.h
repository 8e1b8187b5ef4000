/* New names by substitution: s/RE/TO/, as sed -E has it. */
#ifndef TENSORS_RENAME_H
#define TENSORS_RENAME_H

#include "base/buf.h"

typedef struct renaming renaming;

/* Reads `s/RE/TO/`: the first match of RE in a name becomes TO, with g behind it every match. RE is
 * a POSIX extended regular expression. In TO, \1 to \9 are what its groups matched, & and \0 the
 * whole match; a backslash before any other character, & too, means that character. Any ASCII
 * character but the backslash can stand for /, and is written with a backslash before it within RE
 * and TO. Errors: usage (with the reason of the regular expression), memory. */
int renaming_new(renaming **out, const char *text, kv_err *e);
void renaming_free(renaming *r); /* NULL is allowed */

/* Appends what becomes of a name, which may be the name itself. Error: memory. */
int renaming_apply(const renaming *r, const char *name, buf *out, kv_err *e);

#endif
