/* Handing a call of many arrays to the engine as one operation. */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include "array/device.h"
#include "kvstore.h"

/* The variables that an operation reads and writes, in lists of the caller. */
typedef struct schedule_vars {
    engine_var **reads, **writes;
    int64_t nreads, nwrites;
} schedule_vars;

static inline void schedule_read(schedule_vars *v, kv_array *a)
{
    v->reads[v->nreads++] = array_var(a);
}

static inline void schedule_write(schedule_vars *v, kv_array *a)
{
    v->writes[v->nwrites++] = array_var(a);
}

/* Runs run(arg) as one operation over these variables. Returns what engine_run does. */
int schedule_run(const schedule_vars *v, int (*run)(void *arg, kv_err *e), void *arg,
                 const kv_call *how, kv_err *e);

#endif
