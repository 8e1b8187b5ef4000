/* The words of a command that launch runs, and the same as a shell reads them. */
#ifndef LAUNCH_LAUNCH_COMMAND_H
#define LAUNCH_LAUNCH_COMMAND_H

#include "base/buf.h"

/* All zero is an empty one. Adding cannot fail at the place of the call: launch_command_check says
 * whether a word was lost. */
typedef struct launch_command {
    char **words; /* n of them, owned, and NULL behind them */
    int64_t n, cap;
    bool failed;
} launch_command;

void launch_add(launch_command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void launch_add_words(launch_command *c, char *const *words, int n);

/* A template is a text with holes: {name} is the value of the hole, {'name} the value in quotes
 * where a shell needs them, and [ ... {name} ... ] is left out when its first hole is NULL. */
typedef struct launch_hole {
    const char *name, *value;
} launch_hole;

/* Appends a template; holes end with one that has no name. */
void launch_fill(buf *out, const char *text, const launch_hole *holes);
/* Adds the words of a template, which its blanks part; values with blanks stay whole. */
void launch_add_filled(launch_command *c, const char *text, const launch_hole *holes);

int launch_command_check(const launch_command *c, kv_err *e);
void launch_command_release(launch_command *c);

/* Appends a word in quotes where a shell needs them. */
void launch_quote(buf *out, const char *word);
void launch_command_text(buf *out, const launch_command *c);

/* The same for a terminal, from which it may be pasted into bash, ksh or zsh: a word with what must
 * not be shown as it is (see buf.h) is written $'\033[31m'. */
void launch_show_word(buf *out, const char *word);
void launch_show_command(buf *out, const launch_command *c);

/* "2.500"; text. */
const char *launch_seconds(char text[32], double seconds);

/* The path of this program. Error: io. */
int launch_self(char path[4096], kv_err *e);

/* Checks that $PATH has the program. Error: unsupported, with the package that has it. */
int launch_find(const char *program, const char *package, kv_err *e);

#endif
