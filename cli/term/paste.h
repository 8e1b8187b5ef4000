/* Pasted texts that are too large to be edited: the line shows a label in place of each.
 *
 * The line editor redraws a line at every key, so a text of megabytes, or of more lines than the
 * screen has, is kept here, and its label, such as `[pasted 2000 lines, 31 KB]`, can be edited,
 * moved and deleted like a word. When the line is done the labels are replaced. One line is edited
 * at a time, so the texts of that line are global state.
 */
#ifndef TERM_PASTE_H
#define TERM_PASTE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Keeps a text. Returns its label, borrowed until paste_forget; NULL when there is no memory. */
const char *paste_keep(const char *text, size_t n);

/* Adds to the text that was kept last, which gets a new label. */
const char *paste_add(const char *text, size_t n);

/* The label of the text that was kept last, NULL for none. */
const char *paste_label(void);

/* Appends the line, its labels replaced by what they stand for. */
void paste_expand(buf *out, const char *line);

/* Returns true if any text is kept. */
bool paste_any(void);

void paste_forget(void);

#endif
