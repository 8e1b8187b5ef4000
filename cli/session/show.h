/* How values are shown: one place decides for print, pull, bare expressions and redirects. */
#ifndef SESSION_SHOW_H
#define SESSION_SHOW_H

#include "session/result.h"
#include "session/session.h"

/* Appends v in the session's format, without a newline at the end. repr: as a bare expression shows
 * it, else as print does. */
int show_value(session *s, buf *out, value v, bool repr, kv_err *e);

/* Appends what a command gave, complete with newlines; several keys are headed `5:`. */
int show_result(session *s, buf *out, const result *r, kv_err *e);

/* Appends a scalar or a context as JSON; integers beyond 2^53 as text. */
void show_scalar_json(buf *out, value v);

/* Appends a key as a user would write it: 3, fc1.weight, "two words". */
void show_key(buf *out, kv_key key);

/* The format of a name ("numpy", "csv", …). Error: usage, with "did you mean". */
int show_format_parse(show_format *out, const char *name, kv_err *e);
const char *show_format_name(show_format f);

#endif
