/* Checks of the words of commands that stand for something that the library or the benchmark has a
 * list of: types of stores, optimizers and their parameters, compressions, capabilities, workloads.
 * Only literal words are looked at; what a variable holds shows when the command runs. */
#ifndef SYNTAX_CHECK_WORDS_H
#define SYNTAX_CHECK_WORDS_H

#include "base/map.h"
#include "lang/source.h"
#include "run/session.h"

/* The words of a STMT_COMMAND node in src. types: the store types that the texts register, or NULL
 * when there may be any others. The error has the place of the word. */
int check_words(const source *src, const ast *call, const map *types, kv_err *e);

/* Adds a hint at $name to the error e of the command call in src, when a bare word of it is the
 * name of a variable. At the place of the error it says more than another hint. */
void hint_variable(const source *src, const ast *call,
                   bool (*is_variable)(void *arg, const char *name), void *arg, kv_err *e);

#endif
