/* Pulls into row_sparse arrays: checks and memory, then the exchange. */
#include "core/row_pull.h"

#include "array/row_ids.h"
#include "array/sparse.h"
#include "base/mem.h"
#include "core/call_trace.h"

/* What a call has beside its pairs. */
typedef struct rows {
    bool by_id;        /* fresh arrays wait for their rows; else they have them */
    kv_array *fresh[]; /* what each array will hold; NULL: it is a default one */
} rows;

static void release(call *c)
{
    rows *r = c->rows.state;
    for (int64_t i = 0; i < c->nvalues; i++)
        kv_array_unref(r->fresh[i]);
    mem_free(r);
}

static int new_rows(rows **out, call *c, bool by_id, kv_err *e)
{
    rows *r = mem_zalloc((int64_t)sizeof *r + c->nvalues * (int64_t)sizeof *r->fresh, 1, e);
    if (!r)
        return KV_E_MEMORY;
    r->by_id = by_id;
    *out = r;
    c->rows = (call_part){r, release};
    return KV_OK;
}

/* ---- All rows -------------------------------------------------------------------------------- */

int row_pull_all(call *c, kv_err *e)
{
    rows *r;
    int rc = new_rows(&r, c, false, e);
    for (int64_t i = 0; i < c->nvalues && !rc; i++) {
        if (c->values[i]->storage == KV_DEFAULT)
            continue;
        rc = sparse_new_rows(&r->fresh[i], c->values[i], 0, NULL, e);
        if (!rc)
            rc = kv_array_copy(r->fresh[i], c->stored[i], e);
    }
    return rc;
}

/* ---- Some rows ------------------------------------------------------------------------------- */

/* Both sides of such a pull are row_sparse. */
static int check_storage(const kv_key *key, const kv_array *stored, const kv_array *out, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    slot_key_text(text, key);
    if (stored->storage != KV_ROW_SPARSE) {
        kv_err_set(e, KV_E_VALUE, "key %s is not row_sparse, its rows are not pulled by id", text);
        kv_err_hint(e, "pull gives all of it; init or push of a row_sparse array makes such a key");
    } else if (out->storage != KV_ROW_SPARSE) {
        kv_err_set(e, KV_E_VALUE, "rows of key %s go into a row_sparse array, this one is not",
                   text);
        kv_err_hint(e, "zeros(shape, stype=\"row_sparse\"), in C kv_array_new_sparse");
    } else {
        return KV_OK;
    }
    kv_err_key(e, key);
    return KV_E_VALUE;
}

/* Row ids that were read, checked and sorted. Neighbours in a call mostly share them. */
typedef struct row_set {
    const kv_array *given;
    int64_t *ids;
    int64_t n, rows; /* rows: of the arrays that they were checked for */
} row_set;

static int range_error(const kv_key *key, int64_t id, int64_t nrows, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    slot_key_text(text, key);
    if (nrows > 0)
        kv_err_set(e, KV_E_INDEX, "key %s has no row %lld, they go from 0 to %lld", text,
                   (long long)id, (long long)nrows - 1);
    else
        kv_err_set(e, KV_E_INDEX, "key %s has no row %lld, it has none", text, (long long)id);
    kv_err_key(e, key);
    return KV_E_INDEX;
}

static int read_ids(row_set *set, const kv_key *key, int64_t nrows, kv_array *ids, kv_err *e)
{
    int64_t *read;
    if (set->given == ids && set->rows == nrows)
        return KV_OK;
    int rc = row_ids_read(&read, ids, e);
    if (rc)
        return rc;
    mem_free(set->ids);
    *set = (row_set){ids, read, ids->size, nrows};
    int64_t outside = row_ids_outside(read, set->n, nrows);
    return outside < 0 ? row_ids_sort(read, &set->n, nrows, e)
                       : range_error(key, read[outside], nrows, e);
}

int row_pull_some(call *c, const kv_key *keys, kv_array *const *ids, kv_err *e)
{
    rows *r;
    row_set set = {0};
    int rc = new_rows(&r, c, true, e);
    for (int64_t i = 0; i < c->nvalues && !rc; i++) {
        kv_array *out = c->values[i];
        if ((rc = check_storage(&keys[i], c->stored[i], out, e)) == KV_OK &&
            (rc = read_ids(&set, &keys[i], out->shape[0], ids[i], e)) == KV_OK &&
            (rc = sparse_new_rows(&r->fresh[i], out, set.n, set.ids, e)) == KV_OK)
            c->work_bytes += kv_array_bytes(r->fresh[i]);
    }
    mem_free(set.ids);
    return rc;
}

/* ---- Running --------------------------------------------------------------------------------- */

int row_pull_run(call *c, kv_err *e)
{
    const rows *r = c->rows.state;
    const call_group *g = c->groups;
    int rc = KV_OK;
    for (int64_t i = 0; i < c->nvalues && rc == KV_OK; i++) {
        g += i == g->first + g->n;
        int64_t begin = call_trace_begin(c);
        if (!r->fresh[i])
            apply_copy(c->values[i], c->stored[i]);
        else if (r->by_id)
            rc = sparse_retain(r->fresh[i], c->stored[i], e);
        if (rc == KV_OK && r->fresh[i])
            array_swap(c->values[i], r->fresh[i]);
        const kv_array *out = c->values[i];
        call_trace_part(c, begin, "copy", &g->key, out, 0,
                        out->storage == KV_DEFAULT ? out->size : out->nrows * sparse_row(out));
    }
    return rc;
}
