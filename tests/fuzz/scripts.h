/* Sessions for targets that run texts of the language: with --safe, in a folder with some files,
 * and with a time after which work is asked to stop, as --timeout does it. */
#pragma once

#include "session/session.h"

/* An empty session. Its work is asked to stop after so many milliseconds. */
void scripts_begin(session *s, int ms);

/* Releases it. The files of the folder are as they were. */
void scripts_end(session *s);

/* Runs a text in it; what it prints goes to stdout. */
int scripts_run(session *s, const char *text, size_t n, kv_err *e);
