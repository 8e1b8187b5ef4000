/* Sums of row_sparse values, before the push is committed. How much memory such a sum takes depends
 * on the rows of the values, so the sum is made while the push may still fail. */
#include "core/push_sparse.h"

#include <string.h>

#include "array/gpu_list.h"
#include "array/mirror.h"
#include "array/sparse.h"
#include "base/mem.h"
#include "core/store.h"

/* Makes the elements of values current in host memory. */
static int bring_values(kv_array *const *values, int64_t n, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < n && !rc; i++)
        rc = mirror_host(values[i], MIRROR_READ, e);
    return rc;
}

/* The memory of a sum of row_sparse values depends on their rows, so the sum is made now, before
 * anything is written; sums of keys on GPUs are only listed. A rule reads a single value of the
 * right dtype in place. */
static int sum_sparse(const call *c, call_group *g, bool rule, gpu_list *listed, kv_err *e)
{
    const kv_array *stored = call_slot(c, g)->stored;
    kv_array *const *values = c->values + g->first;
    for (int64_t i = 0; i < g->n; i++)
        engine_wait_read(array_var(values[i]));
    kv_dtype dtype = stored ? stored->dtype : values[0]->dtype;
    if (g->n == 1 && g->same_dtype && rule) {
        g->sum = kv_array_ref(values[0]);
        return KV_OK;
    }
    if (!mirror_needed(g->ctx))
        return sparse_sum(&g->sum, values, g->n, dtype, g->ctx, e);
    int rc = listed->gpu ? KV_OK : gpu_list_begin(listed, e);
    return rc ? rc : sparse_gpu_sum(listed, &g->sum, values, g->n, dtype, g->ctx, e);
}

/* The sum of dense copies. */
static int sum_copies(kv_array **out, call *c, const call_group *g, kv_array **copies, kv_err *e)
{
    const kv_array *stored = call_slot(c, g)->stored, *like = stored ? stored : copies[0];
    const void **data = c->data + g->first;
    for (int64_t i = 0; i < g->n; i++)
        data[i] = copies[i]->data;
    int rc = apply_reserve(&c->work, 1, g->n, 0, 0, e);
    if (!rc)
        rc = kv_array_new_raw(out, like->dtype, like->ndim, array_shape(like), g->ctx, e);
    apply_values v = {copies, data, g->n, g->same_dtype, NULL};
    if (!rc)
        apply_sum(*out, &v, 0, like->size, false, &c->work, 0);
    return rc;
}

/* Values of both storages: their sum, a default array, becomes the one value of the group. */
static int sum_mixed(call *c, call_group *g, kv_err *e)
{
    if (c->values != c->list)
        memcpy(c->list, c->values, (size_t)c->nvalues * sizeof *c->list);
    c->values = c->list;
    kv_array **copies = mem_zalloc(g->n, sizeof *copies, e);
    int rc = copies ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < g->n && !rc; i++)
        rc = kv_array_to_dense(&copies[i], c->list[g->first + i], e);
    if (!rc)
        rc = bring_values(copies, g->n, e);
    if (!rc)
        rc = sum_copies(&g->dense, c, g, copies, e);
    for (int64_t i = 0; copies && i < g->n; i++)
        kv_array_unref(copies[i]);
    mem_free(copies);
    if (rc)
        return rc;
    c->list[g->first] = g->dense;
    c->data[g->first] = g->dense->data;
    g->n = 1;
    g->same_dtype = true;
    return KV_OK;
}

/* ASSIGN of default values to a key that is row_sparse: the sum loses its rows of zeros. */
static int sum_to_sparse(call *c, call_group *g, kv_err *e)
{
    const kv_array *stored = call_slot(c, g)->stored;
    kv_array *sum = NULL;
    apply_values v = {c->values + g->first, c->data + g->first, g->n, g->same_dtype, NULL};
    int rc = apply_reserve(&c->work, 1, g->n, 0, 0, e);
    for (int64_t i = 0; i < g->n && !rc; i++)
        engine_wait_read(array_var(v.items[i]));
    if (!rc)
        rc = bring_values(v.items, g->n, e);
    if (!rc)
        rc = kv_array_new_raw(&sum, stored->dtype, stored->ndim, array_shape(stored), g->ctx, e);
    if (rc)
        return rc;
    apply_sum(sum, &v, 0, sum->size, false, &c->work, 0);
    rc = kv_array_to_sparse(&g->sum, sum, e);
    kv_array_unref(sum);
    return rc;
}

static int prepare_sparse_group(call *c, call_group *g, updater_kind kind, gpu_list *listed,
                                kv_err *e)
{
    const kv_array *stored = call_slot(c, g)->stored;
    int rc = g->mixed ? sum_mixed(c, g, e) : KV_OK;
    if (rc)
        return rc;
    if (g->sparse)
        rc = sum_sparse(c, g, kind == UPDATER_RULE, listed, e);
    else if (kind == UPDATER_ASSIGN && stored && stored->storage == KV_ROW_SPARSE)
        rc = sum_to_sparse(c, g, e);
    if (!rc && kind == UPDATER_ASSIGN && g->sum) {
        g->fresh = g->sum;
        g->sum = NULL;
    }
    return rc;
}

int push_sum_sparse(call *c, kv_err *e)
{
    updater_kind kind = c->store->updater.kind;
    gpu_list listed = {0};
    int rc = KV_OK;
    c->owns = true;
    for (int64_t i = 0; i < c->ngroups && !rc; i++)
        rc = prepare_sparse_group(c, &c->groups[i], kind, &listed, e);
    if (!rc)
        rc = gpu_list_run(&listed, e);
    gpu_list_release(&listed);
    return rc;
}
