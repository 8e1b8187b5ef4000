/* Functions that make one number of many, over a whole array or along axes; the order of elements
 * along one, and running sums. */
#include <math.h>
#include <string.h>

#include "array/arrange.h"
#include "array/dot.h"
#include "base/stop.h"
#include "cpu/cpu.h"
#include "eval/eval.h"
#include "functions/func.h"

/* ---- Lists and numbers, as Python has them ---- */

/* A call that means one thing in Python and another in NumPy, such as max of a list of lists, is
 * refused. */

/* The arguments: those of a function that takes any number of them, else the first. */
static const value *given(const function_args *args, int64_t *n)
{
    *n = args->rest ? args->nrest : 1;
    return args->rest ? args->rest : args->v;
}

static bool holds_array(value v)
{
    bool found = v.kind == VALUE_ARRAY;
    for (int64_t i = 0; value_is_sequence(v) && i < v.u.list->n && !found; i++)
        found = v.u.list->items[i].kind == VALUE_ARRAY;
    return found;
}

/* Returns true if the arguments hold no array and ask for no axis or dtype. A list of lists is no
 * plain one for a sum: NumPy adds all its numbers, Python refuses it. */
static bool list_is_plain(const function_args *args)
{
    int64_t n;
    const value *v = given(args, &n);
    bool sum = strcmp(args->function->name, "sum") == 0;
    for (int64_t i = 0; i < n; i++)
        if (holds_array(v[i]))
            return false;
    for (int i = 1; args->function->params[i]; i++)
        if (args->given[i] && !(sum && i == 1))
            return false;
    for (int64_t i = 0; sum && value_is_sequence(*v) && i < v->u.list->n; i++)
        if (value_is_sequence(v->u.list->items[i]))
            return false;
    return n > 1 || value_has_items(*v) || v->kind == VALUE_TEXT;
}

static int unclear(const function_args *args, kv_err *e)
{
    const char *name = args->function->name;
    kv_err_set(e, KV_E_DTYPE,
               "%s() of a list of lists is of the lists in Python, of the numbers in NumPy", name);
    return kv_err_hint(e, "%s(array(l)); %s([%s(x) for x in l])", name, name, name);
}

static int list_sum(function_args *args, value *out, kv_err *e)
{
    value start = args->v[1];
    own_value items = value_none();
    host sum = host_int(0), h;
    if (args->given[1] && (start.kind != VALUE_INT || start.u.integer != 0)) {
        kv_err_set(e, KV_E_USAGE, "sum() of a list has no axis and no start");
        return kv_err_hint(e, "sum(array(l), axis=-1); sum(l) + start");
    }
    TRY(eval_items_of(args->v[0], &items, e));
    for (int64_t i = 0; i < items.u.list->n; i++) {
        value item = items.u.list->items[i];
        TRY(stop_check_at(i, e));
        if (!value_is_number(item))
            return kv_err_set(e, KV_E_DTYPE, "sum() adds numbers, not %s", value_kind_name(item));
        TRY(host_binary(OP_ADD, sum, value_host(item), &h, NULL, e));
        sum = h;
    }
    return value_from_host(out, sum, e);
}

/* The first of the smallest or largest items. */
static int find_extreme(const value *items, int64_t n, bool largest, value *out, kv_err *e)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        bool better = false;
        const value *one = &items[largest ? best : i], *other = &items[largest ? i : best];
        TRY(stop_check_at(i, e));
        TRY(list_order_items(OP_LT, *one, *other, &better, e));
        best = better ? i : best;
    }
    *out = value_ref(items[best]);
    return KV_OK;
}

static int list_extreme(function_args *args, bool largest, value *out, kv_err *e)
{
    int64_t n;
    const value *v = given(args, &n);
    own_value items = value_none();
    if (n > 1)
        return find_extreme(v, n, largest, out, e);
    TRY(eval_items_of(v[0], &items, e));
    n = items.u.list->n;
    if (n == 0)
        return kv_err_set(e, KV_E_VALUE, "%s() of no elements has no value", args->function->name);
    if (value_is_sequence(v[0]) && value_is_sequence(items.u.list->items[0]))
        return unclear(args, e);
    return find_extreme(items.u.list->items, n, largest, out, e);
}

/* ---- Arrays ---- */

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
    int n = 1;
    int64_t axes[KV_MAX_NDIM];
    reduce_how how = {0};
    bool all = axis.kind == VALUE_NONE;
    TRY(all ? KV_OK : function_integers(&axis, 1, "axis", &n, axes, e));
    if (n > 1 && (op == REDUCE_ARGMAX || op == REDUCE_ARGMIN))
        return kv_err_set(e, KV_E_USAGE, "%s() takes one axis", reduce_name(op));
    TRY(function_flag(args, "keepdims", &how.keepdims, e));
    TRY(ddof.kind == VALUE_NONE ? KV_OK : function_number(ddof, "ddof", &how.ddof, e));
    return reduce_array(function_makes(out), a, op, all ? NULL : axes, n, &how, e);
}

/* The same for the first argument, which dtype= converts first. */
static int reduce(function_args *args, reduce_op op, value *out, kv_err *e)
{
    kv_dtype to;
    own_array *as = NULL;
    TRY(args->array ? KV_OK : function_take_array(args, e));
    kv_array *a = args->array;
    TRY(function_dtype(argument(args, "dtype"), kv_array_dtype(a), &to, e));
    TRY(to == kv_array_dtype(a) ? KV_OK : arrange_copy(&as, a, to, kv_array_ctx(a), e));
    return reduce_as(args, as ? as : a, op, out, e);
}

int func_reduce(function_args *args, value *out, kv_err *e)
{
    return reduce(args, (reduce_op)FUNCTION_VARIANT(args), out, e);
}

int func_sum(function_args *args, value *out, kv_err *e)
{
    if (list_is_plain(args))
        return list_sum(args, out, e);
    if (args->given[1] && args->v[1].kind == VALUE_LIST && args->v[1].u.list->n == 0) {
        kv_err_set(e, KV_E_DTYPE, "sum() adds numbers, it joins no lists");
        return kv_err_hint(e, "[x for l in lists for x in l]");
    }
    return reduce(args, REDUCE_SUM, out, e);
}

int func_any_all(function_args *args, value *out, kv_err *e)
{
    bool all = FUNCTION_VARIANT(args) == REDUCE_ALL, found = false; /* an item that decides */
    own_value items = value_none();
    if (!list_is_plain(args))
        return func_reduce(args, out, e);
    TRY(eval_items_of(args->v[0], &items, e));
    for (int64_t i = 0; i < items.u.list->n && !found; i++) {
        bool truth;
        TRY(stop_check_at(i, e));
        if (value_is_sequence(items.u.list->items[i]))
            return unclear(args, e);
        TRY(eval_truth(items.u.list->items[i], &truth, e));
        found = truth != all;
    }
    *out = value_bool(found != all);
    return KV_OK;
}

/* norm(x, ord): the root of the sum of squares, or of the sizes of the elements their sum (1) or
 * the largest (inf) or smallest (-inf), or how many are not 0 (0). */
int func_norm(function_args *args, value *out, kv_err *e)
{
    value ord = args->v[1];
    double order = 2;
    own_array *sizes = NULL, *real = NULL;
    if (ord.kind == VALUE_NONE || (ord.kind == VALUE_TEXT && strcmp(ord.u.text, "fro") == 0))
        return reduce(args, REDUCE_NORM, out, e);
    TRY(function_number(ord, "ord", &order, e));
    bool matrix = kv_array_ndim(args->array) > 1 && args->v[2].kind == VALUE_NONE;
    if (matrix || !(order == 0 || order == 1 || order == 2 || isinf(order))) {
        kv_err_set(e, KV_E_UNSUPPORTED,
                   matrix ? "norm() of a matrix has no ord"
                          : "norm() has ord=0, 1, 2, inf and -inf");
        return kv_err_hint(e, matrix ? "of its rows: norm(x, 1, axis=1)"
                                     : "sum(abs(x)**p)**(1/p) is the norm of order p");
    }
    if (order == 2)
        return reduce(args, REDUCE_NORM, out, e);
    kv_dtype own = kv_array_dtype(args->array), dtype = kv_dtype_is_float(own) ? own : KV_FLOAT32;
    TRY(arrange_copy(&real, args->array, order == 0 ? KV_BOOL : dtype, kv_array_ctx(args->array),
                     e));
    TRY(arrange_copy(&sizes, real, dtype, kv_array_ctx(real), e));
    kv_array_unref(real);
    real = NULL;
    TRY(eval_op_call(&real, "abs", sizes, NULL, e));
    return reduce_as(args, real,
                     order <= 1 && order >= 0 ? REDUCE_SUM
                     : order > 0              ? REDUCE_MAX
                                              : REDUCE_MIN,
                     out, e);
}

/* One array: a reduction. Lists and numbers: as in Python. Several arrays are compared element
 * by element, which is arithmetic and does not come here. */
int func_extreme(function_args *args, value *out, kv_err *e)
{
    reduce_op op = (reduce_op)FUNCTION_VARIANT(args);
    if (list_is_plain(args))
        return list_extreme(args, op == REDUCE_MAX, out, e);
    if (args->nrest == 1) {
        TRY(value_to_array(&args->array, args->rest[0], e));
        return reduce_as(args, args->array, op, out, e);
    }
    if (args->given[1] || args->given[2])
        return kv_err_set(e, KV_E_USAGE, "%s() with %s takes one array", args->function->name,
                          args->given[1] ? "axis=" : "keepdims=");
    kv_err_set(e, KV_E_DTYPE, "%s() takes two arrays or numbers, or one list",
               args->function->name);
    return kv_err_hint(e, "%simum(a, %simum(b, c))", args->function->name, args->function->name);
}

/* ---- Two arrays ---- */

static int read_pair(function_args *args, kv_array **a, kv_array **b, kv_err *e)
{
    TRY(value_array_beside(a, args->v[0], args->v[1], e));
    return value_array_beside(b, args->v[1], args->v[0], e);
}

int func_dot(function_args *args, value *out, kv_err *e)
{
    own_array *a = NULL, *b = NULL;
    TRY(read_pair(args, &a, &b, e));
    return dot_arrays(function_makes(out), a, b,
                      promote_dtypes(kv_array_dtype(a), kv_array_dtype(b)), e);
}

/* Two arrays of one shape, in binary64, a block at a time. */
static int all_close(kv_array *a, kv_array *b, double rtol, double atol, bool *close, kv_err *e)
{
    double x[512], y[512];
    const void *left, *right;
    int64_t n = kv_array_size(a);
    kv_dtype ta = kv_array_dtype(a), tb = kv_array_dtype(b);
    TRY(kv_array_read(a, &left, e));
    TRY(kv_array_read(b, &right, e));
    *close = true;
    for (int64_t i = 0; i < n && *close; i += 512) {
        int64_t k = n - i < 512 ? n - i : 512;
        TRY(i % STOP_EVERY == 0 ? stop_check(e) : KV_OK);
        convert_elements(x, KV_FLOAT64, (const char *)left + i * kv_dtype_bytes(ta), ta, k);
        convert_elements(y, KV_FLOAT64, (const char *)right + i * kv_dtype_bytes(tb), tb, k);
        for (int64_t s = 0; s < k; s++)
            *close &= value_is_close(x[s], y[s], rtol, atol);
    }
    return KV_OK;
}

int func_allclose(function_args *args, value *out, kv_err *e)
{
    double rtol = CLOSE_RTOL, atol = CLOSE_ATOL;
    own_array *a = NULL, *b = NULL, *wide_a = NULL, *wide_b = NULL;
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    bool close = false;
    TRY(function_number_at(args, 2, "rtol", &rtol, e));
    TRY(function_number_at(args, 3, "atol", &atol, e));
    TRY(read_pair(args, &a, &b, e));
    if (!kv_array_same_shape(a, b)) {
        TRY(arrange_common(&ndim, shape, a, b, e));
        TRY(arrange_broadcast(&wide_a, a, ndim, shape, e));
        TRY(arrange_broadcast(&wide_b, b, ndim, shape, e));
    }
    TRY(all_close(wide_a ? wide_a : a, wide_b ? wide_b : b, rtol, atol, &close, e));
    *out = value_bool(close);
    return KV_OK;
}

/* ---- The order of elements, and running sums ---- */

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

/* q, a number or an array of numbers from 0 to 1. */
int func_quantile(function_args *args, value *out, kv_err *e)
{
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
    for (int64_t i = 0; i < n; i++)
        if (!(parts[i] >= 0 && parts[i] <= 1))
            return kv_err_set(e, KV_E_VALUE, "quantile() takes numbers from 0 to 1");
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
