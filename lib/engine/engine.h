/* The engine runs operations in an order that respects their reads and writes.
 *
 * Every piece of data that operations share carries an engine_var. An operation lists its uses of
 * variables; it may run once every earlier operation that writes one of its variables, or reads one
 * that it writes, has ended its use. Thus program order holds for each piece of data, and
 * everything else is free to run at the same time. (MXNet's dependency engine, whose help says:
 * "push is always called after all previous push and pull on the same key are finished".)
 *
 * The caller owns the memory of an operation, its uses included, so scheduling cannot fail.
 * Operations that are ready run on the thread pool, larger priorities first. An operation may end
 * some of its uses early, so that others wait for one key of a call and not for all of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/pool.h"
#include "kv_err.h"

/* All zero is an unused variable. It must not be copied or freed while it is used. */
typedef struct engine_var {
    struct engine_use *last; /* of the uses that wait, in a ring: its next is the first */
    uint64_t claimed;        /* the operation that listed it last */
    int32_t running;         /* uses that run: readers, or -1 for a writer */
    bool to_write;           /* that operation listed it first for writing */
} engine_var;

/* One use. The fields from again on are the engine's. */
typedef struct engine_use {
    engine_var *var;
    bool write;
    bool again; /* the operation has the variable for writing: this use of it does not count */
    struct engine_use *next;
    struct engine_op *op;
} engine_use;

/* The operations of one owner, a store: how many have not ended, and the first error among them.
 * All zero is none. */
typedef struct engine_group {
    int64_t pending;
    struct engine_waiter *waiters;
    kv_err error;
} engine_group;

/* One operation. The fields from task on are the engine's. */
typedef struct engine_op {
    /* Must not fail for reasons that could be checked before; its error goes to the group. */
    int (*run)(struct engine_op *op, kv_err *e);
    /* Called when all uses have ended; releases op. May be NULL. */
    void (*done)(struct engine_op *op);
    engine_use *uses; /* writes come before reads of the same variable */
    int64_t nuses;
    engine_group *group; /* or NULL */
    struct trace_op *trace; /* for a profile (trace.h): the engine notes its times; or NULL */
    int32_t priority;    /* larger is sooner, among ready operations */
    bool foreign;        /* runs the user's code: see pool_task */
    bool later;   /* run only begins it; engine_complete ends it */
    bool quick;   /* with later: run is short, cannot fail, and calls no function of the engine; it
                     is called by the thread that makes the operation ready, and e is NULL */
    bool repeats; /* out: a variable is written by two of the uses; the second has no effect */
    pool_task task;
    pool_flag turn;
    int64_t missing; /* uses that wait */
} engine_op;

/* Uses of an operation that belong together: nall of them from `all` on, and among the writing ones
 * nwrite from `write` on. */
typedef struct engine_lot {
    int64_t all, nall, write, nwrite;
} engine_lot;

/* Returns true if n lots may run side by side, before the operation is scheduled: a variable of a
 * lot's `write` is in no other lot, and in its own once. lot(arg, i) is the i-th. */
bool engine_apart(const engine_op *op, int64_t n, engine_lot (*lot)(const void *arg, int64_t i),
                  const void *arg);

/* Claims the uses if all of them may run at once, and returns true. The caller then does the
 * work, on its own thread, and calls engine_finish; done is not called. */
bool engine_try(engine_op *op);

/* Returns true if n steps could run at once, and no two of them write one variable. uses
 * lists the uses of step i and returns how many, or -1 to have it end there: false. It is called
 * under the engine's lock, step by step. */
bool engine_idle(int64_t n, int (*uses)(void *arg, int64_t i, engine_use out[2]), void *arg);

/* Keeps every use from beginning and from ending until engine_let_go: what is unused stays so. For
 * work on small arrays that takes less time than a use of them would. The thread calls no other
 * function of the engine or the pool meanwhile but engine_is_unused. */
void engine_hold(void);
void engine_let_go(void);

/* Returns true if a use of var, reading or writing, could begin and end now. */
static inline bool engine_is_unused(const engine_var *var, bool write)
{
    return !var->last && (write ? var->running == 0 : var->running >= 0);
}

/* Schedules op: run will be called on some thread, then done. */
void engine_submit(engine_op *op);

/* Waits until it is op's turn; the caller then does the work and calls engine_finish. */
void engine_begin_now(engine_op *op);

/* Waits until it is op's turn and runs it on this thread. Returns the code of run; done is not
 * called. */
int engine_run_now(engine_op *op, kv_err *e);

/* Ends some uses early, or all that are left. */
void engine_end(engine_use *uses, int64_t n);
void engine_finish(engine_op *op);

/* Ends an operation that goes on behind run, on any thread: its open uses, then done.
 * Its error goes to the group. */
void engine_complete(engine_op *op, const kv_err *e);

/* Blocks until every operation scheduled so far that writes var has ended its use. */
void engine_wait_read(engine_var *var);

/* The same, for ms milliseconds at most; returns false if one has not ended by then. */
bool engine_wait_read_for(engine_var *var, int ms);

/* As engine_wait_read, and until every operation that reads var has: var's data may then be
 * changed. */
void engine_wait_write(engine_var *var);

/* Blocks until at most `most` operations of a group are pending. */
void engine_wait_group(engine_group *g, int64_t most);

/* The same, for ms milliseconds at most; returns false if more are still pending. */
bool engine_wait_group_for(engine_group *g, int64_t most, int ms);

/* Moves the first error of a group's operations to e and forgets it; its code, or KV_OK. */
int engine_take_error(engine_group *g, kv_err *e);

/* The number of uses of var that have not ended. */
int64_t engine_pending(engine_var *var);

/* The group of the operation that this thread runs, or NULL. */
const engine_group *engine_running(void);
