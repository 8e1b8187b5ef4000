/* The types local and device: the store is in this process, and sums happen where it keeps its
 * arrays.
 *
 * local keeps every array on cpu(0). device begins there too; the first push whose first value lies
 * on a GPU moves the key to that GPU, where it stays. A push reads the values straight from the
 * caller's arrays and never keeps one of them: the stored array is always the store's own.
 */
#include "local/local.h"

#include "array/sparse.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/call_batch.h"
#include "core/call_gpu.h"
#include "core/call_outs.h"
#include "core/call_trace.h"
#include "core/row_pull.h"
#include "core/store.h"

int local_open(const local *as, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    if (nopts)
        return kv_err_set(e, KV_E_USAGE, "the type \"%s\" has no option \"%.64s\"",
                          as->store->type, opts[0].name);
    local *l = mem_alloc(1, sizeof *l, e);
    if (!l)
        return KV_E_MEMORY;
    *l = *as;
    l->store->in_slots = true;
    *self = l;
    return KV_OK;
}

void local_close(void *self)
{
    mem_free(self);
}

static int open_local(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    return local_open(&(local){.store = store}, opts, nopts, self, e);
}

static int open_device(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    store->compresses = true; /* only device has values in several contexts */
    return local_open(&(local){.store = store, .moves = true}, opts, nopts, self, e);
}

/* ---- init ---- */

static int init_key(slot_table *t, int64_t old_n, const kv_key *key, kv_array *value,
                    bool compressed, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    int64_t number = slot_find(t, key, -1);
    int rc = slot_check_kind(t, key, e);
    if (rc == KV_OK && compressed)
        rc = compression_check(key, value, e);
    if (rc)
        return rc;
    if (number >= 0) {
        kv_err_set(e, KV_E_KEY,
                   number < old_n ? "key %s is initialised already"
                                  : "key %s stands twice in the call",
                   slot_key_text(text, key));
        kv_err_key(e, key);
        return KV_E_KEY;
    }
    kv_array *stored = NULL;
    rc = kv_array_dup(&stored, value, kv_array_dtype(value), (kv_ctx){KV_CPU, 0}, e);
    if (rc == KV_OK && (rc = slot_add(t, key, stored, e)))
        kv_array_unref(stored);
    return rc;
}

int local_init(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
               const kv_call *how, kv_err *e)
{
    kv *s = ((local *)self)->store;
    slot_table *t = &s->slots;
    int64_t old_n = t->n;
    uint64_t op = trace_on() ? trace_number() : 0;
    int64_t begin = op ? trace_now() : 0;
    (void)how;
    int rc = slot_reserve(t, n, e);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        if ((rc = init_key(t, old_n, &keys[i], values[i], s->compression.code, e))) {
            slot_truncate(t, old_n);
            return rc;
        }
    }
    s->changes++;
    if (op)
        call_trace_alone(op, begin, "init", keys, n);
    return KV_OK;
}

/* ---- push ---- */

/* What a push may give back, as far as it does so in the same pass. */
typedef struct push_outs {
    const kv_key *keys;
    kv_array *const *items;
    int64_t n;
    bool in_place; /* they are the values */
} push_outs;

/* Everything that can fail, but a C callback. */
static int prepare(const local *l, call *c, const kv_key *keys, const push_outs *outs, int flags,
                   kv_err *e)
{
    kv *s = l->store;
    if (outs && s->updater.kind != UPDATER_CALLBACK && !s->compression.code)
        call_expect_outs(c, outs->n);
    int rc = call_group_pairs(c, keys, flags, e);
    if (!rc && l->check)
        rc = l->check(c, e);
    c->together = l->together;
    if (!rc && outs)
        call_take_outs(c, outs->keys, outs->items, outs->in_place);
    if (!rc)
        rc = compress_prepare(&s->compression, s->updater.kind == UPDATER_ASSIGN, c, e);
    return rc ? rc : updater_prepare(&s->updater, c, &s->callbacks, e);
}

static int run_push(call *c, kv_err *e)
{
    bool all = false;
    int rc = c->gpus ? call_gpu_push(c, &all, e) : KV_OK;
    if (rc || all)
        return rc ? rc : updater_end(c, e);
    if (c->compress.state)
        compress_whole(c);
    return updater_run(c, e);
}

/* Makes a call of a push that can no longer fail. */
static int new_push_call(call **out, const local *l, const kv_key *keys, int64_t n,
                         kv_array *const *values, const push_outs *outs, kv_err *e)
{
    kv *s = l->store;
    call *c;
    int flags = s->updater.kind == UPDATER_ASSIGN ? CALL_CREATE : CALL_UPDATE;
    if (l->moves)
        flags |= CALL_FOLLOW_GPU;
    int rc = call_new(&c, &s->calls, outs ? "pushpull" : "push", &s->slots, values, n, e);
    if (rc)
        return rc;
    *out = c;
    if ((rc = prepare(l, c, keys, outs, flags, e)))
        call_abort(c);
    return rc;
}

static int start_push(kv *s, call *c, const kv_call *how, kv_err *e)
{
    compress_commit(c);
    bool prints = updater_commit(c, &s->print);
    s->changes++; /* also when a callback refuses: it does so for its own key only */
    return call_run(c, run_push, how, prints, e);
}

/* ---- push of very many small arrays ---- */

static bool push_fits(const call_batches *b, const slot *s, const kv_array *a)
{
    const local *l = b->arg;
    return updater_is_plain(&l->store->updater, s) && kv_array_refs(s->stored) == 1 &&
           !(l->moves && a->ctx.device == KV_GPU);
}

static int begin_push(const call_batches *b, call *c, kv_err *e)
{
    const local *l = b->arg;
    return updater_begin_batches(&l->store->updater, c, BATCH_VALUES, e);
}

static void group_push(const call_batches *b, call *c, const kv_key *keys)
{
    if (b->changes_arrays)
        call_expect_outs(c, c->nvalues);
    call_group_pairs(c, keys, CALL_UPDATE, NULL);
    if (b->changes_arrays)
        call_take_outs(c, NULL, NULL, true);
}

static void run_push_batch(const call_batches *b, call *c)
{
    (void)b;
    updater_run_batch(c);
}

static void end_push(const call_batches *b, call *c)
{
    const local *l = b->arg;
    updater_end_batches(&l->store->updater, c);
}

/* pulls: the values receive what is stored. */
static int push_many(const local *l, const kv_key *keys, int64_t n, kv_array *const *values,
                     bool pulls, bool *did, kv_err *e)
{
    kv *s = l->store;
    call_batches b = {.pool = &s->calls,
                      .table = &s->slots,
                      .keys = keys,
                      .arrays = values,
                      .n = n,
                      .changes_stored = true,
                      .changes_arrays = pulls,
                      .arg = l,
                      .fits = push_fits,
                      .begin = begin_push,
                      .group = group_push,
                      .run = run_push_batch,
                      .end = end_push};
    *did = false;
    int rc = s->compression.code ? KV_OK : call_in_batches(&b, did, e);
    s->changes += *did && !rc;
    return rc;
}

int local_push(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
               const kv_call *how, kv_err *e)
{
    const local *l = self;
    call *c;
    bool did = false;
    int rc = n < BATCH_FEWEST ? KV_OK : push_many(l, keys, n, values, false, &did, e);
    if (rc || did)
        return rc;
    rc = new_push_call(&c, l, keys, n, values, NULL, e);
    return rc ? rc : start_push(l->store, c, how, e);
}

/* ---- pull ---- */

/* Elements that are copied into every out of a key before the next ones: small beside a cache. */
enum { BLOCK = 4096 };

/* One range of one key. */
static void copy_range(call *c, const call_group *g, int64_t from, int64_t n)
{
    apply_outs outs = {c->values + g->first, g->n};
    int64_t block = g->n > 1 ? BLOCK : n;
    for (int64_t i = from, end = from + n; i < end; i += block)
        apply_spread_part(&outs, g->target, i, end - i < block ? end - i : block,
                          call_is_far(c, n));
}

static void copy_whole(call *c, const call_group *g)
{
    for (int64_t j = 0; j < g->n; j++)
        apply_copy(c->values[g->first + j], g->target);
}

/* Asks for what the groups that come next will touch: headers first, then elements. */
static void look_ahead(const call *c, int64_t i, int64_t last)
{
    if (i + 2 * CALL_AHEAD < last) {
        const call_group *g = &c->groups[i + 2 * CALL_AHEAD];
        call_prefetch(g->target);
        for (int64_t j = 0; j < g->n && j < CALL_AHEAD_ARRAYS; j++)
            call_prefetch(c->values[g->first + j]);
    }
    if (i + CALL_AHEAD < last) {
        const call_group *g = &c->groups[i + CALL_AHEAD];
        __builtin_prefetch(g->target->data);
        for (int64_t j = 0; j < g->n && j < CALL_AHEAD_ARRAYS; j++)
            __builtin_prefetch(c->values[g->first + j]->data, 1);
    }
}

static void pull_part(void *arg, int64_t part, int worker)
{
    call *c = arg;
    const call_cut *cut = &c->cuts[part], *end = cut + 1;
    int64_t last = end->item + (end->from > 0), from = cut->from;
    (void)worker;
    for (int64_t i = cut->item; i < last; i++, from = 0) {
        const call_group *g = &c->groups[i];
        int64_t n = (i == end->item ? end->from : g->target->size) - from;
        if (g->share == CALL_ON_GPU)
            continue;
        look_ahead(c, i, last);
        int64_t begin = call_trace_begin(c);
        if (g->share == CALL_SPLIT)
            copy_range(c, g, from, n);
        else
            copy_whole(c, g);
        call_trace_part(c, begin, "copy", &g->key, c->values[g->first], from, n);
    }
    if (!c->op.repeats)
        call_end_groups(c, cut->item, last);
}

/* An array that several pairs write holds the last of them. */
static int run_pull(call *c, kv_err *e)
{
    bool all = false;
    int rc = c->gpus ? call_gpu_pull(c, &all, e) : KV_OK;
    if (rc || all)
        return rc;
    if (c->op.repeats)
        for (int64_t i = 0; i < c->ncuts; i++)
            pull_part(c, i, 0);
    else
        pool_run(c->ncuts, pull_part, c);
    return KV_OK;
}

/* ---- pull into very many small arrays ---- */

static void group_pull(const call_batches *b, call *c, const kv_key *keys)
{
    (void)b;
    call_find_pairs(c, keys, NULL);
}

static void run_pull_batch(const call_batches *b, call *c)
{
    (void)b;
    pull_part(c, 0, 0);
}

static int pull_many(kv *s, const kv_key *keys, int64_t n, kv_array *const *outs, bool *did,
                     kv_err *e)
{
    call_batches b = {.pool = &s->calls,
                      .table = &s->slots,
                      .keys = keys,
                      .arrays = outs,
                      .n = n,
                      .changes_arrays = true,
                      .group = group_pull,
                      .run = run_pull_batch};
    return call_in_batches(&b, did, e);
}

static int prepare_pull(call *c, const kv_key *keys, kv_err *e)
{
    int rc = call_find_pairs(c, keys, e);
    return rc ? rc : call_cut_work(c, e);
}

/* Pulls into default arrays. */
static int pull_default(const local *l, const kv_key *keys, int64_t n, kv_array *const *outs,
                        const kv_call *how, kv_err *e)
{
    kv *s = l->store;
    call *c;
    int rc = call_new(&c, &s->calls, "pull", &s->slots, outs, n, e);
    if (rc)
        return rc;
    if ((rc = prepare_pull(c, keys, e))) {
        call_end(c);
        return rc;
    }
    c->together = l->together;
    return call_run(c, run_pull, how, false, e);
}

/* Pulls into the default ones among outs. The pairs of the others are right or wrong all the same.
 */
static int pull_some(const local *l, const kv_key *keys, int64_t n, kv_array *const *outs,
                     const kv_call *how, kv_err *e)
{
    kv *s = l->store;
    int64_t number, kept = 0;
    kv_key *some_keys = mem_alloc(n, sizeof *some_keys, e);
    kv_array **some = some_keys ? mem_alloc(n, sizeof *some, e) : NULL;
    int rc = some ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        if (outs[i]->storage == KV_DEFAULT) {
            some_keys[kept] = keys[i];
            some[kept++] = outs[i];
        } else if ((rc = call_find(&s->slots, &keys[i], -1, &number, e)) == KV_OK) {
            rc = call_check_shape(&s->slots.items[number], outs[i], "array", e);
        }
    }
    if (!rc && kept > 0)
        rc = pull_default(l, some_keys, kept, some, how, e);
    mem_free(some);
    mem_free(some_keys);
    return rc;
}

/* Pulls into arrays of any storage. */
static int pull_all(kv *s, const kv_key *keys, int64_t n, kv_array *const *outs, const kv_call *how,
                    kv_err *e)
{
    call *c;
    int rc = call_new(&c, &s->calls, "pull", &s->slots, outs, n, e);
    if (rc)
        return rc;
    if ((rc = call_find_pairs(c, keys, e)) || (rc = row_pull_all(c, e))) {
        call_end(c);
        return rc;
    }
    return call_run(c, row_pull_run, how, false, e);
}

int local_pull(void *self, const kv_key *keys, int64_t n, kv_array *const *outs,
               const kv_call *how, kv_err *e)
{
    const local *l = self;
    kv *s = l->store;
    bool sparse = false, did = false;
    int rc = n < BATCH_FEWEST ? KV_OK : pull_many(s, keys, n, outs, &did, e);
    if (rc || did)
        return rc;
    for (int64_t i = 0; i < n && !sparse; i++) {
        if (i + CALL_AHEAD < n)
            call_prefetch(outs[i + CALL_AHEAD]);
        sparse = outs[i]->storage != KV_DEFAULT;
    }
    if (!sparse)
        return pull_default(l, keys, n, outs, how, e);
    return how && how->flags & KV_FILL_SPARSE ? pull_all(s, keys, n, outs, how, e)
                                              : pull_some(l, keys, n, outs, how, e);
}

static int pull_rows(void *self, const kv_key *keys, int64_t n, kv_array *const *ids,
                     kv_array *const *outs, const kv_call *how, kv_err *e)
{
    kv *s = ((local *)self)->store;
    call *c;
    int rc = call_new(&c, &s->calls, "row-sparse-pull", &s->slots, outs, n, e);
    if (rc)
        return rc;
    if ((rc = call_find_pairs(c, keys, e)) || (rc = row_pull_some(c, keys, ids, e))) {
        call_end(c);
        return rc;
    }
    return call_run(c, row_pull_run, how, false, e);
}

/* ---- pushpull, broadcast ---- */

/* Both halves are checked and have their room before the first one runs. Keys may be pulled that
 * the call itself makes: their shape is that of their first value. */

typedef struct first_half {
    const kv_key *keys;
    int64_t n;
    kv_array *const *values;
    bool creates; /* it makes the keys that are not there */
    map made;     /* each of its keys to its first value; filled when it is first needed */
} first_half;

/* The number of the first value that the call has for a key, or -1. */
static int find_made(first_half *h, const kv_key *key, int64_t *value, kv_err *e)
{
    *value = -1;
    if (!h->creates)
        return KV_OK;
    if (h->made.n == 0) {
        int rc = map_reserve(&h->made, h->n, e);
        for (int64_t i = h->n - 1; i >= 0 && !rc; i--)
            rc = map_put(&h->made, h->keys[i], i, e);
        if (rc)
            return rc;
    }
    *value = map_get(&h->made, *key);
    return KV_OK;
}

static int check_outs(const slot_table *t, first_half *h, const kv_key *okeys, int64_t nouts,
                      kv_array *const *outs, kv_err *e)
{
    int64_t guess = 0;
    for (int64_t i = 0; i < nouts; i++) {
        if (outs == h->values && okeys == h->keys)
            return KV_OK; /* in place: the first half checks the same pairs */
        int rc = KV_OK;
        int64_t number = slot_find(t, &okeys[i], guess), value = -1;
        if (number < 0)
            rc = find_made(h, &okeys[i], &value, e);
        if (!rc && number < 0 && value < 0)
            rc = call_find(t, &okeys[i], -1, &number, e);
        if (rc)
            return rc;
        slot coming = {.key = okeys[i], .stored = value >= 0 ? h->values[value] : NULL};
        if ((rc = call_check_shape(number >= 0 ? &t->items[number] : &coming, outs[i], "array", e)))
            return rc;
        guess = number + 1;
    }
    return KV_OK;
}

static int check_second(const slot_table *t, first_half *h, const kv_key *okeys, int64_t nouts,
                        kv_array *const *outs, kv_err *e)
{
    int rc = check_outs(t, h, okeys, nouts, outs, e);
    map_release(&h->made);
    return rc;
}

/* The second half: the pairs whose outs are default arrays. Others are left as they are. */
typedef struct second_half {
    call *call; /* NULL where nothing is pulled */
    const kv_key *keys;
    kv_array *const *outs;
    int64_t n;
    kv_key *own_keys; /* lists without the others, where there are some */
    kv_array **own_outs;
} second_half;

static int leave_out_sparse(second_half *h, kv_err *e)
{
    int64_t n = h->n, kept = 0;
    bool sparse = false;
    for (int64_t i = 0; i < n && !sparse; i++)
        sparse = h->outs[i]->storage != KV_DEFAULT;
    if (!sparse)
        return KV_OK;
    h->own_keys = mem_alloc(n, sizeof *h->own_keys, e);
    h->own_outs = mem_alloc(n, sizeof(kv_array *), e);
    if (!h->own_keys || !h->own_outs)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        if (h->outs[i]->storage != KV_DEFAULT)
            continue;
        h->own_keys[kept] = h->keys[i];
        h->own_outs[kept++] = h->outs[i];
    }
    h->keys = h->own_keys;
    h->outs = h->own_outs;
    h->n = kept;
    return KV_OK;
}

static void end_second(second_half *h)
{
    if (h->call)
        call_end(h->call);
    mem_free(h->own_keys);
    mem_free(h->own_outs);
}

/* Takes all the memory that the second half needs. */
static int new_second(second_half *h, kv *s, const kv_key *okeys, int64_t nouts,
                      kv_array *const *outs, kv_err *e)
{
    *h = (second_half){.keys = okeys, .outs = outs, .n = nouts};
    int rc = leave_out_sparse(h, e);
    if (!rc && h->n > 0)
        rc = call_new(&h->call, &s->calls, "pull", &s->slots, h->outs, h->n, e);
    if (!rc && h->call)
        rc = call_reserve_pairs(h->call, e);
    if (rc)
        end_second(h);
    return rc;
}

/* Pulls when the first half has happened. What it asks for is there, so it does not fail. */
static int run_second(const local *l, second_half *h, const kv_call *how, kv_err *e)
{
    call *c = h->call;
    int rc = KV_OK;
    if (c && (rc = prepare_pull(c, h->keys, e)) == KV_OK) {
        h->call = NULL; /* it ends when it has run */
        c->together = l->together;
        rc = call_run(c, run_pull, how, false, e);
    }
    end_second(h);
    return rc;
}

/* A push whose work gives the outs what it stores is all of it; else a pull follows. */
int local_pushpull(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                   const kv_key *okeys, int64_t nouts, kv_array *const *outs, const kv_call *how,
                   kv_err *e)
{
    const local *l = self;
    kv *s = l->store;
    call *c;
    second_half second = {0};
    first_half first = {keys, n, values, s->updater.kind == UPDATER_ASSIGN, {0}};
    push_outs same = {okeys, outs, nouts, okeys == keys && outs == values};
    bool did = false;
    int rc = KV_OK;
    if (same.in_place && n >= BATCH_FEWEST)
        rc = push_many(l, keys, n, values, true, &did, e);
    if (rc || did)
        return rc;
    rc = check_second(&s->slots, &first, okeys, nouts, outs, e);
    if (rc || (rc = new_push_call(&c, l, keys, n, values, &same, e)))
        return rc;
    bool two = c->nouts == 0;
    if (two && (rc = new_second(&second, s, okeys, nouts, outs, e))) {
        call_abort(c);
        return rc;
    }
    if (two)
        call_trace_rename(c, "push");
    /* A C callback that refuses keeps the old value of its key, which the outs receive. */
    rc = start_push(s, c, how, e);
    int rc2 = run_second(l, &second, how, e);
    return rc ? rc : rc2;
}

int local_broadcast(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                    const kv_key *okeys, int64_t nouts, kv_array *const *outs, const kv_call *how,
                    kv_err *e)
{
    const local *l = self;
    kv *s = l->store;
    second_half second;
    first_half first = {keys, n, values, true, {0}};
    int rc = check_second(&s->slots, &first, okeys, nouts, outs, e);
    if (rc || (rc = new_second(&second, s, okeys, nouts, outs, e)))
        return rc;
    if ((rc = local_init(self, keys, n, values, how, e)) == KV_OK)
        return run_second(l, &second, how, e);
    end_second(&second);
    return rc;
}

/* ---- The tables ---- */

enum {
    CAN = KV_CAN_UPDATER | KV_CAN_OPTIMIZER | KV_CAN_STATES | KV_CAN_ROW_SPARSE |
          KV_CAN_TRANSACTIONS | KV_CAN_FILES
};

static const char *const local_names[] = {"local", "local_update_cpu", "local_allreduce_cpu", NULL};
static const char *const device_names[] = {"device", "local_allreduce_device", NULL};

/* These two types differ in their names, in where keys lie, and in what device can do beside. */
#define OPERATIONS                                                                                 \
    .size = sizeof(kv_type_ops), .version = KV_TYPE_VERSION, .close = local_close,                 \
    .init = local_init, .push = local_push, .pull = local_pull, .row_sparse_pull = pull_rows,      \
    .pushpull = local_pushpull, .broadcast = local_broadcast

const kv_type_ops local_type_ops = {
    OPERATIONS,
    .names = local_names,
    .capabilities = CAN,
    .open = open_local,
};

const kv_type_ops device_type_ops = {
    OPERATIONS,
    .names = device_names,
    .capabilities = CAN | KV_CAN_GRADIENT_COMPRESSION,
    .open = open_device,
};
