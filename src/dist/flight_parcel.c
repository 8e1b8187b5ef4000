/* Pushes of what lies on GPUs, to servers of other machines, where MPI reads it there: parts that
 * lie one behind the other go as one parcel, and then the records of all.
 */
#include <string.h>

#include "array/mirror.h"
#include "base/mem.h"
#include "dist/flight.h"

enum { RECORDS = LINK_PAYLOAD / 2 /* bytes, about, of the records of one */ };

bool flight_is_packed(const cargo *c, int32_t part)
{
    return c->block &&
           link_takes_parcels(server_rank(place_server(&c->place, part, server_count())));
}

/* Its elements leave the GPU for those that need them in host memory. */
static int make_room(cargo *c, kv_err *e)
{
    bool all = true;
    for (int32_t i = 0; i < c->place.nparts; i++)
        all &= flight_is_packed(c, i);
    if (all)
        return KV_OK;
    c->room = mem_alloc_data(c->place.size * kv_dtype_bytes(c->dtype), e);
    return c->room ? KV_OK : KV_E_MEMORY;
}

static bool is_taken_there(const flight *f, const cargo *c)
{
    bool some = false;
    if (f->pulls || f->sums || c->staged || c->blob || !mirror_is_there(c->source))
        return false;
    for (int i = 0; i < server_count() && !some; i++)
        some = link_takes_parcels(server_rank(i));
    return some;
}

int flight_expect_parcels(flight *f, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < f->ncargo && !rc; i++) {
        cargo *c = &f->cargo[i];
        void *block;
        if (!is_taken_there(f, c))
            continue;
        const gpu_ops *gpu = gpu_find(e);
        rc = gpu ? mirror_device(c->source, MIRROR_READ, &block, e) : KV_E_UNSUPPORTED;
        if (!rc)
            rc = gpu->wait(mirror_gpu(c->source), e);
        if (rc)
            break;
        c->block = block;
        rc = make_room(c, e);
    }
    return rc;
}

/* ---- Sending ---- */

/* Where one is among the pieces of a lane: as `at` and `offset` of that. */
typedef struct cursor {
    int64_t at, offset;
} cursor;

static int64_t part_bytes(const cargo *c, int32_t part)
{
    return place_count(&c->place, part) * kv_dtype_bytes(c->dtype);
}

/* How many bytes of the piece there come next, if there is room for so many. */
static int64_t go_on(const flight *f, const cargo *c, cursor *x, int64_t room)
{
    int64_t left = part_bytes(c, f->pieces[x->at].part) - x->offset;
    int64_t n = left < room ? left : room;
    x->offset += n;
    if (n == left)
        *x = (cursor){.at = x->at + 1};
    return n;
}

static int64_t record_bytes(const cargo *c, const cursor *x)
{
    return (x->offset ? 0 : c->host_bytes) + (int64_t)sizeof(link_packed);
}

/* What the next parcel of a lane holds, and how long its records are. */
static int64_t measure(const lane *l, const cargo *c, int64_t *records)
{
    const flight *f = l->flight;
    const piece *first = &f->pieces[l->at];
    cursor x = {l->at, l->offset};
    int64_t bytes = 0;
    *records = 0;
    while (x.at < l->end && f->pieces[x.at].cargo == first->cargo && bytes < LINK_PARCEL &&
           *records < RECORDS) {
        *records += link_whole(record_bytes(c, &x));
        bytes += go_on(f, c, &x, LINK_PARCEL - bytes);
    }
    return bytes;
}

/* The record of what comes next; returns where that ends in the parcel. */
static int64_t put_record(const flight *f, const cargo *c, cursor *x, link_rec *r, int64_t from)
{
    int32_t part = f->pieces[x->at].part;
    cursor was = *x;
    int64_t bytes = record_bytes(c, x), n = go_on(f, c, x, LINK_PARCEL - from);
    link_packed packed = {.bytes = n, .from = from};
    *r = (link_rec){.bytes = (uint32_t)bytes,
                    .flags = (uint8_t)(LINK_PACKED | (x->at > was.at ? LINK_LAST : 0)),
                    .part = c->place.first + part,
                    .push = {.offset = was.offset, .total = part_bytes(c, part)}};
    flight_fill_push(f, c, r, was.offset == 0);
    memcpy((char *)(r + 1) + bytes - sizeof packed, &packed, sizeof packed);
    return from + n;
}

/* Where the piece of a lane begins that is next, as an address. */
static const char *begin_of(const lane *l, const cargo *c)
{
    int32_t part = l->flight->pieces[l->at].part;
    return c->block + place_from(&c->place, part) * kv_dtype_bytes(c->dtype) + l->offset;
}

/* MPI may read the memory as long as this process is there. */
void flight_drop_parcel(lane *l)
{
    if (l->parcel)
        array_hold(l->flight->cargo[l->flight->pieces[l->at].cargo].source);
    l->parcel = NULL;
}

/* MPI does not send it: the flight ends with that, and nothing more goes through this lane. */
static net_step fail(lane *l, const kv_err *why)
{
    flight_fail(l->flight, &l->flight->pieces[l->at], why);
    flight_drop_parcel(l);
    l->flight->waiting = 0;
    l->at = l->end - 1;
    return NET_ENDED;
}

net_step flight_parcel_step(lane *l, cargo *c)
{
    kv_err e = {0};
    int64_t records, bytes = measure(l, c, &records);
    if (!l->parcel) {
        l->parcel = link_send_parcel(l->item.peer, begin_of(l, c), bytes, &e);
        return e.code ? fail(l, &e) : NET_FULL;
    }
    bool left = link_parcel_left(l->parcel, &e);
    link_rec *r = left ? link_parcel_room(l->parcel, records) : NULL;
    if (e.code)
        return fail(l, &e);
    if (!r)
        return NET_FULL;
    cursor x = {l->at, l->offset};
    for (int64_t at = 0; at < bytes;) {
        at = put_record(l->flight, c, &x, r, at);
        link_trace("to", l->item.peer, r);
        r = (link_rec *)(void *)((char *)r + link_whole(r->bytes));
    }
    link_commit_parcel(l->parcel);
    l->parcel = NULL;
    bool ended = x.offset == 0; /* who called counts the last piece */
    c->left -= x.at - l->at - ended;
    l->at = x.at - ended;
    l->offset = x.offset;
    return ended ? NET_ENDED : NET_MORE;
}
