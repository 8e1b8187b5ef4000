/* Functions that make arrays from shapes and numbers, or from other arrays in another dtype. */
#include "functions/func.h"

#include <math.h>
#include <string.h>

#include "array/arrange.h"
#include "base/mem.h"
#include "base/stop.h"
#include "cpu/cpu.h"
#include "session/containers.h"

static int number_of_elements(value v, int64_t *n, kv_err *e)
{
    return function_int(v, "the number of elements", n, e);
}

/* ---- Filling ---- */

/* Writes the `bytes` at one over n elements: doubling what is there keeps memcpy long. */
static int fill(char *to, const void *one, int64_t n, int64_t bytes, kv_err *e)
{
    if (n == 0)
        return KV_OK;
    memcpy(to, one, (size_t)bytes);
    for (int64_t have = 1; have < n;) {
        int64_t more = have < n - have ? have : n - have;
        more = more < STOP_EVERY ? more : STOP_EVERY;
        memcpy(to + have * bytes, to, (size_t)(more * bytes));
        have += more;
        if (more == STOP_EVERY && stop_check(e))
            return KV_E_INTERRUPTED;
    }
    return KV_OK;
}

static bool has_dtype(const function_args *args, int dtype_at)
{
    return args->given[dtype_at] && args->v[dtype_at].kind != VALUE_NONE;
}

static int filled(function_args *args, value number, int dtype_at, value *out, kv_err *e)
{
    kv_array *a;
    uint64_t one;
    void *data;
    int rc = has_dtype(args, dtype_at) ? KV_OK : value_check_whole(number, e);
    if (rc || (rc = function_new(&a, args, args->v[0], dtype_at, KV_FLOAT32, e)))
        return rc;
    if (!(rc = value_put_number(&one, kv_array_dtype(a), number, e)) &&
        !(rc = kv_array_write(a, &data, e)))
        rc = fill(data, &one, kv_array_size(a), kv_dtype_bytes(kv_array_dtype(a)), e);
    return function_give(out, a, rc, e);
}

int func_ones(function_args *args, value *out, kv_err *e)
{
    return filled(args, value_int(1), 1, out, e);
}

int func_full(function_args *args, value *out, kv_err *e)
{
    value number;
    int rc = value_item(&number, args->v[1], e);
    return rc ? rc : filled(args, number, 2, out, e);
}

/* An array of the shape of another, and of its dtype and context unless said. */
static int filled_like(function_args *args, value number, int dtype_at, value *out, kv_err *e)
{
    uint64_t one;
    void *data;
    kv_dtype dtype;
    kv_array *a = NULL, *like = args->array;
    int rc = function_dtype(args->v[dtype_at], kv_array_dtype(like), &dtype, e);
    if (!rc && !(rc = kv_array_new_raw(&a, dtype, kv_array_ndim(like), kv_array_shape(like),
                                       kv_array_ctx(like), e)) &&
        !(rc = value_put_number(&one, dtype, number, e)) && !(rc = kv_array_write(a, &data, e)))
        rc = fill(data, &one, kv_array_size(a), kv_dtype_bytes(dtype), e);
    return function_give(out, a, rc, e);
}

/* Also zeros_like. */
int func_ones_like(function_args *args, value *out, kv_err *e)
{
    return filled_like(args, value_int(strcmp(args->function->name, "ones_like") == 0), 1, out, e);
}

int func_full_like(function_args *args, value *out, kv_err *e)
{
    value number;
    int rc = value_item(&number, args->v[1], e);
    return rc ? rc : filled_like(args, number, 2, out, e);
}

/* ---- Sequences ---- */

/* start, start + step, …, each rounded once from binary64; exact where both are integers. */
typedef struct sequence {
    bool whole;
    int64_t start, step;
    double fstart, fstep;
} sequence;

static int write_sequence(kv_array *a, const sequence *q, kv_err *e)
{
    void *data;
    int64_t n = kv_array_size(a), bytes = kv_dtype_bytes(kv_array_dtype(a));
    union {
        int64_t i[512];
        double f[512];
    } block;
    int rc = kv_array_write(a, &data, e);
    for (int64_t at = 0, k; at < n && !rc; at += k) {
        k = n - at < 512 ? n - at : 512;
        if (at % STOP_EVERY == 0 && (rc = stop_check(e)))
            break;
        for (int64_t i = 0; i < k && q->whole; i++)
            block.i[i] = (int64_t)((uint64_t)q->start + (uint64_t)q->step * (uint64_t)(at + i));
        for (int64_t i = 0; i < k && !q->whole; i++)
            block.f[i] = q->fstart + (double)(at + i) * q->fstep;
        convert_elements((char *)data + at * bytes, kv_array_dtype(a), &block,
                         q->whole ? KV_INT64 : KV_FLOAT64, k);
    }
    return rc;
}

/* Error: value, for a sequence of n whole numbers that float32 does not hold. */
static int check_whole(const sequence *q, int64_t n, kv_err *e)
{
    int rc = KV_OK;
    bool small = fabs(q->fstart) <= 0x1p24 && fabs(q->fstart + q->fstep * (double)n) <= 0x1p24;
    for (int64_t i = 0; i < n && !small && !rc && !(rc = stop_check_at(i, e)); i++) {
        int64_t x = (int64_t)((uint64_t)q->start + (uint64_t)q->step * (uint64_t)i);
        if (x < -(1 << 24) || x > 1 << 24)
            rc = value_check_whole(value_int(x), e);
    }
    return rc;
}

/* Error: value, for an end of a sequence that the dtype does not hold; what lies between fits. */
static int check_end(double x, kv_dtype dtype, kv_err *e)
{
    double unused;
    value v = value_float(x);
    if (isnan(x))
        return KV_OK;
    if (!kv_dtype_is_float(dtype))
        v = value_int(x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x);
    return value_put_number(&unused, dtype, v, e);
}

/* The number of steps from start to stop, without stop. */
static int count_steps(const sequence *q, value stop, int64_t *n, kv_err *e)
{
    double count;
    *n = 0;
    if (q->whole) {
        int64_t end = stop.u.integer;
        uint64_t way =
            (uint64_t)(q->step > 0 ? end : q->start) - (uint64_t)(q->step > 0 ? q->start : end);
        uint64_t step = q->step > 0 ? (uint64_t)q->step : 0 - (uint64_t)q->step;
        if (q->step > 0 ? end <= q->start : end >= q->start)
            return KV_OK;
        uint64_t steps = (way - 1) / step + 1;
        count = (double)steps;
        *n = (int64_t)steps;
    } else {
        count = ceil((value_number(stop) - q->fstart) / q->fstep);
        *n = count >= 0 && count < 0x1p62 ? (int64_t)count : 0;
    }
    if (!(count < 0x1p62)) /* also nan */
        return kv_err_set(e, KV_E_VALUE, "arange() has no such number of elements");
    return KV_OK;
}

int func_arange(function_args *args, value *out, kv_err *e)
{
    value start = value_int(0), stop, step = value_int(1);
    int64_t n;
    int rc = value_item(args->given[1] ? &start : &stop, args->v[0], e);
    if (!rc && args->given[1])
        rc = value_item(&stop, args->v[1], e);
    if (!rc && args->given[2])
        rc = value_item(&step, args->v[2], e);
    if (rc)
        return rc;
    sequence q = {.fstart = value_number(start), .fstep = value_number(step)};
    q.whole = start.kind != VALUE_FLOAT && stop.kind != VALUE_FLOAT && step.kind != VALUE_FLOAT;
    if (q.whole) {
        q.start = start.u.integer;
        q.step = step.u.integer;
    }
    if (q.fstep == 0)
        return kv_err_set(e, KV_E_VALUE, "arange() cannot step by 0");
    kv_array *a;
    kv_dtype dtype;
    if ((rc = count_steps(&q, stop, &n, e)) ||
        (q.whole && !has_dtype(args, 3) && (rc = check_whole(&q, n, e))) ||
        (rc = function_dtype(args->v[3], KV_FLOAT32, &dtype, e)) ||
        (n > 0 && (rc = check_end(q.fstart, dtype, e))) ||
        (n > 0 && (rc = check_end(q.fstart + q.fstep * (double)(n - 1), dtype, e))) ||
        (rc = function_new(&a, args, value_int(n), 3, KV_FLOAT32, e)))
        return rc;
    return function_give(out, a, write_sequence(a, &q, e), e);
}

int func_linspace(function_args *args, value *out, kv_err *e)
{
    double start, stop;
    int64_t n = 50;
    kv_array *a;
    void *data;
    kv_dtype dtype;
    int rc = function_number(args->v[0], "the start of linspace()", &start, e);
    if (rc || (rc = function_number(args->v[1], "the end of linspace()", &stop, e)) ||
        (args->given[2] && (rc = number_of_elements(args->v[2], &n, e))) ||
        (rc = function_dtype(args->v[3], KV_FLOAT32, &dtype, e)) ||
        (n > 0 && (rc = check_end(start, dtype, e))) ||
        (n > 1 && (rc = check_end(stop, dtype, e))) ||
        (rc = function_new(&a, args, value_int(n), 3, KV_FLOAT32, e)))
        return rc;
    sequence q = {.fstart = start, .fstep = n > 1 ? (stop - start) / (double)(n - 1) : 0};
    rc = write_sequence(a, &q, e);
    /* the last one is the end itself, not a rounded sum */
    if (!rc && n > 1 && !(rc = kv_array_write(a, &data, e)))
        convert_elements((char *)data + (n - 1) * kv_dtype_bytes(kv_array_dtype(a)),
                         kv_array_dtype(a), &stop, KV_FLOAT64, 1);
    return function_give(out, a, rc, e);
}

int func_eye(function_args *args, value *out, kv_err *e)
{
    int64_t shape[2], one = 1;
    kv_array *a;
    void *data;
    kv_dtype dtype;
    kv_ctx ctx;
    int rc = function_int(args->v[0], "the number of rows of eye()", &shape[0], e);
    shape[1] = shape[0];
    if (!rc && args->given[1])
        rc = function_int(args->v[1], "the number of columns of eye()", &shape[1], e);
    if (rc || (rc = function_dtype(args->v[2], KV_FLOAT32, &dtype, e)) ||
        (rc = function_ctx(args->v[3], &ctx, e)) || (rc = session_ctx(args->session, ctx, e)) ||
        (rc = arrange_zeros(&a, dtype, 2, shape, ctx, e)))
        return rc;
    rc = kv_array_write(a, &data, e);
    int64_t bytes = kv_dtype_bytes(dtype), n = shape[0] < shape[1] ? shape[0] : shape[1];
    for (int64_t i = 0; i < n && !rc; i++)
        convert_elements((char *)data + i * (shape[1] + 1) * bytes, dtype, &one, KV_INT64, 1);
    return function_give(out, a, rc, e);
}

/* ---- From arrays ---- */

/* An array in another dtype or context. Where it has both, two objects share the elements until
 * one of them is written. */
static int converted(session *s, value *out, kv_array *a, kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    kv_array *made;
    if (kv_array_dtype(a) == dtype && kv_ctx_same(kv_array_ctx(a), ctx)) {
        return value_array(out, kv_array_ref(a), e);
    }
    int rc = session_ctx(s, ctx, e);
    if (!rc && !(rc = arrange_copy(&made, a, dtype, ctx, e)))
        rc = value_array(out, made, e);
    return rc;
}

/* Returns true if v is a bool or nested lists of bools, which are a mask, as in NumPy. */
static bool is_mask(value v, int depth)
{
    if (!value_is_sequence(v) || v.u.list->n == 0 || depth > KV_MAX_NDIM)
        return v.kind == VALUE_BOOL;
    bool mask = !stop_asked();
    for (int64_t i = 0; i < v.u.list->n && mask; i++)
        mask = is_mask(v.u.list->items[i], depth + 1);
    return mask;
}

int func_array(function_args *args, value *out, kv_err *e)
{
    value v = args->v[0];
    kv_dtype dtype;
    kv_ctx ctx;
    kv_array *a;
    bool is_array = v.kind == VALUE_ARRAY;
    kv_dtype usual = is_array        ? kv_array_dtype(v.u.box->array)
                     : is_mask(v, 0) ? KV_BOOL
                                     : KV_FLOAT32;
    int rc = function_dtype(args->v[1], usual, &dtype, e);
    if (rc || (rc = function_ctx(args->v[2], &ctx, e)))
        return rc;
    if (is_array && !args->given[2])
        ctx = kv_array_ctx(v.u.box->array);
    if (is_array)
        return converted(args->session, out, v.u.box->array, dtype, ctx, e);
    if ((rc = session_ctx(args->session, ctx, e)))
        return rc;
    rc = !has_dtype(args, 1) && dtype == KV_FLOAT32 ? value_float32_array(&a, v, ctx, e)
                                                    : value_numbers_array(&a, v, dtype, ctx, e);
    return rc ? rc : value_array(out, a, e);
}

int func_astype(function_args *args, value *out, kv_err *e)
{
    kv_array *a;
    kv_dtype dtype;
    int rc = function_dtype(args->v[1], KV_FLOAT32, &dtype, e);
    if (rc)
        return rc;
    if (args->v[0].kind != VALUE_ARRAY) {
        /* numbers go to their dtype at once, so that integers stay exact */
        rc = value_numbers_array(&a, args->v[0], dtype, (kv_ctx){KV_CPU, 0}, e);
        return rc ? rc : value_array(out, a, e);
    }
    a = args->v[0].u.box->array;
    return converted(args->session, out, a, dtype, kv_array_ctx(a), e);
}

/* Another object: the elements are copied when one of the two is written. */
int func_copy(function_args *args, value *out, kv_err *e)
{
    value v = args->v[0];
    if (v.kind == VALUE_ARRAY)
        return value_array(out, kv_array_ref(v.u.box->array), e);
    if (value_is_sequence(v))
        return list_repeat(out, v, 1, e);
    if (v.kind == VALUE_DICT)
        return dict_copy(out, v, e);
    *out = value_ref(v);
    return KV_OK;
}
