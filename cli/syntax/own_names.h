/* Names that every rule has, such as lr: in a block they win over a variable of the script. */
#ifndef SYNTAX_OWN_NAMES_H
#define SYNTAX_OWN_NAMES_H

#include "lang/ast.h"
#include "session/session.h"
#include "session/unit.h"

/* Warns of each name of a rule's own that it reads and that hides a variable of the script. hides:
 * there is such a variable, and no option, if the name has one, gives the rule its value. In a def
 * the variable wins. */
void own_names_warn(session *s, unit *u, const rule_ast *rule,
                    bool (*hides)(void *arg, const char *name, const char *option), void *arg);

#endif
