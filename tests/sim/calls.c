/* The system calls of ranks. The linker brings the product's calls here (--wrap in the Makefile):
 * threads are fibers, clocks show the virtual time, pauses take virtual time, and a disk may be
 * slow or full. A process that asks for its number gets one of the simulation. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"
#include "cpu/cpu.h"
#include "vm/plan.h"
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
    if (*state(m)) { /* its caller tries again and again */
        if (world_here() && !world_prices()->processors)
            world_doze(1000);
        return EBUSY;
    }
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

int __wrap_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  const struct timespec *t);
int __wrap_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  const struct timespec *t)
{
    (void)clock; /* CLOCK_MONOTONIC, as scripts/lint sees to */
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

/* ---- Memory and computing ----
 *
 * The Makefile gives these functions of the product's code other names: its allocations are counted
 * by rank, and what it does with many bytes takes virtual time. */

static void *count_in(void *block)
{
    world_rank *r = world_here();
    if (r && block) {
        r->bytes += (int64_t)malloc_usable_size(block);
        r->most_bytes = r->bytes > r->most_bytes ? r->bytes : r->most_bytes;
    }
    return block;
}

static void count_out(void *block)
{
    world_rank *r = world_here();
    if (r)
        r->bytes -= (int64_t)malloc_usable_size(block);
}

void *sim_malloc(size_t n);
void *sim_malloc(size_t n)
{
    return count_in(malloc(n));
}

void *sim_calloc(size_t n, size_t size);
void *sim_calloc(size_t n, size_t size)
{
    return count_in(calloc(n, size));
}

void *sim_realloc(void *old, size_t n);
void *sim_realloc(void *old, size_t n)
{
    int64_t had = (int64_t)malloc_usable_size(old);
    void *block = realloc(old, n);
    if (block && world_here())
        world_here()->bytes -= had;
    return count_in(block);
}

int sim_posix_memalign(void **out, size_t align, size_t n);
int sim_posix_memalign(void **out, size_t align, size_t n)
{
    int rc = posix_memalign(out, align, n);
    if (!rc)
        count_in(*out);
    return rc;
}

void sim_free(void *block);
void sim_free(void *block)
{
    count_out(block);
    free(block);
}

void *sim_memcpy(void *to, const void *from, size_t n);
void *sim_memcpy(void *to, const void *from, size_t n)
{
    if (world_here())
        world_owe((double)n * world_prices()->copy_ns);
    return memcpy(to, from, n);
}

void sim_sum_elements(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n);
void sim_sum_elements(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n)
{
    if (world_here())
        world_owe((double)(nsrc * n * kv_dtype_bytes(dtype)) * world_prices()->sum_ns);
    sum_elements(dst, src, nsrc, dtype, n);
}

void sim_plan_run(const plan *p, const plan_arrays *a, void *scratch);
void sim_plan_run(const plan *p, const plan_arrays *a, void *scratch)
{
    if (world_here())
        world_owe((double)a->size * sizeof(float) * world_prices()->update_ns);
    plan_run(p, a, scratch);
}

void sim_plan_run_part(const plan *p, const plan_arrays *a, int64_t from, int64_t n, void *scratch);
void sim_plan_run_part(const plan *p, const plan_arrays *a, int64_t from, int64_t n, void *scratch)
{
    if (world_here())
        world_owe((double)n * sizeof(float) * world_prices()->update_ns);
    plan_run_part(p, a, from, n, scratch);
}

/* ---- Time ---- */

enum { EPOCH = 1600000000 /* seconds, of CLOCK_REALTIME at the beginning */ };

/* CLOCK_REALTIME, which somebody sets every three seconds: an hour forth, then an hour back. */
static int64_t wall_ns(void)
{
    return EPOCH * INT64_C(1000000000) + world_now() +
           world_now() / 3000000000 % 2 * 3600 * INT64_C(1000000000);
}

static struct timespec at(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    world_call();
    *t = at(clock == CLOCK_REALTIME ? wall_ns() : world_now());
    return 0;
}

time_t __wrap_time(time_t *t);
time_t __wrap_time(time_t *t)
{
    time_t now = wall_ns() / 1000000000;
    if (t)
        *t = now;
    return now;
}

int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
    if (world_here() && !world_prices()->processors)
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
    if (world_prices()->processors)
        world_yield();
    else
        world_doze(1000);
    return 0;
}

/* ---- The disk ---- */

static struct {
    int64_t full_at, calls, slow_ns;
} disk;

void calls_disk(int64_t full_at, int64_t slow_ns)
{
    disk.full_at = full_at;
    disk.slow_ns = slow_ns;
}

/* Returns whether the call fails. */
static bool wait_for_disk(void)
{
    int64_t n = ++disk.calls, at = disk.full_at < 0 ? -disk.full_at : disk.full_at;
    if (disk.slow_ns)
        world_spend(world_about(disk.slow_ns));
    if (!at || (disk.full_at < 0 ? n != at : n < at))
        return false;
    errno = ENOSPC;
    return true;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd;
    return wait_for_disk() ? -1 : 0; /* no power is cut here */
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    return wait_for_disk() ? -1 : __real_rename(from, to);
}

/* ---- The file of a loss ----
 *
 * Ranks and watchers look for it all the time, and it is nearly never there: what is known takes no
 * system call, which was a tenth of a job. */

static bool lost; /* some process of this attempt has begun to write it */

static bool is_lost_file(const char *path)
{
    const char *name = strrchr(path, '/');
    return name && strcmp(name, "/lost") == 0;
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (!lost && is_lost_file(path)) {
        errno = ENOENT;
        return NULL;
    }
    return __real_fopen(path, mode);
}

int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to)
{
    lost |= is_lost_file(to);
    return __real_link(from, to);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    lost |= is_lost_file(path);
    int fd = __real_open(path, flags, flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0);
    va_end(more);
    return fd;
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
