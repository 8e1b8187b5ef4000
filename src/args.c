/* Each check gives the first mistake, with the name of the argument. */
#include "args.h"

#include "base/kv_assert.h"
#include "capability.h"
#include "core/call.h"
#include "core/store.h"

int args_store(const kv *store, kv_err *e)
{
    return store ? KV_OK : kv_err_set(e, KV_E_USAGE, "there is no store: the pointer is NULL");
}

int args_can(const kv *store, uint32_t capability, kv_err *e)
{
    int rc = args_store(store, e);
    return rc ? rc : capability_need(store->ops, store->type, capability, e);
}

int args_pairs(const kv_pairs *p, const char *keys_are, const char *arrays_are, kv_err *e)
{
    if (p->n < 0)
        return kv_err_set(e, KV_E_VALUE, "a call cannot have %lld keys", (long long)p->n);
    int rc = p->n > 0 ? arg_given(p->keys, keys_are, e) : KV_OK;
    if (p->n > 0 && rc == KV_OK)
        rc = arg_given(p->arrays, arrays_are, e);
    return rc ? rc : call_check_form(p, e);
}

int args_options(const kv_opt *opts, int n, const char *opts_are, kv_err *e)
{
    if (n < 0)
        return kv_err_set(e, KV_E_VALUE, "a call cannot have %d options", n);
    int rc = n > 0 ? arg_given(opts, opts_are, e) : KV_OK;
    for (int i = 0; i < n && rc == KV_OK; i++) {
        if (!opts[i].name || !opts[i].value)
            rc = kv_err_set(e, KV_E_USAGE, "option %d has no %s (NULL)", i + 1,
                            opts[i].name ? "value" : "name");
    }
    return rc;
}

int enter(const entry *x, const kv *store, const kv_pairs *p, const kv_pairs *more,
          const kv_call *how, kv_err *e)
{
    int rc;
    if (how && how->flags & ~x->flags)
        return kv_err_set(e, KV_E_VALUE, "this call has no flags 0x%x", how->flags & ~x->flags);
    if ((rc = x->can ? args_can(store, x->can, e) : args_store(store, e)) ||
        (rc = args_pairs(p, "keys", x->arrays, e)) || !more || more == p ||
        (rc = args_pairs(more, "okeys", "outs", e)))
        return rc;
    return p->n > 0 || more->n == 0
               ? KV_OK
               : kv_err_set(e, KV_E_VALUE, "there are %lld arrays for results, but no values",
                            (long long)more->n);
}
