/* Opening patches, comparing what they say of checkpoints, and chains of patches with the blocks of
 * their keys. */
#include "patch/patch_open.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/tensor_reader.h"
#include "patch/patch_format.h"
#include "patch/patch_pack.h"

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
    own_tensor_reader *r = NULL;
    int64_t i = checkpoint_find(p->file, name);
    const tensor_info *t = i < 0 ? NULL : checkpoint_at(p->file, i);
    *out = NULL;
    if (!t || t->type != TENSOR_U8 || t->ndim != 1)
        return damaged(p, "it has no index", e);
    TRY(tensor_reader_new(&r, p->file, TENSOR_BLOCK, e));
    if (!(*out = mem_alloc(t->bytes, 1, e)))
        return KV_E_MEMORY;
    for (int64_t at = 0; at < t->bytes; at += TENSOR_BLOCK) {
        const void *data;
        int64_t some = t->bytes - at < TENSOR_BLOCK ? t->bytes - at : TENSOR_BLOCK;
        TRY(tensor_read(r, &data, i, at, some, e));
        memcpy(*out + at, data, (size_t)some);
    }
    *n = t->bytes;
    return tensor_reader_check(r, e);
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
    int rc = zstd_unpacker_new(&u, e);
    if (!rc && !(*text = mem_alloc(*bytes, 1, e)))
        rc = KV_E_MEMORY;
    if (!rc && !zstd_unpack(u, *text, *bytes, packed + 8, n - 8))
        rc = damaged(p, "its index cannot be decompressed", e);
    zstd_unpacker_free(u);
    return rc;
}

static int read_index(patch *p, kv_err *e)
{
    own_mem char *packed = NULL, *hashes = NULL, *text = NULL;
    int64_t npacked = 0, nhashes = 0, n = 0;
    TRY(read_all(p, PATCH_INDEX, &packed, &npacked, e));
    TRY(read_all(p, PATCH_HASHES, &hashes, &nhashes, e));
    TRY(unpack_index(p, packed, npacked, &text, &n, e));
    return patch_index_parse(&p->index, text, n, hashes, nhashes, patch_name(p), e);
}

/* Bytes of the smallest chunk of a range: its length, kind, place, number, and a stream of two. */
#define CHUNK_LEAST 6

/* Finds the tensors of data. */
static int find_data(patch *p, kv_err *e)
{
    char name[24];
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
    for (int64_t i = 0; i < p->index.nkeys; i++) {
        const patch_key *k = &p->index.keys[i];
        int64_t bytes = k->data < 0 ? 0 : checkpoint_at(p->file, p->data[k->data])->bytes;
        /* Data that a patch says to be large take some bytes in it: a small file that lies cannot
         * fill a disk. */
        if (k->data >= 0 && k->changes / PATCH_RANGE > bytes / CHUNK_LEAST)
            return file_bad(e, KV_E_FORMAT, patch_name(p),
                            "a damaged patch: in \"%.*s\" changes are missing",
                            PATCH_SHOWN(k->name));
    }
    return KV_OK;
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
    int rc;
    patch *p = mem_zalloc(1, sizeof *p, e);
    if (!p)
        return KV_E_MEMORY;
    if (!(rc = checkpoint_open(&p->file, path, NULL, e)) && !(rc = check_mark(p, e)) &&
        !(rc = read_index(p, e)))
        rc = find_data(p, e);
    if (rc) {
        patch_close(p);
        return rc;
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
    int rc = copy ? mem_grow(&m->items, &m->cap, m->n + 1, sizeof *m->items, e) : KV_E_MEMORY;
    if (!rc)
        m->items[m->n++] = (patch_misfit){copy, why};
    return rc;
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
    for (int64_t i = 0; i < checkpoint_count(c); i++) {
        const tensor_info *t = checkpoint_at(c, i);
        const patch_key *k = patch_index_find(&p->index, t->name);
        patch_shape shape = patch_shape_of(t);
        bool there = k && has_side(k, result);
        const unsigned char *hash = hashes ? hashes[i].bytes : NULL;
        const char *why = there ? compare(k, result, &shape, hash) : "unknown";
        wrong->keys++;
        TRY(why ? add_misfit(wrong, t->name, why, e) : KV_OK);
    }
    for (int64_t i = 0; i < p->index.nkeys; i++) {
        const patch_key *k = &p->index.keys[i];
        if (!has_side(k, result) || checkpoint_find(c, k->name) >= 0)
            continue;
        wrong->keys++;
        TRY(add_misfit(wrong, k->name, "missing", e));
    }
    return KV_OK;
}

/* Compares what x makes with what y is made from. */
static int compare_link(patch_misfits *wrong, const patch *x, const patch *y, kv_err *e)
{
    for (int64_t i = 0; i < x->index.nkeys; i++) {
        const patch_key *k = &x->index.keys[i];
        if (!patch_key_in_b(k))
            continue;
        const patch_key *next = patch_index_find(&y->index, k->name);
        bool there = next && patch_key_in_a(next);
        const char *why = there ? compare(next, false, &k->now, k->b) : "unknown";
        wrong->keys++;
        TRY(why ? add_misfit(wrong, k->name, why, e) : KV_OK);
    }
    for (int64_t i = 0; i < y->index.nkeys; i++) {
        const patch_key *k = &y->index.keys[i];
        const patch_key *before = patch_index_find(&x->index, k->name);
        if (!patch_key_in_a(k) || (before && patch_key_in_b(before)))
            continue;
        wrong->keys++;
        TRY(add_misfit(wrong, k->name, "missing", e));
    }
    return KV_OK;
}

int patch_check_links(patch *const *patches, int n, patch_misfits *wrong, kv_err *e)
{
    for (int i = 1; i < n; i++) {
        TRY(compare_link(wrong, patches[i - 1], patches[i], e));
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

/* Reading chunks. */

static int damaged_key(const patch_cursor *c, const char *what, kv_err *e)
{
    return file_bad(e, KV_E_FORMAT, patch_name(c->p), "a damaged patch: in \"%.*s\" %s",
                    PATCH_SHOWN(c->key->name), what);
}

/* Begins a key of the patch, which has data. Errors: format, memory, io. */
static int patch_cursor_begin(patch_cursor *c, const patch_key *k, kv_err *e)
{
    int rc = c->zstd ? KV_OK : zstd_unpacker_new(&c->zstd, e);
    c->key = k;
    c->tensor = c->p->data[k->data];
    c->at = 0;
    c->bytes = checkpoint_at(c->p->file, c->tensor)->bytes;
    c->unit = patch_unit(k->now.type);
    c->units = tensor_bytes(k->now.type, k->now.ndim, k->now.shape) / c->unit;
    c->found = c->n = c->next = c->end = 0;
    return rc;
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* Takes a stream of n bytes. */
static bool take_stream(patch_cursor *c, varint_reader *r, unsigned char *to, int64_t n)
{
    int64_t bytes = n;
    int how = r->at < r->end ? *r->at++ : -1;
    if (how == 2 && r->at < r->end && n > 0) {
        memset(to, *r->at++, (size_t)n);
        return true;
    }
    if ((how == 1 && !varint_take(r, &bytes)) || how < 0 || how > 1 || bytes > r->end - r->at)
        return false;
    if (n == 0) /* to may be NULL; nobody writes such a stream */
        return how == 0;
    bool whole = how == 1 ? zstd_unpack(c->zstd, to, n, r->at, bytes)
                          : memcpy(to, r->at, (size_t)n) != NULL;
    r->at += bytes;
    return whole;
}

static bool take_streams(patch_cursor *c, varint_reader *r, unsigned char *to, int64_t n,
                         int64_t planes)
{
    for (int64_t k = 0; k < planes; k++)
        if (!take_stream(c, r, n > 0 ? to + k * n : to, n))
            return false;
    return true;
}

/* Number i of the types that have their bytes in so many planes. */
static uint64_t number_at(const unsigned char *planes, int64_t n, int64_t width, int64_t i)
{
    uint64_t x = 0;
    for (int64_t k = width; k-- > 0;)
        x = x << 8 | planes[k * n + i];
    return x;
}

/* The gap behind unit i of the chunk; *used counts what is added to short ones. */
static uint64_t gap_at(const patch_cursor *c, int64_t i, int64_t *used)
{
    int64_t n = c->n - 1;
    if (c->gap != PATCH_SHORT)
        return number_at(c->gaps, n, c->gap, i);
    uint64_t gap = c->gaps[i];
    if (gap == 255) { /* no more than 2^64 */
        uint64_t rest = number_at(c->gaps + n, c->nrest, c->rest, (*used)++);
        gap = rest > UINT64_MAX - gap ? UINT64_MAX : gap + rest;
    }
    return gap;
}

/* Returns true if all places of the chunk are within the tensor. */
static bool places_fit(const patch_cursor *c)
{
    uint64_t left = (uint64_t)(c->units - c->place), taken = 1;
    int64_t used = 0;
    if (c->range)
        return (uint64_t)c->n <= left;
    for (int64_t i = 0; i + 1 < c->n && taken <= left; i++) {
        uint64_t gap = gap_at(c, i, &used);
        if (gap >= left - taken)
            return false;
        taken += gap + 1;
    }
    return taken <= left;
}

static int take_gaps(patch_cursor *c, varint_reader *r, kv_err *e)
{
    int64_t n = c->n - 1, width = c->gap == PATCH_SHORT ? 1 : c->gap;
    TRY(mem_grow(&c->gaps, &c->gaps_cap, n * width, 1, e));
    bool good = take_streams(c, r, c->gaps, n, width);
    c->nrest = c->used = 0;
    int rc = KV_OK;
    if (good && c->gap == PATCH_SHORT) {
        for (int64_t i = 0; i < n; i++)
            c->nrest += c->gaps[i] == 255;
        good = r->at < r->end && (c->rest = *r->at++) <= 8;
        if (good && (rc = mem_grow(&c->gaps, &c->gaps_cap, n + c->nrest * c->rest, 1, e)))
            return rc;
        good = good && take_streams(c, r, n > 0 ? c->gaps + n : c->gaps, c->nrest, c->rest);
    }
    return good ? KV_OK : damaged_key(c, "the places of changes cannot be read", e);
}

/* Reads the head in front of the values; skip: the units before the first one. */
static bool take_head(varint_reader *r, patch_cursor *c, int64_t *skip)
{
    if (r->at == r->end || *r->at > 1)
        return false;
    c->range = *r->at++ == 1;
    if (!varint_take(r, skip) || !varint_take(r, &c->n) || c->n < 1 ||
        c->n > (c->range ? PATCH_RANGE : PATCH_CHUNK))
        return false;
    c->gap = 0;
    if (!c->range && (r->at == r->end || (c->gap = *r->at++) > PATCH_SHORT))
        return false;
    return true;
}

static int read_chunk(patch_cursor *c, varint_reader *r, kv_err *e)
{
    int64_t skip;
    if (!take_head(r, c, &skip))
        return damaged_key(c, "the head of a chunk is wrong", e);
    TRY(mem_grow(&c->values, &c->values_cap, c->n * c->unit, 1, e));
    if (skip >= c->units - c->end || c->n > c->units - c->end)
        return damaged_key(c, "a change stands behind its end", e);
    c->place = c->end + skip;
    c->next = 0;
    int rc = KV_OK;
    if (!c->range && (rc = take_gaps(c, r, e)))
        return rc;
    if (!places_fit(c))
        return damaged_key(c, "a change stands behind its end", e);
    int layout = c->unit == 1 ? 0 : r->at < r->end ? *r->at++ : 2;
    c->together = layout == 1;
    if (layout > 1 || !take_streams(c, r, c->values, c->together ? c->n * c->unit : c->n,
                                    c->together ? 1 : c->unit))
        return damaged_key(c, "the values of changes cannot be read", e);
    c->found += c->n;
    return r->at == r->end ? KV_OK : damaged_key(c, "a chunk is longer than what it holds", e);
}

/* The largest chunk, with room for what zstd adds to data that it cannot compress, which is stored
 * as it is instead. */
#define CHUNK_BYTES_MAX (PATCH_RANGE * 8 + (PATCH_CHUNK * 16) + 4096)
_Static_assert(CHUNK_BYTES_MAX + VARINT_MAX <= TENSOR_BLOCK, "a chunk is read at once");

/* The n bytes of a chunk, with their sum. */
static int check_chunk(patch_cursor *c, const unsigned char *data, int64_t n, kv_err *e)
{
    uint32_t sum = 0;
    if (n < PATCH_SUM)
        return damaged_key(c, "a chunk is cut", e);
    for (int i = 0; i < PATCH_SUM; i++)
        sum |= (uint32_t)data[n - PATCH_SUM + i] << 8 * i;
    if (patch_sum(data, n - PATCH_SUM) != sum)
        return damaged_key(c, "a chunk is not what its sum says", e);
    varint_reader r = {data, data + n - PATCH_SUM};
    return read_chunk(c, &r, e);
}

/* Reads the next chunk. */
static int next_chunk(patch_cursor *c, kv_err *e)
{
    const void *data;
    int64_t left = c->bytes - c->at, n;
    TRY(c->r ? KV_OK : tensor_reader_new(&c->r, c->p->file, TENSOR_BLOCK, e));
    int64_t head = left < VARINT_MAX ? left : VARINT_MAX;
    TRY(tensor_read(c->r, &data, c->tensor, c->at, head, e));
    varint_reader r = {data, (const unsigned char *)data + head};
    if (!varint_take(&r, &n) || n > CHUNK_BYTES_MAX)
        return damaged_key(c, "the length of a chunk is wrong", e);
    c->at += r.at - (const unsigned char *)data;
    if (n > c->bytes - c->at)
        return damaged_key(c, "a chunk is cut", e);
    TRY(tensor_read(c->r, &data, c->tensor, c->at, n, e));
    c->at += n;
    int rc = check_chunk(c, data, n, e);
    kv_err shrunk = {0};
    if (tensor_reader_check(c->r, &shrunk)) { /* then what was read is zeros */
        if (e)
            *e = shrunk;
        rc = shrunk.code;
    }
    if (c->frugal) {
        tensor_reader_free(c->r);
        c->r = NULL;
    }
    return rc;
}

/* ---- Laying over ----------------------------------------------------------------------------- */

/* Unit i of the chunk. */
static void put_unit(const patch_cursor *c, char *to, int64_t i)
{
    if (c->together) {
        memcpy(to, c->values + i * c->unit, (size_t)c->unit);
        return;
    }
    for (int64_t k = 0; k < c->unit; k++)
        to[k] = (char)c->values[k * c->n + i];
}

/* The units of a range that stand before `end`. */
static void lay_range(patch_cursor *c, char *block, unsigned char *marks, int64_t first,
                      int64_t end)
{
    int64_t n = c->n - c->next < end - c->place ? c->n - c->next : end - c->place;
    char *to = block + (c->place - first) * c->unit;
    if (c->together || c->unit == 1) {
        memcpy(to, c->values + c->next * c->unit, (size_t)(n * c->unit));
    } else {
        for (int64_t k = 0; k < c->unit; k++) {
            const unsigned char *plane = c->values + k * c->n + c->next;
            for (int64_t i = 0; i < n; i++)
                to[i * c->unit + k] = (char)plane[i];
        }
    }
    if (marks)
        memset(marks + (c->place - first), 1, (size_t)n);
    c->next += n;
    c->place += n;
}

/* The most frequent chunk: units of two bytes, a byte a gap. */
static void lay_pairs(patch_cursor *c, char *block, int64_t first, int64_t end)
{
    const unsigned char *low = c->values, *high = low + c->n;
    int64_t i = c->next, place = c->place, last = c->n - 1;
    while (place < end) {
        char *to = block + (place - first) * 2;
        to[0] = (char)low[i];
        to[1] = (char)high[i];
        if (i++ == last)
            break;
        int gap = c->gaps[i - 1];
        place += 1 + (gap < 255 ? gap : (int64_t)gap_at(c, i - 1, &c->used));
    }
    c->next = i;
    c->place = place;
}

static void lay_places(patch_cursor *c, char *block, unsigned char *marks, int64_t first,
                       int64_t end)
{
    if (c->unit == 2 && !c->together && c->gap == PATCH_SHORT && !marks) {
        lay_pairs(c, block, first, end);
        return;
    }
    while (c->next < c->n && c->place < end) {
        put_unit(c, block + (c->place - first) * c->unit, c->next);
        if (marks)
            marks[c->place - first] = 1;
        c->place += ++c->next < c->n ? (int64_t)gap_at(c, c->next - 1, &c->used) + 1 : 0;
    }
}

/* Puts what changes of n units from unit `first` on into their block. Blocks follow each other from
 * the first unit on. marks (optional): a byte for each, which becomes 1 where it was put. Errors:
 * format (a chunk that is damaged), io, memory, unsupported. */
static int patch_cursor_lay(patch_cursor *c, void *block, unsigned char *marks, int64_t first,
                            int64_t n, kv_err *e)
{
    int64_t end = first + n;
    for (;;) {
        if (c->next == c->n) { /* the chunk is used up */
            if (c->at == c->bytes)
                return KV_OK;
            TRY(next_chunk(c, e));
        }
        if (c->place >= end)
            return KV_OK;
        if (c->range)
            lay_range(c, block, marks, first, end);
        else
            lay_places(c, block, marks, first, end);
        if (c->next == c->n)
            c->end = c->range ? c->place : c->place + 1;
    }
}

/* All blocks were asked for. Error: format (chunks are left, or fewer units than the index says
 * were in them). */
static int patch_cursor_end(patch_cursor *c, kv_err *e)
{
    if (c->next != c->n || c->at != c->bytes)
        return damaged_key(c, "there are changes behind its end", e);
    /* ranges have units in them that do not differ */
    return c->found >= c->key->changes ? KV_OK : damaged_key(c, "changes are missing", e);
}

/* ---- What keys of a chain are made of -------------------------------------------------------- */

/* Finds the layers of a key from the last patch back; they are put in order afterwards. */
static int find_layers(patch_chain *c, patch_chain_key *k, kv_err *e)
{
    k->layers = c->nlayers;
    k->from_a = true;
    for (int i = c->n - 1; i >= 0 && k->from_a; i--) {
        const patch_key *key = patch_index_find(&c->patches[i]->index, k->key->name);
        if (key->data < 0)
            continue;
        TRY(mem_grow(&c->layers, &c->cap, c->nlayers + 1, sizeof *c->layers, e));
        c->layers[c->nlayers++] = (patch_layer){i, key};
        k->from_a = !patch_key_is_whole(key);
    }
    k->n = c->nlayers - k->layers;
    for (int64_t i = 0; i < k->n / 2; i++) {
        patch_layer *x = &c->layers[k->layers + i], *y = &c->layers[k->layers + k->n - 1 - i];
        patch_layer kept = *x;
        *x = *y;
        *y = kept;
    }
    return KV_OK;
}

int patch_chain_init(patch_chain *c, patch *const *patches, int n, kv_err *e)
{
    const patch_index *last = &patches[n - 1]->index;
    c->patches = patches;
    c->n = n;
    if (!(c->keys = mem_zalloc(last->nkeys, sizeof *c->keys, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < last->nkeys; i++) {
        if (!patch_key_in_b(&last->keys[i]))
            continue;
        c->keys[c->nkeys].key = &last->keys[i];
        TRY(find_layers(c, &c->keys[c->nkeys++], e));
    }
    return KV_OK;
}

void patch_chain_release(patch_chain *c)
{
    mem_free(c->keys);
    mem_free(c->layers);
    *c = (patch_chain){0};
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* From so many patches on, their cursors keep no part of a file mapped. */
#define FRUGAL_FROM 8

int patch_maker_init(patch_maker *m, const patch_chain *c, kv_err *e)
{
    m->chain = c;
    if (!(m->cursors = mem_zalloc(c->n, sizeof *m->cursors, e)) ||
        !(m->block = mem_alloc(PATCH_RANGE, 8, e)))
        return KV_E_MEMORY;
    for (int i = 0; i < c->n; i++) {
        m->cursors[i].p = c->patches[i];
        m->cursors[i].frugal = c->n >= FRUGAL_FROM;
    }
    return digest_new(&m->d, DIGEST_XXH3, e);
}

void patch_maker_release(patch_maker *m)
{
    for (int i = 0; m->cursors && i < m->chain->n; i++) {
        tensor_reader_free(m->cursors[i].r);
        zstd_unpacker_free(m->cursors[i].zstd);
        mem_free(m->cursors[i].gaps);
        mem_free(m->cursors[i].values);
    }
    mem_free(m->cursors);
    mem_free(m->block);
    mem_free(m->marks);
    digest_free(m->d);
    buf_release(&m->line);
}

static patch_cursor *cursor_of(const patch_maker *m, const patch_chain_key *k, int64_t i,
                               const patch_key **key)
{
    const patch_layer *layer = &m->chain->layers[k->layers + i];
    *key = layer->key;
    return &m->cursors[layer->patch];
}

int patch_maker_begin(patch_maker *m, const patch_chain_key *k, kv_err *e)
{
    const patch_shape *s = &k->key->now;
    const patch_key *key;
    int rc = tensor_hash_begin(m->d, &m->line, s->type, s->ndim, s->shape, e);
    for (int64_t i = 0; i < k->n && !rc; i++) {
        patch_cursor *c = cursor_of(m, k, i, &key);
        rc = patch_cursor_begin(c, key, e);
    }
    return rc;
}

static int lay_all(patch_maker *m, const patch_chain_key *k, unsigned char *marks, int64_t first,
                   int64_t units, kv_err *e)
{
    const patch_key *key;
    for (int64_t i = 0; i < k->n; i++) {
        patch_cursor *c = cursor_of(m, k, i, &key);
        TRY(patch_cursor_lay(c, m->block, marks, first, units, e));
    }
    return KV_OK;
}

int patch_maker_block(patch_maker *m, const patch_chain_key *k, const void *a, int64_t first,
                      int64_t units, const void **made, kv_err *e)
{
    int64_t bytes = units * patch_unit(k->key->now.type);
    *made = k->n ? m->block : a;
    if (k->n && a)
        memcpy(m->block, a, (size_t)bytes);
    else if (k->n) /* a damaged patch may not have all of it */
        memset(m->block, 0, (size_t)bytes);
    TRY(lay_all(m, k, NULL, first, units, e));
    digest_add(m->d, *made, bytes);
    return KV_OK;
}

int patch_maker_changes(patch_maker *m, const patch_chain_key *k, int64_t first, int64_t units,
                        kv_err *e)
{
    if (!m->marks && !(m->marks = mem_alloc(PATCH_RANGE, 1, e)))
        return KV_E_MEMORY;
    memset(m->marks, 0, (size_t)units);
    return lay_all(m, k, m->marks, first, units, e);
}

static int check_hash(patch_maker *m, const patch_chain_key *k, kv_err *e)
{
    unsigned char hash[DIGEST_MAX];
    TRY(digest_end(m->d, hash, e));
    if (memcmp(hash, k->key->b, PATCH_HASH) == 0)
        return KV_OK;
    if (k->n == 0)
        return kv_err_set(e, KV_E_IO, "\"%.*s\" changed while it was read",
                          PATCH_SHOWN(k->key->name));
    const patch_layer *last = &m->chain->layers[k->layers + k->n - 1];
    return file_bad(e, KV_E_FORMAT, patch_name(m->chain->patches[last->patch]),
                    "a damaged patch: \"%.*s\" does not become what its hash says",
                    PATCH_SHOWN(k->key->name));
}

int patch_maker_end(patch_maker *m, const patch_chain_key *k, bool checked, kv_err *e)
{
    const patch_key *key;
    for (int64_t i = 0; i < k->n; i++) {
        patch_cursor *c = cursor_of(m, k, i, &key);
        TRY(patch_cursor_end(c, e));
    }
    return checked ? check_hash(m, k, e) : KV_OK;
}
