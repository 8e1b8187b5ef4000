/* The public functions on a store as a whole: its begin and end, waiting, other ranks,
 * transactions. Like those of kvstore_*.c they check the form of a call, take the store's lock, and
 * hand the call to the type of the store. */
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

/* A whole number of a variable of the environment; -1: it has none. */
static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    size_t n = text ? strlen(text) : 0;
    return n > 0 && n < 8 && strspn(text, "0123456789") == n ? atoi(text) : -1;
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
    int rc = store_enter_keys(store, e);
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
    if ((rc = store_enter_keys(store, e)))
        return rc;
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
        store->open.keeps_states = store->keeps_states;
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
        store->keeps_states = store->open.keeps_states;
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
