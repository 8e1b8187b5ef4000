/* The type teststore: it keeps nothing. broadcast copies one value to the outs, pushpull sums the
 * values and writes the sum to the outs; which keys they have does not matter. It is the least that
 * a store can be, made to test programs that bring their own optimizer. (Seed 004, "TestStore")
 *
 * Its calls end before they return: there is no stored array that a later call could wait for.
 */
#include "local/local.h"

#include "array/device.h"
#include "base/mem.h"
#include "core/apply.h"

static int open_store(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    if (local_no_options(store, opts, nopts, e))
        return KV_E_USAGE;
    *self = store;
    return KV_OK;
}

/* Checks that an array is a default one with the shape of the first value. */
static int check_array(const kv_array *first, const kv_array *a, const char *what,
                       const kv_key *key, kv_err *e)
{
    char one[128], other[128];
    if (kv_array_storage(a) != KV_DEFAULT)
        kv_err_set(e, KV_E_UNSUPPORTED, "teststore takes no row_sparse arrays");
    else if (!array_fits(first, a))
        kv_err_set(e, KV_E_SHAPE, "the first value has shape %s, this %s has %s",
                   kv_shape_text(one, sizeof one, kv_array_ndim(first), kv_array_shape(first)),
                   what, kv_shape_text(other, sizeof other, kv_array_ndim(a), kv_array_shape(a)));
    else
        return KV_OK;
    kv_err_key(e, key);
    return kv_array_storage(a) != KV_DEFAULT ? KV_E_UNSUPPORTED : KV_E_SHAPE;
}

static int check_arrays(const kv_array *first, const kv_pairs *p, const char *what, kv_err *e)
{
    for (int64_t i = 0; i < p->n; i++)
        TRY(check_array(first, p->arrays[i], what, &p->keys[i], e));
    return KV_OK;
}

/* Between default arrays of one shape in host memory this cannot fail. */
static int copy_to_all(kv_array *from, const kv_pairs *outs, kv_err *e)
{
    for (int64_t i = 0; i < outs->n; i++) {
        if (outs->arrays[i] != from)
            TRY(kv_array_copy(outs->arrays[i], from, e));
    }
    return KV_OK;
}

static int broadcast(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                     kv_err *e)
{
    (void)self;
    (void)how;
    if (values->n != 1) {
        kv_err_set(e, KV_E_VALUE, "teststore broadcasts one value, here are %lld",
                   (long long)values->n);
        kv_err_hint(e, "it does not look at keys: call it once for each");
        return KV_E_VALUE;
    }
    kv_array *value = values->arrays[0];
    TRY(check_arrays(value, values, "value", e));
    TRY(check_arrays(value, outs, "array", e));
    return copy_to_all(value, outs, e);
}

/* *sum: a new array like the first value. */
static int sum_values(kv_array **sum, const kv_pairs *p, kv_err *e)
{
    const kv_array *first = p->arrays[0];
    own_mem const void **data = mem_alloc(p->n, sizeof *data, e);
    apply_values v = {p->arrays, data, p->n, true, NULL};
    OWN(apply_work_release) apply_work work = {0};
    TRY(data ? apply_reserve(&work, 1, p->n, 0, 0, e) : KV_E_MEMORY);
    for (int64_t i = 0; i < p->n; i++) {
        TRY(kv_array_read(p->arrays[i], &data[i], e));
        v.same_dtype &= p->arrays[i]->dtype == first->dtype;
    }
    TRY(kv_array_new_raw(sum, first->dtype, first->ndim, array_shape(first), first->ctx, e));
    apply_sum(*sum, &v, 0, first->size, false, &work, 0);
    return KV_OK;
}

static int pushpull(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                    kv_err *e)
{
    own_array *sum = NULL;
    (void)self;
    (void)how;
    TRY(check_arrays(values->arrays[0], values, "value", e));
    TRY(check_arrays(values->arrays[0], outs, "array", e));
    TRY(sum_values(&sum, values, e));
    return copy_to_all(sum, outs, e);
}

static const char *const names[] = {"teststore", NULL};

const kv_type_ops teststore_type_ops = {
    .size = sizeof teststore_type_ops,
    .version = KV_TYPE_VERSION,
    .names = names,
    .open = open_store,
    .pushpull = pushpull,
    .broadcast = broadcast,
};
