/* Each check gives the first mistake, with the name of the argument. */
#include "entry.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/kv_assert.h"
#include "base/suggest.h"
#include "core/call.h"
#include "core/store.h"
#include "runtime.h"

/* ---- Capabilities: their names, and the test of a type's table for each ---- */

enum { NNAMES = 3 };

static const struct capability {
    const char *names[NNAMES]; /* the name, and other words for it */
    uint32_t bit;
    const char *plural; /* behind "stores of this type have no …" */
} table[] = {
    {{"init"}, CAN_INIT, "init"},
    {{"push"}, CAN_PUSH, "push"},
    {{"pull"}, CAN_PULL, "pull"},
    {{"pushpull"}, CAN_PUSHPULL, "pushpull"},
    {{"broadcast"}, CAN_BROADCAST, "broadcast"},
    {{"updater"}, CAN_RULES, "updater"},
    {{"optimizer"}, KV_CAN_OPTIMIZER, "optimizer"},
    {{"states"}, KV_CAN_STATES, "states of an optimizer"},
    {{"row_sparse", "sparse", "sparsity"}, KV_CAN_ROW_SPARSE, "row_sparse arrays"},
    {{"gradient_compression", "compression"}, KV_CAN_GRADIENT_COMPRESSION, "gradient compression"},
    {{"transactions"}, KV_CAN_TRANSACTIONS, "transactions"},
    {{"files"}, KV_CAN_FILES, "files"},
    {{"delete", "rename"}, KV_CAN_DELETE, "delete or rename"},
};

enum { NCAPABILITIES = sizeof table / sizeof *table };

static uint32_t all_of(const kv_type_ops *ops)
{
    uint32_t bits = ops->capabilities;
    bits |= ops->init ? CAN_INIT : 0;
    bits |= ops->push ? CAN_PUSH : 0;
    bits |= ops->pull ? CAN_PULL : 0;
    bits |= ops->pushpull || (ops->push && ops->pull) ? CAN_PUSHPULL : 0;
    bits |= ops->broadcast || (ops->init && ops->pull) ? CAN_BROADCAST : 0;
    return bits;
}

static char joined(char c)
{
    return c == '-' || c == ' ' ? '_' : c;
}

/* Returns true if two words are equal but for case, and for a blank, - or _ within them. */
static bool same_word(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        char x = joined(*a), y = joined(*b);
        if (strncasecmp(&x, &y, 1) != 0)
            return false;
    }
    return *a == *b;
}

const char *kv_capability(int i)
{
    return i >= 0 && i < NCAPABILITIES ? table[i].names[0] : NULL;
}

int kv_is_capable(const kv *store, const char *capability, bool *yes, kv_err *e)
{
    suggest near = {.word = capability};
    TRY(arg_given(capability, "capability", e));
    TRY(arg_given(yes, "yes", e));
    for (int i = 0; i < NCAPABILITIES; i++) {
        const struct capability *c = &table[i];
        for (int k = 0; k < NNAMES && c->names[k]; k++) {
            if (same_word(c->names[k], capability)) {
                bool of_slots = c->bit & (KV_CAN_TRANSACTIONS | KV_CAN_FILES | KV_CAN_DELETE);
                *yes = store && (all_of(store->ops) & c->bit) && (store->in_slots || !of_slots);
                return KV_OK;
            }
            suggest_add(&near, c->names[k]);
        }
    }
    kv_err_set(e, KV_E_USAGE, "there is no capability \"%.64s\"", capability);
    suggest_done(&near, e);
    kv_err_hint(e, "init, push, pull, pushpull, broadcast, updater, optimizer, states, row_sparse, "
                   "gradient_compression, transactions, files, delete");
    return KV_E_USAGE;
}

/* Appends the name of a type that can. */
typedef struct able {
    uint32_t bit;
    char list[200];
    int len;
} able;

static void add_able(void *arg, const kv_type_ops *ops)
{
    able *a = arg;
    int room = (int)sizeof a->list - a->len;
    if (!(all_of(ops) & a->bit))
        return;
    int n = snprintf(a->list + a->len, (size_t)room, "%s%s", a->len ? ", " : "", ops->names[0]);
    a->len += n < room ? n : room - 1;
}

static int refuse(const char *type, uint32_t bit, kv_err *e)
{
    able who = {.bit = bit};
    const char *what = "";
    for (int i = 0; i < NCAPABILITIES; i++)
        what = table[i].bit == bit ? table[i].plural : what;
    kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have no %s", type, what);
    runtime_each_type(add_able, &who);
    if (who.len)
        kv_err_hint(e, "types that have it: %s", who.list);
    return KV_E_UNSUPPORTED;
}

/* ---- Arguments ---- */

int args_store(const kv *store, kv_err *e)
{
    return store ? KV_OK : kv_err_set(e, KV_E_USAGE, "there is no store: the pointer is NULL");
}

int args_can(const kv *store, uint32_t capability, kv_err *e)
{
    int rc = args_store(store, e);
    return rc || all_of(store->ops) & capability ? rc : refuse(store->type, capability, e);
}

int args_pairs(const kv_pairs *p, const char *keys_are, const char *arrays_are, kv_err *e)
{
    if (p->n < 0)
        return kv_err_set(e, KV_E_VALUE, "a call cannot have %lld keys", (long long)p->n);
    if (p->n > 0) {
        TRY(arg_given(p->keys, keys_are, e));
        TRY(arg_given(p->arrays, arrays_are, e));
    }
    return call_check_form(p, e);
}

int args_options(const kv_opt *opts, int n, const char *opts_are, kv_err *e)
{
    if (n < 0)
        return kv_err_set(e, KV_E_VALUE, "a call cannot have %d options", n);
    TRY(n > 0 ? arg_given(opts, opts_are, e) : KV_OK);
    for (int i = 0; i < n; i++) {
        if (!opts[i].name || !opts[i].value)
            return kv_err_set(e, KV_E_USAGE, "option %d has no %s (NULL)", i + 1,
                              opts[i].name ? "value" : "name");
    }
    return KV_OK;
}

int enter(const entry *x, const kv *store, const kv_pairs *p, const kv_pairs *more,
          const kv_call *how, kv_err *e)
{
    if (how && how->flags & ~x->flags)
        return kv_err_set(e, KV_E_VALUE, "this call has no flags 0x%x", how->flags & ~x->flags);
    TRY(x->can ? args_can(store, x->can, e) : args_store(store, e));
    TRY(args_pairs(p, "keys", x->arrays, e));
    if (!more || more == p)
        return KV_OK;
    TRY(args_pairs(more, "okeys", "outs", e));
    return p->n > 0 || more->n == 0
               ? KV_OK
               : kv_err_set(e, KV_E_VALUE, "there are %lld arrays for results, but no values",
                            (long long)more->n);
}

/* ---- The lock ---- */

int store_lock_init(pthread_mutex_t *lock, kv_err *e)
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

static int refuse_updater(kv_err *e)
{
    return kv_err_set(e, KV_E_USAGE,
                      "an updater or printer may ask its own store only for type and rank");
}

int store_look(const kv *store, kv_err *e)
{
    TRY(args_store(store, e));
    TRY(kv_assert_check(KV_OK, e));
    const kv *from = runtime_updater();
    if (engine_running() == &store->calls.group || from == store)
        return refuse_updater(e);
    return from ? runtime_order(from, store, e) : KV_OK;
}

/* Returns 0, EDEADLK, or ETIMEDOUT when the patience of this thread has ended. It asks again and
 * again: pthread_mutex_timedlock waits by a clock that may be set meanwhile, and the sanitizers do
 * not know pthread_mutex_clocklock. */
static int lock(pthread_mutex_t *m)
{
    const struct timespec at_once = {0}, pause = {.tv_nsec = 1000000};
    int ms = runtime_patience(), rc;
    if (ms < 0)
        return pthread_mutex_lock(m);
    int64_t end = clock_ms() + ms;
    while ((rc = pthread_mutex_timedlock(m, &at_once)) == ETIMEDOUT && clock_ms() < end)
        nanosleep(&pause, NULL);
    return rc;
}

int store_enter_keys(const kv *store, kv_err *e)
{
    TRY(store_look(store, e));
    int why = lock((pthread_mutex_t *)&store->lock);
    if (why == ETIMEDOUT)
        return kv_err_set(e, KV_E_BUSY, "another thread is in a call of the store, and waits");
    return why == EDEADLK ? refuse_updater(e) : KV_OK;
}

int store_enter(const kv *store, kv_err *e)
{
    int rc = store_enter_keys(store, e);
    if (rc == KV_OK && store->slots.ngone > 0) {
        engine_wait_group((engine_group *)&store->calls.group, 0); /* they know slots by number */
        slot_settle((slot_table *)&store->slots);
    }
    return rc;
}

int store_enter_idle(kv *store, kv_err *e)
{
    int rc = store_enter(store, e);
    if (rc == KV_OK)
        engine_wait_group(&store->calls.group, 0);
    return rc;
}

bool store_enter_or_warn(const kv *store, const char *function)
{
    kv_err e = {0};
    if (store_enter_keys(store, &e) == KV_OK)
        return true;
    runtime_log("%s does nothing: %s", function, e.text);
    return false;
}

int store_leave(const kv *store, int rc, kv_err *e)
{
    pthread_mutex_unlock((pthread_mutex_t *)&store->lock);
    return kv_assert_check(rc, e);
}

int store_visit_states(kv *store, kv_states_visit why, int (*use)(void *arg, kv_err *e), void *arg,
                       kv_err *e)
{
    e = e ? e : &(kv_err){0};
    TRY(store_enter_idle(store, e));
    int rc = store->ops->visit_states ? store->ops->visit_states(store->self, why, use, arg, e)
                                      : use(arg, e);
    return store_leave(store, rc, e);
}
