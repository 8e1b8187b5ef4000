/* The form of values: one place decides for print, pull, bare expressions and redirects. */
#ifndef SESSION_SHOW_H
#define SESSION_SHOW_H

#include "io/json_writer.h"
#include "session/result.h"
#include "session/session.h"

/* Appends v in the session's format, without a newline at the end. repr: as a bare expression shows
 * it, else as print does. */
int show_value(session *s, buf *out, value v, bool repr, kv_err *e);

/* Appends the result of a command, complete with newlines; several keys are headed `5:`. */
int show_result(session *s, buf *out, const result *r, kv_err *e);

/* A scalar or a context as a field, or as an item where name is NULL. */
void show_scalar_json(json_writer *w, const char *name, value v);

/* A dict as an object; part writes each value. */
typedef int (*show_json_part)(json_writer *w, const char *name, value v, kv_err *e);
int show_dict_json(json_writer *w, const char *name, value dict, show_json_part part, kv_err *e);

/* Appends a key as a user would write it: 3, fc1.weight, "two words". */
void show_key(buf *out, kv_key key);

/* Appends a name as it stands between quotes of the language: a quote in it, backslashes and
 * hidden characters as escapes. */
void show_quoted(buf *out, const char *name, char quote);

/* Appends the indices of element i of an array: [0, 1]. */
void show_index(buf *out, const kv_array *a, int64_t i);

/* The format of a name ("numpy", "csv", …). Error: usage, with "did you mean". */
int show_format_parse(show_format *out, const char *name, kv_err *e);
const char *show_format_name(show_format f);

#endif
