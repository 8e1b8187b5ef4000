/* Running plans on a device with memory of its own: each kernel is one launch for all keys whose
 * rules have the same text (vm/plan_text.h).
 *
 * Behind a pass with sums over all elements come two launches more, for all keys: one adds the
 * terms of each chunk, one the sums of the chunks, both in their order, as for the CPU. What is
 * computed of such numbers is a launch too, so they stay on the device and the host waits for
 * nothing.
 */
#pragma once

#include "array/gpu_list.h"
#include "vm/plan.h"
#include "vm/plan_text.h"

/* The work on one key. Places of arrays are the device's. */
typedef struct plan_gpu_item {
    const plan *plan;
    const plan_arrays *arrays; /* stored, weight, states; input_dtype, size, row, seed and t */
    const void *const *values; /* whose sum the input is; the host's list */
    int64_t nvalues;
    plan_input input;   /* if not PLAN_INPUT_ALL, one value, whose rows lie end to end: */
    const int64_t *ids; /* the host's list of them, ascending, */
    int64_t nids;       /* and how many there are */
} plan_gpu_item;

/* Compiles the kernels of the plan, so that running it cannot fail in this. before: NULL, or one
 * that is prepared for the same device and input. Errors: unsupported, memory. */
int plan_gpu_prepare(const gpu_ops *gpu, int id, const plan *p, plan_input input,
                     const plan *before, kv_err *e);

/* Runs all items, which touch no array of each other, through a list without launches, whose blocks
 * and memory it uses. Items with some rows, or whose plan works by rows, have elements. Errors:
 * memory, those of the device. */
int plan_gpu_run(gpu_list *l, int id, const plan_gpu_item *items, int64_t n, kv_err *e);
