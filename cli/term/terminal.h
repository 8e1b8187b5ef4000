/* The terminal: the one place that decides about colour, progress bars and paging, and that knows
 * the size of the screen.
 *
 * auto means: only when the stream is a terminal. A non-empty NO_COLOR turns colour off, TERM=dumb
 * all three; what an option says wins over both. There is one terminal a process, so what was
 * chosen is kept here.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
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

/* ---- The pager ---- */

/* The pager: results at the prompt that are longer than the screen go through it.
 *
 * $PAGER, a line for the shell; an empty one or `cat` is none. Where it is not set, less -FRX.
 * There is one screen a process, so whether it is used is global.
 */

/* Allows or forbids that results are paged, which is allowed only at the prompt. */
void pager_allow(bool allowed);

/* Makes the pager begin at the end of a text, or at its begin. */
void pager_from_end(bool from_end);

/* Shows a text through the pager and waits until the user leaves it. Returns false when that is not
 * wanted (it is allowed nowhere, there is no terminal, the text fits the screen) or not possible:
 * then nothing was shown. */
bool pager_show(const char *text, size_t n);

/* ---- Progress ---- */

/* The progress of work that takes longer than a second: one line on stderr, drawn at most ten times
 * a second and erased at the end, `load [=====>    ] 52% of 8.5 GB  1.1 GB/s  ETA 0:04`.
 *
 * The worker calls begin, step as often as it likes, and end; where nothing is to be shown these
 * cost next to nothing. Work within work is not shown: the line is that of the outermost. Without a
 * terminal, when progress was asked for all the same, a plain line comes each ten seconds. There is
 * one line a process, so its state is global.
 */

typedef enum progress_unit { PROGRESS_BYTES, PROGRESS_TIMES } progress_unit;

/* what: one word, borrowed until progress_end. total: of bytes or times, 0 when it is not known. */
void progress_begin(const char *what, int64_t total, progress_unit unit);

/* So much is done, counted from the beginning. */
void progress_step(int64_t done);

/* The same in bytes, for work that tells at each step how many there are in all; begin with
 * total 0. A callback for walk_run and its like: arg is not used, and one thread at a time
 * calls. */
void progress_bytes(void *arg, int64_t done, int64_t all);

/* Each begin has one end, also when the work failed. */
void progress_end(void);

/* Erases the line before something else is written to fd, if that is a terminal too. A later step
 * draws it again. */
void progress_hide(int fd);

/* Appends the line as it is drawn into `columns` columns, what is least needed left out where there
 * is no room; 0: all of it but the bar. seconds: since the begin. */
void progress_line(buf *out, const char *what, int64_t done, int64_t total, progress_unit unit,
                   double seconds, int columns);

/* ---- Exit statuses ---- */

/* Exit codes, by what a caller can do about it. */
typedef enum exit_code {
    EXIT_DONE = 0,
    EXIT_NO = 1,           /* the answer is no: assert, expect, --verify, -e */
    EXIT_NOT_UNDERSTOOD = 2,
    EXIT_FAILED = 3,       /* a command failed */
    EXIT_UNSUPPORTED = 4,  /* not in this build, on this machine or for this store type */
    EXIT_IO = 5,           /* reading or writing failed, or a file is malformed */
    EXIT_PEER = 6,         /* a lock was not free, time-out, another rank is lost */
    EXIT_BUG = 70,
    EXIT_SIGINT = 130,
    EXIT_SIGTERM = 143
} exit_code;

/* The exit code of a kv_code. */
exit_code exit_code_of_error(int code);

/* For words of kvctl's own, which have no session, and where memory for more is missing: says the
 * error as report_text does, without lines of a script; or writes a text to stdout. Return the exit
 * code. */
int terminal_fail(const kv_err *e);
int terminal_show(void (*make)(buf *out));

/* From now on a failed assertion (base/kv_assert.h) ends the process at once: its report goes to
 * stderr and the exit code is 70. Nothing is saved, because what is in memory may be wrong. */
void bug_ends_process(void);
