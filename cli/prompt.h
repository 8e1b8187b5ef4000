/* The session at the prompt: the functions by which the terminal asks the language. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "launch/launch_prompt.h"
#include "session/session.h"

/* Reads and runs entries until the user leaves. quiet: without a banner. Returns 0, or the signal
 * that ended it. */
int prompt_run(session *s, bool quiet);

/* The same in a worker of a job whose entries launch reads: until they end, the session leaves or,
 * with stops, one fails. Returns 0, or a signal that ended it. */
int prompt_serve(session *s, const entry_source *from, bool stops);

#endif
