/* Pushes and pulls under way: operations of the engine that end when the other side has answered.
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
#include "base/mem.h"
#include "core/apply.h"
#include "core/call.h"
#include "dist/owed.h"
#include "dist/room.h"
#include "engine/trace.h"

enum { FLIGHT_LISTS = 4096, CODES_AT_ONCE = 1 << 19, PULLED_TOGETHER = 1 << 20 };

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

void flight_free(flight *f)
{
    mem_free(f->op.trace);
    for (int64_t i = 0; i < f->ncargo; i++) {
        if (f->cargo[i].held)
            array_drop(f->cargo[i].source);
        else
            kv_array_unref(f->cargo[i].source);
        mem_free(f->cargo[i].blob);
        mem_free(f->cargo[i].starts);
    }
    for (int64_t i = 0; i < f->nouts; i++)
        array_drop(f->outs[i]);
    buf_release(&f->host);
    mem_free(f->cargo);
    mem_free(f->pieces);
    mem_free(f->lanes);
    mem_free(f->outs);
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
        f->outs[i]->unfilled = unfilled;
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
    kv_err e = f->error;
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

/* A piece of a push of plain elements or rows: its bytes, and how many a part has in all. */
static const char *data_of(const cargo *c, int32_t part, int64_t *total)
{
    if (c->blob) {
        *total = c->starts[part + 1] - c->starts[part];
        return c->blob + c->starts[part];
    }
    int64_t each = kv_dtype_bytes(c->dtype);
    *total = place_count(&c->place, part) * each;
    return (const char *)c->source->data + place_from(&c->place, part) * each;
}

static link_rec *fill_push(const flight *f, const cargo *c, link_rec *r, int64_t prefix)
{
    r->kind = NET_PUSH;
    r->store = (uint16_t)f->w->number;
    r->round = c->round;
    r->before = c->before;
    r->request = f->token;
    if (prefix) {
        r->flags |= PUSH_HOST;
        memcpy(r + 1, f->host.data + c->host, (size_t)prefix);
    }
    return r;
}

static net_step send_elements(lane *l, cargo *c, int32_t part)
{
    flight *f = l->flight;
    int64_t total, prefix = l->offset ? 0 : c->host_bytes;
    const char *data = data_of(c, part, &total);
    int64_t left = total - l->offset, n = left < LINK_PAYLOAD ? left : LINK_PAYLOAD;
    link_rec *r = net_room(l->item.peer, prefix + n);
    if (!r)
        return NET_FULL;
    *r = (link_rec){.bytes = (uint32_t)(prefix + n),
                    .flags = (uint8_t)((n == left ? NET_LAST : 0) | (c->blob ? PUSH_SPARSE : 0)),
                    .part = c->place.first + part,
                    .offset = l->offset,
                    .total = total};
    fill_push(f, c, r, prefix);
    if (n)
        memcpy((char *)(r + 1) + prefix, data + l->offset, (size_t)n);
    l->offset += n;
    net_commit(l->item.peer);
    return n == left ? NET_ENDED : NET_MORE;
}

static net_step send_codes(lane *l, cargo *c, int32_t part)
{
    flight *f = l->flight;
    dev_code code = (dev_code)f->codes.code;
    int64_t count = place_count(&c->place, part), left = count - l->offset;
    int64_t n = left < CODES_AT_ONCE ? left : CODES_AT_ONCE, bytes = dev_code_bytes(code, n);
    int64_t prefix = l->offset ? 0 : c->host_bytes;
    int64_t from = place_from(&c->place, part) + l->offset;
    link_rec *r = net_room(l->item.peer, prefix + (int64_t)sizeof f->codes + bytes);
    if (!r)
        return NET_FULL;
    *r = (link_rec){.bytes = (uint32_t)(prefix + (int64_t)sizeof f->codes + bytes),
                    .flags = (uint8_t)((n == left ? NET_LAST : 0) | PUSH_CODES),
                    .part = c->place.first + part,
                    .offset = l->offset};
    fill_push(f, c, r, prefix);
    char *to = (char *)(r + 1) + prefix;
    push_codes how = f->codes;
    if (how.back && c->anew)
        how.back = BACK_ANEW;
    memcpy(to, &how, sizeof how);
    memcpy(to + sizeof f->codes, c->blob + from / 8 * (int64_t)code, (size_t)bytes);
    l->offset += n;
    net_commit(l->item.peer);
    return n == left ? NET_ENDED : NET_MORE;
}

static net_step send_pull(const lane *l, const cargo *c, const piece *p)
{
    const flight *f = l->flight;
    link_rec *r = net_room(l->item.peer, 0);
    if (!r)
        return NET_FULL;
    *r = (link_rec){.kind = NET_PULL,
                    .store = (uint16_t)f->w->number,
                    .part = c->place.first + p->part,
                    .round = c->round,
                    .offset = f->priority,
                    .request = f->token,
                    .total = p - f->pieces};
    net_commit(l->item.peer);
    return NET_ENDED;
}

static net_step step(net_item *i)
{
    lane *l = (lane *)(void *)i;
    flight *f = l->flight;
    const piece *p = &f->pieces[l->at];
    cargo *c = &f->cargo[p->cargo];
    net_step s = f->sums         ? reduce_step(l, c, p)
                 : f->pulls      ? send_pull(l, c, p)
                 : f->codes.code ? send_codes(l, c, p->part)
                                  : send_elements(l, c, p->part);
    if (s != NET_ENDED)
        return s;
    l->offset = 0;
    if (!f->pulls && !f->sums && --c->left == 0)
        end_use(c);
    return ++l->at < l->end ? NET_MORE : NET_ENDED;
}

static void lane_ended(net_item *i)
{
    flight *f = ((lane *)(void *)i)->flight;
    if (__atomic_sub_fetch(&f->nlanes, 1, __ATOMIC_ACQ_REL) == 0)
        flight_look_at_end(f);
}

/* A part of which no row is pushed is told so: a round waits for it. */
static int encode_rows(cargo *c, kv_err *e)
{
    const place *p = &c->place;
    buf rows = {0};
    c->starts = mem_zalloc(p->nparts + 1, sizeof *c->starts, e);
    if (!c->starts)
        return KV_E_MEMORY;
    for (int32_t i = 0; i < p->nparts; i++) {
        ask_put_rows(&rows, c->source, place_first_row(p, i), place_first_row(p, i + 1));
        c->starts[i + 1] = (int64_t)rows.len;
    }
    c->blob = rows.data;
    c->blob_bytes = (int64_t)rows.len;
    return buf_check(&rows, e);
}

/* Codes and rows are made when the values' turn has come. */
static int encode(flight *f, cargo *c, kv_err *e)
{
    enum { WORD = 4 };
    dev_code code = (dev_code)f->codes.code;
    if (code) {
        c->blob_bytes = dev_code_bytes(code, c->place.size);
        /* a part may begin within a word: then its last word ends behind that of the key */
        c->blob = mem_alloc(c->blob_bytes + WORD, 1, e);
        if (!c->blob)
            return KV_E_MEMORY;
        memset(c->blob + c->blob_bytes, 0, WORD);
        cpu_dev_ops.quantise(c->blob, c->residual->data, c->source->data, code, f->codes.threshold,
                             c->place.size);
        return KV_OK;
    }
    if (c->source->storage != KV_ROW_SPARSE)
        return KV_OK;
    return encode_rows(c, e);
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

/* The start of one whose values are coded first. */
static int start_coded(engine_op *op, kv_err *e)
{
    flight *f = (flight *)(void *)op;
    int rc = KV_OK;
    for (int64_t i = 0; i < f->ncargo && !rc; i++) {
        rc = encode(f, &f->cargo[i], e);
        count_bytes(f, f->cargo[i].blob_bytes);
    }
    if (!rc)
        return post_lanes(op, e);
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
    bool coded = is_coded(f);
    f->op.run = coded ? start_coded : post_lanes;
    f->op.done = done;
    f->op.group = g;
    f->op.uses = f->uses;
    f->op.later = true;
    f->op.quick = !coded;
    f->op.priority = f->priority;
    enter(f);
    if (f->op.trace)
        f->op.trace->name = f->sums ? "pushpull" : f->pulls ? "pull" : "push";
    if (f->op.trace)
        add_trace(f, (trace_event){TRACE_ENQUEUE, .begin = f->op.trace->begun, .end = trace_now(),
                                   .later = true});
    if (engine_try(&f->op))
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
                         .dtype = (kv_dtype)s->stored->dtype, .first = i};
        }
        c->n++;
    }
    *out = f;
    return KV_OK;
}

/* ---- push ---- */

static int check_value(const worker *w, int64_t number, const kv_array *a, kv_err *e)
{
    const slot *s = &w->store->slots.items[number];
    int rc = call_check_shape(s, a, "value", e);
    if (!rc && w->store->compression.code)
        rc = compression_check(&s->key, a, e);
    return rc;
}

/* Whether a value can be sent as it is. */
static bool is_plain(const cargo *c, const kv_array *a)
{
    return c->n == 1 && (kv_dtype)a->dtype == c->dtype &&
           (a->storage == KV_DEFAULT || place_fits(&c->place, PLACE_BY_ROWS));
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
        if (slot_find(&w->sums->slots, &c->key, -1) < 0) {
            kv_array *like;
            rc = kv_array_new(&like, c->dtype, values[r[c->first].i]->ndim,
                              values[r[c->first].i]->shape, (kv_ctx){KV_CPU, 0}, e);
            if (!rc)
                rc = kv_init(w->sums, &c->key, 1, &like, NULL, e);
            if (!rc)
                kv_array_unref(like);
        }
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

/* The host side of every update: the servers make it of what this rank says. */
static int run_host(flight *f, optimizer_draft *d, optimizer_step *steps, kv_err *e)
{
    optimizer *o = f->w->store->updater.optimizer;
    int rc = KV_OK;
    for (int64_t i = 0; i < f->ncargo && !rc; i++) {
        cargo *c = &f->cargo[i];
        rule_given given;
        host numbers[PLAN_MAX_STATES] = {{0}};
        const slot *s = &f->w->store->slots.items[c->slot];
        int64_t n = o->nstates;
        rc = optimizer_follow(o, d, s, c->source->storage == KV_ROW_SPARSE, &steps[i], &given,
                              numbers, e);
        if (rc)
            break;
        c->host = (int64_t)f->host.len;
        buf_put(&f->host, (const char *)&given, sizeof given);
        buf_put(&f->host, (const char *)&n, sizeof n);
        buf_put(&f->host, (const char *)numbers, (size_t)n * sizeof *numbers);
        c->host_bytes = (int64_t)f->host.len - c->host;
    }
    return rc ? rc : buf_check(&f->host, e);
}

/* Residuals of the keys that have none yet. */
static int find_residuals(flight *f, kv_err *e)
{
    worker *w = f->w;
    int rc = KV_OK;
    const compression *how = &w->store->compression;
    f->codes = (push_codes){(int16_t)how->code, how->pull ? BACK_CODES : BACK_NUMBERS,
                            how->threshold};
    for (int64_t i = 0; i < f->ncargo && f->codes.code && !rc; i++) {
        cargo *c = &f->cargo[i];
        rc = owed_find(&w->store->slots.items[c->slot], &c->residual, &c->anew, e);
    }
    return rc;
}

/* Nothing fails from here on. */
static void commit_push(flight *f, const optimizer_draft *d, optimizer_step *steps)
{
    worker *w = f->w;
    optimizer *o = steps ? w->store->updater.optimizer : NULL;
    for (int64_t i = 0; i < f->ncargo; i++) {
        cargo *c = &f->cargo[i];
        worker_key *k = &w->keys[c->slot];
        slot *s = &w->store->slots.items[c->slot];
        c->round = ++k->pushes;
        c->before = k->pulls;
        s->pushes++;
        c->use = &f->uses[i];
        *c->use = (engine_use){.var = array_var(c->source)};
        if (c->residual)
            f->uses[f->ncargo + i] = (engine_use){.var = array_var(c->residual), .write = true};
        if (o)
            optimizer_commit_step(o, &steps[i], s);
    }
    f->op.nuses = f->ncargo * (f->codes.code ? 2 : 1);
    if (o)
        optimizer_commit(o, d);
    w->store->changes++;
}

static int check_push(worker *w, const kv_key *keys, int64_t n, kv_array *const *values,
                      int64_t *numbers, kv_err *e)
{
    if (w->done)
        return kv_err_set(e, KV_E_VALUE, "this worker is done: it pushes no more");
    bool makes = w->store->updater.kind == UPDATER_ASSIGN && (!w->how.is_async || w->how.sums);
    if (w->how.is_async && w->store->updater.kind == UPDATER_ASSIGN) {
        kv_err_set(e, KV_E_VALUE, "a push to a store of type \"%s\" needs an optimizer",
                   kv_type(w->store));
        return kv_err_hint(e, "set-optimizer sets one, in C kv_set_optimizer"), KV_E_VALUE;
    }
    int rc = worker_find(w, keys, n, makes ? values : NULL, numbers, e);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = check_value(w, numbers[i], values[i], e);
    return rc;
}

static int push_found(worker *w, const kv_key *keys, int64_t n, kv_array *const *values,
                      const int64_t *numbers, const kv_call *how, kv_err *e)
{
    flight *f = NULL;
    flight_pair *r = NULL;
    optimizer_step *steps = NULL;
    optimizer_draft d;
    optimizer *o = w->store->updater.kind == UPDATER_RULE ? w->store->updater.optimizer : NULL;
    int rc = flight_sort(w, numbers, n, &r, e);
    if (!rc)
        rc = flight_new(&f, w, numbers, r, n, 2 * n, how, e);
    if (!rc)
        rc = flight_sum_values(f, keys, r, values, e);
    if (!rc && o && !w->how.is_async) {
        steps = mem_zalloc(f->ncargo, sizeof *steps, e);
        optimizer_begin(o, &d);
        rc = steps ? run_host(f, &d, steps, e) : KV_E_MEMORY;
    }
    if (!rc && (rc = find_residuals(f, e)) == KV_OK)
        rc = flight_lay_out(f, e);
    if (!rc) {
        flight_wait_for_room(f);
        commit_push(f, &d, steps);
    }
    for (int64_t i = 0; steps && i < f->ncargo; i++)
        optimizer_release_step(&steps[i]);
    mem_free(steps);
    mem_free(r);
    if (!rc)
        flight_submit(f, &w->store->calls.group);
    else if (f)
        flight_free(f);
    return rc;
}

int flight_push(worker *w, const kv_key *keys, int64_t n, kv_array *const *values,
                const kv_call *how, kv_err *e)
{
    if (net_is_lost(e))
        return KV_E_PEER;
    int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    int rc = numbers ? check_push(w, keys, n, values, numbers, e) : KV_E_MEMORY;
    if (!rc)
        rc = checkpoint_push(w, numbers, n, e);
    if (!rc)
        rc = push_found(w, keys, n, values, numbers, how, e);
    mem_free(numbers);
    return rc;
}

/* ---- pull ---- */

/* One flight for some pairs of a call. */
static int make_pull(flight **out, worker *w, const int64_t *numbers, const flight_pair *r,
                     int64_t n, kv_array *const *outs, const kv_call *how, kv_err *e)
{
    flight *f = NULL;
    int rc = flight_new(&f, w, numbers, r, n, n, how, e);
    if (rc)
        return rc;
    f->pulls = true;
    f->outs = mem_alloc(n, sizeof *f->outs, e);
    rc = f->outs ? flight_lay_out(f, e) : KV_E_MEMORY;
    if (rc) {
        flight_free(f);
        return rc;
    }
    for (int64_t i = 0; i < n; i++) {
        f->outs[f->nouts++] = outs[r[i].i];
        array_hold(outs[r[i].i]);
        f->uses[i] = (engine_use){.var = array_var(outs[r[i].i]), .write = true};
    }
    f->op.nuses = n;
    *out = f;
    return KV_OK;
}

/* How many of the pairs go together: those of whole keys, and few bytes, so that what is pulled
 * into the values of a push begins to come while the push is still being sent. */
static int64_t pull_together(const worker *w, const int64_t *numbers, const flight_pair *r,
                             int64_t n)
{
    int64_t i = 0;
    for (int64_t bytes = 0; i < n; i++) {
        const kv_array *a = w->store->slots.items[numbers[r[i].i]].stored;
        bool same = i > 0 && numbers[r[i].i] == numbers[r[i - 1].i];
        if (!same && bytes >= PULLED_TOGETHER)
            break;
        bytes += same ? 0 : a->size * kv_dtype_bytes((kv_dtype)a->dtype);
    }
    return i;
}

static void commit_pull(flight *f)
{
    worker *w = f->w;
    flight_wait_for_room(f);
    for (int64_t i = 0; i < f->ncargo; i++) {
        worker_key *k = &w->keys[f->cargo[i].slot];
        f->cargo[i].round = k->pushes;
        k->pulls += 1;
    }
    flight_submit(f, &w->store->calls.group);
}

static int pull_found(worker *w, const int64_t *numbers, int64_t n, kv_array *const *outs,
                      const kv_call *how, kv_err *e)
{
    flight **list = NULL;
    flight_pair *r = NULL;
    int64_t nlist = 0, cap = 0;
    int rc = flight_sort(w, numbers, n, &r, e);
    for (int64_t at = 0, some; at < n && !rc; at += some) {
        some = pull_together(w, numbers, r + at, n - at);
        rc = mem_grow(&list, &cap, nlist + 1, sizeof *list, e);
        if (!rc && (rc = make_pull(&list[nlist], w, numbers, r + at, some, outs, how, e)) == KV_OK)
            nlist++;
    }
    for (int64_t i = 0; i < nlist; i++)
        rc ? flight_free(list[i]) : commit_pull(list[i]);
    mem_free(list);
    mem_free(r);
    return rc;
}

int flight_pull(worker *w, const kv_key *keys, int64_t n, kv_array *const *outs, const kv_call *how,
                kv_err *e)
{
    if (net_is_lost(e))
        return KV_E_PEER;
    int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    int rc = numbers ? worker_find(w, keys, n, NULL, numbers, e) : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++)
        rc = call_check_shape(&w->store->slots.items[numbers[i]], outs[i], "array", e);
    if (!rc)
        rc = pull_found(w, numbers, n, outs, how, e);
    mem_free(numbers);
    return rc;
}

/* An array that several pairs write holds the last of them. */
void flight_value(flight *f, const piece *p, int64_t offset, const void *data, int64_t bytes)
{
    const cargo *c = &f->cargo[p->cargo];
    int64_t each = kv_dtype_bytes(c->dtype);
    int64_t from = place_from(&c->place, p->part) + offset / each, n = bytes / each;
    for (int64_t i = c->first; i < c->first + c->n; i++) {
        kv_array *out = f->outs[i];
        char *to = (char *)out->data + from * kv_dtype_bytes((kv_dtype)out->dtype);
        if ((kv_dtype)out->dtype != c->dtype)
            out->dev->convert(to, (kv_dtype)out->dtype, data, c->dtype, n);
        else if (to != data)
            memcpy(to, data, (size_t)bytes);
    }
}

/* Codes of r->round elements, from the one at r->offset on. */
static void take_codes(flight *f, const piece *p, const link_rec *r)
{
    enum { SOME = 2048 }; /* a multiple of 8, so that codes begin at bytes */
    float some[SOME];
    push_codes how;
    memcpy(&how, r + 1, sizeof how);
    const char *codes = (const char *)(r + 1) + sizeof how;
    for (int64_t at = 0; at < r->round; at += SOME) {
        int64_t n = r->round - at < SOME ? r->round - at : SOME;
        cpu_dev_ops.dequantise(some, codes + at / 8 * how.code, (dev_code)how.code, how.threshold,
                               n);
        flight_value(f, p, (r->offset + at) * (int64_t)sizeof *some, some,
                     n * (int64_t)sizeof *some);
    }
}

void flight_piece_ended(flight *f, const piece *p)
{
    cargo *c = &f->cargo[p->cargo];
    f->waiting--;
    if (--c->left > 0)
        return;
    mark_outs(f, c, false);
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
    if (r->kind == NET_VALUE) {
        const piece *p = &f->pieces[r->total];
        if (r->flags & VALUE_CODES)
            take_codes(f, p, r);
        else
            flight_value(f, p, r->offset, r + 1, r->bytes);
        if (r->flags & NET_LAST)
            flight_piece_ended(f, p);
    } else if (r->kind == NET_DONE) {
        f->waiting -= r->total;
    } else if (r->kind == NET_FAILED) {
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
