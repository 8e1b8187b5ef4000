/* Arguments of public functions that may not be NULL. Elsewhere a NULL is the mistake of the caller
 * and is not looked for. */
#ifndef BASE_ARG_H
#define BASE_ARG_H

#include "base/kv_err.h"

/* KV_OK, or usage with the name of the argument. given: the pointer itself. */
static inline int arg_given(bool given, const char *name, kv_err *e)
{
    return given ? KV_OK : kv_err_set(e, KV_E_USAGE, "the argument `%s` is NULL", name);
}

#endif
