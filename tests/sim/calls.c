/* The system calls of ranks. The linker brings the product's calls here (--wrap in the Makefile):
 * threads are fibers, clocks show the virtual time, pauses take virtual time, and a disk may be
 * slow, full or broken (disk.h). A process that asks for its number gets one of the simulation. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"
#include "world.h"

/* ---- Threads ---- */

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
    (void)a;
    world_call();
    *t = (pthread_t)world_begin(world_here(), run, arg);
    return 0;
}

int __wrap_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result)
{
    void *r = world_join((fiber *)t); /* NOLINT: it came from pthread_create above */
    if (result)
        *result = r;
    return 0;
}

int __wrap_pthread_detach(pthread_t t);
int __wrap_pthread_detach(pthread_t t)
{
    (void)t;
    return 0;
}

/* A mutex: locked or not. Its owner is not kept. */
static int *state(pthread_mutex_t *m)
{
    return &m->__data.__lock;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    world_call();
    while (*state(m))
        world_block(m, WORLD_FOREVER);
    *state(m) = 1;
    return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m)
{
    world_call();
    if (*state(m))
        return EBUSY;
    *state(m) = 1;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    *state(m) = 0;
    world_wake(m, 1);
    world_call();
    return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    *state(m) = 0;
    world_wake(m, 1);
    world_block(c, WORLD_FOREVER);
    return __wrap_pthread_mutex_lock(m);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t)
{
    *state(m) = 0;
    world_wake(m, 1);
    bool woken = world_block(c, t->tv_sec * 1000000000 + t->tv_nsec);
    __wrap_pthread_mutex_lock(m);
    return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
    world_wake(c, 1);
    world_call();
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
int __wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
    world_wake(c, INT32_MAX);
    world_call();
    return 0;
}

int __wrap_pthread_once(pthread_once_t *once, void (*run)(void));
int __wrap_pthread_once(pthread_once_t *once, void (*run)(void))
{
    if (!*once)
        run(); /* the product's do not wait */
    *once = 1;
    return 0;
}

int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void));
int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    (void)before;
    (void)parent;
    (void)child;
    return 0; /* a rank does not fork */
}

/* ---- Time ---- */

enum { EPOCH = 1600000000 /* seconds, of CLOCK_REALTIME at the beginning */ };

static struct timespec at(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock; /* both count from the beginning, so that waits until a time need no other one */
    world_call();
    *t = at(world_now());
    return 0;
}

time_t __wrap_time(time_t *t);
time_t __wrap_time(time_t *t)
{
    time_t now = EPOCH + world_now() / 1000000000;
    if (t)
        *t = now;
    return now;
}

int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
    if (world_here())
        world_doze((int64_t)us * 1000);
    else
        world_block(NULL, world_now() + (int64_t)us * 1000);
    return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    (void)left;
    world_block(NULL, world_now() + t->tv_sec * 1000000000 + t->tv_nsec);
    return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    world_doze(1000);
    return 0;
}

/* ---- Processes ---- */

enum { FIRST_PID = 1000 };

pid_t calls_pid(int rank)
{
    return FIRST_PID + rank;
}

pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
    const world_rank *r = world_here();
    return calls_pid(r ? r->number : -1);
}

int __wrap_on_exit(void (*run)(int status, void *arg), void *arg);
int __wrap_on_exit(void (*run)(int status, void *arg), void *arg)
{
    (void)run; /* whoever makes a rank leaves the net */
    (void)arg;
    return 0;
}
