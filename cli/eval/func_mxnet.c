/* Functions that pages about MXNet call: its methods of arrays, and its engine. */
#include "array/arrange.h"
#include "eval/func.h"

/* A copy on another context; the array itself when it is there already. */
int func_as_in_context(function_args *args, value *out, kv_err *e)
{
    kv_ctx ctx;
    kv_array *moved;
    int rc = function_ctx(args->v[1], &ctx, e);
    if (rc || (rc = session_ctx(args->session, ctx, e)))
        return rc;
    if (kv_ctx_same(kv_array_ctx(args->array), ctx)) {
        *out = value_array(kv_array_ref(args->array));
        return KV_OK;
    }
    rc = arrange_copy(&moved, args->array, kv_array_dtype(args->array), ctx, e);
    if (!rc)
        *out = value_array(moved);
    return rc;
}

int func_asscalar(function_args *args, value *out, kv_err *e)
{
    return value_item(out, args->v[0], e);
}

int func_copyto(function_args *args, value *out, kv_err *e)
{
    kv_ctx ctx;
    kv_array *copy;
    if (args->v[1].kind == VALUE_ARRAY) {
        kv_err_set(e, KV_E_UNSUPPORTED, "copyto() copies to a context, not into an array");
        return kv_err_hint(e, "b[:] = a copies the elements of a into b");
    }
    int rc = function_ctx(args->v[1], &ctx, e);
    if (rc || (rc = session_ctx(args->session, ctx, e)))
        return rc;
    rc = arrange_copy(&copy, args->array, kv_array_dtype(args->array), ctx, e);
    if (!rc)
        *out = value_array(copy);
    return rc;
}

int func_wait_to_read(function_args *args, value *out, kv_err *e)
{
    const void *data;
    *out = value_none();
    return kv_array_storage(args->array) == KV_ROW_SPARSE
               ? kv_array_read_rows(args->array, &data, e)
               : kv_array_read(args->array, &data, e);
}

int func_waitall(function_args *args, value *out, kv_err *e)
{
    int rc = KV_OK;
    const session *s = args->session;
    *out = value_none();
    for (int64_t i = 0; i < s->nstores && !rc; i++)
        rc = kv_wait(s->stores[i].store, e);
    return rc;
}
