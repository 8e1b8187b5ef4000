/* Opening patches, and comparing what they say of checkpoints. */
#include "patch/patch_open.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/tensor_reader.h"
#include "patch/patch_zstd.h"

/* ---- Opening --------------------------------------------------------------------------------- */

void patch_close(patch *p)
{
    if (!p)
        return;
    checkpoint_close(p->file);
    patch_index_release(&p->index);
    mem_free(p->data);
    mem_free(p);
}

const char *patch_name(const patch *p)
{
    return checkpoint_name(p->file);
}

static int damaged(const patch *p, const char *what, kv_err *e)
{
    return file_bad(e, KV_E_FORMAT, patch_name(p), "a damaged patch: %s", what);
}

/* All data of a tensor of bytes, in memory that the caller releases. */
static int read_all(const patch *p, const char *name, char **out, int64_t *n, kv_err *e)
{
    tensor_reader *r = NULL;
    int64_t i = checkpoint_find(p->file, name);
    const tensor_info *t = i < 0 ? NULL : checkpoint_at(p->file, i);
    *out = NULL;
    if (!t || t->type != TENSOR_U8 || t->ndim != 1)
        return damaged(p, "it has no index", e);
    int code = tensor_reader_new(&r, p->file, TENSOR_BLOCK, e);
    if (!code && !(*out = mem_alloc(t->bytes, 1, e)))
        code = KV_E_MEMORY;
    for (int64_t at = 0; at < t->bytes && !code; at += TENSOR_BLOCK) {
        const void *data;
        int64_t some = t->bytes - at < TENSOR_BLOCK ? t->bytes - at : TENSOR_BLOCK;
        if (!(code = tensor_read(r, &data, i, at, some, e)))
            memcpy(*out + at, data, (size_t)some);
    }
    if (!code)
        code = tensor_reader_check(r, e);
    tensor_reader_free(r);
    *n = t->bytes;
    return code;
}

/* No frame of zstd becomes more than so many times as large: a block of 128 KB takes 4 bytes. */
#define MOST_RATIO ((int64_t)32 << 10)

/* The text of an index. */
static int unpack_index(const patch *p, const char *packed, int64_t n, char **text, int64_t *bytes,
                        kv_err *e)
{
    zstd_unpacker *u = NULL;
    *text = NULL;
    if (n < 8)
        return damaged(p, "its index is cut", e);
    memcpy(bytes, packed, sizeof *bytes);
    if (*bytes < 0 || *bytes > PATCH_INDEX_MAX || *bytes / MOST_RATIO > n)
        return damaged(p, "its index cannot be as long as it says", e);
    int code = zstd_unpacker_new(&u, e);
    if (!code && !(*text = mem_alloc(*bytes, 1, e)))
        code = KV_E_MEMORY;
    if (!code && !zstd_unpack(u, *text, *bytes, packed + 8, n - 8))
        code = damaged(p, "its index cannot be decompressed", e);
    zstd_unpacker_free(u);
    return code;
}

static int read_index(patch *p, kv_err *e)
{
    char *packed = NULL, *hashes = NULL, *text = NULL;
    int64_t npacked = 0, nhashes = 0, n = 0;
    int code = read_all(p, PATCH_INDEX, &packed, &npacked, e);
    if (!code && !(code = read_all(p, PATCH_HASHES, &hashes, &nhashes, e)) &&
        !(code = unpack_index(p, packed, npacked, &text, &n, e)))
        code = patch_index_parse(&p->index, text, n, hashes, nhashes, patch_name(p), e);
    mem_free(packed);
    mem_free(hashes);
    mem_free(text);
    return code;
}

/* Bytes of the smallest chunk of a range: its length, kind, place, number, and a stream of two. */
#define CHUNK_LEAST 6

/* Data that a patch says to be large take some bytes in it: a small file that lies cannot fill a
 * disk. */
static int check_size(const patch *p, const patch_key *k, kv_err *e)
{
    int64_t bytes = k->data < 0 ? 0 : checkpoint_at(p->file, p->data[k->data])->bytes;
    if (k->data < 0 || k->changes / PATCH_RANGE <= bytes / CHUNK_LEAST)
        return KV_OK;
    return file_bad(e, KV_E_FORMAT, patch_name(p),
                    "a damaged patch: in \"%.*s\" changes are missing", PATCH_SHOWN(k->name));
}

/* Finds the tensors of data. */
static int find_data(patch *p, kv_err *e)
{
    char name[24];
    int code = KV_OK;
    if (checkpoint_count(p->file) != p->index.ndata + 2)
        return damaged(p, "its index does not fit its tensors", e);
    if (!(p->data = mem_alloc(p->index.ndata, sizeof *p->data, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < p->index.ndata; i++) {
        snprintf(name, sizeof name, "%lld", (long long)i);
        p->data[i] = checkpoint_find(p->file, name);
        if (p->data[i] < 0 || checkpoint_at(p->file, p->data[i])->type != TENSOR_U8)
            return damaged(p, "its index does not fit its tensors", e);
    }
    for (int64_t i = 0; i < p->index.nkeys && !code; i++)
        code = check_size(p, &p->index.keys[i], e);
    return code;
}

static int check_mark(const patch *p, kv_err *e)
{
    const char *mark = checkpoint_metadata(p->file, PATCH_MARK);
    if (!mark || !checkpoint_is_safetensors(p->file)) {
        file_bad(e, KV_E_FORMAT, patch_name(p), "a checkpoint, but no patch");
        return kv_err_hint(e, "patch A B --out P makes one; the checkpoint stands behind the "
                              "patches: apply P A --out B"),
               KV_E_FORMAT;
    }
    if (strcmp(mark, PATCH_VERSION) != 0)
        return file_bad(e, KV_E_FORMAT, patch_name(p),
                        "a patch of version %.20s, and this build reads version " PATCH_VERSION,
                        mark);
    return KV_OK;
}

int patch_open(patch **out, const char *path, kv_err *e)
{
    int code = patch_zstd_there(e);
    patch *p = code ? NULL : mem_zalloc(1, sizeof *p, e);
    if (!p)
        return code ? code : KV_E_MEMORY;
    if (!(code = checkpoint_open(&p->file, path, NULL, e)) && !(code = check_mark(p, e)) &&
        !(code = read_index(p, e)))
        code = find_data(p, e);
    if (code) {
        patch_close(p);
        return code;
    }
    *out = p;
    return KV_OK;
}

/* ---- What fits ------------------------------------------------------------------------------- */

void patch_misfits_release(patch_misfits *m)
{
    mem_free(m->items);
    arena_release(&m->names);
    *m = (patch_misfits){0};
}

static int add_misfit(patch_misfits *m, const char *name, const char *why, kv_err *e)
{
    const char *copy = arena_text(&m->names, name, strlen(name), e);
    int code = copy ? mem_grow(&m->items, &m->cap, m->n + 1, sizeof *m->items, e) : KV_E_MEMORY;
    if (!code)
        m->items[m->n++] = (patch_misfit){copy, why};
    return code;
}

/* One side of a patch. */
static bool has_side(const patch_key *k, bool result)
{
    return result ? patch_key_in_b(k) : patch_key_in_a(k);
}

/* Why a key of a patch is not what stands there under its name; NULL: it is, as far as is known
 * when there is no hash. */
static const char *compare(const patch_key *k, bool result, const patch_shape *shape,
                           const unsigned char *hash)
{
    const patch_shape *s = result ? &k->now : &k->was;
    if (s->type != shape->type)
        return "dtype";
    if (!patch_shape_equal(s, shape))
        return "shape";
    bool same = !hash || memcmp(result ? k->b : k->a, hash, PATCH_HASH) == 0;
    return same ? NULL : "differs";
}

int patch_compare(patch_misfits *wrong, const patch *p, bool result, const checkpoint *c,
                  const tensor_hash *hashes, kv_err *e)
{
    int code = KV_OK;
    for (int64_t i = 0; i < checkpoint_count(c) && !code; i++) {
        const tensor_info *t = checkpoint_at(c, i);
        const patch_key *k = patch_index_find(&p->index, t->name);
        patch_shape shape = patch_shape_of(t);
        bool there = k && has_side(k, result);
        const unsigned char *hash = hashes ? hashes[i].bytes : NULL;
        const char *why = there ? compare(k, result, &shape, hash) : "unknown";
        wrong->keys++;
        code = why ? add_misfit(wrong, t->name, why, e) : KV_OK;
    }
    for (int64_t i = 0; i < p->index.nkeys && !code; i++) {
        const patch_key *k = &p->index.keys[i];
        if (!has_side(k, result) || checkpoint_find(c, k->name) >= 0)
            continue;
        wrong->keys++;
        code = add_misfit(wrong, k->name, "missing", e);
    }
    return code;
}

/* Compares what x makes with what y is made from. */
static int compare_link(patch_misfits *wrong, const patch *x, const patch *y, kv_err *e)
{
    int code = KV_OK;
    for (int64_t i = 0; i < x->index.nkeys && !code; i++) {
        const patch_key *k = &x->index.keys[i];
        if (!patch_key_in_b(k))
            continue;
        const patch_key *next = patch_index_find(&y->index, k->name);
        bool there = next && patch_key_in_a(next);
        const char *why = there ? compare(next, false, &k->now, k->b) : "unknown";
        wrong->keys++;
        code = why ? add_misfit(wrong, k->name, why, e) : KV_OK;
    }
    for (int64_t i = 0; i < y->index.nkeys && !code; i++) {
        const patch_key *k = &y->index.keys[i];
        const patch_key *before = patch_index_find(&x->index, k->name);
        if (!patch_key_in_a(k) || (before && patch_key_in_b(before)))
            continue;
        wrong->keys++;
        code = add_misfit(wrong, k->name, "missing", e);
    }
    return code;
}

int patch_check_links(patch *const *patches, int n, patch_misfits *wrong, kv_err *e)
{
    for (int i = 1; i < n; i++) {
        int code = compare_link(wrong, patches[i - 1], patches[i], e);
        if (code)
            return code;
        if (wrong->n == 0) {
            wrong->keys = 0;
            continue;
        }
        wrong->link = i + 1;
        return kv_err_set(e, KV_E_ASSERT, "%.100s is not made from what %.100s makes",
                          patch_name(patches[i]), patch_name(patches[i - 1]));
    }
    return KV_OK;
}
