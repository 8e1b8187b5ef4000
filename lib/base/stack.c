/* The C library is asked for the end of the stack once for each thread. */
#include "base/stack.h"

#include <pthread.h>

#define SPARE ((size_t)512 << 10)

_Thread_local uintptr_t stack_lowest = UINTPTR_MAX;

static uintptr_t find_lowest(void)
{
    pthread_attr_t attr;
    void *end;
    size_t size, guard = 0;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return 0; /* nothing is known: no address is below it */
    int rc = pthread_attr_getstack(&attr, &end, &size);
    pthread_attr_getguardsize(&attr, &guard);
    pthread_attr_destroy(&attr);
    return rc ? 0 : (uintptr_t)end + guard + (size / 2 < SPARE ? size / 2 : SPARE);
}

bool stack_measure(void)
{
    if (stack_lowest == UINTPTR_MAX)
        stack_lowest = find_lowest();
    return (uintptr_t)__builtin_frame_address(0) < stack_lowest;
}

size_t stack_room(void)
{
    return stack_measure() ? 0 : (uintptr_t)__builtin_frame_address(0) - stack_lowest;
}
