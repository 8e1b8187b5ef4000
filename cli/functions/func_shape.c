/* Functions that tell facts of arrays, bring their elements into another arrangement, change axes
 * or the order along them, and pick elements by their indices. */
#include <string.h>

#include "array/arrange.h"
#include "array/slice.h"
#include "base/stop.h"
#include "eval/eval.h"
#include "functions/func.h"

/* ---- Facts ---- */

int func_shape(function_args *args, value *out, kv_err *e)
{
    const kv_array *a = args->array;
    TRY(value_list_new(out, VALUE_TUPLE, kv_array_ndim(a), e));
    for (int i = 0; i < kv_array_ndim(a); i++)
        out->u.list->items[i] = value_int(kv_array_shape(a)[i]);
    return KV_OK;
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

/* In the shape that the arguments say: reshape, and broadcast_to. */
int func_in_shape(function_args *args, value *out, kv_err *e)
{
    int n;
    int64_t shape[KV_MAX_NDIM];
    TRY(function_integers(args->rest + 1, args->nrest - 1, "a size in a shape", &n, shape, e));
    return (FUNCTION_VARIANT(args) ? arrange_broadcast : arrange_reshape)(function_makes(out),
                                                                          args->array, n, shape, e);
}

int func_transpose(function_args *args, value *out, kv_err *e)
{
    int n = 0;
    int64_t order[KV_MAX_NDIM];
    bool several = args->nrest > 1, given = several || args->v[1].kind != VALUE_NONE;
    const value *axes = several ? args->rest + 1 : &args->v[1];
    TRY(given ? function_integers(axes, several ? args->nrest - 1 : 1, "an axis", &n, order, e)
              : KV_OK);
    return arrange_transpose(function_makes(out), args->array, given ? order : NULL, n, e);
}

int func_repeat(function_args *args, value *out, kv_err *e)
{
    int64_t times, axis = 0, all = kv_array_size(args->array);
    own_array *flat = NULL;
    TRY(function_int(args->v[1], "the number of times", &times, e));
    TRY(args->given[2] && args->v[2].kind != VALUE_NONE
            ? function_int(args->v[2], "axis", &axis, e)
            : arrange_reshape(&flat, args->array, 1, &all, e));
    return arrange_repeat(function_makes(out), flat ? flat : args->array, times, axis, e);
}

int func_tile(function_args *args, value *out, kv_err *e)
{
    int n;
    int64_t times[KV_MAX_NDIM];
    TRY(function_integers(args->rest + 1, args->nrest - 1, "a number of times", &n, times, e));
    return arrange_tile(function_makes(out), args->array, times, n, e);
}

/* ---- Joining, and splitting ---- */

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

/* concat, and stack. */
int func_join_arrays(function_args *args, value *out, kv_err *e)
{
    const value *v = args->rest, *where = args->given[1] ? &args->v[1] : NULL;
    int64_t n = args->nrest, axis = 0, made = 0;
    kv_array *joined = NULL;
    /* of arrays, or of lists that stand for them */
    bool list = value_is_several(v[0]) || (value_is_sequence(v[0]) && v[0].u.list->n > 0 &&
                                           value_is_sequence(v[0].u.list->items[0]));
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
    TRY(where ? function_int(*where, "axis", &axis, e) : KV_OK);
    kv_dtype dtype = common_dtype(v, n);
    kv_array **a = mem_alloc(n, sizeof *a, e);
    int rc = a ? KV_OK : KV_E_MEMORY;
    for (; made < n && !rc && !(rc = stop_check_at(made, e)); made += !rc)
        rc = v[made].kind == VALUE_ARRAY ? value_to_array(&a[made], v[made], e)
             : dtype == KV_FLOAT32
                 ? value_float32_array(&a[made], v[made], (kv_ctx){KV_CPU, 0}, e)
                 : value_numbers_array(&a[made], v[made], dtype, (kv_ctx){KV_CPU, 0}, e);
    if (!rc)
        rc = (FUNCTION_VARIANT(args) ? arrange_stack : arrange_concat)(&joined, a, n, axis, dtype,
                                                                       e);
    for (int64_t i = 0; i < made; i++)
        kv_array_unref(a[i]);
    mem_free(a);
    return function_give(out, &joined, rc, e);
}

/* The begin of each part of a split, and the end of the last one: bounds[0 … n]. The caller
 * frees, also after an error. */
static int split_bounds(int64_t **out, int64_t *n, value how, int64_t len, kv_err *e)
{
    bool at_places = value_is_sequence(how);
    if (how.kind == VALUE_ARRAY && kv_array_ndim(how.u.box->array) > 0) {
        kv_err_set(e, KV_E_DTYPE, "split() takes the places as a list, not as an array");
        return kv_err_hint(e, "list(a)");
    }
    *n = at_places ? how.u.list->n + 1 : 0;
    TRY(at_places ? KV_OK : function_int(how, "the number of parts", n, e));
    if (!at_places && (*n < 1 || len % *n))
        return kv_err_set(e, KV_E_VALUE, "an axis of %lld cannot be split into %lld equal parts",
                          (long long)len, (long long)*n);
    int64_t *bounds = *out = mem_alloc(*n + 1, sizeof *bounds, e);
    if (!bounds)
        return KV_E_MEMORY;
    for (int64_t i = 0; i <= *n; i++)
        bounds[i] = i < *n ? len / *n * i : len;
    for (int64_t i = 1; i < *n && at_places; i++)
        TRY(function_int(how.u.list->items[i - 1], "a place to split at", &bounds[i], e));
    return KV_OK;
}

int func_split_array(function_args *args, value *out, kv_err *e)
{
    int64_t axis = 0, n;
    own_mem int64_t *bounds = NULL;
    own_value parts = value_none();
    array_range ranges[KV_MAX_NDIM] = {{0}};
    kv_array *part, *a = args->array;
    TRY(function_int_at(args, 2, "axis", &axis, e));
    TRY(arrange_axis(&axis, kv_array_ndim(a), e));
    TRY(split_bounds(&bounds, &n, args->v[1], kv_array_shape(a)[axis], e));
    TRY(value_list_new(&parts, VALUE_LIST, n, e));
    for (int64_t i = 0; i < n; i++) {
        ranges[axis] =
            (array_range){.has_from = true, .has_to = true, .from = bounds[i], .to = bounds[i + 1]};
        TRY(array_slice(&part, a, ranges, (int)axis + 1, e));
        TRY(value_array(&parts.u.list->items[i], part, e));
    }
    return value_give(out, &parts);
}

/* ---- The number of axes and of elements ---- */

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
        TRY(function_int(args->v[1], "axis", &axis, e));
        TRY(arrange_axis(&axis, kv_array_ndim(args->array), e));
        n = kv_array_shape(args->array)[axis];
    }
    *out = value_int(n);
    return KV_OK;
}

/* ---- Axes of size 1, and their order ---- */

int func_ravel(function_args *args, value *out, kv_err *e)
{
    int64_t size = kv_array_size(args->array);
    return arrange_reshape(function_makes(out), args->array, 1, &size, e);
}

/* Marks the axes that an argument names, of ndim. */
static int named_axes(value v, int ndim, bool *named, kv_err *e)
{
    int n;
    int64_t axes[KV_MAX_NDIM];
    TRY(function_integers(&v, 1, "axis", &n, axes, e));
    for (int i = 0; i < n; i++) {
        TRY(arrange_axis(&axes[i], ndim, e));
        if (named[axes[i]])
            return kv_err_set(e, KV_E_VALUE, "axis %lld is named twice", (long long)axes[i]);
        named[axes[i]] = true;
    }
    return KV_OK;
}

int func_squeeze(function_args *args, value *out, kv_err *e)
{
    int ndim = kv_array_ndim(args->array), kept = 0;
    const int64_t *sizes = kv_array_shape(args->array);
    int64_t shape[KV_MAX_NDIM];
    bool named[KV_MAX_NDIM] = {false}, all = args->v[1].kind == VALUE_NONE;
    TRY(all ? KV_OK : named_axes(args->v[1], ndim, named, e));
    for (int i = 0; i < ndim; i++) {
        if (named[i] && sizes[i] != 1)
            return kv_err_set(e, KV_E_VALUE, "axis %d has %lld indices and stays", i,
                              (long long)sizes[i]);
        if (all ? sizes[i] != 1 : !named[i])
            shape[kept++] = sizes[i];
    }
    return arrange_reshape(function_makes(out), args->array, kept, shape, e);
}

int func_expand_dims(function_args *args, value *out, kv_err *e)
{
    int n, ndim = kv_array_ndim(args->array), next = 0;
    int64_t shape[KV_MAX_NDIM], unused[KV_MAX_NDIM];
    bool named[KV_MAX_NDIM] = {false};
    TRY(function_integers(&args->v[1], 1, "axis", &n, unused, e));
    if (ndim + n > KV_MAX_NDIM)
        return kv_err_set(e, KV_E_SHAPE, "an array has 0 to %d axes", KV_MAX_NDIM);
    TRY(named_axes(args->v[1], ndim + n, named, e));
    for (int i = 0; i < ndim + n; i++)
        shape[i] = named[i] ? 1 : kv_array_shape(args->array)[next++];
    return arrange_reshape(function_makes(out), args->array, ndim + n, shape, e);
}

/* ---- The order along axes ---- */

int func_flip(function_args *args, value *out, kv_err *e)
{
    int ndim = kv_array_ndim(args->array);
    bool named[KV_MAX_NDIM] = {false}, all = args->v[1].kind == VALUE_NONE;
    array_range r[KV_MAX_NDIM] = {{0}};
    TRY(all ? KV_OK : named_axes(args->v[1], ndim, named, e));
    for (int i = 0; i < ndim; i++)
        r[i].step = all || named[i] ? -1 : 1;
    return array_slice(function_makes(out), args->array, r, ndim, e);
}

/* ---- take ---- */

/* Brings ids that lie outside of an axis of len into it. */
static int bring_inside(kv_array **ids, const char *mode, int64_t len, kv_err *e)
{
    kv_array *inside, *wide;
    if (strcmp(mode, "raise") == 0)
        return KV_OK;
    if (!kv_dtype_is_float(kv_array_dtype(*ids))) { /* len may not fit their own */
        TRY(arrange_copy(&wide, *ids, KV_INT64, kv_array_ctx(*ids), e));
        kv_array_unref(*ids);
        *ids = wide;
    }
    if (len == 0)
        return kv_err_set(e, KV_E_INDEX, "an axis of 0 has no element to take");
    if (strcmp(mode, "clip") == 0)
        TRY(eval_op_call(&inside, "clip", *ids, (int64_t[]){0, len - 1}, e));
    else if (strcmp(mode, "wrap") == 0)
        TRY(eval_op_number(&inside, OP_MOD, *ids, host_int(len), e));
    else
        return kv_err_set(e, KV_E_VALUE, "mode is raise, clip or wrap, not %s", mode);
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
    own_array *a = NULL, *ids = NULL;
    TRY(args->given[3] ? function_text(args->v[3], "mode", &mode, e) : KV_OK);
    TRY(flat ? KV_OK : function_int(args->v[2], "axis", &axis, e));
    TRY(flat ? arrange_reshape(&a, args->array, 1, &size, e)
             : arrange_axis(&axis, kv_array_ndim(args->array), e));
    TRY(eval_ids(args->v[1], &ids, e));
    kv_array *from = flat ? a : args->array;
    if (kv_array_dtype(ids) == KV_BOOL) {
        kv_err_set(e, KV_E_DTYPE, "take() takes indices, not bools");
        return kv_err_hint(e, "a mask selects elements: x[mask]");
    }
    TRY(bring_inside(&ids, mode, kv_array_shape(from)[axis], e));
    r[axis].ids = ids;
    return array_slice(function_makes(out), from, r, (int)axis + 1, e);
}

int func_nonzero(function_args *args, value *out, kv_err *e)
{
    own_array *places = NULL;
    kv_array *index[KV_MAX_NDIM] = {NULL};
    int ndim = kv_array_ndim(args->array), made = 0;
    int64_t strides[KV_MAX_NDIM];
    if (ndim == 0) {
        kv_err_set(e, KV_E_SHAPE, "nonzero() of a number: it has no axes");
        return kv_err_hint(e, "reshape(x, 1) has one");
    }
    TRY(pick_mask(&places, args->array, 1, e));
    strided_rows(strides, ndim, kv_array_shape(args->array));
    int rc = KV_OK;
    for (; made < ndim && !rc; made += !rc)
        rc = pick_index(&index[made], places, kv_array_shape(args->array)[made], strides[made], e);
    return function_give_several(out, VALUE_TUPLE, index, made, rc, e);
}
