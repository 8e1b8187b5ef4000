/* Applying patches. A's keys are walked once, each by one worker, which hashes its blocks, lays the
 * changes of all patches over them, hashes and writes what comes out. At the end the hashes say
 * whether A was the right one; only then the result comes into its place. A whose names or shapes
 * are not the right ones is only hashed, to name the keys that differ. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/xxh64.h"
#include "checkpoint/in_place.h"
#include "engine/pool.h"
#include "patch/patch_open.h"
#include "tensors/walk.h"

typedef struct applying {
    patch_chain chain;
    checkpoint *a;
    checkpoint_out *out; /* NULL: in place */
    in_place *journal;
    pthread_mutex_t lock; /* of the journal */
    int64_t *walked; /* A's keys with elements, by number, */
    int64_t *into;   /* and what becomes of each: its number in the chain, or -1: only hashed */
    int64_t *whole;  /* the other keys of the chain */
    int64_t nwalked, nwhole;
    patch_maker *workers;
    digest **was;        /* of A's key that each worker is at, */
    tensor_hash *hashes; /* and of A's keys */
    XXH64_state_t *sums; /* of what each worker makes, for the journal */
    int nworkers;
    const patch_options *o;
    int64_t all; /* bytes of A */
} applying;

static void tell(void *arg, int64_t done, int64_t all)
{
    const applying *r = arg;
    (void)all;
    if (r->o && r->o->progress)
        r->o->progress(r->o->progress_arg, done, r->all);
}

/* ---- The right checkpoint -------------------------------------------------------------------- */

static int refuse_patch(const checkpoint *a, kv_err *e)
{
    if (!checkpoint_metadata(a, PATCH_MARK))
        return KV_OK;
    file_bad(e, KV_E_USAGE, checkpoint_name(a), "a patch, but no checkpoint");
    return kv_err_hint(e, "the checkpoint stands behind the patches: apply P A --out B"),
           KV_E_USAGE;
}

static int compare(const applying *r, const tensor_hash *hashes, patch_misfits *wrong, kv_err *e)
{
    patch *const *patches = r->chain.patches;
    OWN(patch_misfits_release) patch_misfits other = {0};
    int n = r->chain.n;
    TRY(patch_compare(wrong, patches[0], false, r->a, hashes, e));
    if (wrong->n == 0)
        return KV_OK;
    TRY(patch_compare(&other, patches[n - 1], true, r->a, hashes, e));
    wrong->is_result = other.n == 0;
    if (wrong->is_result)
        return kv_err_set(e, KV_E_ASSERT,
                          "%.120s is what %.120s makes already, and not what %.120s was made from",
                          checkpoint_name(r->a), patch_name(patches[n - 1]),
                          patch_name(patches[0]));
    return kv_err_set(e, KV_E_ASSERT, "%.150s is not what %.150s was made from",
                      checkpoint_name(r->a), patch_name(patches[0]));
}

static int check_base(applying *r, patch_misfits *wrong, kv_err *e)
{
    int64_t n = checkpoint_count(r->a);
    own_mem tensor_hash *hashes = mem_alloc(n, sizeof *hashes, e);
    own_mem int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    if (!hashes || !numbers)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = i;
        r->all += checkpoint_at(r->a, i)->bytes;
    }
    TRY(tensor_hash_all(hashes, r->a, numbers, n, DIGEST_XXH3, tell, r, e));
    return compare(r, hashes, wrong, e);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Where the next unit is, from byte `at` on, that differs; n: nowhere. */
static int64_t next_change(const char *a, const char *b, int64_t at, int64_t n, int unit)
{
    uint64_t x, y;
    for (; at + 8 <= n; at += 8) {
        memcpy(&x, a + at, 8);
        memcpy(&y, b + at, 8);
        if (x != y)
            return at + __builtin_ctzll(x ^ y) / 8 / unit * unit;
    }
    while (at < n && memcmp(a + at, b + at, (size_t)unit) == 0)
        at += unit;
    return at;
}

/* Gives the journal the changes of the file: n bytes of a key from its byte `at` on, whose runs
 * of units differ. */
static int put_changes(applying *r, const patch_chain_key *k, const char *a, const char *made,
                       int64_t at, int64_t n, kv_err *e)
{
    const tensor_info *t = checkpoint_at(r->a, checkpoint_find(r->a, k->key->name));
    int unit = patch_unit(t->type), rc = KV_OK;
    pthread_mutex_lock(&r->lock);
    for (int64_t i = 0, end; !rc && (i = next_change(a, made, i, n, unit)) < n; i = end) {
        for (end = i + unit; end < n && memcmp(a + end, made + end, (size_t)unit) != 0;)
            end += unit;
        rc = in_place_put(r->journal, t->offset + at + i, made + i, end - i, e);
    }
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* Adds n bytes of a key, from its byte `at` on, to its sum, and gives the journal the whole sum. */
static int put_sum(applying *r, XXH64_state_t *sum, const patch_chain_key *k, const char *made,
                   int64_t at, int64_t n, kv_err *e)
{
    const tensor_info *t = checkpoint_at(r->a, checkpoint_find(r->a, k->key->name));
    if (at == 0)
        XXH64_reset(sum, 0);
    XXH64_update(sum, made, (size_t)n);
    if (at + n < t->bytes)
        return KV_OK;
    pthread_mutex_lock(&r->lock);
    int rc = in_place_expect(r->journal, t->name, t->offset, t->bytes, XXH64_digest(sum), e);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* A key that becomes another one; one that stays is hashed once. */
static bool is_made(const patch_chain_key *k)
{
    return k->n > 0 || !k->from_a;
}

/* Puts the next block of a key: n elements from `first` on. */
static int put_block(applying *r, patch_maker *m, int64_t number, const void *a, int64_t first,
                     int64_t n, kv_err *e)
{
    const patch_chain_key *k = &r->chain.keys[number];
    tensor_type type = k->key->now.type;
    int64_t at = tensor_type_bytes(type, first), bytes = tensor_type_bytes(type, n);
    int unit = patch_unit(type);
    const void *made = a;
    if (is_made(k))
        TRY(patch_maker_block(m, k, k->from_a ? a : NULL, at / unit, bytes / unit, &made, e));
    if (r->out)
        return checkpoint_out_put(r->out, number, at, made, bytes, e);
    TRY(made != a ? put_changes(r, k, a, made, at, bytes, e) : KV_OK);
    return is_made(k) ? put_sum(r, &r->sums[m - r->workers], k, made, at, bytes, e) : KV_OK;
}

static int begin_walked(applying *r, int worker, const tensor_info *t, const patch_chain_key *k,
                        kv_err *e)
{
    patch_maker *m = &r->workers[worker];
    int rc = tensor_hash_begin(r->was[worker], &m->line, t->type, t->ndim, t->shape, e);
    return rc || !k || !is_made(k) ? rc : patch_maker_begin(m, k, e);
}

/* Ends a key that was walked. The hash of the result is checked only if the key was the right
 * one. */
static int end_walked(applying *r, int worker, int64_t at, const patch_chain_key *k, kv_err *e)
{
    const patch *first = r->chain.patches[0], *last = r->chain.patches[r->chain.n - 1];
    const patch_key *was = patch_index_find(&first->index, checkpoint_at(r->a, at)->name);
    unsigned char *hash = r->hashes[at].bytes;
    TRY(digest_end(r->was[worker], hash, e));
    if (!k)
        return KV_OK;
    bool right = was && patch_key_in_a(was) && memcmp(hash, was->a, PATCH_HASH) == 0;
    if (is_made(k))
        return patch_maker_end(&r->workers[worker], k, right, e);
    if (!right || memcmp(hash, k->key->b, PATCH_HASH) == 0)
        return KV_OK;
    return file_bad(e, KV_E_FORMAT, patch_name(last),
                    "a damaged patch: \"%.*s\" does not become what its hash says",
                    PATCH_SHOWN(k->key->name));
}

static int apply_piece(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    applying *r = arg;
    int64_t at = r->walked[p->tensor], number = r->into[p->tensor];
    const tensor_info *t = checkpoint_at(r->a, at);
    const patch_chain_key *k = number < 0 ? NULL : &r->chain.keys[number];
    TRY(p->first == 0 ? begin_walked(r, worker, t, k, e) : KV_OK);
    digest_add(r->was[worker], p->data[0], tensor_type_bytes(t->type, p->n));
    if (k)
        TRY(put_block(r, &r->workers[worker], number, p->data[0], p->first, p->n, e));
    return p->first + p->n == t->elements ? end_walked(r, worker, at, k, e) : KV_OK;
}

/* A key that the patches hold whole, or one without elements. */
static int apply_whole(void *arg, int64_t i, int worker, kv_err *e)
{
    applying *r = arg;
    int64_t number = r->whole[i];
    const patch_chain_key *k = &r->chain.keys[number];
    int64_t elements = patch_shape_elements(&k->key->now);
    patch_maker *m = &r->workers[worker];
    int rc = patch_maker_begin(m, k, e);
    for (int64_t at = 0; at < elements && !rc; at += WALK_PIECE) {
        int64_t n = elements - at < WALK_PIECE ? elements - at : WALK_PIECE;
        rc = put_block(r, m, number, NULL, at, n, e);
    }
    return rc ? rc : patch_maker_end(m, k, true, e);
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* The number in the chain of a key that is made from blocks of a tensor of A, or -1. */
static int64_t made_from(const applying *r, const tensor_info *t, const int64_t *numbers)
{
    const patch_index *last = &r->chain.patches[r->chain.n - 1]->index;
    const patch_key *key = patch_index_find(last, t->name);
    int64_t number = key ? numbers[key - last->keys] : -1;
    return number >= 0 && (r->chain.keys[number].from_a || r->journal) ? number : -1;
}

static void sort_tensors(applying *r, int64_t *numbers, bool *walked)
{
    const patch_chain *c = &r->chain;
    const patch_index *last = &c->patches[c->n - 1]->index;
    for (int64_t i = 0; i < last->nkeys; i++)
        numbers[i] = -1;
    for (int64_t i = 0; i < c->nkeys; i++)
        numbers[c->keys[i].key - last->keys] = i;
    for (int64_t i = 0; i < checkpoint_count(r->a); i++) {
        const tensor_info *t = checkpoint_at(r->a, i);
        if (t->elements == 0)
            continue;
        int64_t number = made_from(r, t, numbers);
        r->walked[r->nwalked] = i;
        r->into[r->nwalked++] = number;
        if (number >= 0)
            walked[number] = true;
    }
    for (int64_t i = 0; i < c->nkeys; i++)
        if (!walked[i])
            r->whole[r->nwhole++] = i;
}

static int sort_keys(applying *r, kv_err *e)
{
    const patch_chain *c = &r->chain;
    int64_t nkeys = c->patches[c->n - 1]->index.nkeys;
    int64_t *numbers = mem_alloc(nkeys, sizeof *numbers, e);
    bool *walked = mem_zalloc(c->nkeys, sizeof *walked, e);
    r->walked = mem_alloc(checkpoint_count(r->a), sizeof *r->walked, e);
    r->into = mem_alloc(checkpoint_count(r->a), sizeof *r->into, e);
    r->whole = mem_alloc(c->nkeys, sizeof *r->whole, e);
    bool all = numbers && walked && r->walked && r->into && r->whole;
    if (all)
        sort_tensors(r, numbers, walked);
    mem_free(numbers);
    mem_free(walked);
    return all ? KV_OK : KV_E_MEMORY;
}

static int new_workers(applying *r, kv_err *e)
{
    r->nworkers = pool_workers();
    if (!(r->workers = mem_zalloc(r->nworkers, sizeof *r->workers, e)))
        return KV_E_MEMORY;
    for (int i = 0; i < r->nworkers; i++)
        TRY(patch_maker_init(&r->workers[i], &r->chain, e));
    r->was = mem_zalloc(r->nworkers, sizeof *r->was, e);
    r->hashes = mem_zalloc(checkpoint_count(r->a), sizeof *r->hashes, e);
    r->sums = mem_alloc(r->nworkers, sizeof *r->sums, e);
    if (!r->was || !r->hashes || !r->sums)
        return KV_E_MEMORY;
    for (int i = 0; i < r->nworkers; i++)
        TRY(digest_new(&r->was[i], DIGEST_XXH3, e));
    return KV_OK;
}

static int open_out(applying *r, const char *path, const checkpoint_out_options *how, kv_err *e)
{
    const patch_chain *c = &r->chain;
    const patch_index *last = &c->patches[c->n - 1]->index;
    own_mem checkpoint_entry *entries = mem_alloc(c->nkeys, sizeof *entries, e);
    if (!entries)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->nkeys; i++) {
        const patch_shape *s = &c->keys[i].key->now;
        entries[i] = (checkpoint_entry){c->keys[i].key->name, s->type, s->ndim, s->shape};
    }
    return checkpoint_out_open(&r->out, path, entries, c->nkeys, last->texts, last->ntexts, how, e);
}

static void release(applying *r)
{
    for (int i = 0; r->workers && i < r->nworkers; i++)
        if (r->workers[i].chain)
            patch_maker_release(&r->workers[i]);
    for (int i = 0; r->was && i < r->nworkers; i++)
        digest_free(r->was[i]);
    mem_free(r->was);
    mem_free(r->hashes);
    mem_free(r->sums);
    mem_free(r->workers);
    mem_free(r->walked);
    mem_free(r->into);
    mem_free(r->whole);
    patch_chain_release(&r->chain);
}

/* Makes all keys, hands them to where they go, and finds out whether A was the right one. */
static int make_all(applying *r, patch_misfits *wrong, kv_err *e)
{
    /* The walk does not come to tensors without elements. */
    int rc = KV_OK;
    for (int64_t i = 0; i < checkpoint_count(r->a) && !rc; i++) {
        const tensor_info *t = checkpoint_at(r->a, i);
        if (t->elements == 0 && !(rc = begin_walked(r, 0, t, NULL, e)))
            rc = digest_end(r->was[0], r->hashes[i].bytes, e);
    }
    const walk keys = {.inputs = &r->a,
                       .ninputs = 1,
                       .at = r->walked,
                       .ntensors = r->nwalked,
                       .piece = apply_piece,
                       .arg = r,
                       .in_order = true,
                       .progress = tell,
                       .progress_arg = r};
    if (!rc && !(rc = walk_run(&keys, e)) && !(rc = pool_each(r->nwhole, apply_whole, r, e)))
        rc = compare(r, r->hashes, wrong, e);
    return rc;
}

/* Checks whether A's names, types and shapes are those that the first patch was made from. */
static int fits(const applying *r, bool *yes, kv_err *e)
{
    patch_misfits other = {0};
    int rc = patch_compare(&other, r->chain.patches[0], false, r->a, NULL, e);
    *yes = other.n == 0;
    patch_misfits_release(&other);
    return rc;
}

static int apply_to_out(applying *r, const char *path, const checkpoint_out_options *how,
                        patch_misfits *wrong, kv_err *e)
{
    int rc = sort_keys(r, e);
    for (int64_t i = 0; i < checkpoint_count(r->a); i++)
        r->all += checkpoint_at(r->a, i)->bytes;
    if (rc || (rc = new_workers(r, e)) || (rc = open_out(r, path, how, e)))
        return rc;
    if (!(rc = make_all(r, wrong, e)))
        return checkpoint_out_commit(r->out, e);
    checkpoint_out_abandon(r->out);
    return rc;
}

int patch_apply(const char *path, patch *const *patches, int n, checkpoint *a,
                const checkpoint_out_options *how, const patch_options *o, patch_misfits *wrong,
                kv_err *e)
{
    applying r = {.a = a, .o = o};
    bool right = false;
    int rc = refuse_patch(a, e);
    if (!rc && !(rc = patch_check_links(patches, n, wrong, e)) &&
        !(rc = patch_chain_init(&r.chain, patches, n, e)) &&
        !(rc = fits(&r, &right, e)))
        rc = right && !(o && o->check_only) ? apply_to_out(&r, path, how, wrong, e)
                                            : check_base(&r, wrong, e);
    release(&r);
    return rc;
}

/* ---- In place -------------------------------------------------------------------------------- */

/* Returns true if the header of the file is also that of the result. */
static bool header_stays(const checkpoint *a, const patch_index *last)
{
    int64_t n = checkpoint_count(a), i;
    if (!checkpoint_is_safetensors(a) || checkpoint_metadata_count(a) != last->ntexts)
        return false;
    for (i = 0; i < last->ntexts; i++) {
        const checkpoint_text *t = checkpoint_metadata_at(a, i), *u = &last->texts[i];
        if (strcmp(t->name, u->name) != 0 || strcmp(t->text, u->text) != 0)
            return false;
    }
    for (i = 0; i < n && i < last->nkeys && patch_key_in_b(&last->keys[i]); i++) {
        const tensor_info *t = checkpoint_at(a, i);
        patch_shape shape = patch_shape_of(t);
        if (strcmp(t->name, last->keys[i].name) != 0 || t->form != 0 ||
            !patch_shape_equal(&shape, &last->keys[i].now))
            return false;
    }
    return i == n && (i == last->nkeys || !patch_key_in_b(&last->keys[i]));
}

/* A store's own file has states and checksums, which a patch of its keys would leave as they are.
 */
static int check_store(const char *path, const checkpoint *a, kv_err *e)
{
    own_checkpoint *all = NULL;
    TRY(checkpoint_open(&all, path, NULL, e));
    if (checkpoint_count(all) == checkpoint_count(a) &&
        checkpoint_metadata_count(all) == checkpoint_metadata_count(a))
        return KV_OK;
    file_bad(e, KV_E_VALUE, path, "the file of a store, whose states do not change");
    return kv_err_hint(e, "apply --out FILE.safetensors writes its keys alone"), KV_E_VALUE;
}

static int open_weights(checkpoint **a, const char *path, kv_err *e)
{
    const checkpoint_options weights = {.weights = true};
    return checkpoint_open(a, path, &weights, e);
}

/* Makes the changes, into the journal or the clone, and finds out whether it is the right file. */
static int journal_changes(applying *r, patch_misfits *wrong, kv_err *e)
{
    for (int64_t i = 0; i < checkpoint_count(r->a); i++)
        r->all += checkpoint_at(r->a, i)->bytes;
    pthread_mutex_init(&r->lock, NULL);
    int rc = sort_keys(r, e);
    if (!rc && !(rc = new_workers(r, e)))
        rc = make_all(r, wrong, e);
    pthread_mutex_destroy(&r->lock);
    return rc;
}

/* The file was looked at before its journal was opened, so it is looked at again. */
static int apply_to_file(const char *path, patch *const *patches, int n, const patch_options *o,
                         patch_misfits *wrong, kv_err *e)
{
    applying r = {.o = o};
    TRY(in_place_open(&r.journal, path, e));
    if (o && o->unsynced)
        in_place_unsynced(r.journal);
    int rc = open_weights(&r.a, path, e);
    if (!rc && !header_stays(r.a, &patches[n - 1]->index))
        rc = file_bad(e, KV_E_VALUE, path, "it was replaced meanwhile");
    if (!rc && !(rc = patch_chain_init(&r.chain, patches, n, e)))
        rc = journal_changes(&r, wrong, e);
    checkpoint_close(r.a);
    if (!rc && !(o && o->check_only))
        rc = in_place_commit(r.journal, e);
    else
        in_place_abandon(r.journal);
    release(&r);
    return rc;
}

/* The bytes that a change in place writes, at most: its journal, and the pages of 4 KB that the
 * units lie in, wherever they lie in their key. */
static double place_bytes(patch *const *patches, int n)
{
    const double page = 4096;
    double all = 0;
    for (int i = 0; i < n; i++) {
        const patch_index *x = &patches[i]->index;
        for (int64_t j = 0; j < x->nkeys; j++) {
            const patch_key *k = &x->keys[j];
            double units = (double)k->changes;
            double pages = (double)tensor_bytes(k->now.type, k->now.ndim, k->now.shape) /
                           page;
            if (units > 0)
                all += units * (patch_unit(k->now.type) + 2) +
                       page * pages * (1 - exp(-units / pages));
        }
    }
    return all;
}

/* Returns true if the file is sooner written anew: it has one name and no session has it as its
 * store, there is room for two of it, and a change in place would write more bytes than it has. */
static bool pays_anew(const char *path, patch *const *patches, int n)
{
    const int64_t least = 1 << 20; /* below, both take the time of a few syncs */
    struct stat about;
    struct statvfs disk;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool yes = fd >= 0 && fstat(fd, &about) == 0 && fstatvfs(fd, &disk) == 0 &&
               S_ISREG(about.st_mode) && about.st_nlink == 1 && about.st_size >= least &&
               (double)disk.f_bavail * (double)disk.f_frsize > 1.1 * (double)about.st_size &&
               place_bytes(patches, n) > (double)about.st_size &&
               flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        close(fd);
    return yes;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The path to write, and how, for a checkpoint that is replaced as a whole. */
static int apply_beside(const char *path, patch *const *patches, int n, checkpoint *a,
                        int64_t shard_bytes, const patch_options *o, patch_misfits *wrong,
                        kv_err *e)
{
    own_buf to = {0};
    checkpoint_out_options how = {.shard_bytes = shard_bytes, .force = true, .keep = true};
    how.unsynced = o && o->unsynced;
    how.any_name = checkpoint_is_safetensors(a);
    buf_add(&to, path);
    if (is_folder(path) && path[strlen(path) - 1] != '/')
        buf_char(&to, '/');
    int rc = buf_check(&to, e);
    if (!rc && !how.any_name && !checkpoint_out_is_path(to.data)) {
        rc = file_bad(e, KV_E_VALUE, path, "nothing that can be written back");
        kv_err_hint(e, "apply --out B writes another file");
    }
    return rc ? rc : patch_apply(to.data, patches, n, a, &how, o, wrong, e);
}

int patch_apply_in_place(const char *path, patch *const *patches, int n, int64_t shard_bytes,
                         const patch_options *o, patch_place *place, patch_misfits *wrong,
                         kv_err *e)
{
    kv_err why = {0};
    checkpoint *a = NULL;
    int rc = open_weights(&a, path, &why);
    if (!rc && !(rc = refuse_patch(a, &why)) && !(rc = check_store(path, a, &why)) &&
        !(rc = patch_check_links(patches, n, wrong, &why))) {
        *place = header_stays(a, &patches[n - 1]->index) && !pays_anew(path, patches, n)
                     ? PATCH_IN_PLACE
                     : PATCH_BESIDE;
        if (*place == PATCH_IN_PLACE) {
            checkpoint_close(a);
            a = NULL;
            rc = apply_to_file(path, patches, n, o, wrong, &why);
        } else {
            rc = apply_beside(path, patches, n, a, shard_bytes, o, wrong, &why);
        }
    }
    checkpoint_close(a);
    if (rc == KV_E_ASSERT && wrong->is_result) {
        *place = PATCH_ALREADY;
        return KV_OK;
    }
    if (rc && e && !e->code)
        *e = why;
    return rc;
}
