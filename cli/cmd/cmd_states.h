/* The table of states that info --states gives. */
#ifndef CMD_CMD_STATES_H
#define CMD_CMD_STATES_H

#include "eval/eval.h"
#include "session/rows.h"

/* The optimizer and its own numbers, added as rows of a name and a value. Errors as below. */
int cmd_states_summary(kv *store, rows *summary, kv_err *e);

/* What the optimizer in use keeps for these keys, in the order of updates; keys NULL: for all. The
 * caller releases *table, also after a failure. Errors: key, usage (no optimizer), unsupported (the
 * updater is a C function), memory. */
int cmd_states_table(kv *store, rows *table, const key_list *keys, kv_err *e);

#endif
