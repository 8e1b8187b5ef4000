/* Arrays in files, by the ending of their names, both ways. */
#ifndef SCRIPT_FILE_H
#define SCRIPT_FILE_H

#include "script/command.h"
#include "script/session.h"

/* What an ending stands for. */
typedef enum file_kind { FILE_CSV, FILE_JSON, FILE_TEXT, FILE_LATER, FILE_UNKNOWN } file_kind;

/* The kind of a path. FILE_LATER: of the language, not in this version. FILE_TEXT: .txt and "-". */
file_kind file_kind_of(const char *path);

/* Checks a path that is to be written, before anything runs: usage (no
 * known ending), unsupported. */
int file_check_ending(const char *path, kv_err *e);

/* The array of an AST_FILE. Errors: io, format, unsupported, usage. */
int file_eval(session *s, const ast *node, value *out, kv_err *e);

/* load(path, dtype=, cols=, header=, format=), see function.h. */
struct function_args;
int file_load(struct function_args *args, value *out, kv_err *e);

/* Writes what a command gave to path; all of it or nothing. {key} in the path stands for the key of
 * each of several values. append: behind what the file holds (csv and text). */
int file_write(session *s, const char *path, const result *r, bool append, kv_err *e);

/* Writes v to stdout as a file would hold it: JSON when that is the session's format, else CSV. */
int file_write_stdout(session *s, value v, kv_err *e);

/* Runs a shell line with text as its input (NULL: none). Error: io (it cannot start, or ended with
 * another status than 0). */
int file_pipe(session *s, const char *line, const char *text, size_t n, kv_err *e);

#endif
