/* Functions that make arrays from shapes and numbers, from rows, or from other arrays in another
 * dtype or storage. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array/arrange.h"
#include "array/sparse.h"
#include "array/slice.h"
#include "base/mem.h"
#include "base/philox.h"
#include "base/stop.h"
#include "base/suggest.h"
#include "cpu/cpu.h"
#include "engine/pool.h"
#include "functions/func.h"
#include "session/containers.h"

/* ---- Filling ---- */

/* Writes a number over all elements of a: doubling what is there keeps memcpy long. */
static int fill(kv_array *a, value number, kv_err *e)
{
    uint64_t one;
    void *to;
    int64_t n = kv_array_size(a), bytes = kv_dtype_bytes(kv_array_dtype(a));
    TRY(value_put_number(&one, kv_array_dtype(a), number, e));
    TRY(kv_array_write(a, &to, e));
    if (n > 0)
        memcpy(to, &one, (size_t)bytes);
    for (int64_t have = 1; have < n;) {
        int64_t more = have < n - have ? have : n - have;
        more = more < STOP_EVERY ? more : STOP_EVERY;
        memcpy((char *)to + have * bytes, to, (size_t)(more * bytes));
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
    kv_array **a = function_makes(out);
    TRY(has_dtype(args, dtype_at) ? KV_OK : value_check_whole(number, e));
    TRY(function_new(a, args, args->v[0], dtype_at, KV_FLOAT32, e));
    return fill(*a, number, e);
}

int func_ones(function_args *args, value *out, kv_err *e)
{
    return filled(args, value_int(1), 1, out, e);
}

int func_full(function_args *args, value *out, kv_err *e)
{
    value number;
    TRY(value_item(&number, args->v[1], e));
    return filled(args, number, 2, out, e);
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
    TRY(kv_array_write(a, &data, e));
    for (int64_t at = 0, k; at < n; at += k) {
        k = n - at < 512 ? n - at : 512;
        TRY(at % STOP_EVERY == 0 ? stop_check(e) : KV_OK);
        for (int64_t i = 0; i < k && q->whole; i++)
            block.i[i] = (int64_t)((uint64_t)q->start + (uint64_t)q->step * (uint64_t)(at + i));
        for (int64_t i = 0; i < k && !q->whole; i++)
            block.f[i] = q->fstart + (double)(at + i) * q->fstep;
        convert_elements((char *)data + at * bytes, kv_array_dtype(a), &block,
                         q->whole ? KV_INT64 : KV_FLOAT64, k);
    }
    return KV_OK;
}

/* Error: value, for a sequence of n whole numbers that float32 does not hold. */
static int check_whole(const sequence *q, int64_t n, kv_err *e)
{
    bool small = fabs(q->fstart) <= 0x1p24 && fabs(q->fstart + q->fstep * (double)n) <= 0x1p24;
    for (int64_t i = 0; i < n && !small; i++) {
        int64_t x = (int64_t)((uint64_t)q->start + (uint64_t)q->step * (uint64_t)i);
        TRY(stop_check_at(i, e));
        if (x < -(1 << 24) || x > 1 << 24)
            TRY(value_check_whole(value_int(x), e));
    }
    return KV_OK;
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
    TRY(value_item(args->given[1] ? &start : &stop, args->v[0], e));
    TRY(args->given[1] ? value_item(&stop, args->v[1], e) : KV_OK);
    TRY(args->given[2] ? value_item(&step, args->v[2], e) : KV_OK);
    sequence q = {.fstart = value_number(start), .fstep = value_number(step)};
    q.whole = start.kind != VALUE_FLOAT && stop.kind != VALUE_FLOAT && step.kind != VALUE_FLOAT;
    if (q.whole) {
        q.start = start.u.integer;
        q.step = step.u.integer;
    }
    if (q.fstep == 0)
        return kv_err_set(e, KV_E_VALUE, "arange() cannot step by 0");
    kv_array **a = function_makes(out);
    kv_dtype dtype;
    TRY(count_steps(&q, stop, &n, e));
    TRY(q.whole && !has_dtype(args, 3) ? check_whole(&q, n, e) : KV_OK);
    TRY(function_dtype(args->v[3], KV_FLOAT32, &dtype, e));
    TRY(n > 0 ? check_end(q.fstart, dtype, e) : KV_OK);
    TRY(n > 0 ? check_end(q.fstart + q.fstep * (double)(n - 1), dtype, e) : KV_OK);
    TRY(function_new(a, args, value_int(n), 3, KV_FLOAT32, e));
    return write_sequence(*a, &q, e);
}

int func_linspace(function_args *args, value *out, kv_err *e)
{
    double start, stop;
    int64_t n = 50;
    own_array *a = NULL;
    void *data;
    kv_dtype dtype;
    TRY(function_number(args->v[0], "the start of linspace()", &start, e));
    TRY(function_number(args->v[1], "the end of linspace()", &stop, e));
    TRY(function_int_at(args, 2, "the number of elements", &n, e));
    TRY(function_dtype(args->v[3], KV_FLOAT32, &dtype, e));
    TRY(n > 0 ? check_end(start, dtype, e) : KV_OK);
    TRY(n > 1 ? check_end(stop, dtype, e) : KV_OK);
    TRY(function_new(&a, args, value_int(n), 3, KV_FLOAT32, e));
    sequence q = {.fstart = start, .fstep = n > 1 ? (stop - start) / (double)(n - 1) : 0};
    TRY(write_sequence(a, &q, e));
    if (n > 1) { /* the last one is the end itself, not a rounded sum */
        TRY(kv_array_write(a, &data, e));
        convert_elements((char *)data + (n - 1) * kv_dtype_bytes(kv_array_dtype(a)),
                         kv_array_dtype(a), &stop, KV_FLOAT64, 1);
    }
    return value_array(out, kv_array_ref(a), e);
}

/* ---- From arrays ---- */

/* An array in another dtype or context. Where it has both, two objects share the elements until
 * one of them is written. */
static int converted(session *s, kv_array **out, kv_array *a, kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    if (kv_array_dtype(a) == dtype && kv_ctx_same(kv_array_ctx(a), ctx))
        return *out = kv_array_ref(a), KV_OK;
    TRY(session_ctx(s, ctx, e));
    return arrange_copy(out, a, dtype, ctx, e);
}

/* The first argument as an array of the dtype and in the context that are given. Numbers of lists
 * go to their dtype at once, so that integers stay exact; without one they get the usual dtype. */
static int made_array(function_args *args, int dtype_at, int ctx_at, kv_dtype usual, kv_array **out,
                      kv_err *e)
{
    value v = args->v[0];
    kv_dtype dtype;
    kv_ctx ctx;
    bool is_array = v.kind == VALUE_ARRAY;
    TRY(function_dtype(args->v[dtype_at], is_array ? kv_array_dtype(v.u.box->array) : usual, &dtype,
                       e));
    TRY(function_ctx(args->v[ctx_at], &ctx, e));
    if (is_array && !args->given[ctx_at])
        ctx = kv_array_ctx(v.u.box->array);
    if (is_array)
        return converted(args->session, out, v.u.box->array, dtype, ctx, e);
    TRY(session_ctx(args->session, ctx, e));
    return !has_dtype(args, dtype_at) && dtype == KV_FLOAT32
               ? value_float32_array(out, v, ctx, e)
               : value_numbers_array(out, v, dtype, ctx, e);
}

int func_array(function_args *args, value *out, kv_err *e)
{
    const unsigned bools = VALUE_BIT(VALUE_BOOL); /* as in NumPy */
    bool mask = value_kinds(args->v[0], ~bools) == bools;
    return made_array(args, 1, 2, mask ? KV_BOOL : KV_FLOAT32, function_makes(out), e);
}

int func_astype(function_args *args, value *out, kv_err *e)
{
    kv_array **made = function_makes(out);
    kv_dtype dtype;
    TRY(function_dtype(args->v[1], KV_FLOAT32, &dtype, e));
    if (args->v[0].kind !=
        VALUE_ARRAY) /* numbers stay exact where they go to their dtype at once */
        return value_numbers_array(made, args->v[0], dtype, (kv_ctx){KV_CPU, 0}, e);
    kv_array *a = args->v[0].u.box->array;
    return converted(args->session, made, a, dtype, kv_array_ctx(a), e);
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

/* ---- Random arrays ---- */

/* Random arrays. Each element is named by the seed, the call and its place (base/philox.h), so that
 * a script prints the same numbers every time, on every machine; `seed=` makes a call independent
 * of the calls before it. */

/* Elements that are made together before they are converted, and that one thread makes between
 * two looks at base/stop.h: about a millisecond. */
enum { BLOCK = 512, PART = 32 * BLOCK };

/* The seed and number of a call, which decide its random numbers, and their distribution. */
typedef struct draw {
    uint64_t seed, number;
    kv_dtype dtype;
    double low, width; /* uniform: from low on, width wide; normal: mean and deviation */
    double last;       /* uniform: the largest number of the dtype below the upper bound */
    int64_t from;      /* randint */
    uint64_t count;    /* randint: how many numbers; 0 stands for 2^64 */
} draw;

typedef void make_fn(void *block, const draw *d, uint64_t element, int64_t n);

static void make_uniform(void *block, const draw *d, uint64_t element, int64_t n)
{
    double *x = block;
    for (int64_t i = 0; i < n; i++) {
        philox p = philox_at(d->seed, PHILOX_FUNCTIONS, d->number, element + (uint64_t)i);
        double u = d->dtype == KV_FLOAT64 ? philox_uniform53(p) : philox_uniform24(p);
        double at = d->low + d->width * u;
        x[i] = at > d->last ? d->last : at;
    }
}

static void make_normal(void *block, const draw *d, uint64_t element, int64_t n)
{
    double *x = block;
    for (int64_t i = 0; i < n; i++) {
        philox p = philox_at(d->seed, PHILOX_FUNCTIONS, d->number, element + (uint64_t)i);
        x[i] = d->low + d->width * philox_normal(p);
    }
}

static void make_randint(void *block, const draw *d, uint64_t element, int64_t n)
{
    int64_t *x = block;
    for (int64_t i = 0; i < n; i++) {
        philox p = philox_at(d->seed, PHILOX_FUNCTIONS, d->number, element + (uint64_t)i);
        x[i] = (int64_t)((uint64_t)d->from + philox_below(p, d->count));
    }
}

/* As kvctl --seed, but the same numbers on every rank. */
int func_seed(function_args *args, value *out, kv_err *e)
{
    int64_t seed;
    TRY(function_int(args->v[0], "seed", &seed, e));
    args->session->seed = (uint64_t)seed;
    args->session->draws = 0;
    *out = value_none();
    return KV_OK;
}

/* Takes seed= or the next draw of the session. */
static int name_draw(function_args *args, int seed_at, draw *d, kv_err *e)
{
    int64_t seed;
    d->seed = args->session->seed;
    d->number = args->session->draws;
    if (!args->given[seed_at] || args->v[seed_at].kind == VALUE_NONE) {
        args->session->draws++;
        return KV_OK;
    }
    TRY(function_int(args->v[seed_at], "seed", &seed, e));
    d->seed = (uint64_t)seed;
    d->number = 0;
    return KV_OK;
}

/* An array to fill_random: make writes numbers of the dtype `made`. */
typedef struct job {
    const draw *d;
    make_fn *make;
    kv_dtype made;
    char *data;
    int64_t n;
    _Atomic bool stopped;
} job;

static void fill_part(void *arg, int64_t part, int worker)
{
    job *j = arg;
    uint64_t block[BLOCK];
    int64_t end = (part + 1) * PART < j->n ? (part + 1) * PART : j->n;
    (void)worker;
    if (stop_shared(&j->stopped))
        return;
    for (int64_t i = part * PART, k; i < end; i += k) {
        k = end - i < BLOCK ? end - i : BLOCK;
        j->make(block, j->d, (uint64_t)i, k);
        convert_elements(j->data + i * kv_dtype_bytes(j->d->dtype), j->d->dtype, block, j->made, k);
    }
}

static int fill_random(value *out, kv_array *a, make_fn *make, kv_dtype made, const draw *d,
                       kv_err *e)
{
    void *data;
    TRY(kv_array_write(a, &data, e));
    job j = {d, make, made, data, kv_array_size(a), false};
    pool_run((j.n + PART - 1) / PART, fill_part, &j);
    return j.stopped ? stop_error(e) : value_array(out, kv_array_ref(a), e);
}

/* x as an element of the dtype, then the largest one below it. Error: value (it does not fit). */
static int number_below(double x, kv_dtype dtype, double *below, kv_err *e)
{
    uint64_t bits = 0, sign = (uint64_t)1 << (8 * kv_dtype_bytes(dtype) - 1);
    TRY(value_put_number(&bits, dtype, value_float(x), e));
    convert_elements(below, KV_FLOAT64, &bits, dtype, 1);
    if (*below < x)
        return KV_OK;
    /* the bits of a float, without the sign, rise with its size */
    bits = (bits & ~sign) == 0 ? sign + 1 : bits & sign ? bits + 1 : bits - 1;
    convert_elements(below, KV_FLOAT64, &bits, dtype, 1);
    return KV_OK;
}

/* uniform and normal: shape, two numbers (low in d, and second, the upper bound or the scale),
 * seed, dtype, ctx. The numbers must fit the dtype, and rounding must not reach the upper bound. */
static int floats(function_args *args, make_fn *make, draw *d, double second, value *out,
                  kv_err *e)
{
    own_array *a = NULL;
    double below = 0;
    TRY(function_new(&a, args, args->given[0] ? args->v[0] : value_none(), 4, KV_FLOAT32, e));
    d->dtype = kv_array_dtype(a);
    if (!kv_dtype_is_float(d->dtype))
        return kv_err_set(e, KV_E_DTYPE, "%s() makes floats, not %s", args->function->name,
                          kv_dtype_name(d->dtype));
    TRY(number_below(d->low, d->dtype, &below, e));
    TRY(number_below(second, d->dtype, &below, e));
    TRY(name_draw(args, 3, d, e));
    d->last = make == make_uniform && below > d->low ? below : d->low;
    return fill_random(out, a, make, KV_FLOAT64, d, e);
}

int func_uniform(function_args *args, value *out, kv_err *e)
{
    draw d = {.low = 0};
    double high = 1;
    TRY(function_number_at(args, 1, "low", &d.low, e));
    TRY(function_number_at(args, 2, "high", &high, e));
    if (!(d.low <= high))
        return kv_err_set(e, KV_E_VALUE, "uniform() takes a low that is not above high");
    d.width = high - d.low;
    if (!isfinite(d.width))
        return kv_err_set(e, KV_E_VALUE, "uniform() takes finite bounds, at most 1.8e308 apart");
    return floats(args, make_uniform, &d, high, out, e);
}

int func_normal(function_args *args, value *out, kv_err *e)
{
    draw d = {.low = 0, .width = 1};
    TRY(function_number_at(args, 1, "loc", &d.low, e));
    TRY(function_number_at(args, 2, "scale", &d.width, e));
    if (!(d.width >= 0))
        return kv_err_set(e, KV_E_VALUE, "normal() takes a scale that is not negative");
    if (!(isfinite(d.low) && isfinite(d.width)))
        return kv_err_set(e, KV_E_VALUE, "normal() takes a finite mean and a finite scale");
    return floats(args, make_normal, &d, d.width, out, e);
}

int func_randint(function_args *args, value *out, kv_err *e)
{
    draw d = {0};
    int64_t high;
    uint64_t one;
    own_array *a = NULL;
    if (!args->given[2])
        return kv_err_set(e, KV_E_USAGE, "randint() needs high=, as in randint(2,3, high=10)");
    TRY(function_int(args->v[2], "high", &high, e));
    TRY(function_int_at(args, 1, "low", &d.from, e));
    if (d.from >= high)
        return kv_err_set(e, KV_E_VALUE, "randint() has no number from %lld up to but without %lld",
                          (long long)d.from, (long long)high);
    d.count = (uint64_t)high - (uint64_t)d.from;
    TRY(function_new(&a, args, args->given[0] ? args->v[0] : value_none(), 4, KV_INT32, e));
    d.dtype = kv_array_dtype(a);
    if (kv_dtype_is_float(d.dtype) || d.dtype == KV_BOOL)
        return kv_err_set(e, KV_E_DTYPE, "randint() makes integers, not %s",
                          kv_dtype_name(d.dtype));
    /* both ends must fit the dtype */
    TRY(value_put_number(&one, d.dtype, value_int(d.from), e));
    TRY(value_put_number(&one, d.dtype, value_int(high - 1), e));
    TRY(name_draw(args, 3, &d, e));
    return fill_random(out, a, make_randint, KV_INT64, &d, e);
}

/* ---- Orders ---- */

/* permutation(n): 0 to n - 1 in a random order, as indices; permutation(a): its rows in one. */
int func_permutation(function_args *args, value *out, kv_err *e)
{
    value x = args->v[0];
    draw d = {0};
    own_array *a = NULL, *order = NULL;
    void *data;
    int64_t n;
    bool rows = value_is_sequence(x) ||
                (x.kind == VALUE_ARRAY && kv_array_ndim(x.u.box->array) > 0);
    TRY(rows ? value_to_array(&a, x, e) : function_int(x, "the number of indices", &n, e));
    n = rows ? kv_array_shape(a)[0] : n;
    if (n < 0)
        return kv_err_set(e, KV_E_VALUE, "permutation() takes a count from 0 on, not %lld",
                          (long long)n);
    TRY(name_draw(args, 1, &d, e));
    TRY(kv_array_new_raw(&order, KV_INT64, 1, &n, (kv_ctx){KV_CPU, 0}, e));
    TRY(kv_array_write(order, &data, e));
    int64_t *ids = data;
    for (int64_t i = 0; i < n; i++) {
        TRY(stop_check_at(i, e));
        ids[i] = i;
    }
    /* each place from the last on swaps with one of those up to it (Fisher and Yates) */
    for (int64_t i = n - 1; i > 0; i--) {
        TRY(stop_check_at(i, e));
        philox p = philox_at(d.seed, PHILOX_FUNCTIONS, d.number, (uint64_t)i);
        int64_t k = (int64_t)philox_below(p, (uint64_t)i + 1), one = ids[k];
        ids[k] = ids[i];
        ids[i] = one;
    }
    if (!rows)
        return value_array(out, kv_array_ref(order), e);
    return array_slice(function_makes(out), a, &(array_range){.ids = order}, 1, e);
}

/* ---- Storage ---- */

static int parse_storage(value v, kv_storage *out, kv_err *e)
{
    static const char *const names[] = {"default", "row_sparse"};
    const char *name;
    TRY(function_text(v, "a storage", &name, e));
    int i = NAME_AMONG(name, names);
    if (i < 0) {
        kv_err_set(e, KV_E_VALUE, "there is no storage \"%.40s\"", name);
        return kv_err_hint(e, "default, row_sparse");
    }
    *out = (kv_storage)i;
    return KV_OK;
}

/* An array in another storage, as itself when it has it. */
static int stored_as(value *out, kv_array *a, kv_storage storage, kv_err *e)
{
    if (kv_array_storage(a) == storage)
        return *function_makes(out) = kv_array_ref(a), KV_OK;
    return (storage == KV_ROW_SPARSE ? kv_array_to_sparse : kv_array_to_dense)(function_makes(out),
                                                                               a, e);
}

int func_dense(function_args *args, value *out, kv_err *e)
{
    return stored_as(out, args->array, KV_DEFAULT, e);
}

int func_tostype(function_args *args, value *out, kv_err *e)
{
    kv_storage storage;
    TRY(parse_storage(args->v[1], &storage, e));
    return stored_as(out, args->array, storage, e);
}

/* ---- What a row_sparse array holds ---- */

/* data, and indices: a copy of one of the two parts, which share the memory of the array. */
int func_rows_part(function_args *args, value *out, kv_err *e)
{
    own_array *ids = NULL, *data = NULL;
    if (kv_array_storage(args->array) != KV_ROW_SPARSE) {
        kv_err_set(e, KV_E_DTYPE, "%s is of row_sparse arrays, and this one is default",
                   args->function->name);
        return kv_err_hint(e, "a.tostype('row_sparse')");
    }
    TRY(sparse_parts(&ids, &data, args->array, e));
    kv_array *part = FUNCTION_VARIANT(args) ? ids : data;
    return kv_array_dup(function_makes(out), part, kv_array_dtype(part), kv_array_ctx(args->array),
                        e);
}

int func_stype(function_args *args, value *out, kv_err *e)
{
    return value_text(out, kv_storage_name(kv_array_storage(args->array)), e);
}

/* zeros(shape, stype="row_sparse") and zeros("row_sparse", shape): no row is held. */
int func_zeros(function_args *args, value *out, kv_err *e)
{
    kv_storage storage = KV_DEFAULT;
    int ndim = 0;
    int64_t shape[KV_MAX_NDIM];
    kv_dtype dtype;
    kv_ctx ctx;
    TRY(args->given[3] ? parse_storage(args->v[3], &storage, e) : KV_OK);
    TRY(function_shape(args->v[0], &ndim, shape, e));
    TRY(function_dtype(args->v[1], KV_FLOAT32, &dtype, e));
    TRY(function_ctx(args->v[2], &ctx, e));
    TRY(session_ctx(args->session, ctx, e));
    return storage == KV_ROW_SPARSE
               ? kv_array_new_sparse(function_makes(out), dtype, ndim, shape, 0, NULL, ctx, e)
               : arrange_zeros(function_makes(out), dtype, ndim, shape, ctx, e);
}

/* ---- row_sparse(data, row_ids, shape) ---- */

/* A row as it is given: its id, and which of the rows of data it is. */
typedef struct given_row {
    int64_t id, at;
} given_row;

static int by_id(const void *a, const void *b)
{
    const given_row *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->at > y->at) - (x->at < y->at);
}

/* Row ids: whole numbers in a list, a tuple or an array of any dtype. The caller frees. */
static int read_ids(given_row **out, int64_t *n, value v, kv_err *e)
{
    own_array *given = NULL;
    own_mem int64_t *ids = NULL;
    TRY(v.kind == VALUE_ARRAY ? value_to_array(&given, v, e)
                              : value_numbers_array(&given, v, KV_FLOAT64, (kv_ctx){0}, e));
    TRY(row_ids_read(&ids, given, e));
    *n = kv_array_size(given);
    if (!(*out = mem_alloc(*n, sizeof **out, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < *n; i++)
        (*out)[i] = (given_row){ids[i], i};
    return KV_OK;
}

/* data has one row for each id, and rows as the shape says. */
static int check_data(const kv_array *data, int64_t nrows, int ndim, const int64_t *shape,
                      kv_err *e)
{
    char have[160], want[160];
    int64_t need[KV_MAX_NDIM];
    memcpy(need, shape, (size_t)ndim * sizeof *need);
    need[0] = nrows;
    if (nrows == 0 && kv_array_size(data) == 0) /* [] has no axes to look at */
        return KV_OK;
    if (ndim > 0 && kv_array_ndim(data) == ndim &&
        memcmp(kv_array_shape(data), need, (size_t)ndim * sizeof *need) == 0)
        return KV_OK;
    return kv_err_set(e, KV_E_SHAPE,
                      "the data of %lld row%s of an array of shape %s have shape %s, not %s",
                      (long long)nrows, nrows == 1 ? "" : "s",
                      kv_shape_text(want, sizeof want, ndim, shape),
                      kv_shape_text((char[160]){0}, 160, ndim, need),
                      kv_shape_text(have, sizeof have, kv_array_ndim(data), kv_array_shape(data)));
}

/* The rows of data as an array of that shape. Ids may come in any order, and more than once: what
 * has one id is added, in the order given. */
static int make_rows(value *out, kv_array *data, given_row *rows, int64_t n, int ndim,
                     const int64_t *shape, kv_err *e)
{
    own_array *a = NULL;
    own_mem int64_t *ids = mem_alloc(n, sizeof *ids, e);
    own_mem const void **src = mem_alloc(n, sizeof *src, e);
    const void *from;
    void *to;
    int64_t nrows = 0;
    if (!ids || !src)
        return KV_E_MEMORY;
    qsort(rows, (size_t)n, sizeof *rows, by_id);
    for (int64_t i = 0; i < n; i++)
        if (nrows == 0 || ids[nrows - 1] != rows[i].id)
            ids[nrows++] = rows[i].id;
    TRY(kv_array_new_sparse(&a, kv_array_dtype(data), ndim, shape, nrows, ids, kv_array_ctx(data),
                            e));
    TRY(kv_array_read(data, &from, e));
    TRY(kv_array_write_rows(a, &to, e));
    int64_t bytes = n > 0 ? kv_array_bytes(data) / n : 0;
    int64_t elements = n > 0 ? kv_array_size(data) / n : 0;
    for (int64_t i = 0, k; i < n; i += k) {
        TRY(stop_check_at(i, e));
        for (k = 0; i + k < n && rows[i + k].id == rows[i].id; k++)
            src[k] = (const char *)from + rows[i + k].at * bytes;
        sum_elements(to, src, k, kv_array_dtype(data), elements);
        to = (char *)to + bytes;
    }
    return value_array(out, kv_array_ref(a), e);
}

int func_row_sparse(function_args *args, value *out, kv_err *e)
{
    int ndim;
    int64_t shape[KV_MAX_NDIM], n;
    own_mem given_row *rows = NULL;
    own_array *a = NULL;
    TRY(made_array(args, 4, 3, KV_FLOAT32, &a, e));
    if (!args->given[1] && !args->given[2])
        return stored_as(out, a, KV_ROW_SPARSE, e);
    if (!args->given[1] || !args->given[2]) {
        kv_err_set(e, KV_E_USAGE, "row_sparse takes an array, or data, row_ids and shape");
        return kv_err_hint(e, "row_sparse(ones(2, 3), [0, 4], (5, 3)) has rows 0 and 4 of five");
    }
    TRY(function_shape(args->v[2], &ndim, shape, e));
    TRY(read_ids(&rows, &n, args->v[1], e));
    TRY(check_data(a, n, ndim, shape, e));
    return make_rows(out, a, rows, n, ndim, shape, e);
}
