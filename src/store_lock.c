/* The lock of a store. */
#include "store_lock.h"

#include <errno.h>
#include <time.h>

#include "args.h"
#include "base/clock.h"
#include "base/kv_assert.h"
#include "core/store.h"
#include "runtime.h"

int store_lock_init(pthread_mutex_t *lock, kv_err *e)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);
    if (rc == 0) {
        pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
        rc = pthread_mutex_init(lock, &attr);
        pthread_mutexattr_destroy(&attr);
    }
    return rc ? kv_err_set(e, KV_E_MEMORY, "no memory for a lock") : KV_OK;
}

static int refuse_updater(kv_err *e)
{
    return kv_err_set(e, KV_E_USAGE,
                      "an updater or printer may ask its own store only for type and rank");
}

int store_look(const kv *store, kv_err *e)
{
    int rc = args_store(store, e);
    if (rc || (rc = kv_assert_check(KV_OK, e)))
        return rc;
    const kv *from = runtime_updater();
    if (engine_running() == &store->calls.group || from == store)
        return refuse_updater(e);
    return from ? runtime_order(from, store, e) : KV_OK;
}

/* Returns 0, EDEADLK, or ETIMEDOUT when the patience of this thread has ended. It asks again and
 * again: pthread_mutex_timedlock waits by a clock that may be set meanwhile, and the sanitizers do
 * not know pthread_mutex_clocklock. */
static int lock(pthread_mutex_t *m)
{
    const struct timespec at_once = {0}, pause = {.tv_nsec = 1000000};
    int ms = runtime_patience(), rc;
    if (ms < 0)
        return pthread_mutex_lock(m);
    int64_t end = clock_ms() + ms;
    while ((rc = pthread_mutex_timedlock(m, &at_once)) == ETIMEDOUT && clock_ms() < end)
        nanosleep(&pause, NULL);
    return rc;
}

int store_enter_keys(const kv *store, kv_err *e)
{
    int rc = store_look(store, e);
    if (rc)
        return rc;
    int why = lock((pthread_mutex_t *)&store->lock);
    if (why == ETIMEDOUT)
        return kv_err_set(e, KV_E_BUSY, "another thread is in a call of the store, and waits");
    return why == EDEADLK ? refuse_updater(e) : KV_OK;
}

int store_enter(const kv *store, kv_err *e)
{
    int rc = store_enter_keys(store, e);
    if (rc == KV_OK && store->slots.ngone > 0) {
        engine_wait_group((engine_group *)&store->calls.group, 0); /* they know slots by number */
        slot_settle((slot_table *)&store->slots);
    }
    return rc;
}

int store_enter_idle(kv *store, kv_err *e)
{
    int rc = store_enter(store, e);
    if (rc == KV_OK)
        engine_wait_group(&store->calls.group, 0);
    return rc;
}

bool store_enter_or_warn(const kv *store, const char *function)
{
    kv_err e = {0};
    if (store_enter_keys(store, &e) == KV_OK)
        return true;
    runtime_log("%s does nothing: %s", function, e.text);
    return false;
}

int store_leave(const kv *store, int rc, kv_err *e)
{
    pthread_mutex_unlock((pthread_mutex_t *)&store->lock);
    return kv_assert_check(rc, e);
}
