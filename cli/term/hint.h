/* The dim text behind what is being typed: what is still missing.
 *
 * A hint takes only what is left of the row that the cursor stands in, and the cursor goes back to
 * where it was. So it never wraps or scrolls, and clearing to the end of the screen removes it
 * wherever the line goes on.
 */
#ifndef TERM_HINT_H
#define TERM_HINT_H

#include <stdio.h>

#include "base/buf.h"

/* Draws text behind the cursor, cut to what is left of its row. before: what stands in front of the
 * cursor, from the beginning of a row on; columns: of the screen. Nothing is drawn where the
 * cursor's column is not known, as behind control characters. */
void hint_draw(FILE *out, const char *before, size_t n, int columns, const char *text);

/* Removes it, if there is one; the cursor stands where hint_draw left it. */
void hint_erase(FILE *out);

#endif
