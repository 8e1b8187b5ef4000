/* Transcripts as tests: what a session printed once, compared with what it prints now. */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include "script/session.h"

/* Runs the `kv> ` lines of a file in one session and compares what follows each with what it
 * prints, errors included. Lines that begin with `..> ` go on the entry above. Where the file has
 * fences (```), as a Markdown page does, only what stands between them counts. update: the file is
 * rewritten with what came out instead. Differences go to stderr; the error expect says how many
 * there are. Errors: expect, io, memory. */
int verify_file(session *s, const char *path, bool update, kv_err *e);

#endif
