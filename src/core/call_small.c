/* A direct call is one pass over its keys, and the way back where a pair has no place here.
 *
 * Batches follow a pass that checks all pairs. The check reads each pair but keeps nothing of it: a
 * batch finds it again while it has the headers in the caches, which is quicker. */
#include "core/call.h"

#include <string.h>

#include "array/device.h"
#include "base/compiler.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/store.h"
#include "engine/trace.h"

/* Bytes; of larger arrays the elements cost more than the headers. */
enum { SMALL_ARRAY = 512 };

enum {
    AHEAD = 16, NEAR = 4, /* keys or pairs: see prefetch_arrays */
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

/* ---- Direct calls ---- */

/* Prefetches the arrays of later keys or pairs. far: its header, and the next line, where a small
 * array of one axis has its elements. near: its elements if they are elsewhere, since the header is
 * there by now. */
static void prefetch_arrays(const kv_array *far, const kv_array *near)
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
        prefetch_arrays(t->items[guess + AHEAD].stored, t->items[guess + NEAR].stored);
    int64_t number = slot_find(t, key, guess);
    if (number < 0 || !fits(d, t->items[number].stored))
        return NULL;
    bool ascends = i == 0 || (key->name ? number >= guess : key[-1].id < key->id);
    return d->pulls || ascends ? &t->items[number] : NULL;
}

/* Lists the elements of the pairs of one key; its first pair is i. Returns how many pairs
 * these are, or 0 if one of them makes the call an operation. */
static int64_t list_pairs(const direct *d, int64_t i, const kv_array *stored)
{
    kv_array *const *arrays = d->pairs->arrays + i;
    const kv_key *keys = d->pairs->keys + i;
    int64_t n = 0, left = d->pairs->n - i;
    do {
        kv_array *a = arrays[n];
        if (n + AHEAD < left)
            prefetch_arrays(arrays[n + AHEAD], arrays[n + NEAR]);
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
    TRY(mem_grow(&lists->kept, &lists->kept_cap, room, 1, e));
    for (int64_t j = 0; j < n; j++, d->kept_bytes += bytes)
        memcpy(lists->kept + d->kept_bytes, data[j], (size_t)bytes);
    return KV_OK;
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
    if (d->pulls) {
        kv_dtype dtype = (kv_dtype)s->stored->dtype;
        for (int64_t j = 0; j < n; j++)
            convert_elements(d->lists->data[j], dtype, s->stored->data, dtype, s->stored->size);
    } else {
        kv_array *to = s->stored;
        sum_elements(to->data, (const void *const *)d->lists->data, n, (kv_dtype)to->dtype,
                     to->size);
        s->pushes++;
    }
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

/* The two halves are two passes: an array may be a value of one key and an out of another. */
static int run_direct(kv *store, const kv_pairs *values, const kv_pairs *outs, bool *did, kv_err *e)
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
    return store->updater.kind == UPDATER_ASSIGN && !store->compression.code && !store->check_push;
}

int call_direct(kv *store, const kv_pairs *values, const kv_pairs *outs, bool *did, kv_err *e)
{
    *did = false;
    if (trace_on() || (values && !only_sums(store)))
        return KV_OK;
    int rc = run_direct(store, values, outs, did, e);
    store->changes += values && *did;
    return rc;
}

void call_direct_release(direct_lists *lists)
{
    mem_free(lists->data);
    mem_free(lists->kept);
    *lists = (direct_lists){0};
}

/* ---- Batches ---- */

enum {
    FEWEST = 2048, /* pairs of a call: the headers of fewer stay in the caches */
    BATCH = 512    /* pairs: with arrays of a few cache lines, small beside an L2 cache */
};

/* A call that is run in batches. A push changes what is stored, and its pairs stand in the order of
 * updates; a pull changes the arrays, and none of them stands there twice. */
typedef struct batches {
    kv *store;
    const call_ops *ops;
    const kv_pairs *pairs;
    bool in_place;                 /* a push that changes the arrays as well */
    call *calls[POOL_MAX_WORKERS]; /* one a worker */
    bool *late;                    /* batches that found an array busy */
} batches;

/* ---- Batches: the check ---- */

typedef struct checker {
    const batches *b;
    int64_t guess;  /* the number that the next key may have */
    int64_t number; /* the slot of the pair before, or -1 */
    int64_t rank;   /* the place of that slot in the order of updates */
    int64_t values; /* the number of values that its key has had so far */
} checker;

/* Returns true if a pair of this slot and rank may follow the one before it. */
static bool in_order(checker *k, int64_t number, int64_t rank)
{
    bool same = number == k->number;
    bool ordered = !k->b->ops->commit || same || k->number < 0 || k->rank < rank;
    k->values = same ? k->values + 1 : 1;
    k->number = number;
    k->rank = rank;
    return ordered && k->values <= BATCH_VALUES;
}

static bool is_small(const slot *s, const kv_array *a)
{
    return s->stored->storage == KV_DEFAULT && a->storage == KV_DEFAULT &&
           !call_is_on_gpu(s->stored) && !call_is_on_gpu(a) &&
           kv_array_same_shape(s->stored, a) && kv_array_bytes(s->stored) <= SMALL_ARRAY;
}

/* The uses of the i-th pair, or -1 where it does not fit. */
static int check_pair(void *arg, int64_t i, engine_use uses[2])
{
    checker *k = arg;
    const batches *b = k->b;
    const kv_key *key = &b->pairs->keys[i];
    kv_array *a = b->pairs->arrays[i];
    const slot_table *t = &b->store->slots;
    if (i + 2 * CALL_AHEAD < b->pairs->n)
        call_prefetch(b->pairs->arrays[i + 2 * CALL_AHEAD]);
    if (k->guess + CALL_AHEAD < t->n)
        call_prefetch(t->items[k->guess + CALL_AHEAD].stored);
    int64_t before = k->number, number = slot_find(&b->store->slots, key, k->guess);
    if (number < 0 || !in_order(k, number, key->name ? number : key->id))
        return -1;
    const slot *s = &b->store->slots.items[number];
    k->guess = number + 1;
    if (!is_small(s, a) || (b->ops->fits && !b->ops->fits(b->store, s, a)))
        return -1;
    uses[0] = (engine_use){.var = array_var(a), .write = !b->ops->commit || b->in_place};
    uses[1] = (engine_use){.var = array_var(s->stored), .write = b->ops->commit != NULL};
    return number == before ? 1 : 2;
}

static bool may_batch(const batches *b)
{
    checker k = {.b = b, .number = -1};
    return engine_idle(b->pairs->n, check_pair, &k);
}

/* ---- Batches: the work ---- */

/* The first pair of batch number `part`, which is the first pair of a key. */
static int64_t begin_of(const kv_pairs *p, int64_t part)
{
    int64_t i = part * BATCH;
    while (i > 0 && i < p->n && map_same_key(&p->keys[i], &p->keys[i - 1]))
        i++;
    return i < p->n ? i : p->n;
}

static void prepare_batch(const batches *b, call *c, int64_t part)
{
    const kv_pairs *all = b->pairs;
    int64_t from = begin_of(all, part), to = begin_of(all, part + 1);
    const kv_pairs some = {all->keys + from, all->arrays + from, to - from};
    kv_assert(to >= from && to - from < BATCH + BATCH_VALUES,
              "batch %lld has the pairs %lld to %lld, more than begin_worker makes room for",
              (long long)part, (long long)from, (long long)to);
    call_next(c, &some);
    c->results = b->in_place ? &some : NULL;
    if (to > from)
        b->ops->prepare_batch(c);
    c->ncuts = 1;
    kv_assert(c->nvalues == to - from, "of %lld pairs of a batch %lld are prepared",
              (long long)(to - from), (long long)c->nvalues);
    c->cuts[1] = (call_cut){c->ngroups, 0};
}

static void run_batch(void *arg, int64_t part, int worker)
{
    const batches *b = arg;
    call *c = b->calls[worker];
    prepare_batch(b, c, part);
    b->late[part] = !engine_try(&c->op);
    if (b->late[part])
        return;
    b->ops->run_batch(c);
    engine_finish(&c->op);
}

static int begin_worker(const batches *b, call **c, kv_err *e)
{
    const kv_pairs most = {b->pairs->keys, b->pairs->arrays, BATCH + BATCH_VALUES};
    TRY(call_new(c, b->store, b->ops, &most, e));
    TRY(call_reserve_batch(*c, e));
    return b->ops->begin_batches ? b->ops->begin_batches(*c, e) : KV_OK;
}

int call_in_batches(kv *store, const call_ops *ops, const kv_pairs *pairs, bool in_place, bool *did,
                    kv_err *e)
{
    *did = false;
    if (pairs->n < FEWEST || trace_on())
        return KV_OK;
    batches b = {.store = store, .ops = ops, .pairs = pairs, .in_place = in_place};
    int64_t parts = (pairs->n + BATCH - 1) / BATCH;
    *did = may_batch(&b);
    if (!*did)
        return KV_OK;
    b.late = mem_zalloc(parts, sizeof *b.late, e);
    int rc = b.late ? KV_OK : KV_E_MEMORY;
    for (int i = 0; i < pool_workers() && !rc; i++)
        rc = begin_worker(&b, &b.calls[i], e);
    if (!rc)
        pool_run(parts, run_batch, &b);
    for (int64_t i = 0; i < parts && !rc; i++)
        if (b.late[i]) {
            /* A thread that waits for its turn takes other parts meanwhile, so no part may wait. */
            prepare_batch(&b, b.calls[0], i);
            engine_begin_now(&b.calls[0]->op);
            b.ops->run_batch(b.calls[0]);
            engine_finish(&b.calls[0]->op);
        }
    for (int i = 0; i < POOL_MAX_WORKERS && b.calls[i]; i++) {
        if (b.ops->end_batches)
            b.ops->end_batches(b.calls[i]);
        call_end(b.calls[i]);
    }
    mem_free(b.late);
    store->changes += !rc && ops->commit;
    return rc;
}
