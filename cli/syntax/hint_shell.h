/* A hint for words of a shell, which many type at any prompt, and the words of kvctl's own command
 * line. */
#ifndef SYNTAX_HINT_SHELL_H
#define SYNTAX_HINT_SHELL_H

#include <stdbool.h>
#include <stddef.h>

#include "kv_err.h"

/* The words of kvctl's command line that make the process something else than a session, NULL
 * behind the last; main has a function for each. The first ones are for users, the rest for
 * ranks. */
enum { PROCESS_WORDS_OF_USERS = 3 };
extern const char *const process_words[];

bool is_process_word(const char *word, size_t n);

/* The page that tells about such a word. */
const char *process_word_page(const char *word, size_t n);

/* Adds a hint at `!ls` to e when the word, n bytes long, is a usual command of a shell, or
 * one of process_words. Returns whether it is one. */
bool hint_shell(const char *word, size_t n, kv_err *e);

/* The same for a statement of n bytes that begins with the path of a program, as ./run.sh does. */
bool hint_shell_path(const char *statement, size_t n, kv_err *e);

#endif
