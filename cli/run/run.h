/* Running statements. */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include "lang/ast.h"
#include "session/session.h"
#include "session/unit.h"

/* Runs the statements of u one after another; stops at the first error, at quit, or when the
 * session was interrupted. Errors have their place. */
int unit_run(session *s, unit *u, kv_err *e);

/* Runs the statements of a block. In-out: f, of which the caller owns `returned`. */
int run_block(session *s, const ast *block, run_flow *f, kv_err *e);

/* Runs a block or a statement that is an argument of the running command. */
int run_argument(session *s, const ast *node, kv_err *e);

/* Runs the command of an AST_STORE on its store. Out: what it gives, as a value. */
int run_method_call(session *s, const ast *node, value *out, kv_err *e);

/* Where the script is, for kv_set_script. arg: the session, whose thread is in a wait. */
bool run_place(void *arg, char *out, size_t room);

#endif
