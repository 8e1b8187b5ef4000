/* The two passes of a direct call. */
#include "core/call_direct.h"

#include "array/device.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/store.h"
#include "engine/trace.h"

enum {
    SMALL_ARRAY = 512, /* bytes */
    AHEAD = 16         /* pairs: memory is asked for so long before it is needed */
};

/* A key of the call, and its pairs, which stand side by side. */
typedef struct direct_key {
    void *stored;   /* the elements of the stored array */
    int64_t number; /* of the slot */
    int32_t size;   /* elements */
    int32_t n;      /* pairs */
    kv_dtype dtype;
} direct_key;

typedef struct direct {
    kv *store;
    const kv_pairs *pairs;
    bool pulls;
    direct_key *keys;
    int64_t nkeys;
    void **data;
} direct;

/* ---- The first pass ---- */

/* Keys mostly come in the order of their slots, so the slots that follow are the likely ones. */
static void look_ahead(const direct *d, int64_t i, int64_t number)
{
    const slot_table *t = &d->store->slots;
    if (i + AHEAD < d->pairs->n)
        __builtin_prefetch(d->pairs->arrays[i + AHEAD]);
    if (number + AHEAD < t->n)
        __builtin_prefetch(t->items[number + AHEAD].stored);
}

/* Returns true if the elements of an array can be read or written here and now. */
static bool is_ready(kv_array *a, bool write)
{
    return a->storage == KV_DEFAULT && a->ctx.device == KV_CPU &&
           engine_is_unused(array_var(a), write);
}

/* Returns true if a stored array can be, and is small. A push replaces one with other holders. */
static bool fits(const direct *d, kv_array *stored)
{
    return is_ready(stored, !d->pulls) && (d->pulls || kv_array_refs(stored) == 1) &&
           stored->size * kv_dtype_bytes((kv_dtype)stored->dtype) <= SMALL_ARRAY;
}

/* Fills in the key of pair i, whose slot is probably number `guess`. Returns its stored array, or
 * NULL if the call must be an operation. The values of a key must stand side by side in a push,
 * which they do if the ranks of keys ascend. */
static const kv_array *list_key(const direct *d, int64_t i, int64_t guess, direct_key *k)
{
    const slot_table *t = &d->store->slots;
    const kv_key *key = &d->pairs->keys[i];
    int64_t number = slot_find(t, key, guess);
    if (number < 0 || !fits(d, t->items[number].stored))
        return NULL;
    if (!d->pulls && i > 0 && (key->name ? number < guess : key->id <= key[-1].id))
        return NULL;
    const kv_array *stored = t->items[number].stored;
    *k = (direct_key){.stored = stored->data,
                      .number = number,
                      .size = (int32_t)stored->size,
                      .dtype = (kv_dtype)stored->dtype};
    return stored;
}

/* Lists all pairs. Returns false if the call must be an operation. */
static bool list_pairs(direct *d)
{
    const kv_key *keys = d->pairs->keys;
    const kv_array *stored = NULL;
    direct_key *k = d->keys;
    int64_t guess = 0;
    for (int64_t i = 0; i < d->pairs->n; i++) {
        kv_array *a = d->pairs->arrays[i];
        look_ahead(d, i, guess);
        if (i == 0 || !map_same_key(&keys[i], &keys[i - 1])) {
            k += i > 0;
            if (!(stored = list_key(d, i, guess, k)))
                return false;
            guess = k->number + 1;
        }
        if (!is_ready(a, d->pulls) || a->dtype != stored->dtype || !array_same_shape(a, stored))
            return false;
        d->data[i] = a->data;
        k->n++;
    }
    d->nkeys = d->pairs->n > 0 ? k + 1 - d->keys : 0;
    return true;
}

/* ---- The second pass ---- */

static void push_key(direct *d, const direct_key *k, void *const *data)
{
    const void *const *values = (const void *const *)data;
    if (k->n == 1)
        convert_elements(k->stored, k->dtype, values[0], k->dtype, k->size);
    else
        sum_elements(k->stored, values, k->n, k->dtype, k->size);
    d->store->slots.items[k->number].pushes++;
}

static void pull_key(const direct_key *k, void *const *data)
{
    for (int32_t j = 0; j < k->n; j++)
        convert_elements(data[j], k->dtype, k->stored, k->dtype, k->size);
}

static void run_keys(direct *d)
{
    void **data = d->data, **end = data + d->pairs->n;
    for (int64_t i = 0; i < d->nkeys; i++) {
        const direct_key *k = &d->keys[i];
        if (i + AHEAD < d->nkeys)
            __builtin_prefetch(k[AHEAD].stored, 1);
        for (int32_t j = 0; j < k->n && data + j + AHEAD < end; j++)
            __builtin_prefetch(data[j + AHEAD], 1);
        if (d->pulls)
            pull_key(k, data);
        else
            push_key(d, k, data);
        data += k->n;
    }
    kv_assert(data == end, "a call of %lld pairs worked on %lld", (long long)d->pairs->n,
              (long long)(data - d->data));
}

static int run(kv *store, const kv_pairs *pairs, bool pulls, bool *did, kv_err *e)
{
    direct_lists *lists = &store->direct;
    int rc = mem_grow(&lists->keys, &lists->keys_cap, pairs->n, sizeof *lists->keys, e);
    if (rc || (rc = mem_grow(&lists->data, &lists->data_cap, pairs->n, sizeof *lists->data, e)))
        return rc;
    direct d = {.store = store,
                .pairs = pairs,
                .pulls = pulls,
                .keys = lists->keys,
                .data = lists->data};
    engine_hold();
    *did = list_pairs(&d);
    if (*did)
        run_keys(&d);
    engine_let_go();
    return KV_OK;
}

int call_direct_push(kv *store, const kv_pairs *values, bool *did, kv_err *e)
{
    *did = false;
    if (trace_on() || store->updater.kind != UPDATER_ASSIGN || store->compression.code ||
        store->check_push)
        return KV_OK;
    int rc = run(store, values, false, did, e);
    store->changes += *did;
    return rc;
}

int call_direct_pull(kv *store, const kv_pairs *outs, bool *did, kv_err *e)
{
    *did = false;
    return trace_on() ? KV_OK : run(store, outs, true, did, e);
}

void call_direct_release(direct_lists *lists)
{
    mem_free(lists->keys);
    mem_free(lists->data);
    *lists = (direct_lists){0};
}
