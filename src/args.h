/* The public functions of kvstore.h check their arguments with these before they enter a store. */
#ifndef ARGS_H
#define ARGS_H

#include "kvstore.h"

/* Parsers and readers ask the kv_err whether it holds an error already, so they need one: the
 * caller's, or where that is NULL unused, emptied. */
static inline kv_err *args_err(kv_err *e, kv_err *unused)
{
    if (e)
        return e;
    *unused = (kv_err){0};
    return unused;
}

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

/* No flags but these. Error: value. */
int args_flags(const kv_call *how, uint32_t flags, kv_err *e);

#endif
