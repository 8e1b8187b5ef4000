/* The store on one machine: keys, init, push, pull, ASSIGN, C callbacks. The numbers are those that
 * MXNet's own tests and documents expect. */
#include "kvstore.h"

#include <math.h>

#include "store_help.h"

static const float one = 1;

static void set_add(kv *s, const float *factor)
{
    CHECK_OK(kv_set_updater(s, add_input, (void *)factor, NULL, &e));
}

static const char *const types[] = {"local", "device"};

/* ---- Types ---- */

TEST(store_types)
{
    kv *s = make("Local_AllReduce_CPU");
    CHECK_TEXT(kv_type(s), "local_allreduce_cpu");
    CHECK_INT(kv_rank(s), 0);
    CHECK_INT(kv_num_workers(s), 1);
    kv_free(s);
    kv_free(NULL);
    CHECK_TEXT(kv_version(), KV_VERSION);
    s = NULL;
    CHECK_ERR(kv_create("foo", NULL, 0, &s, &e), KV_E_UNSUPPORTED,
              "there is no store type \"foo\"");
    CHECK_ERR(kv_create("dist", NULL, 0, &s, &e), KV_E_UNSUPPORTED,
              "the type \"dist_sync\" needs the MPI plugin, which the static library cannot load");
    CHECK_ERR(kv_create("NCCL", NULL, 0, &s, &e), KV_E_UNSUPPORTED,
              "the type \"nccl\" needs the CUDA plugin, which the static library cannot load");
    CHECK_ERR(kv_save(NULL, "never.kvs", &e), KV_E_USAGE, "there is no store: the pointer is NULL");
    e = (kv_err){0};
    kv_create("dist", NULL, 0, &s, &e);
    CHECK_TEXT(e.hint, "types: local, device, teststore, nccl; kvctl help types says what each "
                       "needs");
    e = (kv_err){0};
    kv_create("locla", NULL, 0, &s, &e);
    CHECK(strncmp(e.hint, "did you mean local? types: ", 27) == 0);
    e = (kv_err){0};
    kv_create("row_sparse", NULL, 0, &s, &e);
    CHECK_TEXT(e.hint, "types: local, device, teststore, nccl, dist_sync, dist_async, "
                       "dist_device_sync, dist_device_async, horovod, byteps; kvctl help types "
                       "says what each needs");
    CHECK_ERR(kv_create("local", &(kv_opt){"staleness", "4"}, 1, &s, &e), KV_E_USAGE,
              "the type \"local\" has no option \"staleness\"");
    CHECK(!s);
    e = (kv_err){0};
    kv_create("teststore", &(kv_opt){"staleness", "4"}, 1, &s, &e);
    CHECK_INT(e.option, 1);
}

/* ---- Errors leave the store as it was ---- */

TEST(store_key_errors)
{
    own_kv *s = make("local"), *u = make("local"), *none = make("local");
    own_array *a = filled(1);
    kv_key three = id(3), five = id(5), text = name("a");
    init_with(s, three, filled(2));
    init_with(u, text, filled(2));
    CHECK_ERR(kv_init(s, &three, 1, &a, NULL, &e), KV_E_KEY, "key 3 is initialised already");
    CHECK_ERR(kv_init(u, &text, 1, &a, NULL, &e), KV_E_KEY, "key \"a\" is initialised already");
    CHECK_ERR(kv_init(s, (kv_key[]){five, five}, 2, (kv_array *[]){a, a}, NULL, &e), KV_E_KEY,
              "key 5 stands twice in the call");
    CHECK_INT(kv_num_keys(s), 1);
    CHECK_CODE(kv_init(s, &text, 1, &a, NULL, &e), KV_E_KEY);
    CHECK_CODE(kv_push(s, &text, 1, &a, NULL, &e), KV_E_KEY);
    CHECK_CODE(kv_pull(s, &text, 1, &a, NULL, &e), KV_E_KEY);
    CHECK_CODE(kv_pull(u, &three, 1, &a, NULL, &e), KV_E_KEY);
    CHECK_CODE(kv_push(s, (kv_key[]){three, text}, 2, (kv_array *[]){a, a}, NULL, &e), KV_E_KEY);
    CHECK_CODE(kv_init(none, (kv_key[]){text, three}, 2, (kv_array *[]){a, a}, NULL, &e), KV_E_KEY);
    CHECK_CODE(kv_push(s, &three, 1, (kv_array *[]){NULL}, NULL, &e), KV_E_VALUE);
    CHECK_INT(kv_pull(s, &five, 1, &a, NULL, &e), KV_E_KEY);
    CHECK_INT(e.has_key, 1);
    CHECK_INT(e.key_id, 5);
    set_add(s, &one);
    CHECK_CODE(kv_push(s, &five, 1, &a, NULL, &e), KV_E_KEY);
    CHECK_CODE(kv_push(s, (kv_key[]){three, five}, 2, (kv_array *[]){a, a}, NULL, &e), KV_E_KEY);
    check_key(s, three, 2);
}

TEST(store_failed_calls_do_not_poison_keys)
{
    /* In MXNet a failed pull leaves an empty slot, and the key can never be initialised. */
    own_kv *s = make("local");
    own_array *a = filled(1), *b = array_vector(KV_FLOAT32, 2, (double[]){1, 2});
    kv_key k = id(9);
    CHECK_CODE(kv_pull(s, &k, 1, &a, NULL, &e), KV_E_KEY);
    CHECK_ERR(kv_push(s, (kv_key[]){k, k}, 2, (kv_array *[]){a, b}, NULL, &e), KV_E_SHAPE,
              "the values of the new key 9 have the shapes (4, 4) and (2,)");
    CHECK_INT(kv_num_keys(s), 0);
    init_with(s, k, filled(1));
    CHECK_CODE(kv_init(s, (kv_key[]){id(10), k}, 2, (kv_array *[]){a, a}, NULL, &e), KV_E_KEY);
    CHECK_CODE(kv_pull(s, &(kv_key){.id = 10}, 1, &a, NULL, &e), KV_E_KEY);
}

TEST(store_long_text_keys)
{
    own_kv *s = make("local");
    own_array *a = filled(1);
    char text[KV_KEY_MAX + 2];
    memset(text, 'k', sizeof text);
    text[KV_KEY_MAX + 1] = '\0';
    kv_key k = name(text);
    CHECK_INT(kv_init(s, &k, 1, &a, NULL, &e), KV_E_KEY);
    char want[200];
    snprintf(want, sizeof want, "the key \"%.90s...\" is longer than 4096 bytes", text);
    CHECK_TEXT(e.text, want);
    e = (kv_err){0};
    text[KV_KEY_MAX] = '\0';
    CHECK_OK(kv_init(s, &k, 1, &a, NULL, &e));
    CHECK_ERR(kv_init(s, &(kv_key){.name = "caf\xe9"}, 1, &a, NULL, &e), KV_E_KEY,
              "the key \"caf\xe9\" is not UTF-8");
    text[0] = 'x';
    CHECK_INT(kv_pull(s, &k, 1, &a, NULL, &e), KV_E_KEY);
    text[0] = 'k';
    CHECK_OK(kv_pull(s, &k, 1, &a, NULL, &e));
}

TEST(store_shape_errors)
{
    own_kv *s = make("local");
    own_array *a = filled(1), *b = array_vector(KV_FLOAT32, 2, (double[]){1, 2});
    kv_key keys[] = {id(1), id(2)};
    init_with(s, keys[0], filled(1));
    init_with(s, keys[1], filled(2));
    CHECK_ERR(kv_push(s, keys, 2, (kv_array *[]){a, b}, NULL, &e), KV_E_SHAPE,
              "key 2 holds (4, 4), this value has shape (2,)");
    CHECK_ERR(kv_pull(s, keys, 2, (kv_array *[]){a, b}, NULL, &e), KV_E_SHAPE,
              "key 2 holds (4, 4), this array has shape (2,)");
    check_array(a, 1);
    check_key(s, keys[1], 2);
}

/* ---- Arrays stay their owner's ---- */

TEST(store_assign_copies)
{
    for (int n = 1; n <= 2; n++) {
        own_kv *s = make("local");
        kv_key k = id(3), keys[] = {k, k};
        kv_array *a = filled(1), *values[] = {a, a};
        init_with(s, k, filled(0));
        CHECK_OK(kv_push(s, keys, n, values, NULL, &e));
        CHECK_INT(kv_array_refs(a), 1);
        float *data = array_data(a);
        data[0] = 77;
        check_key(s, k, n);
        set_add(s, &one);
        push_n(s, k, filled(1), 1);
        check_array(values[0], data[0] = 1);
        push_n(s, k, filled(1), 3);
        check_key(s, k, n + 4);
        kv_array_unref(a);
    }
}

typedef struct kept {
    kv_array *input, *stored;
} kept;

static int keep(void *arg, const kv_key *key, kv_array *input, kv_array *stored, kv_err *e)
{
    kept *k = arg;
    void *y = NULL;
    (void)key;
    int rc = kv_array_write(stored, &y, e);
    for (int i = 0; rc == KV_OK && i < 16; i++)
        ((float *)y)[i] = 5;
    k->input = kv_array_ref(input);
    k->stored = kv_array_ref(stored);
    return rc;
}

TEST(store_callback_may_keep_its_arrays)
{
    own_kv *s = make("local");
    kept k = {0};
    own_array *value = filled(1);
    init_with(s, id(3), filled(0));
    CHECK_OK(kv_set_updater(s, keep, &k, NULL, &e));
    CHECK_OK(kv_push(s, &(kv_key){.id = 3}, 1, &value, NULL, &e));
    CHECK(k.input != value);
    check_key(s, id(3), 5);
    float *data = array_data(k.stored);
    data[0] = 99;
    data = array_data(k.input);
    data[0] = 99;
    check_key(s, id(3), 5);
    check_array(value, 1);
    kv_array_unref(k.input);
    kv_array_unref(k.stored);
}

/* ---- Updaters ---- */

typedef struct diary {
    int64_t ids[64];
    char names[64];
    int n;
    int64_t refuse;
    kv *store;
} diary;

static int note(void *arg, const kv_key *key, kv_array *input, kv_array *stored, kv_err *e)
{
    diary *d = arg;
    d->names[d->n] = key->name ? key->name[0] : '.';
    d->ids[d->n++] = key->id;
    int rc = add_input((void *)&one, key, input, stored, e);
    return rc ? rc : key->id == d->refuse ? KV_E_VALUE : KV_OK;
}

static void count_done(void *arg)
{
    ((diary *)arg)->n += 1000;
}

TEST(store_updates_run_in_key_order)
{
    own_kv *s = make("local"), *u = make("local");
    diary d = {.refuse = -1};
    kv_array *a = filled(1), *values[] = {a, a, a, a};
    int64_t ids[] = {9, -4, 7};
    const char *names[] = {"z", "b", "m"};
    for (int i = 0; i < 3; i++) {
        init_with(s, id(ids[i]), filled(1));
        init_with(u, name(names[i]), filled(1));
    }
    CHECK_OK(kv_set_updater(s, note, &d, count_done, &e));
    CHECK_OK(kv_push(s, (kv_key[]){id(9), id(7), id(9), id(-4)}, 4, values, NULL, &e));
    CHECK_INT(d.n, 3);
    CHECK(d.ids[0] == -4 && d.ids[1] == 7 && d.ids[2] == 9);
    check_key(s, id(9), 3);
    CHECK_OK(kv_set_updater(s, NULL, NULL, NULL, &e));
    CHECK_INT(d.n, 1003);
    d.n = 0;
    CHECK_OK(kv_set_updater(u, note, &d, NULL, &e));
    CHECK_OK(kv_push(u, (kv_key[]){name("b"), name("m"), name("z")}, 3, values, NULL, &e));
    CHECK(memcmp(d.names, "zbm", 3) == 0);
    kv_info info;
    CHECK_OK(kv_info_at(s, 0, &info, &e));
    CHECK_INT(info.key.id, -4);
    CHECK_OK(kv_info_at(u, 0, &info, &e));
    CHECK_TEXT(info.key.name, "z");
    CHECK_ERR(kv_info_at(u, 3, &info, &e), KV_E_INDEX, "there is no key number 3, the store has 3");
    kv_array_unref(a);
}

/* Notes the names that are visited; refuses the one that `arg` ends with already. */
static int visit_name(void *arg, const kv_info *info, kv_err *e)
{
    char *seen = arg;
    size_t n = strlen(seen);
    if (n && seen[n - 1] == *info->key.name)
        return kv_err_set(e, KV_E_VALUE, "seen already");
    seen[n] = *info->key.name;
    seen[n + 1] = 0;
    return info->ndim == 2 && info->shape[0] == 4 ? KV_OK : KV_E_SHAPE;
}

TEST(store_visit_keys)
{
    static const char *const names[] = {"z", "b", "m"};
    char seen[8] = "";
    own_kv *s = make("local");
    for (int i = 0; i < 3; i++)
        init_with(s, name(names[i]), filled(1));
    CHECK_OK(kv_visit_keys(s, NULL, visit_name, seen, &e));
    CHECK_TEXT(seen, "zbm");
    CHECK_OK(kv_visit_keys(s, &(kv_key){0, "b"}, visit_name, seen, &e));
    CHECK_TEXT(seen, "zbmb");
    CHECK_ERR(kv_visit_keys(s, &(kv_key){0, "b"}, visit_name, seen, &e), KV_E_VALUE,
              "seen already");
    CHECK(kv_visit_keys(s, &(kv_key){0, "x"}, visit_name, seen, &e) == KV_E_KEY);
    CHECK_OK(
        kv_visit_keys(s, &(kv_key){0, "m"}, visit_name, seen, &e)); /* the lock is free again */
    CHECK_TEXT(seen, "zbmbm");
}

TEST(store_refused_update_keeps_the_old_value)
{
    own_kv *s = make("local");
    diary d = {.refuse = 7};
    kv_array *a = filled(1), *values[] = {a, a, a};
    kv_key keys[] = {id(5), id(7), id(9)};
    for (int i = 0; i < 3; i++)
        init_with(s, keys[i], filled(1));
    CHECK_OK(kv_set_updater(s, note, &d, NULL, &e));
    CHECK_INT(kv_push(s, keys, 3, values, NULL, &e), KV_E_VALUE);
    CHECK_TEXT(e.text, "the updater refused key 7 (code 9)");
    CHECK_INT(e.key_id, 7);
    check_key(s, keys[0], 2);
    check_key(s, keys[1], 1);
    check_key(s, keys[2], 2);
    kv_array_unref(a);
}

static int ask(void *arg, const kv_key *key, kv_array *input, kv_array *stored, kv_err *e)
{
    diary *d = arg;
    (void)stored;
    CHECK_TEXT(kv_type(d->store), "local");
    CHECK_INT(kv_rank(d->store), 0);
    CHECK_INT(kv_num_keys(d->store), 0);
    return kv_pull(d->store, key, 1, &input, NULL, e);
}

static void take_log(void *arg, const char *text)
{
    *(char *)arg = text[0];
}

TEST(store_updater_that_uses_its_store_gets_an_error)
{
    char log = 0;
    diary d = {.store = make("local")};
    own_array *a = filled(1);
    kv_key k = id(3);
    init_with(d.store, k, filled(1));
    kv_set_log(take_log, &log);
    CHECK_OK(kv_set_updater(d.store, ask, &d, NULL, &e));
    CHECK_ERR(kv_push(d.store, &k, 1, &a, NULL, &e), KV_E_USAGE,
              "an updater or printer may ask its own store only for type and rank");
    CHECK_INT(log, 'k');
    kv_set_log(NULL, NULL);
    kv_free(d.store);
}

/* ---- Sums and dtypes ---- */

TEST(store_values_are_converted_to_the_stored_dtype)
{
    own_kv *s = make("local");
    kv_key k = id(1), h = id(2);
    init_with(s, k, filled_as(KV_INT8, 0, cpu0));
    kv_array *values[] = {filled_as(KV_FLOAT32, 2.9, cpu0), filled_as(KV_INT8, 100, cpu0),
                          filled_as(KV_FLOAT64, 1e9, cpu0)};
    CHECK_OK(kv_push(s, (kv_key[]){k, k, k}, 3, values, NULL, &e));
    check_key(s, k, (int8_t)(2 + 100 + 127));
    kv_info info = info_of(s, k);
    CHECK_INT(info.dtype, KV_INT8);
    CHECK_INT(info.pushes, 1);
    CHECK_INT(info.bytes, 16);
    /* float16: each value is rounded to it, the sum accumulates in float32 and rounds once. */
    init_with(s, h, filled_as(KV_FLOAT16, 0, cpu0));
    kv_array *halves[] = {filled_as(KV_FLOAT16, 2048, cpu0), filled(1),
                          filled_as(KV_INT32, 1, cpu0)};
    CHECK_OK(kv_push(s, (kv_key[]){h, h, h}, 3, halves, NULL, &e));
    check_key(s, h, 2050);
    for (int i = 0; i < 3; i++) {
        kv_array_unref(values[i]);
        kv_array_unref(halves[i]);
    }
}

/* ---- Contexts ---- */

TEST(store_contexts)
{
    kv_info info;
    CHECK_OK(kv_set_virtual_gpus(4, &e));
    kv_ctx gpu1 = {KV_GPU, 1}, gpu2 = {KV_GPU, 2};
    kv_key k = id(3);
    for (int t = 0; t < 2; t++) {
        for (int updater = 0; updater < 2; updater++) {
            own_kv *s = make(types[t]);
            init_with(s, k, filled_as(KV_FLOAT32, 10, gpu2));
            info = info_of(s, k);
            CHECK(kv_ctx_same(info.ctx, cpu0));
            if (updater)
                set_add(s, &one);
            push_n(s, k, filled_as(KV_FLOAT32, 1, gpu1), 2);
            push_n(s, k, filled_as(KV_FLOAT32, 1, gpu2), 2);
            info = info_of(s, k);
            CHECK(kv_ctx_same(info.ctx, t ? gpu1 : cpu0));
            check_key(s, k, updater ? 14 : 2);
        }
    }
    CHECK_ERR(kv_set_virtual_gpus(-1, &e), KV_E_VALUE,
              "-1 virtual GPUs are not possible: 0 to 65536 are");
}

TEST(store_zero_size_and_zero_dimensions)
{
    own_kv *s = make("local");
    kv_key keys[] = {id(1), id(2)};
    own_array *empty = MADE(kv_array, kv_array_new, KV_FLOAT32, 2, (int64_t[]){0, 3}, cpu0);
    own_array *scalar = MADE(kv_array, kv_array_new, KV_FLOAT16, 0, NULL, cpu0);
    kv_array *values[] = {empty, scalar};
    CHECK_OK(kv_init(s, keys, 2, values, NULL, &e));
    CHECK_OK(kv_push(s, keys, 2, values, NULL, &e));
    CHECK_OK(kv_push(s, (kv_key[]){keys[0], keys[0]}, 2, (kv_array *[]){empty, empty}, NULL, &e));
    CHECK_OK(kv_pull(s, keys, 2, values, NULL, &e));
}

/* ---- Descriptions ---- */

TEST(store_describe)
{
    own_kv *s = make("device");
    seen_rows row = {0}, types_seen = {.last = 2};
    init_with(s, id(1), filled(1));
    CHECK_OK(kv_describe(s, "store", see_rows, &row, &e));
    CHECK_TEXT(row.text, "type=device rank=0 num_workers=1 updater=assign compression=none keys=1 "
                         "bytes=64 \n");
    CHECK_INT(kv_describe(NULL, "types", see_rows, &types_seen, &e), KV_E_INTERRUPTED);
    CHECK_TEXT(types_seen.text,
               "name=local aliases=local_update_cpu local_allreduce_cpu available=1 reason= \n"
               "name=device aliases=local_allreduce_device available=1 reason= \n");
    CHECK_CODE(kv_describe(NULL, "store", see_rows, &row, &e), KV_E_USAGE);
}

/* ---- Out of memory at every place ---- */

enum { MANY = 40 };

static kv_array *ones;

typedef int store_call(kv *, const kv_key *, int64_t, kv_array *const *, const kv_call *, kv_err *);

/* A call for MANY keys from this one on, each of them twice unless it makes them. */
static int many(store_call *op, kv *s, int64_t first, kv_err *e)
{
    kv_key keys[2 * MANY];
    kv_array *arrays[2 * MANY];
    for (int64_t i = 0; i < 2 * MANY; i++) {
        keys[i] = id(first + (i * 7) % MANY);
        arrays[i] = ones;
    }
    return op(s, keys, op == kv_init ? MANY : 2 * MANY, arrays, NULL, e);
}

/* Lets the first, second, third … allocation of a call fail, until it succeeds; the store, whose
 * keys hold their own numbers, must be as it was after each failure. */
static void check_memory_faults(const char *type, const float *factor, store_call *op,
                                int64_t first)
{
    own_kv *s = make(type);
    ones = filled_as(KV_FLOAT32, 1, (kv_ctx){KV_GPU, 0});
    for (int i = 0; i < MANY; i++)
        init_with(s, id(i), filled(i));
    if (factor)
        set_add(s, factor);
    kv_err e = {0};
    int64_t last = 0;
    EACH_FAILURE(many(op, s, first, &e)) {
        CHECK_INT(kv_num_keys(s), MANY);
        for (int64_t k = 0; k < MANY; k++)
            check_key(s, id(k), (double)k);
        last = n;
    }
    CHECK(last > 0);
    kv_array_unref(ones);
}

TEST(store_memory_faults)
{
    CHECK_OK(kv_set_virtual_gpus(1, &e));
    for (int t = 0; t < 2; t++) {
        check_memory_faults(types[t], NULL, kv_init, MANY);
        check_memory_faults(types[t], NULL, kv_push, 2 * MANY); /* new keys */
        check_memory_faults(types[t], NULL, kv_push, 0);
        check_memory_faults(types[t], NULL, kv_pull, 0);
        check_memory_faults(types[t], &one, kv_push, 0);
    }
}

TEST(store_create_memory_faults)
{
    own_kv *s = NULL;
    CHECK(FAILURES(kv_create("local", NULL, 0, &s, &e)) > 0);
}
