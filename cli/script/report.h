/* Errors as people read them, and exit codes. */
#ifndef SCRIPT_REPORT_H
#define SCRIPT_REPORT_H

#include "script/session.h"

/* Exit codes, by what a caller can do about it. */
typedef enum exit_code {
    EXIT_DONE = 0,
    EXIT_NO = 1,           /* the answer is no: assert, expect, -e */
    EXIT_NOT_UNDERSTOOD = 2,
    EXIT_FAILED = 3,       /* a command failed */
    EXIT_UNSUPPORTED = 4,  /* not in this build, on this machine or for this store type */
    EXIT_IO = 5,           /* reading or writing failed, or a file is malformed */
    EXIT_PEER = 6,         /* lock, time-out, lost peer */
    EXIT_BUG = 70,
    EXIT_SIGINT = 130,
    EXIT_SIGTERM = 143
} exit_code;

/* The exit code of a kv_code. */
exit_code report_exit_code(int code);

/* Appends e as report_error writes it, and empties the session's details. */
void report_text(session *s, const kv_err *e, buf *out);

/* Writes e to stderr: place, sentence, source line with a caret, details, hint. Keeps the exit code
 * of the first error of the session, and empties the session's details. */
void report_error(session *s, const kv_err *e);

#endif
