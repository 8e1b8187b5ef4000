/* Options of kvctl's command lines. A table says everything about each option once: reading, help,
 * the manual page, which is made from help, and the completion of the shells go by it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "kv_err.h"

/* ---- Scripts of shells ---- */

extern const char completion_bash[], completion_zsh[], completion_fish[];

typedef struct completion_script {
    const char *shell; /* NULL ends the table */
    const char *text;
} completion_script;

extern const completion_script completion_scripts[];

/* ---- Tables of options ---- */

/* The type of the value, and of the field of the caller's struct. */
typedef enum shell_kind {
    SHELL_FLAG,    /* bool; there is no value */
    SHELL_TEXT,    /* const char * */
    SHELL_TEXTS,   /* shell_texts, to which it is added */
    SHELL_COUNT,   /* int, from low to high */
    SHELL_SECONDS, /* double, more than 0 and up to a year */
    SHELL_OTHER    /* take stores it */
} shell_kind;

struct shell_given;

typedef struct shell_option {
    char letter;       /* or 0 */
    const char *name;  /* or NULL */
    const char *value; /* what help calls it, from which completion knows what to offer; or NULL */
    const char *help;  /* lines; NULL: another name of an option, which help does not list */
    shell_kind kind;
    size_t field; /* offset in the caller's struct */
    int low, high;
    int (*take)(const struct shell_given *g, kv_err *e); /* SHELL_OTHER */
    unsigned by; /* of launch: a bit for each launcher for which it means something; 0: all */
} shell_option;

/* An option on the command line. */
typedef struct shell_given {
    const shell_option *o;
    const char *spelled, *text; /* as messages call it; its value, "" for none */
    void *to;                   /* the caller's struct */
} shell_given;

/* An option may have one row for each value, to document it. Only the first row is used to read
 * it. */
typedef struct shell_table {
    const shell_option *rows;
    int n;
    const char *who; /* begins messages, as "launch: " */
} shell_table;

/* Texts in the order of the command line, with room for all of its words. */
typedef struct shell_texts {
    const char **items;
    int n;
} shell_texts;

/* The option of "-s" or "--store", n bytes; NULL: there is none. */
const shell_option *shell_option_find(const shell_table *t, const char *word, size_t n);

/* Reads an option, or several letters, from argv[0], and a value from argv[1] if it has one there.
 * Returns how many words it has; 0 on an error, and without one where the table lacks a name.
 * Error: usage. */
int shell_option_read(const shell_table *t, void *to, int argc, char *const *argv, kv_err *e);

/* Hints which options of the table a word that it lacks may have meant, "did you mean --force?", or
 * nothing. Returns e's code. */
int shell_option_suggest(const shell_table *t, const char *word, kv_err *e);

/* Whole numbers and seconds, for callers that store them by themselves. Error: usage. */
int shell_take_count(const char *spelled, const char *text, int64_t low, int64_t high, int64_t *x,
                     kv_err *e);
int shell_take_seconds(const char *spelled, const char *text, double *seconds, kv_err *e);

/* Appends `  -s, --store FILE     keep the store in FILE`, where the help begins at column. */
void shell_option_line(buf *out, const shell_option *o, int column);
