/* Expected results and comparisons. */
#include "bench/bench_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- What is expected ---- */

/* 0.5 is the threshold of both kinds of codes: what the codes of one value stand for, after so many
 * pushes of x. */
static double code_of(double x, bool two_bits, int64_t pushes)
{
    double residual = 0, code = 0;
    for (int64_t i = 0; i < pushes; i++) {
        residual += x;
        code = residual >= 0.5 ? 0.5 : residual <= -0.5 ? -0.5 : 0;
        if (!two_bits)
            code = residual > 0.5 ? 1 : -1;
        residual -= code;
    }
    return code;
}

/* What the values of a push sum up to, in element i. */
static double sum_of(const bench_data *data, int64_t i, int n, int64_t pushes)
{
    double sum = 0;
    for (int v = 0; v < n; v++) {
        double x = bench_pattern(i) * (v + 1);
        sum += data->compression ? code_of(x, strcmp(data->compression, "2bit") == 0, pushes) : x;
    }
    return sum;
}

/* Sums in dtype: rounded once, from float32. */
static int expect_sum(kv_array **out, const bench_data *data, int n, int64_t pushes, kv_err *e)
{
    const int64_t size = BENCH_PERIOD;
    kv_array *exact;
    void *x;
    if (kv_array_new(&exact, KV_FLOAT32, 1, &size, (kv_ctx){0}, e))
        return e->code;
    if (kv_array_write(exact, &x, e) == KV_OK)
        for (int64_t i = 0; i < size; i++)
            ((float *)x)[i] = (float)sum_of(data, i, n, pushes);
    int code = e->code ? e->code : kv_array_dup(out, exact, data->dtype, (kv_ctx){0}, e);
    kv_array_unref(exact);
    return code;
}

/* The stored values that an optimizer begins with: those of the first value, or in a table ones. */
static int first_stored(kv_array **out, const bench_data *data, kv_err *e)
{
    const int64_t n = BENCH_PERIOD;
    void *x;
    if (!data->sparse)
        return bench_room_period(out, data, 1, e);
    if (kv_array_new(out, data->dtype, 1, &n, (kv_ctx){0}, e) || kv_array_write(*out, &x, e))
        return e->code;
    for (int64_t i = 0; i < n; i++)
        ((float *)x)[i] = 1;
    return KV_OK;
}

/* Pushes the sums of each time, one after the other, into a store of one small key. */
static int small_pushes(kv *store, const bench_data *data, int n, int64_t pushes, kv_err *e)
{
    kv_key key = {0, NULL};
    int code = KV_OK;
    for (int64_t t = 1; t <= pushes && code == KV_OK; t++) {
        kv_array *sum;
        if ((code = expect_sum(&sum, data, n, t, e)))
            break;
        code = kv_push(store, &key, 1, &sum, NULL, e);
        kv_array_unref(sum);
    }
    return code ? code : kv_wait(store, e);
}

static int expect_optimizer(kv_array **out, const bench_data *data, const bench_optimizer *o, int n,
                            int64_t pushes, kv_err *e)
{
    kv_key key = {0, NULL};
    kv *store = NULL;
    kv_array *stored;
    int code = first_stored(&stored, data, e);
    if (code)
        return code;
    if ((code = kv_create("local", NULL, 0, &store, e)) == KV_OK &&
        (code = kv_init(store, &key, 1, &stored, NULL, e)) == KV_OK &&
        (code = kv_set_optimizer(store, o->optimizer, o->params, o->nparams, e)) == KV_OK &&
        (code = small_pushes(store, data, n, pushes, e)) == KV_OK)
        code = kv_pull(store, &key, 1, &stored, NULL, e);
    if (code == KV_OK)
        code = kv_wait(store, e);
    kv_free(store);
    if (code == KV_OK)
        *out = stored;
    else
        kv_array_unref(stored);
    return code;
}

int bench_expect(kv_array **out, const bench_data *data, bench_op op, int n, int64_t pushes,
                 kv_err *e)
{
    if (op.optimizer)
        return expect_optimizer(out, data, op.optimizer, n, pushes, e);
    if (op.push)
        return expect_sum(out, data, n, pushes, e);
    return data->sparse ? first_stored(out, data, e) : bench_room_period(out, data, 1, e);
}

/* ---- Comparing ---- */

static bool same(const void *got, const void *expected, int64_t item, bench_op op)
{
    float x, y;
    bench_exact exact = op.optimizer ? op.optimizer->exact : BENCH_EXACT;
    if (exact == BENCH_EXACT || item != sizeof x)
        return memcmp(got, expected, (size_t)item) == 0;
    memcpy(&x, got, sizeof x);
    memcpy(&y, expected, sizeof y);
    return exact == BENCH_NORMS ? fabsf(x - y) <= 1e-3f * (1 + fabsf(y)) : isfinite(x);
}

#define SAMPLES 61

/* Array k of a room, from its first to its last element. */
static int compare_array(const bench_room *r, kv_array *a, int64_t k, bench_op op,
                         const char *expected, int64_t *checked, kv_err *e)
{
    const void *data;
    int64_t item = kv_dtype_bytes(r->data->dtype), n = r->bytes[k] / item;
    bool sparse = r->data->sparse;
    if (sparse ? kv_array_read_rows(a, &data, e) : kv_array_read(a, &data, e))
        return e->code;
    if (sparse && (kv_array_nrows(a) != r->nrows ||
                   memcmp(kv_array_row_ids(a), r->row_ids, (size_t)r->nrows * 8) != 0))
        return kv_err_set(e, KV_E_INTERNAL, "the rows of a result are not those that were pushed");
    for (int s = 0; s < SAMPLES && n > 0; s++) {
        int64_t i = n <= SAMPLES ? s
                                 : (n - 1) / (SAMPLES - 1) * s +
                                       (s == SAMPLES - 1) * ((n - 1) % (SAMPLES - 1));
        if (i >= n)
            break;
        if (!same((const char *)data + i * item, expected + (i + k) % BENCH_PERIOD * item, item,
                  op)) {
            char name[64];
            bench_op_name(name, op);
            return kv_err_set(e, KV_E_INTERNAL,
                              "%s (%s): element %lld of array %lld is not what it should be", name,
                              r->data->name, (long long)i, (long long)k);
        }
        ++*checked;
    }
    return KV_OK;
}

int bench_compare(const bench_room *r, kv_array *const *set, bench_op op, kv_array *expected,
                  int64_t *checked, kv_err *e)
{
    const void *period;
    int code = kv_array_read(expected, &period, e);
    bool norms = op.optimizer && op.optimizer->exact == BENCH_NORMS;
    for (int64_t k = 0; k < r->shapes.n && code == KV_OK; k++)
        if (set[k] && (!norms || k == r->largest))
            code = compare_array(r, set[k], k, op, period, checked, e);
    return code;
}

static int pull_one(const bench_room *r, kv *store, int64_t k, kv_array **out, kv_err *e)
{
    const bench_shape *s = &r->shapes.items[k];
    if (r->data->sparse)
        return kv_array_new_sparse(out, r->data->dtype, s->ndim, s->shape, 0, NULL, (kv_ctx){0},
                                   e) ||
                       kv_row_sparse_pull(store, &r->keys[k], 1, &r->ids, out, NULL, e)
                   ? e->code
                   : KV_OK;
    if (kv_array_new_raw(out, r->data->dtype, s->ndim, s->shape, (kv_ctx){0}, e))
        return e->code;
    return kv_pull(store, &r->keys[k], 1, out, NULL, e);
}

int bench_compare_store(const bench_room *r, kv *store, bench_op op, kv_array *expected,
                        int64_t *checked, kv_err *e)
{
    int64_t n = r->shapes.n, some[] = {r->largest, 0, n - 1};
    kv_array **set = mem_zalloc(n, sizeof *set, e);
    int code = set ? KV_OK : KV_E_MEMORY;
    for (int i = 0; i < 3 && code == KV_OK; i++)
        if (!set[some[i]])
            code = pull_one(r, store, some[i], &set[some[i]], e);
    if (code == KV_OK && (code = kv_wait(store, e)) == KV_OK)
        code = bench_compare(r, set, op, expected, checked, e);
    for (int64_t i = 0; set && i < n; i++)
        kv_array_unref(set[i]);
    mem_free(set);
    return code;
}
