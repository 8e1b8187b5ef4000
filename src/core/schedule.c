/* Lists of engine variables. */
#include "core/schedule.h"

#include "base/mem.h"

int schedule_init(schedule_vars *v, int64_t max_reads, int64_t max_writes, kv_err *e)
{
    int64_t n = max_reads + max_writes;
    v->nreads = v->nwrites = 0;
    v->reads = v->inline_vars;
    if (n > 2 * CALL_INLINE && !(v->reads = mem_alloc(n, sizeof *v->reads, e)))
        return KV_E_MEMORY;
    v->writes = v->reads + max_reads;
    return KV_OK;
}

void schedule_release(schedule_vars *v)
{
    if (v->reads != v->inline_vars)
        mem_free(v->reads);
}

int schedule_run(schedule_vars *v, int (*run)(void *arg, kv_err *e), void *arg, const kv_call *how,
                 kv_err *e)
{
    engine_op op = {.run = run,
                    .arg = arg,
                    .reads = v->reads,
                    .writes = v->writes,
                    .nreads = v->nreads,
                    .nwrites = v->nwrites,
                    .priority = how ? how->priority : 0};
    return engine_run(&op, e);
}
