/* The tests that MXNet 1.9.1 has of its stores on one machine, with their numbers: shape (4, 4),
 * float32, the integer keys 3 and 5, 7, 11, the text keys a and b, c, d, initialised with zeros.
 * Equality is exact. What no session in tests/cli shows stands here. Where each is:
 *
 *     MXNet's test                         here (mxnet_…), or in tests/cli
 *     unittest/test_kvstore.py
 *       test_single_kv_pair                single_kv_pair; row-sparse-sums.kv
 *       test_row_sparse_pull               row-sparse-sums.kv
 *       test_init                          init
 *       test_pull                          pull
 *       test_list_kv_pair                  list_kv_pair; row-sparse-sums.kv
 *       test_aggregator                    aggregator; row-sparse-sums.kv
 *       test_sparse_aggregator             row-sparse-sums.kv
 *       test_updater                       updater; row-sparse-sums.kv
 *       test_get_type                      get_type
 *       test_invalid_pull                  invalid_pull, other_kind; row-sparse-sums.kv
 *     unittest/test_kvstore_custom.py
 *       test_broadcast_…, test_pushpull_…  types-custom.kv
 *       test_custom_store                  004-base.kv
 *       test_get_type_device               004-base.kv
 *       test_set_optimizer                 set_optimizer, 004-base.kv
 *     nightly/test_kvstore.py
 *       test_kvstore, test_group_kvstore   group-types.kv
 *       test_compress_kvstore              compression-2bit.kv, compression-1bit.kv
 *     other languages
 *       cpp-package, perl-package, julia   other-languages.kv
 *       R-package/demo/basic_kvstore.R     three_devices
 *     unittest/test_gluon_trainer.py       trainer: the numbers; the Trainer itself is Python
 *     cpp/kvstore/gpu_topology_test.cc     nowhere: sums need no trees here
 */
#include <stddef.h>

#include "kvstore.h"
#include "store_help.h"

enum { CPUS = 4, MANY = 3 };

/* The keys of one kind, and one of the other. */
typedef struct kind {
    kv_key one, many[MANY], other;
} kind;

static const kind kinds[] = {
    {{.id = 3}, {{.id = 5}, {.id = 7}, {.id = 11}}, {.name = "a"}},
    {{.name = "a"}, {{.name = "b"}, {.name = "c"}, {.name = "d"}}, {.id = 3}},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static const kv_storage storages[] = {KV_DEFAULT, KV_ROW_SPARSE};

static kv_array *stored_as(kv_storage storage, double x, kv_ctx ctx)
{
    if (storage == KV_DEFAULT)
        return filled_as(KV_FLOAT32, x, ctx);
    own_array *dense = filled_as(KV_FLOAT32, x, ctx);
    own_array *sparse = MADE(kv_array, kv_array_to_sparse, dense);
    return MADE(kv_array, kv_array_dup, sparse, KV_FLOAT32, ctx);
}

/* A store whose four keys hold zeros. */
static kv *start(const char *type, const kind *k, kv_storage storage)
{
    kv *s = make(type);
    kv_array *zero = stored_as(storage, 0, (kv_ctx){0}), *zeros[] = {zero, zero, zero};
    CHECK_OK(kv_init(s, &k->one, 1, &zero, NULL, &e));
    CHECK_OK(kv_init(s, k->many, MANY, zeros, NULL, &e));
    kv_array_unref(zero);
    return s;
}

/* Each key n times, with one array on each of n cpus. */
static int devices(kv_key *keys, kv_array **arrays, const kv_key *of, int nkeys, kv_storage storage,
                   double x)
{
    for (int i = 0; i < nkeys * CPUS; i++) {
        keys[i] = of[i / CPUS];
        arrays[i] = stored_as(storage, x, (kv_ctx){KV_CPU, i % CPUS});
    }
    return nkeys * CPUS;
}

/* Pushes x from four devices to each key, and pulls the result to four. */
static void push_and_pull(kv *s, const kv_key *of, int nkeys, kv_storage storage, double x,
                          double want)
{
    kv_key keys[MANY * CPUS];
    own_arrays *values[MANY * CPUS + 1] = {NULL}, *outs[MANY * CPUS + 1] = {NULL};
    int n = devices(keys, values, of, nkeys, storage, x);
    devices(keys, outs, of, nkeys, KV_DEFAULT, -1);
    CHECK_OK(kv_push(s, keys, n, values, NULL, &e));
    CHECK_OK(kv_pull(s, keys, n, outs, NULL, &e));
    for (int i = 0; i < n; i++) {
        check_array(outs[i], want);
        check_array(values[i], x);
    }
}

TEST(mxnet_single_kv_pair)
{
    for (int i = 0; i < KINDS * 2; i++) {
        const kind *k = &kinds[i / 2];
        own_kv *s = start("local", k, KV_DEFAULT);
        own_array *one = stored_as(storages[i % 2], 1, (kv_ctx){0});
        CHECK_OK(kv_push(s, &k->one, 1, &one, NULL, &e));
        check_key(s, k->one, 1);
    }
}

TEST(mxnet_init)
{
    for (int i = 0; i < KINDS; i++) {
        own_kv *s = make(NULL);
        own_array *four = stored_as(KV_DEFAULT, 4, (kv_ctx){0});
        CHECK_OK(kv_init(s, &kinds[i].one, 1, &four, NULL, &e));
        check_key(s, kinds[i].one, 4);
    }
}

/* One array four times in a push, and a key that is initialised after such a push. */
TEST(mxnet_pull)
{
    const char *const types[] = {"device", NULL};
    for (int i = 0; i < 2; i++) {
        own_kv *s = make(types[i]);
        const kv_key first = {.name = "1"}, second = {.name = "2"};
        const kv_key keys[] = {first, first, first, first};
        own_array *zero = stored_as(KV_DEFAULT, 0, (kv_ctx){0});
        kv_array *one = stored_as(KV_DEFAULT, 1, (kv_ctx){0}), *ones[] = {one, one, one, one};
        CHECK_OK(kv_init(s, &first, 1, &zero, NULL, &e));
        CHECK_OK(kv_push(s, keys, 4, ones, NULL, &e));
        check_key(s, first, 4);
        CHECK_OK(kv_init(s, &second, 1, &zero, NULL, &e));
        check_key(s, second, 0);
        check_array(one, 1);
        kv_array_unref(one);
    }
}

/* The list of outs is one array three times. */
TEST(mxnet_list_kv_pair)
{
    for (int i = 0; i < KINDS * 2; i++) {
        const kind *k = &kinds[i / 2];
        own_kv *s = start("local", k, KV_DEFAULT);
        kv_array *four = stored_as(storages[i % 2], 4, (kv_ctx){0}), *values[] = {four, four, four};
        kv_array *out = stored_as(KV_DEFAULT, 0, (kv_ctx){0}), *outs[] = {out, out, out};
        CHECK_OK(kv_push(s, k->many, MANY, values, NULL, &e));
        CHECK_OK(kv_pull(s, k->many, MANY, outs, NULL, &e));
        check_array(out, 4);
        for (int j = 0; j < MANY; j++)
            check_key(s, k->many[j], 4);
        kv_array_unref(four);
        kv_array_unref(out);
    }
}

TEST(mxnet_aggregator)
{
    for (int i = 0; i < KINDS * 4; i++) {
        const kind *k = &kinds[i / 4];
        own_kv *s = start(i / 2 % 2 ? "device" : "local", k, KV_DEFAULT);
        push_and_pull(s, &k->one, 1, storages[i % 2], 1, 4);
        push_and_pull(s, k->many, MANY, storages[i % 2], 2, 8);
    }
}

/* stored += input, for keys of one kind only. */
static int add(void *text, const kv_key *key, kv_array *input, kv_array *stored, kv_err *e)
{
    own_array *dense = NULL;
    if ((key->name != NULL) != *(bool *)text)
        return kv_err_set(e, KV_E_KEY, "a key of the other kind");
    TRY(kv_array_to_dense(&dense, input, e));
    return add_input(NULL, key, dense, stored, e);
}

TEST(mxnet_updater)
{
    for (int i = 0; i < KINDS * 4; i++) {
        const kind *k = &kinds[i / 4];
        bool text = k->one.name != NULL;
        own_kv *s = start(i / 2 % 2 ? "device" : "local", k, KV_DEFAULT);
        CHECK_OK(kv_set_updater(s, add, &text, NULL, &e));
        push_and_pull(s, &k->one, 1, storages[i % 2], 1, 4);
        for (int round = 1; round <= 4; round++)
            push_and_pull(s, k->many, MANY, storages[i % 2], 1, 4 * round);
    }
}

TEST(mxnet_get_type)
{
    const char *const types[] = {"local_allreduce_cpu", "local_update_cpu", "local", "device",
                                 "local_allreduce_device"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        own_kv *s = make(types[i]);
        CHECK_TEXT(kv_type(s), types[i]);
    }
}

/* A pull leaves a row_sparse array as it is, and rows do not go into a default one. */
TEST(mxnet_invalid_pull)
{
    for (int i = 0; i < KINDS; i++) {
        const kind *k = &kinds[i];
        own_kv *s = start("local", k, KV_ROW_SPARSE);
        kv_array *two = stored_as(KV_ROW_SPARSE, 2, (kv_ctx){0}), *twos[] = {two, two, two};
        kv_array *dense = stored_as(KV_DEFAULT, 2, (kv_ctx){0}), *denses[] = {dense, dense, dense};
        int64_t ignored = -1;
        own_array *ids = MADE(kv_array, kv_array_new, KV_INT64, 1, (int64_t[]){1}, (kv_ctx){0});
        kv_array *lists[] = {ids, ids, ids};
        CHECK_OK(kv_pull(s, &k->one, 1, &two, &(kv_call){.ignored = &ignored}, &e));
        CHECK_INT(ignored, 1);
        CHECK_OK(kv_pull(s, k->many, MANY, twos, &(kv_call){.ignored = &ignored}, &e));
        CHECK_INT(ignored, 3);
        check_array(two, 2);
        CHECK_ERR(kv_row_sparse_pull(s, &k->one, 1, &ids, &dense, NULL, &e), KV_E_VALUE,
                  i == 0 ? "rows of key 3 go into a row_sparse array, this one is not"
                         : "rows of key \"a\" go into a row_sparse array, this one is not");
        CHECK_ERR(kv_row_sparse_pull(s, k->many, MANY, lists, denses, NULL, &e), KV_E_VALUE,
                  i == 0 ? "rows of key 5 go into a row_sparse array, this one is not"
                         : "rows of key \"b\" go into a row_sparse array, this one is not");
        check_array(dense, 2);
        kv_array_unref(two);
        kv_array_unref(dense);
    }
}

/* Every call refuses a key of the other kind, alone and in a list, and nothing changes. */
TEST(mxnet_other_kind)
{
    const char *const texts[] = {"this store holds integer keys, \"a\" is a text key",
                                 "this store holds text keys, 3 is an integer key"};
    for (int i = 0; i < KINDS; i++) {
        own_kv *s = start("local", &kinds[i], KV_ROW_SPARSE);
        const kv_key key = kinds[i].other;
        const kv_key pair[] = {key, i == 0 ? (kv_key){.name = "b"} : (kv_key){.id = 5}};
        own_array *one = stored_as(KV_ROW_SPARSE, 1, (kv_ctx){0}), *ids = NULL;
        CHECK_OK(kv_array_new(&ids, KV_INT64, 1, (int64_t[]){1}, (kv_ctx){0}, &e));
        kv_array *ones[] = {one, one}, *lists[] = {ids, ids};
        for (int n = 1; n <= 2; n++) {
            CHECK_ERR(kv_init(s, pair, n, ones, NULL, &e), KV_E_KEY, texts[i]);
            CHECK_ERR(kv_push(s, pair, n, ones, NULL, &e), KV_E_KEY, texts[i]);
            CHECK_ERR(kv_pull(s, pair, n, ones, NULL, &e), KV_E_KEY, texts[i]);
            CHECK_ERR(kv_row_sparse_pull(s, pair, n, lists, ones, NULL, &e), KV_E_KEY, texts[i]);
        }
        CHECK_INT(kv_num_keys(s), 1 + MANY);
        check_key(s, kinds[i].one, 0);
        check_array(one, 1);
    }
}

/* Three devices under the key 0, again and again. */
TEST(mxnet_three_devices)
{
    own_kv *s = make("local");
    const kv_key key = {0}, keys[] = {key, key, key};
    own_arrays *values[4] = {NULL}, *outs[4] = {NULL};
    for (int i = 0; i < 3; i++) {
        values[i] = stored_as(KV_DEFAULT, i + 1, (kv_ctx){KV_CPU, i});
        outs[i] = stored_as(KV_DEFAULT, 0, (kv_ctx){KV_CPU, i});
    }
    CHECK_OK(kv_init(s, &key, 1, values, NULL, &e));
    for (int round = 0; round < 3; round++) {
        CHECK_OK(kv_push(s, keys, 3, values, NULL, &e));
        CHECK_OK(kv_pull(s, keys, 3, outs, NULL, &e));
        for (int i = 0; i < 3; i++)
            check_array(outs[i], 1 + 2 + 3);
    }
}

TEST(mxnet_set_optimizer)
{
    own_kv *s = make("teststore");
    CHECK_CODE(kv_set_optimizer(s, "sgd", NULL, 0, &e), KV_E_UNSUPPORTED);
    CHECK_CODE(kv_save_states(s, "states", 0, &e), KV_E_UNSUPPORTED);
    CHECK_ERR(kv_load_states(s, "states", &e), KV_E_UNSUPPORTED,
              "stores of type \"teststore\" have no states of an optimizer");
}

static kv *start_sgd(double weight)
{
    kv *s = make("device");
    const kv_opt opts[] = {{"learning_rate", "1"}, {"momentum", "0.5"}};
    own_array *w = stored_as(KV_DEFAULT, weight, (kv_ctx){0});
    CHECK_OK(kv_init(s, &(kv_key){0}, 1, &w, NULL, &e));
    CHECK_OK(kv_set_optimizer(s, "sgd", opts, 2, &e));
    return s;
}

/* A gradient of 1 on each of two devices; both pull the weight. */
static void train(kv *s, double want)
{
    const kv_key keys[] = {{0}, {0}};
    own_arrays *grads[3] = {NULL}, *weights[3] = {NULL};
    for (int i = 0; i < 2; i++) {
        grads[i] = stored_as(KV_DEFAULT, 1, (kv_ctx){KV_CPU, i});
        weights[i] = stored_as(KV_DEFAULT, 7, (kv_ctx){KV_CPU, i});
    }
    CHECK_OK(kv_pushpull(s, keys, 2, grads, keys, 2, weights, NULL, &e));
    for (int i = 0; i < 2; i++)
        check_array(weights[i], want);
}

/* sgd with momentum from 0: -2; with half the rate -4; the same again with states from a file. */
TEST(mxnet_trainer)
{
    char path[64];
    int fd = mkstemp(memory_path(path, sizeof path, "kvstore-unit"));
    kv *s = start_sgd(0);
    CHECK(fd >= 0);
    close(fd);
    train(s, -2);
    CHECK_OK(kv_save_states(s, path, 0, &e));
    CHECK_OK(kv_update_optimizer(s, &(kv_opt){"learning_rate", "0.5"}, 1, &e));
    train(s, -4);
    kv_free(s);
    s = start_sgd(-2);
    CHECK_OK(kv_load_states(s, path, &e));
    CHECK_OK(kv_update_optimizer(s, &(kv_opt){"learning_rate", "0.5"}, 1, &e));
    train(s, -4);
    kv_free(s);
    remove(path);
}
