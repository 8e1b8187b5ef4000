/* Keys with arrays: values of the language or of files, and the arrays that calls fill. */
#include "cmd/pairs.h"

#include <fnmatch.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "checkpoint/checkpoint_write.h"
#include "eval/eval.h"
#include "files/files.h"
#include "out/record.h"
#include "session/result.h"
#include "session/unit.h"
#include "syntax/command.h"

/* The arrays that a call fills: new ones, or objects, where all who refer to them see it.
 *
 * An array that nobody refers to would be filled for nothing, as that of out=a[1], which is a copy:
 * it is refused. A list may hold an array several times: under one key that does no harm, under
 * several all but the last value are lost, which is a warning.
 */

int pairs_fill(pairs *p, kv_key key, value array, kv_err *e)
{
    const kv_array *a = array.u.box->array;
    bool shared = kv_array_refs(a) > 1 && !p->twice;
    for (int64_t i = 0; i < p->n && shared && !p->twice; i++)
        if (p->arrays[i] == a && !map_same_key(&p->keys[i], &key)) {
            p->first = i;
            p->twice = p->n;
        }
    int rc = value_own(array, e);
    return rc ? rc : pairs_add(p, key, kv_array_ref(array.u.box->array), e);
}

void pairs_warn_twice(const pairs *p, session *s, const ast *node)
{
    char text[UNIT_TEXT];
    own_buf keys = {0}, made = {0};
    int64_t each = 1; /* arrays of a key; several are a list in the list */
    if (!p->twice)
        return;
    const kv_array *a = p->arrays[p->twice];
    int ndim = kv_array_ndim(a);
    while (each < p->n && map_same_key(&p->keys[0], &p->keys[each]))
        each++;
    show_key(&keys, p->keys[p->first]);
    buf_add(&keys, " and ");
    show_key(&keys, p->keys[p->twice]);
    buf_printf(&made, "%s%s", each > 1 ? "[[zeros(" : "[zeros(", ndim ? "" : "()");
    for (int i = 0; i < ndim; i++)
        buf_printf(&made, "%s%lld", i ? ", " : "", (long long)kv_array_shape(a)[i]);
    buf_char(&made, ')');
    if (kv_array_ctx(a).device == KV_GPU && each > 1 &&
        kv_array_ctx(p->arrays[each - 1]).id == each - 1)
        buf_add(&made, "@gpu(i)");
    else if (kv_array_ctx(a).device == KV_GPU)
        buf_printf(&made, "@gpu(%d)", (int)kv_array_ctx(a).id);
    buf_printf(&made, " for i in 0..%lld]", (long long)(each > 1 ? each : p->n) - 1);
    if (each > 1)
        buf_printf(&made, " for k in 0..%lld]", (long long)(p->n / each) - 1);
    session_warn(s, node,
                 "`%s` holds one array for the keys %s, which keeps the value of the last; "
                 "%s makes several",
                 unit_text(text, s->unit, node), buf_text(&keys), buf_text(&made));
}

const ast *pairs_item(const ast *node, value v, int64_t i)
{
    bool written = (node->kind == AST_LIST || node->kind == AST_TUPLE) && node->n == v.u.list->n;
    return written ? node->kid[i] : node;
}

const ast *pairs_misfit(const pairs *p, kv *store)
{
    for (int64_t i = 0, first = 0; i < p->n; i++) {
        kv_info info;
        first = map_same_key(&p->keys[first], &p->keys[i]) ? first : i;
        const kv_array *a = p->arrays[i], *like = p->arrays[first];
        if (kv_find(store, &p->keys[i], &info, &(kv_err){0}))
            info = (kv_info){.ndim = kv_array_ndim(like), .shape = kv_array_shape(like)};
        if (info.ndim != kv_array_ndim(a) ||
            memcmp(info.shape, kv_array_shape(a), (size_t)info.ndim * sizeof *info.shape) != 0)
            return p->nodes[i];
    }
    return NULL;
}

bool pairs_are_held(value v, bool held)
{
    if (v.kind == VALUE_ARRAY)
        return held || v.u.box->refs > 1;
    if (!value_is_sequence(v) || value_descend(NULL))
        return false;
    held |= v.u.list->refs > 1;
    for (int64_t i = 0; i < v.u.list->n; i++)
        if (pairs_are_held(v.u.list->items[i], held))
            return true;
    return false;
}

/* ---- --out ---- */

/* The lists and arrays that are filled, from the outermost list on. */
typedef struct filling {
    session *s;
    const ast *node;
    pairs *to;
} filling;

static int for_nothing(const filling *f, kv_err *e)
{
    char text[UNIT_TEXT];
    unit_text(text, f->s->unit, f->node);
    unit_err(f->s, f->node, e, KV_E_USAGE, "`%s` is a new array, so filling it changes nothing",
             text);
    if (f->node->kind == AST_INDEX)
        kv_err_hint(e, "%s = …", text);
    return kv_err_hint(e, "fill one that has a name: out=w");
}

/* held: something refers to v, or to what holds it. */
static int fill_one(const filling *f, const ast *node, kv_key key, value v, bool held, kv_err *e)
{
    TRY(value_descend(e));
    f->to->node = node;
    if (v.kind == VALUE_ARRAY)
        return held || v.u.box->refs > 1 ? pairs_fill(f->to, key, v, e) : for_nothing(f, e);
    if (!value_is_sequence(v) || v.u.list->n == 0)
        return kv_err_set(e, KV_E_DTYPE, "--out fills arrays, not %s",
                          value_is_sequence(v) ? "an empty list" : value_kind_name(v));
    held |= v.u.list->refs > 1;
    for (int64_t i = 0; i < v.u.list->n; i++)
        TRY(fill_one(f, pairs_item(node, v, i), key, v.u.list->items[i], held, e));
    return KV_OK;
}

/* One for each key. */
static int fill_several(const filling *f, const key_list *keys, value v, kv_err *e)
{
    char text[UNIT_TEXT];
    if (!value_is_sequence(v) || v.u.list->n != keys->n)
        return unit_err(f->s, f->node, e, KV_E_VALUE,
                        "%lld keys need a list of %lld to fill, `%s` is %s", (long long)keys->n,
                        (long long)keys->n, unit_text(text, f->s->unit, f->node),
                        value_kind_name(v));
    for (int64_t i = 0; i < keys->n; i++)
        TRY(fill_one(f, pairs_item(f->node, v, i), keys->keys[i], v.u.list->items[i],
                     v.u.list->refs > 1, e));
    return KV_OK;
}

int pairs_into(pairs *p, session *s, const ast *node, const key_list *keys, kv_err *e)
{
    const filling f = {s, node, p};
    own_value v = value_none();
    int rc = eval(s, node, &v, e);
    if (rc == KV_E_NAME && node->kind == AST_NAME) {
        *e = (kv_err){0};
        unit_err(s, node, e, KV_E_NAME, "no variable is called `%s`; -> makes one",
                 node->u.text);
        if (keys->n == 1 && keys->keys[0].name)
            kv_err_hint(e, "pull %s -> %s", keys->keys[0].name, node->u.text);
        return KV_E_NAME;
    }
    TRY(rc);
    if (keys->list ? fill_several(&f, keys, v, e) : fill_one(&f, node, keys->keys[0], v, false, e))
        return unit_at(s, p->node ? p->node : node, e);
    eval_warn_parts(s, node, v);
    pairs_warn_twice(p, s, node);
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
    TRY(list ? value_list_new(v, VALUE_LIST, n, e) : KV_OK);
    if (out->keys)
        out->keys[i] = info->key;
    out->has_key = !out->keys;
    out->key = info->key;
    for (int64_t k = 0; k < n; k++) {
        kv_array *a;
        kv_ctx ctx = places[k].u.ctx;
        /* a key of another storage is for the store to refuse, also one without an axis */
        TRY(sparse && info->ndim > 0
                ? kv_array_new_sparse(&a, info->dtype, info->ndim, info->shape, 0, NULL, ctx, e)
                : kv_array_new_raw(&a, info->dtype, info->ndim, info->shape, ctx, e));
        if (value_array(list ? &v->u.list->items[k] : v, kv_array_ref(a), e)) {
            kv_array_unref(a);
            return KV_E_MEMORY;
        }
        TRY(pairs_add(p, info->key, a, e));
    }
    return KV_OK;
}

int pairs_outs(pairs *p, session *s, kv *store, const ast *call, const key_list *keys, bool sparse,
               result *out, kv_err *e)
{
    const ast *ctx = command_option_of(call, "ctx"), *into = command_option_of(call, "out");
    own_value where = value_ctx((kv_ctx){0});
    if (into)
        return pairs_into(p, s, into, keys, e);
    TRY(ctx ? eval_contexts(s, ctx, &where, e) : KV_OK);
    TRY(keys->list ? result_for_keys(out, keys->n, e) : KV_OK);
    for (int64_t i = 0; i < keys->n; i++) {
        kv_info info;
        TRY(kv_await_key(store, &keys->keys[i], &info, e));
        info.key = keys->keys[i];
        TRY(pairs_new(p, &info, where, sparse, out, i, e));
    }
    return KV_OK;
}

/* ---- Files as values of keys ---- */

/* Bytes of values that are in memory at a time, while keys are left. */
#define BATCH_BYTES ((int64_t)64 << 20)

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
    for (uint32_t i = 0; i < list->n; i++)
        named &= list->kid[i]->kind == AST_FILE;
    if (!named)
        return KV_OK;
    if (!(f->files = mem_zalloc(list->n, sizeof *f->files, e)))
        return KV_E_MEMORY;
    for (uint32_t i = 0; i < list->n && named; i++) {
        checkpoint *one;
        TRY(load_named(s, list->kid[i], &one, e));
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
    return kv_err_hint(e, "%s", buf_text(names));
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
        own_buf names = {0};
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
    }
    return KV_OK;
}

/* A push of what no key is there for would make keys, or be lost. */
static int check_known(kv *store, const value_files *f, const key_list *keys, kv_err *e)
{
    own_buf names = {0};
    int64_t n = 0;
    char number[NUM_TEXT_MAX];
    for (int64_t i = 0; i < keys->n; i++) {
        kv_info info;
        if (kv_find(store, &keys->keys[i], &info, &(kv_err){0}))
            list_one(&names, &n, named_key(keys->keys[i], number));
    }
    if (n == 0)
        return KV_OK;
    kv_err_set(e, KV_E_KEY, "\"%s\" has %lld name%s that %s no key of the store",
               checkpoint_name(f->files[0]), (long long)n, n == 1 ? "" : "s",
               n == 1 ? "is" : "are");
    if (n == keys->n)
        kv_err_hint(e, "init * @FILE makes keys of its arrays");
    return list_end(&names, n, e);
}

int value_files_keys(const value_files *f, session *s, const ast *call, kv *store, bool init,
                     key_list *keys, kv_err *e)
{
    bool pattern = named_is_pattern(call->kid[0]);
    if (init && f->n > 1)
        return unit_err(s, call->kid[1]->kid[1], e, KV_E_USAGE, "init takes one value a key");
    int rc = pattern ? named_keys(s, call->kid[0], f->files[0], keys, e)
                     : eval_keys(s, call->kid[0], keys, e);
    if (!rc && pattern)
        rc = check_same_names(f, call->kid[0]->kid[0]->u.text, e);
    if (!rc && pattern && !init)
        rc = check_known(store, f, keys, e);
    TRY(rc ? unit_at(s, call->kid[1], e) : KV_OK);
    for (int64_t j = 0; j < f->n; j++) {
        char number[NUM_TEXT_MAX];
        bare_codes bare = {0};
        for (int64_t i = 0; i < keys->n; i++)
            bare_codes_count(&bare, f->files[j],
                             checkpoint_find(f->files[j], named_key(keys->keys[i], number)));
        bare_codes_tell(s, &bare);
    }
    return KV_OK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

int value_files_pairs(const value_files *f, const key_list *keys, int64_t from, int64_t to,
                      pairs *p, kv_err *e)
{
    for (int64_t i = from; i < to; i++)
        for (int64_t j = 0; j < f->n; j++) {
            kv_array *a;
            TRY(named_array(&a, f->files[j], keys->keys[i], e));
            TRY(pairs_add(p, keys->keys[i], a, e));
        }
    return KV_OK;
}

static const tensor_info *tensor_of(const checkpoint *c, kv_key key)
{
    char number[NUM_TEXT_MAX];
    int64_t i = checkpoint_find(c, named_key(key, number));
    return i < 0 ? NULL : checkpoint_at(c, i);
}

int64_t value_files_batch(const value_files *f, const key_list *keys, int64_t from)
{
    int64_t bytes = 0, to = from;
    while (to < keys->n && (bytes < BATCH_BYTES || to == from)) {
        for (int64_t j = 0; j < f->n; j++) {
            const tensor_info *t = tensor_of(f->files[j], keys->keys[to]);
            bytes += t ? t->bytes : 0;
        }
        to++;
    }
    return to;
}

int64_t value_files_misfit(const value_files *f, kv *store, const key_list *keys, bool init)
{
    for (int64_t i = 0; i < keys->n; i++) {
        kv_info info;
        bool there = kv_find(store, &keys->keys[i], &info, &(kv_err){0}) == KV_OK, good = true;
        for (int64_t j = 0; j < f->n; j++) {
            const tensor_info *t = tensor_of(f->files[j], keys->keys[i]);
            good &= t && (!there ||
                          (!init && tensor_same_shape(t->ndim, t->shape, info.ndim, info.shape)));
        }
        if (!good)
            return i;
    }
    return -1;
}

/* ---- Keys with arrays ---- */

void pairs_release(pairs *p)
{
    for (int64_t i = 0; i < p->n; i++)
        kv_array_unref(p->arrays[i]);
    arena_release(&p->memory);
}

int pairs_add(pairs *p, kv_key key, kv_array *a, kv_err *e)
{
    if (p->n == 0) {
        p->keys = p->small_keys;
        p->arrays = p->small_arrays;
        p->nodes = p->small_nodes;
        p->cap = 8;
    }
    int64_t keys = p->cap, arrays = p->cap;
    if (p->n == p->cap &&
        (arena_grow(&p->memory, &p->keys, &keys, p->n, sizeof *p->keys, e) ||
         arena_grow(&p->memory, &p->arrays, &arrays, p->n, sizeof *p->arrays, e) ||
         arena_grow(&p->memory, &p->nodes, &p->cap, p->n, sizeof *p->nodes, e))) {
        kv_array_unref(a);
        return KV_E_MEMORY;
    }
    p->keys[p->n] = key;
    p->nodes[p->n] = p->node;
    p->arrays[p->n++] = a;
    return KV_OK;
}

/* ---- Errors ---- */

/* The name of key i, or NULL. */
static const char *name_at(kv *store, int64_t i)
{
    kv_info info;
    return kv_info_at(store, i, &info, &(kv_err){0}) == KV_OK ? info.key.name : NULL;
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
    bool is_file = near.n == 0 && checkpoint_out_is_path(e->key_name);
    if (near.n == 0 && !is_file) {
        suggest_longer(store, e);
        return;
    }
    e->hint[0] = '\0';
    suggest_done(&near, e);
    if (is_file)
        kv_err_hint(e, "ls %s lists the keys of the file, stat %s their numbers", e->key_name,
                    e->key_name);
}

int command_keys(session *s, key_list *keys, result *out, kv_err *e)
{
    out->names = keys->names;
    keys->names = (arena){0};
    return record_keys(s, out, keys->keys, keys->n, e);
}

int command_priority(session *s, const ast *call, kv_call *out, kv_err *e)
{
    const ast *node = command_option_of(call, "priority");
    *out = (kv_call){0};
    return node ? eval_int32(s, node, "a priority", &out->priority, e) : KV_OK;
}
