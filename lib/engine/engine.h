/* The engine runs operations in an order that respects what they read and write.
 *
 * Every piece of data that operations share carries an engine_var. An operation names the variables
 * that it reads and those that it writes; it may run once every earlier operation that writes one
 * of its variables, or reads one that it writes, has ended. Thus program order holds for each piece
 * of data, and everything else is free to run at the same time. (MXNet's dependency engine,
 * whose help says: "push is always called after all previous push and pull on the same key are
 * finished".)
 *
 * This version is synchronous: an operation has ended when engine_run returns. The contract is the
 * one above, so callers must wait for a variable before they touch its data.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdint.h>

#include "kv_err.h"

/* All zero is a variable that nobody uses. It must not be copied or freed while pending. */
typedef struct engine_var {
    uint64_t version; /* operations that wrote it so far */
} engine_var;

/* One operation. `run` does the work; it must not fail for reasons that could be checked before.
 * The arrays of variables may be released when engine_run returns. */
typedef struct engine_op {
    int (*run)(void *arg, kv_err *e);
    void (*done)(void *arg); /* releases arg, always called once; may be NULL */
    void *arg;
    engine_var *const *reads;
    engine_var *const *writes; /* a variable in both counts as written */
    int64_t nreads, nwrites;
    int32_t priority; /* larger is sooner, among those that are ready */
} engine_op;

/* Schedules op. Returns the code of the operation when it already ended, else KV_OK; an error that
 * occurs later comes back from the wait for a variable that the operation writes. */
int engine_run(const engine_op *op, kv_err *e);

/* Blocks until every operation scheduled so far that writes var has ended. Returns the error of the
 * last one that failed, once. */
int engine_wait_read(engine_var *var, kv_err *e);

/* The same, and until every operation that reads var has ended: var's data may then be changed. */
int engine_wait_write(engine_var *var, kv_err *e);

#endif
