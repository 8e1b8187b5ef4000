/* Pages: entries with their prompts, and between them their outputs, pasted, typed at the prompt,
 * or compared with what they give now (--verify). */
#pragma once

#include "launch/launch_job.h"
#include "session/session.h"

/* ---- Pages as tests ---- */

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

/* ---- The prompt ---- */

/* Reads and runs entries until the user leaves. quiet: without a banner. Returns 0, or the signal
 * that ended it. */
int prompt_run(session *s, bool quiet);

/* The same in a worker of a job whose entries launch reads: until they end, the session leaves or,
 * with stops, one fails. Returns 0, or a signal that ended it. */
int prompt_serve(session *s, const entry_source *from, bool stops);
