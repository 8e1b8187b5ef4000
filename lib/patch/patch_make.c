/* Making a patch: one walk over both checkpoints, in which each key goes to one worker, which
 * hashes both sides and packs what differs. */
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/kv_assert.h"
#include "engine/pool.h"
#include "patch/patch_open.h"
#include "patch/patch_pack.h"
#include "tensors/tensor_hash.h"
#include "tensors/walk.h"

/* ---- Finding the units that differ --------------------------------------------------------------
 *
 * Words of 8 bytes are compared, 64 of them at a time: most are the same where a model was
 * fine-tuned. 64 words share one branch, on a mask with a bit for each word. */

#define WORDS 64

/* Vectors of 32 bytes: of wider ones GCC 12 compares each lane by itself on AVX2. */
typedef uint64_t word_4 __attribute__((vector_size(32)));
typedef uint64_t any_word_4 __attribute__((vector_size(32), aligned(1), may_alias));

/* Bit i: word i of a and b differs. */
static inline __attribute__((always_inline)) uint64_t differ(const char *a, const char *b)
{
    word_4 bits = {1, 2, 4, 8}, all = {0};
    for (int i = 0; i < WORDS; i += 4, bits <<= 4) {
        word_4 x = *(const any_word_4 *)(const void *)(a + 8 * i);
        word_4 y = *(const any_word_4 *)(const void *)(b + 8 * i);
        all |= bits & (word_4)(x != y);
    }
    return all[0] | all[1] | all[2] | all[3];
}

/* The units that differ within a word: x is a ^ b, y is b. */
#define PUT_WORD(T, place)                                                                         \
    do {                                                                                           \
        const int bits = 8 * sizeof(T);                                                            \
        while (x) {                                                                                \
            int lane = __builtin_ctzll(x) / bits;                                                  \
            at[found] = (place) + lane;                                                            \
            values[found++] = (T)(y >> (lane * bits));                                             \
            x &= ~((uint64_t)(T)~(T)0 << (lane * bits));                                           \
        }                                                                                          \
    } while (0)

#define FIND(name, T)                                                                              \
    CPU_CLONES static int64_t name(int64_t *at, T *values, const char *a, const char *b,           \
                                   int64_t n, int64_t first)                                       \
    {                                                                                              \
        enum { IN_WORD = 8 / sizeof(T) };                                                          \
        int64_t found = 0, i = 0, size = sizeof(T);                                                \
        for (; i + WORDS * IN_WORD <= n; i += WORDS * IN_WORD) {                                   \
            for (uint64_t left = differ(a + i * size, b + i * size); left; left &= left - 1) {     \
                int64_t place = i + __builtin_ctzll(left) * IN_WORD;                               \
                uint64_t x, y;                                                                     \
                memcpy(&x, a + place * size, sizeof x);                                            \
                memcpy(&y, b + place * size, sizeof y);                                            \
                x ^= y;                                                                            \
                PUT_WORD(T, first + place);                                                        \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            T x, y;                                                                                \
            memcpy(&x, a + i * size, sizeof x);                                                    \
            memcpy(&y, b + i * size, sizeof y);                                                    \
            if (x != y) {                                                                          \
                at[found] = first + i;                                                             \
                values[found++] = y;                                                               \
            }                                                                                      \
        }                                                                                          \
        return found;                                                                              \
    }

FIND(find_8, uint8_t)
FIND(find_16, uint16_t)
FIND(find_32, uint32_t)
FIND(find_64, uint64_t)

/* Compares n units of 1, 2, 4 or 8 bytes, at any addresses. Puts the number of each that differs,
 * counted from `first` on, to `at`, its bits in b to `values`, and returns how many there are. Both
 * have room for n. */
static int64_t patch_find(int64_t *at, void *values, const void *a, const void *b, int64_t n,
                          int unit, int64_t first)
{
    switch (unit) {
    case 1:
        return find_8(at, values, a, b, n, first);
    case 2:
        return find_16(at, values, a, b, n, first);
    case 4:
        return find_32(at, values, a, b, n, first);
    }
    return find_64(at, values, a, b, n, first);
}

/* The sides of a key that are walked: both where they are compared, else one. */
typedef struct visit {
    int64_t key;
    int64_t at[2]; /* the numbers of the tensors in a and b; -1: not in this visit */
} visit;

/* A key of the patch: its tensors in A and B, and their hashes. */
typedef struct pair {
    int64_t at[2]; /* -1: there is none */
    int64_t changes;
    unsigned char hash[2][PATCH_HASH];
} pair;

typedef struct maker {
    digest *d[2];
    buf line;
    patch_pack pack;
    int64_t visit; /* that it is at */
} maker;

typedef struct making {
    checkpoint *side[2];
    pair *pairs;
    int64_t npairs;
    visit *visits;
    int64_t nvisits;
    maker *workers;
    int nworkers;
    patch_spool spool;
} making;

static const tensor_info *info_of(const making *m, const pair *p, int side)
{
    return checkpoint_at(m->side[side], p->at[side]);
}

static bool same_shape(const making *m, const pair *p)
{
    if (p->at[0] < 0 || p->at[1] < 0)
        return false;
    patch_shape x = patch_shape_of(info_of(m, p, 0)), y = patch_shape_of(info_of(m, p, 1));
    return patch_shape_equal(&x, &y);
}

/* ---- What is to be looked at ----------------------------------------------------------------- */

/* Lists the keys of b in its order, then the keys that only a has. */
static int pair_keys(making *m, kv_err *e)
{
    int64_t na = checkpoint_count(m->side[0]), nb = checkpoint_count(m->side[1]);
    m->pairs = mem_zalloc(na + nb, sizeof *m->pairs, e);
    m->visits = mem_alloc(na + nb, sizeof *m->visits, e);
    if (!m->pairs || !m->visits)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < nb; i++) {
        int64_t a = checkpoint_find(m->side[0], checkpoint_at(m->side[1], i)->name);
        m->pairs[m->npairs++] = (pair){.at = {a, i}};
    }
    for (int64_t i = 0; i < na; i++)
        if (checkpoint_find(m->side[1], checkpoint_at(m->side[0], i)->name) < 0)
            m->pairs[m->npairs++] = (pair){.at = {i, -1}};
    for (int64_t i = 0; i < m->npairs; i++) {
        pair *p = &m->pairs[i];
        if (same_shape(m, p)) {
            m->visits[m->nvisits++] = (visit){i, {p->at[0], p->at[1]}};
            continue;
        }
        if (p->at[0] >= 0)
            m->visits[m->nvisits++] = (visit){i, {p->at[0], -1}};
        if (p->at[1] >= 0)
            m->visits[m->nvisits++] = (visit){i, {-1, p->at[1]}};
    }
    return KV_OK;
}

/* ---- A key ----------------------------------------------------------------------------------- */

static const tensor_info *any_info(const making *m, const visit *v)
{
    return checkpoint_at(m->side[v->at[0] < 0], v->at[v->at[0] < 0]);
}

static int begin_key(making *m, maker *w, const visit *v, kv_err *e)
{
    for (int i = 0; i < 2; i++) {
        if (v->at[i] < 0)
            continue;
        const tensor_info *t = checkpoint_at(m->side[i], v->at[i]);
        TRY(tensor_hash_begin(w->d[i], &w->line, t->type, t->ndim, t->shape, e));
    }
    w->visit = v - m->visits;
    patch_pack_begin(&w->pack, patch_unit(any_info(m, v)->type));
    return KV_OK;
}

static int end_key(making *m, maker *w, const visit *v, kv_err *e)
{
    unsigned char hash[DIGEST_MAX];
    pair *p = &m->pairs[v->key];
    int rc = patch_pack_end(&w->pack, e);
    for (int i = 0; i < 2 && !rc; i++)
        if (v->at[i] >= 0 && !(rc = digest_end(w->d[i], hash, e)))
            memcpy(p->hash[i], hash, PATCH_HASH);
    return rc ? rc : patch_spool_add(&m->spool, v->key, &w->pack.out, e);
}

/* So much of a block of both sides stays in the nearest cache while it is hashed and compared. */
#define NEAR ((int64_t)16 << 10)

/* Hashes a block, and puts its units that differ to the packer; returns their number. */
static int64_t compare_block(maker *w, const char *a, const char *b, int64_t bytes, int unit,
                             int64_t first)
{
    int64_t *at = w->pack.at + w->pack.n, found = 0;
    char *values = w->pack.values + w->pack.n * unit;
    for (int64_t i = 0; i < bytes; i += NEAR) {
        int64_t n = bytes - i < NEAR ? bytes - i : NEAR;
        digest_add(w->d[0], a + i, n);
        digest_add(w->d[1], b + i, n);
        found += patch_find(at + found, values + found * unit, a + i, b + i, n / unit, unit,
                            first + i / unit);
    }
    return found;
}

/* A block of a key: the units that differ where it has both sides, all where it is new. Where only
 * the old side has it nothing is counted: its new side, of another form, may be counted by
 * another worker at the same time. */
static int make_block(maker *w, pair *p, const walk_piece *at, tensor_type type, kv_err *e)
{
    int unit = patch_unit(type);
    int64_t bytes = tensor_type_bytes(type, at->n), units = bytes / unit;
    int64_t first = tensor_type_bytes(type, at->first) / unit;
    const void *a = at->data[0], *b = at->data[1];
    if (!b) {
        digest_add(w->d[0], a, bytes);
        return KV_OK;
    }
    if (!a) {
        digest_add(w->d[1], b, bytes);
        p->changes += units;
        return patch_pack_whole(&w->pack, first, units, b, e);
    }
    if (patch_pack_room(&w->pack, units, e))
        return KV_E_MEMORY;
    int64_t n = compare_block(w, a, b, bytes, unit, first);
    p->changes += n;
    return patch_pack_add(&w->pack, n, first, units, b, e);
}

static int make_piece(void *arg, const walk_piece *at, int worker, kv_err *e)
{
    making *m = arg;
    maker *w = &m->workers[worker];
    const visit *v = &m->visits[at->tensor];
    const tensor_info *t = any_info(m, v);
    TRY(at->first == 0 ? begin_key(m, w, v, e) : KV_OK);
    kv_assert(w->visit == at->tensor, "a tensor went to two workers");
    TRY(make_block(w, &m->pairs[v->key], at, t->type, e));
    if (patch_spool_wants(&w->pack.out))
        TRY(patch_spool_add(&m->spool, v->key, &w->pack.out, e));
    return at->first + at->n == t->elements ? end_key(m, w, v, e) : KV_OK;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Keys without elements have no pieces. */
static int make_empty(making *m, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < m->nvisits && !rc; i++) {
        const visit *v = &m->visits[i];
        if (any_info(m, v)->elements == 0 && !(rc = begin_key(m, &m->workers[0], v, e)))
            rc = end_key(m, &m->workers[0], v, e);
    }
    return rc;
}

static int make_data(making *m, const patch_options *o, kv_err *e)
{
    own_mem int64_t *at = mem_alloc(m->nvisits, sizeof m->visits->at, e);
    if (!at)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < m->nvisits; i++)
        memcpy(at + 2 * i, m->visits[i].at, sizeof m->visits[i].at);
    return walk_run(&(walk){.inputs = m->side,
                            .ninputs = 2,
                            .at = at,
                            .ntensors = m->nvisits,
                            .piece = make_piece,
                            .arg = m,
                            .in_order = true,
                            .progress = o ? o->progress : NULL,
                            .progress_arg = o ? o->progress_arg : NULL},
                    e);
}

static int new_workers(making *m, kv_err *e)
{
    m->nworkers = pool_workers();
    if (!(m->workers = mem_zalloc(m->nworkers, sizeof *m->workers, e)))
        return KV_E_MEMORY;
    for (int i = 0; i < m->nworkers; i++) {
        maker *w = &m->workers[i];
        TRY(digest_new(&w->d[0], DIGEST_XXH3, e));
        TRY(digest_new(&w->d[1], DIGEST_XXH3, e));
        TRY(zstd_packer_new(&w->pack.zstd, e));
    }
    return KV_OK;
}

static patch_state state_of(const making *m, const pair *p)
{
    if (p->at[1] < 0)
        return PATCH_GONE;
    if (p->at[0] < 0)
        return PATCH_NEW;
    return !same_shape(m, p) ? PATCH_REFORMED : p->changes ? PATCH_CHANGED : PATCH_SAME;
}

static int make_index(const making *m, patch_index *x, kv_err *e)
{
    for (int64_t i = 0; i < checkpoint_metadata_count(m->side[1]); i++) {
        const checkpoint_text *t = checkpoint_metadata_at(m->side[1], i);
        TRY(patch_index_text(x, t->name, t->text, e));
    }
    for (int64_t i = 0; i < m->npairs; i++) {
        const pair *p = &m->pairs[i];
        const tensor_info *now = info_of(m, p, p->at[1] < 0 ? 0 : 1);
        const tensor_info *was = info_of(m, p, p->at[0] < 0 ? 1 : 0);
        patch_key k = {.name = now->name,
                       .state = state_of(m, p),
                       .now = patch_shape_of(now),
                       .was = patch_shape_of(was),
                       .changes = p->changes};
        memcpy(k.a, p->hash[0], PATCH_HASH);
        memcpy(k.b, p->hash[1], PATCH_HASH);
        TRY(patch_index_add(x, &k, e));
    }
    return KV_OK;
}

int patch_make(const char *path, checkpoint *a, checkpoint *b, const patch_options *o,
               patch_summary *made, kv_err *e)
{
    making m = {.side = {a, b}};
    patch_index x = {0};
    int64_t bytes = 0;
    int rc = patch_spool_init(&m.spool, e);
    if (!rc && !(rc = new_workers(&m, e)) && !(rc = pair_keys(&m, e)) &&
        !(rc = make_empty(&m, e)) && !(rc = make_data(&m, o, e)) &&
        !(rc = make_index(&m, &x, e)))
        rc = patch_write(path, &x, &m.spool, o, &bytes, e);
    if (!rc && made) {
        patch_index_summarise(&x, made);
        made->bytes = bytes;
    }
    patch_index_release(&x);
    for (int i = 0; m.workers && i < m.nworkers; i++) {
        digest_free(m.workers[i].d[0]);
        digest_free(m.workers[i].d[1]);
        buf_release(&m.workers[i].line);
        patch_pack_release(&m.workers[i].pack);
    }
    mem_free(m.workers);
    mem_free(m.visits);
    mem_free(m.pairs);
    patch_spool_release(&m.spool);
    return rc;
}

/* ---- Joining patches ------------------------------------------------------------------------- */

/* Each key gets the changes of all of them, the last one of a place counting. What A has is not
 * known, so that an element stays that changed and changed back. */

typedef struct joiner {
    patch_maker maker;
    patch_pack pack;
} joiner;

typedef struct joining {
    patch_chain chain;
    patch_index index; /* of what is made */
    joiner *workers;
    int nworkers;
    patch_spool spool;
} joining;

/* The key of A under this name, or NULL: that of the first patch. */
static const patch_key *key_of_a(const joining *j, const char *name)
{
    const patch_key *k = patch_index_find(&j->chain.patches[0]->index, name);
    return k && patch_key_in_a(k) ? k : NULL;
}

static patch_state joined_state(const patch_key *a, const patch_key *b)
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
    for (int64_t i = 0; i < last->ntexts; i++)
        TRY(patch_index_text(&j->index, last->texts[i].name, last->texts[i].text, e));
    for (int64_t i = 0; i < c->nkeys; i++) {
        const patch_key *b = c->keys[i].key, *a = key_of_a(j, b->name);
        patch_key k = *b;
        k.state = joined_state(a, b);
        k.was = a ? a->was : b->now;
        k.changes = 0;
        if (a)
            memcpy(k.a, a->a, PATCH_HASH);
        TRY(patch_index_add(&j->index, &k, e));
    }
    for (int64_t i = 0; i < first->nkeys; i++) {
        const patch_key *a = &first->keys[i], *b = patch_index_find(last, a->name);
        if (!patch_key_in_a(a) || (b && patch_key_in_b(b)))
            continue;
        patch_key k = *a;
        k.state = PATCH_GONE;
        k.now = a->was;
        TRY(patch_index_add(&j->index, &k, e));
    }
    return KV_OK;
}

/* ---- Joining: data --------------------------------------------------------------------------- */

static int join_block(joiner *w, const patch_chain_key *k, patch_key *out, int64_t first,
                      int64_t units, kv_err *e)
{
    int unit = patch_unit(out->now.type);
    TRY(patch_maker_changes(&w->maker, k, first, units, e));
    TRY(patch_pack_room(&w->pack, units, e));
    /* The marked units of the block go to the packer. */
    int64_t *at = w->pack.at + w->pack.n, n = 0;
    char *values = w->pack.values + w->pack.n * unit;
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
    out->changes += n;
    if (patch_key_is_whole(out))
        return patch_pack_whole(&w->pack, first, units, w->maker.block, e);
    return patch_pack_add(&w->pack, n, first, units, n == units ? w->maker.block : NULL, e);
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
    TRY(patch_maker_begin(&w->maker, k, e));
    patch_pack_begin(&w->pack, unit);
    for (int64_t at = 0; at < elements; at += WALK_PIECE) {
        int64_t n = elements - at < WALK_PIECE ? elements - at : WALK_PIECE;
        TRY(join_block(w, k, out, tensor_type_bytes(out->now.type, at) / unit,
                       tensor_type_bytes(out->now.type, n) / unit, e));
        if (patch_spool_wants(&w->pack.out))
            TRY(patch_spool_add(&j->spool, i, &w->pack.out, e));
    }
    TRY(patch_maker_end(&w->maker, k, false, e));
    TRY(patch_pack_end(&w->pack, e));
    return patch_spool_add(&j->spool, i, &w->pack.out, e);
}

static int new_joiners(joining *j, kv_err *e)
{
    j->nworkers = pool_workers();
    if (!(j->workers = mem_zalloc(j->nworkers, sizeof *j->workers, e)))
        return KV_E_MEMORY;
    for (int i = 0; i < j->nworkers; i++) {
        TRY(patch_maker_init(&j->workers[i].maker, &j->chain, e));
        TRY(zstd_packer_new(&j->workers[i].pack.zstd, e));
    }
    return KV_OK;
}

int patch_join(const char *path, patch *const *patches, int n, const patch_options *o,
               patch_summary *made, patch_misfits *wrong, kv_err *e)
{
    joining j = {0};
    int64_t bytes = 0;
    int rc = patch_spool_init(&j.spool, e);
    if (!rc && !(rc = patch_check_links(patches, n, wrong, e)) &&
        !(rc = patch_chain_init(&j.chain, patches, n, e)) && !(o && o->check_only) &&
        !(rc = index_keys(&j, e)) &&
        !(rc = new_joiners(&j, e)) && !(rc = pool_each(j.chain.nkeys, join_key, &j, e)))
        rc = patch_write(path, &j.index, &j.spool, o, &bytes, e);
    if (!rc && made) {
        patch_index_summarise(&j.index, made);
        made->bytes = bytes;
    }
    for (int i = 0; j.workers && i < j.nworkers; i++) {
        if (j.workers[i].maker.chain)
            patch_maker_release(&j.workers[i].maker);
        patch_pack_release(&j.workers[i].pack);
    }
    mem_free(j.workers);
    patch_index_release(&j.index);
    patch_spool_release(&j.spool);
    patch_chain_release(&j.chain);
    return rc;
}
