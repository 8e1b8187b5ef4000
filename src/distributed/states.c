/* States travel between ranks as the image that a file of states would have (core/state_file.h).
 * Each end first makes a view: a store with a slot for each key or part of the image, which shares
 * its arrays with the real store. So one writer and one reader serve both disks and ranks, and an
 * image that cannot be read changes nothing. To the servers, arrays go in such an image. From the
 * servers they are pulled like the values of keys, because every checkpoint takes them and they are
 * large. */
#include "distributed/states.h"

#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "core/image.h"
#include "core/slot.h"
#include "core/state_file.h"
#include "distributed/request.h"
#include "distributed/server_state.h"
#include "distributed/worker.h"

/* ---- Views ---- */

/* The name that errors give to a message which is read like a file. */
#define SOURCE "the states of another rank"

static kv view_of(const kv *store)
{
    kv view = *store;
    view.slots = (slot_table){0};
    return view;
}

static void view_release(kv *view)
{
    slot_table_release(&view->slots);
}
#define own_view OWN(view_release) kv

/* Adds a slot, with shared states of the slot `like` unless that is NULL. Takes stored over, also
 * on an error. */
static int view_add(kv *view, const kv_key *key, kv_array *stored, const slot *like, kv_err *e)
{
    slot_table *t = &view->slots;
    int rc = slot_find(t, key, -1) < 0 ? slot_add(t, key, stored, e) : ask_malformed(e);
    if (rc) {
        kv_array_unref(stored);
        return rc;
    }
    if (!like)
        return KV_OK;
    t->items[t->n - 1].updates = like->updates;
    return slot_state_share(&t->items[t->n - 1].state, like->state, e);
}

/* Appends the image of a view. */
static int view_print(buf *out, const kv *view, bool with_rule, kv_err *e)
{
    own_image im = {0};
    TRY(state_file_take(&im, view, with_rule, e));
    return image_print(out, &im, SOURCE, e);
}

/* Reads an image into a view that has its keys. The numbers that all keys share go straight into
 * the store. with_rule: the image may bring a rule, which the view alone owns then. */
static int view_read(kv *view, const char *at, int64_t bytes, bool numbers_only, bool with_rule,
                     kv_err *e)
{
    own_checkpoint *f = NULL;
    updater old; /* still the store's */
    TRY(checkpoint_open_memory(&f, at, (size_t)bytes, SOURCE, e));
    return with_rule || !checkpoint_metadata(f, RULE_PART)
               ? state_file_load(view, f, SOURCE, numbers_only, &old, e)
               : ask_malformed(e);
}

/* The real slot gets the states that were read for it. */
static void view_take_slot(slot *from, slot *to)
{
    slot_state *old = to->state;
    to->state = from->state;
    to->updates = from->updates;
    from->state = old;
}

/* The array of state i, or the master. */
static kv_array **array_at(slot_state *s, int i)
{
    return i < PLAN_MAX_STATES ? &s->arrays[i] : &s->master;
}

static void drop_arrays(slot_state *s)
{
    for (int i = 0; s && i <= PLAN_MAX_STATES; i++) {
        kv_array_unref(*array_at(s, i));
        *array_at(s, i) = NULL;
    }
}

/* ---- On a server ---- */

/* The slots of the parts that a call lists, by their number. *at advances behind the list. */
static int view_listed(kv *view, const server_state *s, const char **at, const char *end, kv_err *e)
{
    int64_t n, id;
    if (end - *at < (int64_t)sizeof n)
        return ask_malformed(e);
    memcpy(&n, *at, sizeof n);
    *at += sizeof n;
    if (n < 0 || n > (end - *at) / (int64_t)sizeof id)
        return ask_malformed(e);
    for (int64_t i = 0; i < n; i++, *at += sizeof id) {
        memcpy(&id, *at, sizeof id);
        const part *p = parts_find(s, id);
        const slot *x = p && p->keeps ? &s->store->slots.items[p->slot] : NULL;
        TRY(x ? view_add(view, &x->key, kv_array_ref(x->stored), x, e) : ask_malformed(e));
    }
    return KV_OK;
}

kv_array *states_array(const server_state *s, const part *p, int n)
{
    slot_state *x = s->store->slots.items[p->slot].state;
    return x && n >= 1 && n <= PLAN_MAX_STATES + 1 ? *array_at(x, n - 1) : NULL;
}

/* Removes the arrays from a view's states, and returns in bits which there were. */
static uint32_t take_out_arrays(slot_state *s)
{
    uint32_t there = 0;
    for (int i = 0; s && i <= PLAN_MAX_STATES; i++)
        there |= *array_at(s, i) ? 1u << i : 0;
    drop_arrays(s);
    return there;
}

int states_give(const server_state *s, const char *at, int64_t bytes, buf *out, kv_err *e)
{
    own_view view = view_of(s->store);
    TRY(view_listed(&view, s, &at, at + bytes, e));
    for (int64_t i = 0; i < view.slots.n; i++) {
        uint32_t there = take_out_arrays(view.slots.items[i].state);
        buf_put(out, (const char *)&there, sizeof there);
    }
    TRY(buf_check(out, e));
    return view_print(out, &view, false, e);
}

int states_take(server_state *s, const char *at, int64_t bytes, kv_err *e)
{
    const char *end = at + bytes;
    own_view view = view_of(s->store);
    TRY(view_listed(&view, s, &at, end, e));
    TRY(view_read(&view, at, end - at, false, false, e));
    for (int64_t i = 0; i < view.slots.n; i++) {
        slot *x = &view.slots.items[i];
        view_take_slot(x, &s->store->slots.items[s->parts[x->key.id]->slot]);
    }
    return KV_OK;
}

/* ---- Between the servers and a worker's slots ---- */

/* A part of a worker's key. */
typedef struct key_part {
    int64_t slot;
    int32_t number;
} key_part;

/* Advances to the next part that lives on a server; the first x is {0, -1}. */
static bool next_part(const worker *w, int server, key_part *x)
{
    for (x->number++; x->slot < w->store->slots.n; x->slot++, x->number = 0) {
        const place *p = &w->keys[x->slot].place;
        for (; x->number < p->nparts; x->number++)
            if (place_server(p, x->number, w->how.servers) == server)
                return true;
    }
    return false;
}

static optimizer_form form_at(const optimizer *o, int i, const slot *s)
{
    return optimizer_state_form(o, i < PLAN_MAX_STATES ? i : -1, s);
}

/* Where a part begins in an array of its key, which has the key's elements, or one for each row. */
static char *begin_in(const kv_array *whole, const place *p, int32_t number)
{
    bool by_row = whole->size < p->size;
    if (number == 0 || !kv_assert(!by_row || p->row > 0, "a part cuts a row, which has a state"))
        return whole->data;
    int64_t from = place_from(p, number) / (by_row ? p->row : 1);
    return (char *)whole->data + from * kv_dtype_bytes((kv_dtype)whole->dtype);
}

/* Replaces the arrays of a whole key in a slot by those of one part of it. */
static int cut_arrays(slot *to, const optimizer *o, const place *p, int32_t number, kv_err *e)
{
    for (int i = 0; to->state && i <= PLAN_MAX_STATES; i++) {
        kv_array **at = array_at(to->state, i), *whole = *at;
        if (!whole)
            continue;
        optimizer_form f = form_at(o, i, to);
        TRY(kv_array_wrap(at, begin_in(whole, p, number), f.dtype, f.ndim, f.shape, whole->ctx,
                          NULL, NULL, e));
        kv_array_unref(whole);
    }
    return KV_OK;
}

/* Adds a part to a view, whose key is the part's number; its array has a shape and no elements. */
static int view_add_part(kv *view, const worker *w, key_part x, bool with_states, kv_err *e)
{
    static const char nothing;
    const slot *s = &w->store->slots.items[x.slot];
    const place *p = &w->keys[x.slot].place;
    int64_t shape[KV_MAX_NDIM];
    int ndim =
        place_shape(p, place_count(p, x.number), s->stored->ndim, array_shape(s->stored), shape);
    kv_array *a;
    TRY(kv_array_wrap(&a, (void *)(uintptr_t)&nothing, kv_array_dtype(s->stored), ndim, shape,
                      (kv_ctx){KV_CPU, 0}, NULL, NULL, e));
    TRY(view_add(view, &(kv_key){.id = p->first + x.number}, a, with_states ? s : NULL, e));
    if (!with_states)
        return KV_OK;
    slot *added = &view->slots.items[view->slots.n - 1];
    return cut_arrays(added, view->updater.optimizer, p, x.number, e);
}

/* A view of the parts on a server, and a list of them for a call. */
static int view_of_server(kv *view, buf *list, const worker *w, int server, bool with_states,
                          kv_err *e)
{
    *view = view_of(w->store);
    view->compression = (compression){0}; /* residuals are the workers' */
    for (key_part x = {0, -1}; next_part(w, server, &x);)
        TRY(view_add_part(view, w, x, with_states, e));
    const slot_table *t = &view->slots;
    buf_put(list, (const char *)&t->n, sizeof t->n);
    for (int64_t i = 0; i < t->n; i++)
        buf_put(list, (const char *)&t->items[i].key.id, sizeof t->items[i].key.id);
    return buf_check(list, e);
}

static int call_server(const worker *w, int server, dist_ask ask, const buf *b, void **reply,
                       int64_t *bytes, kv_err *e)
{
    net_call c = worker_call(w, server, ask);
    c.data = b->data;
    c.bytes = (int64_t)b->len;
    return net_call_wait(&c, reply, bytes, e);
}

/* The bits of all arrays that keys of this optimizer can have. */
static uint32_t possible_arrays(const optimizer *o)
{
    uint32_t bits = 1u << PLAN_MAX_STATES; /* a master */
    for (int i = 0; i < o->nstates; i++)
        bits |= o->states[i].how != STATE_KEY && o->states[i].how != STATE_SHARED ? 1u << i : 0;
    return bits;
}

/* Takes the numbers of the parts on a server. arrays[i] keeps the bits of those arrays that all
 * parts of slot i have. there: the bits of each part of the view, see states_give. */
static int take_parts(worker *w, int server, const kv *view, const uint32_t *there,
                      uint32_t *arrays, kv_err *e)
{
    int64_t i = 0;
    for (key_part x = {0, -1}; next_part(w, server, &x); i++) {
        const slot *from = &view->slots.items[i];
        slot *to = &w->store->slots.items[x.slot];
        if (there[i] & ~possible_arrays(w->store->updater.optimizer))
            return ask_malformed(e);
        arrays[x.slot] &= there[i];
        bool some = from->state || there[i];
        if (some && !to->state && !(to->state = mem_zalloc(1, sizeof *to->state, e)))
            return KV_E_MEMORY;
        if (w->how.is_async && x.number == 0) {
            /* The servers count by themselves: the key's number of updates, and its numbers. */
            to->updates = from->updates;
            if (to->state)
                to->state->have = from->state ? from->state->have : 0;
            if (from->state)
                memcpy(to->state->numbers, from->state->numbers, sizeof to->state->numbers);
        }
    }
    return KV_OK;
}

/* Takes the numbers of one server; *shared becomes those that all its keys share. */
static int ask_server(worker *w, int server, uint32_t *arrays, optimizer_draft *shared, kv_err *e)
{
    optimizer *o = w->store->updater.optimizer;
    optimizer_draft mine;
    own_view view = {0};
    own_buf list = {0};
    own_mem void *reply = NULL;
    int64_t bytes = 0;
    optimizer_begin(o, &mine);
    int rc = view_of_server(&view, &list, w, server, false, e);
    int64_t head = view.slots.n * (int64_t)sizeof *arrays;
    if (!rc && (rc = call_server(w, server, ASK_STATES, &list, &reply, &bytes, e)) == KV_OK &&
        (rc = bytes <= head ? ask_malformed(e) : KV_OK) == KV_OK && /* it has an image always */
        (rc = view_read(&view, (char *)reply + head, bytes - head, true, false, e)) == KV_OK)
        rc = take_parts(w, server, &view, reply, arrays, e);
    optimizer_begin(o, shared);
    optimizer_commit(o, &mine);
    return rc;
}

/* Begins to pull array i of slots from `from` to `to`, of those that have it. */
static int pull_array(worker *w, int i, int64_t from, int64_t to, const uint32_t *arrays,
                      array_reuse *memory, kv_err *e)
{
    int64_t numbers[REQUEST_PAIRS], n = 0;
    kv_array *outs[REQUEST_PAIRS];
    for (int64_t at = from; at < to; at++) {
        slot *s = &w->store->slots.items[at];
        if (!(arrays[at] >> i & 1))
            continue;
        kv_array **a = array_at(s->state, i);
        optimizer_form f = form_at(w->store->updater.optimizer, i, s);
        kv_assert(!*a, "a worker's slot holds array %d of the states that the servers keep", i);
        TRY(array_reuse_get(memory, a, f.dtype, f.ndim, f.shape, e));
        numbers[n] = at;
        outs[n++] = *a;
    }
    return n ? request_pull_states(w, numbers, outs, n, i + 1, e) : KV_OK;
}

/* Begins to pull all arrays, in the order in which the next round will change them: large keys one
 * at a time, small ones in few requests. */
static int pull_arrays(worker *w, const uint32_t *arrays, array_reuse *memory, kv_err *e)
{
    enum { TOGETHER = 1 << 18 /* elements, about */ };
    const slot_table *t = &w->store->slots;
    for (int64_t from = 0, to; from < t->n; from = to) {
        int64_t size = 0;
        uint32_t some = 0;
        for (to = from; to < t->n && to - from < REQUEST_PAIRS && size < TOGETHER; to++) {
            size += w->keys[to].place.size;
            some |= arrays[to];
        }
        for (int i = 0; i <= PLAN_MAX_STATES; i++)
            if (some >> i & 1)
                TRY(pull_array(w, i, from, to, arrays, memory, e));
    }
    return KV_OK;
}

int states_pull(worker *w, array_reuse *memory, kv_err *e)
{
    const optimizer *o = w->store->updater.optimizer;
    int64_t n = w->store->slots.n;
    own_mem uint32_t *arrays = mem_alloc(n, sizeof *arrays, e);
    TRY(arrays ? state_file_check(w->store, e) : KV_E_MEMORY);
    for (int64_t i = 0; i < n; i++)
        arrays[i] = UINT32_MAX;
    /* The numbers that all keys share are the worker's own; where servers count by themselves,
     * they are those of the server with the largest count. */
    optimizer_draft best = {0}, shared;
    for (int i = 0; i < w->how.servers; i++) {
        TRY(ask_server(w, i, arrays, &shared, e));
        if (i == 0 || shared.num_update > best.num_update)
            best = shared;
    }
    if (w->how.is_async)
        optimizer_commit(w->store->updater.optimizer, &best);
    for (int64_t i = 0; i < n; i++) {
        slot_state *s = w->store->slots.items[i].state;
        if (s && w->how.is_async) /* some parts of a key may have states that others still lack */
            s->have &= arrays[i] | ~possible_arrays(o);
    }
    return pull_arrays(w, arrays, memory, e);
}

/* Pulls the states and waits for their elements. The worker has no other operation under way. */
static int gather(worker *w, kv_err *e)
{
    kv_err unused = {0};
    int rc = states_pull(w, NULL, e);
    engine_wait_group(&w->store->calls.group, 0);
    int late = engine_take_error(&w->store->calls.group, rc ? &unused : e);
    return rc ? rc : late;
}

void states_drop(const worker *w)
{
    for (int64_t i = 0; i < w->store->slots.n; i++) {
        drop_arrays(w->store->slots.items[i].state);
        rank_residuals_drop_others(&w->store->slots.items[i]);
    }
}

/* ---- Mail between workers, by way of the coordinator ---- */

static int send_mail(const worker *w, int to, mail_tag tag, const buf *b, kv_err *e)
{
    TRY(buf_check(b, e));
    return worker_ask(w, ASK_SEND, (link_args){.mail = {to, tag}}, b, NULL, NULL, e);
}

/* *data is released with mem_free. */
static int receive_mail(const worker *w, int from, mail_tag tag, void **data, int64_t *bytes,
                        kv_err *e)
{
    return worker_ask(w, ASK_RECEIVE, (link_args){.mail = {from, tag}}, NULL, data, bytes, e);
}

/* The keys of a worker with their numbers, and with the residuals of one rank at position 0. */
static int view_of_rank(kv *view, const worker *w, int rank, kv_err *e)
{
    *view = view_of(w->store);
    for (int64_t i = 0; i < w->store->slots.n; i++) {
        const slot *s = &w->store->slots.items[i];
        TRY(view_add(view, &s->key, kv_array_ref(s->stored), s, e));
        drop_arrays(view->slots.items[i].state);
        TRY(rank_residuals_share(&view->slots.items[i].residuals, s, rank, e));
    }
    return KV_OK;
}

static int send_residuals(const worker *w, mail_tag tag, kv_err *e)
{
    own_view view = {0};
    own_image im = {0};
    own_buf b = {0};
    TRY(view_of_rank(&view, w, link_rank(), e));
    residual_parts_add(&im, &view.compression, &view.slots);
    TRY(image_finish(&im, e));
    TRY(image_print(&b, &im, SOURCE, e));
    return send_mail(w, 0, tag, &b, e);
}

static int read_residuals(const worker *w, int rank, const void *data, int64_t bytes, kv_err *e)
{
    own_checkpoint *f = NULL;
    own_residual_parts parts = {0};
    const slot_table *t = &w->store->slots;
    TRY(checkpoint_open_memory(&f, data, (size_t)bytes, SOURCE, e));
    TRY(residual_parts_read(&parts, f, SOURCE, t, e));
    for (int64_t i = 0; i < t->n; i++)
        TRY(rank_residuals_take(&t->items[i], rank, parts.items[i], e));
    return KV_OK;
}

/* ---- save ---- */

/* The beginning of the message in which rank 0 tells the others how a file went. */
typedef struct result {
    kv_err why;
    int64_t keys; /* bytes of the keys that follow; an image is behind them */
    int64_t kept; /* not 0: it has the states of the job's checkpoint */
} result;

static int take_result(const char *data, int64_t bytes, result *r, kv_err *e)
{
    if (bytes < (int64_t)sizeof *r)
        return ask_malformed(e);
    memcpy(r, data, sizeof *r);
    return r->why.code ? ask_error(e, &r->why, sizeof r->why) : KV_OK;
}

/* The other ranks wait for rank 0's result. If rank 0 lacks the memory to send it, they would wait
 * until their timeout, so this rank reports that it cannot serve. */
static void must_be_told(int rc, const kv_err *e)
{
    if (rc == KV_E_MEMORY)
        net_cannot_serve(e);
}

/* Calls use while the slots of rank 0 hold all states and residuals. */
static int collect(worker *w, int (*use)(void *arg, kv_err *e), void *arg, kv_err *e)
{
    bool compressed = w->store->compression.code != 0;
    int rc = gather(w, e);
    for (int i = 1; compressed && i < w->how.workers && !rc; i++) {
        own_mem void *data = NULL;
        int64_t bytes = 0;
        rc = receive_mail(w, i, MAIL_RESIDUALS, &data, &bytes, e);
        if (!rc && bytes > 0) /* else the rank is gone */
            rc = read_residuals(w, i, data, bytes, e);
    }
    if (!rc && (rc = rank_residuals_complete(w, e)) == KV_OK)
        rc = use(arg, e);
    states_drop(w);
    return rc;
}

/* All ranks get rank 0's result. */
static int save_together(worker *w, int (*use)(void *arg, kv_err *e), void *arg, kv_err *e)
{
    result r = {0};
    kv_err failed = {0};
    buf b = {0};
    int rc = collect(w, use, arg, &r.why);
    buf_put(&b, (const char *)&r, sizeof r);
    for (int i = 1; i < w->how.workers; i++)
        must_be_told(send_mail(w, i, MAIL_SAVED, &b, &failed), &failed);
    buf_release(&b);
    if (rc)
        *e = r.why;
    return rc;
}

static int wait_saved(const worker *w, kv_err *e)
{
    result r;
    own_mem void *data = NULL;
    int64_t bytes = 0;
    TRY(w->store->compression.code ? send_residuals(w, MAIL_RESIDUALS, e) : KV_OK);
    TRY(receive_mail(w, 0, MAIL_SAVED, &data, &bytes, e));
    return take_result(data, bytes, &r, e);
}

/* The next mail of a rank comes behind a round to which rank 0 has contributed: when this one was
 * received. */
int states_checkpoint(worker *w, bool last, int (*use)(void *arg, kv_err *e), void *arg, kv_err *e)
{
    if (link_rank() == 0)
        return collect(w, use, arg, e);
    return send_residuals(w, last ? MAIL_LAST_RESIDUALS : MAIL_RESIDUALS, e);
}

/* ---- load ---- */

/* The image that goes to another rank has numbers, the rank's residuals, and the rule if it is a
 * new one. */
static int send_loaded(const worker *w, int rank, const kv_err *why, bool new_rule, bool kept,
                       kv_err *e)
{
    result r = {.why = *why, .kept = kept};
    own_view view = {0};
    own_buf b = {0};
    buf_put(&b, (const char *)&r, sizeof r);
    if (!why->code) {
        /* The keys that rank 0 knows, and where they live: another rank may not have heard of all.
         */
        for (int64_t i = 0; i < w->store->slots.n; i++) {
            const slot *s = &w->store->slots.items[i];
            ask_key k = worker_key_like(w, &s->key, s->stored);
            k.place = w->keys[i].place;
            ask_put_key(&b, &k, s->key.name);
        }
        r.keys = (int64_t)(b.len - sizeof r);
        TRY(buf_check(&b, e));
        memcpy(b.data, &r, sizeof r);
        TRY(view_of_rank(&view, w, rank, e));
        TRY(view_print(&b, &view, new_rule, e));
    }
    return send_mail(w, rank, MAIL_LOADED, &b, e);
}

static int view_keys(kv *view, worker *w, const char *at, const char *end, kv_err *e)
{
    while (at < end) {
        kv_key key;
        const ask_key *k = ask_get_key(&at, end, &key);
        int64_t i = k ? worker_know(w, k, &key, e) : -1;
        if (i < 0)
            return k ? (int)e->code : ask_malformed(e);
        const slot *s = &w->store->slots.items[i];
        TRY(view_add(view, &s->key, kv_array_ref(s->stored), NULL, e));
    }
    return KV_OK;
}

/* Sets the rule of a file for all ranks, which call it: the servers get it from rank 0. */
static int set_rule(worker *w, const optimizer *o, kv_err *e)
{
    return worker_set_optimizer(w, "rule", o->rule->text, o->params->given,
                                o->params->n, e);
}

/* Makes the rule of the view that of this rank. */
static void take_updater(worker *w, const kv *view)
{
    updater_release(&w->store->updater);
    w->store->updater = view->updater;
}

/* Sets the rule of the view on the servers, then on this rank, whose slots get the view's
 * states. */
static int take_view(worker *w, kv *view, kv_err *e)
{
    slot_table *t = &w->store->slots;
    if (view->updater.optimizer != w->store->updater.optimizer) {
        int rc = set_rule(w, view->updater.optimizer, e);
        if (rc) {
            updater_release(&view->updater);
            return rc;
        }
        take_updater(w, view);
    }
    for (int64_t i = 0; i < view->slots.n; i++) {
        slot *from = &view->slots.items[i], *to = &t->items[slot_find(t, &from->key, i)];
        view_take_slot(from, to);
        residuals_free(to->residuals);
        to->residuals = NULL;
        TRY(rank_residuals_take(to, link_rank(), from->residuals, e));
    }
    w->store->changes++;
    return KV_OK;
}

static int take_loaded(worker *w, const char *data, int64_t bytes, kv_err *e)
{
    const char *keys = data + sizeof(result), *end = data + bytes;
    result r = {0};
    TRY(take_result(data, bytes, &r, e));
    if (r.keys < 0 || r.keys > end - keys)
        return ask_malformed(e);
    const char *states = keys + r.keys;
    own_view view = view_of(w->store);
    TRY(view_keys(&view, w, keys, states, e));
    TRY(view_read(&view, states, end - states, true, true, e));
    TRY(take_view(w, &view, e));
    if (r.kept)
        checkpoint_drop_states(w);
    return KV_OK;
}

/* A file may bring a rule of its own: the servers need it before its states. The checkpoint from
 * which the job goes on holds over the file. Keys of the checkpoint that do not exist yet may still
 * come before the first push, and then its states do. */
static int load_together(worker *w, int (*use)(void *arg, kv_err *e), void *arg, kv_err *e)
{
    const optimizer *before = w->store->updater.optimizer;
    kv_err why = {0}, failed = {0};
    bool kept = w->checkpoint.has_states && (!use || w->checkpoint.left == 0);
    int rc = use ? use(arg, &why) : KV_OK;
    bool new_rule = w->store->updater.optimizer != before;
    if (!rc && kept)
        rc = checkpoint_read_states(w, &why);
    if (!rc)
        rc = rank_residuals_fold(w, &why);
    if (!rc && new_rule)
        rc = set_rule(w, w->store->updater.optimizer, &why);
    w->loaded_rule |= new_rule && !rc;
    for (int i = 0; i < w->how.servers && !rc; i++) {
        own_view view = {0};
        own_buf b = {0};
        rc = view_of_server(&view, &b, w, i, true, &why);
        if (!rc && (rc = view_print(&b, &view, false, &why)) == KV_OK)
            rc = call_server(w, i, ASK_SET_STATES, &b, NULL, NULL, &why);
    }
    for (int i = 1; i < w->how.workers; i++)
        must_be_told(send_loaded(w, i, &why, new_rule, kept, &failed), &failed);
    states_drop(w);
    if (rc)
        *e = why;
    else if (kept)
        checkpoint_drop_states(w);
    return rc;
}

/* ---- A newcomer ---- */

int states_put_updater(const worker *w, buf *out, kv_err *e)
{
    kv view = view_of(w->store);
    view.compression = (compression){0};
    return view_print(out, &view, true, e);
}

/* What the script loads has been loaded by the others: of it a newcomer lacks the rule alone. */
static int catch_up(worker *w, kv_err *e)
{
    int64_t bytes;
    const char *at = newcomer_updater(w, &bytes);
    kv view = view_of(w->store);
    view.compression = (compression){0};
    TRY(bytes ? view_read(&view, at, bytes, true, true, e) : KV_OK);
    if (view.updater.optimizer != w->store->updater.optimizer)
        take_updater(w, &view);
    w->store->changes++;
    return KV_OK;
}

/* ---- All visits ---- */

static int load(worker *w, int (*use)(void *arg, kv_err *e), void *arg, kv_err *e)
{
    if (link_rank() == 0)
        return load_together(w, use, arg, e);
    own_mem void *data = NULL;
    int64_t bytes = 0;
    TRY(receive_mail(w, 0, MAIL_LOADED, &data, &bytes, e));
    return take_loaded(w, data, bytes, e);
}

int states_visit(void *self, kv_states_visit why, int (*use)(void *arg, kv_err *e), void *arg,
                 kv_err *e)
{
    worker *w = self;
    bool has_states = w->checkpoint.has_states; /* which the servers lack */
    int rc = KV_OK;
    if (why != KV_STATES_LOOK && newcomer_catches_up(w))
        return why == KV_STATES_LOAD ? catch_up(w, e) : KV_OK;
    switch (why) {
    case KV_STATES_LOOK:
        if (has_states)
            rc = checkpoint_read_states(w, e);
        else if (w->store->updater.kind == UPDATER_RULE)
            rc = gather(w, e);
        rc = rc ? rc : use(arg, e);
        states_drop(w);
        break;
    case KV_STATES_SAVE:
        rc = has_states ? load(w, NULL, NULL, e) : KV_OK;
        if (!rc)
            rc = link_rank() == 0 ? save_together(w, use, arg, e) : wait_saved(w, e);
        break;
    case KV_STATES_LOAD:
        rc = load(w, use, arg, e);
        break;
    }
    return rc;
}
