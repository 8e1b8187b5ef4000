/* The terms that a merge ranks, as a program apart from its plan. */
#ifndef VM_MERGE_RANK_H
#define VM_MERGE_RANK_H

#include "vm/program.h"

/* Makes a program of what x, a value of b, is made of. Slot s of it reads the array of slot
 * (*slots)[s] of a plan, and x goes to slot *terms. slots is the caller's. Errors: usage (x follows
 * from a reduction or a ranking), memory. */
int merge_rank_make(prog **out, int16_t **slots, int *terms, const prog_builder *b, prog_value x,
                    kv_err *e);

#endif
