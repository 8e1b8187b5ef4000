/* The slots hold the residuals by rank; rank 0 has the other ranks' while a file is written. */
#include "distributed/states.h"

#include "base/kv_assert.h"
#include "core/slot.h"
#include "distributed/alive.h"
#include "distributed/net.h"
#include "distributed/spares.h"
#include "distributed/worker.h"

/* The context of residuals that no push of this rank has made. */
static const kv_ctx in_host = {KV_CPU, 0};

static int new_residual(const slot *s, kv_ctx ctx, kv_array **out, kv_err *e)
{
    return kv_array_new(out, KV_FLOAT32, s->stored->ndim, array_shape(s->stored), ctx, e);
}

int rank_residuals_find(slot *s, kv_ctx ctx, kv_array **out, bool *anew, kv_err *e)
{
    kv_array **at = NULL;
    TRY(residuals_place(&s->residuals, link_rank(), &at, e));
    *anew = !*at;
    if (*anew)
        TRY(new_residual(s, ctx, at, e));
    *out = *at;
    return KV_OK;
}

kv_array *rank_residuals_replace(slot *s, kv_array *by)
{
    kv_assert(s->residuals && s->residuals->n > link_rank(),
              "rank %d replaces a residual that it does not have", link_rank());
    kv_array *old = s->residuals->items[link_rank()];
    s->residuals->items[link_rank()] = by;
    return old;
}

int rank_residuals_detach(slot *s, kv_err *e)
{
    kv_array *mine = s->residuals && s->residuals->n > link_rank()
                         ? s->residuals->items[link_rank()]
                         : NULL;
    own_array *copy = NULL;
    if (!mine)
        return KV_OK;
    TRY(new_residual(s, mine->ctx, &copy, e));
    TRY(kv_array_copy(copy, mine, e));
    copy = rank_residuals_replace(s, copy); /* the old one goes */
    return KV_OK;
}

int rank_residuals_share(residuals **out, const slot *s, int rank, kv_err *e)
{
    bool has = s->residuals && rank < s->residuals->n && s->residuals->items[rank];
    residuals one = {.items = has ? &s->residuals->items[rank] : NULL, .n = has};
    return residuals_share(out, &one, e);
}

int rank_residuals_take(slot *s, int rank, residuals *from, kv_err *e)
{
    kv_array **to = NULL;
    if (!from)
        return KV_OK;
    TRY(residuals_place(&s->residuals, rank, &to, e));
    kv_array_unref(*to);
    *to = from->items[0];
    from->items[0] = NULL;
    return KV_OK;
}

void rank_residuals_drop_others(slot *s)
{
    for (int64_t i = 0; s->residuals && i < s->residuals->n; i++) {
        if (i == link_rank())
            continue;
        kv_array_unref(s->residuals->items[i]);
        s->residuals->items[i] = NULL;
    }
}

int rank_residuals_complete(const worker *w, kv_err *e)
{
    for (int64_t i = 0; i < w->store->slots.n; i++) {
        slot *s = &w->store->slots.items[i];
        for (int64_t j = 0; s->residuals && j < s->residuals->n; j++)
            if (!s->residuals->items[j])
                TRY(new_residual(s, in_host, &s->residuals->items[j], e));
    }
    return KV_OK;
}

static bool works(const worker *w, int64_t rank)
{
    return rank < w->how.workers && !spares_waits((int)rank) && !alive_is_gone((int)rank);
}

/* Adds a residual to that of another rank. */
static int add_to(slot *s, int rank, const kv_array *gone, kv_err *e)
{
    kv_array **to = NULL;
    TRY(residuals_place(&s->residuals, rank, &to, e));
    if (!*to)
        TRY(new_residual(s, in_host, to, e));
    for (int64_t i = 0; i < gone->size; i++)
        ((float *)(*to)->data)[i] += ((const float *)gone->data)[i];
    return KV_OK;
}

int rank_residuals_fold(const worker *w, kv_err *e)
{
    int last = w->how.workers - 1, rc = KV_OK;
    while (last > 0 && !works(w, last))
        last--;
    for (int64_t i = 0; i < w->store->slots.n && !rc; i++) {
        slot *s = &w->store->slots.items[i];
        for (int64_t j = s->residuals ? s->residuals->n - 1 : -1; j >= 0 && !rc; j--) {
            kv_array *gone = s->residuals->items[j];
            if (!gone || works(w, j))
                continue;
            rc = add_to(s, last, gone, e);
            s->residuals->items[j] = NULL;
            kv_array_unref(gone);
        }
        if (!rc && s->residuals && s->residuals->n > last + 1)
            s->residuals->n = last + 1;
    }
    return rc;
}
