/* The two passes of a direct call. */
#include "core/call_direct.h"

#include "array/device.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/prefetch.h"
#include "core/store.h"
#include "engine/trace.h"

enum {
    SMALL_ARRAY = 512, /* bytes */
    AHEAD = 16         /* pairs: memory is asked for so long before it is needed */
};

/* A key of the call, and its pairs, which stand side by side: 16 bytes, as there may be many. */
typedef struct direct_key {
    void *stored;  /* the elements of the stored array */
    uint32_t n;    /* pairs */
    uint16_t size; /* elements */
    uint8_t dtype; /* a kv_dtype */
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

/* Returns the slot of the key of pair i, which is probably number `guess`, or -1 if the call must
 * be an operation. The values of a key must stand side by side in a push, which they do if the
 * ranks of keys ascend. */
static int64_t find_slot(const direct *d, int64_t i, int64_t guess)
{
    const slot_table *t = &d->store->slots;
    const kv_key *key = &d->pairs->keys[i];
    /* Keys mostly come in the order of their slots, so those that follow are the likely ones. */
    if (guess + AHEAD < t->n)
        prefetch(t->items[guess + AHEAD].stored);
    int64_t number = slot_find(t, key, guess);
    if (number < 0 || !fits(d, t->items[number].stored))
        return -1;
    bool ascends = i == 0 || (key->name ? number >= guess : key[-1].id < key->id);
    return d->pulls || ascends ? number : -1;
}

/* Lists the pairs up to the first that makes the call an operation; returns how many. The pushes of
 * keys are counted here, while their slots are in the caches. */
static int64_t list_pairs(direct *d)
{
    const kv_key *keys = d->pairs->keys;
    const kv_array *stored = NULL;
    int64_t guess = 0, i;
    for (i = 0; i < d->pairs->n; i++) {
        kv_array *a = d->pairs->arrays[i];
        if (i + AHEAD < d->pairs->n)
            prefetch(d->pairs->arrays[i + AHEAD]);
        if (i == 0 || !map_same_key(&keys[i], &keys[i - 1])) {
            int64_t number = find_slot(d, i, guess);
            if (number < 0)
                break;
            slot *s = &d->store->slots.items[number];
            stored = s->stored;
            s->pushes += !d->pulls;
            d->keys[d->nkeys++] = (direct_key){.stored = stored->data,
                                               .size = (uint16_t)stored->size,
                                               .dtype = stored->dtype};
            guess = number + 1;
        }
        if (!is_ready(a, d->pulls) || a->dtype != stored->dtype || !array_same_shape(a, stored))
            break;
        d->data[i] = a->data;
        d->keys[d->nkeys - 1].n++;
    }
    return i;
}

/* Takes back the pushes that list_pairs has counted: those of the first n + 1 pairs. */
static void uncount(const direct *d, int64_t n)
{
    const kv_key *keys = d->pairs->keys;
    int64_t left = d->pulls ? 0 : d->nkeys;
    for (int64_t i = 0; i <= n && left > 0; i++) {
        if (i > 0 && map_same_key(&keys[i], &keys[i - 1]))
            continue;
        int64_t number = slot_find(&d->store->slots, &keys[i], -1);
        d->store->slots.items[number].pushes--;
        left--;
    }
}

/* ---- The second pass ---- */

static void push_key(const direct_key *k, void *const *data)
{
    const void *const *values = (const void *const *)data;
    kv_dtype dtype = (kv_dtype)k->dtype;
    if (k->n == 1)
        convert_elements(k->stored, dtype, values[0], dtype, k->size);
    else
        sum_elements(k->stored, values, k->n, dtype, k->size);
}

static void pull_key(const direct_key *k, void *const *data)
{
    kv_dtype dtype = (kv_dtype)k->dtype;
    for (uint32_t j = 0; j < k->n; j++)
        convert_elements(data[j], dtype, k->stored, dtype, k->size);
}

static void run_keys(const direct *d)
{
    void **data = d->data, **end = data + d->pairs->n;
    for (int64_t i = 0; i < d->nkeys; i++) {
        const direct_key *k = &d->keys[i];
        if (i + AHEAD < d->nkeys)
            prefetch_write(k[AHEAD].stored);
        for (uint32_t j = 0; j < k->n && data + j + AHEAD < end; j++)
            prefetch_write(data[j + AHEAD]);
        if (d->pulls)
            pull_key(k, data);
        else
            push_key(k, data);
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
    int64_t listed = list_pairs(&d);
    *did = listed == pairs->n;
    if (*did)
        run_keys(&d);
    else
        uncount(&d, listed);
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
