/* Residuals stand in the slots by rank; rank 0 has those of others while a file is written. */
#include "distributed/rank_residuals.h"

#include <string.h>

#include "base/mem.h"
#include "core/residuals.h"
#include "distributed/mailbox.h"

/* Where residuals stand that no push of this rank has made. */
static const kv_ctx in_host = {KV_CPU, 0};

/* Makes a place for the residual of a rank; *to becomes its place, which may hold NULL. */
static int residual_at(slot *s, int rank, kv_array ***to, kv_err *e)
{
    if (!s->residuals && !(s->residuals = mem_zalloc(1, sizeof *s->residuals, e)))
        return KV_E_MEMORY;
    residuals *r = s->residuals;
    int rc = mem_grow(&r->items, &r->cap, rank + 1, sizeof *r->items, e);
    while (!rc && r->n <= rank)
        r->items[r->n++] = NULL;
    if (!rc)
        *to = &r->items[rank];
    return rc;
}

static int new_residual(const slot *s, kv_ctx ctx, kv_array **out, kv_err *e)
{
    return kv_array_new(out, KV_FLOAT32, s->stored->ndim, s->stored->shape, ctx, e);
}

int rank_residuals_find(slot *s, kv_ctx ctx, kv_array **out, bool *anew, kv_err *e)
{
    kv_array **at = NULL;
    int rc = residual_at(s, net_rank(), &at, e);
    *anew = !rc && !*at;
    if (*anew)
        rc = new_residual(s, ctx, at, e);
    if (!rc)
        *out = *at;
    return rc;
}

kv_array *rank_residuals_replace(slot *s, kv_array *by)
{
    kv_array *old = s->residuals->items[net_rank()];
    s->residuals->items[net_rank()] = by;
    return old;
}

/* One of a rank, behind its bytes; none has 0. */
int rank_residuals_put(buf *b, const slot *s, int rank, kv_err *e)
{
    kv_array *a = s->residuals && rank < s->residuals->n ? s->residuals->items[rank] : NULL;
    int64_t bytes = a ? kv_array_bytes(a) : 0;
    const void *data = NULL;
    int rc = a ? kv_array_read(a, &data, e) : KV_OK;
    buf_put(b, (const char *)&bytes, sizeof bytes);
    if (!rc && a)
        ask_put_padded(b, data, bytes);
    return rc;
}

int rank_residuals_take(slot *s, int rank, const char **at, const char *end, kv_err *e)
{
    int64_t bytes;
    kv_array **to = NULL;
    if (end - *at < (int64_t)sizeof bytes)
        return ask_malformed(e);
    memcpy(&bytes, *at, sizeof bytes);
    *at += sizeof bytes;
    if (!bytes)
        return KV_OK;
    int rc = residual_at(s, rank, &to, e);
    if (!rc && !*to)
        rc = new_residual(s, in_host, to, e);
    if (!rc && (bytes != kv_array_bytes(*to) || end - *at < bytes))
        rc = ask_malformed(e);
    if (!rc)
        memcpy((*to)->data, *at, (size_t)bytes);
    *at += (bytes + 7) / 8 * 8;
    return rc;
}

/* To rank 0, each behind its key. */
int rank_residuals_send(const worker *w, kv_err *e)
{
    buf b = {0};
    int rc = KV_OK;
    for (int64_t i = 0; i < w->store->slots.n && !rc; i++) {
        const slot *s = &w->store->slots.items[i];
        ask_put_key(&b, &(ask_key){.id = s->key.id}, s->key.name);
        rc = rank_residuals_put(&b, s, net_rank(), e);
    }
    if (!rc)
        rc = mailbox_send(w, 0, MAIL_RESIDUALS, &b, e);
    buf_release(&b);
    return rc;
}

int rank_residuals_receive(const worker *w, int rank, kv_err *e)
{
    void *data = NULL;
    int64_t bytes = 0;
    int rc = mailbox_receive(w, rank, MAIL_RESIDUALS, &data, &bytes, e);
    const char *at = data, *end = at + bytes;
    while (!rc && at < end) {
        kv_key key;
        int64_t i = ask_get_key(&at, end, &key) ? slot_find(&w->store->slots, &key, -1) : -1;
        rc = i < 0 ? ask_malformed(e)
                   : rank_residuals_take(&w->store->slots.items[i], rank, &at, end, e);
    }
    mem_free(data);
    return rc;
}

int rank_residuals_complete(const worker *w, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < w->store->slots.n && !rc; i++) {
        slot *s = &w->store->slots.items[i];
        for (int64_t j = 0; s->residuals && j < s->residuals->n && !rc; j++)
            if (!s->residuals->items[j])
                rc = new_residual(s, in_host, &s->residuals->items[j], e);
    }
    return rc;
}

int rank_residuals_fold(const worker *w, kv_err *e)
{
    int last = w->how.workers - 1, rc = KV_OK;
    for (int64_t i = 0; i < w->store->slots.n && !rc; i++) {
        slot *s = &w->store->slots.items[i];
        while (!rc && s->residuals && s->residuals->n > last + 1) {
            kv_array *gone = s->residuals->items[--s->residuals->n], **to = NULL;
            if ((rc = residual_at(s, last, &to, e)) == KV_OK && !*to)
                rc = new_residual(s, in_host, to, e);
            for (int64_t j = 0; !rc && gone && j < gone->size; j++)
                ((float *)(*to)->data)[j] += ((const float *)gone->data)[j];
            kv_array_unref(gone);
        }
    }
    return rc;
}
