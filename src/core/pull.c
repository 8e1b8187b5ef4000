/* Copies from stored arrays: whole ones, then rows. */
#include "array/gpu_list.h"
#include "array/mirror.h"
#include "array/sparse.h"
#include "base/compiler.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/call.h"

static int prepare(call *c, kv_err *e)
{
    TRY(call_find_pairs(c, false, e));
    return call_cut_work(c, e);
}

/* Elements that are copied into every out of a key before the next ones: small beside a cache. */
enum { BLOCK = 4096 };

/* One range of one key. */
static void copy_range(call *c, const call_group *g, int64_t from, int64_t n)
{
    apply_outs outs = {c->values + g->first, g->n};
    int64_t block = g->n > 1 ? BLOCK : n;
    for (int64_t i = from, end = from + n; i < end; i += block)
        apply_spread_part(&outs, g->target, i, end - i < block ? end - i : block,
                          call_is_far(c, n));
}

/* Prefetches what the groups that come next will touch: headers first, then elements. */
static void look_ahead(const call *c, int64_t i, int64_t last)
{
    if (i + 2 * CALL_AHEAD < last) {
        const call_group *g = &c->groups[i + 2 * CALL_AHEAD];
        call_prefetch(g->target);
        for (int64_t j = 0; j < g->n && j < CALL_AHEAD_ARRAYS; j++)
            call_prefetch(c->values[g->first + j]);
    }
    if (i + CALL_AHEAD < last) {
        const call_group *g = &c->groups[i + CALL_AHEAD];
        prefetch(g->target->data);
        for (int64_t j = 0; j < g->n && j < CALL_AHEAD_ARRAYS; j++)
            prefetch_write(c->values[g->first + j]->data);
    }
}

static void pull_part(void *arg, int64_t part, int worker)
{
    call *c = arg;
    const call_cut *cut = &c->cuts[part], *end = cut + 1;
    int64_t last = end->item + (end->from > 0), from = cut->from;
    (void)worker;
    for (int64_t i = cut->item; i < last; i++, from = 0) {
        const call_group *g = &c->groups[i];
        int64_t n = (i == end->item ? end->from : g->target->size) - from;
        if (g->work == CALL_ON_GPU)
            continue;
        look_ahead(c, i, last);
        int64_t begin = call_trace_begin(c);
        if (g->work == CALL_COPY)
            copy_range(c, g, from, n);
        for (int64_t j = 0; j < g->n && g->work != CALL_COPY; j++)
            sparse_move(c->values[g->first + j], g->target);
        call_trace_part(c, begin, "copy", &g->key, c->values[g->first], from, n);
    }
    if (!c->op.repeats)
        call_end_groups(c, cut->item, last);
}

/* An array that several pairs write holds the last of them. */
static int run(call *c, kv_err *e)
{
    bool all = false;
    TRY(c->gpus ? call_gpu_pull(c, &all, e) : KV_OK);
    if (all)
        return KV_OK;
    if (c->op.repeats)
        for (int64_t i = 0; i < c->ncuts; i++)
            pull_part(c, i, 0);
    else
        pool_run(c->ncuts, pull_part, c);
    return KV_OK;
}

static void prepare_batch(call *c)
{
    int rc = call_find_pairs(c, false, NULL);
    kv_assert(rc == KV_OK, "a batch of %lld pairs fails (%s), and all pairs were checked",
              (long long)c->nvalues, kv_code_name(rc));
}

static void run_batch(call *c)
{
    pull_part(c, 0, 0);
}

const call_ops pull_ops = {.name = "pull",
                           .prepare = prepare,
                           .run = run,
                           .prepare_batch = prepare_batch,
                           .run_batch = run_batch};

/* ---- Pulls into row_sparse arrays -------------------------------------------------------------
 *
 * How much memory such a pull needs depends on rows, so the new contents of every array are made
 * first; what is scheduled then only fills them in and exchanges them for the old ones, and fails
 * only where a GPU does. */

/* The memory of such a pull, behind call.rows. */
typedef struct rows {
    bool by_id;        /* fresh arrays wait for their rows; else they have them */
    bool *as_before;   /* by_id: an array holds the same rows of the same key as the one before it,
                          which has the ids of both */
    kv_array *fresh[]; /* the new contents of each array; NULL: it is a default one */
} rows;

static void release_rows(call *c)
{
    rows *r = c->rows.state;
    for (int64_t i = 0; i < c->nvalues; i++)
        kv_array_unref(r->fresh[i]);
    mem_free(r);
}

static int new_rows(rows **out, call *c, bool by_id, kv_err *e)
{
    rows *r;
    int64_t each = (int64_t)(sizeof *r->fresh + sizeof *r->as_before);
    if (!(r = mem_zalloc((int64_t)sizeof *r + c->nvalues * each, 1, e)))
        return KV_E_MEMORY;
    r->as_before = (bool *)(r->fresh + c->nvalues);
    r->by_id = by_id;
    *out = r;
    c->rows = (call_part){r, release_rows};
    return KV_OK;
}

/* An array with memory for n rows that becomes `out`. */
static int new_array(kv_array **made, const kv_array *out, int64_t n, int64_t *ids, kv_err *e)
{
    return sparse_new_rows(made, out, out->dtype, out->ctx, n, ids, e);
}

static int prepare_all(call *c, kv_err *e)
{
    rows *r;
    TRY(call_find_pairs(c, true, e));
    TRY(new_rows(&r, c, false, e));
    for (int64_t i = 0; i < c->nvalues; i++) {
        if (c->values[i]->storage == KV_DEFAULT)
            continue;
        TRY(new_array(&r->fresh[i], c->values[i], 0, NULL, e));
        TRY(kv_array_copy(r->fresh[i], c->stored[i], e));
    }
    return KV_OK;
}

/* Both sides of such a pull are row_sparse. */
static int check_storage(const kv_key *key, const kv_array *stored, const kv_array *out, kv_err *e)
{
    if (stored->storage != KV_ROW_SPARSE)
        return slot_error(e, KV_E_VALUE, key,
                          "kv_pull gives all of it; kv_init or kv_push of a row_sparse array makes "
                          "such a key",
                          "key %s is not row_sparse, its rows are not pulled by id", SLOT_KEY(key));
    if (out->storage != KV_ROW_SPARSE)
        return slot_error(e, KV_E_VALUE, key, "zeros(shape, stype=\"row_sparse\")",
                          "rows of key %s go into a row_sparse array, this one is not",
                          SLOT_KEY(key));
    return KV_OK;
}

static int range_error(const kv_key *key, int64_t id, int64_t nrows, kv_err *e)
{
    return nrows > 0
               ? slot_error(e, KV_E_INDEX, key, NULL,
                            "key %s has no row %lld, they go from 0 to %lld", SLOT_KEY(key),
                            (long long)id, (long long)nrows - 1)
               : slot_error(e, KV_E_INDEX, key, NULL, "key %s has no row %lld, it has none",
                            SLOT_KEY(key), (long long)id);
}

/* The ids that a triple gives, checked and sorted. Out: *out, released with mem_free. */
static int read_ids(int64_t **out, int64_t *n, const kv_key *key, int64_t nrows, kv_array *ids,
                    kv_err *e)
{
    TRY(row_ids_read(out, ids, e));
    *n = ids->size;
    if (row_ids_ordered(*out, *n, nrows))
        return KV_OK;
    int64_t outside = row_ids_outside(*out, *n, nrows);
    int rc =
        outside < 0 ? row_ids_sort(*out, n, nrows, e) : range_error(key, (*out)[outside], nrows, e);
    if (rc)
        mem_free(*out);
    return rc;
}

static int prepare_some(call *c, kv_err *e)
{
    rows *r;
    const kv_key *keys = c->pairs->keys;
    kv_array *const *ids = c->ids;
    int64_t n = 0;
    TRY(call_find_pairs(c, true, e));
    TRY(new_rows(&r, c, true, e));
    for (int64_t i = 0; i < c->nvalues; i++) {
        kv_array *out = c->values[i];
        int64_t *read = NULL;
        TRY(check_storage(&keys[i], c->stored[i], out, e));
        /* Neighbours in a call mostly share their ids, and those of a key all the rest: such ids
         * are read once. */
        r->as_before[i] = i > 0 && ids[i] == ids[i - 1] && c->stored[i] == c->stored[i - 1] &&
                          c->values[i]->dtype == c->values[i - 1]->dtype;
        if (!r->as_before[i])
            TRY(read_ids(&read, &n, &keys[i], array_shape(out)[0], ids[i], e));
        TRY(new_array(&r->fresh[i], out, n, read, e));
        c->work_bytes += kv_array_bytes(r->fresh[i]);
    }
    return KV_OK;
}

/* The number of arrays, from i on, that hold the same rows. */
static int64_t count_same(const call *c, int64_t i)
{
    const rows *r = c->rows.state;
    int64_t n = 1;
    while (i + n < c->nvalues && r->as_before[i + n])
        n++;
    return n;
}

/* Fills all fresh arrays where some of them, or of their keys, are on GPUs: one launch a device. */
static int fill_on_gpus(call *c, kv_err *e)
{
    kv_array *const *fresh = ((const rows *)c->rows.state)->fresh;
    own_gpu_list list = {0};
    TRY(gpu_list_begin(&list, e));
    for (int64_t i = 0, n; i < c->nvalues; i += n) {
        const kv_array *stored = c->stored[i];
        n = count_same(c, i);
        if (mirror_is_there(stored)) {
            TRY(sparse_gpu_retain(&list, fresh + i, n, stored, e));
            continue;
        }
        TRY(mirror_host(stored, MIRROR_READ, e));
        sparse_retain(fresh + i, n, stored);
    }
    return gpu_list_run(&list, e);
}

static int run_rows(call *c, kv_err *e)
{
    const rows *r = c->rows.state;
    const call_group *g = c->groups;
    int64_t filled = c->gpus ? c->nvalues : 0, begin = call_trace_begin(c);
    int rc = c->gpus && r->by_id ? fill_on_gpus(c, e) : KV_OK;
    for (int64_t i = 0; i < c->nvalues && !rc; i++) {
        g += i == g->first + g->n;
        if (i >= filled)
            begin = call_trace_begin(c);
        if (!r->fresh[i]) {
            rc = array_fill(c->values[i], c->stored[i], e);
        } else if (r->by_id && i >= filled) {
            filled = i + count_same(c, i); /* these arrays hold the same rows */
            for (int64_t k = i; k < filled; k++)
                sparse_reuse(r->fresh[k], c->values[k], k > i);
            sparse_retain(r->fresh + i, filled - i, c->stored[i]);
        }
        if (r->fresh[i])
            array_swap(c->values[i], r->fresh[i]);
        const kv_array *out = c->values[i];
        call_trace_part(c, begin, "copy", &g->key, out, 0, sparse_held(out));
    }
    kv_assert(rc || c->nvalues == 0 || g == &c->groups[c->ngroups - 1],
              "a pull ends in group %lld of %lld", (long long)(g - c->groups),
              (long long)c->ngroups);
    return rc;
}

const call_ops row_pull_all_ops = {.name = "pull", .prepare = prepare_all, .run = run_rows};
const call_ops row_pull_some_ops = {
    .name = "row-sparse-pull", .prepare = prepare_some, .run = run_rows};
