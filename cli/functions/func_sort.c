/* Functions about the order of elements, and running sums. */
#include "functions/func.h"

#include <string.h>

#include "array/arrange.h"
#include "array/reduce.h"
#include "array/slice.h"
#include "array/sort.h"
#include "base/mem.h"
#include "base/stop.h"
#include "cpu/cpu.h"
#include "eval/eval.h"

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
    TRY(take_axis(args, &a, &axis, -1, e));
    return sort_array(function_makes(out), a, (sort_what)FUNCTION_VARIANT(args), axis, false, e);
}

/* ---- topk ---- */

/* The first k along an axis, in dtype. */
static int first_of(kv_array **out, kv_array *a, int64_t axis, int64_t k, kv_dtype dtype, kv_err *e)
{
    array_range r[KV_MAX_NDIM] = {{0}};
    own_array *part = NULL;
    r[axis] = (array_range){.has_to = true, .to = k};
    TRY(array_slice(&part, a, r, (int)axis + 1, e));
    return arrange_copy(out, part, dtype, kv_array_ctx(part), e);
}

/* 1 where an element is one of the first k, else 0. */
static int mask_of(kv_array **out, kv_array *order, int64_t axis, int64_t k, kv_dtype dtype,
                   kv_err *e)
{
    own_array *rank = NULL, *first = NULL;
    TRY(sort_array(&rank, order, SORT_INDICES, axis, false, e));
    TRY(eval_op_number(&first, OP_LT, rank, host_int(k), e));
    return arrange_copy(out, first, dtype, kv_array_ctx(first), e);
}

/* The number of indices, from 0 on, that a dtype holds exactly. */
static int64_t index_most(kv_dtype dtype)
{
    static const int64_t most[KV_DTYPE_END] = {
        [KV_FLOAT32] = 1 << 24, [KV_FLOAT64] = (int64_t)1 << 53, [KV_FLOAT16] = 1 << 11,
        [KV_BFLOAT16] = 1 << 8, [KV_UINT8] = 1 << 8,             [KV_INT8] = 1 << 7,
        [KV_BOOL] = 2,          [KV_INT32] = (int64_t)1 << 31,   [KV_INT64] = INT64_MAX};
    return most[dtype];
}

int func_topk(function_args *args, value *out, kv_err *e)
{
    const char *what = "indices";
    bool up;
    int64_t axis, k = 1;
    kv_dtype of_indices;
    own_array *a = NULL, *values = NULL, *indices = NULL, *sorted = NULL, *order = NULL;
    TRY(take_axis(args, &a, &axis, -1, e));
    TRY(arrange_axis(&axis, kv_array_ndim(a), e));
    TRY(function_int_at(args, 1, "k", &k, e));
    TRY(args->given[3] ? function_text(args->v[3], "ret_typ", &what, e) : KV_OK);
    TRY(function_flag(args, "is_ascend", &up, e));
    TRY(function_dtype(args->v[5], KV_FLOAT32, &of_indices, e));
    int64_t n = kv_array_shape(a)[axis];
    kv_dtype dtype = kv_array_dtype(a);
    bool both = strcmp(what, "both") == 0, mask = strcmp(what, "mask") == 0;
    bool gives_values = both || strcmp(what, "value") == 0;
    bool gives_indices = both || strcmp(what, "indices") == 0;
    if (!gives_values && !gives_indices && !mask)
        return kv_err_set(e, KV_E_VALUE, "ret_typ is indices, value, both or mask, not %s", what);
    if (k > n)
        return kv_err_set(e, KV_E_VALUE, "topk() of %lld elements has no first %lld", (long long)n,
                          (long long)k);
    if (gives_indices && n > index_most(of_indices)) {
        kv_err_set(e, KV_E_VALUE, "%s does not hold every index below %lld",
                   kv_dtype_name(of_indices), (long long)n);
        return kv_err_hint(e, "say dtype=\"int64\""), KV_E_VALUE;
    }
    k = k < 1 ? n : k; /* as MXNet: all of them */
    if (gives_values) {
        TRY(sort_array(&sorted, a, SORT_VALUES, axis, !up, e));
        TRY(first_of(&values, sorted, axis, k, dtype, e));
    }
    TRY(gives_indices || mask ? sort_array(&order, a, SORT_INDICES, axis, !up, e) : KV_OK);
    TRY(gives_indices ? first_of(&indices, order, axis, k, of_indices, e) : KV_OK);
    TRY(mask ? mask_of(&indices, order, axis, k, dtype, e) : KV_OK);
    if (!both)
        return value_array(out, kv_array_ref(values ? values : indices), e);
    kv_array *made[2] = {kv_array_ref(values), kv_array_ref(indices)};
    return function_give_several(out, VALUE_LIST, made, 2, KV_OK, e);
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
