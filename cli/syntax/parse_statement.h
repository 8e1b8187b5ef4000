/* Statements, of which a script is made, above expressions. Both have nodes of the same type
 * (lang/ast.h), so that one walk sees all of a text. */
#pragma once

#include "lang/ast.h"
#include "lang/parse.h"

/* The kinds of nodes. Behind each: its children, u and op. A child marked ? may be NULL. */
typedef enum statement_kind {
    STMT_ASSIGN = AST_SCRIPT, /* target (AST_NAME, AST_INDEX, or an AST_TUPLE of targets), expr; op:
                                 STMT_PLAIN for =; for += and so on an ast_op, and u.other is the
                                 AST_BINARY of both */
    STMT_SHOW,                /* expr, redirect? */
    STMT_COMMAND,  /* one child for each argument of the command (? when it was left out; several
                      values are an AST_LIST), then its options and redirects; u.other: the command
                    */
    STMT_OPTION,   /* value?; u.text: name as in the command table */
    STMT_REDIRECT, /* path?; u.text: a variable or shell text; op: a redirect_kind */
    STMT_IF,       /* condition, block, else? (a block or an STMT_IF) */
    STMT_FOR,      /* target as in STMT_ASSIGN, expr, block */
    STMT_WHILE,    /* condition, block */
    STMT_REPEAT,   /* count, block or statement */
    STMT_DEF,    /* body (a block, or an expression when op is 1), parameters (AST_NAME, or AST_ARG
                    with a default value); u.text: name */
    STMT_RETURN, /* expr? */
    STMT_BREAK,
    STMT_CONTINUE,
    STMT_RULE,   /* u.other: a rule_ast */
    STMT_SHELL,  /* u.text */
    STMT_BROKEN, /* u.other: the kv_err of a statement that could not be read; only -k runs it */
    STMT_SOURCE  /* u.other: the struct unit that was read; file name as AST_TEXT */
} statement_kind;

#define STMT_PLAIN 255

/* op of an STMT_DEF and an STMT_RULE that could not be read; only --check has them. */
#define STMT_DEF_BROKEN 2
#define STMT_RULE_BROKEN 1

typedef enum redirect_kind {
    REDIRECT_VARIABLE, /* -> V */
    REDIRECT_FILE,     /* > path */
    REDIRECT_APPEND,   /* >> path */
    REDIRECT_PIPE      /* | shell text */
} redirect_kind;

/* Returns true if a def of these kids has the parameters of an updater: key, input and stored, and
 * further ones that have defaults. */
static inline bool def_may_update(ast *const *kid, int64_t n)
{
    return n == 4 || (n > 4 && kid[4]->kind == AST_ARG);
}

/* Parses the next statement; NULL on an error. */
ast *parse_statement(parser *p);

/* Parses a whole text into an AST_BLOCK of statements; NULL on an error. */
ast *statement_parse_all(parser *p);

/* ---- import, and npx.set_np() ---- */

/* Returns true if such a statement is next. */
bool parse_at_import(parser *p);

/* Parses it, to a block that holds nothing. Errors: unsupported (a module that is neither MXNet's
 * nor NumPy's), syntax. */
ast *parse_import(parser *p);

/* ---- Branches, loops, functions ---- */

/* Parses the statement whose keyword is next. *known is false when no keyword is next; then the
 * result is NULL, without an error. */
ast *parse_control(parser *p, bool *known);

/* The i-th keyword, from 0, and what follows it, "" for nothing; NULL behind the last. */
const char *statement_keyword(int i, const char **rest);
