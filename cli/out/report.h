/* Errors as people read them, and exit codes. */
#ifndef OUT_REPORT_H
#define OUT_REPORT_H

#include "run/session.h"
#include "term/exit_code.h"

/* The exit code of a kv_code. */
exit_code report_exit_code(int code);

/* Adds to the session's details that what failed was called at node of the text that runs. */
void report_caller(session *s, const struct ast *node);

/* Appends the session's details as reports show them. */
void report_details(const session *s, buf *out);

/* Appends e as report_error writes it, and empties the session's details. */
void report_text(session *s, const kv_err *e, buf *out);

/* Writes e to stderr: place, sentence, source line with a caret, details, hint. Keeps the exit code
 * of the first error of the session, and empties the session's details. */
void report_error(session *s, const kv_err *e);

#endif
