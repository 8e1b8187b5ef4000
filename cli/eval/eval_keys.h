/* The words of a command: KEYS, paths, patterns, and the values of options that repeat. */
#pragma once

#include "session/result.h"
#include "session/session.h"
#include "syntax/command.h"

typedef struct word {
    const char *text; /* lives as long as the result of the command */
    const ast *at;    /* for unit_at: the place of an error about it */
    bool matched;     /* of a pattern: a name, see checkpoints/choose.h */
} word;

/* Begins zeroed; there is nothing to release. */
typedef struct words {
    word *items;
    int64_t n, cap;
} words;

/* Adds the texts of an ARG_PATHS, or of one word; node NULL: none. An item that is a list counts as
 * its items: $NAMES. what names one in the error: "a pattern" (dtype). Errors also: memory. */
int eval_words(session *s, const ast *node, const char *what, result *out, words *to, kv_err *e);

/* Adds the values of an option that repeats, in the order given; none when it was not given. */
int eval_option_words(session *s, const ast *call, const char *option, const char *what,
                      result *out, words *to, kv_err *e);

/* The value of an option that is a word, NULL when it was not given, and after an error, which e
 * then says. */
const char *eval_option_word(session *s, const ast *call, const char *option, const char *what,
                             result *out, kv_err *e);

/* The place of the last word that names the file which an error begins with, as in `x.npz: …`, or
 * NULL. */
const ast *eval_words_about(const words *w, const kv_err *e);
/* Gives an error that place, or else the one of `otherwise`. Returns its code. */
int eval_words_at(const session *s, const words *w, const ast *otherwise, kv_err *e);
