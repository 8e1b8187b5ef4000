/* kvctl WORD...: words of the shell as one command of the language.
 *
 * Each word is one argument or the value of one option, whatever it holds: a key, a path or a word
 * stands as it is, a value is an expression. Nothing in it is split, ends the command or
 * redirects. */
#pragma once

#include "base/buf.h"
#include "lang/parse.h"
#include "syntax/command.h"

typedef struct shell_word {
    const char *text; /* borrowed */
    bool option;      /* --name or --name=value */
    bool plain;       /* it may be name=value: not behind -- and not the value of an option */
    uint32_t pos;     /* where it begins in the text of the unit */
} shell_word;

/* Zero it to begin; release it. */
typedef struct shell_words {
    const command *c;           /* NULL: not begun */
    const command_option *open; /* whose value is the next word; NULL: none */
    shell_word *items;
    int64_t n, cap;
} shell_words;

/* Begins the command of that name. False when there is none. */
bool shell_words_begin(shell_words *w, const char *name);

/* Returns true if --NAME or --NAME=VALUE is an option of the command. Of a command that takes
 * parameters of rules --seed is one: kvctl's own would be for functions that it does not call. */
bool shell_words_has(const shell_words *w, const char *word);

/* Returns true for `help --seed`, where an option is the word that is asked about. */
bool shell_words_asks(const shell_words *w, const char *word);

/* Adds the next word. literal: it is an argument although it begins with dashes. Error: memory. */
int shell_words_add(shell_words *w, const char *word, bool literal, kv_err *e);

void shell_words_release(shell_words *w);

/* Appends the text from which the words are parsed and which errors show, and notes their places
 * in it. */
void shell_words_text(shell_words *w, buf *out);

/* A block of the one statement. The parser is at the begin of that text. */
ast *parse_shell_words(parser *p, const shell_words *w);
