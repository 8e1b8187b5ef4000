/* The keyboard, byte by byte or in bulk.
 *
 * Bytes of stdin are read as many at a time as there are, so that a paste of megabytes costs no
 * system call a byte, and the line editor can take whole runs of plain text at once.
 *
 * Between keys_begin and keys_end SIGINT and SIGTERM are blocked, except while waiting. Without
 * that a signal that comes between the look at the flag and the wait would be seen only after the
 * next key. There is one keyboard a process, so its state is global.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* ---- The keyboard ---- */

void keys_begin(void);
void keys_end(void);

typedef enum keys_result {
    KEYS_READY, /* keys_next has a byte */
    KEYS_END,   /* stdin has ended */
    KEYS_SIGNAL /* a signal came: look at interrupt_pending and keys_suspended, or the window has
                   another size */
} keys_result;

/* Waits until one of the three is so. */
keys_result keys_wait(void);

/* Returns true if Ctrl-Z was typed since the last call. The caller then gives the terminal back and
 * stops the process. */
bool keys_suspended(void);

/* Returns true if a byte is there, or comes within ms milliseconds. */
bool keys_soon(int ms);

/* Returns true if keys_wait would wait. */
bool keys_quiet(void);

/* Bytes that were read and not yet taken. */
size_t keys_held(void);

/* Takes a byte, waiting for it if need be. -1 at the end, or when SIGINT or SIGTERM came. */
int keys_next(void);

/* The text that keys_next would give next without waiting, up to the first control character other
 * than a tab, and not ending within a character; borrowed until the next call. Returns its length.
 */
size_t keys_text(const char **text);

/* Takes n bytes of it. */
void keys_take(size_t n);

/* Takes everything up to the bytes that end a bracketed paste, which are taken too. Line ends
 * become \n. Returns false when the end or a signal came first: what came is in `out`, but it is
 * not whole.
 */
bool keys_paste(buf *out);

/* Drops what was read and not yet taken: what was typed before a Ctrl-C. */
void keys_forget(void);

/* ---- Pasted texts ---- */

/* Pasted texts that are too large to be edited: the line shows a label in place of each.
 *
 * The line editor redraws a line at every key, so a text of megabytes, or of more lines than the
 * screen has, is kept here, and its label, such as `[pasted 2000 lines, 31 KB]`, can be edited,
 * moved and deleted like a word. When the line is done the labels are replaced. One line is edited
 * at a time, so the texts of that line are global state.
 */

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
