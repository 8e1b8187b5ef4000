/* Functions that pages about MXNet call: its methods of arrays, and its engine. */
#include "array/arrange.h"
#include "functions/func.h"

static int copy_to(value *out, kv_array *a, kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    kv_array *copy;
    int rc = arrange_copy(&copy, a, dtype, ctx, e);
    return rc ? rc : value_array(out, copy, e);
}

/* The context of the second argument, which is there from now on. */
static int wanted_context(function_args *args, kv_ctx *ctx, kv_err *e)
{
    int rc = function_ctx(args->v[1], ctx, e);
    return rc ? rc : session_ctx(args->session, *ctx, e);
}

int func_as_in_context(function_args *args, value *out, kv_err *e)
{
    kv_ctx ctx;
    int rc = wanted_context(args, &ctx, e);
    if (rc)
        return rc;
    if (args->v[0].kind != VALUE_ARRAY || !kv_ctx_same(kv_array_ctx(args->array), ctx))
        return copy_to(out, args->array, kv_array_dtype(args->array), ctx, e);
    *out = value_ref(args->v[0]);
    return KV_OK;
}

int func_asscalar(function_args *args, value *out, kv_err *e)
{
    return value_item(out, args->v[0], e);
}

/* The elements of a go into the array b, which keeps its dtype and context. */
static int copy_into(kv_array *a, value b, kv_err *e)
{
    kv_array *copy, *to = b.u.box->array;
    char from[160], into[160];
    int n = kv_array_ndim(a);
    bool same = n == kv_array_ndim(to);
    if (b.u.box->refs == 1) { /* nobody would see it */
        kv_err_set(e, KV_E_USAGE, "copyto() fills an array that has a name, and a slice is a copy");
        return kv_err_hint(e, "b[0] = a; c = copy(a)"), KV_E_USAGE;
    }
    if (kv_array_storage(a) != kv_array_storage(to))
        return kv_err_set(e, KV_E_DTYPE, "copyto() does not change how an array is stored");
    for (int i = 0; i < n && same; i++)
        same = kv_array_shape(a)[i] == kv_array_shape(to)[i];
    if (!same)
        return kv_err_set(e, KV_E_SHAPE, "an array of shape %s does not go into one of shape %s",
                          kv_shape_text(from, sizeof from, n, kv_array_shape(a)),
                          kv_shape_text(into, sizeof into, kv_array_ndim(to), kv_array_shape(to)));
    int rc = arrange_copy(&copy, a, kv_array_dtype(to), kv_array_ctx(to), e);
    if (!rc)
        value_replace(b, copy);
    return rc;
}

/* a.copyto(b) fills the array b; of a context it gives a new array there. */
int func_copyto(function_args *args, value *out, kv_err *e)
{
    kv_ctx ctx;
    if (args->v[1].kind == VALUE_ARRAY) {
        int rc = copy_into(args->array, args->v[1], e);
        if (!rc)
            *out = value_ref(args->v[1]);
        return rc;
    }
    int rc = wanted_context(args, &ctx, e);
    return rc ? rc : copy_to(out, args->array, kv_array_dtype(args->array), ctx, e);
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
