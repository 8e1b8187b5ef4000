/* What a text would do to stores, found by looking at it before it runs. */
#ifndef SYNTAX_EFFECT_H
#define SYNTAX_EFFECT_H

#include "session/unit.h"

/* Whether running u may change a store: it holds a command that does, also in a function that is
 * never called, or something that cannot be known before, such as a file whose name is computed. */
bool effect_changes_store(const unit *u);

#endif
