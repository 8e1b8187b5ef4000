/* --check: every error of the texts that are read, each at its place.
 *
 * While a session collects errors, the parser hands each one over here, empties its own, and goes
 * on behind the statement or inside its block; the checks of a text that was parsed do the same.
 * Nothing runs. What is missing because of one error is no second error: a function or updater
 * whose head or body cannot be read is there all the same, and once a file cannot be read, an
 * unknown name may come from it.
 */
#pragma once

#include "lang/parse.h"
#include "session/session.h"

/* ---- Errors that are collected ---- */

/* More are not kept: a file that is no script has an error on every line. */
#define CHECK_ERRORS_MAX 1000
#define CHECK_ERRORS_COMPARED 100 /* see check_compares */

typedef struct check_errors {
    kv_err *items;
    int64_t n, cap;
    bool names_missing; /* a file could not be read */
    bool too_deep;      /* files source each other without end */
    bool statements_lost; /* some could not be read, and are in no tree */
} check_errors;

/* Takes an error over, unless the session collects none or this one ends everything (no memory,
 * interrupted). True: *e is empty, and there may be more. */
bool check_take(session *s, kv_err *e);

/* Returns false when so many errors were found that the next ones get no hint that compares a name
 * with all others: a long list of them would take the square of its length. */
bool check_compares(const session *s);

/* Returns true when as many were found as are kept: no other needs to be looked for. */
bool check_is_full(const session *s);

/* The parser's way on after an error in a statement: takes the error over and goes to the end of
 * the statement that began at *before, a copy of the parser as it was there. With to_block it goes
 * to the `{` of the statement instead, and gives false when there is none. */
bool check_recover(parser *p, const parser *before, bool to_block);

/* The same for completion, which wants to know of no error but goes on to the cursor. */
bool check_pass_over(parser *p, const parser *before, bool to_block);

/* The same under -k, for a statement that stands in no block: it becomes a STMT_BROKEN, and ends
 * with its line, its block, and the lines that are indented more. */
bool check_keep_going(parser *p, const parser *before, bool to_block);

/* Makes a statement one that fails with *e when it is reached; *e is empty then. False when the
 * error ends everything. */
bool check_break(arena *a, ast *node, kv_err *e);

/* ---- Names that are read and never set ---- */

/* Looks through the texts of a session that collects errors, once all are read. Each name is an
 * error where a text first reads it. Names that a part that could not be read, or a file whose name
 * is computed, may set are no errors: then nothing is said. Error: memory. */
int check_unset(session *s, kv_err *e);
