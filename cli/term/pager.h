/* The pager: results at the prompt that are longer than the screen go through it.
 *
 * $PAGER, a line for the shell; an empty one or `cat` is none. Where it is not set, less -FRX.
 * There is one screen a process, so whether it is used is global.
 */
#ifndef TERM_PAGER_H
#define TERM_PAGER_H

#include <stdbool.h>
#include <stddef.h>

/* Allows or forbids that results are paged, which is allowed at the prompt alone. */
void pager_allow(bool allowed);

/* Makes the pager begin at the end of a text, or at its begin. */
void pager_from_end(bool from_end);

/* Shows a text through the pager and waits until the user leaves it. Returns false when that is not
 * wanted (it is allowed nowhere, there is no terminal, the text fits the screen) or not possible:
 * then nothing was shown. */
bool pager_show(const char *text, size_t n);

#endif
