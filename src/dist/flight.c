/* Calls under way: what pushes, pulls and sums have in common, from their turn in the engine until
 * the other side has answered.
 *
 * A push reads its values when their turn has come and they are sent; each is free again then. It
 * ends when the servers have applied it. A pull writes its outs as the pieces come.
 *
 * Replies name a flight by a number, which is looked up: one that comes late finds nothing.
 */
#include "dist/flight.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "array/mirror.h"
#include "base/mem.h"
#include "dist/room.h"
#include "engine/trace.h"

enum { FLIGHT_LISTS = 4096 };

/* Those under way, by token. */
static struct {
    pthread_mutex_t lock;
    flight *lists[FLIGHT_LISTS];
    uint64_t next;
} air = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void enter(flight *f)
{
    pthread_mutex_lock(&air.lock);
    f->token = ++air.next;
    flight **list = &air.lists[f->token % FLIGHT_LISTS];
    f->next = *list;
    *list = f;
    pthread_mutex_unlock(&air.lock);
}

flight *flight_find(uint64_t token)
{
    pthread_mutex_lock(&air.lock);
    flight *f = air.lists[token % FLIGHT_LISTS];
    while (f && f->token != token)
        f = f->next;
    pthread_mutex_unlock(&air.lock);
    return f;
}

static void leave(const flight *f)
{
    pthread_mutex_lock(&air.lock);
    flight **at = &air.lists[f->token % FLIGHT_LISTS];
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    pthread_mutex_unlock(&air.lock);
}

/* ---- For a profile ---- */

static int new_trace(flight *f, kv_err *e)
{
    if (!trace_on())
        return KV_OK;
    trace_op *t = mem_alloc(1, sizeof *t, e);
    if (!t)
        return KV_E_MEMORY;
    *t = (trace_op){.number = trace_number(), .begun = trace_now()};
    f->op.trace = t;
    return KV_OK;
}

static void add_trace(const flight *f, trace_event ev)
{
    kv_key keys[TRACE_KEYS];
    ev.name = f->op.trace->name;
    ev.op = f->op.trace->number;
    for (int64_t i = 0; i < f->ncargo && i < TRACE_KEYS; i++)
        keys[i] = f->cargo[i].key;
    ev.keys = keys;
    ev.nkeys = f->ncargo;
    trace_add(&ev);
}

static void trace_end(const flight *f)
{
    const trace_op *t = f->op.trace;
    if (!t)
        return;
    if (t->scheduled) {
        add_trace(f, (trace_event){TRACE_WAIT, .begin = t->scheduled, .end = t->ready});
        add_trace(f, (trace_event){TRACE_QUEUE, .begin = t->ready, .end = f->begun});
    }
    add_trace(f, (trace_event){TRACE_TRAVEL, .begin = f->begun, .end = trace_now()});
}

/* ---- The end ---- */

void flight_give_source(cargo *c, kv_array *a)
{
    if (c->held)
        array_drop(c->source);
    else
        kv_array_unref(c->source);
    c->source = a;
    c->held = false;
}

void flight_free(flight *f)
{
    mem_free(f->op.trace);
    for (int64_t i = 0; i < f->ncargo; i++) {
        flight_give_source(&f->cargo[i], NULL);
        mem_free(f->cargo[i].blob);
        mem_free(f->cargo[i].starts);
        mem_free_data(f->cargo[i].room);
        kv_array_unref(f->cargo[i].moved);
        kv_array_unref(f->cargo[i].old);
    }
    for (int64_t i = 0; i < f->nouts; i++)
        array_drop(f->outs[i]);
    buf_release(&f->host);
    mem_free(f->cargo);
    mem_free(f->pieces);
    mem_free(f->lanes);
    mem_free(f->outs);
    mem_free(f->blocks);
    mem_free(f->staged);
    mem_free(f->uses);
    mem_free(f);
}

static void done(engine_op *op)
{
    flight_free((flight *)(void *)op);
}

static void mark_outs(flight *f, const cargo *c, bool unfilled)
{
    for (int64_t i = c->first; i < c->first + c->n; i++)
        f->outs[i]->unfilled = unfilled ? KV_E_PEER : 0;
}

/* What came has been its readers' since then. */
static void mark_missing(flight *f)
{
    for (int64_t i = 0; i < f->ncargo && f->nouts > 0; i++)
        if (f->cargo[i].left > 0)
            mark_outs(f, &f->cargo[i], true);
}

void flight_look_at_end(flight *f)
{
    if (f->waiting > 0 || __atomic_load_n(&f->nlanes, __ATOMIC_ACQUIRE) > 0)
        return;
    leave(f);
    trace_end(f);
    __atomic_sub_fetch(&f->w->pushing, f->bytes, __ATOMIC_ACQ_REL);
    kv_err e = f->error.code ? f->error : f->lacking;
    if (e.code)
        mark_missing(f);
    engine_complete(&f->op, &e);
}

/* ---- Sending ---- */

static void end_use(cargo *c)
{
    if (c->use)
        engine_end(c->use, 1);
    c->use = NULL;
}

static net_step step(net_item *i)
{
    lane *l = (lane *)(void *)i;
    flight *f = l->flight;
    const piece *p = &f->pieces[l->at];
    cargo *c = &f->cargo[p->cargo];
    net_step s = f->sums    ? reduce_step(l, c, p)
                 : f->pulls ? flight_pull_step(l, c, p)
                            : flight_push_step(l, c, p);
    if (s != NET_ENDED)
        return s;
    l->offset = 0;
    if (!f->pulls && !f->sums && --c->left == 0)
        end_use(c);
    return ++l->at < l->end ? NET_MORE : NET_ENDED;
}

static void lane_ended(net_item *i)
{
    lane *l = (lane *)(void *)i;
    flight *f = l->flight;
    flight_drop_parcel(l); /* a rank was lost */
    if (__atomic_sub_fetch(&f->nlanes, 1, __ATOMIC_ACQ_REL) == 0)
        flight_look_at_end(f);
}

/* A flight without lanes has no cargo, and is not started. Also when a rank is lost the lanes are
 * posted: the net drops them and then ends the flight, which must not happen here, where the engine
 * may be in the middle of another operation's end. */
static int post_lanes(engine_op *op, kv_err *e)
{
    flight *f = (flight *)(void *)op;
    net_item *list = NULL;
    (void)e;
    f->begun = f->op.trace ? trace_now() : 0;
    for (int i = server_count() - 1; i >= 0; i--) {
        lane *l = &f->lanes[i];
        if (l->at == l->end)
            continue;
        l->item.next = list;
        list = &l->item;
        f->nlanes++;
    }
    __atomic_store_n(&f->posted, true, __ATOMIC_RELEASE);
    net_post_list(list);
    return KV_OK;
}

static void count_bytes(flight *f, int64_t bytes)
{
    f->bytes += bytes;
    __atomic_add_fetch(&f->w->pushing, bytes, __ATOMIC_ACQ_REL);
}

void flight_wait_for_room(flight *f)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < f->ncargo && !f->pulls; i++)
        if (f->cargo[i].source->storage == KV_DEFAULT)
            bytes += f->cargo[i].place.size * kv_dtype_bytes(f->cargo[i].dtype);
    room_wait(f->w, bytes);
    count_bytes(f, bytes);
}

/* What is sent is brought to host memory, and coded, before or while it is. */
static int prepare_sources(flight *f, kv_err *e)
{
    int rc = flight_stage(f, e);
    for (int64_t i = 0; i < f->ncargo && !f->pulls && !rc; i++) {
        cargo *c = &f->cargo[i];
        bool whole = f->sums || c->source->storage == KV_ROW_SPARSE;
        if (whole && !c->staged)
            rc = mirror_host(c->source, MIRROR_READ, e);
        if (!rc)
            rc = flight_push_encode(f, c, e);
        count_bytes(f, c->blob_bytes);
    }
    return rc;
}

static net_step bringer_step(net_item *i)
{
    (void)i;
    return NET_ENDED;
}

/* Once the lanes are posted the flight ends no sooner than the bringer, which is posted last. */
static int post_and_bring(flight *f, kv_err *e)
{
    f->bringer = (lane){.item = {.step = bringer_step, .release = lane_ended, .peer = net_rank(),
                                 .priority = INT32_MAX},
                        .flight = f};
    f->nlanes = 1;
    post_lanes(&f->op, e);
    flight_bring(f);
    net_post(&f->bringer.item);
    return KV_OK;
}

/* The start of one whose values are coded first, or some of whose arrays are on a GPU. */
static int start_prepared(engine_op *op, kv_err *e)
{
    flight *f = (flight *)(void *)op;
    int rc = prepare_sources(f, e);
    if (!rc)
        rc = flight_expect_parcels(f, e);
    if (!rc)
        rc = flight_place_outs(f, e);
    if (!rc)
        return flight_expect_far(f) ? post_and_bring(f, e) : post_lanes(op, e);
    f->error = *e;
    f->waiting = 0;
    flight_look_at_end(f);
    return rc;
}

static bool is_coded(const flight *f)
{
    bool coded = f->codes.code;
    for (int64_t i = 0; i < f->ncargo && !f->pulls && !coded; i++)
        coded = f->cargo[i].source->storage == KV_ROW_SPARSE;
    return coded;
}

void flight_submit(flight *f, engine_group *g)
{
    kv_err e = {0};
    bool away = flight_has_gpus(f), prepared = away || is_coded(f);
    f->op.run = prepared ? start_prepared : post_lanes;
    f->op.done = done;
    f->op.group = g;
    f->op.uses = f->uses;
    f->op.later = true;
    f->op.quick = !prepared;
    f->op.priority = f->priority;
    enter(f);
    if (f->op.trace)
        f->op.trace->name = f->sums ? "pushpull" : f->pulls ? "pull" : "push";
    if (f->op.trace)
        add_trace(f, (trace_event){TRACE_ENQUEUE, .begin = f->op.trace->begun, .end = trace_now(),
                                   .later = true});
    /* nobody waits for a GPU who need not */
    if (!away && engine_try(&f->op))
        f->op.run(&f->op, &e);
    else
        engine_submit(&f->op);
    net_wake();
}

/* ---- Laying out ---- */

int flight_lay_out(flight *f, kv_err *e)
{
    int servers = server_count();
    int64_t n = 0;
    for (int64_t i = 0; i < f->ncargo; i++)
        n += f->cargo[i].place.nparts;
    f->pieces = mem_alloc(n, sizeof *f->pieces, e);
    f->lanes = mem_zalloc(servers, sizeof *f->lanes, e);
    if (!f->pieces || !f->lanes)
        return KV_E_MEMORY;
    f->waiting = n;
    for (int64_t i = 0; i < f->ncargo; i++)
        for (int32_t p = 0; p < f->cargo[i].place.nparts; p++)
            f->lanes[place_server(&f->cargo[i].place, p, servers)].end++;
    int64_t at = 0;
    for (int s = 0; s < servers; s++) {
        lane *l = &f->lanes[s];
        int64_t count = l->end;
        /* What a pull sends is small, and a server keeps it until there is something to answer. */
        *l = (lane){.item = {.step = step, .release = lane_ended, .peer = server_rank(s),
                             .priority = f->pulls ? INT32_MAX - 1 : f->priority},
                    .flight = f, .at = at, .end = at};
        at += count;
    }
    for (int64_t i = 0; i < f->ncargo; i++) {
        cargo *c = &f->cargo[i];
        c->left = c->place.nparts;
        for (int32_t p = 0; p < c->place.nparts; p++)
            f->pieces[f->lanes[place_server(&c->place, p, servers)].end++] = (piece){i, p};
    }
    return KV_OK;
}

/* ---- Grouping ---- */

static int by_order(const void *a, const void *b)
{
    const flight_pair *x = a, *y = b;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

int flight_sort(const worker *w, const int64_t *numbers, int64_t n, flight_pair **out, kv_err *e)
{
    bool sorted = true;
    flight_pair *r = mem_alloc(n, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        const kv_key *k = &w->store->slots.items[numbers[i]].key;
        r[i] = (flight_pair){k->name ? numbers[i] : k->id, i};
        sorted &= i == 0 || r[i - 1].order <= r[i].order;
    }
    if (!sorted)
        qsort(r, (size_t)n, sizeof *r, by_order);
    *out = r;
    return KV_OK;
}

int flight_new(flight **out, worker *w, const int64_t *numbers, const flight_pair *r, int64_t n,
               int64_t nuses, const kv_call *how, kv_err *e)
{
    flight *f = mem_zalloc(1, sizeof *f, e);
    if (!f)
        return KV_E_MEMORY;
    f->w = w;
    f->priority = how ? how->priority : 0;
    f->cargo = mem_zalloc(n, sizeof *f->cargo, e);
    f->uses = mem_zalloc(nuses, sizeof *f->uses, e);
    if (!f->cargo || !f->uses || new_trace(f, e)) {
        flight_free(f);
        return KV_E_MEMORY;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t number = numbers[r[i].i];
        cargo *c = f->ncargo ? &f->cargo[f->ncargo - 1] : NULL;
        if (!c || c->slot != number) {
            const slot *s = &w->store->slots.items[number];
            c = &f->cargo[f->ncargo++];
            *c = (cargo){.slot = number, .key = s->key, .place = w->keys[number].place,
                         .dtype = (kv_dtype)s->stored->dtype, .first = i,
                         .here = INT64_MAX};
        }
        c->n++;
    }
    *out = f;
    return KV_OK;
}

/* ---- Values ---- */

/* Whether a value can be sent as it is. */
static bool is_plain(const cargo *c, const kv_array *a)
{
    return c->n == 1 && (kv_dtype)a->dtype == c->dtype &&
           (a->storage == KV_DEFAULT || place_fits(&c->place, PLACE_BY_ROWS));
}

/* A key of the store of sums, if it is not there yet. */
static int new_sum(const worker *w, const cargo *c, const kv_array *value, kv_err *e)
{
    kv_array *like = NULL;
    if (slot_find(&w->sums->slots, &c->key, -1) >= 0)
        return KV_OK;
    int rc = kv_array_new(&like, c->dtype, value->ndim, value->shape, (kv_ctx){KV_CPU, 0}, e);
    if (!rc)
        rc = kv_init(w->sums, &c->key, 1, &like, NULL, e);
    kv_array_unref(like);
    return rc;
}

/* The sums of the keys that have several values, or one of another dtype. */
int flight_sum_values(flight *f, const kv_key *keys, const flight_pair *r, kv_array *const *values,
                      kv_err *e)
{
    worker *w = f->w;
    int64_t n = 0, all = 0;
    for (int64_t i = 0; i < f->ncargo; i++)
        all += f->cargo[i].n;
    kv_key *some = mem_alloc(all, sizeof *some, e);
    kv_array **list = mem_alloc(all, sizeof *list, e);
    int rc = some && list ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < f->ncargo && !rc; i++) {
        cargo *c = &f->cargo[i];
        if (is_plain(c, values[r[c->first].i])) {
            c->source = values[r[c->first].i];
            array_hold(c->source);
            c->held = true;
            continue;
        }
        rc = new_sum(w, c, values[r[c->first].i], e);
        for (int64_t j = 0; j < c->n; j++) {
            some[n] = keys[r[c->first + j].i];
            list[n++] = values[r[c->first + j].i];
        }
    }
    if (!rc && n)
        rc = kv_push(w->sums, some, n, list, NULL, e);
    for (int64_t i = 0; i < f->ncargo && !rc; i++) {
        cargo *c = &f->cargo[i];
        if (c->source)
            continue;
        int64_t at = slot_find(&w->sums->slots, &c->key, -1);
        kv_array *sum = w->sums->slots.items[at].stored;
        if (sum->storage == KV_ROW_SPARSE && !place_fits(&c->place, PLACE_BY_ROWS))
            rc = kv_array_to_dense(&c->source, sum, e);
        else
            c->source = kv_array_ref(sum);
    }
    mem_free(some);
    mem_free(list);
    return rc;
}

/* ---- Receiving ---- */

/* An array that several pairs write holds the last of them. */
void flight_value_here(const flight *f, const piece *p, int64_t offset, const void *data,
                       int64_t bytes)
{
    const cargo *c = &f->cargo[p->cargo];
    int64_t each = kv_dtype_bytes(c->dtype);
    int64_t from = place_from(&c->place, p->part) + offset / each, n = bytes / each;
    for (int64_t i = c->first; i < c->first + c->n; i++) {
        kv_array *out = f->outs[i];
        char *to = (char *)out->data + from * kv_dtype_bytes((kv_dtype)out->dtype);
        if (f->blocks && f->blocks[i])
            continue;
        if ((kv_dtype)out->dtype != c->dtype)
            out->dev->convert(to, (kv_dtype)out->dtype, data, c->dtype, n);
        else if (to != data)
            memcpy(to, data, (size_t)bytes);
    }
}

void flight_value(flight *f, const piece *p, int64_t offset, const void *data, int64_t bytes)
{
    kv_err e = {0};
    const cargo *c = &f->cargo[p->cargo];
    int64_t from = place_from(&c->place, p->part) * kv_dtype_bytes(c->dtype);
    flight_value_here(f, p, offset, data, bytes);
    if (flight_write_outs(f, c, from + offset, data, bytes, &e))
        flight_fail(f, p, &e);
}

void flight_fail(flight *f, const piece *p, const kv_err *why)
{
    cargo *c = &f->cargo[p->cargo];
    c->failed = true;
    if (f->error.code)
        return;
    f->error = *why;
    kv_err_key(&f->error, &c->key);
}

void flight_piece_ended(flight *f, const piece *p)
{
    cargo *c = &f->cargo[p->cargo];
    f->waiting--;
    if (--c->left > 0)
        return;
    mark_outs(f, c, c->failed);
    engine_end(&f->uses[c->first], c->n);
    end_use(c);
}

void flight_take(void *self, int rank, const link_rec *r)
{
    flight *f = flight_find(r->request);
    (void)self;
    (void)rank;
    if (!f)
        return;
    if (r->kind == LINK_VALUE) {
        const piece *p = &f->pieces[r->value.chunk];
        if (r->flags & LINK_CODES)
            flight_pull_codes(f, p, r);
        else
            flight_value(f, p, r->value.offset, r + 1, r->bytes);
        if (r->flags & LINK_LAST)
            flight_piece_ended(f, p);
    } else if (r->kind == LINK_DONE) {
        f->waiting -= r->done.pushes;
    } else if (r->kind == LINK_FAILED) {
        if (!f->error.code)
            memcpy(&f->error, r + 1, sizeof f->error);
        if (f->ncargo == 1)
            kv_err_key(&f->error, &f->cargo[0].key);
        f->waiting--;
    }
    flight_look_at_end(f);
}

/* One whose turn has not come sees by itself that a rank is lost, and lanes that are being sent are
 * dropped first. */
static flight *find_posted(flight *f)
{
    while (f && (!__atomic_load_n(&f->posted, __ATOMIC_ACQUIRE) ||
                 __atomic_load_n(&f->nlanes, __ATOMIC_ACQUIRE) > 0))
        f = f->next;
    return f;
}

void flight_lost(void *self, const kv_err *why)
{
    (void)self;
    for (int i = 0; i < FLIGHT_LISTS;) {
        pthread_mutex_lock(&air.lock);
        flight *f = find_posted(air.lists[i]);
        pthread_mutex_unlock(&air.lock);
        if (!f) {
            i++;
            continue;
        }
        f->error = f->error.code ? f->error : *why;
        f->waiting = 0;
        flight_look_at_end(f);
    }
}
