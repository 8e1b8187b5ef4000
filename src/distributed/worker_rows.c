/* Pulls of some rows: each part of a key is asked for its own, and answers with those it has. */
#include "distributed/types.h"

#include <string.h>

#include "array/row_ids.h"
#include "array/sparse.h"
#include "base/mem.h"
#include "core/call.h"
#include "distributed/request.h"
#include "distributed/server_ranks.h"
#include "distributed/worker_keys.h"

/* A pair of a call: the rows of one key that it wants, ascending and each once, and the replies of
 * the parts of that key. */
typedef struct row_pull {
    int64_t slot, *ids, n;
    void **replies; /* by part, like their bytes */
    const int64_t *bytes;
} row_pull;

/* The head of a reply, as ask_put_rows writes it: how many rows it has. */
static int count_rows(const void *reply, int64_t bytes, int64_t row, int64_t *n, kv_err *e)
{
    if (bytes < (int64_t)sizeof *n)
        return ask_malformed(e);
    memcpy(n, reply, sizeof *n);
    int64_t rest = bytes - (int64_t)sizeof *n, each = (int64_t)sizeof *n + row;
    return *n < 0 || *n > rest / each || *n * each != rest ? ask_malformed(e) : KV_OK;
}

/* Makes an array of the rows of all parts: one behind the other they are ascending. */
static int join(const row_pull *x, const kv_array *like, const place *p, kv_array **out, kv_err *e)
{
    int64_t n = 0, at = 0, some = 0, row = sparse_row(like) * kv_dtype_bytes((kv_dtype)like->dtype);
    void *to = NULL;
    int rc = KV_OK;
    for (int32_t i = 0; i < p->nparts && !rc; i++, n += some)
        rc = count_rows(x->replies[i], x->bytes[i], row, &some, e);
    int64_t *ids = rc ? NULL : mem_alloc(n, sizeof *ids, e);
    if (!ids)
        return rc ? rc : KV_E_MEMORY;
    for (int32_t i = 0; i < p->nparts; i++) {
        const int64_t *from = x->replies[i];
        if (row_ids_outside(from + 1, from[0], array_shape(like)[0]) >= 0)
            rc = ask_malformed(e);
        for (int64_t j = 1; j <= from[0] && !rc; j++)
            ids[at++] = from[j] + place_first_row(p, i);
    }
    if (!rc)
        rc = kv_array_new_sparse(out, like->dtype, like->ndim, array_shape(like), n, ids,
                                 (kv_ctx){KV_CPU, 0}, e);
    if (!rc)
        rc = kv_array_write_rows(*out, &to, e);
    for (int32_t i = 0; i < p->nparts && !rc; i++) {
        const int64_t *from = x->replies[i];
        if (from[0] * row > 0)
            memcpy(to, from + from[0] + 1, (size_t)(from[0] * row));
        to = (char *)to + from[0] * row;
    }
    mem_free(ids);
    return rc;
}

static int fill_out(worker *w, const row_pull *x, kv_array *out, kv_err *e)
{
    kv_array *got = NULL;
    int rc = join(x, w->store->slots.items[x->slot].stored, &w->keys[x->slot].place, &got, e);
    if (!rc)
        rc = kv_array_copy(out, got, e);
    kv_array_unref(got);
    return rc;
}

/* The call to each part: its rows, counted from its first one. */
static void ask_parts(const worker *w, const row_pull *x, net_call *calls)
{
    const worker_key *k = &w->keys[x->slot];
    int64_t at = 0;
    for (int32_t part = 0; part < k->place.nparts; part++) {
        int64_t from = at, behind = place_first_row(&k->place, part + 1);
        int64_t end = row_ids_find(x->ids, at, x->n, behind);
        for (; at < end; at++)
            x->ids[at] -= place_first_row(&k->place, part);
        calls[part] = (net_call){.rank = server_rank(place_server(&k->place, part, w->how.servers)),
                                 .what = ASK_ROWS,
                                 .store = w->number,
                                 .args.rows = {k->place.first + part, k->pushes},
                                 .data = x->ids + from,
                                 .bytes = (end - from) * (int64_t)sizeof *x->ids};
    }
}

/* Asks for the rows of n pairs at once, whose keys have nparts parts together. */
static int pull_together(worker *w, row_pull *list, int64_t n, int nparts, const kv_pairs *outs,
                         kv_err *e)
{
    net_call *calls = mem_alloc(nparts, sizeof *calls, e);
    void **replies = mem_zalloc(nparts, sizeof *replies, e);
    int64_t *bytes = mem_alloc(nparts, sizeof *bytes, e);
    int rc = calls && replies && bytes ? KV_OK : KV_E_MEMORY, at = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        const worker_key *k = &w->keys[list[i].slot];
        list[i].replies = replies + at;
        list[i].bytes = bytes + at;
        ask_parts(w, &list[i], calls + at);
        at += k->place.nparts;
    }
    if (!rc)
        rc = net_calls_wait(calls, nparts, replies, bytes, e);
    for (int64_t i = 0; i < n && !rc; i++) {
        w->keys[list[i].slot].pulls++;
        if ((rc = fill_out(w, &list[i], outs->arrays[i], e)))
            kv_err_key(e, &outs->keys[i]);
    }
    for (int i = 0; replies && i < nparts; i++)
        mem_free(replies[i]);
    mem_free(bytes);
    mem_free(replies);
    mem_free(calls);
    return rc;
}

/* Reads the ids of a pair. */
static int read_ids(const worker *w, row_pull *x, kv_array *ids, const kv_array *out, kv_err *e)
{
    const slot *s = &w->store->slots.items[x->slot];
    int rc = call_check_shape(s, out, "array", e);
    if (rc)
        return rc;
    if (s->stored->storage != KV_ROW_SPARSE || out->storage != KV_ROW_SPARSE)
        return kv_err_set(e, KV_E_VALUE, "%s is not row_sparse",
                          out->storage == KV_ROW_SPARSE ? "the key" : "this array");
    int64_t rows = array_shape(s->stored)[0], outside;
    if ((rc = row_ids_read(&x->ids, ids, e)))
        return rc;
    x->n = kv_array_size(ids);
    if ((outside = row_ids_outside(x->ids, x->n, rows)) >= 0)
        return kv_err_set(e, KV_E_INDEX, "row %lld is outside 0 to %lld",
                          (long long)x->ids[outside], (long long)rows - 1);
    return row_ids_sort(x->ids, &x->n, rows, e);
}

/* The pairs go to the servers together, but not so many that all their replies would need as much
 * memory again as the arrays. */
int worker_pull_rows(void *self, kv_array *const *ids, const kv_pairs *outs, const kv_call *how,
                     kv_err *e)
{
    enum { TOGETHER = 1024 /* parts, about */ };
    worker *w = self;
    int64_t n = outs->n, first = 0;
    int parts = 0;
    (void)how;
    int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    row_pull *list = mem_zalloc(n, sizeof *list, e);
    int rc = numbers && list ? worker_find(w, outs, false, numbers, e) : KV_E_MEMORY;
    engine_wait_group(&w->store->calls.group, 0);
    for (int64_t i = 0; i < n && !rc; i++) {
        list[i].slot = numbers[i];
        if ((rc = read_ids(w, &list[i], ids[i], outs->arrays[i], e)))
            kv_err_key(e, &outs->keys[i]);
    }
    for (int64_t i = 0; i < n && !rc; i++) {
        parts += w->keys[numbers[i]].place.nparts;
        if (parts < TOGETHER && i + 1 < n)
            continue;
        const kv_pairs some = {outs->keys + first, outs->arrays + first, i + 1 - first};
        rc = pull_together(w, list + first, some.n, parts, &some, e);
        first = i + 1;
        parts = 0;
    }
    for (int64_t i = 0; list && i < n; i++)
        mem_free(list[i].ids);
    mem_free(list);
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
