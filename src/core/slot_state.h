/* What an optimizer keeps for one key: the float32 master of a half-precision weight, and the
 * states of its rule. */
#ifndef CORE_SLOT_STATE_H
#define CORE_SLOT_STATE_H

#include "kv_array.h"
#include "vm/rule.h"

typedef struct slot_state {
    kv_array *master;                  /* or NULL */
    uint32_t have;                     /* bit i: state i exists */
    kv_array *arrays[PLAN_MAX_STATES]; /* of states that are arrays or rows; else NULL */
    host numbers[PLAN_MAX_STATES];     /* of `state key` */
} slot_state;

/* Another one with the same arrays, which are then shared: who changes one copies it first. NULL
 * gives NULL. Error: memory. */
int slot_state_share(slot_state **out, const slot_state *s, kv_err *e);

/* Gives everything back; NULL is allowed. */
void slot_state_free(slot_state *s);

#endif
