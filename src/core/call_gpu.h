/* Calls on GPUs with memory of their own.
 *
 * The groups of a call whose arrays can be worked on where they are become jobs of one list, which
 * launches all jobs of a kernel together. A device works in the order of the operations, so the
 * host does not wait for it. Values that lie elsewhere are copied to the GPU of their key; of
 * row_sparse ones only the rows that they hold.
 *
 * Host code does the other groups: a stored array on a cpu, values of several dtypes, values of
 * both storages that no rule works on, updaters in C, rules that print arrays or whose states are
 * elsewhere, codes of values that are elsewhere, sums over all elements of a row_sparse input.
 * Their arrays are copied to host memory first, and the device copies back what was written there
 * when it needs it.
 */
#pragma once

#include "array/mirror.h"
#include "core/call.h"

/* Returns true if the array is on a GPU with memory of its own. */
static inline bool call_is_on_gpu(const kv_array *a)
{
    return a->ctx.device == KV_GPU && mirror_has(a);
}

/* Compiles the rules of a push that will run on GPUs, and takes memory there for values that lie
 * elsewhere, before anything is changed. May wait for the store's other calls. Errors: unsupported,
 * memory. */
int call_gpu_prepare(call *c, kv_err *e);

/* Runs the groups that can run on GPUs, and makes host memory current for the rest. *all: nothing
 * is left. Errors: those of a device; memory, where there is none for the lists of a launch or for
 * the terms of a rule's sums; io, for a key that an earlier call did not write. What was to be
 * written cannot be read then, nor pulled or updated, until something else replaces it. */
int call_gpu_push(call *c, bool *all, kv_err *e);
int call_gpu_pull(call *c, bool *all, kv_err *e);
