/* row-sparse-pull: rows by their ids. The lists of ids are made first, then the arrays that rows go
 * into; each of these gets a list of its own, that of its key, or the one list there is. */
#include <string.h>

#include "base/mem.h"
#include "cmd/commands.h"
#include "cmd/pairs.h"
#include "eval/eval.h"
#include "out/record.h"
#include "session/containers.h"
#include "session/unit.h"

/* ---- Row ids --------------------------------------------------------------------------------- */

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
static int add_lists(value_stack *l, value v, kv_err *e)
{
    kv_array *a;
    value ids;
    int code = value_descend(e);
    if (code)
        return code;
    if (value_is_sequence(v) && !is_number_list(v)) {
        for (int64_t i = 0; i < v.u.list->n && code == KV_OK; i++)
            code = add_lists(l, v.u.list->items[i], e);
        return code;
    }
    if (v.kind == VALUE_ARRAY)
        a = kv_array_ref(v.u.box->array);
    else if (value_is_number(v) || value_is_sequence(v))
        code = value_numbers_array(&a, v, has_float(v) ? KV_FLOAT64 : KV_INT64, (kv_ctx){0}, e);
    else
        code = kv_err_set(e, KV_E_DTYPE, "row ids are integers, not %s", value_kind_name(v));
    if (code || (code = value_array(&ids, a, e)))
        return code;
    return value_stack_add(l, ids, e);
}

/* The list of --row-ids for each of the pairs, in *out. */
static int match_lists(kv_array ***out, const value_stack *l, const key_list *keys, const pairs *p,
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
        ids[i] = l->items[l->n == 1 ? 0 : l->n == p->n ? i : i / a_key].u.box->array;
    *out = ids;
    return KV_OK;
}

/* ---- The command ----------------------------------------------------------------------------- */

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
    value_stack lists = {0};
    kv_array **each = NULL;
    pairs p = {0};
    kv_call how;
    int code = command_priority(s, call, &how, e);
    if (code == KV_OK && (code = eval(s, ids_node, &ids, e)) == KV_OK &&
        (code = add_lists(&lists, ids, e)))
        unit_at(s, ids_node, e);
    out->dense = !command_option_of(call, "out");
    if (code == KV_OK && (code = pairs_outs(&p, s, store, call, keys, true, out, e)) == KV_OK) {
        if ((code = match_lists(&each, &lists, keys, &p, e)))
            unit_at(s, ids_node, e);
        else
            code = kv_row_sparse_pull(store, p.keys, p.n, each, p.arrays, &how, e);
    }
    if (code)
        place_error(s, call, store, e);
    mem_free(each);
    pairs_release(&p);
    value_stack_release(&lists);
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
