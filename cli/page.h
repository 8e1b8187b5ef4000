/* What is pasted at the prompt, or typed from a page: entries with their prompts, and between them
 * what they print there. */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Whether a text is a page: its first line has a prompt. Reports of errors may stand before it. */
bool page_is(const char *text, size_t n);

/* The bytes of the first entry of a page, with what it prints there: up to the next line with the
 * prompt of an entry, unless what began before is open there. */
size_t page_entry(const char *text, size_t n);

/* Appends those lines of an entry that have a prompt, with it. */
void page_prompts(buf *out, const char *text, size_t n);

/* The bytes of the lines that text begins with and that stand in `shown` as well. Blanks do not
 * count: NumPy has printed `[ 2.  2.]` and `[2. 2.]`. */
size_t page_shown(const char *text, size_t n, const buf *shown);

/* Whether a text that cannot be read holds more than one entry: its first is complete before it
 * ends. */
bool page_has_several(const char *text, size_t n);

#endif
