/* A key may have several arrays, which share its round. Pairs stand in the order of the keys. */
#include "cmd/since.h"

#include "base/map.h"
#include "base/mem.h"
#include "session/unit.h"
#include "syntax/command.h"

int since_check(session *s, const ast *call, kv_err *e)
{
    const ast *since = command_option_of(call, "since");
    if (!since)
        return KV_OK;
    if (!command_option_of(call, "out")) {
        unit_err(s, since, e, KV_E_USAGE, "--since needs --out, the arrays that hold the round");
        return kv_err_hint(e, "none at first: pull KEYS --out w --since none -> r"), KV_E_USAGE;
    }
    if (command_option_of(call, "ignore-sparse"))
        return unit_err(s, since, e, KV_E_USAGE, "--since fills no row_sparse arrays");
    return KV_OK;
}

/* A round as the store has it. */
static int read_round(value v, int64_t *round, kv_err *e)
{
    *round = KV_NO_ROUND;
    if (v.kind == VALUE_NONE)
        return KV_OK;
    if (v.kind != VALUE_INT)
        return kv_err_set(e, KV_E_DTYPE, "a round is a number or none, not %s", value_kind_name(v));
    if (v.u.integer < 0)
        return kv_err_set(e, KV_E_VALUE, "a round is a number from 0 on, not %lld",
                          (long long)v.u.integer);
    *round = v.u.integer;
    return KV_OK;
}

/* The number of the key of pair i, where the pair before it has key number k. */
static int64_t key_at(const key_list *keys, const pairs *p, int64_t i, int64_t k)
{
    while (k + 1 < keys->n && !map_same_key(&keys->keys[k], &p->keys[i]))
        k++;
    return k;
}

static int read_rounds(value v, const key_list *keys, const pairs *p, int64_t *rounds, kv_err *e)
{
    bool several = value_is_sequence(v);
    int code = KV_OK;
    if (several && !keys->list)
        return kv_err_set(e, KV_E_VALUE, "one key has one round, not a list of them");
    if (several && v.u.list->n != keys->n)
        return kv_err_set(e, KV_E_VALUE, "%lld round%s stand%s for %lld key%s",
                          (long long)v.u.list->n, v.u.list->n == 1 ? "" : "s",
                          v.u.list->n == 1 ? "s" : "", (long long)keys->n,
                          keys->n == 1 ? "" : "s");
    for (int64_t i = 0, k = 0; i < p->n && code == KV_OK; i++) {
        k = key_at(keys, p, i, k);
        code = read_round(several ? v.u.list->items[k] : v, &rounds[i], e);
    }
    return code;
}

static int give_rounds(const key_list *keys, const pairs *p, const int64_t *rounds, result *out,
                       kv_err *e)
{
    if (!keys->list) {
        out->v = value_int(rounds[0]);
        return KV_OK;
    }
    int code = result_for_keys(out, keys->n, e);
    for (int64_t i = 0, k = 0; i < p->n && code == KV_OK; i++) {
        k = key_at(keys, p, i, k);
        out->v.u.list->items[k] = value_int(rounds[i]);
    }
    for (int64_t k = 0; k < keys->n && code == KV_OK; k++) {
        out->keys[k] = keys->keys[k];
        if (out->v.u.list->items[k].kind == VALUE_NONE && k > 0) /* a key that stands twice */
            out->v.u.list->items[k] = value_int(out->v.u.list->items[k - 1].u.integer);
    }
    return code;
}

int since_pull(session *s, const ast *call, kv *store, const key_list *keys, const pairs *p,
               const kv_call *how, result *out, kv_err *e)
{
    const ast *since = command_option_of(call, "since");
    value v = value_none();
    int64_t *rounds = mem_alloc(p->n, sizeof *rounds, e);
    int code = rounds ? eval(s, since, &v, e) : KV_E_MEMORY;
    if (code == KV_OK)
        code = read_rounds(v, keys, p, rounds, e);
    if (code == KV_OK)
        code = kv_pull_since(store, p->keys, p->n, p->arrays, rounds, how, e);
    if (code == KV_E_VALUE || code == KV_E_DTYPE)
        unit_at(s, since, e);
    if (code == KV_OK && p->n > 0)
        code = give_rounds(keys, p, rounds, out, e);
    value_release(&v);
    mem_free(rounds);
    return code;
}
