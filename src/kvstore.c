/* The public functions on a store as a whole: its begin and end, waiting, other ranks,
 * transactions, its keys. Like those of kvstore_*.c they check the form of a call, take the store's
 * lock, and hand the call to the type of the store. */
#include "kvstore.h"

#include <stdlib.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/call.h"
#include "core/store.h"
#include "entry.h"
#include "runtime.h"

const char *kv_version(void)
{
    return KV_VERSION;
}

/* ---- Stores ---- */

int kv_create(const char *type, const kv_opt *opts, int nopts, kv **store, kv_err *e)
{
    const char *name = type ? type : "local";
    const kv_type_ops *ops;
    e = e ? e : &(kv_err){0};
    TRY(arg_given(store, "store", e));
    TRY(args_options(opts, nopts, "opts", e));
    TRY(runtime_find_type(&name, &ops, e));
    kv *s = mem_zalloc(1, sizeof *s, e);
    if (!s)
        return KV_E_MEMORY;
    s->ops = ops;
    s->type = name;
    s->base = runtime_base(ops);
    int rc = store_lock_init(&s->lock, e);
    if (rc == KV_OK && (rc = ops->open(s, opts, nopts, &s->self, e)))
        pthread_mutex_destroy(&s->lock);
    if (rc)
        mem_free(s);
    else
        *store = s;
    if (!rc && kv_num_workers(s) > 1)
        runtime_joined();
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
    runtime_forget_order(store, true);
    mem_free(store);
}

int kv_serve(const char *type, kv_err *e)
{
    const kv_type_ops *ops;
    TRY(arg_given(type, "type", e));
    TRY(runtime_find_type(&type, &ops, e));
    if (!ops->serve)
        return kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have no servers", type);
    return ops->serve(e);
}

/* A whole number of a variable of the environment; -1: it has none. */
static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    size_t n = text ? strlen(text) : 0;
    return n > 0 && n < 8 && strspn(text, "0123456789") == n ? atoi(text) : -1;
}

int kv_await_turn(const char *type, bool *works, kv_err *e)
{
    const kv_type_ops *ops;
    TRY(arg_given(type, "type", e));
    TRY(arg_given(works, "works", e));
    TRY(runtime_find_type(&type, &ops, e));
    if (!ops->await_turn)
        return kv_err_set(e, KV_E_UNSUPPORTED, "jobs of type \"%s\" have no spares", type);
    return ops->await_turn(works, e);
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

bool kv_job(int *rank, int *num_workers)
{
    int number = number_of("OMPI_COMM_WORLD_RANK"), size = number_of("OMPI_COMM_WORLD_SIZE");
    int servers = number_of("KVSTORE_SERVERS"), spares = number_of("KVSTORE_SPARES");
    if (number < 0 || size < 0) { /* of a step, which a batch script is not */
        number = number_of("PMIX_RANK");
        size = number_of("SLURM_STEP_NUM_TASKS");
    }
    bool known = number >= 0 && number < size;
    int workers = size - (servers > 0 ? servers : 0) - (spares > 0 ? spares : 0);
    *rank = known ? number : 0;
    *num_workers = !known ? 1 : workers > number ? workers : number + 1; /* a spare works now */
    return runtime_has_joined();
}

/* ---- Waiting, and the other ranks ---- */

int kv_wait(kv *store, kv_err *e)
{
    /* The lock is free meanwhile, so that other threads can schedule more. */
    TRY(store_enter_keys(store, e));
    store_leave(store, KV_OK, NULL);
    engine_wait_group(&store->calls.group, 0);
    return kv_assert_check(engine_take_error(&store->calls.group, e), e);
}

int kv_wait_for(kv *store, int ms, bool *idle, kv_err *e)
{
    TRY(args_store(store, e));
    TRY(arg_given(idle, "idle", e));
    if (ms < 0)
        return kv_err_set(e, KV_E_VALUE, "a wait of %d milliseconds", ms);
    TRY(store_enter_keys(store, e));
    store_leave(store, KV_OK, NULL);
    *idle = engine_wait_group_for(&store->calls.group, 0, ms);
    return kv_assert_check(*idle ? engine_take_error(&store->calls.group, e) : KV_OK, e);
}

int kv_check(kv *store, kv_err *e)
{
    int rc = store_enter_keys(store, e);
    return rc ? rc : store_leave(store, engine_take_error(&store->calls.group, e), e);
}

int kv_barrier(kv *store, kv_err *e)
{
    TRY(store_enter(store, e));
    return store_leave(store, store->ops->barrier ? store->ops->barrier(store->self, e) : KV_OK, e);
}

int kv_done(kv *store, kv_err *e)
{
    TRY(store_enter_idle(store, e));
    return store_leave(store, store->ops->done ? store->ops->done(store->self, e) : KV_OK, e);
}

int kv_send_command(kv *store, int head, const char *body, kv_err *e)
{
    TRY(store_enter(store, e));
    int rc = KV_OK;
    if (store->ops->send_command)
        rc = store->ops->send_command(store->self, head, body ? body : "", e);
    return store_leave(store, rc, e);
}

/* ---- Transactions ---- */

int kv_begin(kv *store, kv_err *e)
{
    TRY(store_enter_idle(store, e));
    int rc = KV_OK;
    if (!store->in_slots) {
        rc = kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have no transactions",
                        store->type);
    } else if (store->open.is_open) {
        rc = kv_err_set(e, KV_E_VALUE, "a transaction is open already, and they do not nest");
        kv_err_hint(e, "commit or rollback ends it");
    } else {
        rc = transaction_begin(&store->open, &store->slots, &store->updater, &store->compression,
                               store->changes, e);
        store->open.keeps_states = store->keeps_states;
    }
    return store_leave(store, rc, e);
}

/* Ends the transaction. The updater that is not needed any more is released when the lock is free,
 * because its done function is the caller's code. */
static int end_transaction(kv *store, bool keeps, kv_err *e)
{
    own_updater gone = {0};
    TRY(store_enter_idle(store, e));
    int rc = KV_OK;
    if (!store->open.is_open) {
        rc = kv_err_set(e, KV_E_VALUE, "no transaction is open");
        kv_err_hint(e, "begin opens one");
    } else if (keeps) {
        transaction_commit(&store->open, &gone);
    } else {
        store->keeps_states = store->open.keeps_states;
        transaction_rollback(&store->open, &store->slots, &store->updater, &store->compression,
                             &store->changes, &gone);
    }
    return store_leave(store, rc, e);
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
    TRY(args_store(store, e));
    TRY(arg_given(key, "key", e));
    TRY(arg_given(info, "info", e));
    TRY(store_enter_keys(store, e));
    int rc = KV_OK;
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
    TRY(args_store(store, e));
    TRY(arg_given(info, "info", e));
    TRY(store_enter(store, e));
    int rc = KV_OK;
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
    TRY(args_store(store, e));
    TRY(arg_given(visit, "visit", e));
    TRY(store_enter(store, e));
    slot_table *slots = &store->slots;
    int rc = KV_OK;
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
    TRY(store_enter_keys(store, e));
    engine_wait_group(&store->calls.group, 0);
    if (store->in_slots)
        return KV_OK;
    int rc = kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have no delete or rename",
                        store->type);
    return store_leave(store, rc, e);
}

/* The number of a key's slot. */
static int find(const slot_table *t, const kv_key *key, int64_t guess, int64_t *number, kv_err *e)
{
    TRY(slot_check_kind(t, key, e));
    if ((*number = slot_find(t, key, guess)) >= 0)
        return KV_OK;
    return slot_error(e, KV_E_KEY, key, NULL, "there is no key %s", SLOT_KEY(key));
}

/* What a profile records. It records before the change, because the caller's keys may be borrowed
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
    own_mem int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    TRY(numbers ? transaction_keep_keys(&store->open, t, e) : KV_E_MEMORY);
    TRY(mark(t, keys, n, numbers, e));
    note_end(&x, "delete", keys, n);
    for (int64_t i = 0; i < n; i++)
        slot_remove(t, numbers[i]);
    if (t->ngone > t->n / 2)
        slot_settle(t);
    store->changes++;
    return KV_OK;
}

int kv_delete(kv *store, const kv_key *keys, int64_t n, kv_err *e)
{
    e = e ? e : &(kv_err){0};
    TRY(args_can(store, KV_CAN_DELETE, e));
    if (n < 0)
        return kv_err_set(e, KV_E_VALUE, "a call cannot have %lld keys", (long long)n);
    if (n > 0)
        TRY(arg_given(keys, "keys", e));
    for (int64_t i = 0; i < n; i++)
        TRY(call_check_key(&keys[i], keys, e));
    TRY(enter_slots(store, e));
    return store_leave(store, n > 0 ? delete_keys(store, keys, n, e) : KV_OK, e);
}

static int rename_key(kv *store, const kv_key *from, const kv_key *to, kv_err *e)
{
    noted x = note_begin();
    slot_table *t = &store->slots;
    int64_t number;
    TRY(find(t, from, -1, &number, e));
    TRY(slot_check_kind(t, to, e));
    if (slot_find(t, to, -1) >= 0)
        return slot_error(e, KV_E_KEY, to, NULL, "key %s is there already", SLOT_KEY(to));
    TRY(transaction_keep_keys(&store->open, t, e));
    note_end(&x, "rename", (kv_key[]){*from, *to}, 2);
    optimizer *o = store->updater.optimizer;
    optimizer_mark mark = {0};
    int rc = KV_OK;
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
    TRY(args_can(store, KV_CAN_DELETE, e));
    TRY(arg_given(from, "from", e));
    TRY(arg_given(to, "to", e));
    TRY(call_check_key(from, from, e));
    TRY(call_check_key(to, to, e));
    TRY(enter_slots(store, e));
    return store_leave(store, rename_key(store, from, to, e), e);
}
