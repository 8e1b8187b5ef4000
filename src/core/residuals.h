/* What compressed gradients still owe a key: for each position in the list of values one array, the
 * part of that position's gradients that its codes did not carry yet. */
#ifndef CORE_RESIDUALS_H
#define CORE_RESIDUALS_H

#include "kv_array.h"

/* Positions without an array owe nothing. */
typedef struct residuals {
    kv_array **items; /* n of them, float32 in the shape of the key, where the values came from */
    int64_t n, cap;
    kv_array *sum; /* the decoded values of the last push added up, kept for its memory; or NULL */
} residuals;

/* Another one with the same arrays, which are then shared: who changes one copies it first. NULL,
 * or one without items, gives NULL. Error: memory. */
int residuals_share(residuals **out, const residuals *r, kv_err *e);

/* Gives everything back; NULL is allowed. */
void residuals_free(residuals *r);

#endif
