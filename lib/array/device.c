/* Contexts, and the table of GPUs that a plugin registers.
 *
 * cpu(i), for every i, is the host's memory. gpu(i) is one of the virtual GPUs while they are on:
 * host memory under another label. Else it is a GPU of this machine, which a plugin brings. The
 * number of virtual GPUs is process-wide and may be changed at any time; arrays that exist stay
 * where they are.
 */
#include "array/device.h"

#include <stddef.h>

/* Parts of the documented process-wide runtime. */
static int virtual_gpus;    /* atomic */
static const gpu_ops *gpus; /* atomic; the GPUs of this machine, from the first question on */
static const gpu_host *host; /* set when the library is loaded */

void dev_set_virtual_gpus(int n)
{
    __atomic_store_n(&virtual_gpus, n, __ATOMIC_RELEASE);
}

int dev_virtual_gpus(void)
{
    return __atomic_load_n(&virtual_gpus, __ATOMIC_ACQUIRE);
}

int gpu_register(const gpu_ops *ops, kv_err *e)
{
    const gpu_ops *none = NULL;
    if (ops->version != GPU_TABLE_VERSION || ops->size != sizeof *ops)
        return kv_err_set(e, KV_E_VALUE,
                          "the table of GPUs has version %u and %u bytes, this library takes "
                          "version %u and %zu bytes",
                          ops->version, ops->size, GPU_TABLE_VERSION, sizeof *ops);
    if (ops->count < 1 || ops->count > GPU_MOST)
        return kv_err_set(e, KV_E_VALUE,
                          "the table of GPUs has %d of them, this library takes 1 to %d",
                          ops->count, GPU_MOST);
    if (!__atomic_compare_exchange_n(&gpus, &none, ops, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return kv_err_set(e, KV_E_NAME, "a plugin has brought the GPUs of this machine already");
    return KV_OK;
}

void gpu_set_host(const gpu_host *h)
{
    host = h;
}

void gpu_warn(const char *text)
{
    if (host)
        host->warn(text);
}

bool gpu_is_there(void)
{
    return __atomic_load_n(&gpus, __ATOMIC_ACQUIRE) != NULL;
}

const gpu_ops *gpu_find(kv_err *e)
{
    const gpu_ops *found = __atomic_load_n(&gpus, __ATOMIC_ACQUIRE);
    if (found || (host && host->load(e)))
        return found;
    found = __atomic_load_n(&gpus, __ATOMIC_ACQUIRE);
    if (!found)
        kv_err_set(e, KV_E_UNSUPPORTED,
                   host ? "the GPU plugin brings no GPUs" : "this program loads no GPU plugin");
    return found;
}

static int check_gpu(int id, kv_err *e)
{
    int n = dev_virtual_gpus();
    kv_err why = {0};
    if (id < n)
        return KV_OK;
    if (n) {
        kv_err_set(e, KV_E_UNSUPPORTED, "there is no gpu(%d): the virtual GPUs end at gpu(%d)", id,
                   n - 1);
        return kv_err_hint(e, "kvctl --gpus %d and kv_set_virtual_gpus(%d) make more", id + 1,
                           id + 1),
               KV_E_UNSUPPORTED;
    }
    const gpu_ops *found = gpu_find(&why);
    if (found && id < found->count)
        return KV_OK;
    if (found)
        kv_err_set(e, KV_E_UNSUPPORTED, "there is no gpu(%d): the last one here is gpu(%d)", id,
                   found->count - 1);
    else
        kv_err_set(e, KV_E_UNSUPPORTED, "there is no gpu(%d): %s", id, why.text);
    kv_err_hint(e, "virtual GPUs (kvctl --gpus %d, kv_set_virtual_gpus) run on any machine",
                id + 1);
    return KV_E_UNSUPPORTED;
}

int ctx_check(kv_ctx ctx, kv_err *e)
{
    if (ctx.id < 0 || ctx.id > KV_CTX_MAX)
        return kv_err_set(e, KV_E_VALUE, "%d is not a device number: they go from 0 to %d", ctx.id,
                          KV_CTX_MAX);
    switch ((kv_device)ctx.device) {
    case KV_CPU:
        return KV_OK;
    case KV_GPU:
        return check_gpu(ctx.id, e);
    }
    return kv_err_set(e, KV_E_VALUE, "%d is not a kind of device: 0 is cpu, 1 is gpu", ctx.device);
}
