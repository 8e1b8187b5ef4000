/* states: what servers keep comes to a worker and goes back as an image, and one that is damaged on
 * its way changes nothing. A worker and two servers in this process; the net is the functions at
 * the head, which may damage a message. */
#include "test_array.h"

#include "core/slot.h"
#include "core/state_file.h"
#include "distributed/alive.h"
#include "distributed/request.h"
#include "distributed/server_state.h"
#include "distributed/spares.h"
#include "distributed/states.h"
#include "distributed/worker.h"

enum { SERVERS = 2, PARTS = 3 };

/* ---- The net ---- */

static server_state servers[SERVERS];

/* The damage of a message: the byte at this place changes, or it ends there; -1: none. */
static struct {
    int64_t flip, cut;
} damage = {-1, -1};

static void damage_message(char *data, int64_t *bytes)
{
    if (damage.flip >= 0 && damage.flip < *bytes)
        data[damage.flip] ^= 1;
    if (damage.cut >= 0 && damage.cut < *bytes)
        *bytes = damage.cut;
}

int net_call_wait(const net_call *c, void **reply, int64_t *reply_bytes, kv_err *e)
{
    server_state *s = &servers[c->rank];
    buf b = {0};
    int64_t bytes = c->bytes;
    if (c->what == ASK_SET_STATES) {
        buf_put(&b, c->data, (size_t)bytes);
        int rc = buf_check(&b, e);
        if (!rc) {
            damage_message(b.data, &bytes);
            rc = states_take(s, b.data, bytes, e);
        }
        buf_release(&b);
        return rc;
    }
    CHECK_INT(c->what, ASK_STATES);
    int rc = states_give(s, c->data, bytes, &b, e);
    if (rc) {
        buf_release(&b);
        return rc;
    }
    *reply_bytes = (int64_t)b.len;
    damage_message(b.data, reply_bytes);
    *reply = b.data;
    return KV_OK;
}

static int this_rank;
static buf mail; /* the last that was sent */
static bool is_lost;

void net_cannot_serve(const kv_err *why)
{
    CHECK_INT(why->code, KV_E_MEMORY);
    is_lost = true;
}

int link_rank(void)
{
    return this_rank;
}

net_call worker_call(const worker *of, int server, dist_ask ask)
{
    return (net_call){.rank = server, .what = ask, .store = of->number};
}

int worker_ask(const worker *of, dist_ask ask, link_args args, const buf *b, void **reply,
               int64_t *bytes, kv_err *e)
{
    buf copy = {0};
    (void)of;
    CHECK_INT(args.mail.peer, ask == ASK_SEND);
    if (ask == ASK_SEND) {
        buf_clear(&mail);
        buf_put(&mail, b->data, b->len);
        return buf_check(&mail, e);
    }
    CHECK_INT(ask, ASK_RECEIVE);
    buf_put(&copy, mail.data, mail.len);
    *bytes = (int64_t)copy.len;
    damage_message(copy.data, bytes);
    *reply = copy.data;
    return KV_OK;
}

ask_key worker_key_like(const worker *of, const kv_key *key, const kv_array *a)
{
    (void)of;
    return (ask_key){.id = key->id, .dtype = a->dtype, .ndim = a->ndim,
                     .shape = {array_shape(a)[0], array_shape(a)[1]}};
}

part *parts_find(const server_state *s, int64_t id)
{
    return id >= 0 && id < s->nparts ? s->parts[id] : NULL;
}

/* Brings the arrays at once, or says that a part has none. */
int request_pull_states(worker *of, const int64_t *slots, kv_array *const *outs, int64_t n,
                        int state, kv_err *e)
{
    for (int64_t j = 0; j < n; j++) {
        const place *p = &of->keys[slots[j]].place;
        for (int32_t i = 0; i < p->nparts; i++) {
            const server_state *s = &servers[place_server(p, i, SERVERS)];
            const kv_array *a = states_array(s, parts_find(s, p->first + i), state);
            if (!a)
                return kv_err_set(e, KV_E_VALUE, "there is no array %d", state);
            CHECK_INT(a->dtype, outs[j]->dtype);
            CHECK(place_from(p, i) + a->size <= outs[j]->size);
            memcpy((char *)outs[j]->data + place_from(p, i) * kv_dtype_bytes((kv_dtype)a->dtype),
                   a->data, (size_t)kv_array_bytes(a));
        }
    }
    return KV_OK;
}

int64_t worker_know(worker *w, const ask_key *k, const kv_key *key, kv_err *e)
{
    int64_t i = slot_find(&w->store->slots, key, -1);
    (void)k;
    if (i < 0)
        kv_err_set(e, KV_E_KEY, "the key is new");
    return i;
}

int worker_set_optimizer(void *self, const char *kind, const char *text, const kv_opt *params,
                         int nparams, kv_err *e)
{
    (void)self, (void)kind, (void)text, (void)params, (void)nparams;
    return kv_err_set(e, KV_E_INTERNAL, "no rule is new");
}

bool newcomer_catches_up(const worker *of)
{
    (void)of;
    return false;
}

const char *newcomer_updater(const worker *of, int64_t *bytes)
{
    (void)of;
    *bytes = 0;
    return NULL;
}

/* The job has no spares, loses nobody, and has no checkpoint. */
bool spares_waits(int rank)
{
    (void)rank;
    return false;
}

bool alive_is_gone(int rank)
{
    (void)rank;
    return false;
}

int checkpoint_read_states(worker *of, kv_err *e)
{
    (void)of;
    return kv_err_set(e, KV_E_INTERNAL, "there is no file");
}

void checkpoint_drop_states(worker *of)
{
    (void)of;
}

/* ---- A worker and its servers ---- */

/* A text and a half-precision weight: key 3 lies on server 0, key 9 in two parts on both. */
static const struct {
    int64_t key, shape[2];
    kv_dtype dtype;
} keys[] = {{3, {2, 3}, KV_FLOAT32}, {9, {4, 5}, KV_FLOAT16}};
static const struct {
    int64_t id, shape[2];
    kv_dtype dtype;
    int server;
} part_list[PARTS] = {{0, {2, 3}, KV_FLOAT32, 0}, {1, {2, 5}, KV_FLOAT16, 0},
                      {2, {2, 5}, KV_FLOAT16, 1}};

static worker w;

static void set_optimizer(kv *store)
{
    const kv_opt params[] = {{"multi_precision", "true"}, {"lr_scheduler", "factor(step=1)"}};
    CHECK_OK(kv_set_optimizer(store, "nadam", params, 2, &e));
}

static kv_array *filled(const int64_t *shape, kv_dtype dtype, float x)
{
    return ARRAY_OF(dtype, 2, shape, cpu0, x + (float)i);
}

/* pushes: of every part, other values each time. */
static void push_parts(int times)
{
    for (int i = 0; i < PARTS; i++) {
        kv *store = servers[part_list[i].server].store;
        kv_key key = {.id = part_list[i].id};
        for (int t = 0; t < times; t++) {
            own_array *a = filled(part_list[i].shape, part_list[i].dtype, (float)(i + t) / 4);
            CHECK_OK(kv_push(store, &key, 1, &a, NULL, &e));
        }
        CHECK_OK(kv_wait(store, &e));
    }
}

static void make_all(bool is_async)
{
    static part parts[PARTS];
    static part *tables[SERVERS][PARTS];
    static worker_key places[2];
    CHECK_OK(kv_create("local", NULL, 0, &w.store, &e));
    w.how = (ask_store){.workers = 1, .servers = SERVERS, .is_async = is_async};
    for (int i = 0; i < SERVERS; i++) {
        servers[i] = (server_state){.parts = tables[i], .nparts = PARTS, .how = w.how};
        CHECK_OK(kv_create("local", NULL, 0, &servers[i].store, &e));
    }
    for (int i = 0; i < 2; i++) {
        kv_key key = {.id = keys[i].key};
        own_array *a = filled(keys[i].shape, keys[i].dtype, 0);
        CHECK_OK(kv_init(w.store, &key, 1, &a, NULL, &e));
    }
    places[0].place = (place){.first = 0, .size = 6, .step = 6, .row = 3, .nparts = 1};
    places[1].place = (place){.first = 1, .size = 20, .step = 10, .row = 5, .nparts = 2,
                              .server = -1};
    w.keys = places;
    for (int i = 0; i < PARTS; i++) {
        server_state *s = &servers[part_list[i].server];
        kv_key key = {.id = part_list[i].id};
        kv_array *a = filled(part_list[i].shape, part_list[i].dtype, 1);
        CHECK_OK(kv_init(s->store, &key, 1, &a, NULL, &e));
        kv_array_unref(a);
        parts[i] = (part){.id = part_list[i].id, .slot = s->store->slots.n - 1, .keeps = true};
        s->parts[i] = &parts[i];
    }
    set_optimizer(w.store);
    set_optimizer(servers[0].store);
    set_optimizer(servers[1].store);
    push_parts(3);
}

static void free_all(void)
{
    kv_free(w.store);
    kv_free(servers[0].store);
    kv_free(servers[1].store);
}

static const slot *part_slot(int i)
{
    const server_state *s = &servers[part_list[i].server];
    return &s->store->slots.items[s->parts[i]->slot];
}

/* An image of all that a server keeps. */
static void print_server(int i, buf *out)
{
    image im;
    CHECK_OK(state_file_take(&im, servers[i].store, false, &e));
    CHECK_OK(image_print(out, &im, "a test", &e));
    image_release(&im);
}

/* It keeps what it kept. */
static void check_server(int i, const buf *before)
{
    own_buf after = {0};
    print_server(i, &after);
    CHECK(before->len == after.len && memcmp(before->data, after.data, after.len) == 0);
}

/* ---- Tests ---- */

static void check_range(const kv_array *whole, int64_t from, const kv_array *of)
{
    int64_t each = kv_dtype_bytes(kv_array_dtype(of));
    CHECK(whole != NULL && kv_array_dtype(whole) == kv_array_dtype(of));
    CHECK(memcmp((const char *)whole->data + from * each, of->data,
                 (size_t)kv_array_bytes(of)) == 0);
}

static int check_states(void *arg, kv_err *e)
{
    (void)arg, (void)e;
    static const struct {
        int slot;
        int64_t from;
    } at[PARTS] = {{0, 0}, {1, 0}, {1, 10}};
    const optimizer *o = w.store->updater.optimizer;
    for (int i = 0; i < PARTS; i++) {
        const slot *whole = &w.store->slots.items[at[i].slot], *x = part_slot(i);
        CHECK(whole->state && x->state);
        CHECK(!whole->state->master == (i == 0));
        if (x->state->master)
            check_range(whole->state->master, at[i].from, x->state->master);
        for (int j = 0; j < o->nstates; j++)
            if (x->state->arrays[j])
                check_range(whole->state->arrays[j], at[i].from, x->state->arrays[j]);
    }
    return KV_OK;
}

TEST(states_come_together_by_part)
{
    for (int is_async = 0; is_async < 2; is_async++) {
        make_all(is_async);
        CHECK_OK(states_visit(&w, KV_STATES_LOOK, check_states, NULL, &e));
        CHECK_INT(w.store->updater.optimizer->now.num_update, is_async ? 3 : 0);
        CHECK_INT(w.store->slots.items[1].updates, is_async ? 3 : 0);
        CHECK(!w.store->slots.items[1].state->master);
        free_all();
    }
}

static int nothing(void *arg, kv_err *e)
{
    (void)arg, (void)e;
    return KV_OK;
}

/* The states of the worker are written to its servers, which have applied pushes meanwhile. */
static int push_more(void *arg, kv_err *e)
{
    (void)e;
    push_parts(2);
    return *(int *)arg;
}

TEST(states_go_back)
{
    buf before[SERVERS] = {{0}};
    int rc = KV_OK;
    make_all(true);
    for (int i = 0; i < SERVERS; i++)
        print_server(i, &before[i]);
    CHECK_OK(states_visit(&w, KV_STATES_LOOK, push_more, &rc, &e));
    CHECK(part_slot(0)->updates == 5);
    for (int i = 0; i < SERVERS; i++) {
        const int64_t lists[SERVERS][3] = {{2, 0, 1}, {1, 2}};
        own_buf message = {0};
        buf_put(&message, (const char *)lists[i], i == 0 ? 24 : 16);
        buf_put(&message, before[i].data, before[i].len);
        CHECK_OK(states_take(&servers[i], message.data, (int64_t)message.len, &e));
        check_server(i, &before[i]);
        buf_release(&before[i]);
    }
    free_all();
}

/* The memory of arrays is used again, but for those that somebody holds. */
TEST(states_into_the_same_memory)
{
    array_reuse memory = {0};
    kv_array *masters[3];
    make_all(false);
    for (int i = 0; i < 3; i++) {
        array_reuse_begin(&memory);
        CHECK_OK(states_pull(&w, &memory, &e));
        CHECK_OK(check_states(NULL, &e));
        masters[i] = w.store->slots.items[1].state->master;
        if (i == 1)
            kv_array_ref(masters[i]);
        states_drop(&w);
        CHECK(!w.store->slots.items[1].state->master);
        push_parts(1);
    }
    CHECK(masters[0] == masters[1] && masters[1] != masters[2]);
    kv_array_unref(masters[1]);
    array_reuse_release(&memory);
    free_all();
}

/* Plain sgd keeps masters and no other states. */
TEST(states_of_masters_alone)
{
    const kv_opt precise = {"multi_precision", "true"};
    make_all(false);
    CHECK_OK(kv_set_optimizer(w.store, "sgd", &precise, 1, &e));
    for (int i = 0; i < SERVERS; i++)
        CHECK_OK(kv_set_optimizer(servers[i].store, "sgd", &precise, 1, &e));
    push_parts(1);
    CHECK_OK(states_pull(&w, NULL, &e));
    const slot_state *s = w.store->slots.items[1].state;
    CHECK(!w.store->slots.items[0].state && s);
    for (int i = 1; i < PARTS; i++)
        check_range(s->master, 10 * (i - 1), part_slot(i)->state->master);
    states_drop(&w);
    free_all();
}

/* A damaged reply is an error, unless only elements, a number or a count differ; the worker's
 * counts stay. */
static int damaged_look(void)
{
    kv_err e = {0};
    int rc = states_visit(&w, KV_STATES_LOOK, nothing, NULL, &e);
    CHECK_INT(e.code, rc);
    CHECK(rc == KV_OK || rc == KV_E_FORMAT || rc == KV_E_VALUE || rc == KV_E_INTERNAL ||
          rc == KV_E_KEY || rc == KV_E_DTYPE || rc == KV_E_SHAPE || rc == KV_E_UNSUPPORTED);
    CHECK(!rc || strlen(e.text) > 0);
    CHECK_INT(w.store->updater.optimizer->now.num_update, 0);
    CHECK_INT(w.store->slots.items[0].updates, 0);
    return rc;
}

TEST(states_damaged_for_a_worker)
{
    int refused = 0;
    own_buf whole = {0};
    make_all(false);
    CHECK_OK(states_give(&servers[0], (const char *)(const int64_t[]){2, 0, 1}, 24, &whole, &e));
    for (int64_t i = 0; i < (int64_t)whole.len; i++) {
        damage.cut = i;
        CHECK(damaged_look() != KV_OK);
        damage.cut = -1;
        damage.flip = i;
        refused += damaged_look() != KV_OK;
        damage.flip = -1;
    }
    CHECK(refused > (int)whole.len / 2);
    CHECK_INT(damaged_look(), KV_OK);
    free_all();
}

TEST(states_damaged_for_a_server)
{
    static const int64_t list[] = {2, 0, 1}, wrong[] = {2, 0, 2}, twice[] = {2, 1, 1};
    own_buf message = {0}, before = {0};
    make_all(false);
    print_server(0, &before);
    buf_put(&message, (const char *)list, sizeof list);
    buf_put(&message, before.data, before.len);
    for (int64_t i = 0; i < (int64_t)(sizeof list + 8 + before.len / 2); i++) {
        CHECK(states_take(&servers[0], message.data, i, &e) != KV_OK);
        e = (kv_err){0};
        char kept = message.data[i];
        message.data[i] ^= 4;
        if (states_take(&servers[0], message.data, (int64_t)message.len, &e) != KV_OK)
            check_server(0, &before);
        message.data[i] = kept;
        e = (kv_err){0};
        CHECK_OK(states_take(&servers[0], message.data, (int64_t)message.len, &e));
    }
    memcpy(message.data, wrong, sizeof wrong);
    CHECK_CODE(states_take(&servers[0], message.data, (int64_t)message.len, &e), KV_E_INTERNAL);
    memcpy(message.data, twice, sizeof twice);
    CHECK_CODE(states_take(&servers[0], message.data, (int64_t)message.len, &e), KV_E_INTERNAL);
    free_all();
}

/* A file brought other counts to rank 0. */
static int load(void *arg, kv_err *e)
{
    (void)arg, (void)e;
    w.store->updater.optimizer->now.num_update = 9;
    w.store->slots.items[0].updates = 7;
    w.store->slots.items[1].updates = 8;
    return KV_OK;
}

static void check_counts(int64_t first, int64_t second, int64_t most)
{
    CHECK_INT(w.store->slots.items[0].updates, first);
    CHECK_INT(w.store->slots.items[1].updates, second);
    CHECK_INT(w.store->updater.optimizer->now.num_update, most);
}

/* Another rank reads the mail of rank 0, all of it or nothing. */
TEST(states_damaged_for_another_worker)
{
    make_all(false);
    w.how.workers = 2;
    CHECK_OK(states_visit(&w, KV_STATES_LOAD, load, NULL, &e));
    check_counts(7, 8, 9);
    CHECK(part_slot(0)->updates == 7 && part_slot(2)->updates == 8 && !part_slot(0)->state);
    this_rank = 1;
    for (int64_t i = 0; i < (int64_t)mail.len; i++) {
        w.store->slots.items[0].updates = w.store->slots.items[1].updates = 1;
        w.store->updater.optimizer->now.num_update = 2;
        damage.cut = i;
        CHECK(states_visit(&w, KV_STATES_LOAD, NULL, NULL, &e) != KV_OK && e.code);
        check_counts(1, 1, 2);
        e = (kv_err){0};
        damage.cut = -1;
        damage.flip = i;
        if (states_visit(&w, KV_STATES_LOAD, NULL, NULL, &e))
            check_counts(1, 1, 2);
        e = (kv_err){0};
        damage.flip = -1;
    }
    CHECK_OK(states_visit(&w, KV_STATES_LOAD, NULL, NULL, &e));
    check_counts(7, 8, 9);
    buf_release(&mail);
    free_all();
}

/* Whatever allocation fails, the other rank gets a mail, or learns that rank 0 is lost. */
TEST(states_mail_without_memory)
{
    make_all(false);
    w.how.workers = 2;
    for (int64_t n = 1, made = 1; made >= n; n++) {
        e = (kv_err){0};
        buf_clear(&mail);
        is_lost = false;
        mem_fail_at(-n);
        int rc = states_visit(&w, n % 2 ? KV_STATES_LOAD : KV_STATES_SAVE, nothing, NULL, &e);
        made = mem_fail_at(0);
        CHECK(rc == KV_OK || rc == KV_E_MEMORY);
        CHECK(mail.len > 0 || is_lost);
    }
    buf_release(&mail);
    free_all();
}
