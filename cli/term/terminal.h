/* The terminal: the one place that decides about colour, progress bars and paging, and that knows
 * the size of the screen.
 *
 * auto means: only when the stream is a terminal. A non-empty NO_COLOR turns colour off, TERM=dumb
 * all three; what an option says wins over both. There is one terminal a process, so what was
 * chosen is kept here.
 */
#ifndef TERM_TERMINAL_H
#define TERM_TERMINAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "kv_err.h"

typedef enum terminal_when { TERMINAL_AUTO, TERMINAL_ALWAYS, TERMINAL_NEVER } terminal_when;

/* The uses that can be switched. */
typedef enum terminal_use { TERMINAL_COLOR, TERMINAL_PROGRESS, TERMINAL_PAGER } terminal_use;
#define TERMINAL_USES 3

void terminal_choose(terminal_use use, terminal_when when);
terminal_when terminal_chosen(terminal_use use);

/* "auto", "always" or "never". what: the option or setting, for the message. Error: usage. */
int terminal_when_parse(terminal_when *out, const char *text, const char *what, kv_err *e);
const char *terminal_when_name(terminal_when when);

/* Returns true if colour and dim text may be written to this file descriptor. */
bool terminal_color(int fd);

/* Returns true if a line that is redrawn may be shown on stderr. With `always` and no terminal
 * there the caller writes plain lines now and then: terminal_width is 0. */
bool terminal_progress(void);

/* Returns true if results longer than the screen go through the pager. Called at the prompt
 * only. */
bool terminal_pager(void);

/* Columns and rows of the terminal behind a file descriptor; 0 when there is none or it does not
 * say. */
int terminal_width(int fd);
int terminal_height(int fd);

/* Clears the screen, where there is one. */
void terminal_clear(void);

/* Writes a line to stderr. Names in it may hold anything: what must not reach a terminal is shown
 * by its number (base/buf.h). */
void terminal_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void terminal_vsay(const char *fmt, va_list ap);

/* Writes lines that another program, another rank or another host has written, to stdout or stderr:
 * as they are, but to a terminal as terminal_say does. The stream tells of errors. */
void terminal_pass(FILE *to, const char *text, size_t n);

#endif
