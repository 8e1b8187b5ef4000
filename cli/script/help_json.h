/* The command table and the functions as JSON, for other programs: completion, editors, pages. */
#ifndef SCRIPT_HELP_JSON_H
#define SCRIPT_HELP_JSON_H

#include "base/buf.h"
#include "script/command.h"
#include "script/function.h"

/* Appends one object, {"v":1,"commands":[…],"functions":[…]}, with c and f alone unless both are
 * NULL. */
void help_json(buf *out, const command *c, const function *f);

#endif
