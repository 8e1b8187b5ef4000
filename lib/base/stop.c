/* Interrupting long work, and the room left on the stack. */
#include "base/stop.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

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

/* A program may run this code on a stack that it made itself, as coroutines do: nothing is known
 * about that one. */
static bool is_own(uintptr_t address)
{
    return address >= begin && address < end;
}

static void set_stack(uintptr_t from, size_t size, size_t guard)
{
    begin = from;
    end = from + size;
    stack_lowest = from + guard + (size / 2 < SPARE ? size / 2 : SPARE);
}

/* The stack of the first thread. Linux puts the name of the program at its top, lets it grow to the
 * limit, and keeps so many megabytes below it free. The C library would read /proc/self/maps, which
 * takes a seventh of the instructions of a start. */
static bool find_first(void)
{
    enum { FREE = 128 << 20 };
    const char *name = (const char *)getauxval(AT_EXECFN);
    uintptr_t page = (uintptr_t)getpagesize();
    struct rlimit limit;
    if (!name || gettid() != getpid() || getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur > FREE)
        return false;
    uintptr_t top = ((uintptr_t)name + strlen(name) + sizeof(void *) + page) / page * page;
    set_stack(top - limit.rlim_cur, limit.rlim_cur, 0);
    return is_own((uintptr_t)__builtin_frame_address(0));
}

static void find_stack(void)
{
    pthread_attr_t attr;
    void *base;
    size_t size, guard = 0;
    if (find_first())
        return;
    begin = end = stack_lowest = 0; /* no address is below it */
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &base, &size) == 0) {
        pthread_attr_getguardsize(&attr, &guard);
        set_stack((uintptr_t)base, size, guard);
    }
    pthread_attr_destroy(&attr);
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
