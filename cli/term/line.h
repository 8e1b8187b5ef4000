/* One line from the user: with editing, history and completion when stdin is a terminal and this
 * build has Readline, else as it comes.
 *
 * Readline knows one user, so there is one reader a process, and what hangs from it is global.
 * Nobody outside line.c needs to know that Readline exists.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define LINE_HISTORY_MAX 65536

typedef enum line_result {
    LINE_READ,       /* a line, which may be empty */
    LINE_END,        /* the end of the input, or Ctrl-D on an empty line */
    LINE_INTERRUPTED /* Ctrl-C or SIGTERM, as interrupt_pending() says; the line so far */
} line_result;

/* Candidates for the word that is being completed; all zero is none. */
typedef struct line_words {
    char **words;
    int64_t n, cap;
    size_t start; /* where the word begins in the text; it reaches to the end of the text */
    bool files;   /* names of files: a list shows the last part of each */
    bool joined;  /* nothing follows the word: no blank behind it */
} line_words;

/* Adds a candidate when it begins with `typed`. A candidate that ends in one of ( = . / is not
 * followed by a blank when it is taken. What no memory is left for is not offered. */
void line_offer(line_words *to, const char *candidate, const char *typed);

/* Adds a candidate that takes the place of the word, whatever was typed. */
void line_offer_instead(line_words *to, const char *candidate);

void line_words_release(line_words *words);

struct repl_ops;

/* Returns true if this build has GNU Readline, which also decides its licence. */
bool line_can_edit(void);

/* Begins. ops says what may stand at the cursor, and looks on; arg is handed to it. terminal: stdin
 * is one: prompt and edit. history: file of former entries, "" for none; one that cannot be read or
 * written is an io error, but lines can be read. */
int line_open(const struct repl_ops *ops, void *arg, bool terminal, const char *history,
              kv_err *e);

/* Reads a line into `line`, without its newline. A pasted text comes as one line that holds
 * newlines, and nothing of it is lost however large it is. The prompt goes to stderr, and only when
 * there is a terminal. */
line_result line_read(const char *prompt, buf *line);

/* Why the input ended before its end: the number of the error that reading it met. 0: that was its
 * end, or it is a terminal. Until line_close. */
int line_error(void);

/* The text of the entry so far, of which the next line is a continuation; nothing begins a new one.
 * Completion and hints see it before the line. Borrowed until the next call. */
void line_context(const char *text, size_t n);

/* Takes a line that is edited off the screen: other text comes, below which it is shown again. */
void line_leave(void);

/* Gives the terminal its usual manners back, before someone else reads from it. Between two lines
 * that were typed or pasted at once it stays as it is for editing, so that nothing gets lost. */
void line_lend_terminal(void);

/* Adds an entry to the history; one that begins with a blank is not kept, nor one larger than
 * LINE_HISTORY_MAX bytes: it could not be edited.
 * Errors: io when the file cannot be written; after that only this process remembers. */
int line_remember(const char *entry, kv_err *e);

void line_close(void);
