/* The index of a patch as bytes, and back: what it says is checked before it is believed. */
#include "patch/patch_index.h"

#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "patch/patch_format.h"

/* ---- Building -------------------------------------------------------------------------------- */

void patch_index_release(patch_index *x)
{
    map_release(&x->names);
    map_release(&x->text_names);
    mem_free(x->texts);
    mem_free(x->keys);
    arena_release(&x->memory);
    *x = (patch_index){0};
}

static int copy_shape(patch_index *x, patch_shape *s, kv_err *e)
{
    int64_t *shape = arena_alloc(&x->memory, (size_t)s->ndim * sizeof *shape, e);
    if (!shape)
        return KV_E_MEMORY;
    if (s->ndim)
        memcpy(shape, s->shape, (size_t)s->ndim * sizeof *shape);
    s->shape = shape;
    return KV_OK;
}

int patch_index_add(patch_index *x, const patch_key *key, kv_err *e)
{
    TRY(mem_grow(&x->keys, &x->keys_cap, x->nkeys + 1, sizeof *x->keys, e));
    patch_key *k = &x->keys[x->nkeys];
    *k = *key;
    k->name = arena_text(&x->memory, key->name, strlen(key->name), e);
    if (!k->name || copy_shape(x, &k->now, e) || copy_shape(x, &k->was, e))
        return KV_E_MEMORY;
    bool has_data = k->state == PATCH_CHANGED || patch_key_is_whole(k);
    k->data = has_data ? x->ndata++ : -1;
    return map_put(&x->names, (kv_key){.name = k->name}, x->nkeys++, e);
}

int patch_index_text(patch_index *x, const char *name, const char *text, kv_err *e)
{
    TRY(mem_grow(&x->texts, &x->texts_cap, x->ntexts + 1, sizeof *x->texts, e));
    checkpoint_text *t = &x->texts[x->ntexts];
    t->name = arena_text(&x->memory, name, strlen(name), e);
    t->text = arena_text(&x->memory, text, strlen(text), e);
    if (!t->name || !t->text)
        return KV_E_MEMORY;
    return map_put(&x->text_names, (kv_key){.name = t->name}, x->ntexts++, e);
}

/* ---- Looking --------------------------------------------------------------------------------- */

const patch_key *patch_index_find(const patch_index *x, const char *name)
{
    int64_t i = map_get(&x->names, (kv_key){.name = name});
    return i < 0 ? NULL : &x->keys[i];
}

patch_shape patch_shape_of(const tensor_info *t)
{
    return (patch_shape){t->type, t->ndim, t->shape};
}

bool patch_shape_equal(const patch_shape *x, const patch_shape *y)
{
    return x->type == y->type && tensor_same_shape(x->ndim, x->shape, y->ndim, y->shape);
}

int64_t patch_shape_elements(const patch_shape *x)
{
    return tensor_elements(x->ndim, x->shape);
}

void patch_index_summarise(const patch_index *x, patch_summary *what)
{
    *what = (patch_summary){0};
    for (int64_t i = 0; i < x->nkeys; i++) {
        const patch_key *k = &x->keys[i];
        what->same += k->state == PATCH_SAME;
        what->changed += k->state == PATCH_CHANGED || k->state == PATCH_REFORMED;
        what->added += k->state == PATCH_NEW;
        what->gone += k->state == PATCH_GONE;
        what->elements += k->data < 0 ? 0 : k->changes;
    }
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void put_text(buf *out, const char *text)
{
    size_t n = strlen(text);
    varint_put(out, (int64_t)n);
    buf_put(out, text, n);
}

static void put_shape(buf *out, const patch_shape *s)
{
    put_text(out, tensor_type_name(s->type));
    varint_put(out, s->ndim);
    for (int i = 0; i < s->ndim; i++)
        varint_put(out, s->shape[i]);
}

static void put_hash(buf *out, const unsigned char *hash)
{
    buf_put(out, (const char *)hash, PATCH_HASH);
}

void patch_index_print(const patch_index *x, buf *text, buf *hashes)
{
    varint_put(text, x->ntexts);
    for (int64_t i = 0; i < x->ntexts; i++) {
        put_text(text, x->texts[i].name);
        put_text(text, x->texts[i].text);
    }
    varint_put(text, x->nkeys);
    for (int64_t i = 0; i < x->nkeys; i++) {
        const patch_key *k = &x->keys[i];
        put_text(text, k->name);
        buf_char(text, (char)k->state);
        put_shape(text, &k->now);
        if (k->state == PATCH_REFORMED)
            put_shape(text, &k->was);
        if (k->data >= 0)
            varint_put(text, k->changes);
        if (patch_key_in_a(k))
            put_hash(hashes, k->a);
        if (patch_key_in_b(k) && k->state != PATCH_SAME)
            put_hash(hashes, k->b);
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The rest of an index, and of the hashes, while they are read. why: the fault that was found. */
typedef struct index_reader {
    varint_reader r;
    const unsigned char *hash, *hash_end;
    patch_index *x;
    const char *why;
} index_reader;

static bool wrong(index_reader *in, const char *why)
{
    in->why = why;
    return false;
}

/* A text without NUL, to the memory of the index. */
static const char *take_text(index_reader *in, kv_err *e)
{
    int64_t n;
    if (!varint_take(&in->r, &n) || n > in->r.end - in->r.at) {
        wrong(in, "a text is cut");
        return NULL;
    }
    const char *from = (const char *)in->r.at;
    in->r.at += n;
    if (!utf8_valid(from, (size_t)n) || memchr(from, 0, (size_t)n)) {
        wrong(in, "a text is not UTF-8");
        return NULL;
    }
    return arena_text(&in->x->memory, from, (size_t)n, e);
}

static bool take_shape(index_reader *in, patch_shape *s, kv_err *e)
{
    int64_t ndim;
    const char *name = take_text(in, e);
    if (!name)
        return false;
    if (!tensor_type_find(&s->type, name, strlen(name)))
        return wrong(in, "a dtype is not known");
    if (!varint_take(&in->r, &ndim) || ndim > KV_MAX_NDIM)
        return wrong(in, "a shape has too many dimensions");
    int64_t *shape = arena_alloc(&in->x->memory, (size_t)ndim * sizeof *shape, e);
    if (!shape)
        return false;
    for (int64_t i = 0; i < ndim; i++)
        if (!varint_take(&in->r, &shape[i]))
            return wrong(in, "a shape is cut");
    s->ndim = (int)ndim;
    s->shape = shape;
    if (tensor_bytes(s->type, s->ndim, shape) < 0)
        return wrong(in, "a shape has no whole number of bytes");
    return true;
}

static bool take_hash(index_reader *in, unsigned char *hash)
{
    if (in->hash_end - in->hash < PATCH_HASH)
        return wrong(in, "hashes are missing");
    memcpy(hash, in->hash, PATCH_HASH);
    in->hash += PATCH_HASH;
    return true;
}

static bool take_changes(index_reader *in, patch_key *k)
{
    int64_t bytes = tensor_bytes(k->now.type, k->now.ndim, k->now.shape);
    int64_t units = bytes / patch_unit(k->now.type);
    if (!varint_take(&in->r, &k->changes) || k->changes > units ||
        (patch_key_is_whole(k) && k->changes != units) ||
        (k->state == PATCH_CHANGED && k->changes == 0))
        return wrong(in, "a count of changes cannot be");
    return true;
}

static bool take_hashes(index_reader *in, patch_key *k)
{
    if (patch_key_in_a(k) && !take_hash(in, k->a))
        return false;
    if (k->state == PATCH_SAME)
        memcpy(k->b, k->a, PATCH_HASH);
    else if (patch_key_in_b(k) && !take_hash(in, k->b))
        return false;
    return true;
}

static bool take_key(index_reader *in, kv_err *e)
{
    patch_key k = {0};
    if (!(k.name = take_text(in, e)))
        return false;
    if (patch_index_find(in->x, k.name))
        return wrong(in, "a key stands twice");
    if (in->r.at == in->r.end || *in->r.at > PATCH_GONE)
        return wrong(in, "a key has no state");
    k.state = (patch_state)*in->r.at++;
    /* keys of B follow the deleted ones */
    if (in->x->nkeys > 0 && patch_key_in_b(&k) && !patch_key_in_b(&in->x->keys[in->x->nkeys - 1]))
        return wrong(in, "keys are out of order");
    if (!take_shape(in, &k.now, e) || (k.state == PATCH_REFORMED && !take_shape(in, &k.was, e)))
        return false;
    if (k.state != PATCH_REFORMED)
        k.was = k.now;
    bool has_data = k.state == PATCH_CHANGED || patch_key_is_whole(&k);
    if ((has_data && !take_changes(in, &k)) || !take_hashes(in, &k))
        return false;
    return patch_index_add(in->x, &k, e) == KV_OK;
}

static bool take_all(index_reader *in, kv_err *e)
{
    int64_t n;
    if (!varint_take(&in->r, &n))
        return wrong(in, "it is cut");
    for (int64_t i = 0; i < n; i++) {
        const char *name = take_text(in, e), *text = name ? take_text(in, e) : NULL;
        if (text && map_get(&in->x->text_names, (kv_key){.name = name}) >= 0)
            return wrong(in, "a metadata text stands twice");
        if (!text || patch_index_text(in->x, name, text, e))
            return false;
    }
    if (!varint_take(&in->r, &n))
        return wrong(in, "it is cut");
    for (int64_t i = 0; i < n; i++)
        if (!take_key(in, e))
            return false;
    if (in->r.at != in->r.end || in->hash != in->hash_end)
        return wrong(in, "something stands behind its end");
    return true;
}

int patch_index_parse(patch_index *x, const void *text, int64_t n, const void *hashes,
                      int64_t hash_bytes, const char *name, kv_err *e)
{
    const unsigned char *t = text, *h = hashes;
    index_reader in = {.r = {t, t + n}, .hash = h, .hash_end = h + hash_bytes, .x = x};
    if (take_all(&in, e))
        return KV_OK;
    if (!in.why)
        return KV_E_MEMORY;
    return file_bad(e, KV_E_FORMAT, name, "a damaged patch: in its index %s", in.why);
}
