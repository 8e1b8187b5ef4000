/* Threads of a test: begin and end them, and wait for what they do without a look too many. */
#pragma once

#include <pthread.h>
#include <time.h>

#include "test.h"

/* Between two looks at what must come. A thread that looks as often as this waits for nothing: the
 * others of the test have had as many turns. */
static inline void pause_shortly(void)
{
    enum { MOST_LOOKS = 30000 };
    static _Thread_local int looks;
    CHECK(++looks < MOST_LOOKS);
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static inline void sleep_ms(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static inline int look_at(const int *x)
{
    return __atomic_load_n(x, __ATOMIC_ACQUIRE);
}

static inline void set_to(int *x, int to)
{
    __atomic_store_n(x, to, __ATOMIC_RELEASE);
}

static inline void wait_for(const int *set)
{
    while (!look_at(set))
        pause_shortly();
}

/* Its stack has a size of its own, so that it can be made where the pool can make none. */
static inline pthread_t spawn(void *(*run)(void *), void *arg)
{
    pthread_t t;
    pthread_attr_t attr;
    CHECK_INT(pthread_attr_init(&attr), 0);
    CHECK_INT(pthread_attr_setstacksize(&attr, 1 << 20), 0);
    CHECK_INT(pthread_create(&t, &attr, run, arg), 0);
    pthread_attr_destroy(&attr);
    return t;
}

static inline void join(pthread_t t)
{
    CHECK_INT(pthread_join(t, NULL), 0);
}
