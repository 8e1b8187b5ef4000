/* Joining patches: each key gets the changes of all of them, the last one of a place counting. What
 * A has is not known, so that an element stays that changed and changed back. */
#include <string.h>

#include "engine/pool.h"
#include "patch/patch_chain.h"
#include "patch/patch_pack.h"
#include "tensors/walk.h"

typedef struct joiner {
    patch_maker maker;
    patch_pack *pack;
} joiner;

typedef struct joining {
    patch_chain chain;
    patch_index index; /* of what is made */
    joiner *workers;
    int nworkers;
    patch_spool spool;
    const patch_options *o;
} joining;

/* ---- The index ------------------------------------------------------------------------------- */

/* The key of A under this name, or NULL: that of the first patch. */
static const patch_key *key_of_a(const joining *j, const char *name)
{
    const patch_key *k = patch_index_find(&j->chain.patches[0]->index, name);
    return k && patch_key_in_a(k) ? k : NULL;
}

static patch_state state_of(const patch_key *a, const patch_key *b)
{
    if (!a)
        return PATCH_NEW;
    if (!patch_shape_equal(&a->was, &b->now))
        return PATCH_REFORMED;
    return memcmp(a->a, b->b, PATCH_HASH) == 0 ? PATCH_SAME : PATCH_CHANGED;
}

static int index_keys(joining *j, kv_err *e)
{
    const patch_chain *c = &j->chain;
    const patch_index *first = &c->patches[0]->index, *last = &c->patches[c->n - 1]->index;
    int rc = KV_OK;
    for (int64_t i = 0; i < last->ntexts && !rc; i++)
        rc = patch_index_text(&j->index, last->texts[i].name, last->texts[i].text, e);
    for (int64_t i = 0; i < c->nkeys && !rc; i++) {
        const patch_key *b = c->keys[i].key, *a = key_of_a(j, b->name);
        patch_key k = *b;
        k.state = state_of(a, b);
        k.was = a ? a->was : b->now;
        k.changes = 0;
        if (a)
            memcpy(k.a, a->a, PATCH_HASH);
        rc = patch_index_add(&j->index, &k, e);
    }
    for (int64_t i = 0; i < first->nkeys && !rc; i++) {
        const patch_key *a = &first->keys[i], *b = patch_index_find(last, a->name);
        if (!patch_key_in_a(a) || (b && patch_key_in_b(b)))
            continue;
        patch_key k = *a;
        k.state = PATCH_GONE;
        k.now = a->was;
        rc = patch_index_add(&j->index, &k, e);
    }
    return rc;
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Hands the marked units of a block to the packer; returns their number. */
static int64_t collect(joiner *w, int unit, int64_t first, int64_t units)
{
    int64_t *at = patch_pack_at(w->pack), n = 0;
    char *values = patch_pack_values(w->pack);
    const unsigned char *marks = w->maker.marks;
    for (int64_t i = 0; i < units; i++) {
        uint64_t eight;
        if (i % 8 == 0 && i + 8 <= units && (memcpy(&eight, marks + i, sizeof eight), eight == 0)) {
            i += 7;
            continue;
        }
        if (!marks[i])
            continue;
        memcpy(values + n * unit, w->maker.block + i * unit, (size_t)unit);
        at[n++] = first + i;
    }
    return n;
}

static int join_block(joiner *w, const patch_chain_key *k, patch_key *out, int64_t first,
                      int64_t units, kv_err *e)
{
    int unit = patch_unit(out->now.type);
    int rc = patch_maker_changes(&w->maker, k, first, units, e);
    if (rc || (rc = patch_pack_room(w->pack, units, e)))
        return rc;
    int64_t n = collect(w, unit, first, units);
    out->changes += n;
    if (patch_key_is_whole(out))
        return patch_pack_whole(w->pack, first, units, w->maker.block, e);
    return patch_pack_add(w->pack, n, first, units, n == units ? w->maker.block : NULL, e);
}

static int join_key(void *arg, int64_t i, int worker, kv_err *e)
{
    joining *j = arg;
    const patch_chain_key *k = &j->chain.keys[i];
    patch_key *out = &j->index.keys[i];
    joiner *w = &j->workers[worker];
    int64_t elements = patch_shape_elements(&out->now);
    int unit = patch_unit(out->now.type);
    if (out->data < 0)
        return KV_OK;
    int rc = patch_maker_begin(&w->maker, k, e);
    patch_pack_begin(w->pack, unit);
    for (int64_t at = 0; at < elements && !rc; at += WALK_PIECE) {
        int64_t n = elements - at < WALK_PIECE ? elements - at : WALK_PIECE;
        rc = join_block(w, k, out, tensor_type_bytes(out->now.type, at) / unit,
                        tensor_type_bytes(out->now.type, n) / unit, e);
        if (!rc && patch_spool_wants(patch_pack_out(w->pack)))
            rc = patch_spool_add(&j->spool, i, patch_pack_out(w->pack), e);
    }
    if (!rc && !(rc = patch_maker_end(&w->maker, k, false, e)) &&
        !(rc = patch_pack_end(w->pack, e)))
        rc = patch_spool_add(&j->spool, i, patch_pack_out(w->pack), e);
    return rc;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int new_workers(joining *j, kv_err *e)
{
    int rc = KV_OK;
    j->nworkers = pool_workers();
    if (!(j->workers = mem_zalloc(j->nworkers, sizeof *j->workers, e)))
        return KV_E_MEMORY;
    for (int i = 0; i < j->nworkers && !rc; i++)
        if (!(rc = patch_maker_init(&j->workers[i].maker, &j->chain, e)))
            rc = patch_pack_new(&j->workers[i].pack, e);
    return rc;
}

static void release(joining *j)
{
    for (int i = 0; j->workers && i < j->nworkers; i++) {
        if (j->workers[i].maker.chain)
            patch_maker_release(&j->workers[i].maker);
        patch_pack_free(j->workers[i].pack);
    }
    mem_free(j->workers);
    patch_index_release(&j->index);
    patch_spool_release(&j->spool);
    patch_chain_release(&j->chain);
}

int patch_join(const char *path, patch *const *patches, int n, const patch_options *o,
               patch_summary *made, patch_misfits *wrong, kv_err *e)
{
    joining j = {.o = o};
    int64_t bytes = 0;
    int rc = patch_spool_init(&j.spool, e);
    if (!rc && !(rc = patch_check_links(patches, n, wrong, e)) &&
        !(rc = patch_chain_init(&j.chain, patches, n, e)) && !(o && o->check_only) &&
        !(rc = index_keys(&j, e)) &&
        !(rc = new_workers(&j, e)) && !(rc = patch_each(j.chain.nkeys, join_key, &j, e)))
        rc = patch_write(path, &j.index, &j.spool, o, &bytes, e);
    if (!rc && made) {
        patch_index_summarise(&j.index, made);
        made->bytes = bytes;
    }
    release(&j);
    return rc;
}
