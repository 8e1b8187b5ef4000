/* The operations that a store schedules, and its waits. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "engine/pool.h"
#include "kvstore.h"
#include "store_help.h"

static const int64_t large[] = {1 << 18}; /* not done at once by the caller */

static kv_array *large_full(double x)
{
    return array_full(KV_FLOAT32, 1, large, x, cpu0);
}

static kv *new_store(const char *rule)
{
    kv *s = make("local");
    if (rule)
        set_rule(s, rule);
    return s;
}

/* A callback that waits until a test lets it go on. */
typedef struct gate {
    atomic_int open, calls, at_work;
    int64_t only; /* the key that waits, if not 0 */
    int code;
} gate;

static int pass(void *arg, const kv_key *key, kv_array *input, kv_array *stored, kv_err *e)
{
    gate *g = arg;
    void *y = NULL;
    (void)input;
    CHECK_INT(atomic_fetch_add(&g->at_work, 1), 0);
    while (!atomic_load(&g->open) && (!g->only || g->only == key->id))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    atomic_fetch_add(&g->calls, 1);
    atomic_fetch_sub(&g->at_work, 1);
    if (g->code && key->id == 1)
        return g->code;
    int rc = kv_array_write(stored, &y, e);
    if (!rc)
        ((float *)y)[0] += 1;
    return rc;
}

static kv_key keys[] = {{.id = 0}, {.id = 1}, {.id = 2}};

TEST(store_async_handles_may_be_released_at_once)
{
    own_kv *s = new_store("{ stored = stored * 2 + input }");
    init_with(s, *keys, large_full(0));
    for (int i = 0; i < 10; i++)
        push_one(s, *keys, large_full(i));
    own_array *out = pull_into(s, *keys, large_full(-1));
    check_array(out, 1013); /* 2 * (2 * (0 + …) + 8) + 9 */
}

TEST(store_async_a_write_waits_for_the_store_to_have_read)
{
    own_kv *s = new_store(NULL);
    own_array *a = large_full(1), *out = large_full(0);
    CHECK_OK(kv_init(s, keys, 1, &a, NULL, &e));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(kv_push(s, keys, 1, &a, NULL, &e));
        CHECK_OK(kv_pull(s, keys, 1, &out, NULL, &e));
        float *data = array_data(a); /* also: the operation is no holder of a */
        for (int64_t j = 0; j < large[0]; j++)
            data[j] = (float)i;
        check_array(out, i ? (float)(i - 1) : 1);
    }
}

static void *open_gate(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_store(&((gate *)arg)->open, 1);
    return NULL;
}

TEST(store_async_a_wait_with_a_limit_says_what_it_found)
{
    gate g = {.code = 77};
    bool idle = true;
    pthread_t opener;
    own_kv *s = new_store(NULL);
    own_array *a = large_full(5);
    CHECK_OK(kv_init(s, keys, 2, (kv_array *[]){a, a}, NULL, &e));
    CHECK_OK(kv_wait_for(s, 0, &idle, &e));
    CHECK_OK(kv_set_updater(s, pass, &g, NULL, &e));
    CHECK_OK(kv_push(s, keys + 1, 1, &a, NULL, &e));
    while (!atomic_load(&g.at_work)) /* or the wait would run the updater itself */
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    CHECK_OK(kv_wait_for(s, 0, &idle, &e));
    CHECK(!idle);
    CHECK_OK(kv_wait_for(s, 2, &idle, &e));
    CHECK(!idle);
    CHECK_INT(pthread_create(&opener, NULL, open_gate, &g), 0);
    CHECK_ERR(kv_wait_for(s, 600000, &idle, &e), KV_E_VALUE, "the updater refused key 1 (code 77)");
    CHECK(idle);
    CHECK_INT(pthread_join(opener, NULL), 0);
    CHECK_OK(kv_wait_for(s, 0, &idle, &e));
    CHECK_ERR(kv_wait_for(s, -1, &idle, &e), KV_E_VALUE, "a wait of -1 milliseconds");
}

TEST(store_async_push_returns_before_its_updater_has_run)
{
    gate g = {0};
    own_kv *s = new_store(NULL);
    own_array *a = large_full(5), *out = large_full(0);
    CHECK_OK(kv_init(s, keys, 1, &a, NULL, &e));
    CHECK_OK(kv_set_updater(s, pass, &g, NULL, &e));
    CHECK_OK(kv_push(s, keys, 1, &a, NULL, &e));
    CHECK_OK(kv_push(s, keys, 1, &a, NULL, &e));
    CHECK_OK(kv_pull(s, keys, 1, &out, NULL, &e));
    CHECK_INT(atomic_load(&g.calls), 0);
    kv_info info = info_of(s, keys[0]);
    CHECK_INT(info.pending, 3);
    CHECK_INT(info.pushes, 2);
    atomic_store(&g.open, 1);
    CHECK_OK(kv_wait(s, &e));
    CHECK_INT(atomic_load(&g.calls), 2);
    info = info_of(s, keys[0]);
    CHECK_INT(info.pending, 0);
}

/* Many small keys run at once, but not before what one of them needs. */
TEST(store_async_many_small_keys_wait_for_one_that_is_busy)
{
    enum { N = 3000, LENGTH = 5 };
    static kv_array *values[N], *outs[N];
    static kv_key many[N];
    static gate g;
    int64_t shape[] = {LENGTH};
    kv *slow = new_store(NULL), *s = new_store("{ stored += input }");
    for (int i = 0; i < N; i++) {
        many[i].id = i;
        CHECK_OK(kv_array_new(&values[i], KV_FLOAT32, 1, shape, cpu0, &e));
        CHECK_OK(kv_array_new(&outs[i], KV_FLOAT32, 1, shape, cpu0, &e));
    }
    CHECK_OK(kv_init(s, many, N, values, NULL, &e));
    kv_array *both[] = {values[0], large_full(0)}; /* with a large one the push runs later */
    CHECK_OK(kv_init(slow, many, 2, both, NULL, &e));
    CHECK_OK(kv_set_updater(slow, pass, &g, NULL, &e));
    for (int i = 0; i < N; i++) {
        float *x = array_data(values[i]);
        for (int j = 0; j < LENGTH; j++)
            x[j] = (float)(i + j);
    }
    CHECK_OK(kv_push(slow, many, 2, both, NULL, &e)); /* its first element becomes 1 */
    CHECK_OK(kv_pull(slow, many, 1, &values[N / 2], NULL, &e));
    CHECK_OK(kv_push(s, many, N, values, NULL, &e));
    CHECK_OK(kv_pull(s, many, N, outs, NULL, &e));
    atomic_store(&g.open, 1);
    for (int i = 0; i < N; i++) {
        const float *data = array_elements(outs[i]);
        for (int j = 0; j < LENGTH; j++)
            CHECK_INT(data[j], i == N / 2 ? j == 0 : i + j);
    }
    kv_free(s);
    kv_free(slow);
    kv_array_unref(both[1]);
    for (int i = 0; i < N; i++) {
        kv_array_unref(values[i]);
        kv_array_unref(outs[i]);
    }
}

TEST(store_async_a_refused_update_is_told_by_the_next_wait)
{
    gate g = {.code = 77};
    own_kv *s = new_store(NULL);
    kv_array *a = large_full(5), *values[] = {a, a, a}, *out = large_full(0);
    atomic_store(&g.open, 1);
    CHECK_OK(kv_init(s, keys, 3, values, NULL, &e));
    CHECK_OK(kv_set_updater(s, pass, &g, NULL, &e));
    CHECK_OK(kv_push(s, keys, 3, values, NULL, &e));
    CHECK_ERR(kv_wait(s, &e), KV_E_VALUE, "the updater refused key 1 (code 77)");
    CHECK_OK(kv_wait(s, &e));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(kv_pull(s, &keys[i], 1, &out, NULL, &e));
        const float *got = array_elements(out);
        CHECK_INT(got[0], i == 1 ? 5 : 6);
    }
    kv_array_unref(a);
    kv_array_unref(out);
}

/* The updater of one key of the call is held up; what the others stored can be had. */
TEST(store_async_keys_of_a_call_end_one_by_one)
{
    gate g = {.only = 1};
    if (pool_workers() == 1)
        test_skip("one thread does nothing else meanwhile");
    own_kv *s = new_store(NULL);
    own_array *a = large_full(1), *out = large_full(0);
    kv_array *values[] = {a, a};
    CHECK_OK(kv_init(s, keys, 2, values, NULL, &e));
    CHECK_OK(kv_set_updater(s, pass, &g, NULL, &e));
    CHECK_OK(kv_push(s, keys, 2, values, NULL, &e));
    CHECK_OK(kv_pull(s, &keys[0], 1, &out, NULL, &e));
    const float *got = array_elements(out);
    CHECK(got[0] == 2);
    kv_info info = info_of(s, keys[1]);
    CHECK_INT(info.pending, 1);
    atomic_store(&g.open, 1);
    CHECK_OK(kv_wait(s, &e));
    info = info_of(s, keys[1]);
    CHECK_INT(info.pending, 0);
}

TEST(store_async_a_store_may_be_freed_with_operations_pending)
{
    own_array *a = large_full(1), *out = large_full(0);
    for (int i = 0; i < 20; i++) {
        kv *s = new_store("{ stored += input }");
        CHECK_OK(kv_init(s, keys, 1, &a, NULL, &e));
        for (int j = 0; j < 5; j++)
            CHECK_OK(kv_push(s, keys, 1, &a, NULL, &e));
        CHECK_OK(kv_pull(s, keys, 1, &out, NULL, &e));
        kv_free(s);
        check_array(out, 6);
    }
}

/* One array for two keys: the later pair wins, whatever runs first. */
TEST(store_async_the_last_of_several_pulls_into_one_array_stays)
{
    own_kv *s = new_store(NULL);
    own_array *one = large_full(1), *two = large_full(2), *out = large_full(0);
    CHECK_OK(kv_init(s, keys, 2, (kv_array *[]){one, two}, NULL, &e));
    for (int i = 0; i < 50; i++) {
        CHECK_OK(kv_pull(s, keys, 2, (kv_array *[]){out, out}, NULL, &e));
        check_array(out, 2);
        CHECK_OK(
            kv_pull(s, (kv_key[]){{.id = 1}, {.id = 0}}, 2, (kv_array *[]){out, out}, NULL, &e));
        check_array(out, 1);
    }
}

/* Every operation is cut at other places for these sizes: tails, whole parts, keys side by side. */
TEST(store_async_parts_cover_every_element_once)
{
    static const int64_t sizes[] = {1, 4095, 4096, 65536, 65537, 200000, 3, 131072, 70000, 0, 5};
    enum { N = sizeof sizes / sizeof *sizes };
    kv_key many[N];
    kv_array *a[N], *outs[N];
    own_kv *s = new_store("{ stored += input * 3 }");
    for (int k = 0; k < N; k++) {
        many[k] = (kv_key){.id = k};
        CHECK_OK(kv_array_new(&a[k], KV_FLOAT32, 1, &sizes[k], cpu0, &e));
        CHECK_OK(kv_array_new(&outs[k], KV_FLOAT64, 1, &sizes[k], cpu0, &e));
        float *data = array_data(a[k]);
        for (int64_t i = 0; i < sizes[k]; i++)
            data[i] = (float)(i % 1000 + k);
    }
    CHECK_OK(kv_init(s, many, N, a, NULL, &e));
    for (int round = 0; round < 3; round++)
        CHECK_OK(kv_push(s, many, N, a, NULL, &e));
    CHECK_OK(kv_pull(s, many, N, outs, NULL, &e));
    for (int k = 0; k < N; k++) {
        const double *got = array_elements(outs[k]);
        for (int64_t i = 0; i < sizes[k]; i++)
            if (got[i] != 10.0 * (double)(i % 1000 + k))
                CHECK_INT(got[i], 10 * (i % 1000 + k));
        kv_array_unref(a[k]);
        kv_array_unref(outs[k]);
    }
}
