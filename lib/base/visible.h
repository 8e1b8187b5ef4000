/* Text that may reach a terminal: names and contents of files must not move its cursor, change its
 * state or the order of what it shows. Control characters (C0, DEL, C1), embeddings, overrides and
 * isolates of bidirectional text, line and paragraph separators, and bytes that are not UTF-8 are
 * shown by their numbers: \x1b, \u{9b}, \u{202e}. */
#ifndef BASE_VISIBLE_H
#define BASE_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define VISIBLE_MAX 12 /* bytes of an escape with its NUL */

/* Looks at the first character of text (n >= 1 bytes), which has *size bytes. Returns whether it
 * must not be shown as it is; out is what is shown in its place then. */
bool visible_escape(char out[VISIBLE_MAX], const char *text, size_t n, size_t *size);

/* Returns true if a text needs no escape. */
bool visible_is_plain(const char *text, size_t n);

/* Appends a text of one line. */
void visible_line(buf *out, const char *text, size_t n);

/* Appends a text of lines; ends of lines and tabs stay. */
void visible_lines(buf *out, const char *text, size_t n);

#endif
