/* The lines that a rule prints: text from the host lines, and arrays that the plan writes.
 *
 * The arrays are made before anything is written and hold, when the plan has run, what the printed
 * names stood for at the place of the `print`. They become text after that, one line after the
 * other.
 */
#ifndef CORE_PRINTED_H
#define CORE_PRINTED_H

#include "core/slot.h"
#include "kvstore.h"
#include "vm/rule.h"

/* The receiver of the lines that a store's rules print. */
typedef struct printed_to {
    void (*line)(void *arg, const char *line); /* NULL: none */
    void *arg;
    kv_show show; /* NULL: as numpy prints arrays */
    void *show_arg;
} printed_to;

/* The arrays of one update: one for each of u->prints, NULL without any. */
typedef struct printed {
    kv_array **arrays;
    int64_t n;
} printed;

/* Makes the arrays for an update of s. sum: the row_sparse input, or NULL. Error: memory; *p needs
 * printed_release all the same. */
int printed_make(printed *p, const rule_update *u, const slot *s, const kv_array *sum, kv_err *e);
void printed_release(printed *p);

/* Sets the arrays that the plan writes the printed values to. */
void printed_arrays(const printed *p, plan_arrays *a);

/* Delivers the lines. Errors: memory, those of show. */
int printed_lines(const printed *p, const rule_update *u, const printed_to *to, kv_err *e);

#endif
