/* The keys that a rank knows, and their places: it asks the coordinator for the keys of other
 * ranks, and makes keys that no rank has. In a job that goes on they begin with what a checkpoint
 * file holds, and in a newcomer with the counts of rank 0. */
#include <string.h>

#include "array/device.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/store_file.h"
#include "distributed/server_ranks.h"
#include "distributed/worker.h"

/* Keys of a call that every worker makes, at most. The coordinator keeps such calls while they
 * wait, and their replies until they are sent, for all workers at once: what it keeps of a worker
 * must not grow with the keys. A call of so many is about 300 KB. */
enum { KEYS_TOGETHER = 1024 };

/* ---- The file from which a job goes on ----
 *
 * The store of the file stays in memory beside the worker's own until all of it was taken.
 */

static const slot *find_kept(const worker *w, const kv_key *key)
{
    const kv *kept = w->checkpoint.kept;
    int64_t i = kept ? slot_find(&kept->slots, key, -1) : -1;
    return i < 0 ? NULL : &kept->slots.items[i];
}

int checkpoint_value(const worker *w, const kv_key *key, kv_array *given, kv_array **out, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    const slot *s = find_kept(w, key);
    *out = s ? s->stored : given;
    if (!s || (s->stored->dtype == given->dtype && s->stored->storage == given->storage &&
               kv_array_same_shape(s->stored, given)))
        return KV_OK;
    file_bad(e, KV_E_VALUE, w->checkpoint.path,
             "key %s has another shape or dtype in it than this value", slot_key_text(text, key));
    kv_err_key(e, key);
    return kv_err_hint(e, "without the file the job begins anew"), KV_E_VALUE;
}

/* Frees the values and states of the file if all of them were taken. */
static void drop_kept(job_checkpoint *c)
{
    if (c->left > 0 || c->has_states)
        return;
    kv_free(c->kept);
    c->kept = NULL;
}

/* Called once a key, when this rank has made its slot: the slot gets the counts of the file. */
static void checkpoint_know(worker *w, int64_t number)
{
    slot *s = &w->store->slots.items[number];
    const slot *kept = find_kept(w, &s->key);
    if (!kept)
        return;
    s->pushes = kept->pushes;
    s->updates = kept->updates;
    kv_assert(w->checkpoint.left > 0, "key %lld of the store is in a file without keys left",
              (long long)number);
    w->checkpoint.left--;
    drop_kept(&w->checkpoint);
}

/* Checks that the file has the optimizer and compression in use, and no key that the job lacks. */
static int check_kept(const worker *w, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    const job_checkpoint *c = &w->checkpoint;
    const kv *kept = c->kept, *mine = w->store;
    const char *theirs = updater_name(&kept->updater);
    if (mine->updater.kind != UPDATER_RULE || strcmp(theirs, updater_name(&mine->updater)) != 0)
        return file_bad(e, KV_E_VALUE, c->path,
                        "it holds the states of %.80s, which is not the optimizer in use", theirs);
    if (!compression_same(&kept->compression, &mine->compression))
        return file_bad(e, KV_E_VALUE, c->path, "gradients were compressed in another way");
    for (int64_t i = 0; i < kept->slots.n; i++)
        if (slot_find(&mine->slots, &kept->slots.items[i].key, i) < 0)
            return file_bad(e, KV_E_VALUE, c->path,
                            "it holds key %s, which was not initialised before the first push",
                            slot_key_text(text, &kept->slots.items[i].key));
    return KV_OK;
}

int checkpoint_read_states(worker *w, kv_err *e)
{
    job_checkpoint *c = &w->checkpoint;
    OWN(store_file_close) store_file f = {0};
    if (!kv_assert(c->kept, "the states of round %lld are to be read, and no file was",
                   (long long)c->rounds))
        return kv_assert_report(e);
    TRY(check_kept(w, e));
    TRY(store_file_open(&f, c->path, e));
    TRY(store_file_fill_states(&f, w->store, e));
    for (int64_t i = 0; i < w->store->slots.n; i++) {
        slot *s = &w->store->slots.items[i];
        int64_t there = slot_find(&c->kept->slots, &s->key, i);
        if (there >= 0) /* an optimizer that was set behind init has begun to count anew */
            s->updates = c->kept->slots.items[there].updates;
    }
    return KV_OK;
}

void checkpoint_drop_states(worker *w)
{
    w->checkpoint.has_states = false;
    drop_kept(&w->checkpoint);
}

/* ---- The counts with which a newcomer begins ---- */

typedef struct newcomer {
    newcomer_counts head;
    char *mail; /* the texts of keys lie there */
    newcomer_key *keys;
    int64_t nkeys, cap;
    map index;
    const char *updater; /* in the mail */
    bool has_pushed;
} newcomer;

static int read_counts(newcomer *n, int64_t bytes, kv_err *e)
{
    const char *at = n->mail, *end = at + bytes;
    TRY(bytes < (int64_t)sizeof n->head ? ask_malformed(e) : KV_OK);
    memcpy(&n->head, at, sizeof n->head);
    at += sizeof n->head;
    TRY(n->head.updater < 0 || n->head.updater > end - at ? ask_malformed(e) : KV_OK);
    end -= n->head.updater;
    n->updater = end;
    while (at < end) {
        kv_key key;
        if (!ask_get_key(&at, end, &key) || end - at < (int64_t)sizeof *n->keys)
            return ask_malformed(e);
        TRY(mem_grow(&n->keys, &n->cap, n->nkeys + 1, sizeof *n->keys, e));
        TRY(map_put(&n->index, key, n->nkeys, e));
        memcpy(&n->keys[n->nkeys++], at, sizeof *n->keys);
        at += sizeof *n->keys;
    }
    return KV_OK;
}

int newcomer_new(worker *w, void *mail, int64_t bytes, kv_err *e)
{
    newcomer *n = w->newcomer = mem_zalloc(1, sizeof *n, e);
    if (!n) {
        mem_free(mail);
        return KV_E_MEMORY;
    }
    n->mail = mail;
    int rc = read_counts(n, bytes, e);
    w->checkpoint.rounds = n->head.rounds;
    w->checkpoint.saved = n->head.saved;
    return rc;
}

/* Once a key: that of a newcomer begins with the counts of the mail. */
static void newcomer_know(worker *w, int64_t number)
{
    newcomer *n = w->newcomer;
    slot *s = &w->store->slots.items[number];
    worker_key *k = &w->keys[number];
    int64_t i = n ? map_get(&n->index, s->key) : -1;
    if (i < 0)
        return;
    s->pushes = n->keys[i].rounds;
    s->updates = n->keys[i].updates;
    k->pushes = k->place.first == n->keys[i].first ? n->keys[i].pushes : 0; /* it has moved since */
}

void newcomer_push(worker *w)
{
    if (!newcomer_catches_up(w))
        return;
    w->newcomer->has_pushed = true;
    w->epochs = w->newcomer->head.epochs;
    w->moves = w->newcomer->head.moves;
}

bool newcomer_catches_up(const worker *w)
{
    return w->newcomer && !w->newcomer->has_pushed;
}

const char *newcomer_updater(const worker *w, int64_t *bytes)
{
    *bytes = w->newcomer->head.updater;
    return w->newcomer->updater;
}

void newcomer_release(worker *w)
{
    newcomer *n = w->newcomer;
    if (!n)
        return;
    map_release(&n->index);
    mem_free(n->keys);
    mem_free(n->mail);
    mem_free(n);
    w->newcomer = NULL;
}

/* ---- Calls ---- */

net_call worker_call(const worker *w, int server, dist_ask what)
{
    return (net_call){.rank = server_rank(server), .what = what, .store = w->number,
                      .name = ask_name(what)};
}

int worker_call_all(const worker *w, net_call c, kv_err *e)
{
    int n = server_count();
    own_mem net_call *calls = mem_alloc(n, sizeof *calls, e);
    if (!calls)
        return KV_E_MEMORY;
    for (int i = 0; i < n; i++) {
        calls[i] = c;
        calls[i].rank = server_rank(i);
        calls[i].store = w->number;
        calls[i].name = ask_name((dist_ask)c.what);
    }
    return net_calls_wait(calls, n, NULL, NULL, e);
}

int worker_ask(const worker *w, dist_ask what, link_args args, const buf *b, void **reply,
               int64_t *bytes, kv_err *e)
{
    net_call c = worker_call(w, 0, what);
    c.args = args;
    c.may_stop = what == ASK_FIND; /* a key that another rank may never make */
    c.data = b ? b->data : NULL;
    c.bytes = b ? (int64_t)b->len : 0;
    return net_call_wait(&c, reply, bytes, e);
}

/* ---- Keys ---- */

/* Without rounds every part counts its own updates, so a number that all keys share would advance
 * once for each part. */
place_need worker_need(const worker *w, const kv_rule *rule)
{
    static const place_need needs[] = {[RULE_CUT_ANYWHERE] = PLACE_ANYWHERE,
                                       [RULE_CUT_BY_ROWS] = PLACE_BY_ROWS,
                                       [RULE_CUT_NOWHERE] = PLACE_WHOLE};
    if (w->how.is_async && rule_has_state(rule->ast, STATE_SHARED))
        return PLACE_WHOLE;
    return needs[rule_cuts(rule->ast)];
}

static int add_key(worker *w, const ask_key *k, const kv_key *key, kv_err *e)
{
    slot_table *t = &w->store->slots;
    static const char nothing; /* an array has no memory for its elements */
    const kv_ctx cpu = {KV_CPU, 0};
    kv_dtype dtype = (kv_dtype)k->dtype;
    own_array *shape = NULL;
    TRY(slot_check_kind(t, key, e));
    TRY(mem_grow(&w->keys, &w->keys_cap, t->n + 1, sizeof *w->keys, e));
    if (k->storage == KV_ROW_SPARSE)
        TRY(kv_array_new_sparse(&shape, dtype, k->ndim, k->shape, 0, NULL, cpu, e));
    else
        TRY(kv_array_wrap(&shape, (void *)(uintptr_t)&nothing, dtype, k->ndim, k->shape, cpu, NULL,
                          NULL, e));
    TRY(slot_add(t, key, shape, e));
    shape = NULL; /* the slot's */
    w->keys[t->n - 1] = (worker_key){.place = k->place, .dtype = dtype};
    checkpoint_know(w, t->n - 1);
    newcomer_know(w, t->n - 1);
    return KV_OK;
}

/* Returns true if a key that another rank sent has a place, and the form of the slot if it is
 * there. */
static bool is_key(const worker *w, const ask_key *k, const slot *s)
{
    const kv_array *a = s ? s->stored : NULL;
    bool same = !a || (k->dtype == a->dtype && k->storage == a->storage && k->ndim == a->ndim &&
                       memcmp(k->shape, array_shape(a), a->ndim * sizeof *k->shape) == 0);
    return same && place_is_valid(&k->place, k->storage, k->ndim, k->shape, w->how.servers);
}

int64_t worker_know(worker *w, const ask_key *k, const kv_key *key, kv_err *e)
{
    int64_t i = slot_find(&w->store->slots, key, -1);
    if (!is_key(w, k, i < 0 ? NULL : &w->store->slots.items[i]))
        return ask_malformed(e), -1;
    if (i < 0)
        return add_key(w, k, key, e) ? -1 : w->store->slots.n - 1;
    worker_key *known = &w->keys[i];
    kv_assert(i < w->keys_cap, "slot %lld is known, and where %lld keys live", (long long)i,
              (long long)w->keys_cap);
    if (known->place.first != k->place.first) {
        known->place = k->place; /* its rounds begin anew there */
        known->pushes = known->pulls = 0;
    }
    return i;
}

/* Adds the keys that a call lists, each followed by its place. */
static int add_keys(worker *w, const char *at, int64_t bytes, kv_err *e)
{
    const char *end = at ? at + bytes : NULL; /* no bytes: the list has no address */
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

ask_key worker_key_like(const worker *w, const kv_key *key, const kv_array *a)
{
    ask_key k = {.id = key->name ? 0 : key->id,
                  .dtype = a->dtype,
                  .storage = a->storage,
                  .ndim = a->ndim};
    memcpy(k.shape, array_shape(a), a->ndim * sizeof *k.shape);
    if (w->store->updater.kind == UPDATER_RULE)
        k.need = (uint8_t)worker_need(w, w->store->updater.optimizer->rule);
    return k;
}

int worker_place_keys(worker *w, const kv_key *keys, int64_t n, ask_key *list, bool inits,
                      kv_err *e)
{
    own_buf b = {0};
    own_mem void *reply = NULL;
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; i++)
        ask_put_key(&b, &list[i], keys[i].name);
    TRY(buf_check(&b, e));
    TRY(worker_ask(w, ASK_PLACE, (link_args){.inits = inits}, &b, &reply, &bytes, e));
    if (bytes != n * (int64_t)sizeof(place))
        return ask_malformed(e);
    for (int64_t i = 0; i < n; i++) {
        list[i].place = ((const place *)reply)[i];
        if (list[i].place.first == -1)
            list[i].place = (place){.first = -1}; /* the rest means nothing, its parts neither */
        else if (!is_key(w, &list[i], NULL))
            return ask_malformed(e);
    }
    return KV_OK;
}

/* Sends what was collected for each server, and waits until it is there. */
static int send_collected(const worker *w, buf *b, bool inits, kv_err *e)
{
    int used = 0;
    own_mem net_call *calls = mem_alloc(w->how.servers, sizeof *calls, e);
    if (!calls)
        return KV_E_MEMORY;
    for (int s = 0; s < w->how.servers; s++) {
        if (!b[s].len)
            continue;
        calls[used] = worker_call(w, s, ASK_INIT);
        calls[used].args.inits = inits;
        calls[used].data = b[s].data;
        calls[used++].bytes = (int64_t)b[s].len;
    }
    int rc = used ? net_calls_wait(calls, used, NULL, NULL, e) : KV_OK;
    for (int s = 0; s < w->how.servers; s++)
        buf_clear(&b[s]);
    return rc;
}

/* Some megabytes at a time, since both sides hold them beside the arrays. */
int worker_send_values(const worker *w, const kv_pairs *pairs, const ask_key *list, bool inits,
                       kv_err *e)
{
    enum { TOGETHER = 4 << 20 /* bytes for one server, about */ };
    int servers = w->how.servers;
    own_mem buf *b = mem_zalloc(servers, sizeof *b, e);
    int rc = b ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < pairs->n && !rc; i++)
        for (int32_t p = 0; p < list[i].place.nparts && !rc; p++) {
            buf *to = &b[place_server(&list[i].place, p, servers)];
            rc = ask_put_slot(to, &list[i], pairs->keys[i].name, p, pairs->arrays[i], e);
            if (!rc && to->len >= TOGETHER)
                rc = send_collected(w, b, inits, e);
        }
    if (!rc)
        rc = send_collected(w, b, inits, e);
    for (int s = 0; b && s < servers; s++)
        buf_release(&b[s]);
    return rc;
}

static int make_keys(worker *w, const kv_pairs *pairs, bool inits, kv_err *e)
{
    const kv_key *keys = pairs->keys;
    int64_t n = pairs->n;
    own_buf b = {0};
    own_mem ask_key *list = mem_alloc(n, sizeof *list, e);
    if (!list)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        list[i] = worker_key_like(w, &keys[i], pairs->arrays[i]);
        const slot *kept = inits ? find_kept(w, &keys[i]) : NULL;
        list[i].round = kept ? kept->pushes : 0; /* that its first value has had */
    }
    TRY(worker_place_keys(w, keys, n, list, inits, e));
    if (!w->how.sums)
        TRY(worker_send_values(w, pairs, list, inits, e));
    for (int64_t i = 0; i < n; i++)
        if (list[i].place.first >= 0)
            ask_put_key(&b, &list[i], keys[i].name);
    TRY(buf_check(&b, e));
    if (b.len)
        TRY(worker_ask(w, ASK_READY, (link_args){0}, &b, NULL, NULL, e));
    return add_keys(w, buf_text(&b), (int64_t)b.len, e);
}

/* The keys of an init are made together, since they all get a place or none does; only the first
 * worker makes such. */
int worker_make_keys(worker *w, const kv_pairs *pairs, bool inits, kv_err *e)
{
    int64_t n = pairs->n, step = inits ? n : KEYS_TOGETHER;
    for (int64_t i = 0; i < n; i += step) {
        const kv_pairs some = {pairs->keys + i, pairs->arrays + i, n - i < step ? n - i : step};
        TRY(make_keys(w, &some, inits, e));
    }
    return KV_OK;
}

static int ask_keys(worker *w, const kv_key *keys, int64_t n, bool any, kv_err *e)
{
    own_buf b = {0};
    own_mem void *reply = NULL;
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; i++)
        ask_put_key(&b, &(ask_key){.id = keys[i].id}, keys[i].name);
    TRY(buf_check(&b, e));
    TRY(worker_ask(w, ASK_FIND, (link_args){.any = any}, &b, &reply, &bytes, e));
    return add_keys(w, reply, bytes, e);
}

int worker_ask_keys(worker *w, const kv_key *keys, int64_t n, bool any, kv_err *e)
{
    for (int64_t i = 0; i < n; i += KEYS_TOGETHER)
        TRY(ask_keys(w, keys + i, n - i < KEYS_TOGETHER ? n - i : KEYS_TOGETHER, any, e));
    return KV_OK;
}

/* Makes keys for a push. They begin as zeros, which no sum will contain. */
static int make_zeros(worker *w, const kv_pairs *like, kv_err *e)
{
    int64_t n = like->n;
    own_mem kv_array **zeros = mem_zalloc(n, sizeof *zeros, e);
    int rc = zeros ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        const kv_array *a = like->arrays[i];
        kv_ctx cpu = {KV_CPU, 0};
        rc =
            a->storage == KV_ROW_SPARSE
                ? kv_array_new_sparse(&zeros[i], a->dtype, a->ndim, array_shape(a), 0, NULL, cpu, e)
                : kv_array_new(&zeros[i], a->dtype, a->ndim, array_shape(a), cpu, e);
    }
    if (!rc)
        rc = worker_make_keys(w, &(kv_pairs){like->keys, zeros, n}, false, e);
    for (int64_t i = 0; zeros && i < n; i++)
        kv_array_unref(zeros[i]);
    return rc;
}

/* The pairs whose keys this rank does not know, each key once. */
typedef struct missing {
    kv_key *keys;
    kv_array **like;
    int64_t n;
} missing;

static int collect_missing(const worker *w, const kv_pairs *p, bool makes, const int64_t *numbers,
                           missing *m, kv_err *e)
{
    own_map seen = {0};
    *m = (missing){.keys = mem_alloc(p->n, sizeof *m->keys, e),
                   .like = mem_alloc(p->n, sizeof *m->like, e)};
    TRY(m->keys && m->like ? KV_OK : KV_E_MEMORY);
    for (int64_t i = 0; i < p->n; i++) {
        if (numbers[i] >= 0 || map_get(&seen, p->keys[i]) >= 0)
            continue;
        TRY(slot_check_kind(&w->store->slots, &p->keys[i], e));
        TRY(map_put(&seen, p->keys[i], m->n, e));
        m->keys[m->n] = p->keys[i];
        m->like[m->n++] = makes ? p->arrays[i] : NULL;
    }
    return KV_OK;
}

int worker_find(worker *w, const kv_pairs *pairs, bool makes, int64_t *numbers, kv_err *e)
{
    const kv_key *keys = pairs->keys;
    slot_table *t = &w->store->slots;
    int64_t n = pairs->n, absent = 0, guess = 0;
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = slot_find(t, &keys[i], guess);
        absent += numbers[i] < 0;
        guess = numbers[i] + 1;
    }
    if (absent == 0)
        return KV_OK;
    missing m;
    int rc = collect_missing(w, pairs, makes, numbers, &m, e);
    const kv_pairs like = {m.keys, m.like, m.n};
    if (!rc && makes) {
        rc = w->how.sums ? worker_make_keys(w, &like, false, e) : make_zeros(w, &like, e);
        if (!rc)
            rc = worker_ask_keys(w, m.keys, m.n, true, e);
    } else if (!rc && link_rank() == 0) {
        rc = slot_refuse_unknown(&m.keys[0], e); /* rank 0 makes all keys: it would know this one */
    } else if (!rc) {
        rc = worker_ask_keys(w, m.keys, m.n, false, e);
    }
    mem_free(m.keys);
    mem_free(m.like);
    for (int64_t i = 0; i < n && !rc; i++)
        if (numbers[i] < 0 && (numbers[i] = slot_find(t, &keys[i], -1)) < 0)
            rc = slot_refuse_unknown(&keys[i], e);
    return rc;
}

int worker_await_key(void *self, const kv_key *key, kv_err *e)
{
    int64_t number;
    return worker_find(self, &(kv_pairs){key, NULL, 1}, false, &number, e);
}
