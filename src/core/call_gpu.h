/* Calls on GPUs with memory of their own.
 *
 * The groups of a call whose arrays can be worked on where they are become lists of jobs, one
 * launch for all groups of a device; what the launches do is in the order of the operations, so the
 * host does not wait for them; where rows matter they are made by call_gpu_rows.h. Values that lie
 * elsewhere are copied to the GPU of their key. The other groups work in host memory: those of a
 * stored array on a cpu, of values of both storages or of several dtypes, of updaters in C, of
 * rules that print arrays or whose states are elsewhere, of codes whose values are elsewhere. Their
 * arrays are brought there first, and what is written goes back when the device needs it.
 */
#ifndef CORE_CALL_GPU_H
#define CORE_CALL_GPU_H

#include "core/call.h"

/* Whether an array is on such a GPU. */
static inline bool call_is_on_gpu(const kv_array *a)
{
    return a->ctx.device == KV_GPU && (a->mirror || (a->memory == ARRAY_VIEW && a->base->mirror));
}

/* Compiles the rules of a push that will run on GPUs, and takes memory there for values that lie
 * elsewhere, before anything is changed. May wait for the store's other calls. Errors: unsupported,
 * memory. */
int call_gpu_prepare(call *c, kv_err *e);

/* Brings what the rule of such a group works on to the key's GPU, the stored array that its own one
 * begins as included, and says where it is there. Errors: those of the device. */
int call_gpu_rule_arrays(const call *c, const call_group *g, plan_arrays *out, kv_err *e);

/* Runs what can run on GPUs, and makes host memory current for the rest. *all: nothing is left.
 * Errors: those of a device; memory, where there is none for the lists of a launch or for the terms
 * of a rule's sums; io, for a key that an earlier call did not write. What was to be written cannot
 * be read then, nor pulled or updated, until something else replaces it. */
int call_gpu_push(call *c, bool *all, kv_err *e);
int call_gpu_pull(call *c, bool *all, kv_err *e);

#endif
