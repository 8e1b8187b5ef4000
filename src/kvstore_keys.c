/* The keys of a store: their descriptions, kv_delete and kv_rename. */
#include "kvstore.h"

#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/call.h"
#include "core/call_trace.h"
#include "core/store.h"
#include "entry.h"

/* ---- Descriptions ---- */

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

static int describe_key(kv *store, const kv_key *key, bool awaits, kv_info *info, kv_err *e)
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
    return describe_key(store, key, false, info, e);
}

int kv_await_key(kv *store, const kv_key *key, kv_info *info, kv_err *e)
{
    return describe_key(store, key, true, info, e);
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

/* ---- Deleting and renaming ---- */

/* Enters a store whose slots hold all that there is of its keys. What is pending uses the names of
 * the keys, so it must end first. */
static int enter_slots(kv *store, kv_err *e)
{
    int rc = store_enter_keys(store, e);
    if (rc)
        return rc;
    engine_wait_group(&store->calls.group, 0);
    if (store->in_slots)
        return KV_OK;
    rc = kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have no delete or rename",
                    store->type);
    return store_leave(store, rc, e);
}

/* The number of a key's slot. */
static int find(const slot_table *t, const kv_key *key, int64_t guess, int64_t *number, kv_err *e)
{
    int rc = slot_check_kind(t, key, e);
    if (rc || (*number = slot_find(t, key, guess)) >= 0)
        return rc;
    return slot_error(e, KV_E_KEY, key, NULL, "there is no key %s", SLOT_KEY(key));
}

/* What a profile is told. It is told before the change, because the caller's keys may be borrowed
 * from the slots. */
typedef struct noted {
    uint64_t op; /* 0: no profile is taken */
    int64_t begin;
} noted;

static noted note_begin(void)
{
    return trace_on() ? (noted){trace_number(), trace_now()} : (noted){0};
}

static void note_end(const noted *x, const char *name, const kv_key *keys, int64_t n)
{
    if (x->op)
        call_trace_alone(x->op, x->begin, name, keys, n);
}

/* Finds and marks the slot of each key. */
static int mark(slot_table *t, const kv_key *keys, int64_t n, int64_t *numbers, kv_err *e)
{
    int64_t number = -1;
    int rc = KV_OK;
    for (int64_t i = 0; i < n && !rc; i++) {
        rc = find(t, &keys[i], number + 1, &number, e);
        if (!rc && t->items[number].marked)
            rc = slot_error(e, KV_E_KEY, &keys[i], NULL, "key %s stands twice in the call",
                            SLOT_KEY(&keys[i]));
        if (!rc)
            t->items[numbers[i] = number].marked = true;
        for (int64_t k = 0; rc && k < i; k++)
            t->items[numbers[k]].marked = false;
    }
    return rc;
}

/* Gaps are closed when they are half of the slots, so that deleting all keys, one by one or
 * together with calls on others, takes time in proportion. */
static int delete_keys(kv *store, const kv_key *keys, int64_t n, kv_err *e)
{
    noted x = note_begin();
    slot_table *t = &store->slots;
    int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    int rc = numbers ? transaction_keep_keys(&store->open, t, e) : KV_E_MEMORY;
    if (!rc)
        rc = mark(t, keys, n, numbers, e);
    if (!rc) {
        note_end(&x, "delete", keys, n);
        for (int64_t i = 0; i < n; i++)
            slot_remove(t, numbers[i]);
        if (t->ngone > t->n / 2)
            slot_settle(t);
        store->changes++;
    }
    mem_free(numbers);
    return rc;
}

int kv_delete(kv *store, const kv_key *keys, int64_t n, kv_err *e)
{
    e = e ? e : &(kv_err){0};
    int rc = args_can(store, KV_CAN_DELETE, e);
    if (!rc && n < 0)
        rc = kv_err_set(e, KV_E_VALUE, "a call cannot have %lld keys", (long long)n);
    if (!rc && n > 0)
        rc = arg_given(keys, "keys", e);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = call_check_key(&keys[i], keys, e);
    if (rc || (rc = enter_slots(store, e)))
        return rc;
    return store_leave(store, n > 0 ? delete_keys(store, keys, n, e) : KV_OK, e);
}

static int rename_key(kv *store, const kv_key *from, const kv_key *to, kv_err *e)
{
    noted x = note_begin();
    slot_table *t = &store->slots;
    int64_t number;
    int rc = find(t, from, -1, &number, e);
    if (rc || (rc = slot_check_kind(t, to, e)))
        return rc;
    if (slot_find(t, to, -1) >= 0)
        return slot_error(e, KV_E_KEY, to, NULL, "key %s is there already", SLOT_KEY(to));
    if ((rc = transaction_keep_keys(&store->open, t, e)))
        return rc;
    note_end(&x, "rename", (kv_key[]){*from, *to}, 2);
    optimizer *o = store->updater.optimizer;
    optimizer_mark mark = {0};
    if (o) {
        optimizer_mark_take(o, &mark);
        rc = optimizer_rename(o, from, to, e);
    }
    if (!rc && (rc = slot_rename(t, number, to, e)) && o)
        optimizer_mark_restore(o, &mark);
    optimizer_mark_release(&mark);
    store->changes += rc == KV_OK;
    return rc;
}

int kv_rename(kv *store, const kv_key *from, const kv_key *to, kv_err *e)
{
    e = e ? e : &(kv_err){0};
    int rc = args_can(store, KV_CAN_DELETE, e);
    if (rc || (rc = arg_given(from, "from", e)) || (rc = arg_given(to, "to", e)) ||
        (rc = call_check_key(from, from, e)) || (rc = call_check_key(to, to, e)) ||
        (rc = enter_slots(store, e)))
        return rc;
    return store_leave(store, rename_key(store, from, to, e), e);
}
