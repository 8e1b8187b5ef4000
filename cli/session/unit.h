/* Units: texts of statements that were read and parsed, and errors with places in them. */
#pragma once

#include "base/mem.h"
#include "lang/ast.h"
#include "lang/source.h"
#include "session/session.h"

typedef struct unit {
    source src;        /* its name and text are owned by the unit */
    source_mark mark;  /* of src */
    arena nodes;
    ast *body;         /* AST_BLOCK */
    uint32_t begun;    /* how many of its statements began to run */
    bool prelude;      /* a function of the language's own, not the user's text */
    bool kept;         /* a def or updater refers to it: it stays until the session ends */
    struct unit *next; /* the one read before it */
} unit;

/* Adds a text that is no script, so that reports of errors in it show its lines. name is copied;
 * takes text, also on failure. unit_drop releases it. Error: memory. */
int unit_of_text(session *s, unit **out, const char *name, char *text, size_t n, kv_err *e);
/* Releases u, unless a function or updater refers to it. */
void unit_drop(session *s, unit *u);
/* An error is of this text: its excerpt is of this one, also where several have one name, as those
 * of -c do. */
void unit_failed(session *s, unit *u);

/* The error at a node of the unit that runs. Returns code. */
int unit_err(const session *s, const ast *node, kv_err *e, kv_code code, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* The error for what recurses when stack_runs_low says so. */
int unit_too_deep(const session *s, const ast *node, kv_err *e);
/* Adds the place of node to an error that has none, and puts commands in the place of functions of
 * C that its hint names. Returns e's code. */
int unit_at(const session *s, const ast *node, kv_err *e);

/* The text of a node of the unit, for messages: of one line, long ones are cut. Returns out. */
#define UNIT_TEXT 64
const char *unit_text(char out[UNIT_TEXT], const unit *u, const ast *node);

/* Adds to the session's details that what failed was called at node of the text that runs. */
void session_caller(session *s, const ast *node);
/* The same, with the key, for an error whose place is in a rule; one that has no place yet, or one
 * in the lines of node, needs no caller. */
void session_caller_of_rule(session *s, const ast *node, const kv_err *e);

/* Appends the session's details as reports show them. */
void session_details(const session *s, buf *out);

/* A function or an updater of the script. */
typedef struct definition {
    const char *name;
    unit *unit;
    const ast *node;           /* STMT_DEF; NULL: it is an updater, … */
    const rule_ast *rule;      /* … this one */
    bool nested;               /* a function defined it */
    struct def_values *values; /* shared by the calls that run: see containers.h */
} definition;
