/* Files as values of keys. */
#include "cmd/value_files.h"

#include <fnmatch.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "files/load.h"
#include "files/named.h"
#include "session/show.h"
#include "session/unit.h"

/* Bytes of values that are in memory at a time, while keys are left. */
#define BATCH_BYTES ((int64_t)64 << 20)

/* ---- The files ------------------------------------------------------------------------------- */

void value_files_close(value_files *f)
{
    for (int64_t i = 0; i < f->n; i++)
        checkpoint_close(f->files[i]);
    mem_free(f->files);
    *f = (value_files){0};
}

int value_files_open(value_files *f, session *s, const ast *call, kv_err *e)
{
    const ast *list = call->kid[1];
    bool named = list->n > 0, several = named_is_pattern(call->kid[0]);
    *f = (value_files){0};
    for (uint32_t i = 0; i < list->n; i++)
        named &= list->kid[i]->kind == AST_FILE && list->kid[i]->n == 1;
    if (!named)
        return KV_OK;
    if (!(f->files = mem_zalloc(list->n, sizeof *f->files, e)))
        return KV_E_MEMORY;
    for (uint32_t i = 0; i < list->n && named; i++) {
        checkpoint *one;
        if (load_named(s, list->kid[i], &one, e)) {
            value_files_close(f);
            return e->code;
        }
        named = one != NULL;
        if (named)
            f->files[f->n++] = one;
        several |= named && checkpoint_count(one) != 1;
    }
    if (!named || !several)
        value_files_close(f);
    return KV_OK;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static const char *name_of(const kv_key *key, char number[NUM_TEXT_MAX])
{
    if (!key->name)
        num_int(number, key->id);
    return key->name ? key->name : number;
}

/* Adds a name to a list of names in a hint. */
static void list_one(buf *names, int64_t *n, const char *name)
{
    if ((*n)++ < 3)
        buf_printf(names, "%s%.60s", names->len > 0 ? ", " : "", name);
}

static int list_end(buf *names, int64_t n, kv_err *e)
{
    if (n > 3)
        buf_printf(names, " and %lld more", (long long)(n - 3));
    kv_err_hint(e, "%s", buf_text(names));
    buf_release(names);
    return e->code;
}

/* The names of file a that match and that b lacks; *n of them, listed. */
static void add_lacking(buf *names, int64_t *n, const checkpoint *a, const checkpoint *b,
                        const char *pattern)
{
    for (int64_t i = 0; i < checkpoint_count(a); i++) {
        const char *name = checkpoint_at(a, i)->name;
        if (fnmatch(pattern, name, 0) == 0 && checkpoint_find(b, name) < 0)
            list_one(names, n, name);
    }
}

static int check_same_names(const value_files *f, const char *pattern, kv_err *e)
{
    for (int64_t i = 1; i < f->n; i++) {
        buf names = {0};
        int64_t lacks = 0, more = 0;
        add_lacking(&names, &lacks, f->files[0], f->files[i], pattern);
        const char *of = lacks ? checkpoint_name(f->files[0]) : checkpoint_name(f->files[i]);
        if (!lacks)
            add_lacking(&names, &more, f->files[i], f->files[0], pattern);
        if (lacks + more > 0) {
            kv_err_set(e, KV_E_NAME, "\"%s\" and \"%s\" have other names: %lld of \"%s\" %s",
                       checkpoint_name(f->files[0]), checkpoint_name(f->files[i]),
                       (long long)(lacks + more), of,
                       lacks + more == 1 ? "is missing in the other" : "are missing in the other");
            return list_end(&names, lacks + more, e);
        }
        buf_release(&names);
    }
    return KV_OK;
}

/* A push of what no key is there for would make keys, or be lost. */
static int check_known(kv *store, const value_files *f, const key_list *keys, kv_err *e)
{
    buf names = {0};
    int64_t n = 0;
    char number[NUM_TEXT_MAX];
    for (int64_t i = 0; i < keys->n; i++) {
        kv_info info;
        if (kv_find(store, &keys->keys[i], &info, &(kv_err){0}))
            list_one(&names, &n, name_of(&keys->keys[i], number));
    }
    if (n == 0)
        return KV_OK;
    kv_err_set(e, KV_E_KEY, "\"%s\" has %lld name%s that %s no key of the store",
               checkpoint_name(f->files[0]), (long long)n, n == 1 ? "" : "s",
               n == 1 ? "is" : "are");
    return list_end(&names, n, e);
}

int value_files_keys(const value_files *f, session *s, const ast *call, kv *store, bool init,
                     key_list *keys, kv_err *e)
{
    bool pattern = named_is_pattern(call->kid[0]);
    if (init && f->n > 1)
        return unit_err(s, call->kid[1]->kid[1], e, KV_E_USAGE, "init takes one value a key");
    if (!pattern)
        return eval_keys(s, call->kid[0], keys, e);
    int code = named_keys(s, call->kid[0], f->files[0], keys, e);
    if (!code)
        code = check_same_names(f, call->kid[0]->kid[0]->u.text, e);
    if (!code && !init)
        code = check_known(store, f, keys, e);
    return code ? unit_at(s, call->kid[1], e) : KV_OK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

int value_files_pairs(const value_files *f, const key_list *keys, int64_t from, int64_t to,
                      pairs *p, kv_err *e)
{
    int code = KV_OK;
    for (int64_t i = from; i < to; i++) {
        for (int64_t j = 0; j < f->n && !code; j++) {
            kv_array *a;
            code = named_array(&a, f->files[j], keys->keys[i], e);
            if (!code)
                code = pairs_add(p, keys->keys[i], a, e);
        }
    }
    return code;
}

static const tensor_info *tensor_of(const checkpoint *c, const kv_key *key)
{
    char number[NUM_TEXT_MAX];
    int64_t i = checkpoint_find(c, name_of(key, number));
    return i < 0 ? NULL : checkpoint_at(c, i);
}

int64_t value_files_batch(const value_files *f, const key_list *keys, int64_t from)
{
    int64_t bytes = 0, to = from;
    while (to < keys->n && (bytes < BATCH_BYTES || to == from)) {
        for (int64_t j = 0; j < f->n; j++) {
            const tensor_info *t = tensor_of(f->files[j], &keys->keys[to]);
            bytes += t ? t->bytes : 0;
        }
        to++;
    }
    return to;
}

static bool fits(const kv_info *info, const tensor_info *t)
{
    return t && t->ndim == info->ndim &&
           (t->ndim == 0 ||
            memcmp(t->shape, info->shape, (size_t)t->ndim * sizeof *t->shape) == 0);
}

int64_t value_files_misfit(const value_files *f, kv *store, const key_list *keys, bool init)
{
    for (int64_t i = 0; i < keys->n; i++) {
        kv_info info;
        bool there = kv_find(store, &keys->keys[i], &info, &(kv_err){0}) == KV_OK, good = true;
        for (int64_t j = 0; j < f->n; j++) {
            const tensor_info *t = tensor_of(f->files[j], &keys->keys[i]);
            good &= t && (!there || (!init && fits(&info, t)));
        }
        if (!good)
            return i;
    }
    return -1;
}
