/* Running plans on a device with memory of its own: each pass is one launch for all keys whose
 * rules have the same text, with the sum of the values in it.
 *
 * Behind a pass with sums over all elements come two launches more, for all keys: one adds the
 * terms of each chunk, one the sums of the chunks, both in their order, as for the CPU. What is
 * computed of such numbers is a launch too, so they stay on the device and the host waits for
 * nothing.
 */
#ifndef VM_PLAN_GPU_H
#define VM_PLAN_GPU_H

#include "array/device.h"
#include "vm/plan.h"

/* The work on one key. Places of arrays are the device's. */
typedef struct plan_gpu_item {
    const plan *plan;
    const plan_arrays *arrays; /* stored, weight, states; size, seed and t */
    const void *const *values; /* whose sum the input is, of the input's dtype; the host's list */
    int64_t nvalues;
} plan_gpu_item;

/* Whether a plan can run this way, with inputs that hold all rows: not one that works by rows. */
bool plan_gpu_possible(const plan *p);

/* Compiles what the plan needs, so that running it will not have to. before: one that is prepared
 * for the same device, or NULL. Errors: unsupported, memory. */
int plan_gpu_prepare(const gpu_ops *gpu, int id, const plan *p, const plan *before, kv_err *e);

/* Runs all items, which touch no array of each other. Errors: memory, those of the device. */
int plan_gpu_run(const gpu_ops *gpu, int id, const plan_gpu_item *items, int64_t n, kv_err *e);

#endif
