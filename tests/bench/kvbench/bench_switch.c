/* Two threads take turns. On one processor each of them reads, in every turn, as much as half of a
 * first-level cache holds, in an order that no processor guesses: the time of a turn without that
 * of the reading alone is a switch. On two processors one of them is idle before each turn. */
#include "bench_switch.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>

#include "base/mem.h"
#include "bench_stream.h"

enum { LINES = 512, LINE = 64, TURNS = 400, WAKES = 20, IDLE_US = 200 };

/* A line of cache, which names the next one to read. */
typedef struct line {
    struct line *next;
    char rest[LINE - sizeof(struct line *)];
} line;

typedef struct pair {
    sem_t go, back;
    int processor, turns;
    line *lines;
    double went_ns; /* when the other thread went on */
} pair;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void run_on(int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* One ring of all lines, in the order of a linear congruential generator of full period. */
static void join(line *l)
{
    int at = 0;
    for (int i = 0; i < LINES; i++) {
        int next = (at * 173 + 101) % LINES;
        l[at].next = &l[next];
        at = next;
    }
}

static void read_all(line *l)
{
    const line *volatile end = l;
    for (int i = 0; i < LINES; i++)
        end = end->next;
}

static void *take_turns(void *arg)
{
    pair *p = arg;
    run_on(p->processor);
    for (int i = 0; i < p->turns; i++) {
        sem_wait(&p->go);
        p->went_ns = now_ns();
        if (p->lines)
            read_all(p->lines);
        sem_post(&p->back);
    }
    return NULL;
}

/* Begins the other thread, which has taken its first turn then. */
static int begin(pthread_t *t, pair *p, kv_err *e)
{
    sem_init(&p->go, 0, 0);
    sem_init(&p->back, 0, 0);
    p->turns++;
    if (pthread_create(t, NULL, take_turns, p))
        return kv_err_set(e, KV_E_MEMORY, "no thread for a measurement");
    sem_post(&p->go);
    sem_wait(&p->back);
    return KV_OK;
}

static int time_switch(double *ns, int processor, line *lines, int turns, kv_err *e)
{
    pthread_t t;
    pair p = {.processor = processor, .turns = turns, .lines = lines + LINES};
    double alone, from, took[TURNS];
    run_on(processor);
    if (begin(&t, &p, e))
        return e->code;
    read_all(lines);
    from = now_ns();
    read_all(lines);
    alone = now_ns() - from;
    for (int i = 0; i < turns; i++) {
        from = now_ns();
        sem_post(&p.go);
        sem_wait(&p.back);
        read_all(lines);
        took[i] = now_ns() - from;
    }
    *ns = stream_median(took, turns) / 2 - alone;
    *ns = *ns > 0 ? *ns : 0;
    pthread_join(t, NULL);
    return KV_OK;
}

/* This thread keeps its processor while the other one falls asleep. */
static int time_wakes(double *wake, double *post, const int *processors, int n, kv_err *e)
{
    pthread_t t;
    double wakes[WAKES], posts[WAKES];
    pair p = {.processor = processors[1], .turns = n};
    run_on(processors[0]);
    if (begin(&t, &p, e))
        return e->code;
    for (int i = 0; i < n; i++) {
        double from = now_ns();
        while (now_ns() - from < IDLE_US * 1e3)
            ;
        from = now_ns();
        sem_post(&p.go);
        posts[i] = now_ns() - from;
        sem_wait(&p.back);
        wakes[i] = p.went_ns - from;
    }
    *wake = stream_median(wakes, n);
    *post = stream_median(posts, n);
    pthread_join(t, NULL);
    return KV_OK;
}

/* Two processors that this thread may have; the same one twice if there is no other. */
static void find_processors(const cpu_set_t *set, int out[2])
{
    int n = 0;
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET(i, set))
            out[n++] = i;
    if (n < 2)
        out[1] = out[0];
}

int bench_switch_run(bench_switch *out, int runs, bool quick, kv_err *e)
{
    cpu_set_t set;
    int at[2] = {0, 0}, rc = KV_OK;
    double *x = mem_zalloc(3 * runs, sizeof *x, e);
    line *lines = mem_alloc_data(2 * LINES * (int64_t)sizeof *lines, e);
    *out = (bench_switch){0};
    if (!x || !lines) {
        rc = KV_E_MEMORY;
        goto out;
    }
    join(lines);
    join(lines + LINES);
    if (sched_getaffinity(0, sizeof set, &set))
        goto out;
    find_processors(&set, at);
    for (int i = 0; i < runs && !rc; i++) {
        rc = time_switch(&x[i], at[0], lines, quick ? TURNS / 10 : TURNS, e);
        if (!rc && at[0] != at[1])
            rc = time_wakes(&x[runs + i], &x[2 * runs + i], at, quick ? 2 : WAKES, e);
    }
    sched_setaffinity(0, sizeof set, &set);
    out->switch_ns = stream_median(x, runs);
    out->wake_ns = stream_median(x + runs, runs);
    out->post_ns = stream_median(x + 2 * runs, runs);
out:
    mem_free_data(lines);
    mem_free(x);
    return rc;
}
