/* The spool, and the file that is made of it. */
#include "patch/patch_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "patch/patch_pack.h"

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
    int code = KV_OK;
    if (out->len == 0)
        return KV_OK;
    pthread_mutex_lock(&s->lock);
    int64_t at = s->bytes.size, n = (int64_t)out->len;
    if (!(code = mem_grow(&s->parts, &s->cap, s->n + 1, sizeof *s->parts, e)) &&
        !(code = input_append(&s->bytes, out->data, n, e))) {
        s->parts[s->n] = (patch_part){key, s->n, at, n};
        s->n++;
    }
    pthread_mutex_unlock(&s->lock);
    buf_clear(out);
    return code;
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

static int make_index(writing *w, const char *path, kv_err *e)
{
    buf text = {0};
    patch_pack *p = NULL;
    patch_index_print(w->x, &text, &w->hashes);
    int code = buf_check(&text, e);
    if (!code)
        code = buf_check(&w->hashes, e);
    if (!code && (int64_t)text.len > PATCH_INDEX_MAX)
        code = file_bad(e, KV_E_VALUE, path, "the names of all keys have more than %lld MB",
                        (long long)(PATCH_INDEX_MAX >> 20));
    if (!code && !(code = patch_pack_new(&p, e)))
        code = patch_pack_index(p, &w->index, text.data, (int64_t)text.len, e);
    patch_pack_free(p);
    buf_release(&text);
    return code;
}

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
    int code = KV_OK;
    for (int64_t at = 0; at < part->n && !code; at += PIECE) {
        int64_t n = part->n - at < PIECE ? part->n - at : PIECE;
        if (!(code = input_read(&w->s->bytes, w->piece, part->at + at, n, e)))
            code = checkpoint_out_put(w->out, tensor, to + at, w->piece, n, e);
    }
    return code;
}

static int put_all(writing *w, kv_err *e)
{
    int64_t tensor = -1, to = 0;
    int code = checkpoint_out_put(w->out, 0, 0, w->index.data, (int64_t)w->index.len, e);
    if (!code)
        code = checkpoint_out_put(w->out, 1, 0, w->hashes.data, (int64_t)w->hashes.len, e);
    for (int64_t i = 0; i < w->s->n && !code; i++) {
        const patch_part *part = &w->s->parts[i];
        int64_t next = 2 + w->x->keys[part->key].data;
        to = next == tensor ? to : 0;
        tensor = next;
        code = copy_part(w, part, tensor, to, e);
        to += part->n;
    }
    return code;
}

static int write_file(writing *w, const char *path, const patch_options *o, kv_err *e)
{
    static const checkpoint_text mark = {PATCH_MARK, PATCH_VERSION};
    checkpoint_out_options how = {.any_name = true, .unsynced = o && o->unsynced};
    int code = checkpoint_out_open(&w->out, path, w->entries, w->n, &mark, 1, &how, e);
    if (code)
        return code;
    if (!(code = put_all(w, e)))
        return checkpoint_out_commit(w->out, e);
    checkpoint_out_abandon(w->out);
    return code;
}

int patch_write(const char *path, const patch_index *x, patch_spool *s, const patch_options *o,
                int64_t *bytes, kv_err *e)
{
    writing w = {.x = x, .s = s};
    if (s->n > 0)
        qsort(s->parts, (size_t)s->n, sizeof *s->parts, by_key);
    int code = make_index(&w, path, e);
    if (!code && !(code = lay_out(&w, e)))
        code = write_file(&w, path, o, e);
    struct stat about;
    if (!code && stat(path, &about) != 0)
        code = file_error(e, "read", path, errno);
    *bytes = code ? 0 : about.st_size;
    buf_release(&w.index);
    buf_release(&w.hashes);
    mem_free(w.entries);
    mem_free(w.names);
    mem_free(w.sizes);
    mem_free(w.piece);
    return code;
}
