/* Looks: `kvctl attach` reads the store of a job while the script goes on, the rounds of its keys
 * and their elements between two rounds.
 *
 * A look is no pull. The server answers it at once, in the order in which it comes, whatever rounds
 * are open; it counts for no worker, so that no push waits for it, and it waits for no push. So it
 * costs a round the time in which the server copies the elements, and nothing else: not a bit of a
 * result depends on it. A key of several parts may be in two rounds while it is looked at; then the
 * parts are looked at again, and at the end the rounds of the oldest and of the newest are told.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "distributed/server_state.h"
#include "distributed/worker.h"

/* ---- Rounds ---- */

static uint64_t bit(int rank)
{
    return rank < 64 ? 1ull << rank : 0;
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
    part *p = parts_find(s, r->args.look);
    own_array *dense = NULL;
    const void *data;
    buf reply = {0};
    if (!p || !p->keeps) {
        kv_err_set(&e, KV_E_KEY, "there is no such key on server %d", link_rank());
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
}

/* ---- The worker's side ----
 *
 * Nothing here reads what the script's thread changes: the coordinator is asked which keys there
 * are and where they live, so that a look is answered while a call of the script waits for other
 * ranks. */

/* ---- Rounds ---- */

/* The rounds of one key on all servers. Texts belong to the replies. */
typedef struct key_rounds {
    kv_key key;
    ask_round x;
} key_rounds;

typedef struct rounds_list {
    key_rounds *items;
    int64_t n, cap;
    map index;
} rounds_list;

static int add_round(rounds_list *list, const ask_round *x, const kv_key *key, kv_err *e)
{
    int64_t i = map_get(&list->index, *key);
    if (i < 0) {
        TRY(mem_grow(&list->items, &list->cap, list->n + 1, sizeof *list->items, e));
        TRY(map_put(&list->index, *key, list->n, e));
        list->items[list->n++] = (key_rounds){*key, *x};
        return KV_OK;
    }
    ask_round *all = &list->items[i].x;
    int64_t least = x->round < all->round ? x->round : all->round;
    int64_t foremost = all->round + all->ahead > x->round + x->ahead ? all->round + all->ahead
                                                                     : x->round + x->ahead;
    all->first = x->first < all->first ? x->first : all->first;
    all->newest = x->newest > all->newest ? x->newest : all->newest;
    all->pushed |= x->pushed;
    all->missing |= x->missing;
    all->round = least;
    all->ahead = foremost - least;
    return KV_OK;
}

static int add_rounds(rounds_list *list, const void *reply, int64_t bytes, kv_err *e)
{
    const char *at = reply, *end = at + bytes;
    while (at < end) {
        ask_round x;
        kv_key key;
        if (end - at < (int64_t)sizeof x)
            return ask_malformed(e);
        memcpy(&x, at, sizeof x);
        at += sizeof x;
        TRY(ask_get_key(&at, end, &key) ? add_round(list, &x, &key, e) : ask_malformed(e));
    }
    return KV_OK;
}

static int by_first(const void *a, const void *b)
{
    int64_t x = ((const key_rounds *)a)->x.first, y = ((const key_rounds *)b)->x.first;
    return (x > y) - (x < y);
}

int look_visit_rounds(void *self, kv_visitor visit, void *arg, kv_err *e)
{
    const worker *w = self;
    int servers = w->how.servers, rc = KV_OK;
    rounds_list list = {0};
    own_mem net_call *calls = mem_alloc(servers, sizeof *calls, e);
    void **replies = mem_zalloc(servers, sizeof *replies, e);
    own_mem int64_t *bytes = mem_zalloc(servers, sizeof *bytes, e);
    if (!calls || !replies || !bytes)
        rc = KV_E_MEMORY;
    for (int i = 0; i < servers && !rc; i++)
        calls[i] = worker_call(w, i, ASK_ROUNDS);
    if (!rc)
        rc = net_calls_wait(calls, servers, replies, bytes, e);
    for (int i = 0; i < servers && !rc; i++)
        rc = add_rounds(&list, replies[i], bytes[i], e);
    if (!rc && list.n > 0)
        qsort(list.items, (size_t)list.n, sizeof *list.items, by_first);
    for (int64_t i = 0; i < list.n && !rc; i++) {
        char pushed[200], missing[200];
        const key_rounds *r = &list.items[i];
        ask_print_workers(pushed, sizeof pushed, r->x.pushed);
        ask_print_workers(missing, sizeof missing, r->x.missing);
        const kv_field f[] = {{"key", r->key.name, r->key.id}, {"round", NULL, r->x.round},
                              {"newest", NULL, r->x.newest},   {"ahead", NULL, r->x.ahead},
                              {"pushed", pushed, 0},           {"missing", missing, 0}};
        rc = visit(arg, f, sizeof f / sizeof *f, e);
    }
    for (int i = 0; replies && i < servers; i++)
        mem_free(replies[i]);
    map_release(&list.index);
    mem_free(list.items);
    mem_free(replies);
    return rc;
}

/* ---- Elements ---- */

enum { TOGETHER = 8 /* parts, of a megabyte or less each, that are on their way at a time */,
       TRIES = 5 };

/* Asks the coordinator for a key that holds its values. */
static int find_key(const worker *w, const kv_key *key, ask_key *out, kv_err *e)
{
    own_mem void *reply = NULL;
    int64_t bytes = 0;
    own_buf b = {0};
    ask_put_key(&b, &(ask_key){.id = key->id}, key->name);
    TRY(buf_check(&b, e));
    TRY(worker_ask(w, ASK_KEYS, (link_args){0}, &b, &reply, &bytes, e));
    const char *at = reply, *end = at ? at + bytes : NULL;
    kv_key one;
    const ask_key *k = at < end ? ask_get_key(&at, end, &one) : NULL;
    if (bytes == 0) {
        char text[SLOT_KEY_TEXT];
        kv_err_set(e, KV_E_KEY, "there is no key %s", slot_key_text(text, key));
        return kv_err_key(e, key), KV_E_KEY;
    }
    if (!k || !place_is_valid(&k->place, k->storage, k->ndim, k->shape, w->how.servers))
        return ask_malformed(e);
    *out = *k;
    return KV_OK;
}

/* The parts from `from` on, n of them, into their places in an array. */
static int look_at_parts(const worker *w, const ask_key *k, int32_t from, int n, char *to,
                         int64_t rounds[2], kv_err *e)
{
    net_call calls[TOGETHER];
    void *replies[TOGETHER] = {0};
    int64_t bytes[TOGETHER] = {0}, each = kv_dtype_bytes((kv_dtype)k->dtype);
    for (int i = 0; i < n; i++) {
        calls[i] = worker_call(w, place_server(&k->place, from + i, w->how.servers), ASK_LOOK);
        calls[i].args.look = k->place.first + from + i;
    }
    int rc = net_calls_wait(calls, n, replies, bytes, e);
    for (int i = 0; i < n && !rc; i++) {
        ask_look head;
        int64_t size = place_count(&k->place, from + i) * each;
        if (bytes[i] != (int64_t)sizeof head + size) {
            rc = ask_malformed(e);
            break;
        }
        memcpy(&head, replies[i], sizeof head);
        memcpy(to + place_from(&k->place, from + i) * each, (char *)replies[i] + sizeof head,
               (size_t)size);
        rounds[0] = head.round < rounds[0] ? head.round : rounds[0];
        rounds[1] = head.round > rounds[1] ? head.round : rounds[1];
    }
    for (int i = 0; i < n; i++)
        mem_free(replies[i]);
    return rc;
}

int look_value(void *self, const kv_key *key, kv_array **out, int64_t rounds[2], kv_err *e)
{
    const worker *w = self;
    ask_key k;
    own_array *made = NULL;
    void *to;
    TRY(find_key(w, key, &k, e));
    TRY(kv_array_new_raw(&made, (kv_dtype)k.dtype, k.ndim, k.shape, (kv_ctx){KV_CPU, 0}, e));
    TRY(kv_array_write(made, &to, e));
    for (int tries = 0; tries < TRIES; tries++) {
        rounds[0] = INT64_MAX;
        rounds[1] = 0;
        for (int32_t i = 0; i < k.place.nparts; i += TOGETHER) {
            int n = k.place.nparts - i < TOGETHER ? k.place.nparts - i : TOGETHER;
            TRY(look_at_parts(w, &k, i, n, to, rounds, e));
        }
        if (rounds[0] == rounds[1])
            break;
    }
    *out = made;
    made = NULL;
    return KV_OK;
}
