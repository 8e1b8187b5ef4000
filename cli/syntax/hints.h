/* Hints for words that mean something elsewhere: a variable, a shell, kvctl's own command line,
 * Python, NumPy and PyTorch. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kv_err.h"
#include "lang/ast.h"
#include "lang/parse.h"
#include "lang/source.h"

/* texts/hints.txt: a line `KIND WORD: HINT` for each. */
extern const char text_hints[];

/* Adds the hint of a word, n bytes long, to e: of the kind "command" one that other stores and
 * shells have for a command, "module" one of Python whose work functions do here, "function" one of
 * NumPy or PyTorch. Returns whether it is such a word. */
bool hint_word(const char *kind, const char *word, size_t n, kv_err *e);

/* ---- Variables ---- */

/* Adds a hint at $name to the error e of the command call in src, when a bare word of it is the
 * name of a variable. At the place of the error it says more than another hint. */
void hint_variable(const source *src, const ast *call,
                   bool (*is_variable)(void *arg, const char *name), void *arg, kv_err *e);

/* ---- The shell, and the command line of kvctl ---- */

/* The words of kvctl's command line that make the process something else than a session, NULL
 * behind the last; main has a function for each. The first ones are for users, the rest for
 * ranks. */
enum { PROCESS_WORDS_OF_USERS = 3 };
extern const char *const process_words[];

/* The page that tells about such a word, or NULL if the shell has no such word. */
const char *process_word_page(const char *word, size_t n);

/* Adds a hint at `!ls` to e when the word, n bytes long, is a usual command of a shell, or
 * one of process_words. Returns whether it is one. */
bool hint_shell(const char *word, size_t n, kv_err *e);

/* Adds a hint at --out when the word begins with -o, which other tools have for it. */
bool hint_output(const char *word, size_t n, kv_err *e);

/* The same for a statement of n bytes that begins with the path of a program, as ./run.sh does. */
bool hint_shell_path(const char *statement, size_t n, kv_err *e);

/* ---- Statements of Python ---- */

/* Refuses a statement of Python that the language does not have; true after that error. */
bool refuse_statement(parser *p);

/* Returns true after an error: a lambda stands where an updater is wanted. */
bool refuse_lambda(parser *p);

/* Returns true after an error: the name that is next is that of a module which is neither MXNet's
 * nor NumPy's. */
bool refuse_module(parser *p);

/* Adds a hint to e when the name, of a variable that is not there, is one of a dtype or a module.
 * Returns whether it is. */
bool hint_name(const char *name, kv_err *e);
