/* Functions that tell facts of arrays, and those that bring their elements into another
 * arrangement. */
#include "functions/func.h"

#include <string.h>

#include "array/arrange.h"
#include "array/slice.h"
#include "base/mem.h"
#include "base/stop.h"
#include "session/containers.h"
#include "session/text.h"

/* ---- Facts ---- */

int func_shape(function_args *args, value *out, kv_err *e)
{
    const kv_array *a = args->array;
    int rc = value_list_new(out, VALUE_TUPLE, kv_array_ndim(a), e);
    for (int i = 0; i < kv_array_ndim(a) && !rc; i++)
        out->u.list->items[i] = value_int(kv_array_shape(a)[i]);
    return rc;
}

/* The number of characters in a text of UTF-8. */
int func_len(function_args *args, value *out, kv_err *e)
{
    value v = args->v[0];
    if (value_is_sequence(v))
        *out = value_int(v.u.list->n);
    else if (v.kind == VALUE_DICT)
        *out = value_int(dict_count(v));
    else if (v.kind == VALUE_TEXT)
        *out = value_int(text_length(v));
    else if (v.kind == VALUE_ARRAY && kv_array_ndim(v.u.box->array) > 0)
        *out = value_int(kv_array_shape(v.u.box->array)[0]);
    else if (v.kind == VALUE_ARRAY)
        return kv_err_set(e, KV_E_SHAPE, "an array of shape () has no length");
    else
        return kv_err_set(e, KV_E_DTYPE, "%s has no length", value_kind_name(v));
    return KV_OK;
}

int func_dtype(function_args *args, value *out, kv_err *e)
{
    return value_text(out, kv_dtype_name(kv_array_dtype(args->array)), e);
}

int func_ctx(function_args *args, value *out, kv_err *e)
{
    (void)e;
    *out = value_ctx(kv_array_ctx(args->array));
    return KV_OK;
}

/* ---- One array ---- */

int func_reshape(function_args *args, value *out, kv_err *e)
{
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    kv_array *made = NULL;
    int rc = function_integers(args->rest + 1, args->nrest - 1, "a size in a shape", &ndim, shape,
                               e);
    if (!rc)
        rc = arrange_reshape(&made, args->array, ndim, shape, e);
    return function_give(out, made, rc, e);
}

int func_transpose(function_args *args, value *out, kv_err *e)
{
    int n = 0;
    int64_t order[KV_MAX_NDIM];
    bool given = true;
    kv_array *made = NULL;
    int rc = KV_OK;
    if (args->nrest > 1)
        rc = function_integers(args->rest + 1, args->nrest - 1, "an axis", &n, order, e);
    else if (args->given[1] && args->v[1].kind != VALUE_NONE)
        rc = function_integers(&args->v[1], 1, "an axis", &n, order, e);
    else
        given = false;
    if (!rc)
        rc = arrange_transpose(&made, args->array, given ? order : NULL, n, e);
    return function_give(out, made, rc, e);
}

int func_repeat(function_args *args, value *out, kv_err *e)
{
    int64_t times, axis = 0, all = kv_array_size(args->array);
    kv_array *flat = NULL, *made = NULL;
    int rc = function_int(args->v[1], "the number of times", &times, e);
    if (!rc && args->given[2] && args->v[2].kind != VALUE_NONE)
        rc = function_int(args->v[2], "axis", &axis, e);
    else if (!rc)
        rc = arrange_reshape(&flat, args->array, 1, &all, e);
    if (!rc)
        rc = arrange_repeat(&made, flat ? flat : args->array, times, axis, e);
    kv_array_unref(flat);
    return function_give(out, made, rc, e);
}

int func_tile(function_args *args, value *out, kv_err *e)
{
    int n;
    int64_t times[KV_MAX_NDIM];
    kv_array *made = NULL;
    int rc = function_integers(args->rest + 1, args->nrest - 1, "a number of times", &n, times, e);
    if (!rc)
        rc = arrange_tile(&made, args->array, times, n, e);
    return function_give(out, made, rc, e);
}

/* ---- Several arrays ---- */

typedef int join_fn(kv_array **out, kv_array *const *a, int64_t n, int64_t axis, kv_dtype dtype,
                    kv_err *e);

/* The dtype of the arrays together; numbers beside them have no say. */
static kv_dtype common_dtype(const value *v, int64_t n)
{
    bool any = false;
    kv_dtype dtype = KV_FLOAT32;
    for (int64_t i = 0; i < n; i++) {
        if (v[i].kind != VALUE_ARRAY)
            continue;
        kv_dtype own = kv_array_dtype(v[i].u.box->array);
        dtype = any ? promote_dtypes(dtype, own) : own;
        any = true;
    }
    return dtype;
}

/* A list of arrays, or of lists that stand for them. */
static bool holds_arrays(value v)
{
    return value_is_several(v) ||
           (value_is_sequence(v) && v.u.list->n > 0 && value_is_sequence(v.u.list->items[0]));
}

static int join(function_args *args, join_fn *join_arrays, value *out, kv_err *e)
{
    const value *v = args->rest, *where = args->given[1] ? &args->v[1] : NULL;
    int64_t n = args->nrest, axis = 0, made = 0;
    kv_array *joined = NULL;
    bool list = holds_arrays(v[0]);
    if (n == 2 && list && value_is_number(v[1]) && !where) { /* ([a, b], axis) */
        where = &v[1];
        n = 1;
    }
    if (n == 1 && list) {
        n = v[0].u.list->n;
        v = v[0].u.list->items;
    }
    if (n == 0)
        return kv_err_set(e, KV_E_VALUE, "%s() takes at least one array", args->function->name);
    int rc = where ? function_int(*where, "axis", &axis, e) : KV_OK;
    if (rc)
        return rc;
    kv_dtype dtype = common_dtype(v, n);
    kv_array **a = mem_alloc(n, sizeof *a, e);
    if (!a)
        return KV_E_MEMORY;
    for (; made < n && !rc && !(rc = stop_check_at(made, e)); made += !rc)
        rc = v[made].kind == VALUE_ARRAY ? value_to_array(&a[made], v[made], e)
             : dtype == KV_FLOAT32
                 ? value_float32_array(&a[made], v[made], (kv_ctx){KV_CPU, 0}, e)
                 : value_numbers_array(&a[made], v[made], dtype, (kv_ctx){KV_CPU, 0}, e);
    if (!rc)
        rc = join_arrays(&joined, a, n, axis, dtype, e);
    for (int64_t i = 0; i < made; i++)
        kv_array_unref(a[i]);
    mem_free(a);
    return function_give(out, joined, rc, e);
}

int func_concat(function_args *args, value *out, kv_err *e)
{
    return join(args, arrange_concat, out, e);
}

int func_stack(function_args *args, value *out, kv_err *e)
{
    return join(args, arrange_stack, out, e);
}

/* The begin of each part of a split, and the end of the last one: bounds[0 … n]. The caller
 * frees. */
static int split_bounds(int64_t **out, int64_t *n, value how, int64_t len, kv_err *e)
{
    bool at_places = value_is_sequence(how);
    if (how.kind == VALUE_ARRAY && kv_array_ndim(how.u.box->array) > 0) {
        kv_err_set(e, KV_E_DTYPE, "split() takes the places as a list, not as an array");
        return kv_err_hint(e, "list(a)"), KV_E_DTYPE;
    }
    *n = at_places ? how.u.list->n + 1 : 0;
    int rc = at_places ? KV_OK : function_int(how, "the number of parts", n, e);
    if (rc)
        return rc;
    if (!at_places && (*n < 1 || len % *n))
        return kv_err_set(e, KV_E_VALUE, "an axis of %lld cannot be split into %lld equal parts",
                          (long long)len, (long long)*n);
    int64_t *bounds = mem_alloc(*n + 1, sizeof *bounds, e);
    if (!bounds)
        return KV_E_MEMORY;
    bounds[0] = 0;
    bounds[*n] = len;
    for (int64_t i = 1; i < *n && !rc; i++) {
        if (at_places)
            rc = function_int(how.u.list->items[i - 1], "a place to split at", &bounds[i], e);
        else
            bounds[i] = len / *n * i;
    }
    if (rc)
        mem_free(bounds);
    else
        *out = bounds;
    return rc;
}

int func_split_array(function_args *args, value *out, kv_err *e)
{
    int64_t axis = 0, n, *bounds = NULL;
    array_range ranges[KV_MAX_NDIM] = {{0}};
    kv_array *a = args->array;
    int rc = args->given[2] ? function_int(args->v[2], "axis", &axis, e) : KV_OK;
    if (rc || (rc = arrange_axis(&axis, kv_array_ndim(a), e)) ||
        (rc = split_bounds(&bounds, &n, args->v[1], kv_array_shape(a)[axis], e)))
        return rc;
    rc = value_list_new(out, VALUE_LIST, n, e);
    for (int64_t i = 0; i < n && !rc; i++) {
        kv_array *part;
        ranges[axis] =
            (array_range){.has_from = true, .has_to = true, .from = bounds[i], .to = bounds[i + 1]};
        if (!(rc = array_slice(&part, a, ranges, (int)axis + 1, e)))
            rc = value_array(&out->u.list->items[i], part, e);
    }
    mem_free(bounds);
    return value_finish(out, rc);
}
