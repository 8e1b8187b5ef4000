/* Commands of the shell: `!CMD` and `| CMD`. */
#ifndef RUN_SHELL_H
#define RUN_SHELL_H

#include "session/session.h"

/* Runs a line of the shell with n bytes of text as its input; text NULL: kvctl's own stdin. Waits
 * for it. A reader that ends before it has read all is no error. Errors: io (it cannot start, or
 * ended with another status than 0), interrupted (Ctrl-C while it ran). */
int shell_run(session *s, const char *line, const char *text, size_t n, kv_err *e);

/* The same for a line of our own, whose output is appended to out; --dry-run runs it too. */
int shell_filter(session *s, const char *line, const char *text, size_t n, buf *out, kv_err *e);

#endif
