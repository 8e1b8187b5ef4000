/* The pool of threads: their number, how they wake, the pool of a child of fork, and waits with a
 * limit. Jobs and tasks of the engine are in test_engine.c. */
#include "engine/pool.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

static void pause_shortly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* ---- Sizes ---- */

/* Runs a check in a child, whose pool has the size that $KVSTORE_THREADS says; NULL: unset. */
static void in_child_with(const char *threads, void (*check)(int), int arg)
{
    int status = -1;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (threads)
            setenv("KVSTORE_THREADS", threads, 1);
        else
            unsetenv("KVSTORE_THREADS");
        check(arg);
        _exit(0);
    }
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
}

static void has_workers(int n)
{
    CHECK_INT(pool_workers(), n);
}

/* The number that the next file would have. */
static int next_file(void)
{
    int n = dup(STDOUT_FILENO);
    close(n);
    return n;
}

/* All processors at most, unless the number is given; the file of the quota is closed. */
static void has_some_workers(int unused)
{
    cpu_set_t set;
    int file = next_file();
    (void)unused;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    CHECK(pool_workers() >= 1 && pool_workers() <= CPU_COUNT(&set));
    CHECK_INT(next_file(), file);
}

TEST(pool_sizes)
{
    in_child_with("1", has_workers, 1);
    in_child_with("3", has_workers, 3);
    in_child_with("64", has_workers, 64);
    in_child_with("65", has_workers, POOL_MAX_WORKERS);
    in_child_with(NULL, has_some_workers, 0);
}

/* ---- Parts ---- */

static struct {
    int here[2];       /* atomic: part i has begun */
    int64_t last;      /* the part before, of parts in their order */
    int workers[POOL_MAX_WORKERS + 1]; /* parts that each has run */
} parts;

/* Ends when both parts run, each in a thread of its own. */
static void meet(void *arg, int64_t part, int worker)
{
    (void)arg;
    CHECK(worker >= 0 && worker < pool_workers());
    __atomic_store_n(&parts.here[part], 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&parts.here[1 - part], __ATOMIC_ACQUIRE))
        pause_shortly();
}

static void in_order(void *arg, int64_t part, int worker)
{
    (void)arg;
    CHECK_INT(part, parts.last + 1);
    parts.last = part;
    parts.workers[worker]++;
}

/* Also when the threads sleep: they are woken. */
static void spreads(int processes)
{
    pool_share(processes);
    for (int i = 0; i < 3; i++) {
        memset(&parts, 0, sizeof parts);
        pool_run(2, meet, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

static void does_not_spread(int processes)
{
    pool_share(processes);
    parts.last = -1;
    pool_run(500, in_order, NULL);
    CHECK_INT(parts.last, 499);
    CHECK_INT(parts.workers[0], 500);
}

/* One processor for each process is no reason to spread, two are. */
TEST(pool_spreads_over_processors_that_are_not_shared)
{
    in_child_with("4", spreads, 1);
    in_child_with("4", spreads, 2);
    in_child_with("64", spreads, 1);
    in_child_with("4", does_not_spread, 3);
    in_child_with("4", does_not_spread, 4);
    in_child_with("1", does_not_spread, 1);
}

/* ---- A child of fork ---- */

typedef struct flagged {
    pool_task task;
    pool_flag flag;
} flagged;

static void signal_flag(pool_task *t)
{
    pool_signal(&((flagged *)(void *)t)->flag);
}

static void runs_foreign_tasks(void)
{
    for (int i = 0; i < 3; i++) {
        flagged x = {.task = {.run = signal_flag, .foreign = true}}; /* by a thread of the pool */
        pool_submit(&x.task);
        pool_wait(&x.flag);
        CHECK_INT(x.flag.set, 1);
    }
}

static void has_a_pool(int unused)
{
    (void)unused;
    spreads(1);
    runs_foreign_tasks();
}

/* The threads stay with the parent; a child makes its own, and no other work is in its pool. */
TEST(pool_of_a_child)
{
    setenv("KVSTORE_THREADS", "2", 1);
    has_a_pool(0);
    in_child_with("2", has_a_pool, 0);
    has_a_pool(0);
}

/* ---- Waits with a limit ---- */

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* It does not return sooner, whether the second ends on the way or not. */
TEST(pool_waits_for_its_time)
{
    static const int times[] = {0, 1, 3, 999, 1002};
    pool_flag f = {0}, set = {1};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int64_t from = now_us();
        CHECK(!pool_wait_for(&f, times[i]));
        CHECK(now_us() - from >= times[i] * 1000);
        CHECK(pool_wait_for(&set, times[i]));
    }
}
