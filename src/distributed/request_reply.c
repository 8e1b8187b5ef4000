/* Replies to requests: the records in which servers send the values of pulls and sums, tell that
 * pushes were applied, or refuse. Values are written into the outs as they come. */
#include "distributed/request.h"

#include <string.h>

#include "cpu/changes.h"

/* Writes elements into the outs in host memory. */
static void value_here(const request *rq, const chunk *p, int64_t offset, const void *data,
                       int64_t bytes)
{
    const request_item *c = &rq->items[p->item];
    int64_t each = kv_dtype_bytes(c->dtype);
    int64_t from = place_from(&c->place, p->part) + offset / each, n = bytes / each;
    for (int64_t i = c->first; i < c->first + c->n; i++) {
        kv_array *out = rq->outs[i];
        char *to = (char *)out->data + from * kv_dtype_bytes((kv_dtype)out->dtype);
        if (rq->blocks && rq->blocks[i])
            continue;
        if ((kv_dtype)out->dtype != c->dtype)
            convert_elements(to, (kv_dtype)out->dtype, data, c->dtype, n);
        else if (to != data)
            memcpy(to, data, (size_t)bytes);
    }
}

void request_value(request *rq, const chunk *p, int64_t offset, const void *data, int64_t bytes)
{
    kv_err e = {0};
    const request_item *c = &rq->items[p->item];
    int64_t from = place_from(&c->place, p->part) * kv_dtype_bytes(c->dtype);
    value_here(rq, p, offset, data, bytes);
    if (request_write_outs(rq, c, from + offset, data, bytes, &e))
        request_fail(rq, p, &e);
}

/* Takes plain elements of a chunk. Error, like those below: internal (malformed). */
static int take_elements(request *rq, const chunk *p, const link_rec *r, kv_err *e)
{
    const request_item *c = &rq->items[p->item];
    int64_t each = kv_dtype_bytes(c->dtype);
    if (r->from % each || r->bytes % each ||
        !elements_fit(r, r->bytes, place_count(&c->place, p->part) * each))
        return ask_malformed(e);
    request_value(rq, p, r->from, r + 1, r->bytes);
    return KV_OK;
}

/* Takes the codes of a chunk. */
static int take_codes(request *rq, const chunk *p, const link_rec *r, kv_err *e)
{
    push_codes how;
    const request_item *c = &rq->items[p->item];
    const char *codes = elements_codes(r, (const char *)(r + 1), c->dtype,
                                       place_count(&c->place, p->part), &how);
    if (!codes)
        return ask_malformed(e);
    if (request_has_outs_here(rq, c)) {
        enum { SOME = 2048 }; /* a multiple of 8, so that codes begin at bytes */
        float some[SOME];
        for (int64_t at = 0; at < r->n; at += SOME) {
            int64_t m = r->n - at < SOME ? r->n - at : SOME;
            quantise_decode(some, codes + at / 8 * how.code, (quantise_code)how.code, how.threshold,
                            m);
            value_here(rq, p, (r->from + at) * (int64_t)sizeof *some, some,
                       m * (int64_t)sizeof *some);
        }
    }
    int64_t at = (place_from(&c->place, p->part) + r->from) * (int64_t)sizeof(float);
    return request_write_codes(rq, c, at, &how, codes, r->n, e);
}

/* Writes the elements of a block that changed into the outs, whose element `at` is the block's
 * first. */
static void write_changes(const request *rq, const request_item *c, int64_t at,
                          const changes_block *b)
{
    _Alignas(8) char some[CHANGES_BLOCK * 8], other[CHANGES_BLOCK * 8];
    int64_t each = kv_dtype_bytes(c->dtype);
    for (int64_t i = c->first; i < c->first + c->n && b->count > 0; i++) {
        kv_array *out = rq->outs[i];
        int64_t size = kv_dtype_bytes((kv_dtype)out->dtype);
        char *to = (char *)out->data + at * size;
        const char *from = b->elements;
        if ((kv_dtype)out->dtype != c->dtype) {
            memcpy(some, from, (size_t)(b->count * each));
            convert_elements(other, (kv_dtype)out->dtype, some, c->dtype, b->count);
            from = other;
        }
        if (b->all)
            memcpy(to, from, (size_t)(b->count * size));
        else
            changes_scatter(to, from, b->at, b->count, (int)size);
    }
}

/* Takes the elements of a chunk that changed; the outs hold the others. */
static int take_changes(const request *rq, const chunk *p, const link_rec *r, kv_err *e)
{
    changes_block b;
    const request_item *c = &rq->items[p->item];
    int64_t at = r->from, n = r->n;
    int64_t first = place_from(&c->place, p->part);
    const char *from = (const char *)(r + 1), *behind = from + r->bytes;
    if (!rq->changes || !elements_fit(r, n, place_count(&c->place, p->part)))
        return ask_malformed(e);
    for (int64_t end = at + n; at < end; at += CHANGES_BLOCK) {
        int64_t some = end - at < CHANGES_BLOCK ? end - at : CHANGES_BLOCK;
        from = changes_decode(&b, from, behind, (int)kv_dtype_bytes(c->dtype), some);
        if (!from)
            return ask_malformed(e);
        write_changes(rq, c, first + at, &b);
    }
    return KV_OK;
}

/* Keeps the least round of the parts of an item, for kv_pull_since. */
static int note_round(const request *rq, const chunk *p, const link_rec *r, kv_err *e)
{
    int64_t *told = rq->items[p->item].told;
    if (told && (r->round < 0 || r->round == INT64_MAX))
        return ask_malformed(e);
    if (told && r->round < *told)
        *told = r->round;
    return KV_OK;
}

static void take_value(request *rq, const link_rec *r)
{
    kv_err e = {0};
    int64_t n = rq->queues[server_count() - 1].end;
    bool known = (rq->pulls || rq->sums) && rq->waiting > 0 && r->chunk >= 0 && r->chunk < n;
    const chunk *p = known && !rq->chunks[r->chunk].ended ? &rq->chunks[r->chunk] : NULL;
    if (!p)
        return;
    if (rq->bytes_came)
        *rq->bytes_came += (int64_t)sizeof *r + r->bytes;
    int rc = note_round(rq, p, r, &e);
    if (!rc && r->flags & LINK_CODES)
        rc = take_codes(rq, p, r, &e);
    else if (!rc && r->flags & LINK_CHANGES)
        rc = take_changes(rq, p, r, &e);
    else if (!rc)
        rc = take_elements(rq, p, r, &e);
    if (rc)
        request_fail(rq, p, &e);
    if (r->flags & LINK_LAST)
        request_chunk_ended(rq, p);
}

/* Counts pushes that were applied. A server that tells of more than are under way is not waited
 * for. */
static void take_done(request *rq, const link_rec *r)
{
    int64_t n = r->n;
    if (rq->waiting == 0)
        return;
    bool good = !rq->pulls && !rq->sums && n >= 0 && n <= rq->waiting;
    if (!good)
        ask_malformed(&rq->error);
    rq->waiting = good ? rq->waiting - n : 0;
}

static void take_failed(request *rq, const link_rec *r)
{
    if (rq->waiting == 0)
        return;
    bool first = !rq->error.code;
    ask_error(&rq->error, r + 1, r->bytes);
    if (rq->nitems == 1) {
        if (first && rq->sums && !strstr(rq->error.text, " key ")) {
            /* A server of sums stores no keys, so most of its sentences name none. */
            char text[SLOT_KEY_TEXT], told[sizeof rq->error.text];
            memcpy(told, rq->error.text, sizeof told);
            snprintf(rq->error.text, sizeof rq->error.text, "key %s: %.400s",
                     slot_key_text(text, &rq->items[0].key), told);
        }
        kv_err_key(&rq->error, &rq->items[0].key);
    }
    rq->waiting--;
}

void request_take(int rank, const link_rec *r)
{
    request *rq = request_find(r->request);
    (void)rank;
    if (!rq)
        return;
    if (r->kind == LINK_VALUE)
        take_value(rq, r);
    else if (r->kind == LINK_DONE)
        take_done(rq, r);
    else if (r->kind == LINK_FAILED)
        take_failed(rq, r);
    request_look_at_end(rq);
}
