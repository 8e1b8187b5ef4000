/* The synchronous engine: an operation runs on the caller's thread and has ended when engine_run
 * returns, so nothing is ever pending and the waits have nothing to wait for.
 *
 * Threads that share data take turns by a lock of their own (a store has one). The versions are
 * atomic because two stores may use one array at the same time.
 */
#include "engine/engine.h"

int engine_run(const engine_op *op, kv_err *e)
{
    int rc = op->run(op->arg, e);
    for (int64_t i = 0; i < op->nwrites; i++)
        __atomic_fetch_add(&op->writes[i]->version, 1, __ATOMIC_RELEASE);
    if (op->done)
        op->done(op->arg);
    return rc;
}

int engine_wait_read(engine_var *var, kv_err *e)
{
    (void)var;
    (void)e;
    return KV_OK;
}

int engine_wait_write(engine_var *var, kv_err *e)
{
    (void)var;
    (void)e;
    return KV_OK;
}
