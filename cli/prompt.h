/* The session at the prompt: the functions by which the terminal asks the language. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "session/session.h"

/* Reads and runs entries until the user leaves. quiet: without a banner. Returns 0, or the signal
 * that ended it. */
int prompt_run(session *s, bool quiet);

#endif
