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
        return suggest_done(&longer, e), e->code;
    return kv_err_hint(e, "%lld keys begin so, among them %.80s: list %s*", (long long)n,
                       longer.names[0], e->key_name),
           e->code;
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
    return node ? eval_int32(s, node, "a priority", &out->priority, e) : KV_OK;
}
