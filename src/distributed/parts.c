/* The table of parts of a store on a server. A part is added with its first value and dropped with
 * its store, or when its key moves to other servers. */
#include "distributed/server_state.h"

#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "cpu/changes.h"

part *parts_find(const server_state *s, int64_t id)
{
    return id >= 0 && id < s->parts_cap ? s->parts[id] : NULL;
}

void parts_touch(server_state *s, part *p)
{
    if (p->touched)
        return;
    p->touched = true;
    kv_assert(s->ntouched < s->touched_cap, "%lld parts of %lld have news",
              (long long)s->ntouched + 1, (long long)s->nparts);
    s->touched[s->ntouched++] = p;
}

static void release_changes(part *p)
{
    mem_free(p->changes);
    p->changes = NULL;
}

/* A value takes the place of that with which a push made the part: no round was applied yet, since
 * the first worker has not contributed to any. */
static int put_value(const server_state *s, part *p, const ask_slot *in, const char *data,
                     kv_err *e)
{
    kv_array **stored, *first = NULL;
    if (!p->keeps)
        return ask_malformed(e);
    stored = &s->store->slots.items[p->slot].stored;
    TRY(ask_array(&first, p->storage, p->dtype, p->ndim, p->shape, data, in->bytes, e));
    kv_array_unref(*stored);
    *stored = first;
    release_changes(p);
    p->begun = in->key.round;
    return KV_OK;
}

/* Numbers of parts are below this: 16 TB of parts that a record holds. */
#define PARTS_MOST ((int64_t)1 << 26)

/* One with a number alone, which is not in the list yet. */
static part *make_part(server_state *s, int64_t id, int ndim, kv_err *e)
{
    int64_t had = s->parts_cap, workers = s->how.workers;
    if (mem_grow(&s->parts, &s->parts_cap, id + 1, sizeof *s->parts, e))
        return NULL;
    for (int64_t i = had; i < s->parts_cap; i++)
        s->parts[i] = NULL;
    kv_assert(!s->parts[id], "part %lld is made twice", (long long)id);
    s->nparts = s->nparts > id ? s->nparts : id + 1;
    if (mem_grow(&s->touched, &s->touched_cap, s->nparts, sizeof *s->touched, e))
        return NULL;
    part *p = mem_zalloc(1, sizeof *p + (size_t)workers * sizeof *p->workers +
                                (size_t)ndim * sizeof *p->shape, e);
    if (!p)
        return NULL;
    p->id = id;
    p->ndim = ndim;
    p->shape = (int64_t *)(void *)(p->workers + workers);
    return p;
}

part *parts_of_sum(server_state *s, int64_t id, kv_err *e)
{
    part *p = parts_find(s, id);
    if (id < 0 || id >= PARTS_MOST)
        ask_malformed(e);
    else if (!p)
        p = make_part(s, id, 0, e);
    if (p)
        s->parts[id] = p;
    return p;
}

static int new_part(server_state *s, const ask_slot *in, const kv_key *key, part **out, kv_err *e)
{
    int64_t shape[KV_MAX_NDIM], count = 1;
    const place *cut = &in->key.place;
    int ndim = place_shape(cut, in->count, in->key.ndim, in->key.shape, shape);
    for (int i = 0; i < ndim; i++)
        count *= shape[i];
    if (in->part >= PARTS_MOST || s->how.sums || count != in->count)
        return ask_malformed(e);
    part *p = make_part(s, in->part, ndim, e);
    if (!p)
        return KV_E_MEMORY;
    p->keeps = true;
    p->key = (kv_key){.id = key->id};
    if (key->name && !(p->key.name = mem_text(key->name, strlen(key->name), e))) {
        mem_free(p);
        return KV_E_MEMORY;
    }
    p->dtype = (kv_dtype)in->key.dtype;
    p->storage = (kv_storage)in->key.storage;
    p->from = in->from;
    p->count = in->count;
    memcpy(p->shape, shape, (size_t)ndim * sizeof *shape);
    p->bytes = in->count * kv_dtype_bytes(p->dtype);
    p->origin.key = p->key;
    p->begun = in->key.round;
    s->parts[in->part] = p;
    s->bytes += p->bytes;
    *out = p;
    return KV_OK;
}

/* replaces: see ASK_INIT. */
static int init_part(server_state *s, const ask_slot *in, const kv_key *key, const char *data,
                     bool replaces, kv_err *e)
{
    part *p = parts_find(s, in->part);
    kv_array *first = NULL;
    if (p)
        return replaces ? put_value(s, p, in, data, e) : KV_OK;
    TRY(new_part(s, in, key, &p, e));
    int rc = ask_array(&first, p->storage, p->dtype, p->ndim, p->shape, data, in->bytes, e);
    if (!rc)
        rc = slot_add(&s->store->slots, &(kv_key){.id = p->id}, first, e);
    if (rc) { /* nothing may come to a part without a slot */
        kv_array_unref(first);
        s->parts[p->id] = NULL;
        s->bytes -= p->bytes;
        parts_free(s, p);
        return rc;
    }
    p->slot = s->store->slots.n - 1;
    s->store->slots.items[p->slot].part = &p->origin;
    return KV_OK;
}

void parts_drop_codes(part *p)
{
    mem_free(p->codes);
    mem_free(p->residual);
    p->codes = NULL;
    p->residual = NULL;
    p->coded = (push_codes){0};
}

void parts_take_off(const server_state *s, part *p, round *x)
{
    int64_t n = s->how.is_async ? 1 : s->how.workers;
    for (round **at = &p->rounds; *at; at = &(*at)->next) {
        if (*at == x) {
            *at = x->next;
            break;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        contribution *c = &x->by[i];
        if (c->owned)
            mem_free(c->data);
        c->data = NULL;
        c->owned = false;
    }
}

void parts_free_round(server_state *s, part *p, round *x)
{
    parts_take_off(s, p, x);
    if (x->sum != x->own.out)
        mem_free(x->sum);
    x->next = s->spare;
    s->spare = x;
}

void parts_free(server_state *s, part *p)
{
    if (!p)
        return;
    while (p->rounds)
        parts_free_round(s, p, p->rounds);
    for (server_pull *x = p->pulls, *next; x; x = next) {
        next = x->next;
        mem_free(x->ids);
        mem_free(x);
    }
    mem_free((char *)p->key.name);
    parts_drop_codes(p);
    release_changes(p);
    mem_free(p);
}

/* Its place in the store stays, without elements. */
static int drop_part(server_state *s, part *p, kv_err *e)
{
    const int64_t none = 0;
    kv_array *empty = NULL;
    if (!p->keeps)
        return ask_malformed(e);
    slot *x = &s->store->slots.items[p->slot];
    if (p->rounds || p->pulls || p->replies || p->touched)
        return kv_err_set(e, KV_E_INTERNAL, "part %lld is in use", (long long)p->id);
    TRY(kv_array_new(&empty, p->dtype, 1, &none, (kv_ctx){KV_CPU, 0}, e));
    slot_forget(x);
    x->part = NULL;
    kv_array_unref(x->stored);
    x->stored = empty;
    s->parts[p->id] = NULL;
    s->bytes -= p->bytes;
    kv_assert(s->bytes >= 0, "store %d keeps %lld bytes without part %lld", s->number,
              (long long)s->bytes, (long long)p->id);
    parts_free(s, p);
    return KV_OK;
}

int parts_drop(server_state *s, int64_t first, int64_t n, kv_err *e)
{
    if (first < 0 || n < 0)
        return ask_malformed(e);
    for (int64_t i = first; i < s->nparts && i - first < n; i++)
        if (s->parts[i])
            TRY(drop_part(s, s->parts[i], e));
    return KV_OK;
}

int parts_init(server_state *s, const link_rec *r, kv_err *e)
{
    const char *at = (const char *)(r + 1), *end = at + link_call_bytes(r);
    while (at < end) {
        kv_key key;
        const char *data;
        const ask_slot *in = ask_get_slot(&at, end, &key, &data);
        TRY(in ? init_part(s, in, &key, data, r->args.inits, e) : ask_malformed(e));
    }
    return KV_OK;
}

/* ---- Changes ----
 *
 * The elements of a part are read where the server's store keeps them. */

struct part_changes {
    int64_t base;  /* the round from which marks count */
    int64_t asked; /* the last round in which a worker asked */
    uint8_t marks[];
};

/* The elements, or NULL where the part is not a default array, in which nothing is compared. */
static const char *elements_of(const server_state *s, const part *p)
{
    const kv_array *a = server_stored(s, p);
    return a->storage == KV_DEFAULT && a->size == p->count ? a->data : NULL;
}

void part_changes_ask(server_state *s, part *p)
{
    kv_err unused = {0};
    if (!p->changes && elements_of(s, p)) {
        p->changes = mem_zalloc(1, sizeof *p->changes + (size_t)p->count, &unused);
        if (p->changes)
            p->changes->base = part_round(p);
    }
    if (p->changes)
        p->changes->asked = part_round(p);
}

bool part_changes_reach(const part *p, int64_t since)
{
    return p->changes && since >= p->changes->base && since <= part_round(p);
}

/* ---- Rounds ---- */

void part_changes_begin_round(server_state *s, part *p)
{
    kv_err unused = {0};
    const char *elements = p->changes ? elements_of(s, p) : NULL;
    if (!p->changes)
        return;
    if (!elements || mem_grow(&s->copies, &s->copies_cap, s->copied + p->bytes, 1, &unused)) {
        release_changes(p);
        return;
    }
    p->copy = s->copied;
    if (p->bytes)
        memcpy(s->copies + p->copy, elements, (size_t)p->bytes);
    s->copied += (p->bytes + 7) / 8 * 8;
}

/* Makes room for the mark of the next round: the older half of the marks is given up. Returns false
 * if nobody has asked for so long that none is needed. */
static bool age(part_changes *c, const part *p)
{
    int64_t by = part_round(p) - c->base - CHANGES_MARKS / 2; /* more, where rounds were given up */
    if (c->asked <= c->base)
        return false;
    changes_age(c->marks, by < CHANGES_MARKS ? (uint8_t)by : CHANGES_MARKS, p->count);
    c->base += by;
    return true;
}

void part_changes_end_round(server_state *s, part *p)
{
    part_changes *c = p->changes;
    const char *elements = c ? elements_of(s, p) : NULL;
    if (!c)
        return;
    if (!elements || (part_round(p) - c->base >= CHANGES_MARKS && !age(c, p))) {
        release_changes(p);
        return;
    }
    int64_t mark = part_round(p) + 1 - c->base;
    kv_assert(mark > 0 && mark <= CHANGES_MARKS, "round %lld of part %lld has mark %lld",
              (long long)part_round(p) + 1, (long long)p->id, (long long)mark);
    changes_mark(c->marks, (uint8_t)mark, s->copies + p->copy, elements,
                 (int)kv_dtype_bytes(p->dtype), p->count);
}

void part_changes_forget_copies(server_state *s)
{
    s->copied = 0;
    if (s->copies_cap <= 4 * PART_CHANGES_TOGETHER)
        return;
    mem_free(s->copies);
    s->copies = NULL;
    s->copies_cap = 0;
}

/* ---- Sending ---- */

int64_t part_changes_bound(const part *p, int64_t at)
{
    int64_t left = p->count - at;
    return left * kv_dtype_bytes(p->dtype) + (left / CHANGES_BLOCK + 1) * changes_bound(0, 0);
}

int64_t part_changes_put(const part *p, const void *elements, int64_t since, int64_t *at, void *to,
                         int64_t room)
{
    const part_changes *c = p->changes;
    int size = (int)kv_dtype_bytes(p->dtype);
    int64_t bytes = 0, above = since - c->base;
    kv_assert(part_changes_reach(p, since), "part %lld has no changes since round %lld",
              (long long)p->id, (long long)since);
    above = above < CHANGES_MARKS ? above : CHANGES_MARKS; /* rounds that were given up */
    while (*at < p->count) {
        int64_t n = p->count - *at < CHANGES_BLOCK ? p->count - *at : CHANGES_BLOCK;
        if (changes_bound(size, n) > room - bytes)
            break;
        bytes += changes_encode((char *)to + bytes, c->marks + *at, (uint8_t)above,
                                (const char *)elements + *at * size, size, n);
        *at += n;
    }
    return bytes;
}
