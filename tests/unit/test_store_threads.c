/* Eight threads on one store; also meant to run under -fsanitize=thread. */
#include <pthread.h>

#include "kvstore.h"
#include "store_help.h"

enum { THREADS = 8, ROUNDS = 500, N = 100 };

typedef struct worker {
    pthread_t thread;
    kv *store;
    kv_array *ones; /* shared by all */
    int64_t number;
} worker;

/* Pushes to two keys that all share and initialises keys of its own. */
static void *work(void *arg)
{
    worker *w = arg;
    kv_key shared[] = {{.id = 1}, {.id = 0}, {.id = 1}};
    kv_array *values[] = {w->ones, w->ones, w->ones};
    own_array *out = MADE(kv_array, kv_array_new, KV_FLOAT64, 1, (int64_t[]){N}, cpu0);
    for (int64_t i = 0; i < ROUNDS; i++) {
        kv_key own = {.id = 100 + w->number * ROUNDS + i};
        CHECK_OK(kv_push(w->store, shared, 3, values, NULL, &e));
        CHECK_OK(kv_pull(w->store, shared, 1, &out, NULL, &e));
        CHECK_OK(kv_init(w->store, &own, 1, &w->ones, NULL, &e));
    }
    return NULL;
}

TEST(store_threads)
{
    own_kv *s = NULL;
    worker w[THREADS];
    kv_key keys[] = {{.id = 0}, {.id = 1}};
    CHECK_OK(kv_create("local", NULL, 0, &s, &e));
    own_array *zeros = MADE(kv_array, kv_array_new, KV_INT64, 1, (int64_t[]){N}, cpu0);
    own_array *ones = MADE(kv_array, kv_array_new, KV_INT64, 1, (int64_t[]){N}, cpu0);
    int64_t *data = array_data(ones);
    for (int i = 0; i < N; i++)
        data[i] = 1;
    CHECK_OK(kv_init(s, keys, 2, (kv_array *[]){zeros, zeros}, NULL, &e));
    CHECK_OK(kv_set_updater(s, add_input, NULL, NULL, &e));
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){.store = s, .ones = ones, .number = i};
        CHECK(pthread_create(&w[i].thread, NULL, work, &w[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(w[i].thread, NULL) == 0);
    CHECK_INT(kv_num_keys(s), 2 + THREADS * ROUNDS);
    for (int k = 0; k < 2; k++) {
        CHECK_OK(kv_pull(s, &keys[k], 1, &zeros, NULL, &e));
        const int64_t *got = array_elements(zeros);
        for (int i = 0; i < N; i++)
            CHECK_INT(got[i], (k + 1) * THREADS * ROUNDS);
    }
}
