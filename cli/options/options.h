/* The command line of kvctl: what it asks for, before anything is done. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "kv_err.h"
#include "options/shell_option.h"
#include "syntax/parse_shell.h"
#include "term/terminal.h"

/* A text to run: in the order of the command line. */
typedef enum input_kind { INPUT_TEXT, INPUT_FILE, INPUT_STDIN, INPUT_WORDS } input_kind;

typedef struct input {
    input_kind kind;
    const char *text; /* the commands, or the path */
    shell_words *words; /* of INPUT_WORDS */
} input;

typedef struct options {
    arena memory; /* of what follows */
    input *inputs;
    int ninputs;
    shell_texts args;   /* behind the script's name, or behind -- */
    shell_words command; /* words of the shell that are one */
    shell_texts sets;   /* NAME=VALUE */
    bool interactive, quiet, verbose, check_last, keep_going;
    bool help, version;
    const char *completion; /* a text to print, or NULL */
    bool check;         /* only read the inputs, and report every error */
    bool json;
    const char *store;  /* state file, or NULL */
    bool dry_run, force, read_only;
    shell_texts plugins; /* files */
    const char *type, *format;
    shell_texts verify; /* pages */
    bool update;        /* with verify: rewrite the pages */
    const char *record, *history;
    const char *rc;     /* "" for none, NULL: not said */
    double timeout;     /* seconds, 0: none */
    bool trace, safe;
    terminal_when terminal[TERMINAL_USES]; /* --color and so on */
    bool terminal_given[TERMINAL_USES];
    uint64_t seed;
    int gpus;
    bool gpus_said;
} options;

/* Reads the command line; everything is borrowed from argv. Release it with options_release.
 * Error: usage. */
int options_parse(options *o, int argc, char **argv, kv_err *e);
void options_release(options *o);

/* Returns how many words kvctl's options have in front of the first other word; 0 when they ask for
 * something to be run or shown, or one is wrong, which options_parse says. */
int options_in_front(int argc, char **argv);

extern const shell_table options_table;

/* Each is in a file of its name in options/texts. */
extern const char text_usage[], text_options[];

/* Appends what -h shows, and a line for every option. */
void options_help(buf *out);
void options_list(buf *out);
