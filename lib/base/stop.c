/* The one answer of the process: a function that the program set, or none. */
#include "base/stop.h"

#include <stddef.h>

static int (*answer)(void); /* atomic */

void stop_ask(int (*pending)(void))
{
    __atomic_store_n(&answer, pending, __ATOMIC_RELEASE);
}

bool stop_asked(void)
{
    int (*pending)(void) = __atomic_load_n(&answer, __ATOMIC_ACQUIRE);
    return pending && pending() != 0;
}

int stop_error(kv_err *e)
{
    return kv_err_set(e, KV_E_INTERRUPTED, "interrupted");
}

int stop_check(kv_err *e)
{
    return stop_asked() ? stop_error(e) : KV_OK;
}
