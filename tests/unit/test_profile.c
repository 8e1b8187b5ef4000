/* A profile of stores, read back as JSON. */
#include <cjson/cJSON.h>
#include <unistd.h>

#include "base/file.h"
#include "kvstore.h"
#include "store_help.h"

static const int64_t large[] = {200000}, small[] = {2, 3};

static kv_array *zeros(const int64_t *shape, int ndim)
{
    return MADE(kv_array, kv_array_new, KV_FLOAT32, ndim, shape, cpu0);
}

static cJSON *read_profile(const char *path)
{
    size_t n;
    own_text *text = file_text(path, &n);
    cJSON *all = cJSON_ParseWithLengthOpts(text, n + 1, NULL, 1);
    CHECK(cJSON_IsArray(all));
    unlink(path);
    return all;
}

static const char *text_of(const cJSON *ev, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(ev, name));
    return text ? text : "";
}

static double number_of(const cJSON *ev, const char *name)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(ev, name);
    CHECK(cJSON_IsNumber(v));
    return v->valuedouble;
}

static const cJSON *arg_of(const cJSON *ev, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(ev, "args"), name);
}

static bool is(const cJSON *ev, const char *phase, const char *category)
{
    return strcmp(text_of(ev, "ph"), phase) == 0 && strcmp(text_of(ev, "cat"), category) == 0;
}

/* The number of events of a category whose names begin so. */
static int count(const cJSON *all, const char *phase, const char *category, const char *name)
{
    int n = 0;
    const cJSON *ev;
    cJSON_ArrayForEach(ev, all) n +=
        is(ev, phase, category) && strncmp(text_of(ev, "name"), name, strlen(name)) == 0;
    return n;
}

static bool is_part(const cJSON *ev, int64_t key)
{
    return is(ev, "X", "part") && arg_of(ev, "key")->valuedouble == (double)key;
}

/* Parts of two operations on one key stand in the order of the operations, unless both only read
 * it. */
static void check_apart(const cJSON *a, const cJSON *b)
{
    bool read =
        strncmp(text_of(a, "name"), "copy", 4) == 0 && strncmp(text_of(b, "name"), "copy", 4) == 0;
    double first = arg_of(a, "op")->valuedouble, second = arg_of(b, "op")->valuedouble;
    const cJSON *from = first < second ? a : b, *to = first < second ? b : a;
    /* times have three decimals, and sums of them round */
    CHECK(read || first == second ||
          number_of(from, "ts") + number_of(from, "dur") <= number_of(to, "ts") + 1e-4);
}

TEST(profile_operations_on_a_key_keep_program_order)
{
    enum { KEYS = 3, ROUNDS = 30 };
    own_kv *s = make("local");
    own_arrays *values[KEYS + 1] = {NULL}, *outs[KEYS + 1] = {NULL};
    kv_key keys[KEYS];
    const char *path = "profile-runs.json";
    for (int k = 0; k < KEYS; k++) {
        keys[k] = (kv_key){.id = k};
        values[k] = zeros(large, 1);
        outs[k] = zeros(large, 1);
    }
    CHECK_OK(kv_profile_start(path, &e));
    CHECK_OK(kv_init(s, keys, KEYS, values, NULL, &e));
    for (int i = 0; i < ROUNDS; i++) {
        int k = i % KEYS;
        CHECK_OK(kv_push(s, &keys[k], 1, &values[(k + i) % KEYS], NULL, &e));
        CHECK_OK(kv_pull(s, &keys[k], 1, &outs[k], NULL, &e));
    }
    CHECK_OK(kv_wait(s, &e));
    CHECK_OK(kv_profile_stop(&e));
    cJSON *all = read_profile(path);
    CHECK_INT(count(all, "X", "run", "init 0, 1, 2"), 1);
    CHECK_INT(count(all, "X", "run", "push "), ROUNDS);
    CHECK_INT(count(all, "X", "run", "pull "), ROUNDS);
    CHECK_INT(count(all, "X", "enqueue", "enqueue push "), ROUNDS);
    CHECK_INT(count(all, "b", "wait", ""), 2 * ROUNDS);
    CHECK_INT(count(all, "e", "wait", ""), 2 * ROUNDS);
    CHECK_INT(count(all, "s", "schedule", ""), 2 * ROUNDS);
    CHECK_INT(count(all, "f", "schedule", ""), 2 * ROUNDS);
    for (int k = 0; k < KEYS; k++) {
        const cJSON *a, *b;
        cJSON_ArrayForEach(a, all)
        {
            for (b = is_part(a, k) ? a->next : NULL; b; b = b->next)
                if (is_part(b, k))
                    check_apart(a, b);
        }
    }
    cJSON_Delete(all);
}

/* The parts of each operation cover its array once, within the time that it ran. */
static void check_parts(const cJSON *all, const char *name, const char *key, double size)
{
    const cJSON *run, *part;
    bool found = false;
    cJSON_ArrayForEach(run, all)
    {
        double elements = 0;
        if (!is(run, "X", "run") || strncmp(text_of(run, "name"), "init", 4) == 0)
            continue;
        double op = arg_of(run, "op")->valuedouble, from = number_of(run, "ts");
        cJSON_ArrayForEach(part, all)
        {
            if (!is(part, "X", "part") || arg_of(part, "op")->valuedouble != op ||
                strncmp(text_of(part, "name"), name, strlen(name)) != 0)
                continue;
            CHECK_TEXT(cJSON_GetStringValue(arg_of(part, "key")), key);
            CHECK(arg_of(part, "from")->valuedouble >= 0);
            CHECK_INT(arg_of(part, "bytes")->valuedouble,
                      4 * arg_of(part, "elements")->valuedouble);
            CHECK(number_of(part, "ts") >= from - 1e-4);
            CHECK(number_of(part, "ts") + number_of(part, "dur") <=
                  from + number_of(run, "dur") + 1e-4);
            elements += arg_of(part, "elements")->valuedouble;
        }
        CHECK(elements == 0 || elements == size);
        found |= elements == size;
    }
    CHECK(found);
}

static kv_array *profiled(const char *type, const char *key, kv_updater call, const char *rule,
                          const kv_opt *compression, const int64_t *shape, int ndim)
{
    own_kv *s = make(type);
    kv_key k = {.name = key};
    kv_array *a = zeros(shape, ndim);
    CHECK_OK(kv_init(s, &k, 1, &a, NULL, &e));
    if (call)
        CHECK_OK(kv_set_updater(s, call, NULL, NULL, &e));
    if (rule)
        set_rule(s, rule);
    if (compression)
        CHECK_OK(kv_set_gradient_compression(s, compression, 1, &e));
    CHECK_OK(kv_push(s, &k, 1, &a, NULL, &e));
    CHECK_OK(kv_pull(s, &k, 1, &a, NULL, &e));
    CHECK_OK(kv_wait(s, &e));
    return a;
}

static void check_kind(const char *key, kv_updater call, const char *rule,
                       const kv_opt *compression, const int64_t *shape, int ndim, const char *part)
{
    const char *path = "profile-kind.json";
    CHECK_OK(kv_profile_start(path, &e));
    own_array *a = profiled("device", key, call, rule, compression, shape, ndim);
    CHECK_OK(kv_profile_stop(&e));
    cJSON *all = read_profile(path);
    check_parts(all, part, key, (double)kv_array_size(a));
    check_parts(all, "copy", key, (double)kv_array_size(a));
    cJSON_Delete(all);
}

TEST(profile_names_every_kind_of_part)
{
    kv_opt bits = {"type", "2bit"};
    for (int i = 0; i < 2; i++) {
        const int64_t *shape = i ? large : small;
        int ndim = i ? 1 : 2;
        check_kind("w", NULL, NULL, NULL, shape, ndim, "sum");
        check_kind("w", NULL, "{ stored += input }", NULL, shape, ndim, "update");
        check_kind("w", NULL, "{ stored += input / (1 + sum(input)) }", NULL, shape, ndim,
                   "update");
        check_kind("w", ignore_push, NULL, NULL, shape, ndim, "sum");
        check_kind("w", ignore_push, NULL, NULL, shape, ndim, "update");
        check_kind("w", NULL, NULL, &bits, shape, ndim, "compress");
    }
}

TEST(profile_keys_are_json_texts)
{
    check_kind("a \"b\"\\\n\x01 \xc3\xa4", NULL, NULL, NULL, small, 2, "sum");
}

TEST(profile_errors)
{
    CHECK_ERR(kv_profile_stop(&e), KV_E_VALUE, "no profile is being taken");
    CHECK_ERR(kv_profile_start("no/such/p.json", &e), KV_E_IO,
              "cannot write \"no/such/p.json\": No such file or directory");
    CHECK_ERR(kv_profile_stop(&e), KV_E_VALUE, "no profile is being taken");
    CHECK_OK(kv_profile_start("profile-errors.json", &e));
    CHECK_ERR(kv_profile_start("b.json", &e), KV_E_VALUE,
              "the profile \"profile-errors.json\" is being taken already");
    CHECK(access("profile-errors.json", F_OK) != 0);
    CHECK_OK(kv_profile_stop(NULL));
    cJSON_Delete(read_profile("profile-errors.json"));
    CHECK_INT(kv_profile_stop(NULL), KV_E_VALUE);
}

TEST(profile_full_disk)
{
    if (access("/dev/full", W_OK) != 0)
        test_skip("no /dev/full");
    CHECK_OK(kv_profile_start("/dev/full", &e));
    kv_array_unref(profiled("local", "w", NULL, NULL, NULL, small, 2));
    CHECK_ERR(kv_profile_stop(&e), KV_E_IO, "cannot write \"/dev/full\": No space left on device");
    CHECK_ERR(kv_profile_stop(&e), KV_E_VALUE, "no profile is being taken");
}

/* A pushpull is one operation where its outs are filled by the push itself. */
TEST(profile_pushpull_is_one_operation_or_two)
{
    own_kv *s = make("local");
    own_array *value = zeros(large, 1);
    own_arrays *outs[3] = {zeros(large, 1), zeros(large, 1)};
    kv_key keys[2] = {{.id = 1}, {.id = 1}};
    const char *path = "profile-pushpull.json";
    CHECK_OK(kv_profile_start(path, &e));
    CHECK_OK(kv_pushpull(s, keys, 1, &value, keys, 1, outs, NULL, &e));
    CHECK_OK(kv_pushpull(s, keys, 1, &value, keys, 2, outs, NULL, &e)); /* more outs than values */
    CHECK_OK(kv_pushpull(s, keys, 1, &value, NULL, 0, NULL, NULL, &e)); /* in place */
    CHECK_OK(kv_wait(s, &e));
    CHECK_OK(kv_profile_stop(&e));
    cJSON *all = read_profile(path);
    CHECK_INT(count(all, "X", "run", "pushpull 1"), 2);
    CHECK_INT(count(all, "X", "run", "push 1"), 1);
    CHECK_INT(count(all, "X", "run", "pull 1"), 1);
    cJSON_Delete(all);
}
