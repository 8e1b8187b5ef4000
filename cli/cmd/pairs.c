/* Keys with arrays. */
#include "cmd/pairs.h"

#include <string.h>

#include "base/suggest.h"
#include "syntax/command.h"
#include "session/unit.h"

void pairs_release(pairs *p)
{
    for (int64_t i = 0; i < p->n; i++)
        kv_array_unref(p->arrays[i]);
    if (p->keys != p->small_keys) {
        mem_free(p->keys);
        mem_free(p->arrays);
    }
}

int pairs_add(pairs *p, kv_key key, kv_array *a, kv_err *e)
{
    if (p->n == 0 && !p->keys) {
        p->keys = p->small_keys;
        p->arrays = p->small_arrays;
        p->cap = 8;
    }
    if (p->n == p->cap) {
        int64_t cap = 4 * p->cap;
        kv_key *keys = mem_alloc(cap, sizeof *keys, e);
        kv_array **arrays = mem_alloc(cap, sizeof *arrays, e);
        if (!keys || !arrays) {
            mem_free(keys);
            mem_free(arrays);
            kv_array_unref(a);
            return KV_E_MEMORY;
        }
        memcpy(keys, p->keys, (size_t)p->n * sizeof *keys);
        memcpy(arrays, p->arrays, (size_t)p->n * sizeof *arrays);
        if (p->keys != p->small_keys) {
            mem_free(p->keys);
            mem_free(p->arrays);
        }
        p->keys = keys;
        p->arrays = arrays;
        p->cap = cap;
    }
    p->keys[p->n] = key;
    p->arrays[p->n++] = a;
    return KV_OK;
}

/* ---- --out ---- */

/* The arrays of a variable that --out fills, each made the variable's own first. */
static int outs_of(pairs *p, kv_key key, value *v, kv_err *e)
{
    int code = value_descend(e);
    if (code)
        return code;
    if (v->kind == VALUE_ARRAY && (code = value_own(*v, e)))
        return code;
    if (v->kind == VALUE_ARRAY)
        return pairs_add(p, key, kv_array_ref(v->u.box->array), e);
    if (!value_is_sequence(*v) || v->u.list->n == 0)
        return kv_err_set(e, KV_E_DTYPE, "--out fills arrays, not %s", value_kind_name(*v));
    for (int64_t i = 0; i < v->u.list->n && code == KV_OK; i++)
        code = outs_of(p, key, &v->u.list->items[i], e);
    return code;
}

int pairs_into(pairs *p, session *s, const ast *name, const key_list *keys, kv_err *e)
{
    value *v = session_find(s, name->u.text);
    int code;
    if (!v)
        return unit_err(s, name, e, KV_E_NAME, "there is no variable `%s` to fill; -> makes one",
                        name->u.text);
    if (!keys->list)
        return outs_of(p, keys->keys[0], v, e) ? unit_at(s, name, e) : KV_OK;
    if (!value_is_sequence(*v) || v->u.list->n != keys->n)
        return unit_err(s, name, e, KV_E_VALUE, "%lld keys need a list of %lld to fill, `%s` is %s",
                        (long long)keys->n, (long long)keys->n, name->u.text, value_kind_name(*v));
    for (int64_t i = 0; i < keys->n; i++)
        if ((code = outs_of(p, keys->keys[i], &v->u.list->items[i], e)))
            return unit_at(s, name, e);
    return KV_OK;
}

/* ---- New arrays ---- */

int pairs_new(pairs *p, const kv_info *info, value where, bool sparse, result *out, int64_t i,
              kv_err *e)
{
    value *v = out->keys ? &out->v.u.list->items[i] : &out->v;
    bool list = value_is_sequence(where);
    int64_t n;
    const value *places = value_items(&where, &n);
    int code = list ? value_list_new(v, VALUE_LIST, n, e) : KV_OK;
    if (out->keys)
        out->keys[i] = info->key;
    out->has_key = !out->keys;
    out->key = info->key;
    for (int64_t k = 0; k < n && code == KV_OK; k++) {
        kv_array *a;
        kv_ctx ctx = places[k].u.ctx;
        /* a key of another storage is for the store to refuse, also one without an axis */
        if (sparse && info->ndim > 0)
            code = kv_array_new_sparse(&a, info->dtype, info->ndim, info->shape, 0, NULL, ctx, e);
        else
            code = kv_array_new_raw(&a, info->dtype, info->ndim, info->shape, ctx, e);
        if (code)
            break;
        if ((code = value_array(list ? &v->u.list->items[k] : v, kv_array_ref(a), e)))
            kv_array_unref(a);
        else
            code = pairs_add(p, info->key, a, e);
    }
    return code;
}

int pairs_outs(pairs *p, session *s, kv *store, const ast *call, const key_list *keys, bool sparse,
               result *out, kv_err *e)
{
    const ast *ctx = command_option_of(call, "ctx"), *into = command_option_of(call, "out");
    value where = value_ctx((kv_ctx){0});
    if (into && ctx)
        return unit_err(s, into, e, KV_E_USAGE, "--out keeps the devices of its arrays: no --ctx");
    if (into)
        return pairs_into(p, s, into, keys, e);
    int code = ctx ? eval_contexts(s, ctx, &where, e) : KV_OK;
    if (code == KV_OK && keys->list)
        code = result_for_keys(out, keys->n, e);
    for (int64_t i = 0; i < keys->n && code == KV_OK; i++) {
        kv_info info;
        if ((code = kv_await_key(store, &keys->keys[i], &info, e)))
            break;
        info.key = keys->keys[i];
        code = pairs_new(p, &info, where, sparse, out, i, e);
    }
    value_release(&where);
    return code;
}

/* ---- Errors ---- */

/* The name of key i, or NULL. */
static const char *name_at(kv *store, int64_t i)
{
    kv_info info;
    kv_err unused = {0};
    return kv_info_at(store, i, &info, &unused) == KV_OK ? info.key.name : NULL;
}

/* Keys that begin with the word, as those of a layer do. */
static int suggest_longer(kv *store, kv_err *e)
{
    suggest longer = {.word = e->key_name};
    size_t length = strlen(e->key_name);
    int64_t n = 0;
    for (int64_t i = 0; i < kv_num_keys(store); i++) {
        const char *name = name_at(store, i);
        if (!name || strncmp(name, e->key_name, length) != 0)
            continue;
        if (n++ < SUGGEST_MAX)
            longer.names[longer.n++] = name;
    }
    if (n > 0)
        e->hint[0] = '\0';
    if (n <= SUGGEST_MAX)
        return suggest_done(&longer, e);
    return kv_err_hint(e, "%lld keys begin so, among them %.80s: list %s*", (long long)n,
                       longer.names[0], e->key_name);
}

void pairs_suggest(kv *store, kv_err *e)
{
    kv_info found;
    if (!e->has_key || !e->key_is_text)
        return;
    suggest near = {.word = e->key_name};
    if (kv_find(store, &(kv_key){.name = e->key_name}, &found, &(kv_err){0}) == KV_OK)
        return; /* it is no slip of the pen */
    for (int64_t i = 0; i < kv_num_keys(store); i++) {
        const char *name = name_at(store, i);
        if (name)
            suggest_add(&near, name);
    }
    if (near.n == 0) {
        suggest_longer(store, e);
        return;
    }
    e->hint[0] = '\0';
    suggest_done(&near, e);
}

int command_priority(session *s, const ast *call, kv_call *out, kv_err *e)
{
    const ast *node = command_option_of(call, "priority");
    *out = (kv_call){0};
    return node ? eval_int(s, node, "a priority", &out->priority, e) : KV_OK;
}
