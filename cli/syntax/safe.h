/* --safe: scripts of strangers. No shell, no plugins, no writes but to the state file. What is not
 * allowed is refused before anything runs, where the words show it, and again where it would
 * happen. */
#ifndef SYNTAX_SAFE_H
#define SYNTAX_SAFE_H

#include "lang/ast.h"
#include "lang/source.h"
#include "session/session.h"

/* Checks that a node is allowed in a script. Error: unsupported, at the node. */
int safe_check(const session *s, const source *src, const ast *node, kv_err *e);

/* Check that a file may be written, a shell started, a plugin loaded. Errors: unsupported; usage
 * (the file of -s, which the session itself writes). */
int safe_write(const session *s, const char *path, kv_err *e);
int safe_shell(const session *s, kv_err *e);
int safe_plugin(const session *s, kv_err *e);

#endif
