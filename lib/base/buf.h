/* A growable text, and texts whose characters act on no terminal. All zero is an empty text.
 *
 * Adding cannot fail at the place of the call: when memory runs out the buffer remembers it,
 * ignores what follows, and buf_check() reports it. data is NULL or ends in a NUL that len does not
 * count.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mem.h"

typedef struct buf {
    char *data;
    size_t len, cap;
    bool failed;
} buf;

void buf_put(buf *b, const char *text, size_t n);
void buf_add(buf *b, const char *text);
void buf_char(buf *b, char c);
void buf_repeat(buf *b, char c, int64_t n);
/* Room for n more bytes behind the text, to be written by the caller, who then says how many were;
 * NULL after a failure. What was not announced with buf_grew is lost. */
char *buf_room(buf *b, size_t n);
void buf_grew(buf *b, size_t n);
/* printf's format, without floating-point conversions (they follow the locale). */
void buf_printf(buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(buf *b, const char *fmt, va_list ap);

/* The text, "" for an empty buffer. Borrowed until the next change. */
const char *buf_text(const buf *b);

/* KV_OK, or KV_E_MEMORY when an addition was lost. */
int buf_check(const buf *b, kv_err *e);

void buf_clear(buf *b);   /* empty again, keeps its memory */
void buf_release(buf *b); /* gives the memory back */
#define own_buf OWN(buf_release) buf

/* Text that may reach a terminal: names and contents of files must not move its cursor, change its
 * state or the order of what it shows. Control characters (C0, DEL, C1), embeddings, overrides and
 * isolates of bidirectional text, line and paragraph separators, and bytes that are not UTF-8 are
 * shown by their numbers: \x1b, \u{9b}, \u{202e}. */

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
