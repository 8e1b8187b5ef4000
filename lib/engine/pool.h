/* The thread pool: one for the process, sized by the processors that it may use.
 *
 * It runs tasks, which wait in a queue by priority, and jobs, which are cut into parts that do not
 * depend on each other: a task that has much to do makes it a job, and idle threads take parts of
 * it. A thread that waits for something helps meanwhile.
 *
 * At most pool_workers() threads work at the same time. Each has a number while it does, its place,
 * so that a job can keep scratch memory for each. Threads of the pool spin for some microseconds
 * when there is nothing to do, then sleep: an idle process uses no processor time. They are made at
 * the first use and end with the process; a child of fork makes its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_err.h"

/* The number of workers at most. */
#define POOL_MAX_WORKERS 64

/* The number of threads that work at the same time: the processors of the process's affinity,
 * within the quota of its cgroup, or $KVSTORE_THREADS. Fixed at the first call. */
int pool_workers(void);

/* Tells the number of processes, this one included, that share the processors: if that leaves one
 * processor for each, parts are not spread over threads any more. */
void pool_share(int processes);

/* How often a thread looks for work before it sleeps, instead of for about 20 microseconds. */
void pool_set_spins(int n);

/* Calls run(arg, part, worker) once for each part from 0 to nparts - 1 and returns when all have
 * ended. worker is from 0 to pool_workers() - 1, and no two calls with the same worker run at the
 * same time. Parts run in any order, at the priority of the task that the caller runs, else 0;
 * between two parts a task of higher priority may run. When every place is taken the caller runs
 * all parts, with one worker number. */
void pool_run(int64_t nparts, void (*run)(void *arg, int64_t part, int worker), void *arg);

/* The same for parts that can fail: none is begun behind one that failed, nor when work is to end
 * early (base/stop.h). Of several failures the first in the order of the parts is returned. Errors:
 * those of run, interrupted. */
int pool_each(int64_t nparts, int (*run)(void *arg, int64_t part, int worker, kv_err *e), void *arg,
              kv_err *e);

/* A task: its memory is the submitter's, who may reuse it as soon as run was called. The fields
 * from child on are the pool's. */
typedef struct pool_task {
    void (*run)(struct pool_task *t);
    int32_t priority;
    bool foreign; /* runs the user's code. It may wait for a thread that waits here, so only threads
                     of the pool take it */
    struct pool_task *child, *next;
    uint64_t order;
} pool_task;

/* Puts a task into the queue: larger priorities run sooner, equal ones in the order of this call.
 * If no thread could be made it runs in a thread that waits. */
void pool_submit(pool_task *t);

/* A flag that a thread waits for: zero, until pool_signal sets it, once. */
typedef struct pool_flag {
    int set;
} pool_flag;

/* Returns when the flag is set; runs parts and tasks meanwhile. */
void pool_wait(pool_flag *f);

/* The same, for ms milliseconds at most; returns true if the flag is set. */
bool pool_wait_for(pool_flag *f, int ms);

/* Returns true if there is neither a task nor a part of a job, and no thread works at one. */
bool pool_is_idle(void);

/* Sets a function that idle waiting threads call, for events that end operations from outside the
 * pool. It returns true if it did some work. NULL: none. */
void pool_set_poll(bool (*poll)(void));

/* Sets a function in which waiting threads sleep instead of in the pool. It returns true after an
 * event, after `us` microseconds, when `end` was called, or at once if *set is not 0; false if the
 * thread must sleep in the pool. NULL: all do. */
void pool_set_rest(bool (*rest)(const int *set, int64_t us), void (*end)(void));

/* Sets the flag and does not touch it again. */
void pool_signal(pool_flag *f);

/* ---- The waits of the script ----------------------------------------------------------------- */

/* Whether the thread that runs the program's script waits in the library, and at which place of the
 * script. A job of several machines needs it to prove a deadlock (src/distributed/waits.h).
 *
 * One thread of the process is the script's: the one that called script_set last. Waits of other
 * threads do not count, such as those of the threads of the pool.
 */

/* Writes the place at which the script waits; false: the program can still do something while its
 * script waits. Called on another thread while the script's thread stays in its wait. */
typedef bool (*script_place)(void *arg, char *out, size_t room);

/* This thread runs the script from now on. slices: it waits in slices, and does nothing but look
 * for signals between them; else waits with a limit of time do not count. NULL: it does no more. */
void script_set(script_place place, void *arg, bool slices);

/* Around a wait until *set is not 0. */
void script_wait_begins(const int *set, bool slice);
void script_wait_ends(bool slice);

/* Returns the number of the wait, from 1, if the script's thread waits and nothing has ended its
 * wait yet; else 0. place: NULL, or becomes the place. */
uint64_t script_waits(char *place, size_t room);

/* Keeps the script's thread in its wait until script_let_go, so that another thread can read what
 * it has. False: it does not wait now, and nothing is to be let go. */
bool script_hold(void);
void script_let_go(void);
