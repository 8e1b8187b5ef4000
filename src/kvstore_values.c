/* kv_init, kv_push, kv_pull and those that join them: the public functions that bring values and
 * take results. */
#include "kvstore.h"

#include "base/kv_assert.h"
#include "clip_norm.h"
#include "core/call.h"
#include "entry.h"
#include "runtime.h"

static const entry init_entry = {0, CAN_INIT, "values"};
static const entry push_entry = {0, CAN_PUSH, "values"};
static const entry pull_entry = {KV_FILL_SPARSE, CAN_PULL, "outs"};
static const entry since_entry = {0, CAN_PULL, "outs"};
static const entry rows_entry = {0, 0, "outs"};
static const entry pushpull_entry = {0, CAN_PUSHPULL, "values"};
static const entry broadcast_entry = {0, CAN_BROADCAST, "values"};

int kv_init(kv *store, const kv_key *keys, int64_t n, kv_array *const *values, const kv_call *how,
            kv_err *e)
{
    const kv_pairs pairs = {keys, values, n};
    e = e ? e : &(kv_err){0};
    TRY(enter(&init_entry, store, &pairs, NULL, how, e));
    if (n == 0)
        return KV_OK;
    TRY(store_enter_keys(store, e));
    return store_leave(store, store->ops->init(store->self, &pairs, how, e), e);
}

/* Reads those of a call's keys that nobody needed yet from the file of the store. states: a push
 * needs what the updater keeps, too. A key that is not there is an error of the call itself. */
static int fetch(const kv *store, const kv_pairs *p, bool states, kv_err *e)
{
    int64_t number = -1;
    for (int64_t i = 0; store->later && i < p->n; i++) {
        number = slot_find(&store->slots, &p->keys[i], number + 1);
        if (number >= 0)
            TRY(slot_fetch(&store->slots.items[number], states, e));
    }
    return KV_OK;
}

/* Returns true if the file of the store holds the value of a key as out takes it. */
static bool can_read(const kv_array *stored, const kv_array *out)
{
    return array_source_of(stored) && out->memory != ARRAY_LATER && !call_is_on_gpu(out) &&
           out->storage == KV_DEFAULT && out->dtype == stored->dtype &&
           array_same_shape(stored, out);
}

/* Pulls what nobody has needed yet. If that is all of the call, it is read into the caller's arrays
 * and the store goes on without it, so that a loop over the keys of a large file holds one of them;
 * *did is true then. */
static int pull_unread(kv *store, const kv_pairs *outs, bool *did, kv_err *e)
{
    const slot_table *t = &store->slots;
    int64_t number = -1;
    int rc = KV_OK;
    *did = store->later && !trace_on();
    for (int64_t i = 0; i < outs->n && *did; i++) {
        number = slot_find(t, &outs->keys[i], number + 1);
        *did = number >= 0 && can_read(t->items[number].stored, outs->arrays[i]);
    }
    if (!*did)
        return fetch(store, outs, false, e);
    for (int64_t i = 0; i < outs->n && !rc; i++) {
        kv_array *out = outs->arrays[i];
        number = slot_find(t, &outs->keys[i], number + 1);
        const array_source *s = array_source_of(t->items[number].stored);
        engine_wait_write(array_var(out));
        rc = s->read(s, out->data, 0, kv_array_bytes(out), e);
        out->unfilled = (uint8_t)rc;
    }
    store->pulled_dense = true;
    return rc;
}

/* A pull in this process. */
static int pull(kv *store, const kv_pairs *outs, const kv_call *how, kv_err *e)
{
    bool did;
    TRY(pull_unread(store, outs, &did, e));
    return did ? KV_OK : store->ops->pull(store->self, outs, how, e);
}

static int push_clipped(kv *store, const kv_pairs *values, const kv_call *how, kv_err *e)
{
    clip_norm clipped;
    TRY(clip_norm_begin(&clipped, store, values, e));
    int rc = store->ops->push(store->self, &clipped.pairs, how, e);
    clip_norm_end(&clipped);
    return rc;
}

int kv_push(kv *store, const kv_key *keys, int64_t n, kv_array *const *values, const kv_call *how,
            kv_err *e)
{
    const kv_pairs pairs = {keys, values, n};
    e = e ? e : &(kv_err){0};
    TRY(enter(&push_entry, store, &pairs, NULL, how, e));
    if (n == 0)
        return KV_OK;
    TRY(store_enter_keys(store, e));
    int rc = fetch(store, &pairs, true, e);
    if (!rc)
        rc = clip_norm_wanted(store) ? push_clipped(store, &pairs, how, e)
                                     : store->ops->push(store->self, &pairs, how, e);
    return store_leave(store, rc, e);
}

/* The number of outs of a pull that are row_sparse and so were left as they were. *told becomes the
 * first whose key was not logged yet, or -1; NULL: nothing is logged. */
static int64_t count_ignored(kv *store, const kv_pairs *outs, int64_t *told)
{
    int64_t ignored = 0;
    if (told)
        *told = -1;
    for (int64_t i = 0; i < outs->n; i++) {
        if (i + CALL_AHEAD < outs->n)
            call_prefetch(outs->arrays[i + CALL_AHEAD]);
        if (kv_array_storage(outs->arrays[i]) != KV_ROW_SPARSE)
            continue;
        ignored++;
        if (!told)
            continue;
        int64_t number = slot_find(&store->slots, &outs->keys[i], -1);
        slot *s = number >= 0 ? &store->slots.items[number] : NULL;
        if (*told < 0 && !(s && s->told_ignored))
            *told = i;
        if (s)
            s->told_ignored = true;
    }
    return ignored;
}

/* Leaves after a pull: says which outs were ignored. */
static int leave_pulled(kv *store, const kv_pairs *outs, const kv_call *how, int rc, kv_err *e)
{
    int64_t ignored = 0, told = -1;
    if (rc == KV_OK && !store->pulled_dense && !(how && how->flags & KV_FILL_SPARSE))
        ignored = count_ignored(store, outs, how && how->ignored ? NULL : &told);
    rc = store_leave(store, rc, e);
    if (rc == KV_OK && how && how->ignored)
        *how->ignored = ignored;
    if (told >= 0) /* without the lock, because the log is the caller's code */
        runtime_log("key %s was not pulled into a row_sparse array, which stays as it was; "
                    "KV_FILL_SPARSE fills it, kv_row_sparse_pull takes rows",
                    SLOT_KEY(&outs->keys[told]));
    return rc;
}

int kv_pull(kv *store, const kv_key *keys, int64_t n, kv_array *const *outs, const kv_call *how,
            kv_err *e)
{
    const kv_pairs pairs = {keys, outs, n};
    e = e ? e : &(kv_err){0};
    TRY(enter(&pull_entry, store, &pairs, NULL, how, e));
    TRY(store_enter_keys(store, e));
    store->pulled_dense = false;
    int rc = n > 0 ? pull(store, &pairs, how, e) : KV_OK;
    return leave_pulled(store, &pairs, how, rc, e);
}

static int check_since(const kv_pairs *outs, const int64_t *rounds, kv_err *e)
{
    TRY(outs->n > 0 ? arg_given(rounds, "rounds", e) : KV_OK);
    for (int64_t i = 0; i < outs->n; i++) {
        const kv_key *key = &outs->keys[i];
        if (kv_array_storage(outs->arrays[i]) != KV_DEFAULT)
            return slot_error(e, KV_E_UNSUPPORTED, key, NULL,
                              "a row_sparse array holds no round of key %s; row_sparse_pull takes "
                              "rows",
                              SLOT_KEY(key));
        if (rounds[i] < KV_NO_ROUND)
            return slot_error(e, KV_E_VALUE, key, NULL, "a round is a number from 0 on, not %lld",
                              (long long)rounds[i]);
    }
    return KV_OK;
}

/* Where a pull is a copy in this process. */
static int pull_whole(kv *store, const kv_pairs *outs, int64_t *rounds, const kv_call *how,
                      kv_err *e)
{
    int64_t number = -1;
    if (!store->in_slots)
        return kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" count no rounds",
                          store->type);
    for (int64_t i = 0; i < outs->n; i++) {
        TRY(call_find(&store->slots, &outs->keys[i], number + 1, &number, e));
        TRY(call_check_round(&store->slots.items[number], rounds[i], e));
    }
    if (outs->n > 0)
        TRY(pull(store, outs, how, e));
    for (int64_t i = 0; i < outs->n; i++) {
        call_find(&store->slots, &outs->keys[i], number + 1, &number, e);
        rounds[i] = store->slots.items[number].pushes;
    }
    return KV_OK;
}

int kv_pull_since(kv *store, const kv_key *keys, int64_t n, kv_array *const *outs, int64_t *rounds,
                  const kv_call *how, kv_err *e)
{
    const kv_pairs pairs = {keys, outs, n};
    e = e ? e : &(kv_err){0};
    int64_t whole = 0, moved = 0;
    TRY(enter(&since_entry, store, &pairs, NULL, how, e));
    TRY(check_since(&pairs, rounds, e));
    TRY(store_enter_keys(store, e));
    bool differs = store->ops->pull_since;
    int rc = !differs ? pull_whole(store, &pairs, rounds, how, e)
             : n > 0  ? store->ops->pull_since(store->self, &pairs, rounds, &moved, how, e)
                      : KV_OK;
    for (int64_t i = 0; i < n && !rc; i++) {
        int64_t number = slot_find(&store->slots, &keys[i], -1);
        const kv_array *a = number >= 0 ? store->slots.items[number].stored : outs[i];
        whole += kv_array_size(a) * kv_dtype_bytes(kv_array_dtype(a));
    }
    store->since_moved += differs ? moved : whole;
    store->since_whole += whole;
    return store_leave(store, rc, e);
}

/* Of a store of one process: a pull into an array that nobody else has. */
static int peek_slot(kv *store, const kv_key *key, kv_array **out, int64_t rounds[2], kv_err *e)
{
    int64_t number;
    kv_array *a = NULL;
    const kv_call fills = {.flags = KV_FILL_SPARSE};
    TRY(store_enter_keys(store, e));
    int rc = call_find(&store->slots, key, -1, &number, e);
    if (rc == KV_OK) {
        const slot *s = &store->slots.items[number];
        const kv_array *like = s->stored;
        rounds[0] = rounds[1] = s->pushes;
        rc = kv_array_new_raw(&a, kv_array_dtype(like), kv_array_ndim(like), kv_array_shape(like),
                              (kv_ctx){KV_CPU, 0}, e);
    }
    if (!rc)
        rc = pull(store, &(kv_pairs){key, &a, 1}, &fills, e);
    return array_give(store_leave(store, rc, e), out, a);
}

int kv_peek(kv *store, const kv_key *key, kv_array **out, int64_t rounds[2], kv_err *e)
{
    e = e ? e : &(kv_err){0};
    TRY(store_look(store, e));
    TRY(arg_given(key, "key", e));
    TRY(arg_given(out, "out", e));
    TRY(arg_given(rounds, "rounds", e));
    if (store->ops->peek)
        return kv_assert_check(store->ops->peek(store->self, key, out, rounds, e), e);
    if (!store->in_slots)
        return kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" keep no values", store->type);
    return peek_slot(store, key, out, rounds, e);
}

int kv_row_sparse_pull(kv *store, const kv_key *keys, int64_t n, kv_array *const *ids,
                       kv_array *const *outs, const kv_call *how, kv_err *e)
{
    const kv_pairs pairs = {keys, outs, n}, rows = {keys, ids, n};
    e = e ? e : &(kv_err){0};
    if (store && !store->ops->row_sparse_pull)
        return kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have no pull of rows",
                          store->type);
    TRY(enter(&rows_entry, store, &pairs, NULL, how, e));
    TRY(args_pairs(&rows, "keys", "ids", e));
    if (n == 0)
        return KV_OK;
    TRY(store_enter_keys(store, e));
    int rc = fetch(store, &pairs, false, e);
    if (rc == KV_OK)
        rc = store->ops->row_sparse_pull(store->self, ids, &pairs, how, e);
    return store_leave(store, rc, e);
}

/* The results of a call, as the pairs of its values where both are the same lists. */
static const kv_pairs *results_of(const kv_pairs *values, const kv_pairs *outs)
{
    bool in_place =
        outs->keys == values->keys && outs->arrays == values->arrays && outs->n == values->n;
    return in_place ? values : outs;
}

int kv_pushpull(kv *store, const kv_key *keys, int64_t n, kv_array *const *values,
                const kv_key *okeys, int64_t nouts, kv_array *const *outs, const kv_call *how,
                kv_err *e)
{
    const kv_pairs in = {keys, values, n}, other = {okeys, outs, nouts};
    const kv_pairs *results = nouts == 0 ? &in : results_of(&in, &other);
    e = e ? e : &(kv_err){0};
    TRY(enter(&pushpull_entry, store, &in, results, how, e));
    if (n == 0)
        return KV_OK;
    TRY(store_enter_keys(store, e));
    store->pulled_dense = false;
    const kv_type_ops *ops = store->ops;
    clip_norm clipped;
    int rc = fetch(store, &in, true, e);
    if (rc || (rc = fetch(store, results, false, e)) ||
        (rc = clip_norm_begin(&clipped, store, &in, e)))
        return store_leave(store, rc, e);
    const kv_pairs *given = clipped.sums ? &clipped.pairs : &in; /* in place, if the same */
    if (ops->pushpull)
        rc = ops->pushpull(store->self, given, results, how, e);
    else if ((rc = ops->push(store->self, given, how, e)) == KV_OK)
        rc = ops->pull(store->self, results, how, e);
    clip_norm_end(&clipped);
    return leave_pulled(store, results, how, rc, e);
}

int kv_broadcast(kv *store, const kv_key *keys, int64_t n, kv_array *const *values,
                 const kv_key *okeys, int64_t nouts, kv_array *const *outs, const kv_call *how,
                 kv_err *e)
{
    const kv_pairs in = {keys, values, n}, other = {okeys, outs, nouts};
    const kv_pairs *results = results_of(&in, &other);
    e = e ? e : &(kv_err){0};
    TRY(enter(&broadcast_entry, store, &in, results, how, e));
    if (n == 0)
        return KV_OK;
    TRY(store_enter_keys(store, e));
    store->pulled_dense = false;
    const kv_type_ops *ops = store->ops;
    int rc = fetch(store, results, false, e);
    if (rc)
        return store_leave(store, rc, e);
    if (ops->broadcast)
        rc = ops->broadcast(store->self, &in, results, how, e);
    else if ((rc = ops->init(store->self, &in, how, e)) == KV_OK && nouts > 0)
        rc = ops->pull(store->self, results, how, e);
    return leave_pulled(store, results, how, rc, e);
}
