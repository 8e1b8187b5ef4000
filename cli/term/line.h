/* One line from the user: with editing, history and completion when stdin is a terminal and this
 * build has Readline, else as it comes.
 *
 * Readline knows one user, so there is one reader a process, and what hangs from it is global.
 * Nobody outside line.c needs to know that Readline exists.
 */
#ifndef TERM_LINE_H
#define TERM_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

typedef enum line_result {
    LINE_READ,       /* a line, which may be empty */
    LINE_END,        /* the end of the input, or Ctrl-D on an empty line */
    LINE_INTERRUPTED /* Ctrl-C or SIGTERM: interrupt_pending() says which; the line is lost */
} line_result;

/* Candidates for a word that is being completed; all zero is none. */
typedef struct line_words {
    char **words;
    int64_t n, cap;
} line_words;

/* Adds a candidate when it begins with `typed`. A candidate that ends in one of ( = . / is not
 * followed by a blank when it is taken. What no memory is left for is not offered. */
void line_offer(line_words *to, const char *candidate, const char *typed);

/* Offers what may stand for the word that ends the text; it begins at text + at and may be empty.
 */
typedef void line_complete_fn(void *arg, const char *text, size_t at, line_words *out);

typedef struct line_options {
    bool terminal;              /* stdin is one: prompt and edit */
    const char *history;        /* file of former entries, NULL or "" for none */
    line_complete_fn *complete; /* (optional, NULL means no completion) */
    void *arg;                  /* handed to complete */
} line_options;

/* Whether this build has GNU Readline, which also decides its licence. */
bool line_can_edit(void);

/* Begins. A history that cannot be read or written is an io error, but lines can be read. */
int line_open(const line_options *options, kv_err *e);

/* Reads a line into `line`, without its newline. A pasted text comes as one line that holds
 * newlines. The prompt goes to stderr, and only when there is a terminal. */
line_result line_read(const char *prompt, buf *line);

/* The text of the entry so far, of which the next line is a continuation; "" begins a new one.
 * Completion sees it before the line. Borrowed until the next call. */
void line_context(const char *text);

/* Adds an entry to the history; one that begins with a blank is not kept.
 * Errors: io when the file cannot be written; after that only this process remembers. */
int line_remember(const char *entry, kv_err *e);

void line_close(void);

#endif
