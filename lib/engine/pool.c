/* The pool of the process: part of the process-wide state that src/runtime.h lists. A job is
 * published by counting up `generation`; helpers that see it take parts until there are none. */
#include "engine/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* How often a helper looks for work before it sleeps: about 20 microseconds. */
#define SPINS 4000

/* A job: parts are taken by counting up. */
typedef struct job {
    void (*run)(void *arg, int64_t part, int worker);
    void *arg;
    int64_t nparts;
} job;

/* The pool of the process. `busy` belongs to the caller whose job runs; `lock` guards sleeping. */
static struct pool {
    pthread_mutex_t busy, lock;
    pthread_cond_t wake;
    pthread_once_t once;
    int workers;
    bool started;
    job job;
    atomic_llong next;      /* the next part */
    atomic_int working;     /* helpers that have not ended with the job */
    atomic_uint generation; /* of jobs; a helper waits for the next one */
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .once = PTHREAD_ONCE_INIT};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* ---- Size ------------------------------------------------------------------------------------ */

/* The quota of the cgroup in whole processors, at least 1; a large number when there is none. */
static int cgroup_processors(void)
{
    long quota = 0, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!f)
        return POOL_MAX_WORKERS;
    int read = fscanf(f, "%ld %ld", &quota, &period);
    fclose(f);
    if (read != 2 || quota <= 0 || period <= 0)
        return POOL_MAX_WORKERS;
    return quota < period ? 1 : (int)(quota / period);
}

static void in_child(void)
{
    pthread_mutex_init(&pool.busy, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pool.started = false;
}

static void find_size(void)
{
    cpu_set_t set;
    const char *given = getenv("KVSTORE_THREADS");
    int n = given ? atoi(given) : 0;
    if (n < 1)
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int quota = given ? n : cgroup_processors();
    n = quota < n ? quota : n;
    pool.workers = n > POOL_MAX_WORKERS ? POOL_MAX_WORKERS : n;
    pthread_atfork(NULL, NULL, in_child);
}

int pool_workers(void)
{
    pthread_once(&pool.once, find_size);
    return pool.workers;
}

/* ---- Working --------------------------------------------------------------------------------- */

static void work(int worker)
{
    const job j = pool.job;
    for (int64_t part; (part = atomic_fetch_add(&pool.next, 1)) < j.nparts;)
        j.run(j.arg, part, worker);
}

static void await_generation(unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&pool.generation) != seen)
            return;
        relax();
    }
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.generation) == seen)
        pthread_cond_wait(&pool.wake, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

static void *helper(void *arg)
{
    int worker = (int)(intptr_t)arg;
    for (unsigned seen = 0;; seen++) {
        await_generation(seen);
        work(worker);
        atomic_fetch_sub(&pool.working, 1);
    }
    return NULL;
}

/* Makes the helpers. A process that may not have all of them does with none. */
static bool start(void)
{
    if (pool.started)
        return true;
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    atomic_store(&pool.generation, 0);
    int made = 1;
    while (made < pool.workers && !pthread_create(&thread, &attr, helper, (void *)(intptr_t)made))
        made++;
    pthread_attr_destroy(&attr);
    pool.workers = made;
    pool.started = true;
    return made > 1;
}

static void publish(const job *j)
{
    pool.job = *j;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.working, pool.workers - 1);
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.generation, 1);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
}

void pool_run(int64_t nparts, void (*run)(void *arg, int64_t part, int worker), void *arg)
{
    job j = {run, arg, nparts};
    bool shared = nparts > 1 && pool_workers() > 1 && pthread_mutex_trylock(&pool.busy) == 0;
    if (shared && !(start() && pool.workers > 1)) {
        pthread_mutex_unlock(&pool.busy);
        shared = false;
    }
    if (!shared) {
        for (int64_t part = 0; part < nparts; part++)
            run(arg, part, 0);
        return;
    }
    publish(&j);
    work(0);
    while (atomic_load(&pool.working) > 0)
        relax();
    pthread_mutex_unlock(&pool.busy);
}
