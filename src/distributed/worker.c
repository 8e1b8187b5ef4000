/* The operations of the types: keys and their places, init, optimizers, the barrier. Pulls of some
 * rows are in worker_rows.c, sums of the types that keep nothing in request_sum.c. */
#include "distributed/worker.h"

#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "core/builtin.h"
#include "core/call.h"
#include "core/kv_rule.h"
#include "distributed/backpressure.h"
#include "distributed/server.h"
#include "distributed/types.h"

/* ---- Calls ---- */

static net_call to_server(const worker *w, int server, dist_ask what)
{
    return (net_call){.rank = server_rank(server), .what = what, .store = w->number,
                      .name = ask_name(what)};
}

/* The same call to every server. */
static int to_all(const worker *w, net_call c, kv_err *e)
{
    int n = server_count();
    net_call *calls = mem_alloc(n, sizeof *calls, e);
    if (!calls)
        return KV_E_MEMORY;
    for (int i = 0; i < n; i++) {
        calls[i] = c;
        calls[i].rank = server_rank(i);
        calls[i].store = w->number;
        calls[i].name = ask_name((dist_ask)c.what);
    }
    int rc = net_calls_wait(calls, n, NULL, NULL, e);
    mem_free(calls);
    return rc;
}

static int to_coordinator(const worker *w, dist_ask what, link_args args, const buf *b,
                          void **reply, int64_t *bytes, kv_err *e)
{
    net_call c = to_server(w, 0, what);
    c.args = args;
    c.data = b ? b->data : NULL;
    c.bytes = b ? (int64_t)b->len : 0;
    return net_call_wait(&c, reply, bytes, e);
}

/* ---- Making and releasing ---- */

static int read_options(worker *w, const kv_opt *opts, int nopts, kv_err *e)
{
    w->how.staleness = -1;
    for (int i = 0; i < nopts; i++) {
        char *end;
        bool known = w->how.is_async && strcmp(opts[i].name, "staleness") == 0;
        if (!known)
            return kv_err_set(e, KV_E_USAGE, "the type \"%s\" has no option \"%.64s\"",
                              kv_type(w->store), opts[i].name);
        w->how.staleness = strtoll(opts[i].value, &end, 10);
        if (end == opts[i].value || *end || w->how.staleness < 0)
            return kv_err_set(e, KV_E_VALUE, "staleness is a number from 0 on, not \"%.64s\"",
                              opts[i].value);
    }
    return KV_OK;
}

static int refuse_server(kv_err *e)
{
    return kv_err_set(e, KV_E_USAGE, "this rank is a server: it makes no stores");
}

int worker_open(kv *store, const dist_type *type, const kv_opt *opts, int nopts, void **self,
                kv_err *e)
{
    worker *w = mem_zalloc(1, sizeof *w, e);
    if (!w)
        return KV_E_MEMORY;
    w->store = store;
    w->how.is_async = type->is_async;
    w->how.sums = type->sums;
    snprintf(w->how.type, sizeof w->how.type, "%s", type->ops->names[0]);
    int rc = read_options(w, opts, nopts, e);
    if (!rc)
        rc = net_open(server_open, e);
    if (!rc && net_rank() >= server_workers())
        rc = refuse_server(e);
    if (!rc)
        rc = kv_create(type->device ? "device" : "local", NULL, 0, &w->sums, e);
    if (!rc && (w->number = net_new_store(e)) < 0)
        rc = KV_E_UNSUPPORTED;
    if (rc) {
        kv_free(w->sums);
        mem_free(w);
        return rc;
    }
    w->ahead = backpressure_bytes();
    w->how.workers = server_workers();
    w->how.servers = server_count();
    net_taker t = {.take = request_take, .lost = request_lost, .self = w};
    net_call c = {.what = ASK_CREATE, .data = &w->how, .bytes = sizeof w->how};
    if ((rc = checkpoint_open(w, e)) == KV_OK) {
        net_set_worker(w->number, &t);
        rc = to_all(w, c, e);
    }
    if (rc) {
        net_set_worker(w->number, &(net_taker){0});
        checkpoint_release(w);
        kv_free(w->sums);
        mem_free(w);
        return rc;
    }
    store->compresses = !type->sums;
    store->compresses_pulls = !type->sums && !type->is_async;
    *self = w;
    return KV_OK;
}

void worker_close(void *self)
{
    worker *w = self;
    kv_err unused = {0};
    checkpoint_close(w);
    to_all(w, (net_call){.what = ASK_FREE}, &unused);
    net_set_worker(w->number, &(net_taker){0});
    kv_free(w->sums);
    mem_free(w->keys);
    mem_free(w);
}

int worker_rank(void *self)
{
    (void)self;
    return net_rank();
}

int worker_count(void *self)
{
    return ((worker *)self)->how.workers;
}

/* ---- Keys ---- */

/* Whether parts of a key may be updated apart. Without rounds every part counts its own updates,
 * so a number that all keys share would advance once for each of them. */
static place_need need_of(const worker *w, const kv_rule *rule)
{
    static const place_need needs[] = {[RULE_CUT_ANYWHERE] = PLACE_ANYWHERE,
                                       [RULE_CUT_BY_ROWS] = PLACE_BY_ROWS,
                                       [RULE_CUT_NOWHERE] = PLACE_WHOLE};
    if (w->how.is_async && rule_has_state(rule->ast, STATE_SHARED))
        return PLACE_WHOLE;
    return needs[rule_cuts(rule->ast)];
}

/* An array without memory for its elements. */
static int new_shape(kv_array **out, const ask_key *k, kv_err *e)
{
    static const char nothing;
    kv_dtype dtype = (kv_dtype)k->dtype;
    if (k->storage == KV_ROW_SPARSE)
        return kv_array_new_sparse(out, dtype, k->ndim, k->shape, 0, NULL, (kv_ctx){KV_CPU, 0}, e);
    return kv_array_wrap(out, (void *)(uintptr_t)&nothing, dtype, k->ndim, k->shape,
                         (kv_ctx){KV_CPU, 0}, NULL, NULL, e);
}

static int add_key(worker *w, const ask_key *k, const kv_key *key, kv_err *e)
{
    slot_table *t = &w->store->slots;
    kv_array *shape = NULL;
    int rc = slot_check_kind(t, key, e);
    if (!rc)
        rc = mem_grow(&w->keys, &w->keys_cap, t->n + 1, sizeof *w->keys, e);
    if (!rc)
        rc = new_shape(&shape, k, e);
    if (!rc && (rc = slot_add(t, key, shape, e)))
        kv_array_unref(shape);
    if (!rc) {
        w->keys[t->n - 1] = (worker_key){.place = k->place};
        checkpoint_know(w, t->n - 1);
    }
    return rc;
}

int64_t worker_know(worker *w, const ask_key *k, const kv_key *key, kv_err *e)
{
    int64_t i = slot_find(&w->store->slots, key, -1);
    if (i < 0)
        return add_key(w, k, key, e) ? -1 : w->store->slots.n - 1;
    worker_key *known = &w->keys[i];
    if (known->place.first != k->place.first) {
        known->place = k->place; /* its rounds begin anew there */
        known->pushes = known->pulls = 0;
    }
    return i;
}

/* Adds the keys that a call lists, each followed by its place. */
static int add_keys(worker *w, const char *at, int64_t bytes, kv_err *e)
{
    const char *end = at + bytes;
    while (at < end) {
        kv_key key;
        const ask_key *k = ask_get_key(&at, end, &key);
        if (!k)
            return ask_malformed(e);
        if (worker_know(w, k, &key, e) < 0)
            return (int)e->code;
    }
    return KV_OK;
}

static ask_key key_like(const worker *w, const kv_key *key, const kv_array *a)
{
    ask_key k = {.id = key->name ? 0 : key->id,
                  .dtype = a->dtype,
                  .storage = a->storage,
                  .ndim = a->ndim};
    memcpy(k.shape, a->shape, a->ndim * sizeof *a->shape);
    if (w->store->updater.kind == UPDATER_RULE)
        k.need = (uint8_t)need_of(w, w->store->updater.optimizer->rule);
    return k;
}

/* Asks the coordinator for places of keys that nobody has, in `list`, and completes them. Keys that
 * are there already have no place; where they must not be, for init, that is an error. */
static int place_keys(worker *w, const kv_key *keys, int64_t n, ask_key *list, bool inits,
                      kv_err *e)
{
    buf b = {0};
    void *reply = NULL;
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; i++)
        ask_put_key(&b, &list[i], keys[i].name);
    int rc = buf_check(&b, e);
    if (!rc)
        rc = to_coordinator(w, ASK_PLACE, (link_args){.inits = inits}, &b, &reply, &bytes, e);
    if (!rc && bytes != n * (int64_t)sizeof(place))
        rc = ask_malformed(e);
    for (int64_t i = 0; i < n && !rc; i++)
        list[i].place = ((const place *)reply)[i];
    mem_free(reply);
    buf_release(&b);
    return rc;
}

/* Sends the first values of keys to the servers of their parts. */
static int send_values(const worker *w, const kv_key *keys, int64_t n, const ask_key *list,
                       kv_array *const *values, bool inits, kv_err *e)
{
    int servers = w->how.servers, rc = KV_OK;
    buf *b = mem_zalloc(servers, sizeof *b, e);
    net_call *calls = mem_alloc(servers, sizeof *calls, e);
    int used = 0;
    if (!b || !calls)
        rc = KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++)
        for (int32_t p = 0; p < list[i].place.nparts && !rc; p++)
            if (list[i].place.first >= 0)
                rc = ask_put_slot(&b[place_server(&list[i].place, p, servers)], &list[i],
                                  keys[i].name, p, values[i], e);
    for (int s = 0; s < servers && !rc; s++) {
        if (!b[s].len)
            continue;
        calls[used] = to_server(w, s, ASK_INIT);
        calls[used].args.inits = inits;
        calls[used].data = b[s].data;
        calls[used++].bytes = (int64_t)b[s].len;
    }
    if (!rc && used)
        rc = net_calls_wait(calls, used, NULL, NULL, e);
    for (int s = 0; b && s < servers; s++)
        buf_release(&b[s]);
    mem_free(b);
    mem_free(calls);
    return rc;
}

/* Makes keys that nobody has yet, with these values; where nothing is stored, with their shapes. */
static int make_keys(worker *w, const kv_key *keys, int64_t n, kv_array *const *values,
                     bool inits, kv_err *e)
{
    buf b = {0};
    ask_key *list = mem_alloc(n, sizeof *list, e);
    if (!list)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        list[i] = key_like(w, &keys[i], values[i]);
    int rc = place_keys(w, keys, n, list, inits, e);
    if (!rc && !w->how.sums)
        rc = send_values(w, keys, n, list, values, inits, e);
    for (int64_t i = 0; i < n; i++)
        if (list[i].place.first >= 0)
            ask_put_key(&b, &list[i], keys[i].name);
    if (!rc && (rc = buf_check(&b, e)) == KV_OK && b.len)
        rc = to_coordinator(w, ASK_READY, (link_args){0}, &b, NULL, NULL, e);
    if (!rc)
        rc = add_keys(w, buf_text(&b), (int64_t)b.len, e);
    buf_release(&b);
    mem_free(list);
    return rc;
}

/* Asks for keys that the first worker makes; any: or whoever pushes to them. */
static int ask_keys(worker *w, const kv_key *keys, int64_t n, bool any, kv_err *e)
{
    buf b = {0};
    void *reply = NULL;
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; i++)
        ask_put_key(&b, &(ask_key){.id = keys[i].id}, keys[i].name);
    int rc = buf_check(&b, e);
    if (!rc)
        rc = to_coordinator(w, ASK_FIND, (link_args){.any = any}, &b, &reply, &bytes, e);
    if (!rc)
        rc = add_keys(w, reply, bytes, e);
    mem_free(reply);
    buf_release(&b);
    return rc;
}

static int unknown_key(const kv_key *key, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    kv_err_set(e, KV_E_KEY, "key %s was never initialised", slot_key_text(text, key));
    return kv_err_key(e, key);
}

/* The first values of keys that a push makes: zeros, which no sum will contain. */
static int make_zeros(worker *w, const kv_key *keys, int64_t n, kv_array *const *like, kv_err *e)
{
    kv_array **zeros = mem_zalloc(n, sizeof *zeros, e);
    int rc = zeros ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        const kv_array *a = like[i];
        kv_ctx cpu = {KV_CPU, 0};
        rc = a->storage == KV_ROW_SPARSE
                 ? kv_array_new_sparse(&zeros[i], a->dtype, a->ndim, a->shape, 0, NULL, cpu, e)
                 : kv_array_new(&zeros[i], a->dtype, a->ndim, a->shape, cpu, e);
    }
    if (!rc)
        rc = make_keys(w, keys, n, zeros, false, e);
    for (int64_t i = 0; zeros && i < n; i++)
        kv_array_unref(zeros[i]);
    mem_free(zeros);
    return rc;
}

/* The pairs whose keys this rank does not know, each key once. */
typedef struct missing {
    kv_key *keys;
    kv_array **like;
    int64_t n;
} missing;

static int collect_missing(const worker *w, const kv_key *keys, int64_t n, kv_array *const *make,
                           const int64_t *numbers, missing *m, kv_err *e)
{
    map seen = {0};
    *m = (missing){.keys = mem_alloc(n, sizeof *m->keys, e),
                   .like = mem_alloc(n, sizeof *m->like, e)};
    int rc = m->keys && m->like ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        if (numbers[i] >= 0 || map_get(&seen, keys[i]) >= 0)
            continue;
        if ((rc = slot_check_kind(&w->store->slots, &keys[i], e)))
            break;
        rc = map_put(&seen, keys[i], m->n, e);
        m->keys[m->n] = keys[i];
        m->like[m->n++] = make ? make[i] : NULL;
    }
    map_release(&seen);
    return rc;
}

int worker_find(worker *w, const kv_key *keys, int64_t n, kv_array *const *make, int64_t *numbers,
                kv_err *e)
{
    slot_table *t = &w->store->slots;
    int64_t absent = 0, guess = 0;
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = slot_find(t, &keys[i], guess);
        absent += numbers[i] < 0;
        guess = numbers[i] + 1;
    }
    if (absent == 0)
        return KV_OK;
    missing m;
    int rc = collect_missing(w, keys, n, make, numbers, &m, e);
    if (!rc && make) {
        rc = w->how.sums ? make_keys(w, m.keys, m.n, m.like, false, e)
                         : make_zeros(w, m.keys, m.n, m.like, e);
        if (!rc)
            rc = ask_keys(w, m.keys, m.n, true, e);
    } else if (!rc && net_rank() == 0) {
        rc = unknown_key(&m.keys[0], e); /* what there is, this rank has made */
    } else if (!rc) {
        rc = ask_keys(w, m.keys, m.n, false, e);
    }
    mem_free(m.keys);
    mem_free(m.like);
    for (int64_t i = 0; i < n && !rc; i++)
        if (numbers[i] < 0 && (numbers[i] = slot_find(t, &keys[i], -1)) < 0)
            rc = unknown_key(&keys[i], e);
    return rc;
}

int worker_await_key(void *self, const kv_key *key, kv_err *e)
{
    int64_t number;
    return worker_find(self, key, 1, NULL, &number, e);
}

/* ---- init ---- */

static int check_new(const worker *w, const kv_key *keys, int64_t n, kv_array *const *values,
                     kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    map seen = {0};
    int rc = KV_OK;
    for (int64_t i = 0; i < n && !rc; i++) {
        const slot_table *t = &w->store->slots;
        int64_t number = slot_find(t, &keys[i], -1);
        bool twice = map_get(&seen, keys[i]) >= 0;
        if ((rc = slot_check_kind(t, &keys[i], e)))
            break;
        if (w->store->compression.code)
            rc = compression_check(&keys[i], values[i], e);
        if (!rc && (twice || (number >= 0 && w->keys[number].inited))) {
            rc = kv_err_set(e, KV_E_KEY, twice ? "key %s stands twice in the call"
                                               : "key %s is initialised already",
                            slot_key_text(text, &keys[i]));
            kv_err_key(e, &keys[i]);
        }
        if (!rc)
            rc = map_put(&seen, keys[i], i, e);
    }
    map_release(&seen);
    return rc;
}

/* What this rank would have made is what the first one made. */
static int check_same(const worker *w, const kv_key *key, int64_t number, const kv_array *value,
                      kv_err *e)
{
    const slot *s = &w->store->slots.items[number];
    int rc = call_check_shape(s, value, "value", e);
    if (!rc && value->dtype != s->stored->dtype) {
        rc = kv_err_set(e, KV_E_DTYPE, "rank 0 initialised the key as %s, this value is %s",
                        kv_dtype_name((kv_dtype)s->stored->dtype),
                        kv_dtype_name((kv_dtype)value->dtype));
        kv_err_key(e, key);
    }
    return rc;
}

/* The keys of a call of init begin with their values, or with those of a checkpoint. */
static int make_first(worker *w, const kv_key *keys, int64_t n, kv_array *const *values, kv_err *e)
{
    kv_array **first = mem_alloc(n, sizeof(kv_array *), e);
    int rc = first ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++)
        rc = checkpoint_value(w, &keys[i], values[i], &first[i], e);
    if (!rc)
        rc = make_keys(w, keys, n, first, true, e);
    mem_free(first);
    return rc;
}

int worker_init(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                const kv_call *how, kv_err *e)
{
    worker *w = self;
    (void)how;
    int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    int rc = numbers ? check_new(w, keys, n, values, e) : KV_E_MEMORY;
    if (!rc && net_rank() == 0)
        rc = make_first(w, keys, n, values, e);
    if (!rc)
        rc = worker_find(w, keys, n, NULL, numbers, e);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = check_same(w, &keys[i], numbers[i], values[i], e);
    for (int64_t i = 0; i < n && !rc; i++)
        w->keys[numbers[i]].inited = true;
    w->store->changes += rc == KV_OK;
    mem_free(numbers);
    return rc;
}

/* ---- Push and pull ---- */

int worker_push(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                const kv_call *how, kv_err *e)
{
    return request_push(self, keys, n, values, how, e);
}

/* Arrays that are filled by rows are pulled as dense ones first. */
static int pull_filled(worker *w, const kv_key *keys, int64_t n, kv_array *const *outs,
                       const kv_call *how, kv_err *e)
{
    kv_array **dense = mem_zalloc(n, sizeof *dense, e);
    int rc = dense ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++)
        rc = outs[i]->storage == KV_DEFAULT
                 ? (dense[i] = kv_array_ref(outs[i]), KV_OK)
                 : kv_array_new_raw(&dense[i], outs[i]->dtype, outs[i]->ndim, outs[i]->shape,
                                    outs[i]->ctx, e);
    if (!rc)
        rc = request_pull(w, keys, n, dense, how, e);
    for (int64_t i = 0; i < n && !rc; i++)
        if (outs[i]->storage != KV_DEFAULT)
            rc = kv_array_copy(outs[i], dense[i], e);
    for (int64_t i = 0; dense && i < n; i++)
        kv_array_unref(dense[i]);
    mem_free(dense);
    return rc;
}

/* Pulls into the default ones among outs; the pairs of the others are right or wrong all the same.
 */
static int pull_some(worker *w, const kv_key *keys, int64_t n, kv_array *const *outs,
                     const kv_call *how, kv_err *e)
{
    int64_t kept = 0;
    kv_key *some_keys = mem_alloc(n, sizeof *some_keys, e);
    kv_array **some = mem_alloc(n, sizeof *some, e);
    int64_t *numbers = mem_alloc(n, sizeof *numbers, e);
    int rc = some_keys && some && numbers ? worker_find(w, keys, n, NULL, numbers, e) : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        rc = call_check_shape(&w->store->slots.items[numbers[i]], outs[i], "array", e);
        if (outs[i]->storage == KV_DEFAULT) {
            some_keys[kept] = keys[i];
            some[kept++] = outs[i];
        }
    }
    if (!rc && kept > 0)
        rc = request_pull(w, some_keys, kept, some, how, e);
    mem_free(numbers);
    mem_free(some);
    mem_free(some_keys);
    return rc;
}

int worker_pull(void *self, const kv_key *keys, int64_t n, kv_array *const *outs,
                const kv_call *how, kv_err *e)
{
    bool sparse = false;
    for (int64_t i = 0; i < n && !sparse; i++)
        sparse = outs[i]->storage != KV_DEFAULT;
    if (!sparse)
        return request_pull(self, keys, n, outs, how, e);
    return how && how->flags & KV_FILL_SPARSE ? pull_filled(self, keys, n, outs, how, e)
                                              : pull_some(self, keys, n, outs, how, e);
}

/* ---- Calls to all servers ---- */

int worker_done(void *self, kv_err *e)
{
    worker *w = self;
    checkpoint_end(w);
    int rc = to_all(w, (net_call){.what = ASK_DONE}, e);
    w->done |= rc == KV_OK;
    return rc;
}

int worker_command(void *self, int head, const char *body, kv_err *e)
{
    net_call c = {.what = ASK_COMMAND, .args.head = head, .data = body,
                  .bytes = (int64_t)strlen(body) + 1};
    return to_all(self, c, e);
}

/* ---- Optimizers ---- */

/* A place for a key that was cut. */
static int place_whole(worker *w, const kv_key *key, ask_key *k, kv_err *e)
{
    k->need = PLACE_WHOLE;
    int rc = place_keys(w, key, 1, k, false, e);
    if (!rc && k->place.first < 0)
        rc = kv_err_set(e, KV_E_INTERNAL, "a key that was cut stays where it is");
    return rc;
}

static int tell_ready(worker *w, const kv_key *key, const ask_key *k, kv_err *e)
{
    buf b = {0};
    ask_put_key(&b, k, key->name);
    int rc = buf_check(&b, e);
    if (!rc)
        rc = to_coordinator(w, ASK_READY, (link_args){0}, &b, NULL, NULL, e);
    buf_release(&b);
    return rc;
}

/* Moves a key from its parts to one server. */
static int make_whole(worker *w, int64_t number, kv_err *e)
{
    const slot *s = &w->store->slots.items[number];
    place old = w->keys[number].place;
    kv_key key = s->key;
    kv_array *value = NULL;
    ask_key k = key_like(w, &key, s->stored);
    int rc = worker_pull_stored(w, s, &value, e);
    if (!rc)
        rc = place_whole(w, &key, &k, e);
    if (!rc)
        rc = send_values(w, &key, 1, &k, &value, false, e);
    if (!rc)
        rc = tell_ready(w, &key, &k, e);
    kv_array_unref(value);
    if (rc)
        return rc;
    worker_know(w, &k, &key, e);
    return to_all(w, (net_call){.what = ASK_DROP, .args.drop = {old.first, old.nparts}}, e);
}

/* The optimizer that rank 0 waits with, and the first key that has to move for it. */
typedef struct whole_wait {
    worker *w;
    const kv_key *key;
} whole_wait;

/* Who pushes again before it has come to the optimizer waits for rank 0, and never comes. */
static int refuse_if_missed(void *arg, kv_err *e)
{
    const whole_wait *x = arg;
    char text[SLOT_KEY_TEXT];
    backpressure_missed who;
    int rc = backpressure_missed_by(x->w, &who, e);
    if (rc || who.rank < 0 || who.in_call)
        return rc;
    kv_err_set(e, KV_E_VALUE,
               "rank %d pushes and does not set this optimizer, for which key %s has to move",
               who.rank, slot_key_text(text, x->key));
    return kv_err_hint(e, "set it before init, on all ranks, or while the others are at a barrier");
}

/* Until all other ranks have come to the optimizer or are at a barrier: their keys lie still. */
static int wait_for_all(worker *w, const kv_key *key, kv_err *e)
{
    whole_wait x = {w, key};
    net_call c = to_server(w, 0, ASK_BARRIER);
    kv_err unused = {0};
    c.args.barrier = ASK_HOLD;
    c.meanwhile = refuse_if_missed;
    c.arg = &x;
    int rc = net_call_wait(&c, NULL, NULL, e);
    net_call leave = to_server(w, 0, ASK_BARRIER);
    leave.args.barrier = ASK_HOLD_ENDS;
    if (rc == KV_E_VALUE)
        net_call_wait(&leave, NULL, NULL, &unused);
    return rc;
}

/* Rank 0. */
static int make_whole_for(worker *w, place_need need, kv_err *e)
{
    int rc = KV_OK;
    bool met = w->done;
    for (int64_t i = 0; i < w->store->slots.n && !rc; i++) {
        if (place_fits(&w->keys[i].place, need))
            continue;
        if (!met)
            rc = wait_for_all(w, &w->store->slots.items[i].key, e);
        met = true;
        if (!rc)
            rc = make_whole(w, i, e);
    }
    return rc;
}

/* The other ranks, behind that: where the keys are. */
static int find_whole_for(worker *w, place_need need, kv_err *e)
{
    int64_t n = 0;
    kv_key *cut = mem_alloc(w->store->slots.n, sizeof *cut, e);
    if (!cut)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < w->store->slots.n; i++)
        if (!place_fits(&w->keys[i].place, need))
            cut[n++] = w->store->slots.items[i].key;
    int rc = n ? ask_keys(w, cut, n, true, e) : KV_OK;
    mem_free(cut);
    return rc;
}

/* What is to be set, see kv_type_ops, needs this of all places. */
static int find_need(const worker *w, const char *kind, const char *text, place_need *need,
                     kv_err *e)
{
    kv_rule *rule = NULL;
    int rc = KV_OK;
    if (strcmp(kind, "optimizer") == 0)
        rc = builtin_rule(&rule, text, e);
    else if (strcmp(kind, "rule") == 0)
        rc = kv_rule_new(&rule, text, NULL, 0, 0, e);
    *need = rule ? need_of(w, rule) : PLACE_ANYWHERE;
    kv_rule_free(rule);
    return rc;
}

int worker_set_optimizer(void *self, const char *kind, const char *text, const kv_opt *params,
                         int nparams, kv_err *e)
{
    worker *w = self;
    buf b = {0};
    int64_t epoch = w->epochs + 1;
    place_need need;
    int rc = find_need(w, kind, text, &need, e);
    if (rc)
        return rc;
    engine_wait_group(&w->store->calls.group, 0);
    buf_put(&b, kind, strlen(kind) + 1);
    buf_put(&b, text, strlen(text) + 1);
    for (int i = 0; i < nparams; i++) {
        buf_put(&b, params[i].name, strlen(params[i].name) + 1);
        buf_put(&b, params[i].value, strlen(params[i].value) + 1);
    }
    rc = buf_check(&b, e);
    if (!rc && net_rank() == 0)
        rc = make_whole_for(w, need, e);
    if (!rc && net_rank() == 0)
        rc = to_all(w, (net_call){.what = ASK_OPTIMIZER, .data = b.data, .bytes = (int64_t)b.len},
                    e);
    if (!rc) {
        net_call c = to_server(w, 0, ASK_EPOCH);
        c.args.optimizers = epoch;
        rc = net_call_wait(&c, NULL, NULL, e);
    }
    w->epochs += rc == KV_OK;
    if (!rc && net_rank() != 0)
        rc = find_whole_for(w, need, e);
    buf_release(&b);
    return rc;
}

/* ---- The barrier ---- */

/* Keys may have moved meanwhile for an optimizer that rank 0 alone has set. */
int worker_barrier(void *self, kv_err *e)
{
    worker *w = self;
    void *reply = NULL;
    int64_t bytes = 0;
    int rc = KV_OK;
    if (!w->done)
        rc = to_coordinator(w, ASK_BARRIER, (link_args){0}, NULL, &reply, &bytes, e);
    if (!rc && bytes == sizeof(ask_met)) {
        const ask_met *met = reply;
        w->epochs = met->epochs;
        if (met->moves != w->moves)
            rc = find_whole_for(w, PLACE_WHOLE, e);
        w->moves = rc ? w->moves : met->moves;
    }
    mem_free(reply);
    return rc;
}
