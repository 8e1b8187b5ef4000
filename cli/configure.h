/* A session as the command line, the environment and the start file want it. */
#pragma once

#include "options/options.h"
#include "session/session.h"

/* Applies options, which win over the environment, which wins over the start file. That file is
 * read only when prompt is set; a mistake in it is reported, and the session goes on. Errors: usage
 * (no such format or setting), io (a start file that was asked for), value, memory. */
int configure(session *s, const options *o, bool prompt, kv_err *e);

/* Reads and parses an input. Errors: io, memory, those of unit_read. */
int configure_read(session *s, const input *in, struct unit **out, kv_err *e);

/* Reads what will run, and reports its first mistake. Returns the exit code; 0: there is none. */
int configure_foresee(const options *o);
