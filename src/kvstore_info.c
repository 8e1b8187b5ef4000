/* What a store says of its keys. */
#include "kvstore.h"

#include "args.h"
#include "base/kv_assert.h"
#include "core/call.h"
#include "core/slot.h"
#include "core/store.h"
#include "store_lock.h"

static void fill_info(kv_info *info, const slot *s)
{
    const kv_array *a = s->stored;
    const slot_state *kept = s->state;
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
                      .loaded = s->loaded,
                      .updates = s->updates,
                      .states = kept ? __builtin_popcount(kept->have) + (kept->master != NULL) : 0};
    info->unread = checkpoint_later_place(a, &info->unread_inode);
}

static int find(kv *store, const kv_key *key, bool awaits, kv_info *info, kv_err *e)
{
    int64_t number;
    e = e ? e : &(kv_err){0};
    int rc = args_store(store, e);
    if (rc || (rc = arg_given(key, "key", e)) || (rc = arg_given(info, "info", e)) ||
        (rc = store_enter_keys(store, e)))
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
    int64_t n = slot_count(&store->slots);
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
    e = e ? e : &(kv_err){0};
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
