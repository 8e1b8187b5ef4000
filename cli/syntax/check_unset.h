/* --check: names that are read although nothing in all texts can ever give them a value. */
#ifndef SYNTAX_CHECK_UNSET_H
#define SYNTAX_CHECK_UNSET_H

#include "session/session.h"

/* Looks through the texts of a session that collects errors, once all are read. Each name is an
 * error where a text first reads it. Names that a part that could not be read, or a file whose name
 * is computed, may set are no errors: then nothing is said. Error: memory. */
int check_unset(session *s, kv_err *e);

#endif
