/* The thread pool: one for the process, sized by the processors that it may use.
 *
 * Work is cut into parts that do not depend on each other. The caller works too, so a pool of one
 * thread costs nothing. Helpers spin for some microseconds when they have nothing to do, then
 * sleep: an idle process uses no processor time. They are made at the first use and end with the
 * process; a child of fork makes its own.
 */
#ifndef ENGINE_POOL_H
#define ENGINE_POOL_H

#include <stdint.h>

/* More helpers than this are not made. */
#define POOL_MAX_WORKERS 64

/* How many workers pool_run has, the caller among them: the processors of the process's affinity,
 * within the quota of its cgroup, or what $KVSTORE_THREADS says. Fixed at the first call. */
int pool_workers(void);

/* Calls run(arg, part, worker) once for each part from 0 to nparts - 1 and returns when all have
 * ended. worker is from 0 to pool_workers() - 1, and no two calls with the same worker run at the
 * same time. Parts run in any order. When another thread is using the pool, or threads cannot be
 * made, the caller runs all of them, as worker 0. */
void pool_run(int64_t nparts, void (*run)(void *arg, int64_t part, int worker), void *arg);

#endif
