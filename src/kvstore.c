/* The public entry points: they check the form of a call, take the store's lock, and hand the call
 * to the store's type. */
#include "kvstore.h"

#include "args.h"
#include "base/arg.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "capability.h"
#include "core/call.h"
#include "core/clip_norm.h"
#include "core/kv_rule.h"
#include "core/store.h"
#include "runtime.h"
#include "store_lock.h"
#include "vm/rule.h"

const char *kv_version(void)
{
    return KV_VERSION;
}

/* ---- Stores ---- */

int kv_create(const char *type, const kv_opt *opts, int nopts, kv **store, kv_err *e)
{
    const char *name = type ? type : "local";
    const kv_type_ops *ops;
    kv_err unused;
    e = args_err(e, &unused);
    int rc = arg_given(store, "store", e);
    if (rc || (rc = args_options(opts, nopts, "opts", e)) ||
        (rc = runtime_find_type(&name, &ops, e)))
        return rc;
    kv *s = mem_zalloc(1, sizeof *s, e);
    if (!s)
        return KV_E_MEMORY;
    s->ops = ops;
    s->type = name;
    s->base = runtime_base(ops);
    rc = store_lock_init(&s->lock, e);
    if (rc == KV_OK && (rc = ops->open(s, opts, nopts, &s->self, e)))
        pthread_mutex_destroy(&s->lock);
    if (rc)
        mem_free(s);
    else
        *store = s;
    return rc;
}

void kv_free(kv *store)
{
    if (!store || !store_enter_or_warn(store, "kv_free"))
        return;
    store_leave(store, KV_OK, NULL);
    call_pool_release(&store->calls);
    call_direct_release(&store->direct);
    if (store->ops->close)
        store->ops->close(store->self);
    int64_t pending = __atomic_load_n(&store->calls.group.pending, __ATOMIC_ACQUIRE);
    kv_assert(pending == 0, "a store is freed that has %lld operations under way",
              (long long)pending);
    updater before;
    transaction_commit(&store->open, &before);
    updater_release(&before);
    slot_table_release(&store->slots);
    updater_release(&store->updater);
    arena_release(&store->remarks);
    mem_free(store->remark);
    pthread_mutex_destroy(&store->lock);
    mem_free(store);
}

int kv_serve(const char *type, kv_err *e)
{
    const kv_type_ops *ops;
    int rc = arg_given(type, "type", e);
    if (!rc)
        rc = runtime_find_type(&type, &ops, e);
    if (!rc && !ops->serve)
        rc = kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have no servers", type);
    return rc ? rc : ops->serve(e);
}

int kv_await_turn(const char *type, bool *works, kv_err *e)
{
    const kv_type_ops *ops;
    int rc = arg_given(type, "type", e);
    if (!rc)
        rc = arg_given(works, "works", e);
    if (!rc)
        rc = runtime_find_type(&type, &ops, e);
    if (!rc && !ops->await_turn)
        rc = kv_err_set(e, KV_E_UNSUPPORTED, "jobs of type \"%s\" have no spares", type);
    return rc ? rc : ops->await_turn(works, e);
}

const char *kv_type(const kv *store)
{
    return store->type;
}

int kv_rank(const kv *store)
{
    return store->ops->rank ? store->ops->rank(store->self) : 0;
}

int kv_num_workers(const kv *store)
{
    return store->ops->num_workers ? store->ops->num_workers(store->self) : 1;
}

/* ---- Keys and values ---- */

/* Enters the store for an operation that brings values; their number is not 0 then. */
static int enter_with_values(kv *store, uint32_t what, const kv_pairs *values, const kv_call *how,
                             kv_err *e)
{
    int rc = args_flags(how, 0, e);
    if (rc || (rc = args_can(store, what, e)) || (rc = args_pairs(values, "keys", "values", e)))
        return rc;
    return values->n > 0 ? store_enter(store, e) : KV_OK;
}

int kv_init(kv *store, const kv_key *keys, int64_t n, kv_array *const *values, const kv_call *how,
            kv_err *e)
{
    const kv_pairs pairs = {keys, values, n};
    kv_err unused;
    e = args_err(e, &unused);
    int rc = enter_with_values(store, CAN_INIT, &pairs, how, e);
    return rc || n == 0 ? rc : store_leave(store, store->ops->init(store->self, &pairs, how, e), e);
}

/* ---- clip_global_norm: see core/clip_norm.h ---- */

static int check_clip(const kv *store, kv_err *e)
{
    if (store->in_slots || kv_num_workers(store) == 1)
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED,
               "clip_global_norm needs the sum of all workers' gradients for all keys, and each "
               "server of \"%s\" has the sums of its keys only",
               store->type);
    return kv_err_hint(e, "clip each worker's gradients before the push: g * minimum(1, c / norm)");
}

static void end_clip(clip_norm *c)
{
    clip_norm_release(c);
    kv_free(c->sums);
    c->sums = NULL;
}

/* Makes what a push of these values has to bring. Those that the push will refuse stay as they are.
 * On an error c needs no release. */
static int begin_clip(clip_norm *c, kv *store, const kv_pairs *values, kv_err *e)
{
    bool fine = true;
    *c = (clip_norm){.pairs = *values};
    if (!clip_norm_wanted(store))
        return KV_OK;
    int rc = check_clip(store, e);
    if (!rc && store->compression.code)
        rc = kv_err_set(e, KV_E_UNSUPPORTED,
                        "clip_global_norm and gradient compression do not go together");
    if (rc || (rc = clip_norm_take(c, store, values, &fine, e)) || !fine)
        return rc;
    rc = kv_create(store->follows_gpus ? "device" : "local", NULL, 0, &c->sums, e);
    if (!rc)
        rc = kv_push(c->sums, c->keys, values->n, c->arrays, NULL, e);
    if (!rc)
        rc = kv_wait(c->sums, e);
    if (!rc)
        rc = clip_norm_scale(c, store->updater.optimizer, e);
    if (rc)
        end_clip(c);
    return rc;
}

static int push_clipped(kv *store, const kv_pairs *values, const kv_call *how, kv_err *e)
{
    clip_norm clipped;
    int rc = begin_clip(&clipped, store, values, e);
    if (rc)
        return rc;
    rc = store->ops->push(store->self, &clipped.pairs, how, e);
    end_clip(&clipped);
    return rc;
}

int kv_push(kv *store, const kv_key *keys, int64_t n, kv_array *const *values, const kv_call *how,
            kv_err *e)
{
    const kv_pairs pairs = {keys, values, n};
    kv_err unused;
    e = args_err(e, &unused);
    int rc = enter_with_values(store, CAN_PUSH, &pairs, how, e);
    if (rc || n == 0)
        return rc;
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

/* Enters for a call that leaves with leave_pulled. */
static int enter_to_pull(kv *store, kv_err *e)
{
    int rc = store_enter(store, e);
    if (rc == KV_OK)
        store->pulled_dense = false;
    return rc;
}

/* Leaves after a pull: says which outs were ignored. */
static int leave_pulled(kv *store, const kv_pairs *outs, const kv_call *how, int rc, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    int64_t ignored = 0, told = -1;
    if (rc == KV_OK && !store->pulled_dense && !(how && how->flags & KV_FILL_SPARSE))
        ignored = count_ignored(store, outs, how && how->ignored ? NULL : &told);
    rc = store_leave(store, rc, e);
    if (rc == KV_OK && how && how->ignored)
        *how->ignored = ignored;
    if (told >= 0) /* without the lock, because the log is the caller's code */
        runtime_log("key %s was not pulled into a row_sparse array, which stays as it was; "
                    "KV_FILL_SPARSE fills it, kv_row_sparse_pull takes rows",
                    slot_key_text(text, &outs->keys[told]));
    return rc;
}

int kv_pull(kv *store, const kv_key *keys, int64_t n, kv_array *const *outs, const kv_call *how,
            kv_err *e)
{
    const kv_pairs pairs = {keys, outs, n};
    kv_err unused;
    e = args_err(e, &unused);
    int rc = args_flags(how, KV_FILL_SPARSE, e);
    if (rc || (rc = args_can(store, CAN_PULL, e)) || (rc = args_pairs(&pairs, "keys", "outs", e)) ||
        (rc = enter_to_pull(store, e)))
        return rc;
    if (n > 0)
        rc = store->ops->pull(store->self, &pairs, how, e);
    return leave_pulled(store, &pairs, how, rc, e);
}

static int check_since(const kv_pairs *outs, const int64_t *rounds, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    int rc = outs->n > 0 ? arg_given(rounds, "rounds", e) : KV_OK;
    for (int64_t i = 0; i < outs->n && !rc; i++) {
        if (kv_array_storage(outs->arrays[i]) != KV_DEFAULT)
            rc = kv_err_set(e, KV_E_UNSUPPORTED,
                            "a row_sparse array holds no round of key %s; row_sparse_pull takes "
                            "rows",
                            slot_key_text(text, &outs->keys[i]));
        else if (rounds[i] < KV_NO_ROUND)
            rc = kv_err_set(e, KV_E_VALUE, "a round is a number from 0 on, not %lld",
                            (long long)rounds[i]);
        if (rc)
            kv_err_key(e, &outs->keys[i]);
    }
    return rc;
}

/* Where a pull is a copy in this process. */
static int pull_whole(kv *store, const kv_pairs *outs, int64_t *rounds, const kv_call *how,
                      kv_err *e)
{
    int64_t number = -1;
    int rc = KV_OK;
    if (!store->in_slots)
        return kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" count no rounds",
                          store->type);
    for (int64_t i = 0; i < outs->n && !rc; i++) {
        rc = call_find(&store->slots, &outs->keys[i], number + 1, &number, e);
        if (!rc)
            rc = call_check_round(&store->slots.items[number], rounds[i], e);
    }
    if (!rc)
        rc = store->ops->pull(store->self, outs, how, e);
    for (int64_t i = 0; i < outs->n && !rc; i++) {
        call_find(&store->slots, &outs->keys[i], number + 1, &number, e);
        rounds[i] = store->slots.items[number].pushes;
    }
    return rc;
}

int kv_pull_since(kv *store, const kv_key *keys, int64_t n, kv_array *const *outs, int64_t *rounds,
                  const kv_call *how, kv_err *e)
{
    const kv_pairs pairs = {keys, outs, n};
    kv_err unused;
    e = args_err(e, &unused);
    int64_t whole = 0, moved = 0;
    int rc = args_flags(how, 0, e);
    if (rc || (rc = args_can(store, CAN_PULL, e)) || (rc = args_pairs(&pairs, "keys", "outs", e)) ||
        (rc = check_since(&pairs, rounds, e)) || (rc = store_enter(store, e)))
        return rc;
    bool differs = store->ops->pull_since;
    if (differs && n > 0)
        rc = store->ops->pull_since(store->self, &pairs, rounds, &moved, how, e);
    else if (!differs)
        rc = pull_whole(store, &pairs, rounds, how, e);
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
    int rc = store_enter(store, e);
    if (rc)
        return rc;
    if ((rc = call_find(&store->slots, key, -1, &number, e)) == KV_OK) {
        const slot *s = &store->slots.items[number];
        const kv_array *like = s->stored;
        rounds[0] = rounds[1] = s->pushes;
        rc = kv_array_new_raw(&a, kv_array_dtype(like), kv_array_ndim(like), kv_array_shape(like),
                              (kv_ctx){KV_CPU, 0}, e);
    }
    if (!rc)
        rc = store->ops->pull(store->self, &(kv_pairs){key, &a, 1}, &fills, e);
    rc = store_leave(store, rc, e);
    if (rc)
        kv_array_unref(a);
    else
        *out = a;
    return rc;
}

int kv_peek(kv *store, const kv_key *key, kv_array **out, int64_t rounds[2], kv_err *e)
{
    kv_err unused;
    e = args_err(e, &unused);
    int rc = store_look(store, e);
    if (rc || (rc = arg_given(key, "key", e)) || (rc = arg_given(out, "out", e)) ||
        (rc = arg_given(rounds, "rounds", e)))
        return rc;
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
    kv_err unused;
    e = args_err(e, &unused);
    int rc = args_flags(how, 0, e);
    if (rc || (rc = args_store(store, e)))
        return rc;
    if (!store->ops->row_sparse_pull)
        return kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have no pull of rows",
                          store->type);
    if ((rc = args_pairs(&pairs, "keys", "outs", e)) ||
        (rc = args_pairs(&rows, "keys", "ids", e)) || n == 0 || (rc = store_enter(store, e)))
        return rc;
    return store_leave(store, store->ops->row_sparse_pull(store->self, ids, &pairs, how, e), e);
}

/* Enters the store for an operation that brings values and takes results. */
static int enter_with_both(kv *store, uint32_t what, const kv_pairs *values, const kv_pairs *outs,
                           const kv_call *how, kv_err *e)
{
    int rc = args_flags(how, 0, e);
    if (rc || (rc = args_can(store, what, e)) || (rc = args_pairs(values, "keys", "values", e)) ||
        (outs != values && (rc = args_pairs(outs, "okeys", "outs", e))))
        return rc;
    if (values->n == 0 && outs->n > 0)
        return kv_err_set(e, KV_E_VALUE, "there are %lld arrays for results, but no values",
                          (long long)outs->n);
    return values->n > 0 ? enter_to_pull(store, e) : KV_OK;
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
    kv_err unused;
    e = args_err(e, &unused);
    int rc = enter_with_both(store, CAN_PUSHPULL, &in, results, how, e);
    if (rc || n == 0)
        return rc;
    const kv_type_ops *ops = store->ops;
    clip_norm clipped;
    if ((rc = begin_clip(&clipped, store, &in, e)))
        return store_leave(store, rc, e);
    const kv_pairs *given =
        clipped.sums ? &clipped.pairs : &in; /* in place, if they are the same */
    if (ops->pushpull)
        rc = ops->pushpull(store->self, given, results, how, e);
    else if ((rc = ops->push(store->self, given, how, e)) == KV_OK)
        rc = ops->pull(store->self, results, how, e);
    end_clip(&clipped);
    return leave_pulled(store, results, how, rc, e);
}

int kv_broadcast(kv *store, const kv_key *keys, int64_t n, kv_array *const *values,
                 const kv_key *okeys, int64_t nouts, kv_array *const *outs, const kv_call *how,
                 kv_err *e)
{
    const kv_pairs in = {keys, values, n}, other = {okeys, outs, nouts};
    const kv_pairs *results = results_of(&in, &other);
    kv_err unused;
    e = args_err(e, &unused);
    int rc = enter_with_both(store, CAN_BROADCAST, &in, results, how, e);
    if (rc || n == 0)
        return rc;
    const kv_type_ops *ops = store->ops;
    if (ops->broadcast)
        rc = ops->broadcast(store->self, &in, results, how, e);
    else if ((rc = ops->init(store->self, &in, how, e)) == KV_OK && nouts > 0)
        rc = ops->pull(store->self, results, how, e);
    return leave_pulled(store, results, how, rc, e);
}

int kv_wait(kv *store, kv_err *e)
{
    /* The lock is free meanwhile, so that other threads can schedule more. */
    int rc = store_enter(store, e);
    if (rc)
        return rc;
    store_leave(store, KV_OK, NULL);
    engine_wait_group(&store->calls.group, 0);
    return kv_assert_check(engine_take_error(&store->calls.group, e), e);
}

int kv_wait_for(kv *store, int ms, bool *idle, kv_err *e)
{
    int rc = args_store(store, e);
    if (rc || (rc = arg_given(idle, "idle", e)))
        return rc;
    if (ms < 0)
        return kv_err_set(e, KV_E_VALUE, "a wait of %d milliseconds", ms);
    if ((rc = store_enter(store, e)))
        return rc;
    store_leave(store, KV_OK, NULL);
    *idle = engine_wait_group_for(&store->calls.group, 0, ms);
    return kv_assert_check(*idle ? engine_take_error(&store->calls.group, e) : KV_OK, e);
}

int kv_check(kv *store, kv_err *e)
{
    int rc = store_enter(store, e);
    return rc ? rc : store_leave(store, engine_take_error(&store->calls.group, e), e);
}

int kv_barrier(kv *store, kv_err *e)
{
    int rc = store_enter(store, e);
    if (rc)
        return rc;
    if (store->ops->barrier)
        rc = store->ops->barrier(store->self, e);
    return store_leave(store, rc, e);
}

int kv_done(kv *store, kv_err *e)
{
    int rc = store_enter_idle(store, e);
    if (rc)
        return rc;
    if (store->ops->done)
        rc = store->ops->done(store->self, e);
    return store_leave(store, rc, e);
}

int kv_send_command(kv *store, int head, const char *body, kv_err *e)
{
    int rc = store_enter(store, e);
    if (rc)
        return rc;
    if (store->ops->send_command)
        rc = store->ops->send_command(store->self, head, body ? body : "", e);
    return store_leave(store, rc, e);
}

static void fill_info(kv_info *info, const slot *s)
{
    const kv_array *a = s->stored;
    kv_assert(a, "a key with %lld pushes has no array, and no call runs", (long long)s->pushes);
    *info = (kv_info){.key = s->key,
                      .dtype = kv_array_dtype(a),
                      .ndim = kv_array_ndim(a),
                      .shape = kv_array_shape(a),
                      .ctx = kv_array_ctx(a),
                      .bytes = kv_array_bytes(a),
                      .pushes = s->pushes,
                      .pending = engine_pending(array_var(s->stored)),
                      .storage = kv_array_storage(a),
                      .loaded = s->loaded};
}

static int find(kv *store, const kv_key *key, bool awaits, kv_info *info, kv_err *e)
{
    int64_t number;
    kv_err unused;
    e = args_err(e, &unused);
    int rc = args_store(store, e);
    if (rc || (rc = arg_given(key, "key", e)) || (rc = arg_given(info, "info", e)) ||
        (rc = store_enter(store, e)))
        return rc;
    if (awaits && store->ops->await_key)
        rc = store->ops->await_key(store->self, key, e);
    if (rc == KV_OK)
        rc = call_find(&store->slots, key, -1, &number, e);
    if (rc == KV_OK)
        fill_info(info, &store->slots.items[number]);
    return store_leave(store, rc, e);
}

int kv_find(kv *store, const kv_key *key, kv_info *info, kv_err *e)
{
    return find(store, key, false, info, e);
}

int kv_await_key(kv *store, const kv_key *key, kv_info *info, kv_err *e)
{
    return find(store, key, true, info, e);
}

int64_t kv_num_keys(const kv *store)
{
    if (!store_enter_or_warn(store, "kv_num_keys"))
        return 0;
    int64_t n = store->slots.n;
    store_leave(store, KV_OK, NULL);
    return n;
}

int kv_info_at(kv *store, int64_t i, kv_info *info, kv_err *e)
{
    int64_t number;
    int rc = args_store(store, e);
    if (rc || (rc = arg_given(info, "info", e)) || (rc = store_enter(store, e)))
        return rc;
    if (i < 0 || i >= store->slots.n)
        rc = kv_err_set(e, KV_E_INDEX, "there is no key number %lld, the store has %lld",
                        (long long)i, (long long)store->slots.n);
    else
        rc = slot_in_order(&store->slots, i, &number, e);
    if (rc == KV_OK)
        fill_info(info, &store->slots.items[number]);
    return store_leave(store, rc, e);
}

int kv_visit_keys(kv *store, const kv_key *key,
                  int (*visit)(void *arg, const kv_info *info, kv_err *e), void *arg, kv_err *e)
{
    kv_err unused;
    e = args_err(e, &unused);
    int rc = args_store(store, e);
    if (rc || (rc = arg_given(visit, "visit", e)) || (rc = store_enter(store, e)))
        return rc;
    slot_table *slots = &store->slots;
    for (int64_t i = 0; i < (key ? 1 : slots->n) && rc == KV_OK; i++) {
        int64_t number;
        kv_info info;
        rc = key ? call_find(slots, key, -1, &number, e) : slot_in_order(slots, i, &number, e);
        if (rc)
            break;
        fill_info(&info, &slots->items[number]);
        rc = visit(arg, &info, e);
    }
    return store_leave(store, rc, e);
}

/* ---- Updaters ---- */

/* Puts next in the place of the updater, whose counts start again. The old one is released when the
 * lock is free, because its done function is the caller's code. */
static int replace_updater(kv *store, updater next, kv_err *e)
{
    int rc = store_enter_idle(store, e);
    if (rc) {
        next.done = NULL; /* it was not set, so the caller still owns arg */
        updater_release(&next);
        return rc;
    }
    updater old = store->updater;
    store->updater = next;
    store->changes++;
    for (int64_t i = 0; i < store->slots.n; i++)
        slot_forget(&store->slots.items[i]);
    bool kept = transaction_keep_updater(&store->open, &old);
    rc = store_leave(store, KV_OK, e);
    if (!kept)
        updater_release(&old);
    return rc;
}

/* Types that keep their values elsewhere are told of what shall happen to them. */
static int tell_type(const kv *store, const char *kind, const char *text, const kv_opt *params,
                     int nparams, kv_err *e)
{
    const kv_type_ops *ops = store->ops;
    return ops->set_optimizer ? ops->set_optimizer(store->self, kind, text, params, nparams, e)
                              : KV_OK;
}

/* Values that servers keep are out of reach of a C function of this process. */
static int need_callbacks(const kv *store, kv_err *e)
{
    uint32_t can = store ? store->ops->capabilities : KV_CAN_UPDATER;
    if ((can & KV_CAN_UPDATER) || !(can & KV_CAN_OPTIMIZER))
        return args_can(store, CAN_RULES, e);
    kv_err_set(e, KV_E_UNSUPPORTED,
               "an updater of a store of type \"%s\" is a rule, no function of the program",
               store->type);
    return kv_err_hint(e, "kv_set_rule sets one");
}

int kv_set_updater(kv *store, kv_updater update, void *arg, void (*done)(void *arg), kv_err *e)
{
    int rc = update ? need_callbacks(store, e) : KV_OK;
    if (!rc && !update && (rc = store_enter_idle(store, e)) == KV_OK)
        rc = store_leave(store, tell_type(store, "assign", "", NULL, 0, e), e);
    if (rc)
        return rc;
    updater next = {.kind = update ? UPDATER_CALLBACK : UPDATER_ASSIGN,
                    .call = update,
                    .arg = arg,
                    .done = update ? done : NULL};
    return replace_updater(store, next, e);
}

static int no_optimizer(kv_err *e)
{
    kv_err_set(e, KV_E_VALUE, "no optimizer is in use");
    kv_err_hint(e, "set-optimizer sets one");
    return KV_E_VALUE;
}

int kv_update_optimizer(kv *store, const kv_opt *params, int nparams, kv_err *e)
{
    kv_err unused;
    e = args_err(e, &unused);
    int rc = args_can(store, KV_CAN_OPTIMIZER, e);
    if (rc || (rc = args_options(params, nparams, "params", e)) ||
        (rc = store_enter_idle(store, e)))
        return rc;
    for (int i = 0; i < nparams && !rc; i++)
        if (rule_base_find(params[i].name) == RULE_CLIP_GLOBAL_NORM &&
            strcmp(params[i].value, "none") != 0)
            rc = check_clip(store, e);
    if (rc)
        return store_leave(store, rc, e);
    if (store->updater.kind == UPDATER_RULE) {
        rc = optimizer_change(store->updater.optimizer, params, nparams, e);
        if (!rc)
            rc = tell_type(store, "update", "", params, nparams, e);
    } else
        rc = no_optimizer(e);
    store->changes += rc == KV_OK;
    return store_leave(store, rc, e);
}

static int refuse_rule(const kv *store, kv_err *e)
{
    if (!store->compression.pull)
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED,
               "what is pulled is compressed, which goes without an updater only");
    kv_err_hint(e, "set-gradient-compression without --pull compresses the pushes alone");
    return KV_E_UNSUPPORTED;
}

/* name: of an optimizer of the library, or NULL. */
static int set_rule(kv *store, const kv_rule *rule, const char *name, const kv_opt *params,
                    int nparams, kv_err *e)
{
    updater next;
    int rc = updater_init_rule(&next, rule, params, nparams, e);
    if (rc)
        return rc;
    if ((rc = store_enter(store, e)) == KV_OK) {
        if ((rc = refuse_rule(store, e)) == KV_OK && next.optimizer->clip_norm > 0)
            rc = check_clip(store, e);
        if (rc == KV_OK)
            rc = tell_type(store, name ? "optimizer" : "rule", name ? name : rule->text, params,
                           nparams, e);
        rc = store_leave(store, rc, e);
    }
    if (rc)
        updater_release(&next);
    return rc ? rc : replace_updater(store, next, e);
}

int kv_set_optimizer(kv *store, const char *name, const kv_opt *params, int nparams, kv_err *e)
{
    kv_rule *rule;
    kv_err unused;
    e = args_err(e, &unused);
    int rc = args_can(store, KV_CAN_OPTIMIZER, e);
    if (rc || (rc = arg_given(name, "name", e)) ||
        (rc = args_options(params, nparams, "params", e)))
        return rc;
    rc = builtin_rule(&rule, name, e);
    if (rc == KV_OK) {
        rc = set_rule(store, rule, name, params, nparams, e);
        kv_rule_free(rule);
    }
    return rc;
}

int kv_set_rule(kv *store, const kv_rule *rule, const kv_opt *params, int nparams, kv_err *e)
{
    kv_err unused;
    e = args_err(e, &unused);
    int rc = args_can(store, CAN_RULES, e);
    if (rc || (rc = arg_given(rule, "rule", e)) ||
        (rc = args_options(params, nparams, "params", e)))
        return rc;
    return set_rule(store, rule, NULL, params, nparams, e);
}

void kv_set_print(kv *store, void (*print)(void *arg, const char *line), void *arg)
{
    if (!store_enter_or_warn(store, "kv_set_print"))
        return;
    store->print.line = print;
    store->print.arg = arg;
    store_leave(store, KV_OK, NULL);
}

void kv_set_print_arrays(kv *store, kv_show show, void *arg)
{
    if (!store_enter_or_warn(store, "kv_set_print_arrays"))
        return;
    store->print.show = show;
    store->print.show_arg = arg;
    store_leave(store, KV_OK, NULL);
}

/* Codes from the servers stand for sums: a value that an updater makes must come as it is. */
static int check_pulls(const kv *store, const compression *c, kv_err *e)
{
    if (!c->pull)
        return KV_OK;
    if (!store->compresses_pulls)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "stores of type \"%s\" do not compress what is pulled", store->type);
    if (store->updater.kind == UPDATER_ASSIGN)
        return KV_OK;
    return kv_err_set(e, KV_E_UNSUPPORTED,
                      "what is pulled is compressed without an updater only, and one is in use");
}

int kv_set_gradient_compression(kv *store, const kv_opt *params, int nparams, kv_err *e)
{
    compression next;
    kv_err unused;
    e = args_err(e, &unused);
    int rc = args_store(store, e);
    if (rc || (rc = args_options(params, nparams, "params", e)) || (rc = store_enter(store, e)))
        return rc;
    if (!store->compresses) {
        rc = kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" do not compress gradients",
                        store->type);
        kv_err_hint(e, "the type device does, between its contexts");
    } else if ((rc = compression_read(&next, params, nparams, e)) == KV_OK &&
               (rc = check_pulls(store, &next, e)) == KV_OK &&
               !compression_same(&next, &store->compression) &&
               (!next.code || (rc = compression_check_slots(&store->slots, e)) == KV_OK)) {
        compression_forget(&store->slots);
        store->compression = next;
        store->changes++;
    }
    return store_leave(store, rc, e);
}

/* ---- Transactions ---- */

int kv_begin(kv *store, kv_err *e)
{
    int rc = store_enter_idle(store, e);
    if (rc)
        return rc;
    if (!store->in_slots) {
        rc = kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have no transactions",
                        store->type);
    } else if (store->open.is_open) {
        rc = kv_err_set(e, KV_E_VALUE, "a transaction is open already, and they do not nest");
        kv_err_hint(e, "commit or rollback ends it");
    } else {
        rc = transaction_begin(&store->open, &store->slots, &store->updater, &store->compression,
                               store->changes, e);
    }
    return store_leave(store, rc, e);
}

/* Ends the transaction. The updater that is not needed any more is released when the lock is free,
 * because its done function is the caller's code. */
static int end_transaction(kv *store, bool keeps, kv_err *e)
{
    updater gone = {0};
    int rc = store_enter_idle(store, e);
    if (rc)
        return rc;
    if (!store->open.is_open) {
        rc = kv_err_set(e, KV_E_VALUE, "no transaction is open");
        kv_err_hint(e, "begin opens one");
    } else if (keeps) {
        transaction_commit(&store->open, &gone);
    } else {
        transaction_rollback(&store->open, &store->slots, &store->updater, &store->compression,
                             &store->changes, &gone);
    }
    rc = store_leave(store, rc, e);
    updater_release(&gone);
    return rc;
}

int kv_commit(kv *store, kv_err *e)
{
    return end_transaction(store, true, e);
}

int kv_rollback(kv *store, kv_err *e)
{
    return end_transaction(store, false, e);
}

bool kv_in_transaction(const kv *store)
{
    if (!store_enter_or_warn(store, "kv_in_transaction"))
        return false;
    bool open = store->open.is_open;
    store_leave(store, KV_OK, NULL);
    return open;
}

uint64_t kv_changes(const kv *store)
{
    if (!store_enter_or_warn(store, "kv_changes"))
        return 0;
    uint64_t n = store->changes;
    store_leave(store, KV_OK, NULL);
    return n;
}
