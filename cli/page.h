/* A page, pasted or typed at the prompt: entries with their prompts, and between them their
 * outputs. */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Returns true if the text is a page: its first line has a prompt. Reports of errors may stand
 * before it. */
bool page_is(const char *text, size_t n);

/* The bytes of the first entry of a page, with its output: up to the next line with the prompt of
 * an entry, unless the entry is not complete there. */
size_t page_entry(const char *text, size_t n);

/* Appends those lines of an entry that have a prompt, with it. */
void page_prompts(buf *out, const char *text, size_t n);

/* The bytes of the lines that text begins with and that stand in `shown` as well. Blanks do not
 * count: NumPy has printed `[ 2.  2.]` and `[2. 2.]`. */
size_t page_shown(const char *text, size_t n, const buf *shown);

/* Returns true if a text that cannot be read holds more than one entry: its first is complete
 * before it ends. */
bool page_has_several(const char *text, size_t n);

#endif
