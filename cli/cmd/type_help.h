/* Help on store types: all of them, a line each, and one with what it does. */
#ifndef CMD_TYPE_HELP_H
#define CMD_TYPE_HELP_H

#include "base/buf.h"

/* Appends a line for each type: its name and what it is for, or why it is not available here. */
void type_list(buf *out);

/* Appends what there is to know of a type, by its name or another word for it, in any case. False
 * when there is no such type. */
bool type_show(buf *out, const char *name);

#endif
