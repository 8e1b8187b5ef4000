/* Commands: everything there is to know about each of them stands once, in the table of the
 * registry. The parser, help, completion and the checks before a script runs read it; the usage
 * line is made from it. */
#pragma once

#include "base/map.h"
#include "lang/ast.h"
#include "lang/source.h"
#include "session/result.h"
#include "session/session.h"

/* ---- The table ---- */

/* The kinds of arguments, each of which is parsed in a way of its own. */
typedef enum arg_kind {
    ARG_END,
    ARG_KEYS,    /* words, ranges, lists, patterns: parse_keys */
    ARG_VALUE,   /* one expression under the blank rule */
    ARG_VALUES,  /* one or more of them, as far as the statement goes */
    ARG_EXPRS,   /* expressions separated by commas, in expression mode */
    ARG_WORD,    /* a word, a quoted text, $NAME or (expr) */
    ARG_GLOB,    /* a word in which * and ? may stand */
    ARG_NAME,    /* the name of something to be made: a plain word */
    ARG_FILE,    /* a path */
    ARG_PATH,    /* a path or a pattern of names, with any sign that ends no word: a[0-9]=b.npz */
    ARG_PATHS,   /* one or more of them, also behind options */
    ARG_SOURCE,  /* a path that is read while parsing */
    ARG_RULE,    /* the name of an updater, or a block in braces */
    ARG_MERGE,   /* the same of a merge: a name, a path, a text or a block in braces */
    ARG_HEREDOC, /* <<END, lines, END; from here on kinds without a call form or a shell word */
    ARG_CODE,    /* the name of an error code */
    ARG_SWITCH,  /* on or off */
    ARG_BLOCK,   /* statements in braces that shall fail with the code before it */
    ARG_STATEMENT, /* such a block, or one statement up to its end */
    ARG_EXPLAINED  /* on, off, or a command that explain knows */
} arg_kind;

typedef struct command_arg {
    arg_kind kind;
    const char *name; /* as usage lines show it, in capitals */
    bool optional;
} command_arg;

/* The kinds of values of options. */
typedef enum option_kind {
    OPTION_INT,   /* a value that must be a 64-bit integer in the range of an int32 */
    OPTION_VALUE, /* a value */
    OPTION_NEEDED, /* a value that the command does not go without */
    OPTION_NAME,  /* a name as of a variable, a quoted text, $NAME or (expr) */
    OPTION_WORD,  /* a word, a quoted text, $NAME or (expr) */
    OPTION_FILE,  /* a path */
    OPTION_VALUES, /* values joined by commas, or one that is a list */
    OPTION_PATH,  /* a word as of ARG_PATH */
    OPTION_OUTPUT, /* such a word that the command does not go without */
    OPTION_RAW,   /* a word as it stands up to the next blank; in quotes too a backslash is a
                     character like any other: s/(a)\.b/\1/ */
    OPTION_RAWS,  /* such a word, and the option may repeat: command_option_next */
    OPTION_FLAG   /* nothing: that it stands there is all */
} option_kind;

typedef struct command_option {
    const char *name; /* with dashes; NULL ends the list */
    option_kind kind;
    const char *value; /* as usage lines show it; NULL for a flag */
} command_option;

/* Options that exclude each other, or one that needs one of others. */
typedef struct command_pair {
    const char *option;    /* NULL ends the list; "": the command itself */
    const char *others[2]; /* with needed one of these must stand beside it, else none may */
    bool needed;
    const char *why, *hint; /* of the error; hint NULL: it has none */
} command_pair;

/* One flag answers one question about a command. */
enum {
    /* Its output. */
    COMMAND_GIVES = 1 << 0,  /* gives a value: it can be redirected */
    COMMAND_PRINTS = 1 << 1, /* may print lines (of an updater): | and > take these */
    COMMAND_DRAWS = 1 << 2,  /* with COMMAND_PRINTS: writes the file of > itself, often a picture */
    COMMAND_SAVES = 1 << 3,  /* with COMMAND_PRINTS: > FILE saves one value as such */
    COMMAND_WRITES = 1 << 4, /* writes its ARG_FILE */
    /* Its arguments. */
    COMMAND_PARAMS = 1 << 5,   /* takes --PARAM VALUE for the parameters of a rule */
    COMMAND_ONE_EACH = 1 << 6, /* one value a key, so a single key takes one value */
    COMMAND_SETS = 1 << 7,     /* its second argument is a word of a setting, no variable */
    /* Its effect on stores. */
    COMMAND_CHANGES = 1 << 8,    /* may change one; without it a state file's lock may be shared */
    COMMAND_ALL_KEYS = 1 << 9,   /* concerns every key of the store: its record lists them */
    COMMAND_CHOOSES = 1 << 10,   /* decides which store is in use */
    COMMAND_REGISTERS = 1 << 11, /* its first argument becomes a store type */
    COMMAND_EXPLAINED = 1 << 12, /* explain can describe it */
    COMMAND_READS = 1 << 17,     /* changes nothing at all: attach runs it beside a script */
    COMMAND_LOCKS = 1 << 18,     /* and waits while the script is in a call of the store */
    /* Its effect on other statements. */
    COMMAND_RUNS = 1 << 13,         /* runs statements: run_argument */
    COMMAND_SOURCES = 1 << 14,      /* runs a file, which may set any variable */
    COMMAND_EXPECTS = 1 << 15,      /* compares the output of the statement before it */
    COMMAND_EXPECTS_ERROR = 1 << 16 /* its block shall fail */
};

#define COMMAND_MAX_ARGS 3
#define COMMAND_MAX_OPTIONS 14

typedef struct command {
    const char *name;                                /* with dashes */
    command_arg args[COMMAND_MAX_ARGS + 1];          /* ARG_END behind the last */
    command_option options[COMMAND_MAX_OPTIONS + 1];
    int flags;
    /* Runs the command of a STMT_COMMAND node; out receives its result. */
    int (*run)(session *s, const ast *call, result *out, kv_err *e);
    /* The command as a method of MXNet, "pull(key, out, priority)": its name, and its parameters in
     * their order, first the arguments, then the options. A name before a colon is a dictionary
     * that may hold them. NULL: MXNet has no such method, and the
     * command has its own name, with its arguments in their order. The methods are those of KVStore
     * in MXNet 1.9.1 (python/mxnet/kvstore). */
    const char *method;
    /* (optional) Checks the literal words of a STMT_COMMAND node before anything runs. types: the
     * store types that the texts register, or NULL when there may be any others. The error has the
     * place of the word. */
    int (*check)(const source *src, const ast *call, const map *types, kv_err *e);
    const command_pair *pairs; /* (optional) checked at the same time */
    /* (optional) The function of the store in use that cmd_call_store calls. */
    int (*on_store)(kv *store, kv_err *e);
} command;

/* Returns true if the value of an option is any word as it stands, with dashes too. */
bool command_option_is_raw(const command_option *o);

/* Returns true if the command does not go without the option. */
bool command_option_is_needed(const command_option *o);

/* The command of a word in which - and _ are the same, n bytes long; NULL when there is none. */
const command *command_find(const char *word, size_t n);

/* The option of a command, by its name in which - and _ are the same, n bytes long; or NULL. */
const command_option *command_option_find(const command *c, const char *name, size_t n);

/* The command that a method of a store is, by MXNet's name or by its own with _ for -; NULL when
 * there is none. */
const command *command_find_method(const char *name);

/* The parameters of its method, "key, value, priority=0)"; "" where MXNet has none. Of them the
 * name of number i, n bytes (NULL behind the last), and the number of a name, or -1. */
const char *command_params(const command *c);
const char *command_param_at(const char *params, int i, size_t *n);
int command_param_find(const char *params, const char *name, size_t n);

/* Returns true if the first argument of a command is a path. */
bool command_takes_paths(const command *c);

/* The number, from 0, of a command on paths by its name, which may also be that of a variable:
 * `diff * 2` computes where diff is one. -1 for other names. */
int command_hidden(const char *name);

/* Returns true if the node is a command with one of these flags. */
bool command_is(const ast *node, int flags);

/* Returns true if the command has a call form: its arguments can stand between brackets. */
bool command_can_be_called(const command *c);

/* "kv.push(key, value, priority)", from the tables. */
void command_call_usage(buf *out, const command *c);

/* "push KEYS VALUES [--priority N]", from the table. */
void command_usage(buf *out, const command *c);

/* Appends the part of it that is missing, a blank before each word: the arguments from number
 * `from` on, and the options but for those of the bits in `given`. One that is needed stands
 * without brackets, and dots are behind one that repeats. */
void command_usage_rest(buf *out, const command *c, int from, uint32_t given);

/* Hints the usage, in which [OPTIONS] stands for optional options where they would not fit in a
 * line. Returns e's code. */
int command_hint_usage(const command *c, kv_err *e);

/* Hints the usage where the command is called as a function: push(3, a). Returns e's code. */
int command_hint_called(const command *c, kv_err *e);

/* ---- For the code of commands ---- */

/* The value of an option of a STMT_COMMAND node, or NULL when it was not given. */
const ast *command_option_of(const ast *call, const char *name);

/* The same for one that repeats, in the order given: the value behind the one at *from, a child of
 * the node, which is set past it; NULL behind the last. Begin with *from 0. */
const ast *command_option_next(const ast *call, const char *name, uint32_t *from);

/* The redirect of a statement: the one to a variable, or that to a file or a shell command; or
 * NULL.
 */
const ast *command_redirect_of(const ast *node, bool to_variable);
