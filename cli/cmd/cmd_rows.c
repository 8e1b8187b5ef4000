/* row-sparse-pull: rows by their ids. The lists of ids are made first, then the arrays that rows go
 * into; each of these gets a list of its own, that of its key, or the one list there is. */
#include <string.h>

#include "base/mem.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "cmd/pairs.h"
#include "out/record.h"
#include "session/unit.h"

/* ---- Row ids --------------------------------------------------------------------------------- */

/* The lists of --row-ids as arrays. */
typedef struct id_lists {
    kv_array **items;
    int64_t n, cap;
} id_lists;

static void id_lists_release(id_lists *l)
{
    for (int64_t i = 0; i < l->n; i++)
        kv_array_unref(l->items[i]);
    mem_free(l->items);
}

static bool is_number_list(value v)
{
    for (int64_t i = 0; i < v.u.list->n; i++)
        if (!value_is_number(v.u.list->items[i]))
            return false;
    return true;
}

static bool has_float(value v)
{
    bool found = v.kind == VALUE_FLOAT;
    for (int64_t i = 0; value_is_sequence(v) && i < v.u.list->n; i++)
        found |= v.u.list->items[i].kind == VALUE_FLOAT;
    return found;
}

/* Adds the lists of v: an array, a number or a list of numbers is one. */
static int add_lists(id_lists *l, value v, kv_err *e)
{
    kv_array *a;
    int code = value_descend(e);
    if (code)
        return code;
    if (value_is_sequence(v) && !is_number_list(v)) {
        for (int64_t i = 0; i < v.u.list->n && code == KV_OK; i++)
            code = add_lists(l, v.u.list->items[i], e);
        return code;
    }
    if (v.kind == VALUE_ARRAY)
        a = kv_array_ref(v.u.array);
    else if (value_is_number(v) || value_is_sequence(v))
        code = value_numbers_array(&a, v, has_float(v) ? KV_FLOAT64 : KV_INT64, (kv_ctx){0}, e);
    else
        code = kv_err_set(e, KV_E_DTYPE, "row ids are integers, not %s", value_kind_name(v));
    if (code == KV_OK && (code = mem_grow(&l->items, &l->cap, l->n + 1, sizeof *l->items, e)))
        kv_array_unref(a);
    if (code == KV_OK)
        l->items[l->n++] = a;
    return code;
}

/* The list of --row-ids for each of the pairs, in *out. */
static int match_lists(kv_array ***out, const id_lists *l, const key_list *keys, const pairs *p,
                       kv_err *e)
{
    int64_t a_key = keys->n > 0 ? p->n / keys->n : 1; /* arrays of each key, if all have as many */
    bool by_key = l->n == keys->n && p->n == a_key * keys->n;
    for (int64_t i = 0; i < p->n && by_key; i++)
        by_key = p->keys[i].name == keys->keys[i / a_key].name &&
                 p->keys[i].id == keys->keys[i / a_key].id;
    if (l->n != 1 && l->n != p->n && !by_key)
        return kv_err_set(e, KV_E_VALUE,
                          "there are %lld lists of row ids for %lld array%s of %lld key%s",
                          (long long)l->n, (long long)p->n, p->n == 1 ? "" : "s",
                          (long long)keys->n, keys->n == 1 ? "" : "s");
    kv_array **ids = mem_alloc(p->n, sizeof *ids, e);
    if (!ids)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < p->n; i++)
        ids[i] = l->items[l->n == 1 ? 0 : l->n == p->n ? i : i / a_key];
    *out = ids;
    return KV_OK;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* New row_sparse arrays like what a key holds, one on each of the contexts. */
static int new_rows(pairs *p, kv *store, kv_key key, value where, value *out, kv_err *e)
{
    kv_info info;
    bool list = value_is_sequence(where);
    int64_t n = list ? where.u.list->n : 1;
    int code = kv_await_key(store, &key, &info, e);
    if (code == KV_OK && list)
        code = value_list_new(out, VALUE_LIST, n, e);
    for (int64_t i = 0; i < n && code == KV_OK; i++) {
        kv_array *a;
        kv_ctx ctx = list ? where.u.list->items[i].u.ctx : where.u.ctx;
        /* a key of another storage is for the store to refuse, also one without an axis */
        code = info.ndim > 0
                   ? kv_array_new_sparse(&a, info.dtype, info.ndim, info.shape, 0, NULL, ctx, e)
                   : kv_array_new(&a, info.dtype, 0, NULL, ctx, e);
        if (code)
            break;
        if (list)
            out->u.list->items[i] = value_array(kv_array_ref(a));
        else
            *out = value_array(kv_array_ref(a));
        code = pairs_add(p, key, a, e);
    }
    return code;
}

static int new_arrays(session *s, kv *store, const ast *call, const key_list *keys, pairs *p,
                      result *out, kv_err *e)
{
    const ast *ctx = command_option_of(call, "ctx");
    value where = value_ctx((kv_ctx){0});
    int code = ctx ? eval_contexts(s, ctx, &where, e) : KV_OK;
    out->dense = true;
    out->has_key = !keys->list;
    out->key = keys->n > 0 ? keys->keys[0] : (kv_key){0};
    if (code == KV_OK && keys->list)
        code = result_for_keys(out, keys->n, e);
    for (int64_t i = 0; i < keys->n && code == KV_OK; i++) {
        if (keys->list)
            out->keys[i] = keys->keys[i];
        code = new_rows(p, store, keys->keys[i], where,
                        keys->list ? &out->v.u.list->items[i] : &out->v, e);
    }
    value_release(&where);
    return code;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int make_arrays(session *s, kv *store, const ast *call, const key_list *keys, pairs *p,
                       result *out, kv_err *e)
{
    const ast *into = command_option_of(call, "out");
    if (into && command_option_of(call, "ctx"))
        return unit_err(s, into, e, KV_E_USAGE, "--out keeps the devices of its arrays: no --ctx");
    return into ? pairs_into(p, s, into, keys, e) : new_arrays(s, store, call, keys, p, out, e);
}

/* An error of the call has the place of what is wrong: the ids, the array, or else the keys. */
static int place_error(session *s, const ast *call, kv *store, kv_err *e)
{
    const ast *at = call->kid[0], *into = command_option_of(call, "out");
    if (e->code == KV_E_INDEX || e->code == KV_E_DTYPE)
        at = command_option_of(call, "row-ids");
    else if (e->code == KV_E_SHAPE && into)
        at = into;
    else if (e->code == KV_E_KEY)
        pairs_suggest(store, e);
    return unit_at(s, at, e);
}

static int pull_rows(session *s, kv *store, const ast *call, const key_list *keys, result *out,
                     kv_err *e)
{
    const ast *ids_node = command_option_of(call, "row-ids");
    value ids = value_none();
    id_lists lists = {0};
    kv_array **each = NULL;
    pairs p = {0};
    kv_call how;
    int code = command_priority(s, call, &how, e);
    if (code == KV_OK && (code = eval(s, ids_node, &ids, e)) == KV_OK &&
        (code = add_lists(&lists, ids, e)))
        unit_at(s, ids_node, e);
    if (code == KV_OK && (code = make_arrays(s, store, call, keys, &p, out, e)) == KV_OK) {
        if ((code = match_lists(&each, &lists, keys, &p, e)))
            unit_at(s, ids_node, e);
        else
            code = kv_row_sparse_pull(store, p.keys, p.n, each, p.arrays, &how, e);
    }
    if (code)
        place_error(s, call, store, e);
    mem_free(each);
    pairs_release(&p);
    id_lists_release(&lists);
    value_release(&ids);
    return code;
}

int cmd_row_sparse_pull(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    key_list keys;
    int code;
    if ((code = session_store(s, &store, e)) ||
        /* a store that has no rows says so */
        (code = kv_row_sparse_pull(store, NULL, 0, NULL, NULL, NULL, e)) ||
        (code = eval_keys(s, call->kid[0], &keys, e)))
        return code;
    out->names = keys.names; /* the names of the result's keys */
    keys.names = (arena){0};
    if ((code = record_keys(s, out, keys.keys, keys.n, e)) == KV_OK)
        code = pull_rows(s, store, call, &keys, out, e);
    key_list_release(&keys);
    return code;
}
