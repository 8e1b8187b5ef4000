/* Pushes of arrays on GPUs to servers of other machines, where MPI can read the memory of GPUs:
 * consecutive parts go as one GPU-direct message, and then the records of all.
 */
#include <string.h>

#include "array/mirror.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "distributed/request.h"

enum { RECORDS = LINK_PAYLOAD / 2 /* bytes, about, of the records of one */ };

bool request_is_packed(const request_item *c, int32_t part)
{
    return c->block &&
           link_takes_direct(server_rank(place_server(&c->place, part, server_count())));
}

/* The parts that are not packed are sent from a copy in host memory. */
static int make_host_copy(request_item *c, kv_err *e)
{
    bool all = true;
    for (int32_t i = 0; i < c->place.nparts; i++)
        all &= request_is_packed(c, i);
    if (all)
        return KV_OK;
    c->host_copy = mem_alloc_data(c->place.size * kv_dtype_bytes(c->dtype), e);
    return c->host_copy ? KV_OK : KV_E_MEMORY;
}

static bool is_taken_there(const request *rq, const request_item *c)
{
    bool some = false;
    if (rq->pulls || rq->sums || c->staged || c->blob || !mirror_is_there(c->source))
        return false;
    for (int i = 0; i < server_count() && !some; i++)
        some = link_takes_direct(server_rank(i));
    return some;
}

int request_expect_direct(request *rq, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < rq->nitems && !rc; i++) {
        request_item *c = &rq->items[i];
        void *block;
        if (!is_taken_there(rq, c))
            continue;
        const gpu_ops *gpu = gpu_find(e);
        rc = gpu ? mirror_device(c->source, MIRROR_READ, &block, e) : KV_E_UNSUPPORTED;
        if (!rc)
            rc = gpu->wait(mirror_gpu(c->source), e);
        if (rc)
            break;
        c->block = block;
        rc = make_host_copy(c, e);
    }
    return rc;
}

/* ---- Sending ---- */

void request_fill_push(const request *rq, const request_item *c, link_rec *r, bool first)
{
    int64_t prefix = first ? c->host_bytes : 0;
    r->kind = LINK_PUSH;
    r->store = (uint16_t)rq->w->number;
    r->push.round = c->round;
    r->push.pulls = c->before;
    r->request = rq->token;
    if (prefix) {
        r->flags |= LINK_HOST;
        memcpy(r + 1, rq->host.data + c->host, (size_t)prefix);
    }
}

/* A place in the chunks of a queue, as its `at` and `offset`. */
typedef struct cursor {
    int64_t at, offset;
} cursor;

static int64_t part_bytes(const request_item *c, int32_t part)
{
    return place_count(&c->place, part) * kv_dtype_bytes(c->dtype);
}

/* Moves behind the next bytes of the chunk, at most `most`; returns how many they are. */
static int64_t go_on(const request *rq, const request_item *c, cursor *x, int64_t most)
{
    int64_t left = part_bytes(c, rq->chunks[x->at].part) - x->offset;
    int64_t n = left < most ? left : most;
    x->offset += n;
    if (n == left)
        *x = (cursor){.at = x->at + 1};
    return n;
}

static int64_t record_bytes(const request_item *c, const cursor *x)
{
    return (x->offset ? 0 : c->host_bytes) + (int64_t)sizeof(link_packed);
}

/* The bytes of the next GPU-direct message of a queue; *records becomes those of its records. */
static int64_t measure(const send_queue *q, const request_item *c, int64_t *records)
{
    const request *rq = q->request;
    const chunk *first = &rq->chunks[q->at];
    cursor x = {q->at, q->offset};
    int64_t bytes = 0;
    *records = 0;
    while (x.at < q->end && rq->chunks[x.at].item == first->item && bytes < LINK_DIRECT_MOST &&
           *records < RECORDS) {
        *records += link_whole(record_bytes(c, &x));
        bytes += go_on(rq, c, &x, LINK_DIRECT_MOST - bytes);
    }
    return bytes;
}

/* Writes the record of the next bytes; returns where these end in the GPU-direct message. */
static int64_t put_record(const request *rq, const request_item *c, cursor *x, link_rec *r,
                          int64_t from)
{
    int32_t part = rq->chunks[x->at].part;
    cursor was = *x;
    int64_t bytes = record_bytes(c, x), n = go_on(rq, c, x, LINK_DIRECT_MOST - from);
    link_packed packed = {.bytes = n, .from = from};
    *r = (link_rec){.bytes = (uint32_t)bytes,
                    .flags = (uint8_t)(LINK_PACKED | (x->at > was.at ? LINK_LAST : 0)),
                    .part = c->place.first + part,
                    .push = {.offset = was.offset, .total = part_bytes(c, part)}};
    request_fill_push(rq, c, r, was.offset == 0);
    memcpy((char *)(r + 1) + bytes - sizeof packed, &packed, sizeof packed);
    return from + n;
}

/* The address of the next chunk of a queue. */
static const char *begin_of(const send_queue *q, const request_item *c)
{
    int32_t part = q->request->chunks[q->at].part;
    return c->block + place_from(&c->place, part) * kv_dtype_bytes(c->dtype) + q->offset;
}

/* MPI may read the memory as long as this process is there. */
void request_drop_direct(send_queue *q)
{
    if (q->direct)
        array_hold(q->request->items[q->request->chunks[q->at].item].source);
    q->direct = NULL;
}

/* MPI does not send it: the request ends with this error, and the queue sends nothing more. */
static net_step fail(send_queue *q, const kv_err *why)
{
    request_fail(q->request, &q->request->chunks[q->at], why);
    request_drop_direct(q);
    q->request->waiting = 0;
    q->at = q->end - 1;
    return NET_ENDED;
}

net_step request_direct_step(send_queue *q, request_item *c)
{
    kv_err e = {0};
    int64_t records, bytes = measure(q, c, &records);
    if (!q->direct) {
        q->direct = link_send_direct(q->item.peer, begin_of(q, c), bytes, &e);
        return e.code ? fail(q, &e) : NET_FULL;
    }
    bool left = link_direct_left(q->direct, &e);
    link_rec *r = left ? link_direct_reserve(q->direct, records) : NULL;
    if (e.code)
        return fail(q, &e);
    if (!r)
        return NET_FULL;
    cursor x = {q->at, q->offset};
    for (int64_t at = 0; at < bytes;) {
        net_count_sent(q->item.peer);
        at = put_record(q->request, c, &x, r, at);
        link_trace("to", q->item.peer, r);
        r = (link_rec *)(void *)((char *)r + link_whole(r->bytes));
    }
    link_direct_commit(q->direct);
    q->direct = NULL;
    kv_assert(x.at <= q->end && c->left >= x.at - q->at,
              "a message ends in chunk %lld, and the queue ends before %lld", (long long)x.at,
              (long long)q->end);
    bool ended = x.offset == 0; /* the caller counts the last chunk */
    c->left -= x.at - q->at - ended;
    q->at = x.at - ended;
    q->offset = x.offset;
    return ended ? NET_ENDED : NET_MORE;
}
