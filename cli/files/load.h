/* Arrays from files: @x.csv in expressions, load() with its options, and files of named arrays as
 * the values of keys. */
#ifndef FILES_LOAD_H
#define FILES_LOAD_H

#include "checkpoint/checkpoint.h"
#include "lang/ast.h"
#include "syntax/function.h"
#include "session/session.h"

/* The value of an AST_FILE: an array, or a list of them for a file with one a line. Errors: io,
 * format, usage (no known ending; several arrays and no name), name (of an array not there). */
int load_eval(session *s, const ast *node, value *out, kv_err *e);

/* load(file, dtype=, cols=, ...) and categories(file, col, ...), see function.h. */
int load_call(function_args *args, value *out, kv_err *e);
int load_categories(function_args *args, value *out, kv_err *e);

/* Opens the file of an AST_FILE when it is one of arrays by name, or the part of a file of PyTorch,
 * and node does not choose one array; else *out is NULL. Close it with checkpoint_close. The error
 * has the place of node. */
int load_named(session *s, const ast *node, checkpoint **out, kv_err *e);

#endif
