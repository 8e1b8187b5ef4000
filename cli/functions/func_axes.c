/* Functions that change the axes of arrays or the order along them, and joins under NumPy's other
 * names. */
#include "functions/func.h"

#include <string.h>

#include "array/arrange.h"
#include "array/slice.h"
#include "base/mem.h"
#include "eval/eval_op.h"

int func_ndim(function_args *args, value *out, kv_err *e)
{
    (void)e;
    *out = value_int(kv_array_ndim(args->array));
    return KV_OK;
}

int func_size(function_args *args, value *out, kv_err *e)
{
    int64_t axis, n = kv_array_size(args->array);
    if (args->v[1].kind != VALUE_NONE) {
        int rc = function_int(args->v[1], "axis", &axis, e);
        if (rc || (rc = arrange_axis(&axis, kv_array_ndim(args->array), e)))
            return rc;
        n = kv_array_shape(args->array)[axis];
    }
    *out = value_int(n);
    return KV_OK;
}

/* ---- Axes of size 1, and their order ---- */

static int reshaped(function_args *args, int ndim, const int64_t *shape, value *out, kv_err *e)
{
    kv_array *made = NULL;
    int rc = arrange_reshape(&made, args->array, ndim, shape, e);
    return function_give(out, made, rc, e);
}

int func_ravel(function_args *args, value *out, kv_err *e)
{
    return reshaped(args, 1, (int64_t[]){kv_array_size(args->array)}, out, e);
}

/* Marks the axes that an argument names, of ndim. */
static int named_axes(value v, int ndim, bool *named, kv_err *e)
{
    int n;
    int64_t axes[KV_MAX_NDIM];
    int rc = function_integers(&v, 1, "axis", &n, axes, e);
    for (int i = 0; i < n && !rc; i++) {
        rc = arrange_axis(&axes[i], ndim, e);
        if (!rc && named[axes[i]])
            rc = kv_err_set(e, KV_E_VALUE, "axis %lld is named twice", (long long)axes[i]);
        if (!rc)
            named[axes[i]] = true;
    }
    return rc;
}

int func_squeeze(function_args *args, value *out, kv_err *e)
{
    int ndim = kv_array_ndim(args->array), kept = 0;
    const int64_t *sizes = kv_array_shape(args->array);
    int64_t shape[KV_MAX_NDIM];
    bool named[KV_MAX_NDIM] = {false}, all = args->v[1].kind == VALUE_NONE;
    int rc = all ? KV_OK : named_axes(args->v[1], ndim, named, e);
    for (int i = 0; i < ndim && !rc; i++) {
        if (named[i] && sizes[i] != 1)
            rc = kv_err_set(e, KV_E_VALUE, "axis %d has %lld indices and stays", i,
                            (long long)sizes[i]);
        if (all ? sizes[i] != 1 : !named[i])
            shape[kept++] = sizes[i];
    }
    return rc ? rc : reshaped(args, kept, shape, out, e);
}

int func_expand_dims(function_args *args, value *out, kv_err *e)
{
    int n, ndim = kv_array_ndim(args->array), next = 0;
    int64_t shape[KV_MAX_NDIM], unused[KV_MAX_NDIM];
    bool named[KV_MAX_NDIM] = {false};
    int rc = function_integers(&args->v[1], 1, "axis", &n, unused, e);
    if (rc)
        return rc;
    if (ndim + n > KV_MAX_NDIM)
        return kv_err_set(e, KV_E_SHAPE, "an array has 0 to %d axes", KV_MAX_NDIM);
    if ((rc = named_axes(args->v[1], ndim + n, named, e)))
        return rc;
    for (int i = 0; i < ndim + n; i++)
        shape[i] = named[i] ? 1 : kv_array_shape(args->array)[next++];
    return reshaped(args, ndim + n, shape, out, e);
}

/* The axes in another order. */
static int ordered(function_args *args, const int64_t *order, value *out, kv_err *e)
{
    kv_array *made = NULL;
    int rc = arrange_transpose(&made, args->array, order, kv_array_ndim(args->array), e);
    return function_give(out, made, rc, e);
}

/* Arguments 1 and 2 as axes. */
static int two_axes(function_args *args, int64_t *one, int64_t *two, kv_err *e)
{
    int ndim = kv_array_ndim(args->array), rc = function_int(args->v[1], "axis", one, e);
    if (rc || (rc = function_int(args->v[2], "axis", two, e)) ||
        (rc = arrange_axis(one, ndim, e)))
        return rc;
    return arrange_axis(two, ndim, e);
}

int func_swapaxes(function_args *args, value *out, kv_err *e)
{
    int64_t one, two, order[KV_MAX_NDIM];
    int rc = two_axes(args, &one, &two, e);
    if (rc)
        return rc;
    for (int i = 0; i < kv_array_ndim(args->array); i++)
        order[i] = i == one ? two : i == two ? one : i;
    return ordered(args, order, out, e);
}

int func_moveaxis(function_args *args, value *out, kv_err *e)
{
    int64_t from, to, order[KV_MAX_NDIM];
    int rc = two_axes(args, &from, &to, e);
    if (rc)
        return rc;
    for (int i = 0, next = 0; i < kv_array_ndim(args->array); i++) {
        next += next == from;
        order[i] = i == to ? from : next++;
    }
    return ordered(args, order, out, e);
}

int func_broadcast_to(function_args *args, value *out, kv_err *e)
{
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    kv_array *made = NULL;
    int rc = function_integers(args->rest + 1, args->nrest - 1, "a size in a shape", &ndim, shape,
                               e);
    if (!rc)
        rc = arrange_broadcast(&made, args->array, ndim, shape, e);
    return function_give(out, made, rc, e);
}

/* ---- The order along axes ---- */

int func_flip(function_args *args, value *out, kv_err *e)
{
    int ndim = kv_array_ndim(args->array);
    bool named[KV_MAX_NDIM] = {false}, all = args->v[1].kind == VALUE_NONE;
    array_range r[KV_MAX_NDIM] = {{0}};
    kv_array *made = NULL;
    int rc = all ? KV_OK : named_axes(args->v[1], ndim, named, e);
    for (int i = 0; i < ndim; i++)
        r[i].step = all || named[i] ? -1 : 1;
    if (!rc)
        rc = array_slice(&made, args->array, r, ndim, e);
    return function_give(out, made, rc, e);
}

/* The last `by` indices of an axis, and then the others. */
static int roll_axis(kv_array **out, kv_array *a, int64_t axis, int64_t by, kv_err *e)
{
    array_range r[KV_MAX_NDIM] = {{0}};
    kv_array *part[2] = {NULL};
    int64_t n = kv_array_shape(a)[axis], cut = n ? n - (by % n + n) % n : 0;
    r[axis] = (array_range){.has_from = true, .from = cut};
    int rc = array_slice(&part[0], a, r, (int)axis + 1, e);
    r[axis] = (array_range){.has_to = true, .to = cut};
    if (!rc && !(rc = array_slice(&part[1], a, r, (int)axis + 1, e)))
        rc = arrange_concat(out, part, 2, axis, kv_array_dtype(a), e);
    kv_array_unref(part[0]);
    kv_array_unref(part[1]);
    return rc;
}

/* roll(a, shift), of the elements in a line, or roll(a, shift, axis), each one or several. */
int func_roll(function_args *args, value *out, kv_err *e)
{
    int n, naxes, own = kv_array_ndim(args->array);
    int64_t by[KV_MAX_NDIM], axes[KV_MAX_NDIM], size = kv_array_size(args->array);
    kv_array *a = kv_array_ref(args->array), *made;
    bool flat = args->v[2].kind == VALUE_NONE;
    int rc = function_integers(&args->v[1], 1, "shift", &n, by, e);
    if (!rc && !flat)
        rc = function_integers(&args->v[2], 1, "axis", &naxes, axes, e);
    if (!rc && !flat && (n == 0 || naxes == 0)) /* rolled along no axis */
        return function_give(out, a, rc, e);
    if (!rc && (flat ? n != 1 : n != naxes && n != 1 && naxes != 1))
        rc = kv_err_set(e, KV_E_VALUE, "roll() takes a shift for each axis");
    if (!rc && flat) {
        kv_array_unref(a);
        a = NULL;
        rc = arrange_reshape(&a, args->array, 1, &size, e);
        axes[0] = 0;
        naxes = 1;
    }
    for (int i = 0; !rc && i < (n > naxes ? n : naxes); i++) {
        int64_t axis = axes[naxes == 1 ? 0 : i];
        if ((rc = arrange_axis(&axis, kv_array_ndim(a), e)) ||
            (rc = roll_axis(&made, a, axis, by[n == 1 ? 0 : i], e)))
            break;
        kv_array_unref(a);
        a = made;
    }
    if (!rc && flat && !(rc = arrange_reshape(&made, a, own, kv_array_shape(args->array), e))) {
        kv_array_unref(a);
        a = made;
    }
    return function_give(out, a, rc, e);
}

/* ---- Two arrays ---- */

int func_outer(function_args *args, value *out, kv_err *e)
{
    kv_array *a = NULL, *b = NULL, *column = NULL, *row = NULL, *made = NULL;
    int rc = value_to_array(&a, args->v[0], e);
    if (rc || (rc = value_to_array(&b, args->v[1], e)) ||
        (rc = arrange_reshape(&column, a, 2, (int64_t[]){kv_array_size(a), 1}, e)) ||
        (rc = arrange_reshape(&row, b, 2, (int64_t[]){1, kv_array_size(b)}, e)))
        goto out;
    rc = eval_op_binary(&made, OP_MUL, column, row, e);
out:
    kv_array_unref(row);
    kv_array_unref(column);
    kv_array_unref(b);
    kv_array_unref(a);
    return function_give(out, made, rc, e);
}

/* ---- Joins ---- */

/* The arrays of a join with at least ndim axes: in front of their own for vstack. */
static int join_along(function_args *args, bool rows, value *out, kv_err *e)
{
    int64_t n, made = 0;
    if (args->v[0].kind == VALUE_ARRAY) { /* of which NumPy joins the rows */
        const char *name = args->function->name;
        kv_err_set(e, KV_E_DTYPE, "%s() takes a list of arrays, not one", name);
        return kv_err_hint(e, "%s([a, b]); %s([row for row in a])", name, name), KV_E_DTYPE;
    }
    const value *v = value_items(args->v, &n);
    kv_array *joined = NULL, **a = mem_zalloc(n, sizeof *a, e);
    kv_dtype dtype = KV_FLOAT32;
    int rc = !a ? KV_E_MEMORY
             : n ? KV_OK
                 : kv_err_set(e, KV_E_VALUE, "%s() takes at least one array", args->function->name);
    for (; made < n && !rc; made++) {
        kv_array *own;
        if ((rc = value_to_array(&own, v[made], e)))
            break;
        int ndim = kv_array_ndim(own);
        int64_t size = kv_array_size(own);
        dtype = made ? promote_dtypes(dtype, kv_array_dtype(own)) : kv_array_dtype(own);
        if (rows && ndim < 2)
            rc = arrange_reshape(&a[made], own, 2, (int64_t[]){1, size}, e);
        else if (ndim == 0)
            rc = arrange_reshape(&a[made], own, 1, &size, e);
        else
            a[made] = kv_array_ref(own);
        kv_array_unref(own);
    }
    if (!rc)
        rc = arrange_concat(&joined, a, n, rows || kv_array_ndim(a[0]) == 1 ? 0 : 1, dtype, e);
    for (int64_t i = 0; a && i < n; i++)
        kv_array_unref(a[i]);
    mem_free(a);
    return function_give(out, joined, rc, e);
}

int func_vstack(function_args *args, value *out, kv_err *e)
{
    return join_along(args, true, out, e);
}

int func_hstack(function_args *args, value *out, kv_err *e)
{
    return join_along(args, false, out, e);
}
