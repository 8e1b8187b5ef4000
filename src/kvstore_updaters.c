/* What a store does with a push: updaters, optimizers, rules and what they print, and gradient
 * compression. */
#include "kvstore.h"

#include <stdio.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "clip_norm.h"
#include "core/optimizer.h"
#include "entry.h"
#include "runtime.h"
#include "vm/rule.h"

bool kv_keep_states(kv *store, bool keep)
{
    if (!store_enter_or_warn(store, "kv_keep_states"))
        return false;
    bool before = store->keeps_states;
    store->keeps_states = keep;
    store_leave(store, KV_OK, NULL);
    return before;
}

int64_t kv_states_dropped(const kv *store)
{
    if (!store_enter_or_warn(store, "kv_states_dropped"))
        return 0;
    int64_t n = store->dropped;
    store_leave(store, KV_OK, NULL);
    return n;
}

/* Puts next in the place of the updater. Counts and states start again, unless this is the rule
 * that a file brought. by_name: the rule is an optimizer of the library. The old updater is
 * released when the lock is free, because its done function is the caller's code. */
static int replace_updater(kv *store, updater next, bool by_name, kv_err *e)
{
    char before[96], now[96];
    int rc = store_enter_idle(store, e);
    if (rc) {
        next.done = NULL; /* it was not set, so the caller still owns arg */
        updater_release(&next);
        return rc;
    }
    updater old = store->updater;
    bool rules = old.kind == UPDATER_RULE && next.kind == UPDATER_RULE;
    bool same = rules && optimizer_continues(next.optimizer, old.optimizer, by_name);
    bool goes_on = store->keeps_states && same;
    if (goes_on)
        optimizer_continue(next.optimizer, old.optimizer);
    store->dropped = 0;
    for (int64_t i = 0; i < store->slots.n && !goes_on; i++) {
        const slot_state *s = store->slots.items[i].state;
        store->dropped += s && (s->have || s->master);
        slot_forget(&store->slots.items[i]);
    }
    store->keeps_states = false;
    store->updater = next;
    store->changes++;
    snprintf(before, sizeof before, "%s", updater_name(&old));
    snprintf(now, sizeof now, "%s", updater_name(&next));
    bool kept = transaction_keep_updater(&store->open, &old);
    runtime_forget_order(store, false);
    rc = store_leave(store, KV_OK, e);
    /* where they are the same, only their place in time differs */
    bool other = !same && strcmp(before, now) == 0;
    if (store->dropped > 0 && kv_rank(store) == 0)
        runtime_log(KV_LOG_NOTE "drops the states of %lld key%s: %s before, %s%s now",
                    (long long)store->dropped, store->dropped == 1 ? "" : "s", before,
                    other ? "another " : "", now);
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
    return kv_err_hint(e, "kv_set_rule sets one"), KV_E_UNSUPPORTED;
}

/* A function of the program as an updater, and the store that it is of. */
typedef struct callback {
    kv *store;
    kv_updater update;
    void *arg;
    void (*done)(void *arg);
} callback;

static int run_callback(void *arg, const kv_key *key, kv_array *input, kv_array *stored, kv_err *e)
{
    const callback *c = arg;
    const kv *before = runtime_set_updater(c->store);
    int rc = c->update(c->arg, key, input, stored, e);
    runtime_set_updater(before);
    return rc;
}

static void release_callback(void *arg)
{
    callback *c = arg;
    if (c->done)
        c->done(c->arg);
    mem_free(c);
}

int kv_set_updater(kv *store, kv_updater update, void *arg, void (*done)(void *arg), kv_err *e)
{
    int rc = update ? need_callbacks(store, e) : KV_OK;
    callback *made = update && !rc ? mem_alloc(1, sizeof *made, e) : NULL;
    if (update && !rc && !made)
        return KV_E_MEMORY;
    if (!rc && !update && (rc = store_enter_idle(store, e)) == KV_OK)
        rc = store_leave(store, tell_type(store, "assign", "", NULL, 0, e), e);
    if (rc)
        return rc;
    if (!made)
        return replace_updater(store, (updater){.kind = UPDATER_ASSIGN}, false, e);
    *made = (callback){store, update, arg, done};
    rc = replace_updater(
        store,
        (updater){
            .kind = UPDATER_CALLBACK, .call = run_callback, .arg = made, .done = release_callback},
        false, e);
    if (rc) /* arg stays the caller's */
        mem_free(made);
    return rc;
}

int kv_update_optimizer(kv *store, const kv_opt *params, int nparams, kv_err *e)
{
    e = e ? e : &(kv_err){0};
    TRY(args_can(store, KV_CAN_OPTIMIZER, e));
    TRY(args_options(params, nparams, "params", e));
    TRY(store_enter_idle(store, e));
    int rc = KV_OK;
    for (int i = 0; i < nparams && !rc; i++)
        if (rule_base_find(params[i].name) == RULE_CLIP_GLOBAL_NORM &&
            strcmp(params[i].value, "none") != 0)
            rc = clip_norm_check(store, e);
    if (rc)
        return store_leave(store, rc, e);
    if (store->updater.kind == UPDATER_RULE) {
        rc = optimizer_change(store->updater.optimizer, params, nparams, e);
        if (!rc)
            rc = tell_type(store, "update", "", params, nparams, e);
    } else {
        kv_err_set(e, KV_E_VALUE, "no optimizer is in use");
        kv_err_hint(e, "kv_set_optimizer sets one");
        rc = KV_E_VALUE;
    }
    store->changes += rc == KV_OK;
    return store_leave(store, rc, e);
}

static int refuse_rule(const kv *store, kv_err *e)
{
    if (!store->compression.pull)
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED,
               "what is pulled is compressed, which goes without an updater only");
    kv_err_hint(e, "kv_set_gradient_compression without pull compresses the pushes alone");
    return KV_E_UNSUPPORTED;
}

/* name: of an optimizer of the library, or NULL. */
static int set_rule(kv *store, const kv_rule *rule, const char *name, const kv_opt *params,
                    int nparams, kv_err *e)
{
    own_updater next = {0};
    TRY(updater_init_rule(&next, rule, params, nparams, e));
    TRY(optimizer_check(next.optimizer, e));
    TRY(store_enter(store, e));
    int rc = refuse_rule(store, e);
    if (!rc && next.optimizer->clip_norm > 0)
        rc = clip_norm_check(store, e);
    if (!rc)
        rc = tell_type(store, name ? "optimizer" : "rule", name ? name : rule->text, params,
                       nparams, e);
    TRY(store_leave(store, rc, e));
    updater given = next;
    next = (updater){0};
    return replace_updater(store, given, name != NULL, e);
}

int kv_set_optimizer(kv *store, const char *name, const kv_opt *params, int nparams, kv_err *e)
{
    kv_rule *rule;
    e = e ? e : &(kv_err){0};
    TRY(args_can(store, KV_CAN_OPTIMIZER, e));
    TRY(arg_given(name, "name", e));
    TRY(args_options(params, nparams, "params", e));
    TRY(builtin_rule(&rule, name, e));
    int rc = set_rule(store, rule, name, params, nparams, e);
    kv_rule_free(rule);
    return rc;
}

int kv_set_rule(kv *store, const kv_rule *rule, const kv_opt *params, int nparams, kv_err *e)
{
    e = e ? e : &(kv_err){0};
    TRY(args_can(store, CAN_RULES, e));
    TRY(arg_given(rule, "rule", e));
    TRY(args_options(params, nparams, "params", e));
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
    e = e ? e : &(kv_err){0};
    TRY(args_store(store, e));
    TRY(args_options(params, nparams, "params", e));
    TRY(store_enter(store, e));
    int rc = KV_OK;
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
