/* Applying patches. First A is hashed, and nothing is written unless it is the right one; then its
 * keys are walked once, each by one worker, which lays the changes of all patches over its blocks,
 * hashes and writes them. */
#include <string.h>

#include "base/kv_assert.h"
#include "engine/pool.h"
#include "patch/patch_chain.h"
#include "tensors/walk.h"

typedef struct applying {
    patch_chain chain;
    checkpoint *a;
    checkpoint_out *out;
    int64_t *walked; /* numbers of keys in the chain: those that begin with A's */
    int64_t *whole;  /* the others */
    int64_t nwalked, nwhole;
    patch_maker *workers;
    int nworkers;
    const patch_options *o;
    int64_t done, all; /* bytes read before the walk, and in all */
} applying;

static void tell(void *arg, int64_t done, int64_t all)
{
    const applying *r = arg;
    (void)all;
    if (r->o && r->o->progress)
        r->o->progress(r->o->progress_arg, r->done + done, r->all);
}

/* ---- The right checkpoint -------------------------------------------------------------------- */

static int compare(const applying *r, const tensor_hash *hashes, patch_misfits *wrong, kv_err *e)
{
    patch *const *patches = r->chain.patches;
    patch_misfits other = {0};
    int n = r->chain.n, code = patch_compare(wrong, patches[0], false, r->a, hashes, e);
    if (code || wrong->n == 0)
        return code;
    code = patch_compare(&other, patches[n - 1], true, r->a, hashes, e);
    wrong->is_result = other.n == 0;
    patch_misfits_release(&other);
    if (code)
        return code;
    return kv_err_set(e, KV_E_ASSERT, "%.150s is not what %.150s was made from",
                      checkpoint_name(r->a), patch_name(patches[0]));
}

static int check_base(applying *r, patch_misfits *wrong, kv_err *e)
{
    int64_t n = checkpoint_count(r->a);
    tensor_hash *hashes = mem_alloc(n, sizeof *hashes, e);
    int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    int code = hashes && numbers ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !code; i++) {
        numbers[i] = i;
        r->done += checkpoint_at(r->a, i)->bytes;
    }
    int64_t bytes = r->done;
    r->all = 2 * bytes;
    r->done = 0;
    if (!code)
        code = tensor_hash_all(hashes, r->a, numbers, n, DIGEST_XXH3, tell, r, e);
    r->done = bytes;
    if (!code)
        code = compare(r, hashes, wrong, e);
    mem_free(hashes);
    mem_free(numbers);
    return code;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Puts the next block of a key: n elements from `first` on. */
static int put_block(applying *r, patch_maker *m, int64_t number, const void *a, int64_t first,
                     int64_t n, kv_err *e)
{
    const patch_chain_key *k = &r->chain.keys[number];
    tensor_type type = k->key->now.type;
    int64_t at = tensor_type_bytes(type, first), bytes = tensor_type_bytes(type, n);
    int unit = patch_unit(type);
    const void *made;
    int code = patch_maker_block(m, k, a, at / unit, bytes / unit, &made, e);
    return code ? code : checkpoint_out_put(r->out, number, at, made, bytes, e);
}

static int apply_piece(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    applying *r = arg;
    int64_t number = r->walked[p->tensor];
    const patch_chain_key *k = &r->chain.keys[number];
    patch_maker *m = &r->workers[worker];
    int code = p->first == 0 ? patch_maker_begin(m, k, e) : KV_OK;
    if (!code)
        code = put_block(r, m, number, p->data[0], p->first, p->n, e);
    if (!code && p->first + p->n == patch_shape_elements(&k->key->now))
        code = patch_maker_end(m, k, true, e);
    return code;
}

/* A key that the patches hold whole, or one without elements. */
static int apply_whole(void *arg, int64_t i, int worker, kv_err *e)
{
    applying *r = arg;
    int64_t number = r->whole[i];
    const patch_chain_key *k = &r->chain.keys[number];
    int64_t elements = patch_shape_elements(&k->key->now);
    patch_maker *m = &r->workers[worker];
    int code = patch_maker_begin(m, k, e);
    for (int64_t at = 0; at < elements && !code; at += WALK_PIECE) {
        int64_t n = elements - at < WALK_PIECE ? elements - at : WALK_PIECE;
        code = put_block(r, m, number, NULL, at, n, e);
    }
    return code ? code : patch_maker_end(m, k, true, e);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int sort_keys(applying *r, kv_err *e)
{
    const patch_chain *c = &r->chain;
    r->walked = mem_alloc(c->nkeys, sizeof *r->walked, e);
    r->whole = mem_alloc(c->nkeys, sizeof *r->whole, e);
    if (!r->walked || !r->whole)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->nkeys; i++) {
        bool walked = c->keys[i].from_a && patch_shape_elements(&c->keys[i].key->now) > 0;
        if (walked)
            r->walked[r->nwalked++] = i;
        else
            r->whole[r->nwhole++] = i;
    }
    return KV_OK;
}

static int new_workers(applying *r, kv_err *e)
{
    int code = KV_OK;
    r->nworkers = pool_workers();
    if (!(r->workers = mem_zalloc(r->nworkers, sizeof *r->workers, e)))
        return KV_E_MEMORY;
    for (int i = 0; i < r->nworkers && !code; i++)
        code = patch_maker_init(&r->workers[i], &r->chain, e);
    return code;
}

static int open_out(applying *r, const char *path, const checkpoint_out_options *how, kv_err *e)
{
    const patch_chain *c = &r->chain;
    const patch_index *last = &c->patches[c->n - 1]->index;
    checkpoint_entry *entries = mem_alloc(c->nkeys, sizeof *entries, e);
    if (!entries)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->nkeys; i++) {
        const patch_shape *s = &c->keys[i].key->now;
        entries[i] = (checkpoint_entry){c->keys[i].key->name, s->type, s->ndim, s->shape};
    }
    int code = checkpoint_out_open(&r->out, path, entries, c->nkeys, last->texts, last->ntexts, how,
                                   e);
    mem_free(entries);
    return code;
}

static int walk_keys(applying *r, kv_err *e)
{
    walk_tensor *tensors = mem_alloc(r->nwalked, sizeof *tensors, e);
    if (!tensors)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < r->nwalked; i++)
        tensors[i].at[0] = checkpoint_find(r->a, r->chain.keys[r->walked[i]].key->name);
    int code = walk_run(&(walk){.inputs = &r->a,
                                .ninputs = 1,
                                .tensors = tensors,
                                .ntensors = r->nwalked,
                                .piece = apply_piece,
                                .arg = r,
                                .in_order = true,
                                .progress = tell,
                                .progress_arg = r},
                        e);
    mem_free(tensors);
    return code;
}

static void release(applying *r)
{
    for (int i = 0; r->workers && i < r->nworkers; i++)
        if (r->workers[i].chain)
            patch_maker_release(&r->workers[i]);
    mem_free(r->workers);
    mem_free(r->walked);
    mem_free(r->whole);
    patch_chain_release(&r->chain);
}

int patch_apply(const char *path, patch *const *patches, int n, checkpoint *a,
                const checkpoint_out_options *how, const patch_options *o, patch_misfits *wrong,
                kv_err *e)
{
    applying r = {.a = a, .o = o};
    int code = patch_check_links(patches, n, wrong, e);
    if (!code && !(code = patch_chain_init(&r.chain, patches, n, e)) &&
        !(code = check_base(&r, wrong, e)) && !(o && o->check_only) &&
        !(code = sort_keys(&r, e)) && !(code = new_workers(&r, e)) &&
        !(code = open_out(&r, path, how, e))) {
        code = walk_keys(&r, e);
        if (!code)
            code = patch_each(r.nwhole, apply_whole, &r, e);
        if (!code)
            code = checkpoint_out_commit(r.out, e);
        else
            checkpoint_out_abandon(r.out);
    }
    release(&r);
    return code;
}
