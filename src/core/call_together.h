/* Sums and copies of a call in which several GPUs work together, through the group entries of their
 * table: all jobs of one set of devices are one group. For the type nccl, whose values lie on one
 * GPU each.
 */
#ifndef CORE_CALL_TOGETHER_H
#define CORE_CALL_TOGETHER_H

#include "array/gpu_list.h"
#include "core/call.h"

/* All zero, but for list.gpu, is none. */
typedef struct together {
    uint64_t keys_on; /* the devices of the keys, as bits */
    struct together_job {
        uint64_t set; /* of devices, as bits */
        gpu_group_job job;
    } *jobs;
    int64_t n, cap;
    gpu_list list; /* memory of the jobs, blocks for sums, and their copies to keys elsewhere */
} together;

/* Adds the sum of a group's values, one on each of several devices. It will be at dst, on the
 * device id, or where dst is NULL in a block there. Errors: memory, those of a device. */
int together_sum(together *t, const call *c, const call_group *g, int id, void *dst,
                 const void **out, kv_err *e);

/* Adds copies of a group's stored array, on one device, to n outs on other devices, one on each
 * of them, in the dtype stored; left[i] becomes false for those. Errors: as above. */
int together_copy(together *t, kv_array *const *outs, int64_t n, const kv_array *from, bool *left,
                  kv_err *e);

/* Does the sums or copies that were added, one group for each set. Errors: as above. */
int together_run(together *t, bool copies, kv_err *e);

void together_release(together *t);

#endif
