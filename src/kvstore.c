/* The public entry points: they check the form of a call, take the store's lock, and hand the call
 * to the store's type. */
#include "kvstore.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "core/builtin.h"
#include "core/call.h"
#include "core/state_file.h"
#include "core/store.h"
#include "core/store_file.h"
#include "runtime.h"

const char *kv_version(void)
{
    return KV_VERSION;
}

/* ---- The lock ---- */

/* Other locks may be taken for ever by one thread; this one tells, so that an updater that uses its
 * own store gets an error and not a standstill. */
static int init_lock(pthread_mutex_t *lock, kv_err *e)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);
    if (rc == 0) {
        pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
        rc = pthread_mutex_init(lock, &attr);
        pthread_mutexattr_destroy(&attr);
    }
    return rc ? kv_err_set(e, KV_E_MEMORY, "no memory for a lock") : KV_OK;
}

static int enter(const kv *store, kv_err *e)
{
    if (!store)
        return kv_err_set(e, KV_E_USAGE, "there is no store: the pointer is NULL");
    if (pthread_mutex_lock((pthread_mutex_t *)&store->lock) == EDEADLK)
        return kv_err_set(e, KV_E_USAGE,
                          "an updater or printer may ask its own store only for type and rank");
    return KV_OK;
}

/* For functions that cannot return an error. */
static bool enter_or_warn(const kv *store, const char *function)
{
    if (enter(store, NULL) == KV_OK)
        return true;
    runtime_log(
        "%s does nothing: an updater or printer may ask its own store only for type and rank",
        function);
    return false;
}

static int leave(const kv *store, int rc)
{
    pthread_mutex_unlock((pthread_mutex_t *)&store->lock);
    return rc;
}

/* ---- Stores ---- */

int kv_create(const char *type, const kv_opt *opts, int nopts, kv **store, kv_err *e)
{
    const char *name = type ? type : "local";
    const kv_type_ops *ops;
    int rc = runtime_find_type(&name, &ops, e);
    if (rc)
        return rc;
    kv *s = mem_zalloc(1, sizeof *s, e);
    if (!s)
        return KV_E_MEMORY;
    s->ops = ops;
    s->type = name;
    rc = init_lock(&s->lock, e);
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
    if (!store || !enter_or_warn(store, "kv_free"))
        return;
    leave(store, KV_OK);
    if (store->ops->close)
        store->ops->close(store->self);
    updater before;
    transaction_commit(&store->open, &before);
    updater_release(&before);
    slot_table_release(&store->slots);
    updater_release(&store->updater);
    arena_release(&store->remarks);
    apply_work_release(&store->work);
    call_room_release(&store->room);
    pthread_mutex_destroy(&store->lock);
    mem_free(store);
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

typedef int operation(void *self, const kv_key *keys, int64_t n, kv_array *const *arrays,
                      const kv_call *how, kv_err *e);

static int checked(kv *store, operation *op, const kv_key *keys, int64_t n, kv_array *const *arrays,
                   const kv_call *how, kv_err *e)
{
    if (n < 0)
        return kv_err_set(e, KV_E_VALUE, "a call cannot have %lld keys", (long long)n);
    if (how && how->flags)
        return kv_err_set(e, KV_E_VALUE, "this version knows no flags of a call, not even 0x%x",
                          how->flags);
    kv_err unused = {0};
    e = e ? e : &unused; /* what adds the key to an error returns the error's code */
    int rc = call_check_form(keys, n, arrays, e);
    if (rc || n == 0 || (rc = enter(store, e)))
        return rc;
    rc = op(store->self, keys, n, arrays, how, e);
    call_room_trim(&store->room);
    return leave(store, rc);
}

int kv_init(kv *store, const kv_key *keys, int64_t n, kv_array *const *values, const kv_call *how,
            kv_err *e)
{
    return checked(store, store->ops->init, keys, n, values, how, e);
}

int kv_push(kv *store, const kv_key *keys, int64_t n, kv_array *const *values, const kv_call *how,
            kv_err *e)
{
    return checked(store, store->ops->push, keys, n, values, how, e);
}

int kv_pull(kv *store, const kv_key *keys, int64_t n, kv_array *const *outs, const kv_call *how,
            kv_err *e)
{
    return checked(store, store->ops->pull, keys, n, outs, how, e);
}

int kv_wait(kv *store, kv_err *e)
{
    /* Every operation ended before its call returned; to have entered means that none runs now. */
    int rc = enter(store, e);
    return rc ? rc : leave(store, KV_OK);
}

static void fill_info(kv_info *info, const slot *s)
{
    const kv_array *a = s->stored;
    *info = (kv_info){.key = s->key,
                      .dtype = kv_array_dtype(a),
                      .ndim = kv_array_ndim(a),
                      .shape = kv_array_shape(a),
                      .ctx = kv_array_ctx(a),
                      .bytes = kv_array_bytes(a),
                      .pushes = s->pushes,
                      .storage = kv_array_storage(a)};
}

int kv_find(kv *store, const kv_key *key, kv_info *info, kv_err *e)
{
    int64_t number;
    int rc = enter(store, e);
    if (rc)
        return rc;
    rc = call_find(&store->slots, key, -1, &number, e);
    if (rc == KV_OK)
        fill_info(info, &store->slots.items[number]);
    return leave(store, rc);
}

int64_t kv_num_keys(const kv *store)
{
    if (!enter_or_warn(store, "kv_num_keys"))
        return 0;
    int64_t n = store->slots.n;
    leave(store, KV_OK);
    return n;
}

int kv_info_at(kv *store, int64_t i, kv_info *info, kv_err *e)
{
    int64_t number;
    int rc = enter(store, e);
    if (rc)
        return rc;
    if (i < 0 || i >= store->slots.n)
        rc = kv_err_set(e, KV_E_INDEX, "there is no key number %lld, the store has %lld",
                        (long long)i, (long long)store->slots.n);
    else
        rc = slot_in_order(&store->slots, i, &number, e);
    if (rc == KV_OK)
        fill_info(info, &store->slots.items[number]);
    return leave(store, rc);
}

/* ---- Updaters ---- */

/* Puts next in the place of the updater, whose counts start again. The old one is released when the
 * lock is free, because its done function is the caller's code. */
static int replace_updater(kv *store, updater next, kv_err *e)
{
    int rc = enter(store, e);
    if (rc) {
        next.done = NULL; /* the caller still owns what was not set */
        updater_release(&next);
        return rc;
    }
    updater old = store->updater;
    store->updater = next;
    store->changes++;
    for (int64_t i = 0; i < store->slots.n; i++)
        slot_forget(&store->slots.items[i]);
    bool kept = transaction_keep_updater(&store->open, &old);
    leave(store, KV_OK);
    if (!kept)
        updater_release(&old);
    return KV_OK;
}

int kv_set_updater(kv *store, kv_updater update, void *arg, void (*done)(void *arg), kv_err *e)
{
    updater next = {.kind = update ? UPDATER_CALLBACK : UPDATER_ASSIGN,
                    .call = update,
                    .arg = arg,
                    .done = update ? done : NULL};
    return replace_updater(store, next, e);
}

int kv_update_optimizer(kv *store, const kv_opt *params, int nparams, kv_err *e)
{
    int rc = enter(store, e);
    if (rc)
        return rc;
    if (store->updater.kind == UPDATER_RULE)
        rc = optimizer_change(store->updater.optimizer, params, nparams, e);
    else
        rc = kv_err_set(e, KV_E_USAGE, "no optimizer is in use");
    store->changes += rc == KV_OK;
    return leave(store, rc);
}

int kv_set_optimizer(kv *store, const char *name, const kv_opt *params, int nparams, kv_err *e)
{
    kv_rule *rule;
    int rc = builtin_rule(&rule, name, e);
    if (rc == KV_OK) {
        rc = kv_set_rule(store, rule, params, nparams, e);
        kv_rule_free(rule);
    }
    return rc;
}

int kv_set_rule(kv *store, const kv_rule *rule, const kv_opt *params, int nparams, kv_err *e)
{
    updater next;
    int rc = updater_init_rule(&next, rule, params, nparams, e);
    return rc ? rc : replace_updater(store, next, e);
}

void kv_set_print(kv *store, void (*print)(void *arg, const char *line), void *arg)
{
    if (!enter_or_warn(store, "kv_set_print"))
        return;
    store->print.line = print;
    store->print.arg = arg;
    leave(store, KV_OK);
}

void kv_set_print_arrays(kv *store, kv_show show, void *arg)
{
    if (!enter_or_warn(store, "kv_set_print_arrays"))
        return;
    store->print.show = show;
    store->print.show_arg = arg;
    leave(store, KV_OK);
}

/* ---- Transactions ---- */

int kv_begin(kv *store, kv_err *e)
{
    int rc = enter(store, e);
    if (rc)
        return rc;
    if (!store->in_slots) {
        rc = kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have no transactions",
                        store->type);
    } else if (store->open.is_open) {
        rc = kv_err_set(e, KV_E_VALUE, "a transaction is open already, and they do not nest");
        kv_err_hint(e, "commit or rollback ends it");
    } else {
        rc = transaction_begin(&store->open, &store->slots, &store->updater, store->changes, e);
    }
    return leave(store, rc);
}

/* What follows `enter` in commit and rollback. */
static int check_open(const kv *store, kv_err *e)
{
    if (store->open.is_open)
        return KV_OK;
    kv_err_set(e, KV_E_VALUE, "no transaction is open");
    kv_err_hint(e, "begin opens one");
    return KV_E_VALUE;
}

int kv_commit(kv *store, kv_err *e)
{
    updater gone = {0};
    int rc = enter(store, e);
    if (rc)
        return rc;
    if ((rc = check_open(store, e)) == KV_OK)
        transaction_commit(&store->open, &gone);
    leave(store, rc);
    updater_release(&gone); /* its done function is the caller's code */
    return rc;
}

int kv_rollback(kv *store, kv_err *e)
{
    updater gone = {0};
    int rc = enter(store, e);
    if (rc)
        return rc;
    if ((rc = check_open(store, e)) == KV_OK)
        transaction_rollback(&store->open, &store->slots, &store->updater, &store->changes, &gone);
    leave(store, rc);
    updater_release(&gone);
    return rc;
}

bool kv_in_transaction(const kv *store)
{
    if (!enter_or_warn(store, "kv_in_transaction"))
        return false;
    bool open = store->open.is_open;
    leave(store, KV_OK);
    return open;
}

uint64_t kv_changes(const kv *store)
{
    if (!enter_or_warn(store, "kv_changes"))
        return 0;
    uint64_t n = store->changes;
    leave(store, KV_OK);
    return n;
}

/* ---- Files ---- */

/* Writes an image that was taken under the lock, and releases it. */
static int write_image(image *im, const char *path, kv_err *e)
{
    int rc = image_write(im, path, e);
    image_release(im);
    return rc;
}

int kv_save(kv *store, const char *path, kv_err *e)
{
    image im;
    int rc = enter(store, e);
    if (rc == KV_OK)
        rc = leave(store, store_file_take(&im, store, e));
    return rc ? rc : write_image(&im, path, e);
}

int kv_load(kv **store, const char *path, kv_err *e)
{
    store_file f;
    kv *made = NULL;
    kv_err why = {0}, unused = {0};
    e = e ? e : &unused;
    int rc = store_file_open(&f, path, e);
    if (rc)
        return rc;
    if ((rc = kv_create(f.type, NULL, 0, &made, &why))) {
        kv_err_set(e, (kv_code)rc, "%s: %s", path, why.text);
        if (why.hint[0])
            kv_err_hint(e, "%s", why.hint);
    } else if ((rc = store_file_fill(&f, made, e))) {
        kv_free(made);
    } else {
        *store = made;
    }
    store_file_close(&f);
    return rc;
}

int kv_save_states(kv *store, const char *path, uint32_t flags, kv_err *e)
{
    image im;
    if (flags & ~KV_DUMP_OPTIMIZER)
        return kv_err_set(e, KV_E_VALUE, "kv_save_states has no flags 0x%x", flags);
    int rc = enter(store, e);
    if (rc == KV_OK)
        rc = leave(store, state_file_take(&im, store, flags, e));
    return rc ? rc : write_image(&im, path, e);
}

int kv_load_states(kv *store, const char *path, kv_err *e)
{
    safetensors *f;
    updater gone = {0};
    kv_err unused = {0};
    e = e ? e : &unused;
    int rc = safetensors_open(&f, path, e);
    if (rc)
        return rc;
    if ((rc = enter(store, e)) == KV_OK)
        rc = leave(store, state_file_load(store, f, path, &gone, e));
    safetensors_close(f);
    updater_release(&gone);
    return rc;
}

/* ---- Descriptions ---- */

static int describe_store(kv *store, kv_visitor visit, void *arg, kv_err *e)
{
    char name[96];
    int64_t bytes = 0;
    int rc = enter(store, e);
    if (rc)
        return rc;
    int64_t nkeys = store->slots.n;
    for (int64_t i = 0; i < nkeys; i++)
        bytes += kv_array_bytes(store->slots.items[i].stored);
    snprintf(name, sizeof name, "%s", updater_name(&store->updater));
    leave(store, KV_OK);
    kv_field fields[] = {{.name = "type", .text = kv_type(store)},
                         {.name = "rank", .number = kv_rank(store)},
                         {.name = "num_workers", .number = kv_num_workers(store)},
                         {.name = "updater", .text = name},
                         {.name = "keys", .number = nkeys},
                         {.name = "bytes", .number = bytes}};
    return visit(arg, fields, sizeof fields / sizeof *fields, e);
}

int kv_describe(kv *store, const char *topic, kv_visitor visit, void *arg, kv_err *e)
{
    if (strcmp(topic, "types") == 0)
        return runtime_describe_types(visit, arg, e);
    if (strcmp(topic, "store") == 0 && store)
        return describe_store(store, visit, arg, e);
    kv_err_set(e, KV_E_USAGE, "there is no description of \"%.64s\"", topic);
    kv_err_hint(e, store ? "types, store" : "types");
    return KV_E_USAGE;
}
