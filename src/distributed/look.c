/* The server's side of looks: the rounds and the elements of its parts. */
#include "distributed/look.h"

#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "core/store.h"
#include "distributed/parts.h"

/* ---- Rounds ---- */

static uint64_t bit(int worker)
{
    return worker < 64 ? 1ull << worker : 0;
}

/* Adds the rounds of a part to those of its key, where all workers make a round together. */
static void add_sync(const server_state *s, const part *p, ask_round *x)
{
    const round *next = p->rounds;
    for (const round *r = next; r; r = r->next) {
        int64_t ahead = p->begun + r->number - x->round;
        x->ahead = r->have > 0 && ahead > x->ahead ? ahead : x->ahead;
    }
    if (!next || next->number != p->applied + 1 || next->have == 0)
        return;
    for (int i = 0; i < s->how.workers; i++) {
        x->pushed |= next->by[i].complete ? bit(i) : 0;
        x->missing |= server_lacks(s, next, i) ? bit(i) : 0;
    }
}

/* The same for dist_async, where each worker's push is a round. */
static void add_async(const server_state *s, const part *p, ask_round *x)
{
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < s->how.workers; i++) {
        int64_t n = p->workers[i].applied;
        most = n > most ? n : most;
        if (!s->workers[i].done)
            least = n < least ? n : least;
    }
    if (least >= most)
        return;
    x->ahead = most - least > x->ahead ? most - least : x->ahead;
    for (int i = 0; i < s->how.workers; i++) {
        x->pushed |= p->workers[i].applied == most ? bit(i) : 0;
        x->missing |= !s->workers[i].done && p->workers[i].applied == least ? bit(i) : 0;
    }
}

/* Appends the key to which the parts `from` to `to` - 1 belong, as far as this server has them. */
static void put_round(const server_state *s, buf *out, int64_t from, int64_t to)
{
    const part *first = s->parts[from];
    ask_round x = {.first = from, .round = INT64_MAX};
    ask_key key = {.id = first->key.id, .dtype = (uint8_t)first->dtype};
    for (int64_t i = from; i < to; i++) {
        int64_t at = s->parts[i] ? part_round(s->parts[i]) : x.round;
        x.round = at < x.round ? at : x.round;
        x.newest = at > x.newest ? at : x.newest;
    }
    for (int64_t i = from; i < to; i++) {
        if (s->parts[i] && s->how.is_async)
            add_async(s, s->parts[i], &x);
        else if (s->parts[i])
            add_sync(s, s->parts[i], &x);
    }
    buf_put(out, (const char *)&x, sizeof x);
    ask_put_key(out, &key, first->key.name);
}

/* Parts of a key have numbers that follow on each other; those of other servers are gaps. */
void look_rounds(const server_state *s, int rank, const link_rec *r)
{
    buf reply = {0};
    for (int64_t i = 0, last; i < s->nparts; i = last + 1) {
        const part *first = s->parts[i], *p;
        last = i;
        if (!first || !first->keeps)
            continue;
        for (int64_t k = i + 1; k < s->nparts; k++) {
            if (!(p = s->parts[k]))
                continue;
            if (!p->keeps || !map_same_key(&p->key, &first->key))
                break;
            last = k;
        }
        put_round(s, &reply, i, last + 1);
    }
    server_reply_buf(rank, r->request, &reply, &(kv_err){0});
}

/* ---- Elements ---- */

void look_at_part(const server_state *s, int rank, const link_rec *r)
{
    kv_err e = {0};
    part *p = parts_find(s, r->call.args.look);
    kv_array *dense = NULL;
    const void *data;
    buf reply = {0};
    if (!p || !p->keeps) {
        kv_err_set(&e, KV_E_KEY, "there is no such key on server %d", net_rank());
        server_refuse(rank, r->request, &e);
        return;
    }
    kv_array *a = server_stored(s, p);
    int rc = a->storage == KV_ROW_SPARSE ? kv_array_to_dense(&dense, a, &e) : KV_OK;
    if (!rc && kv_array_read(dense ? dense : a, &data, &e) == KV_OK) {
        ask_look head = {.round = part_round(p)};
        buf_put(&reply, (const char *)&head, sizeof head);
        buf_put(&reply, data, (size_t)p->bytes);
    }
    server_reply_buf(rank, r->request, &reply, &e);
    kv_array_unref(dense);
}
