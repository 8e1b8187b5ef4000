/* Errors as people read them, and exit codes. */
#ifndef OUT_REPORT_H
#define OUT_REPORT_H

#include "session/session.h"
#include "term/exit_code.h"

/* Appends e as report_error writes it, and empties the session's details. */
void report_text(session *s, const kv_err *e, buf *out);

/* Writes e to stderr: place, sentence, source line with a caret, details, hint. Keeps the exit code
 * of the first error of the session, and empties the session's details. */
void report_error(session *s, const kv_err *e);

/* Reports all that --check found, in the order of files and places, each error once. */
void check_report(session *s);

#endif
