/* Which device table serves which context.
 *
 * cpu(i), for every i, is the host's memory. gpu(i) is one of the virtual GPUs while they are on:
 * host memory under another label. The number of virtual GPUs is process-wide and may be changed at
 * any time; arrays that exist keep the table they were made with.
 */
#include "array/device.h"

#include <stddef.h>

static int virtual_gpus; /* atomic; a part of the documented process-wide runtime */

void dev_set_virtual_gpus(int n)
{
    __atomic_store_n(&virtual_gpus, n, __ATOMIC_RELEASE);
}

int dev_virtual_gpus(void)
{
    return __atomic_load_n(&virtual_gpus, __ATOMIC_ACQUIRE);
}

static const dev_ops *find_gpu(int id, kv_err *e)
{
    int n = dev_virtual_gpus();
    if (id < n)
        return &cpu_dev_ops;
    if (n) {
        kv_err_set(e, KV_E_UNSUPPORTED, "there is no gpu(%d): the virtual GPUs end at gpu(%d)", id,
                   n - 1);
        return NULL;
    }
    kv_err_set(e, KV_E_UNSUPPORTED, "there is no gpu(%d): this build has no GPU plugin", id);
    kv_err_hint(e, "virtual GPUs (kvctl --gpus %d, kv_set_virtual_gpus) run on any machine",
                id + 1);
    return NULL;
}

const dev_ops *dev_find(kv_ctx ctx, kv_err *e)
{
    if (ctx.id < 0 || ctx.id > KV_CTX_MAX) {
        kv_err_set(e, KV_E_VALUE, "%d is not a device number: they go from 0 to %d", ctx.id,
                   KV_CTX_MAX);
        return NULL;
    }
    switch ((kv_device)ctx.device) {
    case KV_CPU:
        return &cpu_dev_ops;
    case KV_GPU:
        return find_gpu(ctx.id, e);
    }
    kv_err_set(e, KV_E_VALUE, "%d is not a kind of device: 0 is cpu, 1 is gpu", ctx.device);
    return NULL;
}
