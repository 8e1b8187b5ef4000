/* The pool of threads: their number, how they wake, the pool of a child of fork, waits with a
 * limit, a pool for which no thread can be made, and the order of tasks and parts. Operations are
 * in test_engine.c. */
#include "engine/pool.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kv_assert.h"
#include "base/stop.h"
#include "thread_help.h"

/* The number that the next file would have. */
static int next_file(void)
{
    int n = dup(STDOUT_FILENO);
    close(n);
    return n;
}

/* The size that $KVSTORE_THREADS says; else all processors at most, and the file of the quota is
 * closed. */
TEST(pool_sizes)
{
    static const int sizes[] = {1, 3, 64, 65};
    for (int i = 0; i < 4; i++) {
        char text[8];
        snprintf(text, sizeof text, "%d", sizes[i]);
        IN_CHILD(text)
            CHECK_INT(pool_workers(), sizes[i] < 65 ? sizes[i] : POOL_MAX_WORKERS);
    }
    IN_CHILD(NULL) {
        cpu_set_t set;
        int file = next_file();
        CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
        CHECK(pool_workers() >= 1 && pool_workers() <= CPU_COUNT(&set));
        CHECK_INT(next_file(), file);
    }
}

/* In a mount namespace of its own, a cgroup with this text in cpu.max. Returns false if the machine
 * allows none. */
static bool enter_cgroup(const char *text)
{
    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/sys/fs/cgroup", "tmpfs", 0, NULL) != 0)
        return false;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
    return true;
}

static const struct quota {
    const char *text;
    int workers; /* at most; 0: all processors */
} quotas[] = {{"50000 100000", 1},  {"99999 100000", 1}, {"100000 100000", 1}, {"190000 100000", 1},
              {"200000 100000", 2}, {"max 100000", 0},   {"0 100000", 0},      {"-1 100000", 0},
              {"100000", 0},        {"100000 0", 0},     {"100000 -1", 0},     {"", 0}};

/* The quota counts where no number is given. */
TEST(pool_keeps_to_a_quota)
{
    for (size_t i = 0; i < sizeof quotas / sizeof *quotas; i++)
        IN_CHILD(NULL) {
            cpu_set_t set;
            int most = quotas[i].workers;
            CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
            if (!enter_cgroup(quotas[i].text))
                test_skip("a cgroup of its own needs a mount namespace");
            int file = next_file(), all = CPU_COUNT(&set);
            CHECK_INT(pool_workers(), most && most < all ? most : all);
            CHECK_INT(next_file(), file);
        }
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
    set_to(&parts.here[part], 1);
    wait_for(&parts.here[1 - part]);
}

/* The first part lasts so long that others would come, if they might. */
static void in_order(void *arg, int64_t part, int worker)
{
    (void)arg;
    if (part == 0)
        sleep_ms(10);
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
        sleep_ms(5);
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
    static const struct {
        const char *threads;
        int processes;
        void (*check)(int);
    } cases[] = {{"4", 1, spreads},         {"4", 2, spreads},         {"64", 1, spreads},
                 {"4", 3, does_not_spread}, {"4", 4, does_not_spread}, {"1", 1, does_not_spread}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        IN_CHILD(cases[i].threads)
            cases[i].check(cases[i].processes);
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

static void has_a_pool(void)
{
    spreads(1);
    runs_foreign_tasks();
}

static void skip_where_a_child_makes_no_threads(void)
{
#ifdef __SANITIZE_THREAD__
    test_skip("the thread sanitizer lets no child of a process of several threads make its own");
#endif
}

/* The threads stay with the parent; a child makes its own, and no other work is in its pool. */
TEST(pool_of_a_child)
{
    skip_where_a_child_makes_no_threads();
    setenv("KVSTORE_THREADS", "2", 1);
    has_a_pool();
    IN_CHILD("2")
        has_a_pool();
    has_a_pool();
}

static int tasks_begun; /* atomic */

/* Ends when two such tasks run, each on a thread of its own. */
static void run_beside_another(pool_task *t)
{
    __atomic_add_fetch(&tasks_begun, 1, __ATOMIC_ACQ_REL);
    while (look_at(&tasks_begun) < 2)
        pause_shortly();
    signal_flag(t);
}

TEST(pool_of_a_child_has_all_its_threads)
{
    skip_where_a_child_makes_no_threads();
    setenv("KVSTORE_THREADS", "2", 1);
    has_a_pool();
    IN_CHILD("2") {
        flagged tasks[2] = {{.task.run = run_beside_another}, {.task.run = run_beside_another}};
        pool_submit(&tasks[0].task);
        pool_submit(&tasks[1].task);
        wait_for(&tasks[0].flag.set); /* it does not help */
        wait_for(&tasks[1].flag.set);
    }
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

/* The clock of the pool: it stands still, but for sleeps. */
static struct {
    bool stands;
    int64_t ns, early; /* so many nanoseconds too early a sleep ends */
} the_clock;

/* In place of that of the C library, for the whole program. */
int clock_gettime(clockid_t which, struct timespec *t)
{
    if (!the_clock.stands)
        return (int)syscall(SYS_clock_gettime, which, t);
    *t = (struct timespec){.tv_sec = the_clock.ns / 1000000000,
                           .tv_nsec = the_clock.ns % 1000000000};
    return 0;
}

static bool sleep_by_clock(const int *set, int64_t us)
{
    (void)set;
    CHECK(us > 0 && us <= 10000);
    the_clock.ns += us * 1000 - (us > 1 ? the_clock.early : 0);
    return true;
}

static void nothing(void)
{
}

/* A wait lasts as many milliseconds as it says, wherever in a second it begins. */
TEST(pool_waits_as_long_as_it_says)
{
    static const int times[] = {0, 1, 3, 500, 998, 999, 1000, 1002, 1999, 2500, 61003};
    static const int begins[] = {0, 1000, 500000000, 1000000, 998000000, 999000000, 999999000};
    pool_flag f = {0};
    pool_set_spins(0);
    pool_set_rest(sleep_by_clock, nothing);
    the_clock.stands = true;
    for (the_clock.early = 0; the_clock.early < 2; the_clock.early++)
        for (size_t i = 0; i < sizeof times / sizeof *times; i++)
            for (size_t j = 0; j < sizeof begins / sizeof *begins; j++) {
                int64_t from = the_clock.ns = 5000000000 + begins[j];
                CHECK(!pool_wait_for(&f, times[i]));
                int64_t over = the_clock.ns - from - times[i] * (int64_t)1000000;
                CHECK(over >= 0 && over < (the_clock.early ? 1000 : 1));
            }
    the_clock.stands = false;
    pool_set_rest(NULL, NULL);
}

/* ---- Events ---- */

static void *waits_for(void *flag)
{
    pool_wait(flag);
    return NULL;
}

static void *signals_late(void *flag)
{
    sleep_ms(20);
    pool_signal(flag);
    return NULL;
}

/* It sleeps until then: a limit of ten minutes is not reached. */
TEST(pool_wait_with_a_limit_ends_with_its_flag)
{
    pool_flag f = {0};
    pthread_t t = spawn(signals_late, &f);
    CHECK(pool_wait_for(&f, 600000));
    join(t);
}

static int polls_left;

static pool_flag polled;

/* Signals when it has done some work, several times as often as a thread would look. */
static bool poll_for_long(void)
{
    if (polls_left == 0)
        return false;
    if (--polls_left == 0)
        pool_signal(&polled);
    return true;
}

TEST(pool_polls_while_it_waits)
{
    pool_set_spins(10);
    pool_set_poll(poll_for_long);
    polls_left = 1000;
    pool_wait(&polled);
    CHECK_INT(polls_left, 0);
    pool_set_poll(NULL);
}

static int rests, ends;

/* The event that it is woken for is not the flag, the first times. */
static bool rest_often(const int *set, int64_t us)
{
    (void)us;
    CHECK(!*set);
    if (++rests == 5)
        pool_signal(&polled);
    return true;
}

static void end_rest(void)
{
    __atomic_add_fetch(&ends, 1, __ATOMIC_RELAXED);
}

/* A thread that rests does so until its flag is set. Nobody is woken who does not rest. */
TEST(pool_rests_again_after_other_events)
{
    pool_flag other = {0};
    pool_set_rest(rest_often, end_rest);
    pool_wait(&polled);
    CHECK_INT(rests, 5);
    CHECK_INT(ends, 1);
    pool_signal(&other);
    CHECK_INT(ends, 1);
    pool_set_rest(NULL, NULL);
}

/* The second part ends when the leader has waited for it for some time. */
static void second_is_slow(void *arg, int64_t part, int worker)
{
    meet(arg, part, worker);
    if (worker != *(int *)arg)
        sleep_ms(5);
}

/* A leader that slept until its helpers were ready leaves nothing behind: threads that wait
 * afterwards are woken. */
TEST(pool_wakes_those_who_wait_after_a_job)
{
    IN_CHILD("2") {
        pool_flag f[2] = {{0}};
        int leader = 0; /* it takes the first place */
        pool_run(2, second_is_slow, &leader);
        pthread_t t[2] = {spawn(waits_for, &f[0]), spawn(waits_for, &f[1])};
        sleep_ms(20);
        pool_signal(&f[0]);
        pool_signal(&f[1]);
        join(t[0]);
        join(t[1]);
    }
}

/* A thread of the parent sleeps for an event; none of the child's does. */
TEST(pool_of_a_child_whose_parent_sleeps)
{
    pool_flag f = {0};
    skip_where_a_child_makes_no_threads();
    setenv("KVSTORE_THREADS", "2", 1);
    pthread_t t = spawn(waits_for, &f);
    sleep_ms(20);
    IN_CHILD("2") {
        for (int i = 0; i < 4; i++) {
            pool_flag own = {0};
            pthread_t child = spawn(waits_for, &own);
            sleep_ms(10);
            pool_signal(&own);
            join(child);
        }
        runs_foreign_tasks();
    }
    pool_signal(&f);
    join(t);
}

/* ---- Without threads ---- */

/* No thread of the usual size can be made in this process any more. */
static void forbid_threads(void)
{
    pthread_attr_t attr;
    CHECK_INT(pthread_attr_init(&attr), 0);
    CHECK_INT(pthread_attr_setstacksize(&attr, (size_t)1 << 46), 0);
    CHECK_INT(pthread_setattr_default_np(&attr), 0);
    pthread_attr_destroy(&attr);
}

/* A task that its submitter does not wait for runs in the thread that sleeps. */
static void runs_where_others_wait(bool rest_too)
{
    forbid_threads();
    for (int i = 0; i < 3; i++) {
        flagged x = {.task = {.run = signal_flag, .foreign = i == 2}};
        pthread_t t = spawn(waits_for, &x.flag);
        sleep_ms(rest_too ? 5 : 20);
        pool_submit(&x.task);
        join(t);
        CHECK_INT(x.flag.set, 1);
    }
    flagged y = {.task = {.run = signal_flag}};
    pool_submit(&y.task);
    pool_wait(&y.flag);
}

/* Rests until it is ended. */
static bool rest_until_end(const int *set, int64_t us)
{
    int seen = look_at(&ends);
    (void)us;
    while (!look_at(set) && look_at(&ends) == seen)
        pause_shortly();
    return true;
}

TEST(pool_without_threads)
{
    IN_CHILD("2")
        runs_where_others_wait(false);
    pool_set_rest(rest_until_end, end_rest);
    IN_CHILD("2")
        runs_where_others_wait(true);
}

/* ---- Order ---- */

static struct {
    int n, order[16]; /* atomic */
    pool_flag begun, open, done;
} ran;

typedef struct numbered {
    pool_task task;
    int number;
} numbered;

static void note(int number)
{
    ran.order[__atomic_fetch_add(&ran.n, 1, __ATOMIC_RELAXED)] = number;
}

static void run_numbered(pool_task *t)
{
    note(((numbered *)(void *)t)->number);
}

static void wait_until_open(pool_task *t)
{
    (void)t;
    pool_signal(&ran.begun);
    wait_for(&ran.open.set);
}

static void end_order(pool_task *t)
{
    (void)t;
    pool_signal(&ran.done);
}

/* The one place is taken while tasks are submitted. */
TEST(pool_runs_tasks_of_one_priority_in_their_order)
{
    IN_CHILD("1") {
        static numbered tasks[10];
        pool_task first = {.run = wait_until_open}, last = {.run = end_order, .priority = -1};
        pool_submit(&first);
        wait_for(&ran.begun.set);
        for (int i = 0; i < 10; i++) {
            tasks[i] = (numbered){{.run = run_numbered}, i};
            pool_submit(&tasks[i].task);
        }
        pool_submit(&last);
        pool_signal(&ran.open);
        wait_for(&ran.done.set);
        for (int i = 0; i < 10; i++)
            CHECK_INT(ran.order[i], i);
    }
}

static numbered urgent = {{.run = run_numbered, .priority = 9}, 109},
                same = {{.run = run_numbered, .priority = 5}, 105},
                lazy = {{.run = run_numbered, .priority = 3}, 103};

static void submits_first(void *arg, int64_t part, int worker)
{
    (void)arg, (void)worker;
    note((int)part);
    if (part > 0)
        return;
    pool_submit(&same.task);
    pool_submit(&lazy.task);
    pool_submit(&urgent.task);
}

static void run_job(pool_task *t)
{
    (void)t;
    pool_run(4, submits_first, NULL);
    note(99);
}

/* A job has the priority of the task that runs it: between two parts a more urgent task runs, and
 * one of the same priority waits for the end. The other place is taken. */
TEST(pool_runs_urgent_tasks_between_parts)
{
    IN_CHILD("2") {
        static const int want[] = {0, 109, 1, 2, 3, 99, 105, 103};
        pool_task busy = {.run = wait_until_open}, job = {.run = run_job, .priority = 5};
        pool_submit(&busy);
        wait_for(&ran.begun.set);
        pool_submit(&job);
        while (look_at(&ran.n) < 8)
            pause_shortly();
        pool_signal(&ran.open);
        for (int i = 0; i < 8; i++)
            CHECK_INT(ran.order[i], want[i]);
    }
}

/* The leader's part ends when a helper has taken the next one, or the task. */
static void leads(void *arg, int64_t part, int worker)
{
    (void)arg, (void)worker;
    if (part == 0) {
        pool_submit(&same.task);
        pool_signal(&ran.open);
        while (look_at(&ran.n) < 1)
            pause_shortly();
        return;
    }
    note((int)part);
}

/* A thread that has nothing to do prefers a job to a task of its priority. */
TEST(pool_helps_a_job_before_it_takes_a_task)
{
    IN_CHILD("2") {
        pool_task busy = {.run = wait_until_open, .priority = 5};
        pool_submit(&busy);
        wait_for(&ran.begun.set);
        same.task.priority = 0;
        pool_run(2, leads, NULL);
        while (look_at(&ran.n) < 2)
            pause_shortly();
        CHECK_INT(ran.order[0], 1);
        CHECK_INT(ran.order[1], 105);
    }
}

/* A part that runs a job of its own: two threads must come to it, wherever the first one works. */
static void spreads_again(void *arg, int64_t part, int worker)
{
    (void)arg;
    if (part == 0 && worker == 0) {
        memset(&parts, 0, sizeof parts);
        pool_run(2, meet, NULL);
    }
}

static int meeting; /* atomic */

/* Ends when four threads are there: no place was lost. */
static void meet_all(void *arg, int64_t part, int worker)
{
    (void)arg, (void)part, (void)worker;
    __atomic_add_fetch(&meeting, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&meeting, __ATOMIC_RELAXED) < 4)
        pause_shortly();
}

TEST(pool_spreads_parts_of_parts)
{
    IN_CHILD("4") {
        for (int i = 0; i < 20; i++)
            pool_run(2, spreads_again, NULL);
        meeting = 0;
        pool_run(4, meet_all, NULL);
    }
}

/* Waits for a task that only this thread can run: the one place is its own. */
static void waits_within(pool_task *t)
{
    flagged inner = {.task = {.run = signal_flag}};
    pool_submit(&inner.task);
    pool_wait(&inner.flag);
    signal_flag(t);
}

TEST(pool_keeps_its_place_in_a_wait)
{
    setenv("KVSTORE_THREADS", "1", 1);
    for (int i = 0; i < 50; i++) {
        flagged x = {.task = {.run = waits_within}};
        pool_submit(&x.task);
        pool_wait(&x.flag);
    }
}

static pool_flag first_begun, second_begun, first_ended;

static void part_of_first(void *arg, int64_t part, int worker)
{
    (void)arg, (void)worker;
    if (part == 0)
        pool_signal(&first_begun);
    wait_for(&second_begun.set);
}

static void part_of_second(void *arg, int64_t part, int worker)
{
    (void)arg, (void)worker;
    if (part == 0)
        pool_signal(&second_begun);
    wait_for(&first_ended.set);
}

static void *runs_first(void *unused)
{
    (void)unused;
    pool_run(2, part_of_first, NULL);
    pool_signal(&first_ended);
    return NULL;
}

/* The older job ends before the one that came later. */
TEST(pool_ends_jobs_in_any_order)
{
    IN_CHILD("4") {
        pthread_t t = spawn(runs_first, NULL);
        wait_for(&first_begun.set);
        pool_run(2, part_of_second, NULL);
        join(t);
    }
}

static int begun; /* atomic */

static int fails_at_3_and_7(void *arg, int64_t part, int worker, kv_err *e)
{
    (void)arg, (void)worker;
    __atomic_add_fetch(&begun, 1, __ATOMIC_RELAXED);
    return part % 4 == 3 ? kv_err_set(e, KV_E_VALUE, "part %d", (int)part) : KV_OK;
}

static int stops(void)
{
    return 1;
}

TEST(pool_each_returns_the_first_failure)
{
    static const char *const threads[] = {"1", "4"};
    for (int t = 0; t < 2; t++)
        IN_CHILD(threads[t])
        {
            kv_err error = {0};
            CHECK_INT(pool_each(0, fails_at_3_and_7, NULL, &error), KV_OK);
            CHECK_INT(pool_each(3, fails_at_3_and_7, NULL, &error), KV_OK);
            for (int i = 0; i < 100; i++) {
                error = (kv_err){0};
                CHECK_INT(pool_each(8, fails_at_3_and_7, NULL, &error), KV_E_VALUE);
                CHECK_TEXT(error.text, "part 3");
            }
            CHECK_INT(pool_each(100000, fails_at_3_and_7, NULL, NULL), KV_E_VALUE);
            CHECK(begun < 50000); /* none behind the first that failed */
            begun = 0;
            stop_ask(stops);
            error = (kv_err){0};
            CHECK_INT(pool_each(8, fails_at_3_and_7, NULL, &error), KV_E_INTERRUPTED);
            CHECK_INT(begun, 0);
            stop_ask(NULL);
        }
}

enum { MANY_TASKS = 20000 };

static struct {
    numbered tasks[MANY_TASKS];
    int count; /* atomic */
} many;

static void count_task(pool_task *t)
{
    (void)t;
    __atomic_add_fetch(&many.count, 1, __ATOMIC_RELAXED);
}

static void submits_one(void *arg, int64_t part, int worker)
{
    (void)arg, (void)worker;
    many.tasks[part] = (numbered){{.run = count_task, .priority = 1 + (int32_t)(part % 3)}, 0};
    pool_submit(&many.tasks[part].task);
}

/* Each part of a job leaves a more urgent task: all threads take them between parts. */
TEST(pool_runs_each_urgent_task_once)
{
    IN_CHILD("4") {
        for (int i = 1; i <= 5; i++) {
            pool_run(MANY_TASKS, submits_one, NULL);
            while (__atomic_load_n(&many.count, __ATOMIC_RELAXED) < i * MANY_TASKS)
                pause_shortly();
            CHECK_INT(many.count, i * MANY_TASKS);
        }
    }
}
