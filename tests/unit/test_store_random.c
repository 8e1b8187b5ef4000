/* Random calls of eight threads on several stores against a sequential model; also meant to run
 * under -fsanitize=thread.
 *
 * Each thread has keys of its own, whose values it knows at any time, and adds to keys that all
 * share, where only the sum in the end is known: integers, so that no order changes it. Arrays hold
 * one number in every element. So whoever reads one that a single operation wrote finds one number,
 * or operations were mixed.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "kvstore.h"
#include "store_help.h"

enum { CALLERS = 8, STORES = 3, SHARED = 3, OWN = 3, INPUTS = 4 };

enum { CALLS = 10000 };

/* Done at once by the caller; scheduled as one part; cut into parts. */
static const int64_t sizes[OWN] = {6, 6000, 70000};

typedef struct place {
    kv *store;
    atomic_llong sum[SHARED]; /* the model of the shared keys */
} place;

typedef struct caller {
    pthread_t thread;
    place *places;
    kv_array *(*inputs)[INPUTS]; /* by size; shared by all: number i + 1 */
    uint64_t state;
    int number;
    kv_array *mine[OWN], *out[OWN]; /* by size */
    int64_t is[OWN], has[OWN];      /* the models of these */
    int64_t stored[STORES][OWN];    /* and of the keys */
    int64_t made[STORES];           /* new keys, while others push */
} caller;

static kv_array *int64_full(int64_t size, int64_t x)
{
    return array_full(KV_INT64, 1, &size, (double)x, cpu0);
}

static uint64_t draw(caller *w, uint64_t n)
{
    w->state ^= w->state << 13;
    w->state ^= w->state >> 7;
    w->state ^= w->state << 17;
    return (w->state >> 11) % n;
}

/* Mostly the small one. */
static int draw_size(caller *w)
{
    uint64_t x = draw(w, 100);
    return x < 85 ? 0 : x < 98 ? 1 : 2;
}

/* Every element of an array is the same; returns it. */
static int64_t only_number(kv_array *a)
{
    const int64_t *x = array_elements(a);
    for (int64_t i = 1; i < kv_array_size(a); i++)
        if (x[i] != x[0])
            CHECK_INT(x[i], x[0]);
    return x[0];
}

static kv_key own_key(const caller *w, int k)
{
    return (kv_key){.id = 100 * (w->number + 1) + k};
}

/* The result of the store's updater: the first store keeps the sum, the others add it. */
static int64_t updated(int store, int64_t stored, int64_t sum)
{
    return store == 0 ? sum : stored + sum;
}

/* ---- The calls ---- */

static void push_own(caller *w, int store, const kv_call *how)
{
    int k = draw_size(w), n = 1 + (int)draw(w, 4);
    kv_key keys[4];
    kv_array *values[4];
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        uint64_t x = draw(w, INPUTS + 2);
        keys[i] = own_key(w, k);
        values[i] = x < INPUTS ? w->inputs[k][x] : x == INPUTS ? w->mine[k] : w->out[k];
        sum += x < INPUTS ? (int64_t)x + 1 : x == INPUTS ? w->is[k] : w->has[k];
    }
    CHECK_OK(kv_push(w->places[store].store, keys, n, values, how, &e));
    w->stored[store][k] = updated(store, w->stored[store][k], sum);
}

static void push_all_own(caller *w, int store, const kv_call *how)
{
    kv_key keys[OWN];
    kv_array *values[OWN];
    for (int k = 0; k < OWN; k++) {
        keys[OWN - 1 - k] = own_key(w, k);
        values[OWN - 1 - k] = w->mine[k];
        w->stored[store][k] = updated(store, w->stored[store][k], w->is[k]);
    }
    CHECK_OK(kv_push(w->places[store].store, keys, OWN, values, how, &e));
}

static void push_shared(caller *w, const kv_call *how)
{
    int store = 1 + (int)draw(w, STORES - 1), k = draw_size(w);
    uint64_t x = draw(w, INPUTS);
    place *p = &w->places[store];
    CHECK_OK(kv_push(p->store, &(kv_key){.id = k}, 1, &w->inputs[k][x], how, &e));
    atomic_fetch_add(&p->sum[k], (long long)x + 1);
}

static void pull_shared(caller *w, const kv_call *how)
{
    int store = 1 + (int)draw(w, STORES - 1), k = draw_size(w);
    CHECK_OK(kv_pull(w->places[store].store, &(kv_key){.id = k}, 1, &w->out[k], how, &e));
    w->has[k] = only_number(w->out[k]);
    CHECK(w->has[k] >= 0);
}

static void pull_own(caller *w, int store, const kv_call *how)
{
    int k = draw_size(w);
    kv_key key = own_key(w, k);
    CHECK_OK(kv_pull(w->places[store].store, &key, 1, &w->out[k], how, &e));
    w->has[k] = w->stored[store][k];
    if (draw(w, 4) == 0)
        CHECK_INT(only_number(w->out[k]), w->has[k]);
}

/* Numbers stay small enough not to wrap. */
static void change_mine(caller *w)
{
    int k = draw_size(w);
    w->is[k] = (int64_t)draw(w, 1000);
    int64_t *data = array_data(w->mine[k]);
    for (int64_t i = 0; i < sizes[k]; i++)
        data[i] = w->is[k];
}

/* Another array, while operations may still read the old one. */
static void replace_mine(caller *w)
{
    int k = draw_size(w);
    kv_array_unref(w->mine[k]);
    w->is[k] = (int64_t)draw(w, 1000);
    w->mine[k] = int64_full(sizes[k], w->is[k]);
}

/* Sums of what was pulled double: they begin anew before they are too large. */
static void bound(caller *w)
{
    for (int k = 0; k < OWN; k++) {
        if (w->has[k] < (int64_t)1 << 40 && w->has[k] > -((int64_t)1 << 40))
            continue;
        int64_t *data = array_data(w->out[k]);
        for (int64_t i = 0; i < sizes[k]; i++)
            data[i] = 1;
        w->has[k] = 1;
    }
}

static void make_key(caller *w, int store)
{
    kv_key key = {.id = 1000000 + w->number + CALLERS * w->made[store]++};
    CHECK_OK(kv_init(w->places[store].store, &key, 1, &w->inputs[0][0], NULL, &e));
}

static void call_once(caller *w)
{
    kv_info info;
    kv_call how = {.priority = (int32_t)draw(w, 5) - 2};
    int store = (int)draw(w, STORES);
    kv_key key = own_key(w, 0);
    bound(w);
    switch (draw(w, 16)) {
    case 0 ... 3:
        push_own(w, store, &how);
        break;
    case 4:
        push_all_own(w, store, &how);
        break;
    case 5 ... 6:
        push_shared(w, &how);
        break;
    case 7:
        pull_shared(w, &how);
        break;
    case 8 ... 10:
        pull_own(w, store, &how);
        break;
    case 11 ... 12:
        push_own(w, store, &how);
        pull_own(w, store, &how);
        break;
    case 13:
        change_mine(w);
        break;
    case 14:
        replace_mine(w);
        break;
    default:
        if (draw(w, 2) == 0)
            make_key(w, store);
        if (draw(w, 8) == 0)
            CHECK_OK(kv_wait(w->places[store].store, &e));
        CHECK_OK(kv_find(w->places[store].store, &key, &info, &e));
        CHECK(info.pending >= 0);
    }
}

/* ---- The world ---- */

static void begin_caller(caller *w)
{
    for (int k = 0; k < OWN; k++) {
        kv_key key = own_key(w, k);
        w->mine[k] = int64_full(sizes[k], 0);
        w->out[k] = int64_full(sizes[k], 0);
        for (int s = 0; s < STORES; s++)
            CHECK_OK(kv_init(w->places[s].store, &key, 1, &w->mine[k], NULL, &e));
    }
}

static void check_caller(caller *w)
{
    for (int k = 0; k < OWN; k++) {
        kv_key key = own_key(w, k);
        CHECK_INT(only_number(w->mine[k]), w->is[k]);
        for (int s = 0; s < STORES; s++) {
            CHECK_OK(kv_pull(w->places[s].store, &key, 1, &w->out[k], NULL, &e));
            CHECK_INT(only_number(w->out[k]), w->stored[s][k]);
        }
        kv_array_unref(w->mine[k]);
        kv_array_unref(w->out[k]);
    }
}

static void *work(void *arg)
{
    caller *w = arg;
    begin_caller(w);
    for (int64_t i = test_random(CALLS) / CALLERS; i > 0; i--)
        call_once(w);
    check_caller(w);
    return NULL;
}

/* A store that assigns, one with a rule on device, one with a C callback. */
static void make_stores(place *p)
{
    for (int s = 0; s < STORES; s++)
        p[s].store = make(s == 1 ? "device" : "local");
    set_rule(p[1].store, "{ stored += input }");
    CHECK_OK(kv_set_updater(p[2].store, add_input, NULL, NULL, &e));
    for (int k = 0; k < SHARED; k++) {
        own_array *zeros = int64_full(sizes[k], 0);
        for (int s = 0; s < STORES; s++)
            CHECK_OK(kv_init(p[s].store, &(kv_key){.id = k}, 1, &zeros, NULL, &e));
    }
}

static void check_shared(place *p)
{
    for (int k = 0; k < SHARED; k++) {
        own_array *out = int64_full(sizes[k], -1);
        for (int s = 1; s < STORES; s++) {
            CHECK_OK(kv_pull(p[s].store, &(kv_key){.id = k}, 1, &out, NULL, &e));
            CHECK_INT(only_number(out), atomic_load(&p[s].sum[k]));
        }
    }
}

TEST(store_random_calls_equal_a_sequential_model)
{
    static place places[STORES];
    static caller callers[CALLERS];
    kv_array *inputs[OWN][INPUTS];
    for (int k = 0; k < OWN; k++)
        for (int i = 0; i < INPUTS; i++)
            inputs[k][i] = int64_full(sizes[k], i + 1);
    make_stores(places);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.places = places, .inputs = inputs,
                              .state = 88172645463325252u + (uint64_t)i * 1000003, .number = i};
        CHECK(pthread_create(&callers[i].thread, NULL, work, &callers[i]) == 0);
    }
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_join(callers[i].thread, NULL) == 0);
    check_shared(places);
    for (int s = 0; s < STORES; s++) {
        int64_t keys = SHARED + CALLERS * OWN;
        for (int i = 0; i < CALLERS; i++)
            keys += callers[i].made[s];
        CHECK_INT(kv_num_keys(places[s].store), keys);
        kv_free(places[s].store);
    }
    for (int k = 0; k < OWN; k++)
        for (int i = 0; i < INPUTS; i++)
            kv_array_unref(inputs[k][i]);
}
