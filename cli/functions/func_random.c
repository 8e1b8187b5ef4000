/* Random arrays. Each element is named by the seed, the call and its place (base/philox.h), so that
 * a script prints the same numbers every time, on every machine; `seed=` makes a call independent
 * of the calls before it. */
#include "functions/func.h"

#include <math.h>

#include "array/device.h"
#include "array/slice.h"
#include "base/philox.h"
#include "base/stop.h"
#include "engine/pool.h"

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
    int rc = function_int(args->v[seed_at], "seed", &seed, e);
    d->seed = (uint64_t)seed;
    d->number = 0;
    return rc;
}

/* An array to fill: make writes numbers of the dtype `made`. */
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

static int fill(value *out, kv_array *a, make_fn *make, kv_dtype made, const draw *d, kv_err *e)
{
    void *data;
    int rc = kv_array_write(a, &data, e);
    if (!rc) {
        job j = {d, make, made, data, kv_array_size(a), false};
        pool_run((j.n + PART - 1) / PART, fill_part, &j);
        rc = j.stopped ? stop_error(e) : KV_OK;
    }
    return function_give(out, a, rc, e);
}

/* x as an element of the dtype, then the largest one below it. Error: value (it does not fit). */
static int number_below(double x, kv_dtype dtype, double *below, kv_err *e)
{
    uint64_t bits = 0, sign = (uint64_t)1 << (8 * kv_dtype_bytes(dtype) - 1);
    int rc = value_put_number(&bits, dtype, value_float(x), e);
    if (rc)
        return rc;
    convert_elements(below, KV_FLOAT64, &bits, dtype, 1);
    if (*below < x)
        return KV_OK;
    /* the bits of a float, without the sign, rise with its size */
    bits = (bits & ~sign) == 0 ? sign + 1 : bits & sign ? bits + 1 : bits - 1;
    convert_elements(below, KV_FLOAT64, &bits, dtype, 1);
    return KV_OK;
}

/* The numbers that were given must fit the dtype, and rounding must not reach the upper bound.
 * `second` is that bound, or the scale of normal(). */
static int check_numbers(draw *d, make_fn *make, double second, kv_err *e)
{
    double below = 0;
    int rc = number_below(d->low, d->dtype, &below, e);
    if (!rc)
        rc = number_below(second, d->dtype, &below, e);
    d->last = make == make_uniform && below > d->low ? below : d->low;
    return rc;
}

/* uniform and normal: shape, two numbers (low in d, and second), seed, dtype, ctx. */
static int floats(function_args *args, make_fn *make, draw *d, double second, value *out,
                  kv_err *e)
{
    kv_array *a;
    int rc = function_new(&a, args, args->given[0] ? args->v[0] : value_none(), 4, KV_FLOAT32, e);
    if (rc)
        return rc;
    d->dtype = kv_array_dtype(a);
    if (!kv_dtype_is_float(d->dtype))
        rc = kv_err_set(e, KV_E_DTYPE, "%s() makes floats, not %s", args->function->name,
                        kv_dtype_name(d->dtype));
    if (!rc)
        rc = check_numbers(d, make, second, e);
    if (!rc)
        rc = name_draw(args, 3, d, e);
    if (rc)
        return function_give(out, a, rc, e);
    return fill(out, a, make, KV_FLOAT64, d, e);
}

int func_uniform(function_args *args, value *out, kv_err *e)
{
    draw d = {.low = 0};
    double high = 1;
    int rc = KV_OK;
    if (args->given[1])
        rc = function_number(args->v[1], "low", &d.low, e);
    if (!rc && args->given[2])
        rc = function_number(args->v[2], "high", &high, e);
    if (!rc && !(d.low <= high))
        rc = kv_err_set(e, KV_E_VALUE, "uniform() takes a low that is not above high");
    d.width = high - d.low;
    if (!rc && !isfinite(d.width))
        rc = kv_err_set(e, KV_E_VALUE, "uniform() takes finite bounds, at most 1.8e308 apart");
    return rc ? rc : floats(args, make_uniform, &d, high, out, e);
}

int func_normal(function_args *args, value *out, kv_err *e)
{
    draw d = {.low = 0, .width = 1};
    int rc = KV_OK;
    if (args->given[1])
        rc = function_number(args->v[1], "loc", &d.low, e);
    if (!rc && args->given[2])
        rc = function_number(args->v[2], "scale", &d.width, e);
    if (!rc && !(d.width >= 0))
        rc = kv_err_set(e, KV_E_VALUE, "normal() takes a scale that is not negative");
    if (!rc && !(isfinite(d.low) && isfinite(d.width)))
        rc = kv_err_set(e, KV_E_VALUE, "normal() takes a finite mean and a finite scale");
    return rc ? rc : floats(args, make_normal, &d, d.width, out, e);
}

/* Both ends of what randint may give must fit the dtype. */
static int check_ends(const draw *d, int64_t high, kv_err *e)
{
    uint64_t one;
    if (kv_dtype_is_float(d->dtype) || d->dtype == KV_BOOL)
        return kv_err_set(e, KV_E_DTYPE, "randint() makes integers, not %s",
                          kv_dtype_name(d->dtype));
    int rc = value_put_number(&one, d->dtype, value_int(d->from), e);
    return rc ? rc : value_put_number(&one, d->dtype, value_int(high - 1), e);
}

int func_randint(function_args *args, value *out, kv_err *e)
{
    draw d = {0};
    int64_t high;
    kv_array *a;
    if (!args->given[2])
        return kv_err_set(e, KV_E_USAGE, "randint() needs high=, as in randint(2,3, high=10)");
    int rc = function_int(args->v[2], "high", &high, e);
    if (!rc && args->given[1])
        rc = function_int(args->v[1], "low", &d.from, e);
    if (rc)
        return rc;
    if (d.from >= high)
        return kv_err_set(e, KV_E_VALUE, "randint() has no number from %lld up to but without %lld",
                          (long long)d.from, (long long)high);
    d.count = (uint64_t)high - (uint64_t)d.from;
    if ((rc = function_new(&a, args, args->given[0] ? args->v[0] : value_none(), 4, KV_INT32, e)))
        return rc;
    d.dtype = kv_array_dtype(a);
    if ((rc = check_ends(&d, high, e)) || (rc = name_draw(args, 3, &d, e)))
        return function_give(out, a, rc, e);
    return fill(out, a, make_randint, KV_INT64, &d, e);
}

/* ---- Orders ---- */

/* Each place from the last on swaps with one of those up to it (Fisher and Yates). */
static int shuffle(int64_t *x, int64_t n, const draw *d, kv_err *e)
{
    for (int64_t i = n - 1; i > 0; i--) {
        philox p = philox_at(d->seed, PHILOX_FUNCTIONS, d->number, (uint64_t)i);
        int64_t k = (int64_t)philox_below(p, (uint64_t)i + 1), one = x[k];
        int rc = stop_check_at(i, e);
        if (rc)
            return rc;
        x[k] = x[i];
        x[i] = one;
    }
    return KV_OK;
}

/* permutation(n): 0 to n - 1 in a random order, as indices; permutation(a): its rows in one. */
int func_permutation(function_args *args, value *out, kv_err *e)
{
    value x = args->v[0];
    draw d = {0};
    kv_array *a = NULL, *order = NULL, *made = NULL;
    void *data;
    int64_t n;
    bool rows = value_is_sequence(x) ||
                (x.kind == VALUE_ARRAY && kv_array_ndim(x.u.box->array) > 0);
    int rc = rows ? value_to_array(&a, x, e) : function_int(x, "the number of indices", &n, e);
    if (!rc && rows)
        n = kv_array_shape(a)[0];
    if (!rc && n < 0)
        rc = kv_err_set(e, KV_E_VALUE, "there is no order of %lld indices", (long long)n);
    if (rc || (rc = name_draw(args, 1, &d, e)) ||
        (rc = kv_array_new_raw(&order, KV_INT64, 1, &n, (kv_ctx){KV_CPU, 0}, e)) ||
        (rc = kv_array_write(order, &data, e)))
        goto out;
    for (int64_t i = 0; i < n && !(rc = stop_check_at(i, e)); i++)
        ((int64_t *)data)[i] = i;
    if (!rc && !(rc = shuffle(data, n, &d, e)) && rows)
        rc = array_slice(&made, a, &(array_range){.ids = order}, 1, e);
out:
    kv_array_unref(a);
    if (!rows)
        return function_give(out, order, rc, e);
    kv_array_unref(order);
    return function_give(out, made, rc, e);
}
