/* A direct call: one pass over its keys, and the way back where a pair has no place here. */
#include "core/call_direct.h"

#include <string.h>

#include "array/device.h"
#include "base/compiler.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/store.h"
#include "engine/trace.h"

enum {
    SMALL_ARRAY = 512,    /* bytes */
    AHEAD = 16, NEAR = 4, /* keys or pairs: see look_ahead */
    KEPT_MOST = 16 << 20  /* bytes of old elements for which the memory stays with the store */
};

/* A push, a pull, or each half of a pushpull. */
typedef struct direct {
    kv *store;
    const kv_pairs *pairs;
    bool pulls;
    bool last; /* nothing of the call follows these pairs */
    direct_lists *lists;
    int64_t kept_bytes; /* used of lists->kept */
} direct;

/* ---- Checks ---- */

/* Prefetches the arrays of later keys or pairs. far: its header, and the next line, where a small
 * array of one axis has its elements. near: its elements if they are elsewhere, since the header is
 * there by now. */
static void look_ahead(const kv_array *far, const kv_array *near)
{
    if (!far || !near) /* gaps between slots */
        return;
    prefetch(far);
    prefetch((const char *)far + MEM_ALIGN);
    if ((const char *)near->data != (const char *)near + MEM_ALIGN)
        prefetch(near->data);
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

/* Returns the slot of the key of pair i, which is probably number `guess`, or NULL if the call must
 * be an operation. The values of a key must stand side by side in a push, which they do if the
 * ranks of keys ascend. */
static slot *find_slot(const direct *d, int64_t i, int64_t guess)
{
    const slot_table *t = &d->store->slots;
    const kv_key *key = &d->pairs->keys[i];
    /* Keys mostly come in the order of their slots, so those that follow are the likely ones. */
    if (guess + AHEAD < t->n)
        look_ahead(t->items[guess + AHEAD].stored, t->items[guess + NEAR].stored);
    int64_t number = slot_find(t, key, guess);
    if (number < 0 || !fits(d, t->items[number].stored))
        return NULL;
    bool ascends = i == 0 || (key->name ? number >= guess : key[-1].id < key->id);
    return d->pulls || ascends ? &t->items[number] : NULL;
}

/* Lists the elements of the pairs of one key, the first of which is pair i. Returns how many pairs
 * these are, or 0 if one of them makes the call an operation. */
static int64_t list_pairs(const direct *d, int64_t i, const kv_array *stored)
{
    kv_array *const *arrays = d->pairs->arrays + i;
    const kv_key *keys = d->pairs->keys + i;
    int64_t n = 0, left = d->pairs->n - i;
    do {
        kv_array *a = arrays[n];
        if (n + AHEAD < left)
            look_ahead(arrays[n + AHEAD], arrays[n + NEAR]);
        if (!is_ready(a, d->pulls) || a->dtype != stored->dtype || !array_same_shape(a, stored))
            return 0;
        d->lists->data[n++] = a->data;
    } while (n < left && map_same_key(&keys[n], keys));
    return n;
}

/* ---- Work on a key ---- */

/* Keeps the elements that the work on a key will change. Error: memory. */
static int keep(direct *d, void *const *data, int64_t n, int64_t bytes, kv_err *e)
{
    direct_lists *lists = d->lists;
    int64_t room = d->kept_bytes + n * bytes + 1; /* keys without elements have some, too */
    int rc = mem_grow(&lists->kept, &lists->kept_cap, room, 1, e);
    for (int64_t j = 0; !rc && j < n; j++, d->kept_bytes += bytes)
        memcpy(lists->kept + d->kept_bytes, data[j], (size_t)bytes);
    return rc;
}

static void push_key(const direct *d, slot *s, int64_t n)
{
    kv_array *to = s->stored;
    sum_elements(to->data, (const void *const *)d->lists->data, n, (kv_dtype)to->dtype, to->size);
    s->pushes++;
}

static void pull_key(const direct *d, const slot *s, int64_t n)
{
    kv_dtype dtype = (kv_dtype)s->stored->dtype;
    for (int64_t j = 0; j < n; j++)
        convert_elements(d->lists->data[j], dtype, s->stored->data, dtype, s->stored->size);
}

/* Checks and does the pairs of one key, from pair i on. Returns how many they are, or 0 with none
 * of them done: the call must be an operation, or *rc is an error. */
static int64_t run_key(direct *d, int64_t i, int64_t *guess, int *rc, kv_err *e)
{
    slot *s = find_slot(d, i, *guess);
    int64_t n = s ? list_pairs(d, i, s->stored) : 0;
    if (n == 0)
        return 0;
    if (!d->last || i + n < d->pairs->n) { /* behind the last key nothing can stop the call */
        int64_t bytes = kv_array_bytes(s->stored);
        *rc = d->pulls ? keep(d, d->lists->data, n, bytes, e)
                       : keep(d, &s->stored->data, 1, bytes, e);
        if (*rc)
            return 0;
    }
    if (d->pulls)
        pull_key(d, s, n);
    else
        push_key(d, s, n);
    *guess = s - d->store->slots.items + 1;
    return n;
}

/* Takes back what was done for the first n pairs, the last first: an array may be in several. */
static void undo(direct *d, int64_t n)
{
    const kv_key *keys = d->pairs->keys;
    for (int64_t i = n - 1; i >= 0; i--) {
        kv_array *a = d->pairs->arrays[i];
        if (!d->pulls) {
            if (i > 0 && map_same_key(&keys[i], &keys[i - 1]))
                continue;
            slot *s = &d->store->slots.items[slot_find(&d->store->slots, &keys[i], -1)];
            s->pushes--;
            a = s->stored;
        }
        d->kept_bytes -= kv_array_bytes(a);
        memcpy(a->data, d->lists->kept + d->kept_bytes, (size_t)kv_array_bytes(a));
    }
}

/* Does the pairs, or takes all back from where it has come and returns false. */
static bool run_pairs(direct *d, const kv_pairs *pairs, bool pulls, bool last, int *rc, kv_err *e)
{
    int64_t done = 0, guess = 0, n;
    d->pairs = pairs;
    d->pulls = pulls;
    d->last = last;
    *rc = mem_grow(&d->lists->data, &d->lists->data_cap, pairs->n, sizeof *d->lists->data, e);
    while (!*rc && done < pairs->n && (n = run_key(d, done, &guess, rc, e)) > 0)
        done += n;
    if (!*rc && done == pairs->n)
        return true;
    undo(d, done);
    return false;
}

/* values or outs: NULL where the call has none. */
static int run(kv *store, const kv_pairs *values, const kv_pairs *outs, bool *did, kv_err *e)
{
    direct_lists *lists = &store->direct;
    direct d = {.store = store, .lists = lists};
    int rc = KV_OK;
    engine_hold();
    *did = !values || run_pairs(&d, values, false, !outs, &rc, e);
    if (*did && outs)
        *did = run_pairs(&d, outs, true, true, &rc, e);
    if (!*did && values && d.pulls) { /* the first half was done */
        d.pairs = values;
        d.pulls = false;
        undo(&d, values->n);
    }
    kv_assert(*did || d.kept_bytes == 0, "%lld bytes were not restored", (long long)d.kept_bytes);
    engine_let_go();
    if (lists->kept_cap > KEPT_MOST)
        mem_shrink(&lists->kept, &lists->kept_cap, KEPT_MOST, 1);
    return rc;
}

/* Returns true if a push only stores the sums of its values. */
static bool only_sums(const kv *store)
{
    return !trace_on() && store->updater.kind == UPDATER_ASSIGN && !store->compression.code &&
           !store->check_push;
}

int call_direct_push(kv *store, const kv_pairs *values, bool *did, kv_err *e)
{
    *did = false;
    int rc = only_sums(store) ? run(store, values, NULL, did, e) : KV_OK;
    store->changes += *did;
    return rc;
}

int call_direct_pull(kv *store, const kv_pairs *outs, bool *did, kv_err *e)
{
    *did = false;
    return trace_on() ? KV_OK : run(store, NULL, outs, did, e);
}

/* Two passes and not one: an array may be a value of one key and an out of another. */
int call_direct_pushpull(kv *store, const kv_pairs *values, const kv_pairs *outs, bool *did,
                         kv_err *e)
{
    *did = false;
    int rc = only_sums(store) ? run(store, values, outs, did, e) : KV_OK;
    store->changes += *did;
    return rc;
}

void call_direct_release(direct_lists *lists)
{
    mem_free(lists->data);
    mem_free(lists->kept);
    *lists = (direct_lists){0};
}
