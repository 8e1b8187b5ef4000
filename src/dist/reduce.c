/* The types that keep nothing: pushpull gives every rank the sum over ranks, broadcast the value of
 * rank 0. A key is known from its first call on, with the shape and the dtype that one rank brings;
 * where its parts are added up is settled like the places of other types.
 *
 * One flight sends the parts of its keys and receives their sums. Those that this rank adds up
 * itself are not sent: sums.c reads them in place.
 */
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "core/call.h"
#include "dist/flight.h"
#include "dist/sums.h"
#include "dist/types.h"

/* ---- Sending ---- */

/* The first array of a key that can hold the sum as it is. */
static char *out_of(const flight *f, const cargo *c, const piece *p)
{
    for (int64_t i = c->first; i < c->first + c->n; i++) {
        const kv_array *out = f->outs[i];
        if ((kv_dtype)out->dtype == c->dtype && !(f->blocks && f->blocks[i]))
            return (char *)out->data + place_from(&c->place, p->part) * kv_dtype_bytes(c->dtype);
    }
    return NULL;
}

static link_rec record_of(const flight *f, const cargo *c, const piece *p, int64_t bytes)
{
    int32_t sooner = f->priority < INT32_MAX - 2 ? f->priority + 1 : f->priority;
    return (link_rec){.bytes = (uint32_t)bytes,
                      .kind = LINK_ADD,
                      .flags = (uint8_t)(LINK_LAST | (f->broadcasts ? LINK_BROADCAST : 0)),
                      .store = (uint16_t)f->w->number,
                      .part = c->place.first + p->part,
                      .request = f->token,
                      .add = {.round = c->round,
                              .chunk = p - f->pieces,
                              .priority = sooner, /* answers go before what is still to be asked */
                              .dtype = c->dtype}};
}

net_step reduce_step(lane *l, cargo *c, const piece *p)
{
    flight *f = l->flight;
    int64_t each = kv_dtype_bytes(c->dtype);
    int64_t bytes = place_count(&c->place, p->part) * each;
    const char *data = flight_elements(c) + place_from(&c->place, p->part) * each;
    if (l->item.peer == net_rank()) {
        kv_err e = {0};
        link_rec own = record_of(f, c, p, bytes);
        if (sums_own(server_store(f->w->number), &own, data, out_of(f, c, p), &e))
            reduce_ended(f->token, own.add.chunk, NULL, &e);
        return NET_ENDED;
    }
    if (f->broadcasts && net_rank() != 0)
        bytes = 0;
    link_rec *r = net_room(l->item.peer, bytes);
    if (!r)
        return NET_FULL;
    *r = record_of(f, c, p, bytes);
    if (bytes)
        memcpy(r + 1, data, (size_t)bytes);
    net_commit(l->item.peer);
    return NET_ENDED;
}

void reduce_ended(uint64_t token, int64_t number, const char *data, const kv_err *why)
{
    flight *f = flight_find(token);
    if (!f)
        return;
    const piece *p = &f->pieces[number];
    const cargo *c = &f->cargo[p->cargo];
    if (why->code && !f->error.code) {
        f->error = *why;
        kv_err_key(&f->error, &c->key);
    }
    if (data)
        flight_value(f, p, 0, data, place_count(&c->place, p->part) * kv_dtype_bytes(c->dtype));
    flight_piece_ended(f, p);
    flight_look_at_end(f);
}

/* ---- Checks ---- */

static int check_dense(const worker *w, const kv_key *keys, int64_t n, kv_array *const *arrays,
                       kv_err *e)
{
    for (int64_t i = 0; i < n; i++) {
        if (arrays[i]->storage == KV_DEFAULT)
            continue;
        kv_err_set(e, KV_E_UNSUPPORTED, "the type \"%s\" takes no row_sparse arrays",
                   kv_type(w->store));
        return kv_err_key(e, &keys[i]), KV_E_UNSUPPORTED;
    }
    return KV_OK;
}

static int check_values(const worker *w, const kv_key *keys, const int64_t *numbers, int64_t n,
                        kv_array *const *values, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < n && !rc; i++) {
        const slot *s = &w->store->slots.items[numbers[i]];
        rc = call_check_shape(s, values[i], "value", e);
        if (!rc && values[i]->dtype != s->stored->dtype) {
            rc = kv_err_set(e, KV_E_DTYPE, "the ranks add up the key as %s, this value is %s",
                            kv_dtype_name((kv_dtype)s->stored->dtype),
                            kv_dtype_name((kv_dtype)values[i]->dtype));
            kv_err_key(e, &keys[i]);
        }
    }
    return rc;
}

/* ---- Calls ---- */

/* The two lists of a call. */
typedef struct lists {
    const kv_key *keys, *okeys;
    kv_array *const *values, *const *outs;
    int64_t n, nouts;
    bool in_place;
} lists;

static int no_value(const kv_key *key, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    kv_err_set(e, KV_E_KEY, "no value of the call has key %s", slot_key_text(text, key));
    return kv_err_key(e, key), KV_E_KEY;
}

/* Gives each cargo the outs of its key. */
static int give_outs(flight *f, const lists *l, const int64_t *numbers, const flight_pair *r,
                     kv_err *e)
{
    int64_t at = 0;
    for (int64_t i = 0; i < f->ncargo; i++) {
        cargo *c = &f->cargo[i];
        c->first = at;
        while (at < l->nouts && numbers[r[at].i] == c->slot) {
            f->outs[at] = l->outs[r[at].i];
            at++;
        }
        c->n = at - c->first;
    }
    if (at == l->nouts)
        return KV_OK;
    return no_value(&l->okeys[r[at].i], e);
}

static int by_address(const void *a, const void *b)
{
    const engine_var *x = *(engine_var *const *)a, *y = *(engine_var *const *)b;
    return (x > y) - (x < y);
}

/* Values that are also the outs of other keys are copied: those may be written first. */
static int copy_shared(flight *f, kv_err *e)
{
    engine_var **written = mem_alloc(f->nouts, sizeof(engine_var *), e);
    int rc = written ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < f->nouts && !rc; i++)
        written[i] = array_var(f->outs[i]);
    if (!rc)
        qsort(written, (size_t)f->nouts, sizeof *written, by_address);
    for (int64_t i = 0; i < f->ncargo && !rc; i++) {
        cargo *c = &f->cargo[i];
        const engine_var *var = array_var(c->source);
        if (!bsearch(&var, written, (size_t)f->nouts, sizeof *written, by_address))
            continue;
        kv_array *copy;
        rc = kv_array_new_raw(&copy, c->source->dtype, c->source->ndim, c->source->shape,
                              c->source->ctx, e);
        if (!rc && (rc = kv_array_copy(copy, c->source, e)))
            kv_array_unref(copy);
        if (!rc)
            flight_give_source(c, copy);
    }
    mem_free(written);
    return rc;
}

/* Nothing fails from here on. */
static void commit(flight *f)
{
    worker *w = f->w;
    flight_wait_for_room(f);
    for (int64_t i = 0; i < f->nouts; i++) {
        array_hold(f->outs[i]);
        f->uses[i] = (engine_use){.var = array_var(f->outs[i]), .write = true};
    }
    for (int64_t i = 0; i < f->ncargo; i++) {
        cargo *c = &f->cargo[i];
        c->round = ++w->keys[c->slot].pushes;
        c->use = &f->uses[f->nouts + i];
        *c->use = (engine_use){.var = array_var(c->source)};
    }
    f->op.nuses = f->nouts + f->ncargo;
    flight_submit(f, &w->store->calls.group);
}

static int make_flight(worker *w, const lists *l, const int64_t *numbers, const int64_t *onumbers,
                       bool broadcasts, const kv_call *how, kv_err *e)
{
    flight *f = NULL;
    flight_pair *r = NULL, *or = NULL;
    int rc = flight_sort(w, numbers, l->n, &r, e);
    if (!rc)
        rc = flight_sort(w, onumbers, l->nouts, &or, e);
    if (!rc)
        rc = flight_new(&f, w, numbers, r, l->n, l->n + l->nouts, how, e);
    if (!rc && broadcasts && f->ncargo < l->n)
        rc = kv_err_set(e, KV_E_KEY, "a key stands twice in the call");
    if (!rc)
        rc = flight_sum_values(f, l->keys, r, l->values, e);
    if (!rc && !(f->outs = mem_alloc(l->nouts, sizeof(kv_array *), e)))
        rc = KV_E_MEMORY;
    if (!rc)
        rc = give_outs(f, l, onumbers, or, e);
    if (!rc)
        rc = flight_lay_out(f, e);
    if (!rc) {
        f->sums = true;
        f->broadcasts = broadcasts;
        f->nouts = l->nouts;
        if (!l->in_place)
            rc = copy_shared(f, e);
        if (rc)
            f->nouts = 0; /* they are not referenced yet */
    }
    mem_free(r);
    mem_free(or);
    if (!rc)
        commit(f);
    else if (f)
        flight_free(f);
    return rc;
}

/* The slots of the outs, which are those of values. */
static int find_outs(const worker *w, const lists *l, int64_t *onumbers, kv_err *e)
{
    const slot_table *t = &w->store->slots;
    int64_t guess = 0;
    int rc = KV_OK;
    for (int64_t i = 0; i < l->nouts && !rc; i++) {
        onumbers[i] = slot_find(t, &l->okeys[i], guess);
        guess = onumbers[i] + 1;
        rc = onumbers[i] < 0 ? no_value(&l->okeys[i], e)
                             : call_check_shape(&t->items[onumbers[i]], l->outs[i], "array", e);
    }
    return rc;
}

static int run_call(worker *w, const lists *l, bool broadcasts, const kv_call *how, kv_err *e)
{
    if (net_is_lost(e))
        return KV_E_PEER;
    int rc = check_dense(w, l->keys, l->n, l->values, e);
    if (rc || (rc = check_dense(w, l->okeys, l->nouts, l->outs, e)))
        return rc;
    int64_t *numbers = mem_alloc(l->n, sizeof *numbers, e);
    int64_t *onumbers = mem_alloc(l->nouts, sizeof *onumbers, e);
    rc = numbers && onumbers ? KV_OK : KV_E_MEMORY;
    if (!rc)
        rc = worker_find(w, l->keys, l->n, l->values, numbers, e);
    if (!rc)
        rc = check_values(w, l->keys, numbers, l->n, l->values, e);
    if (!rc)
        rc = find_outs(w, l, onumbers, e);
    if (!rc)
        rc = make_flight(w, l, numbers, onumbers, broadcasts, how, e);
    w->store->changes += rc == KV_OK;
    mem_free(numbers);
    mem_free(onumbers);
    return rc;
}

int worker_pushpull(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                    const kv_key *okeys, int64_t nouts, kv_array *const *outs, const kv_call *how,
                    kv_err *e)
{
    lists l = {keys, okeys, values, outs, n, nouts, outs == values && okeys == keys};
    return run_call(self, &l, false, how, e);
}

int worker_broadcast(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                     const kv_key *okeys, int64_t nouts, kv_array *const *outs,
                     const kv_call *how, kv_err *e)
{
    lists l = {keys, okeys, values, outs, n, nouts, outs == values && okeys == keys};
    return run_call(self, &l, true, how, e);
}
