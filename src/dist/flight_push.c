/* Pushes: what is sent of the values, and the host side of the updates that servers make of it. */
#include <string.h>

#include "array/device.h"
#include "array/mirror.h"
#include "base/mem.h"
#include "core/call.h"
#include "dist/flight.h"
#include "dist/owed.h"

enum { CODES_AT_ONCE = 1 << 19 };

/* ---- Sending ---- */

/* A piece of a push of plain elements or rows: its bytes, and how many a part has in all. */
static const char *data_of(const cargo *c, int32_t part, int64_t *total)
{
    if (c->blob) {
        *total = c->starts[part + 1] - c->starts[part];
        return c->blob + c->starts[part];
    }
    int64_t each = kv_dtype_bytes(c->dtype);
    *total = place_count(&c->place, part) * each;
    return flight_elements(c) + place_from(&c->place, part) * each;
}

/* Whether so many bytes of a piece are in host memory: it is looked at again when more are. */
static bool is_here(const cargo *c, int32_t part, int64_t bytes)
{
    int64_t from = place_from(&c->place, part) * kv_dtype_bytes(c->dtype);
    return __atomic_load_n(&c->here, __ATOMIC_ACQUIRE) >= from + bytes;
}

void flight_fill_push(const flight *f, const cargo *c, link_rec *r, bool first)
{
    int64_t prefix = first ? c->host_bytes : 0;
    r->kind = LINK_PUSH;
    r->store = (uint16_t)f->w->number;
    r->push.round = c->round;
    r->push.pulls = c->before;
    r->request = f->token;
    if (prefix) {
        r->flags |= LINK_HOST;
        memcpy(r + 1, f->host.data + c->host, (size_t)prefix);
    }
}

static net_step send_elements(lane *l, cargo *c, int32_t part)
{
    flight *f = l->flight;
    int64_t total, prefix = l->offset ? 0 : c->host_bytes;
    const char *data = data_of(c, part, &total);
    int64_t left = total - l->offset, n = left < LINK_PAYLOAD ? left : LINK_PAYLOAD;
    if (__atomic_load_n(&c->here, __ATOMIC_ACQUIRE) < 0) {
        f->waiting = 0; /* no server tells the end of what others lack as well */
        return NET_ENDED;
    }
    if (!is_here(c, part, l->offset + n))
        return NET_FULL;
    link_rec *r = net_room(l->item.peer, prefix + n);
    if (!r)
        return NET_FULL;
    *r = (link_rec){.bytes = (uint32_t)(prefix + n),
                    .flags = (uint8_t)((n == left ? LINK_LAST : 0) | (c->blob ? LINK_SPARSE : 0)),
                    .part = c->place.first + part,
                    .push = {.offset = l->offset, .total = total}};
    flight_fill_push(f, c, r, l->offset == 0);
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
                    .flags = (uint8_t)((n == left ? LINK_LAST : 0) | LINK_CODES),
                    .part = c->place.first + part,
                    .push.element = l->offset};
    flight_fill_push(f, c, r, l->offset == 0);
    char *to = (char *)(r + 1) + prefix;
    push_codes how = f->codes;
    if (how.back && c->anew)
        how.back = BACK_ANEW;
    memcpy(to, &how, sizeof how);
    memcpy(to + sizeof f->codes, (c->staged ? c->staged : c->blob) + from / 8 * (int64_t)code,
           (size_t)bytes);
    l->offset += n;
    net_commit(l->item.peer);
    return n == left ? NET_ENDED : NET_MORE;
}

net_step flight_push_step(lane *l, cargo *c, const piece *p)
{
    if (flight_is_packed(c, p->part))
        return flight_parcel_step(l, c);
    return l->flight->codes.code ? send_codes(l, c, p->part) : send_elements(l, c, p->part);
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

int flight_push_encode(flight *f, cargo *c, kv_err *e)
{
    enum { WORD = 4 };
    dev_code code = (dev_code)f->codes.code;
    if (code) {
        c->blob_bytes = dev_code_bytes(code, c->place.size);
        int rc = c->staged ? KV_OK : mirror_host(c->residual, MIRROR_CHANGE, e);
        if (rc || c->staged)
            return rc;
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

/* ---- Calls ---- */

static int check_value(const worker *w, int64_t number, const kv_array *a, kv_err *e)
{
    const slot *s = &w->store->slots.items[number];
    int rc = call_check_shape(s, a, "value", e);
    if (!rc && w->store->compression.code)
        rc = compression_check(&s->key, a, e);
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

/* The residual of a key, which moves to the GPU that its source is on. */
static int find_residual(cargo *c, slot *s, kv_err *e)
{
    bool away = mirror_has(c->source);
    kv_ctx ctx = away ? c->source->ctx : (kv_ctx){KV_CPU, 0};
    int rc = owed_find(s, ctx, &c->residual, &c->anew, e);
    if (rc || !away || mirror_gpu(c->residual) == mirror_gpu(c->source))
        return rc;
    return kv_array_new_raw(&c->moved, KV_FLOAT32, c->residual->ndim, c->residual->shape, ctx, e);
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
        rc = find_residual(c, &w->store->slots.items[c->slot], e);
    }
    return rc;
}

/* The first uses of a flight that pushes are those of its sources, then come the residuals, those
 * that they begin as last. */
static void commit_residual(flight *f, int64_t i, slot *s)
{
    cargo *c = &f->cargo[i];
    if (c->moved) {
        c->old = owed_replace(s, c->moved);
        c->residual = c->moved;
        c->moved = NULL;
        f->uses[f->op.nuses++] = (engine_use){.var = array_var(c->old)};
    }
    f->uses[f->ncargo + i] = (engine_use){.var = array_var(c->residual), .write = true};
}

/* Nothing fails from here on. */
static void commit_push(flight *f, const optimizer_draft *d, optimizer_step *steps)
{
    worker *w = f->w;
    optimizer *o = steps ? w->store->updater.optimizer : NULL;
    f->op.nuses = f->ncargo * (f->codes.code ? 2 : 1);
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
            commit_residual(f, i, s);
        if (o)
            optimizer_commit_step(o, &steps[i], s);
    }
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
        rc = flight_new(&f, w, numbers, r, n, 3 * n, how, e);
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
