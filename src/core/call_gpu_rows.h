/* Pushes on GPUs where rows matter: row_sparse values for a rule, and rules that work row by row.
 * The arrays of a key stay on its GPU; of a push of rows only those rows travel, and their ids. */
#ifndef CORE_CALL_GPU_ROWS_H
#define CORE_CALL_GPU_ROWS_H

#include "core/call.h"

/* Whether a group of a push is one of these, be it that a GPU can do it or not. */
bool call_gpu_rows_is(const call_group *g);

/* Compiles the rule of such a group if a GPU will run it, before anything is changed. Errors:
 * unsupported, memory. */
int call_gpu_rows_prepare(const call_group *g, kv_err *e);

/* Does what GPUs can do of such groups, and marks it CALL_ON_GPU. Errors: memory, those of a
 * device; what is left then is undefined. */
int call_gpu_rows_push(call *c, kv_err *e);

#endif
