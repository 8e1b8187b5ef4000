/* The types local and device: the store is in this process, and sums happen where it keeps its
 * arrays.
 *
 * local keeps every array on cpu(0). device begins there too; the first push whose first value lies
 * on a GPU moves the key to that GPU, where it stays. A push reads the values straight from the
 * caller's arrays and never keeps one of them: the stored array is always the store's own.
 */
#include "local/local.h"

#include "array/sparse.h"
#include "base/mem.h"
#include "core/row_pull.h"
#include "core/store.h"

typedef struct local {
    kv *store;
    bool moves; /* device: keys follow their values to a GPU */
} local;

static int open_store(kv *store, bool moves, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    if (nopts)
        return kv_err_set(e, KV_E_USAGE, "the type \"%s\" has no option \"%.64s\"", kv_type(store),
                          opts[0].name);
    local *l = mem_alloc(1, sizeof *l, e);
    if (!l)
        return KV_E_MEMORY;
    *l = (local){store, moves};
    store->compresses = moves; /* only device has values in several contexts */
    store->in_slots = true;
    *self = l;
    return KV_OK;
}

static int open_local(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    return open_store(store, false, opts, nopts, self, e);
}

static int open_device(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    return open_store(store, true, opts, nopts, self, e);
}

/* ---- init ---- */

static int init_key(slot_table *t, int64_t old_n, const kv_key *key, kv_array *value,
                    bool compressed, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    int64_t number = slot_find(t, key, -1);
    int rc = slot_check_kind(t, key, e);
    if (rc == KV_OK && compressed)
        rc = compression_check(key, value, e);
    if (rc)
        return rc;
    if (number >= 0) {
        kv_err_set(e, KV_E_KEY,
                   number < old_n ? "key %s is initialised already"
                                  : "key %s stands twice in the call",
                   slot_key_text(text, key));
        kv_err_key(e, key);
        return KV_E_KEY;
    }
    kv_array *stored = NULL;
    rc = kv_array_dup(&stored, value, kv_array_dtype(value), (kv_ctx){KV_CPU, 0}, e);
    if (rc == KV_OK && (rc = slot_add(t, key, stored, e)))
        kv_array_unref(stored);
    return rc;
}

static int init(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                const kv_call *how, kv_err *e)
{
    kv *s = ((local *)self)->store;
    slot_table *t = &s->slots;
    int64_t old_n = t->n;
    (void)how;
    int rc = slot_reserve(t, n, e);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        if ((rc = init_key(t, old_n, &keys[i], values[i], s->compression.code, e))) {
            slot_truncate(t, old_n);
            return rc;
        }
    }
    s->changes++;
    return KV_OK;
}

/* ---- push ---- */

/* Everything that can fail, but a C callback. */
static int prepare(kv *s, call *c, const kv_key *keys, int flags, kv_err *e)
{
    int rc = call_group_pairs(c, keys, flags, e);
    if (!rc)
        rc = compress_prepare(&s->compression, c, e);
    return rc ? rc : updater_prepare(&s->updater, c, &s->callbacks, e);
}

static int run_push(call *c, kv_err *e)
{
    compress_run(c);
    return updater_run(c, e);
}

static int push(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                const kv_call *how, kv_err *e)
{
    const local *l = self;
    kv *s = l->store;
    call *c;
    int flags = s->updater.kind == UPDATER_ASSIGN ? CALL_CREATE : CALL_UPDATE;
    if (l->moves)
        flags |= CALL_FOLLOW_GPU;
    int rc = call_new(&c, &s->calls, &s->slots, values, n, e);
    if (rc)
        return rc;
    if ((rc = prepare(s, c, keys, flags, e))) {
        call_abort(c);
        return rc;
    }
    compress_commit(c);
    updater_commit(c, s->print, s->print_arg);
    s->changes++; /* also when a callback refuses: it does so for its own key only */
    return call_run(c, run_push, how, false, e);
}

/* ---- pull ---- */

/* One range of one pair. */
static void copy_range(kv_array *out, const kv_array *stored, int64_t from, int64_t n)
{
    if (sparse_is_full(stored))
        apply_copy_part(out, stored, from, n);
    else
        apply_copy(out, stored);
}

static void pull_part(void *arg, int64_t part, int worker)
{
    call *c = arg;
    const call_cut *cut = &c->cuts[part], *end = cut + 1;
    int64_t last = end->item + (end->from > 0), from = cut->from;
    (void)worker;
    for (int64_t i = cut->item; i < last; i++, from = 0)
        copy_range(c->values[i], c->stored[i], from,
                   (i == end->item ? end->from : c->values[i]->size) - from);
    /* A pair whose elements are in several parts ends with the call. */
    int64_t first = cut->item + (cut->from > 0);
    if (first < end->item && !c->op.repeats)
        call_end_uses(c, first, end->item - first);
}

/* An array that several pairs write holds the last of them. */
static int run_pull(call *c, kv_err *e)
{
    (void)e;
    if (c->op.repeats)
        for (int64_t i = 0; i < c->ncuts; i++)
            pull_part(c, i, 0);
    else
        pool_run(c->ncuts, pull_part, c);
    return KV_OK;
}

/* Pulls into default arrays. */
static int pull_default(kv *s, const kv_key *keys, int64_t n, kv_array *const *outs,
                        const kv_call *how, kv_err *e)
{
    call *c;
    int rc = call_new(&c, &s->calls, &s->slots, outs, n, e);
    if (rc)
        return rc;
    if ((rc = call_find_pairs(c, keys, e)) || (rc = call_cut_pairs(c, e))) {
        call_end(c);
        return rc;
    }
    return call_run(c, run_pull, how, false, e);
}

/* Pulls into the default ones among outs. The pairs of the others are right or wrong all the same.
 */
static int pull_some(kv *s, const kv_key *keys, int64_t n, kv_array *const *outs,
                     const kv_call *how, kv_err *e)
{
    int64_t number, kept = 0;
    kv_key *some_keys = mem_alloc(n, sizeof *some_keys, e);
    kv_array **some = some_keys ? mem_alloc(n, sizeof *some, e) : NULL;
    int rc = some ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        if (outs[i]->storage == KV_DEFAULT) {
            some_keys[kept] = keys[i];
            some[kept++] = outs[i];
        } else if ((rc = call_find(&s->slots, &keys[i], -1, &number, e)) == KV_OK) {
            rc = call_check_shape(&s->slots.items[number], outs[i], "array", e);
        }
    }
    if (!rc && kept > 0)
        rc = pull_default(s, some_keys, kept, some, how, e);
    mem_free(some);
    mem_free(some_keys);
    return rc;
}

/* Pulls into arrays of any storage. */
static int pull_all(kv *s, const kv_key *keys, int64_t n, kv_array *const *outs, const kv_call *how,
                    kv_err *e)
{
    call *c;
    int rc = call_new(&c, &s->calls, &s->slots, outs, n, e);
    if (rc)
        return rc;
    if ((rc = call_find_pairs(c, keys, e)) || (rc = row_pull_all(c, e))) {
        call_end(c);
        return rc;
    }
    return call_run(c, row_pull_run, how, false, e);
}

static int pull(void *self, const kv_key *keys, int64_t n, kv_array *const *outs,
                const kv_call *how, kv_err *e)
{
    kv *s = ((local *)self)->store;
    bool sparse = false;
    for (int64_t i = 0; i < n && !sparse; i++)
        sparse = outs[i]->storage != KV_DEFAULT;
    if (!sparse)
        return pull_default(s, keys, n, outs, how, e);
    return how && how->flags & KV_FILL_SPARSE ? pull_all(s, keys, n, outs, how, e)
                                              : pull_some(s, keys, n, outs, how, e);
}

static int pull_rows(void *self, const kv_key *keys, int64_t n, kv_array *const *ids,
                     kv_array *const *outs, const kv_call *how, kv_err *e)
{
    kv *s = ((local *)self)->store;
    call *c;
    int rc = call_new(&c, &s->calls, &s->slots, outs, n, e);
    if (rc)
        return rc;
    if ((rc = call_find_pairs(c, keys, e)) || (rc = row_pull_some(c, keys, ids, e))) {
        call_end(c);
        return rc;
    }
    return call_run(c, row_pull_run, how, false, e);
}

static const char *const local_names[] = {"local", "local_update_cpu", "local_allreduce_cpu", NULL};
static const char *const device_names[] = {"device", "local_allreduce_device", NULL};

const kv_type_ops local_type_ops = {
    .size = sizeof local_type_ops,
    .version = KV_TYPE_VERSION,
    .names = local_names,
    .open = open_local,
    .close = mem_free,
    .init = init,
    .push = push,
    .pull = pull,
    .row_sparse_pull = pull_rows,
};

const kv_type_ops device_type_ops = {
    .size = sizeof device_type_ops,
    .version = KV_TYPE_VERSION,
    .names = device_names,
    .open = open_device,
    .close = mem_free,
    .init = init,
    .push = push,
    .pull = pull,
    .row_sparse_pull = pull_rows,
};
