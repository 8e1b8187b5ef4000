/* Two texts line by line, for people. */
#ifndef OUT_DIFF_H
#define OUT_DIFF_H

#include "base/buf.h"

/* Drops blanks at the ends of lines, and blanks and newlines at the end of the text: what a reader
 * cannot see. */
void diff_normalise(buf *text);

/* Appends a line for each line of both texts: "  " before what they share, "- " before what only
 * `expected` has, "+ " before what only `got` has. Of long runs that are equal, only the lines
 * next to a difference are shown; control characters are made visible. */
void diff_lines(buf *out, const char *expected, const char *got);

#endif
