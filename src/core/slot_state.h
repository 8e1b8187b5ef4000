/* The memory of one key beside its value: states of an optimizer, and residuals of compressed
 * gradients. Both can be shared by reference, since arrays that have two holders are not changed in
 * place. */
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

/* Another one with the same arrays, which are then shared: a writer copies one first. NULL
 * gives NULL. Error: memory. */
int slot_state_share(slot_state **out, const slot_state *s, kv_err *e);

/* Gives everything back; NULL is allowed. */
void slot_state_free(slot_state *s);

/* The part of the gradients that their codes did not carry yet, for each position in the list of
 * values. Positions without an array have none. */
typedef struct residuals {
    kv_array **items; /* n of them, float32 in the shape of the key, where the values came from */
    int64_t n, cap;
    kv_array *sum; /* the decoded values of the last push added up, kept for its memory; or NULL */
} residuals;

/* Another one with the same arrays, which are then shared: a writer copies one first. NULL,
 * or one without items, gives NULL. Error: memory. */
int residuals_share(residuals **out, const residuals *r, kv_err *e);

/* Makes room for position `at`. *to becomes its place; without an array before, it holds NULL.
 * Error: memory. */
int residuals_place(residuals **r, int64_t at, kv_array ***to, kv_err *e);

/* Gives everything back; NULL is allowed. */
void residuals_free(residuals *r);

#endif
