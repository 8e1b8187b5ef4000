/* The pass that checks all pairs, and the batches. The check reads of each pair only what says
 * whether it fits: what a batch needs it finds again while it has the headers in the caches. */
#include "core/call_batch.h"

#include "base/mem.h"
#include "core/call_gpu.h"
#include "engine/trace.h"

enum {
    BATCH = 512,      /* pairs: with arrays of a few cache lines, small beside an L2 cache */
    SMALL_ARRAY = 512 /* bytes; of larger ones the elements cost more than the headers */
};

typedef struct running {
    const call_batches *b;
    call *calls[POOL_MAX_WORKERS]; /* one a worker */
    bool *late;                    /* batches that found an array busy */
} running;

/* ---- The check ---- */

typedef struct checker {
    const call_batches *b;
    int64_t guess;  /* the number that the next key may have */
    int64_t number; /* of the pair before, */
    int64_t rank;   /* its place in the order of updates, */
    int64_t values; /* and how many its key had */
} checker;

static void look_ahead(const checker *k, int64_t i)
{
    const call_batches *b = k->b;
    const slot_table *t = b->table;
    if (i + 2 * CALL_AHEAD < b->n)
        call_prefetch(b->arrays[i + 2 * CALL_AHEAD]);
    if (k->guess + CALL_AHEAD < t->n)
        call_prefetch(t->items[k->guess + CALL_AHEAD].stored);
}

/* Whether the pair of this number and rank may stand behind the one before. */
static bool in_order(checker *k, int64_t number, int64_t rank)
{
    bool same = number == k->number;
    bool ordered = !k->b->changes_stored || same || k->number < 0 || k->rank < rank;
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
    const call_batches *b = k->b;
    const kv_key *key = &b->keys[i];
    kv_array *a = b->arrays[i];
    look_ahead(k, i);
    int64_t before = k->number, number = slot_find(b->table, key, k->guess);
    if (number < 0 || !in_order(k, number, key->name ? number : key->id))
        return -1;
    const slot *s = &b->table->items[number];
    k->guess = number + 1;
    if (!is_small(s, a) || (b->fits && !b->fits(b, s, a)))
        return -1;
    uses[0] = (engine_use){.var = array_var(a), .write = b->changes_arrays};
    uses[1] = (engine_use){.var = array_var(s->stored), .write = b->changes_stored};
    return number == before ? 1 : 2;
}

static bool may_batch(const call_batches *b)
{
    checker k = {.b = b, .number = -1};
    return b->n >= BATCH_FEWEST && !trace_on() && engine_idle(b->n, check_pair, &k);
}

/* ---- Batches ---- */

/* Where batch number `part` begins: where a key does. */
static int64_t begin_of(const call_batches *b, int64_t part)
{
    int64_t i = part * BATCH;
    while (i > 0 && i < b->n && map_same_key(&b->keys[i], &b->keys[i - 1]))
        i++;
    return i < b->n ? i : b->n;
}

static void group_batch(const running *r, call *c, int64_t part)
{
    int64_t from = begin_of(r->b, part), to = begin_of(r->b, part + 1);
    call_next(c, r->b->arrays + from, to - from);
    if (to > from)
        r->b->group(r->b, c, r->b->keys + from);
    c->ncuts = 1;
    c->cuts[1] = (call_cut){c->ngroups, 0};
}

static void run_batch(void *arg, int64_t part, int worker)
{
    const running *r = arg;
    call *c = r->calls[worker];
    group_batch(r, c, part);
    r->late[part] = !engine_try(&c->op);
    if (r->late[part])
        return;
    r->b->run(r->b, c);
    engine_finish(&c->op);
}

/* Waits for its turn. A thread that waits takes other parts meanwhile, so no part may do so. */
static void run_late(const running *r, call *c, int64_t part)
{
    group_batch(r, c, part);
    engine_begin_now(&c->op);
    r->b->run(r->b, c);
    engine_finish(&c->op);
}

static int begin_worker(running *r, call **c, kv_err *e)
{
    const call_batches *b = r->b;
    int rc = call_new(c, b->pool, "batch", b->table, b->arrays, BATCH + BATCH_VALUES, e);
    if (rc || (rc = call_reserve_batch(*c, e)))
        return rc;
    return b->begin ? b->begin(b, *c, e) : KV_OK;
}

static void end_workers(const running *r)
{
    for (int i = 0; i < POOL_MAX_WORKERS && r->calls[i]; i++) {
        if (r->b->end)
            r->b->end(r->b, r->calls[i]);
        call_end(r->calls[i]);
    }
}

int call_in_batches(const call_batches *b, bool *did, kv_err *e)
{
    running r = {.b = b};
    int64_t parts = (b->n + BATCH - 1) / BATCH;
    *did = may_batch(b);
    if (!*did)
        return KV_OK;
    r.late = mem_zalloc(parts, sizeof *r.late, e);
    int rc = r.late ? KV_OK : KV_E_MEMORY;
    for (int i = 0; i < pool_workers() && !rc; i++)
        rc = begin_worker(&r, &r.calls[i], e);
    if (!rc)
        pool_run(parts, run_batch, &r);
    for (int64_t i = 0; i < parts && !rc; i++)
        if (r.late[i])
            run_late(&r, r.calls[0], i);
    end_workers(&r);
    mem_free(r.late);
    return rc;
}
