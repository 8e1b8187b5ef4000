/* Running statements. */
#pragma once

#include "base/buf.h"
#include "lang/ast.h"
#include "session/session.h"
#include "session/unit.h"

/* Runs the statements of u one after another; stops at the first error, at quit, or when the
 * session was interrupted. Errors have their place. */
int unit_run(session *s, unit *u, kv_err *e);

/* Runs the statements of a block. In-out: f, of which the caller owns `returned`. */
int run_block(session *s, const ast *block, run_flow *f, kv_err *e);
/* Defines a function, a STMT_DEF of the text that runs. Errors: those of its defaults, unsupported
 * (another function has its name), memory. */
int run_def(session *s, const ast *node, kv_err *e);

/* Runs a block or a statement that is an argument of the running command. */
int run_argument(session *s, const ast *node, kv_err *e);

/* Runs the command of an AST_STORE on its store. Out: what it gives, as a value. */
int run_method_call(session *s, const ast *node, value *out, kv_err *e);

/* Where the script is, for kv_set_script. arg: the session, whose thread is in a wait. */
bool run_place(void *arg, char *out, size_t room);

/* ---- Settings ---- */

/* Settings, which `set a.b VALUE` and --set a.b=VALUE change. */

/* Sets one. Errors: usage (no such setting, with "did you mean"), dtype, value. */
int setting_set(session *s, const char *name, value v, kv_err *e);

/* Appends "name value" of one, or a line for each when name is NULL. Error: usage. */
int setting_show(session *s, buf *out, const char *name, kv_err *e);

/* The name of setting i, NULL behind the last. */
const char *setting_name(int i);

/* ---- Commands of the shell: `!CMD` and `| CMD` ---- */

/* Runs a line of the shell with n bytes of text as its input; text NULL: kvctl's own stdin. Waits
 * for it. A reader that ends before it has read all is not an error. Errors: io (it cannot start,
 * or ended with another status than 0), interrupted (Ctrl-C while it ran). */
int shell_run(session *s, const char *line, const char *text, size_t n, kv_err *e);

/* The same for a line of our own, whose output is appended to out, or with NULL is that of the
 * session; --dry-run runs it too. */
int shell_filter(session *s, const char *line, const char *text, size_t n, buf *out, kv_err *e);
