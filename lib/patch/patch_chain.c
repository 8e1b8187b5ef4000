/* Chains, and the blocks of their keys. */
#include "patch/patch_chain.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/file.h"
#include "base/stop.h"
#include "engine/pool.h"

/* ---- What keys are made of ------------------------------------------------------------------- */

/* Finds the layers of a key from the last patch back; they are put in order afterwards. */
static int find_layers(patch_chain *c, patch_chain_key *k, kv_err *e)
{
    k->layers = c->nlayers;
    k->from_a = true;
    for (int i = c->n - 1; i >= 0 && k->from_a; i--) {
        const patch_key *key = patch_index_find(&c->patches[i]->index, k->key->name);
        if (key->data < 0)
            continue;
        int rc = mem_grow(&c->layers, &c->cap, c->nlayers + 1, sizeof *c->layers, e);
        if (rc)
            return rc;
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
    int rc = KV_OK;
    c->patches = patches;
    c->n = n;
    if (!(c->keys = mem_zalloc(last->nkeys, sizeof *c->keys, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < last->nkeys && !rc; i++) {
        if (!patch_key_in_b(&last->keys[i]))
            continue;
        c->keys[c->nkeys].key = &last->keys[i];
        rc = find_layers(c, &c->keys[c->nkeys++], e);
    }
    return rc;
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
    for (int i = 0; m->cursors && i < m->chain->n; i++)
        patch_cursor_release(&m->cursors[i]);
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
    int rc = KV_OK;
    for (int64_t i = 0; i < k->n && !rc; i++) {
        patch_cursor *c = cursor_of(m, k, i, &key);
        rc = patch_cursor_lay(c, m->block, marks, first, units, e);
    }
    return rc;
}

int patch_maker_block(patch_maker *m, const patch_chain_key *k, const void *a, int64_t first,
                      int64_t units, const void **made, kv_err *e)
{
    int64_t bytes = units * patch_unit(k->key->now.type);
    int rc = KV_OK;
    *made = k->n ? m->block : a;
    if (k->n && a)
        memcpy(m->block, a, (size_t)bytes);
    else if (k->n) /* a damaged patch may not have all of it */
        memset(m->block, 0, (size_t)bytes);
    if (!(rc = lay_all(m, k, NULL, first, units, e)))
        digest_add(m->d, *made, bytes);
    return rc;
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
    int rc = digest_end(m->d, hash, e);
    if (rc || memcmp(hash, k->key->b, PATCH_HASH) == 0)
        return rc;
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
    int rc = KV_OK;
    for (int64_t i = 0; i < k->n && !rc; i++) {
        patch_cursor *c = cursor_of(m, k, i, &key);
        rc = patch_cursor_end(c, e);
    }
    return rc || !checked ? rc : check_hash(m, k, e);
}

/* ---- On all threads -------------------------------------------------------------------------- */

typedef struct each {
    int (*run)(void *arg, int64_t i, int worker, kv_err *e);
    void *arg;
    _Atomic(int64_t) failed; /* the first number that failed so far, or INT64_MAX */
    pthread_mutex_t lock;    /* of error */
    kv_err error;
} each;

static void run_one(void *arg, int64_t i, int worker)
{
    each *a = arg;
    kv_err e = {0};
    if (atomic_load(&a->failed) < i)
        return;
    if (!stop_check(&e) && !a->run(a->arg, i, worker, &e))
        return;
    pthread_mutex_lock(&a->lock);
    if (i < atomic_load(&a->failed)) {
        atomic_store(&a->failed, i);
        a->error = e;
    }
    pthread_mutex_unlock(&a->lock);
}

int patch_each(int64_t n, int (*run)(void *arg, int64_t i, int worker, kv_err *e), void *arg,
               kv_err *e)
{
    each a = {.run = run, .arg = arg, .failed = INT64_MAX};
    pthread_mutex_init(&a.lock, NULL);
    if (n > 0)
        pool_run(n, run_one, &a);
    pthread_mutex_destroy(&a.lock);
    if (a.error.code && e && !e->code)
        *e = a.error;
    return a.error.code;
}
