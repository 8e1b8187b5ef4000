/* Transcripts as tests: the output of a session in a page, compared with the output now. */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include "session/session.h"

/* Runs the entries of a page in one session and compares what follows each with what it prints,
 * errors included. An entry is a line that begins with a prompt (`kv> `, also `kv:b> `, `kv*> ` and
 * `kv[0/4]> `) and the lines behind it that begin with `..> `. Where the page has fences (``` or
 * ~~~), as Markdown has, only what stands between them counts, without the indentation of its
 * fence.
 *
 * The comparison ignores blanks at the ends of lines, empty lines at the end of an output, and the
 * file and line in the place of an error, since a reader does not care about them.
 *
 * update: the page, "-" for stdout, is rewritten with what came out. Differences go to stderr; the
 * error expect says how many there are. Errors: expect, io, memory, interrupted, timeout. */
int verify_file(session *s, const char *path, bool update, kv_err *e);

#endif
