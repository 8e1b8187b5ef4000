/* The pass that checks all pairs, and the batches. The check reads each pair but keeps nothing of
 * it: a batch finds it again while it has the headers in the caches, which is quicker. */
#include "core/call_batch.h"

#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/call_gpu.h"
#include "core/store.h"
#include "engine/trace.h"

enum {
    FEWEST = 2048,    /* pairs of a call: the headers of fewer stay in the caches */
    BATCH = 512,      /* pairs: with arrays of a few cache lines, small beside an L2 cache */
    SMALL_ARRAY = 512 /* bytes; of larger ones the elements cost more than the headers */
};

/* A call that is run in batches. A push changes what is stored, and its pairs stand in the order of
 * updates; a pull changes the arrays, of which none stands there twice. */
typedef struct batches {
    kv *store;
    const call_ops *ops;
    const kv_pairs *pairs;
    bool in_place;                 /* a push that changes the arrays as well */
    call *calls[POOL_MAX_WORKERS]; /* one a worker */
    bool *late;                    /* batches that found an array busy */
} batches;

/* ---- The check ---- */

typedef struct checker {
    const batches *b;
    int64_t guess;  /* the number that the next key may have */
    int64_t number; /* the slot of the pair before, or -1 */
    int64_t rank;   /* the place of that slot in the order of updates */
    int64_t values; /* the number of values that its key has had so far */
} checker;

static void look_ahead(const checker *k, int64_t i)
{
    const batches *b = k->b;
    const slot_table *t = &b->store->slots;
    if (i + 2 * CALL_AHEAD < b->pairs->n)
        call_prefetch(b->pairs->arrays[i + 2 * CALL_AHEAD]);
    if (k->guess + CALL_AHEAD < t->n)
        call_prefetch(t->items[k->guess + CALL_AHEAD].stored);
}

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
    look_ahead(k, i);
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

/* ---- Batches ---- */

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

/* Waits for its turn. A thread that waits takes other parts meanwhile, so no part may do so. */
static void run_late(const batches *b, call *c, int64_t part)
{
    prepare_batch(b, c, part);
    engine_begin_now(&c->op);
    b->ops->run_batch(c);
    engine_finish(&c->op);
}

static int begin_worker(const batches *b, call **c, kv_err *e)
{
    const kv_pairs most = {b->pairs->keys, b->pairs->arrays, BATCH + BATCH_VALUES};
    int rc = call_new(c, b->store, b->ops, &most, e);
    if (rc || (rc = call_reserve_batch(*c, e)))
        return rc;
    return b->ops->begin_batches ? b->ops->begin_batches(*c, e) : KV_OK;
}

static void end_workers(const batches *b)
{
    for (int i = 0; i < POOL_MAX_WORKERS && b->calls[i]; i++) {
        if (b->ops->end_batches)
            b->ops->end_batches(b->calls[i]);
        call_end(b->calls[i]);
    }
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
        if (b.late[i])
            run_late(&b, b.calls[0], i);
    end_workers(&b);
    mem_free(b.late);
    store->changes += !rc && ops->commit;
    return rc;
}
