/* Pulls of some rows: each part of a key is asked for its own, and answers with those it has. */
#include "distributed/types.h"

#include <string.h>

#include "array/row_ids.h"
#include "base/mem.h"
#include "core/call.h"
#include "distributed/request.h"
#include "distributed/server_ranks.h"
#include "distributed/worker_keys.h"

/* Row ids by part, each counted from the part's first row. */
typedef struct wanted {
    int64_t *ids;
    int64_t *starts; /* by part, and where the last one's end */
} wanted;

static int32_t part_of(const place *p, int64_t row)
{
    return p->nparts > 1 ? (int32_t)(row * p->row / p->step) : 0;
}

static int sort_by_part(const place *p, const int64_t *ids, int64_t n, wanted *out, kv_err *e)
{
    out->ids = mem_alloc(n, sizeof *out->ids, e);
    out->starts = mem_zalloc(p->nparts + 2, sizeof *out->starts, e);
    if (!out->ids || !out->starts)
        return KV_E_MEMORY;
    int64_t *at = out->starts + 1; /* moved on, each ends where the next begins */
    for (int64_t i = 0; i < n; i++)
        at[part_of(p, ids[i]) + 1]++;
    for (int32_t i = 0; i < p->nparts; i++)
        at[i + 1] += at[i];
    for (int64_t i = 0; i < n; i++) {
        int32_t part = part_of(p, ids[i]);
        out->ids[at[part]++] = ids[i] - place_first_row(p, part);
    }
    return KV_OK;
}

/* Reads the replies of the parts: arrays of their rows. */
static int read_replies(const slot *s, const place *p, void *const *replies, const int64_t *bytes,
                        kv_array **list, kv_err *e)
{
    int64_t shape[KV_MAX_NDIM];
    int rc = KV_OK;
    memcpy(shape, array_shape(s->stored), s->stored->ndim * sizeof *shape);
    for (int32_t i = 0; i < p->nparts && !rc; i++) {
        if (p->nparts > 1)
            shape[0] = place_count(p, i) / p->row;
        rc = ask_array(&list[i], KV_ROW_SPARSE, (kv_dtype)s->stored->dtype, s->stored->ndim, shape,
                       replies[i], bytes[i], e);
    }
    return rc;
}

/* One behind the other they are ascending. */
static int join(const slot *s, const place *p, kv_array *const *list, kv_array **out, kv_err *e)
{
    const kv_array *a = s->stored;
    int64_t n = 0, at = 0, row = kv_dtype_bytes((kv_dtype)a->dtype);
    void *to = NULL;
    for (int i = 1; i < a->ndim; i++)
        row *= array_shape(a)[i];
    for (int32_t i = 0; i < p->nparts; i++)
        n += array_nrows(list[i]);
    int64_t *ids = mem_alloc(n, sizeof *ids, e);
    if (!ids)
        return KV_E_MEMORY;
    for (int32_t i = 0; i < p->nparts; i++)
        for (int64_t j = 0; j < array_nrows(list[i]); j++)
            ids[at++] = array_rows(list[i])[j] + place_first_row(p, i);
    int rc =
        kv_array_new_sparse(out, a->dtype, a->ndim, array_shape(a), n, ids, (kv_ctx){KV_CPU, 0}, e);
    if (!rc)
        rc = kv_array_write_rows(*out, &to, e);
    for (int32_t i = 0; i < p->nparts && !rc; i++) {
        int64_t some = array_nrows(list[i]) * row;
        if (some)
            memcpy(to, list[i]->data, (size_t)some);
        to = (char *)to + some;
    }
    mem_free(ids);
    return rc;
}

static int ask_parts(const worker *w, const worker_key *k, const wanted *x, void **replies,
                     int64_t *bytes, kv_err *e)
{
    const place *p = &k->place;
    net_call *calls = mem_zalloc(p->nparts, sizeof *calls, e);
    for (int32_t i = 0; calls && i < p->nparts; i++)
        calls[i] = (net_call){.rank = server_rank(place_server(p, i, w->how.servers)),
                              .what = ASK_ROWS,
                              .store = w->number,
                              .args.rows = {p->first + i, k->pushes},
                              .data = x->ids + x->starts[i],
                              .bytes = (x->starts[i + 1] - x->starts[i]) *
                                       (int64_t)sizeof *x->ids};
    int rc = calls ? net_calls_wait(calls, p->nparts, replies, bytes, e) : KV_E_MEMORY;
    mem_free(calls);
    return rc;
}

static int pull_listed(worker *w, int64_t number, const int64_t *ids, int64_t n, kv_array *out,
                       kv_err *e)
{
    worker_key *k = &w->keys[number];
    const slot *s = &w->store->slots.items[number];
    int32_t nparts = k->place.nparts;
    wanted x = {0};
    kv_array *got = NULL;
    void **replies = mem_zalloc(nparts, sizeof *replies, e);
    int64_t *bytes = mem_zalloc(nparts, sizeof *bytes, e);
    kv_array **list = mem_zalloc(nparts, sizeof *list, e);
    int rc = replies && bytes && list ? sort_by_part(&k->place, ids, n, &x, e) : KV_E_MEMORY;
    if (!rc && (rc = ask_parts(w, k, &x, replies, bytes, e)) == KV_OK) {
        k->pulls++;
        rc = read_replies(s, &k->place, replies, bytes, list, e);
    }
    if (!rc)
        rc = join(s, &k->place, list, &got, e);
    if (!rc)
        rc = kv_array_copy(out, got, e);
    for (int32_t i = 0; i < nparts; i++) {
        kv_array_unref(list ? list[i] : NULL);
        mem_free(replies ? replies[i] : NULL);
    }
    kv_array_unref(got);
    mem_free(list);
    mem_free(bytes);
    mem_free(replies);
    mem_free(x.starts);
    mem_free(x.ids);
    return rc;
}

static int pull_rows_of(worker *w, int64_t number, kv_array *ids, kv_array *out, kv_err *e)
{
    const slot *s = &w->store->slots.items[number];
    int64_t *list = NULL, n = kv_array_size(ids);
    int rc = call_check_shape(s, out, "array", e);
    if (rc)
        return rc;
    if (s->stored->storage != KV_ROW_SPARSE || out->storage != KV_ROW_SPARSE)
        return kv_err_set(e, KV_E_VALUE, "%s is not row_sparse",
                          out->storage == KV_ROW_SPARSE ? "the key" : "this array");
    if ((rc = row_ids_read(&list, ids, e)))
        return rc;
    int64_t outside = row_ids_outside(list, n, array_shape(s->stored)[0]);
    if (outside >= 0)
        rc = kv_err_set(e, KV_E_INDEX, "row %lld is outside 0 to %lld", (long long)list[outside],
                        (long long)array_shape(s->stored)[0] - 1);
    if (!rc)
        rc = pull_listed(w, number, list, n, out, e);
    mem_free(list);
    return rc;
}

int worker_pull_rows(void *self, kv_array *const *ids, const kv_pairs *outs, const kv_call *how,
                     kv_err *e)
{
    worker *w = self;
    int64_t n = outs->n;
    (void)how;
    int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    int rc = numbers ? worker_find(w, outs, false, numbers, e) : KV_E_MEMORY;
    engine_wait_group(&w->store->calls.group, 0);
    for (int64_t i = 0; i < n && !rc; i++)
        if ((rc = pull_rows_of(w, numbers[i], ids[i], outs->arrays[i], e)))
            kv_err_key(e, &outs->keys[i]);
    mem_free(numbers);
    return rc;
}

static int pull_all_rows(worker *w, const slot *s, kv_array *out, kv_err *e)
{
    kv_array *ids = NULL;
    int rc = kv_array_new_raw(&ids, KV_INT64, 1, array_shape(s->stored), (kv_ctx){KV_CPU, 0}, e);
    if (rc)
        return rc;
    for (int64_t i = 0; i < ids->size; i++)
        ((int64_t *)ids->data)[i] = i;
    rc = worker_pull_rows(w, &ids, &(kv_pairs){&s->key, &out, 1}, NULL, e);
    kv_array_unref(ids);
    return rc;
}

int worker_pull_stored(worker *w, const slot *s, kv_array **out, kv_err *e)
{
    const kv_array *a = s->stored;
    const kv_ctx cpu = {KV_CPU, 0};
    if (a->storage == KV_ROW_SPARSE) {
        int rc = kv_array_new_sparse(out, a->dtype, a->ndim, array_shape(a), 0, NULL, cpu, e);
        return rc ? rc : pull_all_rows(w, s, *out, e);
    }
    int rc = kv_array_new_raw(out, a->dtype, a->ndim, array_shape(a), cpu, e);
    return rc ? rc : request_pull(w, &(kv_pairs){&s->key, out, 1}, NULL, e);
}
