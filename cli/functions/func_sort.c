/* Functions about the order of elements, and running sums. */
#include "functions/func.h"

#include "array/arrange.h"
#include "base/mem.h"
#include "cpu/cpu.h"

/* The array to work on along an axis: the argument, or where the axis is none its elements in a
 * line. The caller lets *a go. absent: the axis where none was given, or FLAT. */
enum { FLAT = -100 };

static int take_axis(function_args *args, kv_array **a, int64_t *axis, int64_t absent, kv_err *e)
{
    int p = function_param(args->function, "axis");
    int64_t size = kv_array_size(args->array);
    bool none = args->v[p].kind == VALUE_NONE && (args->given[p] || absent == FLAT);
    *axis = none ? 0 : absent;
    if (none)
        return arrange_reshape(a, args->array, 1, &size, e);
    TRY(args->given[p] ? function_int(args->v[p], "axis", axis, e) : KV_OK);
    if (kv_array_ndim(args->array) == 0)
        return kv_err_set(e, KV_E_INDEX, "axis %lld is out of range: the array has 0 axes",
                          (long long)*axis);
    *a = kv_array_ref(args->array);
    return KV_OK;
}

/* sort, and argsort. */
int func_sort(function_args *args, value *out, kv_err *e)
{
    own_array *a = NULL;
    int64_t axis;
    bool reverse;
    TRY(take_axis(args, &a, &axis, -1, e));
    TRY(function_flag(args, "reverse", &reverse, e));
    return sort_array(function_makes(out), a, (sort_what)FUNCTION_VARIANT(args), axis, reverse, e);
}

/* ---- unique, quantiles, running sums ---- */

int func_unique(function_args *args, value *out, kv_err *e)
{
    bool first, inverse, counts;
    kv_array *made[4] = {NULL};
    TRY(function_flag(args, "return_index", &first, e));
    TRY(function_flag(args, "return_inverse", &inverse, e));
    TRY(function_flag(args, "return_counts", &counts, e));
    int rc = sort_unique(&made[0], first ? &made[1] : NULL, inverse ? &made[2] : NULL,
                         counts ? &made[3] : NULL, args->array, e);
    int n = 0;
    for (int i = 0; i < 4; i++)
        if (made[i])
            made[n++] = made[i];
    return n > 1 ? function_give_several(out, VALUE_TUPLE, made, n, rc, e)
                 : function_give(out, &made[0], rc, e);
}

/* Quantiles of the argument, in the shape (…q, axes that remain); parts: the numbers of q. */
static int quantiles(function_args *args, const double *parts, const kv_array *q, value *out,
                     kv_err *e)
{
    own_array *a = NULL, *made = NULL;
    bool keepdims;
    int64_t axis, shape[KV_MAX_NDIM];
    int ndim = 0, own = kv_array_ndim(args->array);
    TRY(function_flag(args, "keepdims", &keepdims, e));
    bool all = args->v[function_param(args->function, "axis")].kind == VALUE_NONE;
    TRY(take_axis(args, &a, &axis, FLAT, e));
    TRY(arrange_axis(&axis, kv_array_ndim(a), e));
    TRY(sort_quantiles(&made, a, parts, kv_array_size(q), axis, e));
    for (int i = 0; i < kv_array_ndim(q); i++)
        shape[ndim++] = kv_array_shape(q)[i];
    for (int i = 0; i < own && ndim < KV_MAX_NDIM; i++)
        if (keepdims || (!all && i != axis))
            shape[ndim++] = all || i == axis ? 1 : kv_array_shape(args->array)[i];
    return arrange_reshape(function_makes(out), made, ndim, shape, e);
}

/* q, a number or an array of numbers from 0 to 1, or of percentile to 100. */
int func_quantile(function_args *args, value *out, kv_err *e)
{
    const double whole = FUNCTION_VARIANT(args);
    own_array *q = NULL;
    const void *data;
    TRY(args->v[1].kind == VALUE_ARRAY
            ? value_to_array(&q, args->v[1], e)
            : value_numbers_array(&q, args->v[1], KV_FLOAT64, (kv_ctx){KV_CPU, 0}, e));
    int64_t n = kv_array_size(q);
    own_mem double *parts = mem_alloc(n, sizeof *parts, e);
    if (!parts)
        return KV_E_MEMORY;
    TRY(kv_array_read(q, &data, e));
    convert_elements(parts, KV_FLOAT64, data, kv_array_dtype(q), n);
    for (int64_t i = 0; i < n; i++) {
        parts[i] /= whole;
        if (!(parts[i] >= 0 && parts[i] <= 1))
            return kv_err_set(e, KV_E_VALUE, "%s() takes numbers from 0 to %g",
                              args->function->name, whole);
    }
    return quantiles(args, parts, q, out, e);
}

int func_cumsum(function_args *args, value *out, kv_err *e)
{
    own_array *a = NULL;
    kv_dtype dtype = kv_array_dtype(args->array);
    int64_t axis;
    TRY(function_dtype(args->v[2], kv_dtype_is_float(dtype) ? dtype : KV_INT64, &dtype, e));
    TRY(take_axis(args, &a, &axis, FLAT, e));
    if (!kv_dtype_is_float(dtype) && dtype != KV_INT64)
        return kv_err_set(e, KV_E_DTYPE, "sums are floats or int64, not %s", kv_dtype_name(dtype));
    return scan_sum(function_makes(out), a, axis, dtype, e);
}
