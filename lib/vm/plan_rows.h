/* Running rules by rows. */
#ifndef VM_PLAN_ROWS_H
#define VM_PLAN_ROWS_H

#include "vm/plan_work.h"

/* All passes over the rows of the arrays: the present ones, or every one. */
void plan_rows_run(shared *s);

/* The address at which the number of a row is read, or written; NULL when the row has none. k: its
 * number among the present rows, or -1: such a row keeps its states. */
char *plan_rows_cell(const plan_arrays *a, const plan_row *m, int64_t row, int64_t k, size_t bytes);

#endif
