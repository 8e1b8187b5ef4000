/* Sums of one call, their norm, and the factor that scales them. */
#include "clip_norm.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu.h"

/* ---- Elements ---- */

enum { CHUNK = 1024 }; /* elements that are converted at a time */

/* Elements in host memory, to read or to write: those of all rows that are there. */
static int elements(kv_array *a, bool write, void **data, int64_t *n, kv_err *e)
{
    const void *read = NULL;
    bool sparse = kv_array_storage(a) == KV_ROW_SPARSE;
    int64_t rows = sparse ? kv_array_nrows(a) : 1, row = kv_array_size(a);
    int rc = sparse && write ? kv_array_write_rows(a, data, e)
             : sparse        ? kv_array_read_rows(a, &read, e)
             : write         ? kv_array_write(a, data, e)
                             : kv_array_read(a, &read, e);
    if (sparse)
        row = kv_array_shape(a)[0] > 0 ? row / kv_array_shape(a)[0] : 0;
    *n = rows * row;
    if (!write)
        *data = (void *)read; /* which is only read */
    return rc;
}

/* The sum of squares, in double precision, always in the same order. */
static double sum_of_squares(const char *data, kv_dtype dtype, int64_t n)
{
    double chunk[CHUNK], sum = 0;
    for (int64_t i = 0, m; i < n; i += m) {
        double part[8] = {0};
        m = n - i < CHUNK ? n - i : CHUNK;
        convert_elements(chunk, KV_FLOAT64, data + i * kv_dtype_bytes(dtype), dtype, m);
        for (int64_t j = 0; j < m; j++)
            part[j % 8] += chunk[j] * chunk[j];
        for (int j = 0; j < 8; j++)
            sum += part[j];
    }
    return sum;
}

/* Each product is rounded once, to float32 for half precision and then to the dtype. */
static void scale_elements(char *data, kv_dtype dtype, int64_t n, double by)
{
    if (dtype == KV_FLOAT64) {
        for (int64_t i = 0; i < n; i++)
            ((double *)data)[i] *= by;
        return;
    }
    float chunk[CHUNK], factor = (float)by;
    for (int64_t i = 0, m; i < n; i += m) {
        char *at = data + i * kv_dtype_bytes(dtype);
        m = n - i < CHUNK ? n - i : CHUNK;
        convert_elements(chunk, KV_FLOAT32, at, dtype, m);
        for (int64_t j = 0; j < m; j++)
            chunk[j] *= factor;
        convert_elements(at, dtype, chunk, KV_FLOAT32, m);
    }
}

/* ---- Sums ---- */

/* A value in the dtype of its key: it is converted before it is added, as in any push. */
static int add_value(clip_norm *c, const kv_key *key, kv_array *value, kv_dtype dtype, int64_t at,
                     kv_err *e)
{
    c->keys[at] = *key;
    if (kv_array_dtype(value) == dtype) {
        c->arrays[at] = kv_array_ref(value);
        return KV_OK;
    }
    return kv_array_dup(&c->arrays[at], value, dtype, kv_array_ctx(value), e);
}

static int collect(clip_norm *c, const kv *store, const kv_pairs *values, bool *fine, kv_err *e)
{
    kv_err unused = {0};
    *fine = true;
    for (int64_t i = 0; i < values->n && *fine; i++) {
        const kv_key *key = &values->keys[i];
        int64_t number = slot_find(&store->slots, key, -1);
        const slot *s = number < 0 ? NULL : &store->slots.items[number];
        *fine = s && call_check_shape(s, values->arrays[i], "value", &unused) == KV_OK;
        if (!*fine)
            continue;
        kv_dtype dtype = kv_array_dtype(s->stored);
        TRY(kv_dtype_is_float(dtype)
                ? add_value(c, key, values->arrays[i], dtype, i, e)
                : slot_error(e, KV_E_DTYPE, key, NULL,
                             "clip_global_norm cannot scale key %s, which is %s", SLOT_KEY(key),
                             kv_dtype_name(dtype)));
    }
    return KV_OK;
}

/* A norm that is nan or infinite makes the factor nan or 0, as torch.nn.utils.clip_grad_norm_
 * does: what such gradients update shows it. */
static int scale(clip_norm *c, const optimizer *o, kv_err *e)
{
    double sum = 0;
    for (int64_t i = 0; i < c->sums->slots.n; i++) {
        kv_array *a = c->sums->slots.items[i].stored;
        void *data;
        int64_t n;
        TRY(elements(a, false, &data, &n, e));
        sum += sum_of_squares(data, kv_array_dtype(a), n);
    }
    double norm = sqrt(sum) * fabs(host_number(rule_value(&o->binding, RULE_RESCALE_GRAD)));
    if (!(norm <= o->clip_norm)) {
        for (int64_t i = 0; i < c->sums->slots.n; i++) {
            kv_array *a = c->sums->slots.items[i].stored;
            void *data;
            int64_t n;
            TRY(elements(a, true, &data, &n, e));
            scale_elements(data, kv_array_dtype(a), n, o->clip_norm / norm);
        }
    }
    /* They become the values of the call. Their store holds them. */
    const slot_table *t = &c->sums->slots;
    for (int64_t i = 0; i < c->ntaken; i++)
        kv_array_unref(c->arrays[i]);
    c->ntaken = 0;
    for (int64_t i = 0; i < t->n; i++) {
        c->keys[i] = t->items[i].key;
        c->arrays[i] = t->items[i].stored;
    }
    c->pairs = (kv_pairs){c->keys, c->arrays, t->n};
    return KV_OK;
}

int clip_norm_check(const kv *store, kv_err *e)
{
    const kv_type_ops *ops = store->ops;
    if (store->in_slots || !ops->num_workers || ops->num_workers(store->self) == 1)
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED,
               "clip_global_norm needs the sum of all workers' gradients for all keys, and each "
               "server of \"%s\" has the sums of its keys only",
               store->type);
    return kv_err_hint(e, "clip each worker's gradients before the push: g * minimum(1, c / norm)"),
           KV_E_UNSUPPORTED;
}

void clip_norm_end(clip_norm *c)
{
    for (int64_t i = 0; c->arrays && i < c->ntaken; i++)
        kv_array_unref(c->arrays[i]);
    mem_free(c->keys);
    mem_free(c->arrays);
    kv_free(c->sums);
    c->sums = NULL;
}

int clip_norm_begin(clip_norm *c, const kv *store, const kv_pairs *values, kv_err *e)
{
    bool fine = true;
    *c = (clip_norm){.pairs = *values};
    if (!clip_norm_wanted(store))
        return KV_OK;
    int rc = clip_norm_check(store, e);
    if (!rc && store->compression.code)
        rc = kv_err_set(e, KV_E_UNSUPPORTED,
                        "clip_global_norm and gradient compression do not go together");
    if (rc)
        return rc;
    c->ntaken = values->n;
    c->keys = mem_alloc(values->n, sizeof *c->keys, e);
    c->arrays = c->keys ? mem_zalloc(values->n, sizeof *c->arrays, e) : NULL;
    rc = c->arrays ? collect(c, store, values, &fine, e) : KV_E_MEMORY;
    const char *type = store->follows_gpus ? "device" : "local";
    const kv_pairs pushed = {c->keys, c->arrays, values->n};
    if (!rc && fine && !(rc = kv_create(type, NULL, 0, &c->sums, e)) &&
        !(rc = c->sums->ops->push(c->sums->self, &pushed, NULL, e)) && !(rc = kv_wait(c->sums, e)))
        rc = scale(c, store->updater.optimizer, e);
    if (rc || !fine) {
        clip_norm_end(c);
        *c = (clip_norm){.pairs = *values};
    }
    return rc;
}
