/* The operation push of a store in this process: from the values of a call to the stored arrays.
 * Every step that can fail comes before the store changes: slots, sums of rows, the host lines of a
 * rule, memory. The work on elements comes last, and may run later. */
#ifndef CORE_PUSH_H
#define CORE_PUSH_H

#include "core/call.h"

/* Errors: those of kv_push. What can fail when everything has been updated all the same: an updater
 * in C, for its own key; a printed line. */
extern const call_ops push_ops;

#endif
