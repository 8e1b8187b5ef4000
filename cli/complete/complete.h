/* Completion and hints: what may stand at the cursor, and what is still missing behind it.
 *
 * Everything comes from the tables that the parser reads and from what the session holds: commands,
 * functions, settings, keys, variables, stores, updaters. */
#ifndef COMPLETE_COMPLETE_H
#define COMPLETE_COMPLETE_H

#include "session/session.h"
#include "term/line.h"

/* Offers words for the last one of the text (n bytes), which ends at the cursor. */
void complete_words(session *s, const char *text, size_t n, line_words *out);

/* Appends what is still missing: the arguments of a command or of a call. */
void complete_hint(session *s, const char *text, size_t n, buf *out);

#endif
