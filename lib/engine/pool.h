/* The thread pool: one for the process, sized by the processors that it may use.
 *
 * It runs tasks, which wait in a queue by priority, and jobs, which are cut into parts that do not
 * depend on each other: a task that has much to do makes it a job, and whoever is idle takes parts
 * of it. A thread that waits for something helps meanwhile.
 *
 * At most pool_workers() threads work at the same time. Each has a number while it does, its place,
 * so that a job can keep scratch memory for each. Threads of the pool spin for some microseconds
 * when there is nothing to do, then sleep: an idle process uses no processor time. They are made at
 * the first use and end with the process; a child of fork makes its own.
 */
#ifndef ENGINE_POOL_H
#define ENGINE_POOL_H

#include <stdbool.h>
#include <stdint.h>

/* More workers than this there are not. */
#define POOL_MAX_WORKERS 64

/* How many threads work at the same time: the processors of the process's affinity, within the
 * quota of its cgroup, or what $KVSTORE_THREADS says. Fixed at the first call. */
int pool_workers(void);

/* Says that so many processes, this one included, work side by side on the processors: where that
 * leaves one for each, parts are not spread over threads any more. */
void pool_share(int processes);

/* Calls run(arg, part, worker) once for each part from 0 to nparts - 1 and returns when all have
 * ended. worker is from 0 to pool_workers() - 1, and no two calls with the same worker run at the
 * same time. Parts run in any order, at the priority of the task that the caller runs, else 0;
 * between two parts a task of higher priority may run. When every place is taken the caller runs
 * all parts, with one worker number. */
void pool_run(int64_t nparts, void (*run)(void *arg, int64_t part, int worker), void *arg);

/* A task: memory of whoever submits it, who may reuse it as soon as run was called. The fields from
 * child on are the pool's. */
typedef struct pool_task {
    void (*run)(struct pool_task *t);
    int32_t priority;
    bool foreign; /* runs the user's code, which may wait for whatever a thread that waits here does
                     next: threads of the pool alone take it */
    struct pool_task *child, *next;
    uint64_t order;
} pool_task;

/* Puts a task into the queue: larger priorities run sooner, equal ones in the order of this call.
 * Where no thread could be made it runs when somebody waits. */
void pool_submit(pool_task *t);

/* What a thread can wait for: zero, until pool_signal sets it, once. */
typedef struct pool_flag {
    int set;
} pool_flag;

/* Returns when the flag is set; runs parts and tasks meanwhile. */
void pool_wait(pool_flag *f);

/* The same, for so many milliseconds at most; says whether the flag is set. */
bool pool_wait_for(pool_flag *f, int ms);

/* What a thread that waits calls when there is nothing else to do; it returns whether it did
 * something. NULL: nothing. For what ends operations from outside the pool. */
void pool_set_poll(bool (*poll)(void));

/* Sets the flag and does not touch it again. */
void pool_signal(pool_flag *f);

#endif
