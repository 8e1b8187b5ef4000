/* Units: texts of statements that were read and parsed, and running them. */
#ifndef SYNTAX_UNIT_H
#define SYNTAX_UNIT_H

#include "base/mem.h"
#include "lang/ast.h"
#include "lang/parse.h"
#include "lang/source.h"
#include "run/session.h"

typedef struct unit {
    source src;        /* its name and text are owned by the unit */
    source_mark mark;  /* of src */
    arena nodes;
    ast *body;         /* AST_BLOCK */
    uint32_t begun;    /* how many of its statements began to run */
    bool kept;         /* a def or updater refers to it: it stays until the session ends */
    struct unit *next; /* the one read before it */
} unit;

/* Reads and parses a text. Nothing runs. text is taken over, also on failure (mem_free); name is
 * copied. Everything that the words alone show is checked: commands, options, functions, updaters,
 * counts of arguments, files that `source` names. line: the number of its first line.
 * *incomplete (may be NULL) is set when the text ends inside something that is open.
 * Out: *out stays owned by the session; unit_drop it when it will not run again. */
int unit_read(session *s, unit **out, const char *name, char *text, size_t n, int line,
              bool *incomplete, kv_err *e);

/* Whether a text does not end inside something that is open; a mistake in it is no matter. The text
 * ends in a NUL that n does not count. */
bool unit_is_complete(const char *text, size_t n);

/* The unit of a file that a parser meets in `source FILE`; NULL and an error at path when it cannot
 * be read. The parser's user is the session. */
unit *unit_source(parser *p, const ast *path);

/* Runs the statements of u one after another; stops at the first error, at quit, or when the
 * session was interrupted. Errors have their place. */
int unit_run(session *s, unit *u, kv_err *e);

/* Releases u, unless a function or updater refers to it. */
void unit_drop(session *s, unit *u);
/* An error is of this text: its excerpt is of this one, also where several have one name, as those
 * of -c do. */
void unit_failed(session *s, unit *u);

/* The error at a node of the unit that runs. Returns code. */
int unit_err(const session *s, const ast *node, kv_err *e, kv_code code, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Files that source each other deeper than this are refused, those with a computed name, which are
 * read when the statement runs, and those with a literal one, which are read before. */
#define SOURCE_MAX_DEPTH 50
#define SOURCE_TOO_DEEP  "files source each other deeper than 50"

/* The error for what recurses when stack_runs_low says so. */
int unit_too_deep(const session *s, const ast *node, kv_err *e);
/* Adds the place of node to an error that has none. Returns e's code. */
int unit_at(const session *s, const ast *node, kv_err *e);

/* A function of the script. */
typedef struct definition {
    const char *name;
    unit *unit;
    const ast *node; /* STMT_DEF */
} definition;

/* An updater of the script. */
typedef struct rule_definition {
    const char *name;
    unit *unit;
    const rule_ast *rule;
} rule_definition;

#endif
