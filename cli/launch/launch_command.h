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
int launch_command_check(const launch_command *c, kv_err *e);
void launch_command_release(launch_command *c);

/* Appends a word in quotes where a shell needs them. */
void launch_quote(buf *out, const char *word);
void launch_command_text(buf *out, const launch_command *c);

/* Whether $PATH has the program; if not an error that says which package has it: unsupported. */
int launch_find(const char *program, const char *package, kv_err *e);

#endif
