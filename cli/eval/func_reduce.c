/* Functions that make one number of many: over a whole array, or along axes. */
#include "eval/func.h"

#include <math.h>
#include <string.h>

#include "array/arrange.h"
#include "array/dot.h"
#include "array/promote.h"
#include "array/reduce.h"
#include "base/stop.h"
#include "cpu/cpu.h"

/* The argument of a parameter, none where it was not given or the function has none. */
static value argument(const function_args *args, const char *name)
{
    int p = function_param(args->function, name);
    return p < 0 ? value_none() : args->v[p];
}

/* axis: none, an integer, or a list of them; keepdims and ddof where the function has them. */
static int reduce_as(function_args *args, kv_array *a, reduce_op op, value *out, kv_err *e)
{
    value axis = args->v[function_param(args->function, "axis")];
    value ddof = argument(args, "ddof");
    int n = 1, rc = KV_OK;
    int64_t axes[KV_MAX_NDIM];
    reduce_how how = {0};
    bool all = axis.kind == VALUE_NONE;
    kv_array *made = NULL;
    if (!all)
        rc = function_integers(&axis, 1, "axis", &n, axes, e);
    if (!rc && n > 1 && (op == REDUCE_ARGMAX || op == REDUCE_ARGMIN))
        rc = kv_err_set(e, KV_E_USAGE, "%s() takes one axis", reduce_name(op));
    if (!rc && !(rc = function_flag(args, "keepdims", &how.keepdims, e)) &&
        ddof.kind != VALUE_NONE)
        rc = function_number(ddof, "ddof", &how.ddof, e);
    if (!rc)
        rc = reduce_array(&made, a, op, all ? NULL : axes, n, &how, e);
    return function_give(out, made, rc, e);
}

/* The same of the first argument, which dtype= converts first. */
static int reduce(function_args *args, reduce_op op, value *out, kv_err *e)
{
    value dtype = argument(args, "dtype");
    kv_dtype to;
    kv_array *a = args->array;
    int rc = function_dtype(dtype, kv_array_dtype(a), &to, e);
    if (rc || to == kv_array_dtype(a))
        return rc ? rc : reduce_as(args, a, op, out, e);
    if ((rc = arrange_copy(&a, a, to, kv_array_ctx(a), e)))
        return rc;
    rc = reduce_as(args, a, op, out, e);
    kv_array_unref(a);
    return rc;
}

int func_sum(function_args *args, value *out, kv_err *e)
{
    return reduce(args, REDUCE_SUM, out, e);
}

int func_prod(function_args *args, value *out, kv_err *e)
{
    return reduce(args, REDUCE_PROD, out, e);
}

int func_mean(function_args *args, value *out, kv_err *e)
{
    return reduce(args, REDUCE_MEAN, out, e);
}

int func_var(function_args *args, value *out, kv_err *e)
{
    return reduce(args, REDUCE_VAR, out, e);
}

int func_std(function_args *args, value *out, kv_err *e)
{
    return reduce(args, REDUCE_STD, out, e);
}

int func_any(function_args *args, value *out, kv_err *e)
{
    return reduce(args, REDUCE_ANY, out, e);
}

int func_all(function_args *args, value *out, kv_err *e)
{
    return reduce(args, REDUCE_ALL, out, e);
}

int func_argmax(function_args *args, value *out, kv_err *e)
{
    return reduce(args, REDUCE_ARGMAX, out, e);
}

int func_argmin(function_args *args, value *out, kv_err *e)
{
    return reduce(args, REDUCE_ARGMIN, out, e);
}

int func_norm(function_args *args, value *out, kv_err *e)
{
    return reduce(args, REDUCE_NORM, out, e);
}

/* max(a) and max(a, axis=0) are reductions; of several arguments the largest is taken element by
 * element, which is arithmetic and comes here with host numbers only. */
static int extreme(function_args *args, reduce_op op, value *out, kv_err *e)
{
    host numbers[8], best;
    kv_array *a;
    if (args->nrest == 1) {
        int code = value_to_array(&a, args->rest[0], e);
        if (code)
            return code;
        code = reduce_as(args, a, op, out, e);
        kv_array_unref(a);
        return code;
    }
    if (args->given[1] || args->given[2])
        return kv_err_set(e, KV_E_USAGE, "%s() with %s takes one array", args->function->name,
                          args->given[1] ? "axis=" : "keepdims=");
    for (int64_t i = 0; i < args->nrest; i++) {
        if (i == 8 || !value_is_number(args->rest[i]))
            return kv_err_set(e, KV_E_DTYPE, "%s() of several arguments takes numbers, not %s",
                              args->function->name,
                              i == 8 ? "more than 8" : value_kind_name(args->rest[i]));
        numbers[i] = value_host(args->rest[i]);
    }
    int rc = host_call(args->function->name, numbers, (int)args->nrest, &best, e);
    return rc ? rc : value_from_host(out, best, e);
}

int func_max(function_args *args, value *out, kv_err *e)
{
    return extreme(args, REDUCE_MAX, out, e);
}

int func_min(function_args *args, value *out, kv_err *e)
{
    return extreme(args, REDUCE_MIN, out, e);
}

/* ---- Two arrays ---- */

/* Numbers beside an array take its dtype. */
static int read_pair(function_args *args, kv_array **a, kv_array **b, kv_err *e)
{
    value x = args->v[0], y = args->v[1];
    const kv_ctx cpu0 = {KV_CPU, 0};
    kv_array *left = NULL;
    int rc;
    if (x.kind != VALUE_ARRAY && y.kind == VALUE_ARRAY)
        rc = value_numbers_array(&left, x, kv_array_dtype(y.u.box->array), cpu0, e);
    else
        rc = value_to_array(&left, x, e);
    if (rc)
        return rc;
    if (y.kind != VALUE_ARRAY && x.kind == VALUE_ARRAY)
        rc = value_numbers_array(b, y, kv_array_dtype(left), cpu0, e);
    else
        rc = value_to_array(b, y, e);
    if (rc)
        kv_array_unref(left);
    else
        *a = left;
    return rc;
}

int func_dot(function_args *args, value *out, kv_err *e)
{
    kv_array *a, *b, *made = NULL;
    int rc = read_pair(args, &a, &b, e);
    if (rc)
        return rc;
    rc = dot_arrays(&made, a, b, promote_dtypes(kv_array_dtype(a), kv_array_dtype(b)), e);
    kv_array_unref(a);
    kv_array_unref(b);
    return function_give(out, made, rc, e);
}

/* Infinities of one sign are close, a nan is close to nothing. */
static bool is_close(double x, double y, double rtol, double atol)
{
    return x == y || (isfinite(y) && fabs(x - y) <= atol + rtol * fabs(y));
}

/* Two arrays of one shape, in binary64, a block at a time. */
static int all_close(kv_array *a, kv_array *b, double rtol, double atol, bool *close, kv_err *e)
{
    double x[512], y[512];
    const void *left, *right;
    int64_t n = kv_array_size(a);
    kv_dtype ta = kv_array_dtype(a), tb = kv_array_dtype(b);
    int rc = kv_array_read(a, &left, e);
    if (rc || (rc = kv_array_read(b, &right, e)))
        return rc;
    *close = true;
    for (int64_t i = 0; i < n && *close; i += 512) {
        int64_t k = n - i < 512 ? n - i : 512;
        if (i % STOP_EVERY == 0 && (rc = stop_check(e)))
            return rc;
        convert_elements(x, KV_FLOAT64, (const char *)left + i * kv_dtype_bytes(ta), ta, k);
        convert_elements(y, KV_FLOAT64, (const char *)right + i * kv_dtype_bytes(tb), tb, k);
        for (int64_t s = 0; s < k; s++)
            *close &= is_close(x[s], y[s], rtol, atol);
    }
    return KV_OK;
}

int func_allclose(function_args *args, value *out, kv_err *e)
{
    double rtol = 1e-5, atol = 1e-8;
    kv_array *a = NULL, *b = NULL, *wide_a = NULL, *wide_b = NULL;
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    bool close = false;
    int rc = args->given[2] ? function_number(args->v[2], "rtol", &rtol, e) : KV_OK;
    if (!rc && args->given[3])
        rc = function_number(args->v[3], "atol", &atol, e);
    if (!rc)
        rc = read_pair(args, &a, &b, e);
    if (!rc && kv_array_same_shape(a, b))
        rc = all_close(a, b, rtol, atol, &close, e);
    else if (!rc && !(rc = arrange_common(&ndim, shape, a, b, e)) &&
             !(rc = arrange_broadcast(&wide_a, a, ndim, shape, e)) &&
             !(rc = arrange_broadcast(&wide_b, b, ndim, shape, e)))
        rc = all_close(wide_a, wide_b, rtol, atol, &close, e);
    kv_array_unref(wide_a);
    kv_array_unref(wide_b);
    kv_array_unref(a);
    kv_array_unref(b);
    if (!rc)
        *out = value_bool(close);
    return rc;
}
