/* The C library is asked for the end of the stack once for each thread. */
#include "base/stack.h"

#include <pthread.h>

#define SPARE ((size_t)512 << 10)

_Thread_local uintptr_t stack_lowest = UINTPTR_MAX;
static _Thread_local uintptr_t begin, end; /* of the thread's stack; 0: nothing is known */

static void find_stack(void)
{
    pthread_attr_t attr;
    void *at;
    size_t size, guard = 0;
    stack_lowest = 0; /* no address is below it */
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &at, &size) == 0) {
        pthread_attr_getguardsize(&attr, &guard);
        begin = (uintptr_t)at;
        end = begin + size;
        stack_lowest = begin + guard + (size / 2 < SPARE ? size / 2 : SPARE);
    }
    pthread_attr_destroy(&attr);
}

/* A program may run this code on a stack that it made itself, as coroutines do: of that nothing is
 * known. */
static bool is_own(uintptr_t address)
{
    return address >= begin && address < end;
}

bool stack_measure(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (stack_lowest == UINTPTR_MAX)
        find_stack();
    return is_own(here) && here < stack_lowest;
}

size_t stack_room(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    bool low = stack_measure();
    return !is_own(here) ? SIZE_MAX : low ? 0 : here - stack_lowest;
}
