/* The pool of the process: part of the process-wide state that src/runtime.h lists.
 *
 * One lock covers the queue of tasks, the list of open jobs and the places. Parts of a job are
 * taken without it, by counting up. A thread takes the most urgent work, and prefers jobs to tasks,
 * because begun work should end first.
 */
#include "engine/pool.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/stop.h"

/* ---- The waits of the script ----------------------------------------------------------------- */

/* The state of the one wait of the script's thread, under a lock: who reads the place holds it, so
 * that the script stays where it is meanwhile. */

static struct {
    pthread_mutex_t lock;
    uint64_t threads; /* that have been the script's */
    uint64_t owner;   /* the one that is; 0: none; atomic */
    bool slices;
    script_place place;
    void *arg;
    const int *set; /* of the wait that runs, or NULL */
    int depth;      /* waits within waits */
    uint64_t waits; /* so far */
} script = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The number of this thread among the threads that were the script's. */
static _Thread_local uint64_t my_number;

void script_set(script_place place, void *arg, bool slices)
{
    pthread_mutex_lock(&script.lock);
    if (place) {
        my_number = my_number ? my_number : ++script.threads;
        script.place = place;
        script.arg = arg;
        script.slices = slices;
        script.set = NULL;
        script.depth = 0;
        __atomic_store_n(&script.owner, my_number, __ATOMIC_RELAXED);
    } else if (my_number && script.owner == my_number) {
        script.place = NULL;
        script.set = NULL;
        __atomic_store_n(&script.owner, 0, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&script.lock);
}

static bool is_script(bool slice)
{
    return my_number && __atomic_load_n(&script.owner, __ATOMIC_RELAXED) == my_number &&
           (!slice || script.slices);
}

void script_wait_begins(const int *set, bool slice)
{
    if (!is_script(slice))
        return;
    pthread_mutex_lock(&script.lock);
    if (script.owner == my_number && script.depth++ == 0) {
        script.set = set;
        script.waits++;
    }
    pthread_mutex_unlock(&script.lock);
}

void script_wait_ends(bool slice)
{
    if (!is_script(slice))
        return;
    pthread_mutex_lock(&script.lock);
    if (script.owner == my_number && script.depth > 0 && --script.depth == 0)
        script.set = NULL;
    pthread_mutex_unlock(&script.lock);
}

uint64_t script_waits(char *place, size_t room)
{
    pthread_mutex_lock(&script.lock);
    bool waits = script.owner && script.set && !__atomic_load_n(script.set, __ATOMIC_ACQUIRE) &&
                 (!place || script.place(script.arg, place, room));
    uint64_t number = waits ? script.waits : 0;
    pthread_mutex_unlock(&script.lock);
    return number;
}

bool script_hold(void)
{
    pthread_mutex_lock(&script.lock);
    if (script.owner && script.set)
        return true;
    pthread_mutex_unlock(&script.lock);
    return false;
}

void script_let_go(void)
{
    pthread_mutex_unlock(&script.lock);
}

/* ---- The pool -------------------------------------------------------------------------------- */

enum { SPINS = 4000 /* looks for work before a thread sleeps: about 20 microseconds of them */ };

/* On the stack of its leader, who published it, until no helper is at it. */
typedef struct job {
    void (*run)(void *arg, int64_t part, int worker);
    void *arg;
    int64_t nparts;
    atomic_llong next; /* the next part */
    atomic_int helpers;
    int32_t priority;
    stop_answer stop;  /* the leader's */
    struct job *below; /* the next in the list of open jobs */
} job;

/* All but the atomic ones are under the lock. */
static struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* for threads of the pool that sleep */
    pthread_cond_t event; /* for threads that wait for a flag or for helpers */
    pthread_once_t once;
    bool started;
    int workers, threads, sleeping, waiting;
    uint64_t places;         /* bit i: place i is free */
    pool_task *queue;        /* a pairing heap */
    uint64_t submitted;      /* so far */
    job *jobs;               /* the latest first */
    atomic_int top;          /* the priority of the queue's first, INT_MIN when it is empty */
    atomic_uint generation;  /* counts changes that a spinning thread must look at */
    bool (*poll)(void);      /* atomic */
    bool (*rest)(const int *set, int64_t us); /* atomic */
    void (*end_rest)(void); /* set before `rest` */
    atomic_int resting;      /* threads in `rest` */
    int processes;           /* that share the processors; atomic */
    int spins;               /* of SPINS; atomic */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .event = PTHREAD_COND_INITIALIZER,
          .once = PTHREAD_ONCE_INIT,
          .top = INT_MIN,
          .processes = 1,
          .spins = SPINS};

/* True for threads of the pool; the thread's place, -1 for none; the priority of its work. */
static _Thread_local bool of_pool;
static _Thread_local int place = -1;
static _Thread_local int32_t priority;

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

static void free_places(void)
{
    pool.places = pool.workers < 64 ? (1ull << pool.workers) - 1 : ~0ull;
}

static void in_child(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.event, NULL);
    pool.started = false;
    pool.threads = pool.sleeping = pool.waiting = 0;
    atomic_store(&pool.resting, 0);
    free_places();
    pthread_mutex_init(&script.lock, NULL);
    script.owner = 0;
    script.set = NULL;
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
    free_places();
    pthread_atfork(NULL, NULL, in_child);
}

int pool_workers(void)
{
    pthread_once(&pool.once, find_size);
    return pool.workers;
}

void pool_share(int processes)
{
    if (!kv_assert(processes > 0, "%d processes share the processors", processes))
        return;
    __atomic_store_n(&pool.processes, processes, __ATOMIC_RELAXED);
}

void pool_set_spins(int n)
{
    __atomic_store_n(&pool.spins, n, __ATOMIC_RELAXED);
}

static int spins(void)
{
    return __atomic_load_n(&pool.spins, __ATOMIC_RELAXED);
}

/* Returns true if a job may have helpers. */
static bool may_spread(void)
{
    return pool_workers() / __atomic_load_n(&pool.processes, __ATOMIC_RELAXED) > 1;
}

/* ---- The queue ------------------------------------------------------------------------------- */

static bool before(const pool_task *a, const pool_task *b)
{
    return a->priority > b->priority || (a->priority == b->priority && a->order < b->order);
}

static pool_task *meld(pool_task *a, pool_task *b)
{
    if (!a || !b)
        return a ? a : b;
    kv_assert(!a->next && !b->next,
              "tasks of priorities %d and %d are joined, and one has neighbours", a->priority,
              b->priority);
    if (before(b, a)) {
        pool_task *t = a;
        a = b;
        b = t;
    }
    b->next = a->child;
    a->child = b;
    return a;
}

/* The heap of what lay below the first: its children are joined in pairs, then the pairs. */
static pool_task *meld_children(pool_task *child)
{
    pool_task *pairs = NULL, *all = NULL;
    while (child) {
        pool_task *a = child, *b = a->next;
        child = b ? b->next : NULL;
        a->next = NULL;
        if (b)
            b->next = NULL;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        pool_task *next = pairs->next;
        pairs->next = NULL;
        all = meld(all, pairs);
        pairs = next;
    }
    return all;
}

static void set_top(void)
{
    atomic_store(&pool.top, pool.queue ? pool.queue->priority : INT_MIN);
}

static pool_task *pop(void)
{
    pool_task *t = pool.queue;
    kv_assert(!t->next, "the first task of the queue has a neighbour");
    pool.queue = meld_children(t->child);
    set_top();
    return t;
}

/* ---- Working: the lock is held unless a comment says otherwise ---- */

static bool take_place(void)
{
    if (place >= 0 || !pool.places)
        return place >= 0;
    place = __builtin_ctzll(pool.places);
    kv_assert(place < pool.workers, "place %d is free, and there are %d", place, pool.workers);
    pool.places &= pool.places - 1;
    return true;
}

/* Wakes up to n threads that sleep. */
static void wake(int64_t n)
{
    atomic_fetch_add(&pool.generation, 1);
    if (n >= pool.sleeping && pool.sleeping)
        pthread_cond_broadcast(&pool.work);
    else
        for (; n > 0 && pool.sleeping; n--)
            pthread_cond_signal(&pool.work);
}

/* A thread of the pool that found no place sleeps; one of the pool looks for work itself. */
static void leave_place(void)
{
    kv_assert(place >= 0 && !(pool.places >> place & 1), "place %d is given back, and not taken",
              place);
    pool.places |= 1ull << place;
    place = -1;
    if (pool.queue && !of_pool)
        wake(1);
}

/* Runs a task that was popped; without the lock. A task is the process's work, whoever runs it, so
 * that no limit of this thread counts. */
static void run_task(pool_task *t)
{
    int32_t mine = priority;
    stop_answer stop = stop_ask_here((stop_answer){0});
    mem_limit *limit = mem_limit_here(NULL);
    priority = t->priority;
    t->run(t);
    priority = mine;
    mem_limit_here(limit);
    stop_ask_here(stop);
}

/* The first of the queue, if this thread may take it. */
static pool_task *next_task(void)
{
    bool refused = pool.queue && pool.queue->foreign && !of_pool && pool.threads > 0;
    return refused ? NULL : pool.queue;
}

/* Takes parts until there are none. The caller does not hold the lock. */
static void work(job *j)
{
    int32_t mine = priority;
    priority = j->priority;
    for (int64_t part; (part = atomic_fetch_add(&j->next, 1)) < j->nparts;) {
        j->run(j->arg, part, place);
        if (atomic_load_explicit(&pool.top, memory_order_relaxed) > j->priority) {
            /* a task is more urgent than the part that would come next */
            pthread_mutex_lock(&pool.lock);
            pool_task *t = next_task() && pool.queue->priority > j->priority ? pop() : NULL;
            pthread_mutex_unlock(&pool.lock);
            if (t)
                run_task(t);
        }
    }
    priority = mine;
}

/* Does one thing, if there is one and a place for it; says whether it did. */
static bool run_one(void)
{
    /* The most urgent job with parts left. */
    job *j = NULL;
    for (job *x = pool.jobs; x; x = x->below)
        if (atomic_load(&x->next) < x->nparts && (!j || x->priority > j->priority))
            j = x;
    pool_task *t = next_task();
    if (j && t && j->priority >= t->priority)
        t = NULL;
    bool had = place >= 0;
    if ((!j && !t) || !take_place())
        return false;
    if (t)
        pop();
    else
        atomic_fetch_add(&j->helpers, 1);
    pthread_mutex_unlock(&pool.lock);
    if (t)
        run_task(t);
    else {
        /* Takes parts of a job of another thread; without the lock. */
        stop_answer stop = stop_ask_here(j->stop);
        mem_limit *limit = mem_limit_here(NULL);
        work(j);
        mem_limit_here(limit);
        stop_ask_here(stop);
    }
    pthread_mutex_lock(&pool.lock);
    int helpers = t ? 0 : atomic_fetch_sub(&j->helpers, 1);
    kv_assert(t || helpers > 0, "a thread leaves a job that has %d helpers", helpers);
    if (helpers == 1 && pool.waiting)
        pthread_cond_broadcast(&pool.event);
    if (!had)
        leave_place();
    return true;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *thread(void *arg)
{
    (void)arg;
    of_pool = true;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (run_one())
            ;
        unsigned seen = atomic_load(&pool.generation);
        pthread_mutex_unlock(&pool.lock);
        for (int i = spins(); i > 0 && atomic_load(&pool.generation) == seen; i--)
            relax();
        pthread_mutex_lock(&pool.lock);
        pool.sleeping++;
        while (atomic_load(&pool.generation) == seen)
            pthread_cond_wait(&pool.work, &pool.lock);
        pool.sleeping--;
    }
    return NULL;
}

/* Makes the threads. If none can be made, tasks run in the threads that wait for them. */
static void start(void)
{
    if (pool.started)
        return;
    pool.started = true;
    pthread_attr_t attr;
    pthread_t made;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    while (pool.threads < pool.workers && pthread_create(&made, &attr, thread, NULL) == 0)
        pool.threads++;
    pthread_attr_destroy(&attr);
}

/* ---- The interface --------------------------------------------------------------------------- */

static void run_alone(int64_t nparts, void (*run)(void *arg, int64_t part, int worker), void *arg)
{
    for (int64_t part = 0; part < nparts; part++)
        run(arg, part, place < 0 ? 0 : place);
}

static void close_job(job *j)
{
    job **at = &pool.jobs;
    while (*at && *at != j)
        at = &(*at)->below;
    kv_assert(atomic_load(&j->next) >= j->nparts, "a job of %lld parts ends before part %lld",
              (long long)j->nparts, (long long)atomic_load(&j->next));
    if (kv_assert(*at, "a job of %lld parts is not open", (long long)j->nparts))
        *at = j->below;
    while (atomic_load(&j->helpers) > 0) {
        pool.waiting++;
        pthread_cond_wait(&pool.event, &pool.lock);
        pool.waiting--;
    }
}

void pool_run(int64_t nparts, void (*run)(void *arg, int64_t part, int worker), void *arg)
{
    bool had = place >= 0;
    if (nparts <= 1 || !may_spread()) {
        run_alone(nparts, run, arg);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    if (!take_place()) {
        pthread_mutex_unlock(&pool.lock);
        run_alone(nparts, run, arg);
        return;
    }
    start();
    job j = {.run = run, .arg = arg, .nparts = nparts, .priority = priority, .stop = stop_here(),
             .below = pool.jobs};
    pool.jobs = &j;
    wake(nparts - 1);
    pthread_mutex_unlock(&pool.lock);
    work(&j);
    for (int i = spins(); i > 0 && atomic_load(&j.helpers) > 0; i--)
        relax();
    pthread_mutex_lock(&pool.lock);
    close_job(&j);
    if (!had)
        leave_place();
    pthread_mutex_unlock(&pool.lock);
}

typedef struct each {
    int (*run)(void *arg, int64_t part, int worker, kv_err *e);
    void *arg;
    _Atomic(int64_t) failed; /* the first part that failed so far, or INT64_MAX */
    pthread_mutex_t lock;    /* of error */
    kv_err error;
} each;

static void run_each(void *arg, int64_t part, int worker)
{
    each *a = arg;
    kv_err e = {0};
    if (atomic_load(&a->failed) < part)
        return;
    if (!stop_check(&e) && !a->run(a->arg, part, worker, &e))
        return;
    pthread_mutex_lock(&a->lock);
    if (part < atomic_load(&a->failed)) {
        atomic_store(&a->failed, part);
        a->error = e;
    }
    pthread_mutex_unlock(&a->lock);
}

int pool_each(int64_t nparts, int (*run)(void *arg, int64_t part, int worker, kv_err *e), void *arg,
              kv_err *e)
{
    each a = {.run = run, .arg = arg, .failed = INT64_MAX};
    pthread_mutex_init(&a.lock, NULL);
    pool_run(nparts, run_each, &a);
    pthread_mutex_destroy(&a.lock);
    if (a.error.code && e && !e->code)
        *e = a.error;
    return a.error.code;
}

void pool_submit(pool_task *t)
{
    pool_workers();
    pthread_mutex_lock(&pool.lock);
    start();
    t->child = t->next = NULL;
    t->order = pool.submitted++;
    pool.queue = meld(pool.queue, t);
    set_top();
    wake(1);
    if (pool.threads == 0 && pool.waiting)
        pthread_cond_broadcast(&pool.event);
    bool rests = pool.threads == 0 && atomic_load(&pool.resting);
    pthread_mutex_unlock(&pool.lock);
    if (rests)
        pool.end_rest();
}

static bool is_set(const pool_flag *f)
{
    return __atomic_load_n(&f->set, __ATOMIC_ACQUIRE);
}

void pool_set_poll(bool (*poll)(void))
{
    __atomic_store_n(&pool.poll, poll, __ATOMIC_RELEASE);
}

void pool_set_rest(bool (*rest_for)(const int *set, int64_t us), void (*end)(void))
{
    if (rest_for)
        pool.end_rest = end;
    __atomic_store_n(&pool.rest, rest_for, __ATOMIC_RELEASE);
}

/* Spins until the flag is set, for a while. */
static void spin(const pool_flag *f)
{
    bool (*poll)(void) = __atomic_load_n(&pool.poll, __ATOMIC_ACQUIRE);
    for (int i = spins(); i > 0 && !is_set(f); i--) {
        if (poll && poll())
            i = spins();
        relax();
    }
}

/* Microseconds until a time, rounded up; 0 or less when it is past. */
static int64_t until_us(const struct timespec *t)
{
    return (t->tv_sec * 1000000000 + t->tv_nsec - clock_ns() + 999) / 1000;
}

/* Sleeps where pool_set_rest says, if it does. */
static bool rest(const pool_flag *f, const struct timespec *until)
{
    enum { LONGEST_US = 10000 };
    bool (*rest_for)(const int *set, int64_t us) = __atomic_load_n(&pool.rest, __ATOMIC_ACQUIRE);
    if (!rest_for)
        return false;
    int64_t us = until ? until_us(until) : LONGEST_US;
    atomic_fetch_add(&pool.resting, 1); /* before it looks at the flag: see pool_signal */
    bool rested = rest_for(&f->set, us < LONGEST_US ? us : LONGEST_US);
    atomic_fetch_sub(&pool.resting, 1);
    return rested;
}

/* until: NULL, or when it returns at the latest. */
static bool wait_until(pool_flag *f, const struct timespec *until)
{
    pool_workers();
    while (!is_set(f) && !(until && until_us(until) <= 0)) {
        pthread_mutex_lock(&pool.lock);
        bool ran = run_one();
        pthread_mutex_unlock(&pool.lock);
        if (!ran)
            spin(f);
        if (ran || is_set(f) || rest(f, until))
            continue;
        pthread_mutex_lock(&pool.lock);
        pool.waiting++;
        while (!is_set(f) && !(next_task() && pool.places) && !(until && until_us(until) <= 0)) {
            if (until)
                pthread_cond_clockwait(&pool.event, &pool.lock, CLOCK_MONOTONIC, until);
            else
                pthread_cond_wait(&pool.event, &pool.lock);
        }
        pool.waiting--;
        pthread_mutex_unlock(&pool.lock);
    }
    return is_set(f);
}

void pool_wait(pool_flag *f)
{
    script_wait_begins(&f->set, false);
    wait_until(f, NULL);
    script_wait_ends(false);
}

bool pool_wait_for(pool_flag *f, int ms)
{
    struct timespec until = clock_after(ms * INT64_C(1000000));
    script_wait_begins(&f->set, true);
    bool set = wait_until(f, &until);
    script_wait_ends(true);
    return set;
}

bool pool_is_idle(void)
{
    pthread_mutex_lock(&pool.lock);
    uint64_t all = pool.workers < 64 ? (1ull << pool.workers) - 1 : ~0ull;
    bool idle = !pool.queue && !pool.jobs && (!pool.workers || pool.places == all);
    pthread_mutex_unlock(&pool.lock);
    return idle;
}

void pool_signal(pool_flag *f)
{
    pthread_mutex_lock(&pool.lock);
    __atomic_store_n(&f->set, 1, __ATOMIC_SEQ_CST);
    if (pool.waiting)
        pthread_cond_broadcast(&pool.event);
    pthread_mutex_unlock(&pool.lock);
    if (atomic_load(&pool.resting))
        pool.end_rest();
}
