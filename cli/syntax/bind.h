/* The arguments and options of one call of a command, as its row in the table has them. Both forms
 * of a call, `push 3 a --priority 1` and `kv.push(3, a, priority=1)`, fill a binding, so that both
 * give the same node, and completion finds the missing arguments in it. */
#ifndef SYNTAX_BIND_H
#define SYNTAX_BIND_H

#include "lang/parse.h"
#include "syntax/command.h"

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

/* The STMT_COMMAND that begins at pos. */
ast *bind_node(const binding *b, parser *p, uint32_t pos);

/* The command was not read to its end: when the cursor, at `end`, is in it, notes where. at: may be
 * NULL. */
void bind_cursor(const binding *b, parse_cursor *at, uint32_t end);

#endif
