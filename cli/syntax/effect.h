/* The effect of a text on stores, found in its tree before it runs. */
#ifndef SYNTAX_EFFECT_H
#define SYNTAX_EFFECT_H

#include "session/unit.h"

/* Returns true if running u may change a store: it holds a command that changes stores, also in a
 * function that is never called, or one whose effect is unknown before it runs, such as `source` of
 * a file whose name is computed. */
bool effect_changes_store(const unit *u);

#endif
