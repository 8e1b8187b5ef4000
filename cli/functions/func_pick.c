/* Functions that pick elements by their indices, find indices, and count them. */
#include "functions/func.h"

#include <string.h>

#include "array/arrange.h"
#include "array/pick.h"
#include "array/reduce.h"
#include "array/arrange.h"
#include "array/slice.h"
#include "base/stop.h"
#include "cpu/cpu.h"
#include "eval/eval.h"
#include "eval/eval_op.h"

/* ---- take ---- */

/* Brings ids that lie outside of an axis of len into it. */
static int bring_inside(kv_array **ids, const char *mode, int64_t len, kv_err *e)
{
    kv_array *inside, *wide;
    int rc;
    if (strcmp(mode, "raise") == 0)
        return KV_OK;
    if (!kv_dtype_is_float(kv_array_dtype(*ids))) { /* len may not fit their own */
        if ((rc = arrange_copy(&wide, *ids, KV_INT64, kv_array_ctx(*ids), e)))
            return rc;
        kv_array_unref(*ids);
        *ids = wide;
    }
    if (len == 0)
        return kv_err_set(e, KV_E_INDEX, "an axis of 0 has no element to take");
    if (strcmp(mode, "clip") == 0)
        rc = eval_op_call(&inside, "clip", *ids, (int64_t[]){0, len - 1}, e);
    else if (strcmp(mode, "wrap") == 0)
        rc = eval_op_number(&inside, OP_MOD, *ids, host_int(len), e);
    else
        return kv_err_set(e, KV_E_VALUE, "mode is raise, clip or wrap, not %s", mode);
    if (rc)
        return rc;
    kv_array_unref(*ids);
    *ids = inside;
    return KV_OK;
}

int func_take(function_args *args, value *out, kv_err *e)
{
    bool flat = args->v[2].kind == VALUE_NONE;
    int64_t axis = 0, size = kv_array_size(args->array);
    const char *mode = "raise";
    array_range r[KV_MAX_NDIM] = {{0}};
    kv_array *a = NULL, *ids = NULL, *made = NULL;
    int rc = args->given[3] ? function_text(args->v[3], "mode", &mode, e) : KV_OK;
    if (!rc && !flat)
        rc = function_int(args->v[2], "axis", &axis, e);
    if (rc || (rc = flat ? arrange_reshape(&a, args->array, 1, &size, e)
                         : arrange_axis(&axis, kv_array_ndim(args->array), e)) ||
        (rc = eval_ids(args->v[1], &ids, e)))
        goto out;
    kv_array *from = flat ? a : args->array;
    if (kv_array_dtype(ids) == KV_BOOL) {
        rc = kv_err_set(e, KV_E_DTYPE, "take() takes indices, not bools");
        kv_err_hint(e, "a mask selects elements: x[mask]");
    }
    if (!rc && !(rc = bring_inside(&ids, mode, kv_array_shape(from)[axis], e))) {
        r[axis].ids = ids;
        rc = array_slice(&made, from, r, (int)axis + 1, e);
    }
out:
    kv_array_unref(ids);
    kv_array_unref(a);
    return function_give(out, made, rc, e);
}

int func_nonzero(function_args *args, value *out, kv_err *e)
{
    kv_array *places, *index[KV_MAX_NDIM] = {NULL};
    int ndim = kv_array_ndim(args->array), made = 0;
    int64_t strides[KV_MAX_NDIM];
    if (ndim == 0) {
        kv_err_set(e, KV_E_SHAPE, "nonzero() of a number: it has no axes");
        return kv_err_hint(e, "reshape(x, 1) has one"), KV_E_SHAPE;
    }
    int rc = pick_mask(&places, args->array, 1, e);
    if (rc)
        return rc;
    strided_rows(strides, ndim, kv_array_shape(args->array));
    for (; made < ndim && !rc; made += !rc)
        rc = pick_index(&index[made], places, kv_array_shape(args->array)[made], strides[made], e);
    kv_array_unref(places);
    return function_give_several(out, VALUE_TUPLE, index, made, rc, e);
}

int func_argwhere(function_args *args, value *out, kv_err *e)
{
    value parts;
    kv_array *axes[KV_MAX_NDIM], *made = NULL;
    int rc = func_nonzero(args, &parts, e), n = 0;
    if (rc)
        return rc;
    for (; n < parts.u.list->n && !rc; n += !rc)
        rc = value_to_array(&axes[n], parts.u.list->items[n], e);
    if (!rc)
        rc = arrange_stack(&made, axes, n, 1, KV_INT64, e);
    for (int i = 0; i < n; i++)
        kv_array_unref(axes[i]);
    value_release(&parts);
    return function_give(out, made, rc, e);
}

/* ---- Counting ---- */

/* x as whole numbers that are not negative: a vector of int64, and the largest, -1 of none. */
static int whole_vector(kv_array **out, kv_array *x, int64_t *largest, kv_err *e)
{
    const void *data;
    if (kv_array_ndim(x) != 1)
        return kv_err_set(e, KV_E_SHAPE, "bincount() counts a vector, not %d axes",
                          kv_array_ndim(x));
    if (kv_dtype_is_float(kv_array_dtype(x)) && kv_array_size(x) > 0) {
        kv_array *bound;
        int rc = pick_ids(&bound, x, 0, INT64_MAX, 1, e); /* whole ones only */
        if (rc)
            return rc;
        kv_array_unref(bound);
    }
    int rc = arrange_copy(out, x, KV_INT64, (kv_ctx){KV_CPU, 0}, e);
    if (rc)
        return rc;
    *largest = -1;
    rc = kv_array_read(*out, &data, e);
    const int64_t *at = data;
    for (int64_t i = 0; i < kv_array_size(x) && !rc && !(rc = stop_check_at(i, e)); i++) {
        *largest = at[i] > *largest ? at[i] : *largest;
        if (at[i] < 0)
            rc = kv_err_set(e, KV_E_VALUE, "bincount() counts numbers from 0 on, not %lld",
                            (long long)at[i]);
    }
    if (rc)
        kv_array_unref(*out);
    return rc;
}

/* Adds 1, or a weight, for each number at its place. */
static int count_into(kv_array *counts, kv_array *x, kv_array *weights, kv_err *e)
{
    const void *ids, *weight = NULL;
    void *to;
    int rc = kv_array_read(x, &ids, e);
    if (rc || (rc = kv_array_write(counts, &to, e)) ||
        (weights && (rc = kv_array_read(weights, &weight, e))))
        return rc;
    const int64_t *at = ids;
    const double *w = weight;
    for (int64_t i = 0; i < kv_array_size(x) && !rc && !(rc = stop_check_at(i, e)); i++) {
        if (w)
            ((double *)to)[at[i]] += w[i];
        else
            ((int64_t *)to)[at[i]]++;
    }
    return rc;
}

int func_bincount(function_args *args, value *out, kv_err *e)
{
    kv_array *x, *given = NULL, *weights = NULL, *counts = NULL;
    int64_t n, least = 0;
    kv_ctx cpu = {KV_CPU, 0};
    int rc = whole_vector(&x, args->array, &n, e);
    if (rc)
        return rc;
    if (args->given[2])
        rc = function_int(args->v[2], "minlength", &least, e);
    if (!rc && args->v[1].kind != VALUE_NONE &&
        !(rc = value_to_array(&given, args->v[1], e)) && !kv_array_same_shape(given, x))
        rc = kv_err_set(e, KV_E_SHAPE, "bincount() takes a weight for each number");
    if (!rc && given)
        rc = arrange_copy(&weights, given, KV_FLOAT64, cpu, e);
    if (!rc && __builtin_add_overflow(n, 1, &n))
        rc = kv_err_set(e, KV_E_MEMORY, "no memory for a count of each number");
    n = n > least ? n : least;
    if (!rc)
        rc = arrange_zeros(&counts, weights ? KV_FLOAT64 : KV_INT64, 1, &n, cpu, e);
    if (!rc)
        rc = count_into(counts, x, weights, e);
    kv_array_unref(weights);
    kv_array_unref(given);
    kv_array_unref(x);
    return function_give(out, counts, rc, e);
}

/* one_hot(ids, depth): as MXNet, an id that is out of range has no hot one. */
int func_one_hot(function_args *args, value *out, kv_err *e)
{
    kv_array *ids = NULL, *range = NULL, *column = NULL, *same = NULL, *hot = NULL;
    int64_t depth, shape[KV_MAX_NDIM];
    kv_dtype dtype;
    int ndim = kv_array_ndim(args->array);
    void *to;
    int rc = function_int(args->v[1], "depth", &depth, e);
    if (rc || (rc = function_dtype(args->v[2], KV_FLOAT32, &dtype, e)))
        return rc;
    if (ndim == KV_MAX_NDIM)
        return kv_err_set(e, KV_E_SHAPE, "an array has 0 to %d axes", KV_MAX_NDIM);
    memcpy(shape, kv_array_shape(args->array), (size_t)ndim * sizeof *shape);
    shape[ndim] = 1;
    if ((rc = arrange_copy(&ids, args->array, KV_INT64, (kv_ctx){KV_CPU, 0}, e)) ||
        (rc = arrange_reshape(&column, ids, ndim + 1, shape, e)) ||
        (rc = kv_array_new_raw(&range, KV_INT64, 1, &depth, (kv_ctx){KV_CPU, 0}, e)) ||
        (rc = kv_array_write(range, &to, e)))
        goto out;
    for (int64_t i = 0; i < depth && !(rc = stop_check_at(i, e)); i++)
        ((int64_t *)to)[i] = i;
    if (!rc && !(rc = eval_op_binary(&same, OP_EQ, column, range, e)))
        rc = arrange_copy(&hot, same, dtype, kv_array_ctx(args->array), e);
out:
    kv_array_unref(same);
    kv_array_unref(range);
    kv_array_unref(column);
    kv_array_unref(ids);
    return function_give(out, hot, rc, e);
}
