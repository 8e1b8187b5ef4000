/* kvctl WORD...: words of the shell as one command of the language.
 *
 * Each word is one argument, whatever it holds: a key, a path or a word stands as it is, a value is
 * an expression. Nothing in it is split, ends the command or redirects. */
#ifndef OPTIONS_WORD_COMMAND_H
#define OPTIONS_WORD_COMMAND_H

#include "base/buf.h"
#include "kv_err.h"
#include "syntax/command.h"

/* The name of the text in errors. */
#define WORD_COMMAND_NAME "<cmd>"

/* Zero it to begin; release text. */
typedef struct word_command {
    const command *c;           /* NULL: not begun */
    buf text;                   /* the command so far, as a script would have it */
    const command_option *open; /* whose value is the next word; NULL: none */
    int given;                  /* arguments so far */
} word_command;

/* Begins the command of that name. False when there is none. */
bool word_command_begin(word_command *w, const char *name);

/* Returns true if --NAME or --NAME=VALUE is an option of the command. Of a command that takes
 * parameters of rules --seed is one: kvctl's own would be for functions that it does not call. */
bool word_command_has(const word_command *w, const char *word);

/* Returns true if the next word is the value of an option that takes any text, with dashes too. */
bool word_command_takes_any(const word_command *w);

/* Adds the next word. literal: it is an argument although it begins with dashes. Errors: usage (a
 * command that takes statements), syntax (a value that is not an expression); their place is in
 * text, which ends with the word then. */
int word_command_add(word_command *w, const char *word, bool literal, kv_err *e);

#endif
