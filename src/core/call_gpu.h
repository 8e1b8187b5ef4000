/* Calls on GPUs with memory of their own.
 *
 * The groups of a call whose arrays can be worked on where they are become lists of jobs, one
 * launch for all groups of a device; what the launches do is in the order of the operations, so the
 * host does not wait for them; where rows matter they are made by call_gpu_rows.h. The other
 * groups, of a stored array on a cpu, of values of both storages, of updaters in C or rules that
 * print, work in host memory: their arrays are brought there first, and what is written goes back
 * when the device needs it.
 */
#ifndef CORE_CALL_GPU_H
#define CORE_CALL_GPU_H

#include "core/call.h"

/* Whether an array is on such a GPU. */
static inline bool call_is_on_gpu(const kv_array *a)
{
    return a->ctx.device == KV_GPU && (a->mirror || (a->memory == ARRAY_VIEW && a->base->mirror));
}

/* Compiles the rules of a push that will run on GPUs, before anything is changed. Errors:
 * unsupported, memory. */
int call_gpu_prepare(const call *c, kv_err *e);

/* Runs what can run on GPUs, and makes host memory current for the rest. *all: nothing is left.
 * Errors: memory, those of a device; what is left then is undefined. */
int call_gpu_push(call *c, bool *all, kv_err *e);
int call_gpu_pull(call *c, bool *all, kv_err *e);

#endif
