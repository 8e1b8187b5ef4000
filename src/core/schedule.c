/* The description of a call as an operation of the engine. */
#include "core/schedule.h"

int schedule_run(const schedule_vars *v, int (*run)(void *arg, kv_err *e), void *arg,
                 const kv_call *how, kv_err *e)
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
