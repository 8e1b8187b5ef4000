/* The public functions of kvstore.h check their arguments with these before they enter a store. */
#ifndef ARGS_H
#define ARGS_H

#include "kvstore.h"

/* There is a store. Error: usage. */
int args_store(const kv *store, kv_err *e);

/* The same, and its type has this capability (capability.h). Errors: usage, unsupported. */
int args_can(const kv *store, uint32_t capability, kv_err *e);

/* All keys and arrays are there. keys_are, arrays_are: the names of the two arguments.
 * Errors: value (n is negative, a missing array), usage, and those of call_check_form. */
int args_pairs(const kv_pairs *p, const char *keys_are, const char *arrays_are, kv_err *e);

/* n options with a name and a value each; opts_are: the name of the argument. Errors: value, usage.
 */
int args_options(const kv_opt *opts, int n, const char *opts_are, kv_err *e);

/* The checks of a call that moves arrays, in this order, before it takes the store's lock. */
typedef struct entry {
    uint32_t flags;     /* that the call may have */
    uint32_t can;       /* what its type must be able to do: capability.h; 0: nothing */
    const char *arrays; /* the name of its arrays, whose keys are "keys"; those of `more` are "outs"
                           and "okeys" */
} entry;

/* more: NULL or p, or the arrays for the results of a call that has values as well.
 * Errors: value, usage, unsupported, and those of args_pairs. */
int enter(const entry *x, const kv *store, const kv_pairs *p, const kv_pairs *more,
          const kv_call *how, kv_err *e);

#endif
