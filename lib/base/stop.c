/* The answer of the process, a function that the program set, or none; and those of threads. */
#include "base/stop.h"

#include <stddef.h>

static int (*answer)(void); /* atomic */
static _Thread_local stop_answer here;

void stop_ask(int (*pending)(void))
{
    __atomic_store_n(&answer, pending, __ATOMIC_RELEASE);
}

stop_answer stop_ask_here(stop_answer a)
{
    stop_answer before = here;
    here = a;
    return before;
}

stop_answer stop_here(void)
{
    return here;
}

bool stop_asked(void)
{
    if (here.pending)
        return here.pending(here.arg) != 0;
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
