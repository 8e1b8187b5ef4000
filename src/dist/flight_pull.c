/* Pulls: what is asked for, and what comes of compressed sums. */
#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "core/call.h"
#include "dist/flight.h"

enum { PULLED_TOGETHER = 1 << 20 /* bytes, about, of one flight */ };

/* ---- Asking and receiving ---- */

net_step flight_pull_step(const lane *l, const cargo *c, const piece *p)
{
    const flight *f = l->flight;
    link_rec *r = net_room(l->item.peer, 0);
    if (!r)
        return NET_FULL;
    *r = (link_rec){.kind = LINK_PULL,
                    .store = (uint16_t)f->w->number,
                    .part = c->place.first + p->part,
                    .request = f->token,
                    .pull = {.round = c->round, .chunk = p - f->pieces, .priority = f->priority}};
    net_commit(l->item.peer);
    return NET_ENDED;
}

/* Codes of n elements of a piece, from one on, for the outs in host memory. */
static void read_codes(const flight *f, const piece *p, int64_t from, const push_codes *how,
                       const char *codes, int64_t n)
{
    enum { SOME = 2048 }; /* a multiple of 8, so that codes begin at bytes */
    float some[SOME];
    for (int64_t at = 0; at < n; at += SOME) {
        int64_t m = n - at < SOME ? n - at : SOME;
        cpu_dev_ops.dequantise(some, codes + at / 8 * how->code, (dev_code)how->code,
                               how->threshold, m);
        flight_value_here(f, p, (from + at) * (int64_t)sizeof *some, some,
                          m * (int64_t)sizeof *some);
    }
}

/* The codes of a chunk. */
void flight_pull_codes(flight *f, const piece *p, const link_rec *r)
{
    push_codes how;
    kv_err e = {0};
    const cargo *c = &f->cargo[p->cargo];
    int64_t at = (place_from(&c->place, p->part) + r->value.element) * (int64_t)sizeof(float);
    memcpy(&how, r + 1, sizeof how);
    const char *codes = (const char *)(r + 1) + sizeof how;
    if (flight_has_outs_here(f, c))
        read_codes(f, p, r->value.element, &how, codes, r->value.elements);
    if (flight_write_codes(f, c, at, &how, codes, r->value.elements, &e))
        flight_fail(f, p, &e);
}

/* ---- Calls ---- */

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
