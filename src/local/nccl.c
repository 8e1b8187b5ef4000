/* The type nccl: the type device on GPUs, whose sums and copies between them are NCCL's, one group
 * for all keys of a call that lie on the same GPUs.
 *
 * Values of a key lie on one GPU each; any GPUs, from call to call. The sum goes to the GPU of the
 * key, which is that of its first value, the updater runs there, and a pull copies from there. NCCL
 * adds in an order of its own and rounds float16 and bfloat16 sums at each step, so for three
 * values and more the last bits can differ from those of device. (MXNet 1.9.1, kvstore_nccl.h; its
 * one set of devices for all calls is not copied.)
 */
#include "array/mirror.h"
#include "core/store.h"
#include "local/local.h"

/* ---- Checks ---- */

static int check_dense(const kv *store, const kv_pairs *p, kv_err *e)
{
    for (int64_t i = 0; i < p->n; i++)
        if (p->arrays[i]->storage != KV_DEFAULT)
            return slot_error(e, KV_E_UNSUPPORTED, &p->keys[i],
                              "the type device does; kv_array_to_dense makes an array dense",
                              "the type \"%s\" takes no row_sparse arrays, as for key %s",
                              store->type, SLOT_KEY(&p->keys[i]));
    return KV_OK;
}

/* Several values lie on one GPU each. One value may lie anywhere: there is nothing to sum. */
static int check_group(const call *c, const call_group *g, kv_err *e)
{
    const char *hint = "the type device sums values wherever they are";
    uint64_t seen = 0;
    if (g->n > 1 && g->target->dtype == KV_BOOL)
        return slot_error(e, KV_E_UNSUPPORTED, &g->key, hint,
                          "key %s is bool, which NCCL cannot sum", SLOT_KEY(&g->key));
    if (g->n > 1 && !g->same_dtype)
        return slot_error(e, KV_E_UNSUPPORTED, &g->key, hint,
                          "the values of key %s have not all the dtype of the key, %s, in which "
                          "NCCL sums",
                          SLOT_KEY(&g->key), kv_dtype_name((kv_dtype)g->target->dtype));
    for (int64_t i = 0; i < g->n && g->n > 1; i++) {
        const kv_array *a = c->values[g->first + i];
        if (!mirror_has(a))
            return slot_error(e, KV_E_UNSUPPORTED, &g->key, hint,
                              "value %lld of key %s is not on a GPU, and NCCL sums on GPUs",
                              (long long)i + 1, SLOT_KEY(&g->key));
        uint64_t bit = (uint64_t)1 << mirror_gpu(a);
        if (seen & bit)
            return slot_error(e, KV_E_UNSUPPORTED, &g->key, hint,
                              "two values of key %s are on gpu(%d), and NCCL takes one of each GPU",
                              SLOT_KEY(&g->key), mirror_gpu(a));
        seen |= bit;
    }
    return KV_OK;
}

static int check_groups(const call *c, kv_err *e)
{
    for (int64_t i = 0; i < c->ngroups; i++)
        TRY(check_group(c, &c->groups[i], e));
    return KV_OK;
}

/* ---- The operations ---- */

static int open_nccl(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    int version;
    if (dev_virtual_gpus()) {
        kv_err_set(e, KV_E_UNSUPPORTED, "the type \"%s\" wants GPUs of this machine, these are "
                                        "virtual",
                   store->type);
        return kv_err_hint(e, "the type device works with virtual GPUs"), KV_E_UNSUPPORTED;
    }
    const gpu_ops *gpu = gpu_find(e);
    TRY(gpu ? gpu->group_find(&version, e) : KV_E_UNSUPPORTED);
    store->follows_gpus = true;
    store->together = true;
    store->check_push = check_groups;
    return local_open(store, opts, nopts, self, e);
}

static int init(void *self, const kv_pairs *values, const kv_call *how, kv_err *e)
{
    TRY(check_dense(self, values, e));
    return local_init(self, values, how, e);
}

static int push(void *self, const kv_pairs *values, const kv_call *how, kv_err *e)
{
    TRY(check_dense(self, values, e));
    return local_push(self, values, how, e);
}

static int pull(void *self, const kv_pairs *outs, const kv_call *how, kv_err *e)
{
    TRY(check_dense(self, outs, e));
    return local_pull(self, outs, how, e);
}

static int pushpull(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                    kv_err *e)
{
    TRY(check_dense(self, values, e));
    TRY(check_dense(self, outs, e));
    return local_pushpull(self, values, outs, how, e);
}

static int broadcast(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                     kv_err *e)
{
    TRY(check_dense(self, values, e));
    TRY(check_dense(self, outs, e));
    return local_broadcast(self, values, outs, how, e);
}

static const char *const names[] = {"nccl", NULL};

const kv_type_ops nccl_type_ops = {
    .size = sizeof(kv_type_ops),
    .version = KV_TYPE_VERSION,
    .names = names,
    .capabilities = KV_CAN_UPDATER | KV_CAN_OPTIMIZER | KV_CAN_STATES | KV_CAN_TRANSACTIONS |
                    KV_CAN_FILES | KV_CAN_DELETE,
    .open = open_nccl,
    .init = init,
    .push = push,
    .pull = pull,
    .pushpull = pushpull,
    .broadcast = broadcast,
};
