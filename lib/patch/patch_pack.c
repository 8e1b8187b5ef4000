/* Packing of changes.
 *
 * Each byte of gaps and values is a stream of its own: the upper bytes of floats and of gaps take
 * few values, the lower ones are noise, and both are packed at once by the entropy coder of zstd
 * alone, at its quickest. Where the quickest finds repetitions too, its best search is tried; and
 * where a sample of the values as they stand is smaller than their bytes apart are, such as those
 * of a code book, they stay together. Where much of a block changed, its changes are compared with
 * all of the block, since values without places may be smaller. */
#include "patch/patch_pack.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "base/file.h"
#include "base/mem.h"
#include "patch/patch_format.h"

/* ---- zstd ------------------------------------------------------------------------------------ */

/* The only file that knows libzstd. */

int zstd_packer_new(zstd_packer **out, kv_err *e)
{
    *out = ZSTD_createCCtx();
    return *out ? KV_OK : kv_err_set(e, KV_E_MEMORY, "out of memory for libzstd");
}

void zstd_packer_free(zstd_packer *p)
{
    ZSTD_freeCCtx(p);
}

int zstd_unpacker_new(zstd_unpacker **out, kv_err *e)
{
    *out = ZSTD_createDCtx();
    return *out ? KV_OK : kv_err_set(e, KV_E_MEMORY, "out of memory for libzstd");
}

void zstd_unpacker_free(zstd_unpacker *u)
{
    ZSTD_freeDCtx(u);
}

int64_t zstd_bound(int64_t n)
{
    return (int64_t)ZSTD_compressBound((size_t)n);
}

int64_t zstd_pack(zstd_packer *p, void *to, int64_t room, const void *data, int64_t n, int level,
                  int checked)
{
    ZSTD_CCtx_reset(p, ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(p, ZSTD_c_compressionLevel, level);
    if (level == ZSTD_QUICK) { /* short repetitions are chance, and cost most of the time */
        ZSTD_CCtx_setParameter(p, ZSTD_c_compressionLevel, 1);
        ZSTD_CCtx_setParameter(p, ZSTD_c_strategy, ZSTD_fast);
        ZSTD_CCtx_setParameter(p, ZSTD_c_minMatch, 7);
    }
    ZSTD_CCtx_setParameter(p, ZSTD_c_checksumFlag, checked);
    size_t bytes = ZSTD_compress2(p, to, (size_t)room, data, (size_t)n);
    return ZSTD_isError(bytes) ? 0 : (int64_t)bytes;
}

/* The frame is all that there is: its own length is compared first, because the library would go on
 * with frames behind it. */
int zstd_unpack(zstd_unpacker *u, void *to, int64_t bytes, const void *data, int64_t n)
{
    size_t frame = ZSTD_findFrameCompressedSize(data, (size_t)n);
    if (ZSTD_isError(frame) || frame != (size_t)n)
        return 0;
    size_t got = ZSTD_decompressDCtx(u, to, (size_t)bytes, data, (size_t)n);
    return !ZSTD_isError(got) && got == (size_t)bytes;
}

/* ---- Packing --------------------------------------------------------------------------------- */

#define QUICK ZSTD_QUICK
#define BEST  9

void patch_pack_release(patch_pack *p)
{
    zstd_packer_free(p->zstd);
    mem_free(p->at);
    mem_free(p->values);
    buf_release(&p->out);
    buf_release(&p->body);
    buf_release(&p->other);
    buf_release(&p->streams);
    mem_free(p->plane);
    mem_free(p->frame);
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* The bytes that n bytes take when each is coded by how often it stands there; of a long stream as
 * a part of them tells, in runs so that repetitions of even length cannot hide. */
static double entropy(const unsigned char *data, int64_t n)
{
    enum { RUN = 61, STEP = 251 };
    int64_t counts[2][256] = {0}, all = 0;
    double bits = 0;
    for (int64_t at = 0; at < n; at += n > 8192 ? STEP : RUN) {
        int64_t some = n - at < RUN ? n - at : RUN;
        for (int64_t i = 0; i < some; i++)
            counts[i & 1][data[at + i]]++;
        all += some;
    }
    for (int c = 0; c < 256; c++) {
        double k = (double)(counts[0][c] + counts[1][c]);
        if (k > 0)
            bits += k * log2((double)all / k);
    }
    return bits / 8 * (double)n / (double)all;
}

/* Compresses a stream into p->frame; 0: it does not become smaller. The best search is tried where
 * the quick one finds more than the entropy of single bytes: then there are repetitions. */
static int64_t compress(patch_pack *p, const unsigned char *data, int64_t n, bool best)
{
    int64_t bytes = 0;
    if (!best) {
        bytes = zstd_pack(p->zstd, p->frame, p->frame_cap, data, n, QUICK, 0);
        best = bytes < n - n / 32 && (double)bytes < 0.93 * entropy(data, n);
    }
    if (best) {
        int64_t smaller = zstd_pack(p->zstd, p->frame, p->frame_cap, data, n, BEST, 0);
        if (bytes && smaller > bytes) /* rare: made again */
            smaller = zstd_pack(p->zstd, p->frame, p->frame_cap, data, n, QUICK, 0);
        bytes = smaller;
    }
    return bytes < n ? bytes : 0;
}

static int put_stream(patch_pack *p, buf *to, const unsigned char *data, int64_t n, bool best,
                      kv_err *e)
{
    if (n > 0 && memcmp(data, data + 1, (size_t)n - 1) == 0) {
        buf_char(to, 2);
        buf_char(to, (char)data[0]);
        return KV_OK;
    }
    TRY(mem_grow(&p->frame, &p->frame_cap, zstd_bound(n), 1, e));
    int64_t bytes = compress(p, data, n, best);
    buf_char(to, bytes ? 1 : 0);
    if (bytes)
        varint_put(to, bytes);
    buf_put(to, (const char *)(bytes ? p->frame : data), (size_t)(bytes ? bytes : n));
    return KV_OK;
}

/* Byte k of each of n items of `width` bytes. */
static void take_plane(unsigned char *restrict plane, const void *items, int64_t n, int width,
                       int k)
{
    const unsigned char *restrict from = (const unsigned char *)items + k;
    if (width == 2) { /* the most frequent, which the compiler makes vectors of */
        for (int64_t i = 0; i < n; i++)
            plane[i] = from[2 * i];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        plane[i] = from[i * width];
}

/* n items of `width` bytes as a stream for each byte of them. */
static int put_planes(patch_pack *p, buf *to, const void *items, int64_t n, int width, int planes,
                      kv_err *e)
{
    int rc = mem_grow(&p->plane, &p->plane_cap, n, 1, e);
    for (int k = 0; k < planes && !rc; k++) {
        take_plane(p->plane, items, n, width, k);
        rc = put_stream(p, to, p->plane, n, false, e);
    }
    return rc;
}

/* The bytes that n values would take, packed as they stand, estimated from the first sixteenth. */
static int64_t sample(patch_pack *p, const void *values, int64_t n, kv_err *e, int *code)
{
    int64_t some = n / 16 < 256 ? 256 : n / 16;
    some = some < n ? some : n;
    if ((*code = mem_grow(&p->frame, &p->frame_cap, zstd_bound(some * p->unit), 1, e)))
        return 0;
    int64_t bytes = zstd_pack(p->zstd, p->frame, p->frame_cap, values, some * p->unit, 3, 0);
    return bytes * (n / some);
}

/* The values of a chunk, in the smaller of the two ways. */
static int put_values(patch_pack *p, const void *values, int64_t n, kv_err *e)
{
    int rc = KV_OK;
    if (p->unit == 1)
        return put_stream(p, &p->body, values, n, false, e);
    buf_clear(&p->streams);
    buf_char(&p->streams, 0);
    TRY(put_planes(p, &p->streams, values, n, p->unit, p->unit, e));
    size_t apart = p->streams.len;
    if (sample(p, values, n, e, &rc) < (int64_t)apart * 9 / 10 && !rc) {
        buf_char(&p->streams, 1);
        rc = put_stream(p, &p->streams, values, n * p->unit, true, e);
    }
    if (rc || buf_check(&p->streams, e))
        return rc ? rc : KV_E_MEMORY;
    size_t together = p->streams.len - apart;
    bool smaller = together > 0 && together < apart;
    buf_put(&p->body, p->streams.data + (smaller ? apart : 0), smaller ? together : apart);
    return KV_OK;
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* Adds the body of a chunk, which p->body holds, to an output. */
static int close_chunk(patch_pack *p, buf *to, kv_err *e)
{
    if (buf_check(&p->body, e))
        return KV_E_MEMORY;
    uint32_t sum = patch_sum(p->body.data, (int64_t)p->body.len);
    varint_put(to, (int64_t)p->body.len + PATCH_SUM);
    buf_put(to, p->body.data, p->body.len);
    for (int i = 0; i < PATCH_SUM; i++)
        buf_char(to, (char)(sum >> 8 * i));
    return buf_check(to, e);
}

static void open_chunk(patch_pack *p, int kind, int64_t skip, int64_t n)
{
    buf_clear(&p->body);
    buf_char(&p->body, (char)kind);
    varint_put(&p->body, skip);
    varint_put(&p->body, n);
}

/* A gap is a byte. Longer gaps are 255, and the rest of each follows. */
static int put_short_gaps(patch_pack *p, const int64_t *gaps, int64_t n, kv_err *e)
{
    int64_t *rest = p->rest, many = 0;
    uint64_t all = 0;
    int width = 0;
    TRY(mem_grow(&p->plane, &p->plane_cap, n, 1, e));
    for (int64_t i = 0; i < n; i++) {
        p->plane[i] = (unsigned char)(gaps[i] < 255 ? gaps[i] : 255);
        rest[many] = gaps[i] - 255;
        many += gaps[i] >= 255;
    }
    TRY(put_stream(p, &p->body, p->plane, n, false, e));
    for (int64_t i = 0; i < many; i++)
        all |= (uint64_t)rest[i];
    for (; all; all >>= 8)
        width++;
    buf_char(&p->body, (char)width);
    return put_planes(p, &p->body, rest, many, 8, width, e);
}

/* The gaps of n changes stand where their numbers stood, from the second on; those are put back. */
static int put_gaps(patch_pack *p, int64_t *at, int64_t n, kv_err *e)
{
    uint64_t all = 0;
    int64_t longer = 0;
    int width = 0, rc;
    for (int64_t i = n - 1; i > 0; i--) {
        at[i] -= at[i - 1] + 1;
        all |= (uint64_t)at[i];
        longer += at[i] >= 255;
    }
    for (; all; all >>= 8)
        width++;
    bool are_short = longer > 0 && longer < n / 4;
    buf_char(&p->body, (char)(are_short ? PATCH_SHORT : width));
    rc = are_short ? put_short_gaps(p, at + 1, n - 1, e)
                   : put_planes(p, &p->body, at + 1, n - 1, 8, width, e);
    for (int64_t i = 1; i < n; i++)
        at[i] += at[i - 1] + 1;
    return rc;
}

static int put_range(patch_pack *p, buf *to, const void *values, int64_t first, int64_t n,
                     kv_err *e)
{
    open_chunk(p, 1, first - p->end, n);
    int rc = put_values(p, values, n, e);
    return rc ? rc : close_chunk(p, to, e);
}

/* The first `to` changes, in chunks. */
static int put_changes(patch_pack *p, buf *out, int64_t to, kv_err *e)
{
    int64_t end = p->end; /* the unit behind the chunk before */
    for (int64_t i = 0; i < to; i += PATCH_CHUNK) {
        int64_t n = to - i < PATCH_CHUNK ? to - i : PATCH_CHUNK;
        open_chunk(p, 0, p->at[i] - end, n);
        TRY(put_gaps(p, p->at + i, n, e));
        TRY(put_values(p, p->values + i * p->unit, n, e));
        TRY(close_chunk(p, out, e));
        end = p->at[i + n - 1] + 1;
    }
    return KV_OK;
}

/* Puts the first n changes to the output and drops them. */
static int flush(patch_pack *p, int64_t n, kv_err *e)
{
    TRY(put_changes(p, &p->out, n, e));
    if (n == 0)
        return KV_OK;
    p->end = p->at[n - 1] + 1;
    p->n -= n;
    memmove(p->at, p->at + n, (size_t)p->n * sizeof *p->at);
    memmove(p->values, p->values + n * p->unit, (size_t)(p->n * p->unit));
    return KV_OK;
}

/* A block that waits as changes only: it is written as these or whole, whichever is smaller. */
static int put_block(patch_pack *p, int64_t first, int64_t units, const void *block, kv_err *e)
{
    int rc = KV_OK;
    int64_t end = p->at[p->n - 1] + 1;
    bool all = p->n == units;
    buf_clear(&p->other);
    TRY(put_range(p, &p->other, block, first, units, e));
    size_t whole = p->other.len;
    if (!all && (rc = put_changes(p, &p->other, p->n, e)))
        return rc;
    size_t changes = p->other.len - whole;
    bool parts = !all && changes < whole;
    buf_put(&p->out, p->other.data + (parts ? whole : 0), parts ? changes : whole);
    p->end = parts ? end : first + units;
    p->n = 0;
    return buf_check(&p->out, e);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

void patch_pack_begin(patch_pack *p, int unit)
{
    p->unit = unit;
    p->n = 0;
    p->end = 0;
}

int patch_pack_room(patch_pack *p, int64_t n, kv_err *e)
{
    int rc = mem_grow(&p->at, &p->cap, p->n + n + 8, sizeof *p->at, e);
    return rc ? rc : mem_grow(&p->values, &p->values_cap, (p->n + n + 8) * p->unit, 1, e);
}

/* Where fewer of a block changed, places and values are surely the smaller way, but for values that
 * cost nothing. */
#define MANY 8

int patch_pack_add(patch_pack *p, int64_t n, int64_t first, int64_t units, const void *block,
                   kv_err *e)
{
    if (block && n > 0 && n >= units / MANY) {
        p->n += n;
        int rc = flush(p, p->n - n, e);
        return rc ? rc : put_block(p, first, units, block, e);
    }
    p->n += n;
    return p->n >= PATCH_CHUNK ? flush(p, p->n / PATCH_CHUNK * PATCH_CHUNK, e) : KV_OK;
}

int patch_pack_whole(patch_pack *p, int64_t first, int64_t units, const void *block, kv_err *e)
{
    TRY(flush(p, p->n, e));
    TRY(put_range(p, &p->out, block, first, units, e));
    p->end = first + units;
    return KV_OK;
}

int patch_pack_end(patch_pack *p, kv_err *e)
{
    return flush(p, p->n, e);
}

/* Compresses n bytes as the index of a patch is, behind their number. */
static int pack_index(zstd_packer *p, buf *out, const void *data, int64_t n, kv_err *e)
{
    int64_t room = zstd_bound(n), bytes = 0;
    buf_put(out, (const char *)&n, sizeof n);
    char *to = buf_room(out, (size_t)room);
    if (to && (bytes = zstd_pack(p, to, room, data, n, BEST, 1)))
        buf_grew(out, (size_t)bytes);
    if (buf_check(out, e))
        return KV_E_MEMORY;
    /* there is room for any result, so that only memory can lack */
    return bytes ? KV_OK : kv_err_set(e, KV_E_MEMORY, "out of memory for libzstd");
}

/* The spool, and the file that is made of it. */

#define PIECE ((int64_t)1 << 20)

/* ---- The spool ------------------------------------------------------------------------------- */

int patch_spool_init(patch_spool *s, kv_err *e)
{
    *s = (patch_spool){.bytes.fd = -1};
    pthread_mutex_init(&s->lock, NULL);
    return input_new(&s->bytes, "the data of a patch", e);
}

void patch_spool_release(patch_spool *s)
{
    input_close(&s->bytes);
    mem_free(s->parts);
    pthread_mutex_destroy(&s->lock);
}

int patch_spool_add(patch_spool *s, int64_t key, buf *out, kv_err *e)
{
    int rc = KV_OK;
    if (out->len == 0)
        return KV_OK;
    pthread_mutex_lock(&s->lock);
    int64_t at = s->bytes.size, n = (int64_t)out->len;
    if (!(rc = mem_grow(&s->parts, &s->cap, s->n + 1, sizeof *s->parts, e)) &&
        !(rc = input_append(&s->bytes, out->data, n, e))) {
        s->parts[s->n] = (patch_part){key, s->n, at, n};
        s->n++;
    }
    pthread_mutex_unlock(&s->lock);
    buf_clear(out);
    return rc;
}

static int by_key(const void *a, const void *b)
{
    const patch_part *x = a, *y = b;
    int64_t u = x->key == y->key ? x->order : x->key, v = x->key == y->key ? y->order : y->key;
    return (u > v) - (u < v);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Everything of a file but its data. */
typedef struct writing {
    const patch_index *x;
    patch_spool *s;
    buf index, hashes;
    checkpoint_entry *entries;
    char (*names)[24];
    int64_t *sizes; /* of each tensor: its shape */
    int64_t n;
    checkpoint_out *out;
    char *piece;
} writing;

/* The sizes of the tensors: index, hashes, data. */
static int lay_out(writing *w, kv_err *e)
{
    w->n = w->x->ndata + 2;
    w->entries = mem_alloc(w->n, sizeof *w->entries, e);
    w->names = mem_alloc(w->n, sizeof *w->names, e);
    w->sizes = mem_zalloc(w->n, sizeof *w->sizes, e);
    w->piece = mem_alloc(PIECE, 1, e);
    if (!w->entries || !w->names || !w->sizes || !w->piece)
        return KV_E_MEMORY;
    w->sizes[0] = (int64_t)w->index.len;
    w->sizes[1] = (int64_t)w->hashes.len;
    for (int64_t i = 0; i < w->s->n; i++)
        w->sizes[2 + w->x->keys[w->s->parts[i].key].data] += w->s->parts[i].n;
    for (int64_t i = 0; i < w->n; i++) {
        const char *name = i == 0 ? PATCH_INDEX : i == 1 ? PATCH_HASHES : w->names[i];
        snprintf(w->names[i], sizeof w->names[i], "%lld", (long long)i - 2);
        w->entries[i] = (checkpoint_entry){name, TENSOR_U8, 1, &w->sizes[i]};
    }
    return KV_OK;
}

/* Copies a part from the spool to byte `to` of a tensor. */
static int copy_part(writing *w, const patch_part *part, int64_t tensor, int64_t to, kv_err *e)
{
    for (int64_t at = 0; at < part->n; at += PIECE) {
        int64_t n = part->n - at < PIECE ? part->n - at : PIECE;
        TRY(input_read(&w->s->bytes, w->piece, part->at + at, n, e));
        TRY(checkpoint_out_put(w->out, tensor, to + at, w->piece, n, e));
    }
    return KV_OK;
}

static int put_all(writing *w, kv_err *e)
{
    int64_t tensor = -1, to = 0;
    TRY(checkpoint_out_put(w->out, 0, 0, w->index.data, (int64_t)w->index.len, e));
    TRY(checkpoint_out_put(w->out, 1, 0, w->hashes.data, (int64_t)w->hashes.len, e));
    for (int64_t i = 0; i < w->s->n; i++) {
        const patch_part *part = &w->s->parts[i];
        int64_t next = 2 + w->x->keys[part->key].data;
        to = next == tensor ? to : 0;
        tensor = next;
        TRY(copy_part(w, part, tensor, to, e));
        to += part->n;
    }
    return KV_OK;
}

static int write_file(writing *w, const char *path, const patch_options *o, kv_err *e)
{
    static const checkpoint_text mark = {PATCH_MARK, PATCH_VERSION};
    checkpoint_out_options how = {.any_name = true, .unsynced = o && o->unsynced};
    TRY(checkpoint_out_open(&w->out, path, w->entries, w->n, &mark, 1, &how, e));
    int rc = put_all(w, e);
    if (!rc)
        return checkpoint_out_commit(w->out, e);
    checkpoint_out_abandon(w->out);
    return rc;
}

int patch_write(const char *path, const patch_index *x, patch_spool *s, const patch_options *o,
                int64_t *bytes, kv_err *e)
{
    writing w = {.x = x, .s = s};
    if (s->n > 0)
        qsort(s->parts, (size_t)s->n, sizeof *s->parts, by_key);
    buf text = {0};
    zstd_packer *p = NULL;
    patch_index_print(w.x, &text, &w.hashes);
    int rc = buf_check(&text, e);
    if (!rc)
        rc = buf_check(&w.hashes, e);
    if (!rc && (int64_t)text.len > PATCH_INDEX_MAX)
        rc = file_bad(e, KV_E_VALUE, path, "the names of all keys have more than %lld MB",
                      (long long)(PATCH_INDEX_MAX >> 20));
    if (!rc && !(rc = zstd_packer_new(&p, e)))
        rc = pack_index(p, &w.index, text.data, (int64_t)text.len, e);
    zstd_packer_free(p);
    buf_release(&text);
    if (!rc && !(rc = lay_out(&w, e)))
        rc = write_file(&w, path, o, e);
    struct stat about;
    if (!rc && stat(path, &about) != 0)
        rc = file_error(e, "read", path, errno);
    *bytes = rc ? 0 : about.st_size;
    buf_release(&w.index);
    buf_release(&w.hashes);
    mem_free(w.entries);
    mem_free(w.names);
    mem_free(w.sizes);
    mem_free(w.piece);
    return rc;
}
