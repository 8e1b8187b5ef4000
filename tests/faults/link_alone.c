/* The link of a rank that is alone in its job, for the plugin of several machines in sessions whose
 * calls fail: without MPI, whose own calls are not kvctl's. Records to itself do not pass a link,
 * so that nothing is sent here; the net's thread sleeps and is woken. */
#include "distributed/link.h"

#include <pthread.h>
#include <stddef.h>
#include <time.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool wake;
} sleeper = {.lock = PTHREAD_MUTEX_INITIALIZER, .woken = PTHREAD_COND_INITIALIZER};

int link_open(kv_err *e)
{
    (void)e;
    return KV_OK;
}

int link_rank(void)
{
    return 0;
}

int link_size(void)
{
    return 1;
}

bool link_shares_memory(int rank)
{
    (void)rank;
    return true;
}

link_rec *link_reserve(int rank, int64_t bytes)
{
    (void)rank, (void)bytes;
    return NULL;
}

link_rec *link_reserve_by(int rank, int64_t bytes, int32_t priority, bool whole)
{
    (void)priority, (void)whole;
    return link_reserve(rank, bytes);
}

void link_commit(int rank)
{
    (void)rank;
}

bool link_poll(void (*take)(int rank, const link_rec *r), int64_t bytes)
{
    (void)take, (void)bytes;
    return false;
}

void link_release(void)
{
}

bool link_prepare_sleep(bool listening)
{
    (void)listening;
    return true;
}

void link_sleep(int64_t us)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&sleeper.lock);
    if (us > 0 && !sleeper.wake)
        pthread_cond_timedwait(&sleeper.woken, &sleeper.lock, &until);
    sleeper.wake = false;
    pthread_mutex_unlock(&sleeper.lock);
}

void link_wake(void)
{
    pthread_mutex_lock(&sleeper.lock);
    sleeper.wake = true;
    pthread_cond_signal(&sleeper.woken);
    pthread_mutex_unlock(&sleeper.lock);
}
