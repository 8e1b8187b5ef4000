/* A lane has a lock of one word, for which only a thread that shares the lane competes, and the one
 * that ends the profile. So no event is added to a lane that has been emptied.
 */
#include "engine/trace.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { LANES = 64 };

/* A line of the cache for each. */
typedef struct lane {
    _Alignas(64) int taken;
    trace_event *events;
    int64_t n, cap;
    arena keys;
    int64_t lost; /* events for which there was no memory */
} lane;

int trace_is_on;

/* Part of the process-wide state that src/runtime.h lists. */
static struct {
    pthread_mutex_t lock; /* of start and stop */
    lane lanes[LANES];
    int threads;     /* atomic: so far */
    uint64_t ops;    /* atomic: so far */
    uint64_t first;  /* atomic: the first number of this profile */
    int64_t events;  /* atomic: of this profile, with the dropped ones */
    int64_t started; /* atomic */
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int thread;

static void lock_lane(lane *l)
{
    while (__atomic_exchange_n(&l->taken, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void unlock_lane(lane *l)
{
    __atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE);
}

/* ---- Adding ---- */

uint64_t trace_number(void)
{
    return trace_on() ? __atomic_add_fetch(&trace.ops, 1, __ATOMIC_RELAXED) : 0;
}

int64_t trace_now(void)
{
    return clock_ns() - __atomic_load_n(&trace.started, __ATOMIC_RELAXED);
}

/* The first keys of the event, with their names, as memory of the lane; false without any. */
static bool copy_keys(lane *l, trace_event *ev)
{
    int64_t n = ev->nkeys < TRACE_KEYS ? ev->nkeys : TRACE_KEYS;
    if (n == 0)
        return true;
    kv_key *keys = arena_alloc(&l->keys, (size_t)n * sizeof *keys, NULL);
    for (int64_t i = 0; keys && i < n; i++) {
        const char *name = ev->keys[i].name;
        keys[i] = ev->keys[i];
        if (name && !(keys[i].name = arena_text(&l->keys, name, strlen(name), NULL)))
            return false;
    }
    ev->keys = keys;
    return keys != NULL;
}

void trace_add(const trace_event *event)
{
    if (!trace_on())
        return;
    if (!thread)
        thread = __atomic_add_fetch(&trace.threads, 1, __ATOMIC_RELAXED);
    lane *l = &trace.lanes[thread % LANES];
    lock_lane(l);
    if (__atomic_load_n(&trace_is_on, __ATOMIC_ACQUIRE) &&
        event->op >= __atomic_load_n(&trace.first, __ATOMIC_RELAXED)) {
        trace_event ev = *event;
        ev.thread = thread;
        if (__atomic_add_fetch(&trace.events, 1, __ATOMIC_RELAXED) <= TRACE_EVENTS) {
            if (copy_keys(l, &ev) &&
                mem_grow(&l->events, &l->cap, l->n + 1, sizeof *l->events, NULL) == KV_OK)
                l->events[l->n++] = ev;
            else
                l->lost++;
        }
    }
    unlock_lane(l);
}

/* ---- Beginning and end ---- */

int trace_start(kv_err *e)
{
    pthread_mutex_lock(&trace.lock);
    bool on = trace_on();
    if (!on) {
        uint64_t before = __atomic_load_n(&trace.ops, __ATOMIC_RELAXED);
        __atomic_store_n(&trace.first, before + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&trace.started, clock_ns(), __ATOMIC_RELAXED);
        __atomic_store_n(&trace.events, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&trace_is_on, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&trace.lock);
    return on ? kv_err_set(e, KV_E_VALUE, "a profile is being taken already") : KV_OK;
}

int trace_stop(int (*visit)(void *arg, const trace_event *event, kv_err *e), void *arg, kv_err *e)
{
    int rc = KV_OK;
    int64_t lost = 0;
    pthread_mutex_lock(&trace.lock);
    if (!trace_on()) {
        pthread_mutex_unlock(&trace.lock);
        return kv_err_set(e, KV_E_VALUE, "no profile is being taken");
    }
    __atomic_store_n(&trace_is_on, 0, __ATOMIC_RELEASE);
    for (int i = 0; i < LANES; i++) {
        lane *l = &trace.lanes[i];
        lock_lane(l);
        for (int64_t k = 0; k < l->n && visit && !rc; k++)
            rc = visit(arg, &l->events[k], e);
        mem_free(l->events);
        arena_release(&l->keys);
        lost += l->lost;
        l->events = NULL;
        l->n = l->cap = l->lost = 0;
        unlock_lane(l);
    }
    pthread_mutex_unlock(&trace.lock);
    if (!rc && lost)
        rc =
            kv_err_set(e, KV_E_MEMORY, "no memory for %lld events of the profile", (long long)lost);
    return rc;
}

int64_t trace_left_out(void)
{
    int64_t n = __atomic_load_n(&trace.events, __ATOMIC_RELAXED);
    return n > TRACE_EVENTS ? n - TRACE_EVENTS : 0;
}
