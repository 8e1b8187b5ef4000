/* The parser of commands, and the words and redirects that other statements share with them. */
#pragma once

#include "lang/parse.h"
#include "syntax/command.h"

/* ---- Bindings ---- */

/* Arguments, options, parameters of a rule and a redirect. */
#define BIND_MAX (COMMAND_MAX_ARGS + 130)

#define NOWHERE UINT32_MAX

typedef struct binding {
    const command *c;
    int nargs;            /* arguments that the command has */
    ast *parts[BIND_MAX]; /* these, NULL where not given, and behind them options and redirects */
    int n, given;         /* of all of them; of arguments in their order */
    /* The argument or option being read: its begin, or NOWHERE; and the option whose value it
     * is. */
    uint32_t begins;
    bool in_option;
    const command_option *option; /* NULL: the parameter of a rule */
} binding;

void bind_begin(binding *b, const command *c);

/* Adds an option or a redirect. False with an error when there is no room. */
bool bind_add(binding *b, parser *p, ast *part);

/* Returns true if the option of this name was given. */
bool bind_has(const binding *b, const char *option);

/* The first required part that was not given: an argument, or NULL and an option, or NULL and
 * NULL. */
const command_arg *bind_missing(const binding *b, const command_option **option);

/* Whether all arguments are there, and an option that takes a value and has to be given is not: a
 * value that stands there is that option's, as in `row-sparse-pull 3 [0, 2]`. */
bool bind_wants_value(const binding *b);
bool bind_value(binding *b, parser *p, ast *one);

/* The STMT_COMMAND that begins at pos. */
ast *bind_node(const binding *b, parser *p, uint32_t pos);

/* The command was not read to its end: when the cursor, at `end`, is in it, notes where. at: may be
 * NULL. */
void bind_cursor(const binding *b, parse_cursor *at, uint32_t end);

/* ---- Commands ---- */

/* The arguments, options and redirects of a command whose name was read; it began at pos. Gives
 * STMT_COMMAND or STMT_SOURCE. */
ast *parse_command(parser *p, const command *c, uint32_t pos);

/* Its steps, which words of the shell (parse_shell.h) take one by one. */

/* The option that is next, --NAME or NAME=: STMT_OPTION with its value, if it has one. A parameter
 * of a rule that is not known yet may have two: an expression, and a word. word: NULL, or where the
 * word of the shell begins that is the value; NOWHERE: there is none. */
ast *parse_option(parser *p, binding *b, const uint32_t *word);

/* What NAME=VALUE at pos is: an option or a parameter, as --NAME VALUE, also one that the command
 * does not have; or the argument a, which is next, by the name that MXNet or the usage gives it. */
typedef enum named_kind { NAMED_NOT, NAMED_OPTION, NAMED_ARGUMENT } named_kind;
named_kind parse_named(const parser *p, const command *c, const command_arg *a, uint32_t pos);

/* Ends a word of the shell, which is read as if in brackets. False with an error when something is
 * left of it. */
bool parse_word_ended(parser *p);

/* Adds an option or a redirect, which stand once in a command, but for options that repeat. */
bool parse_add_once(parser *p, binding *b, ast *part);

/* `push --help` is `help push`. */
ast *parse_help_option(parser *p, const command *c, uint32_t pos);

/* The error for a value that stands where no argument is left. */
ast *parse_too_many(parser *p, const command *c);

/* False after an error: one key, before, has several values. before: the KEYS, or NULL. */
bool parse_one_each(parser *p, const command *c, const ast *before, const ast *values);

/* STMT_COMMAND or STMT_SOURCE of what was bound, once nothing is missing. */
ast *parse_bound(parser *p, binding *b, uint32_t pos);

/* `help TOPIC`, or help alone, as another way to ask for it that began at pos. topic: or NULL. */
ast *parse_help_on(parser *p, uint32_t pos, ast *topic);

/* An updater, or a block in braces: STMT_RULE. */
ast *parse_rule_node(parser *p);

/* ---- Words, texts for the shell, redirects ---- */

/* A run of word characters and those in `more`, a quoted text, $NAME or (expr). */
ast *parse_word(parser *p, const char *more, const char *wanted);

/* The end of the run of letters, digits and inner dashes at pos. */
uint32_t parse_dashed_end(const parser *p, uint32_t pos);

/* AST_TEXT of the source from pos to end, behind which the parser goes on. */
ast *parse_text(parser *p, uint32_t pos, uint32_t end);

/* Text up to the end of its line, for the shell: a node of that kind that begins at `from`. */
ast *parse_shell_text(parser *p, int kind, uint32_t from, const char *wanted);

bool parse_at_redirect(parser *p);
ast *parse_redirect(parser *p, const command *c); /* STMT_REDIRECT; c: NULL for an expression */

/* ---- Paths and patterns: see ARG_PATH and OPTION_RAW ---- */

/* A path or a pattern, and a word as it stands. Both also take a quoted text, $NAME or (expr). */
ast *parse_path_word(parser *p, const char *wanted);
ast *parse_raw_word(parser *p, const char *wanted);

/* ---- Arguments that hold commands ---- */

/* The name of an error code. */
ast *parse_code(parser *p);

/* A block that shall fail with this code. If it fails so in the parser, the expectation is met:
 * the block is skipped, and the node is an AST_NONE. */
ast *parse_failing_block(parser *p, const ast *code);

/* on or off: AST_TEXT. */
ast *parse_switch(parser *p);

/* The same, or a command that explain knows, also in the call form. */
ast *parse_explained(parser *p);

/* ---- parse_control.c, parse_statement.c ---- */

/* { statements }, and one statement up to its end. */
ast *parse_block(parser *p);
ast *parse_one_statement(parser *p);

/* ---- The call form: kv.push(3, a) ---- */

/* The method of a store, behind its name, with its arguments if a `(` is next. Gives an
 * AST_STORE; NULL without an error when no command has such a method. */
ast *parse_method(parser *p, const ast *store, const token *name);

/* `kv = mx.kv.create('local')` makes a store called kv: the command for it. Any other assignment
 * stays as it is. */
ast *parse_store_made(parser *p, ast *assign);
