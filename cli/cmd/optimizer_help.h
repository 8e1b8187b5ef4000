/* Help on optimizers: what there is, and what one does and takes. */
#ifndef CMD_OPTIMIZER_HELP_H
#define CMD_OPTIMIZER_HELP_H

#include "base/buf.h"
#include "kv_err.h"

/* Appends one line an optimizer: its names, and the comment of its rule. */
void optimizer_list(buf *out);

/* Appends the rule of an optimizer, in any case, the parameters that every optimizer takes, and the
 * schedules. False when there is none of that name. */
bool optimizer_show(buf *out, const char *name);

/* Whether a word of `help` asks for optimizers: "optimizer", in any case. */
bool optimizer_topic(const char *word);

/* Whether there is an optimizer of that name, in any case. Error: name, with names
 * that are close. */
int optimizer_check(const char *word, kv_err *e);

#endif
