/* How a session with -s ends: a prompt is told what was written, and asked before the file of
 * another tool changes; a dry run says what would change. */
#ifndef CLI_STATE_LEAVE_H
#define CLI_STATE_LEAVE_H

#include "state.h"

/* Saves what the session did (state_save). terminal: somebody typed, who is told what was written,
 * and asked before the file of another tool changes. With -v scripts are told as well. A file that
 * is only read gives a terminal the lines of state_preview. Errors: those of state_save. */
int state_leave(state *st, session *s, bool terminal, kv_err *e);

/* Saves nothing, and tells a terminal so if there was something to be saved. */
void state_discard(const state *st, const session *s, bool terminal);

/* Says on stderr how the file would change (--dry-run): keys new, changed and gone, states, the
 * updater. Without a state file: what the store kv holds. Errors: those of kv_load, memory, and key
 * where state_save would not write it. */
int state_preview(const state *st, session *s, kv_err *e);

#endif
