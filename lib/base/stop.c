/* Interrupting long work, and the room left on the stack. */
#include "base/stop.h"

#include <pthread.h>
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

/* ---- The stack: the C library is asked for its end once
 * a thread -------------------------------- */

#define SPARE ((size_t)512 << 10)

_Thread_local uintptr_t stack_lowest = UINTPTR_MAX;
static _Thread_local uintptr_t begin, end; /* of the thread's stack; 0: nothing is known */

static void find_stack(void)
{
    pthread_attr_t attr;
    void *base;
    size_t size, guard = 0;
    stack_lowest = 0; /* no address is below it */
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &base, &size) == 0) {
        pthread_attr_getguardsize(&attr, &guard);
        begin = (uintptr_t)base;
        end = begin + size;
        stack_lowest = begin + guard + (size / 2 < SPARE ? size / 2 : SPARE);
    }
    pthread_attr_destroy(&attr);
}

/* A program may run this code on a stack that it made itself, as coroutines do: nothing is known
 * about that one. */
static bool is_own(uintptr_t address)
{
    return address >= begin && address < end;
}

bool stack_measure(void)
{
    uintptr_t at = (uintptr_t)__builtin_frame_address(0);
    if (stack_lowest == UINTPTR_MAX)
        find_stack();
    return is_own(at) && at < stack_lowest;
}

size_t stack_room(void)
{
    uintptr_t at = (uintptr_t)__builtin_frame_address(0);
    bool low = stack_measure();
    return !is_own(at) ? SIZE_MAX : low ? 0 : at - stack_lowest;
}
