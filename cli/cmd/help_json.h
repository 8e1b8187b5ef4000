/* The command table and the functions as JSON, for other programs: completion, editors, pages. */
#ifndef CMD_HELP_JSON_H
#define CMD_HELP_JSON_H

#include "base/buf.h"
#include "syntax/command.h"
#include "syntax/function.h"

/* Appends one object, {"v":1,"commands":[…],"functions":[…]}, with c and f alone unless both are
 * NULL. */
void help_json(buf *out, const command *c, const function *f);

#endif
