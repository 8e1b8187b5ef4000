/* The public functions with arguments that are not there, or are negative: each that returns a code
 * says which argument it is, with and without a kv_err, and changes nothing. And errors from
 * further inside, which come without a kv_err, too. */
#include "kvstore.h"
#define SHARED_KV_ERR
#include "store_help.h"
#include "test_io.h"

/* The call names its kv_err e. */
#define REFUSED(code, sentence, call)                                                              \
    do {                                                                                           \
        kv_err err = {0}, *e = &err;                                                               \
        CHECK_INT(call, code);                                                                     \
        CHECK_TEXT(err.text, sentence);                                                            \
        e = NULL;                                                                                  \
        CHECK_INT(call, code);                                                                     \
    } while (0)

#define NO_STORE(call)    REFUSED(KV_E_USAGE, "there is no store: the pointer is NULL", call)
#define IS_NULL(name, call) REFUSED(KV_E_USAGE, "the argument `" name "` is NULL", call)

static const kv_key keys[] = {{.id = 1}, {.id = 2}};
static const kv_key new_keys[] = {{.id = 8}, {.id = 9}};

static kv_array *ones(void)
{
    return io_array(KV_FLOAT32, 1, (int64_t[]){2}, (double[]){1, 1});
}

static int see(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)arg, (void)fields, (void)n, (void)e;
    return KV_OK;
}

static int see_array(void *arg, const char *name, kv_array *array, kv_err *e)
{
    (void)arg, (void)name, (void)array, (void)e;
    return KV_OK;
}

static int see_key(void *arg, const kv_info *info, kv_err *e)
{
    (void)arg, (void)info, (void)e;
    return KV_OK;
}

static kv *store_of_two(kv_array *const *a)
{
    kv *s = make("local");
    CHECK_OK(kv_init(s, keys, 2, a, NULL, &e));
    CHECK_OK(kv_set_optimizer(s, "sgd", NULL, 0, &e));
    return s;
}

static kv_rule *a_rule(void)
{
    return MADE(kv_rule, kv_rule_new, "{ stored += input }", NULL, 0, 0);
}

TEST(null_store)
{
    kv_array *a = ones(), *two[] = {a, a};
    kv_info info;
    bool idle;
    int64_t rounds[2] = {KV_NO_ROUND, KV_NO_ROUND};
    kv_array *out = NULL;
    NO_STORE(kv_init(NULL, keys, 2, two, NULL, e));
    NO_STORE(kv_init(NULL, NULL, 0, NULL, NULL, e));
    NO_STORE(kv_push(NULL, keys, 2, two, NULL, e));
    NO_STORE(kv_pull(NULL, keys, 2, two, NULL, e));
    NO_STORE(kv_pull_since(NULL, keys, 2, two, rounds, NULL, e));
    NO_STORE(kv_peek(NULL, keys, &out, rounds, e));
    NO_STORE(kv_row_sparse_pull(NULL, keys, 2, two, two, NULL, e));
    NO_STORE(kv_pushpull(NULL, keys, 2, two, keys, 2, two, NULL, e));
    NO_STORE(kv_broadcast(NULL, keys, 2, two, keys, 2, two, NULL, e));
    NO_STORE(kv_delete(NULL, keys, 2, e));
    NO_STORE(kv_delete(NULL, NULL, 0, e));
    NO_STORE(kv_rename(NULL, keys, new_keys, e));
    NO_STORE(kv_wait(NULL, e));
    NO_STORE(kv_wait_for(NULL, 1, &idle, e));
    NO_STORE(kv_check(NULL, e));
    NO_STORE(kv_barrier(NULL, e));
    NO_STORE(kv_done(NULL, e));
    NO_STORE(kv_send_command(NULL, 0, "x", e));
    NO_STORE(kv_find(NULL, keys, &info, e));
    NO_STORE(kv_await_key(NULL, keys, &info, e));
    NO_STORE(kv_info_at(NULL, 0, &info, e));
    NO_STORE(kv_visit_keys(NULL, NULL, see_key, NULL, e));
    NO_STORE(kv_set_updater(NULL, NULL, NULL, NULL, e));
    NO_STORE(kv_set_optimizer(NULL, "sgd", NULL, 0, e));
    NO_STORE(kv_update_optimizer(NULL, NULL, 0, e));
    NO_STORE(kv_set_gradient_compression(NULL, NULL, 0, e));
    NO_STORE(kv_begin(NULL, e));
    NO_STORE(kv_commit(NULL, e));
    NO_STORE(kv_rollback(NULL, e));
    NO_STORE(kv_save(NULL, "x", e));
    NO_STORE(kv_save_arrays(NULL, "x", e));
    NO_STORE(kv_set_metadata(NULL, "x", "y", e));
    NO_STORE(kv_save_states(NULL, "x", 0, e));
    NO_STORE(kv_load_states(NULL, "x", e));
    static const char *const topics[] = {"store", "cluster", "rule", "optimizer", "states"};
    for (int i = 0; i < 5; i++)
        NO_STORE(kv_describe(NULL, topics[i], see, NULL, e));
    kv_free(NULL);
    CHECK_INT(kv_num_keys(NULL), 0);
    CHECK(!kv_in_transaction(NULL));
    CHECK(kv_changes(NULL) == 0);
    kv_set_print(NULL, NULL, NULL);
    kv_set_print_arrays(NULL, NULL, NULL);
    kv_array_unref(a);
}

TEST(null_lists)
{
    kv_array *a = ones(), *two[] = {a, a}, *gap[] = {a, NULL};
    int64_t rounds[2] = {KV_NO_ROUND, KV_NO_ROUND};
    own_kv *s = store_of_two(two);
    uint64_t before = kv_changes(s);
    IS_NULL("keys", kv_init(s, NULL, 2, two, NULL, e));
    IS_NULL("values", kv_init(s, new_keys, 2, NULL, NULL, e));
    REFUSED(KV_E_VALUE, "key 9 has no array (NULL)", kv_init(s, new_keys, 2, gap, NULL, e));
    REFUSED(KV_E_VALUE, "a call cannot have -1 keys", kv_init(s, new_keys, -1, two, NULL, e));
    IS_NULL("keys", kv_push(s, NULL, 2, two, NULL, e));
    IS_NULL("values", kv_push(s, keys, 2, NULL, NULL, e));
    REFUSED(KV_E_VALUE, "key 2 has no array (NULL)", kv_push(s, keys, 2, gap, NULL, e));
    REFUSED(KV_E_VALUE, "a call cannot have -2 keys", kv_push(s, keys, -2, two, NULL, e));
    IS_NULL("keys", kv_pull(s, NULL, 2, two, NULL, e));
    IS_NULL("outs", kv_pull(s, keys, 2, NULL, NULL, e));
    REFUSED(KV_E_VALUE, "key 2 has no array (NULL)", kv_pull(s, keys, 2, gap, NULL, e));
    REFUSED(KV_E_VALUE, "a call cannot have -1 keys", kv_pull(s, keys, -1, two, NULL, e));
    IS_NULL("keys", kv_pull_since(s, NULL, 2, two, rounds, NULL, e));
    IS_NULL("outs", kv_pull_since(s, keys, 2, NULL, rounds, NULL, e));
    IS_NULL("rounds", kv_pull_since(s, keys, 2, two, NULL, NULL, e));
    REFUSED(KV_E_VALUE, "key 2 has no array (NULL)",
            kv_pull_since(s, keys, 2, gap, rounds, NULL, e));
    IS_NULL("keys", kv_row_sparse_pull(s, NULL, 2, two, two, NULL, e));
    IS_NULL("ids", kv_row_sparse_pull(s, keys, 2, NULL, two, NULL, e));
    IS_NULL("outs", kv_row_sparse_pull(s, keys, 2, two, NULL, NULL, e));
    REFUSED(KV_E_VALUE, "key 2 has no array (NULL)",
            kv_row_sparse_pull(s, keys, 2, gap, two, NULL, e));
    REFUSED(KV_E_VALUE, "a call cannot have -1 keys",
            kv_row_sparse_pull(s, keys, -1, two, two, NULL, e));
    IS_NULL("keys", kv_pushpull(s, NULL, 2, two, keys, 2, two, NULL, e));
    IS_NULL("values", kv_pushpull(s, keys, 2, NULL, keys, 2, two, NULL, e));
    IS_NULL("values", kv_pushpull(s, keys, 2, NULL, NULL, 0, NULL, NULL, e));
    IS_NULL("okeys", kv_pushpull(s, keys, 2, two, NULL, 2, two, NULL, e));
    IS_NULL("outs", kv_pushpull(s, keys, 2, two, keys, 2, NULL, NULL, e));
    REFUSED(KV_E_VALUE, "a call cannot have -1 keys",
            kv_pushpull(s, keys, 2, two, keys, -1, two, NULL, e));
    IS_NULL("keys", kv_broadcast(s, NULL, 2, two, new_keys, 2, two, NULL, e));
    IS_NULL("values", kv_broadcast(s, new_keys, 2, NULL, keys, 2, two, NULL, e));
    IS_NULL("okeys", kv_broadcast(s, new_keys, 2, two, NULL, 2, two, NULL, e));
    IS_NULL("outs", kv_broadcast(s, new_keys, 2, two, keys, 2, NULL, NULL, e));
    IS_NULL("keys", kv_delete(s, NULL, 2, e));
    REFUSED(KV_E_VALUE, "a call cannot have -1 keys", kv_delete(s, keys, -1, e));
    IS_NULL("from", kv_rename(s, NULL, new_keys, e));
    IS_NULL("to", kv_rename(s, keys, NULL, e));
    CHECK_OK(kv_init(s, NULL, 0, NULL, NULL, &e));
    CHECK_OK(kv_push(s, NULL, 0, NULL, NULL, &e));
    CHECK_OK(kv_pull(s, NULL, 0, NULL, NULL, &e));
    CHECK(kv_changes(s) == before);
    CHECK_INT(kv_num_keys(s), 2);
    kv_array_unref(a);
}

TEST(null_options)
{
    const kv_opt no_name = {NULL, "1"}, no_value = {"wd", NULL};
    kv_array *a = ones(), *two[] = {a, a};
    own_rule *rule = a_rule();
    kv *s = store_of_two(two), *made = NULL;
    IS_NULL("opts", kv_create("local", NULL, 1, &made, e));
    REFUSED(KV_E_USAGE, "option 1 has no name (NULL)", kv_create("local", &no_name, 1, &made, e));
    REFUSED(KV_E_VALUE, "a call cannot have -1 options", kv_create("local", NULL, -1, &made, e));
    IS_NULL("params", kv_set_rule(s, rule, NULL, 1, e));
    REFUSED(KV_E_USAGE, "option 1 has no value (NULL)", kv_set_rule(s, rule, &no_value, 1, e));
    IS_NULL("params", kv_set_optimizer(s, "sgd", NULL, 1, e));
    REFUSED(KV_E_USAGE, "option 1 has no value (NULL)",
            kv_set_optimizer(s, "sgd", &no_value, 1, e));
    IS_NULL("params", kv_update_optimizer(s, NULL, 1, e));
    REFUSED(KV_E_USAGE, "option 1 has no name (NULL)", kv_update_optimizer(s, &no_name, 1, e));
    IS_NULL("params", kv_set_gradient_compression(s, NULL, 1, e));
    REFUSED(KV_E_USAGE, "option 1 has no name (NULL)",
            kv_set_gradient_compression(s, &no_name, 1, e));
    CHECK(!made);
    kv_free(s);
    kv_array_unref(a);
}

TEST(null_names_and_results)
{
    kv_array *a = ones(), *two[] = {a, a};
    kv *s = store_of_two(two), *made = NULL;
    kv_array *out = NULL;
    kv_rule *rule = NULL;
    kv_info info;
    int64_t rounds[2];
    bool yes;
    const kv_type_ops *ops;
    IS_NULL("store", kv_create("local", NULL, 0, NULL, e));
    IS_NULL("type", kv_serve(NULL, e));
    IS_NULL("type", kv_await_turn(NULL, &yes, e));
    IS_NULL("works", kv_await_turn("dist_sync", NULL, e));
    REFUSED(KV_E_UNSUPPORTED, "jobs of type \"local\" have no spares",
            kv_await_turn("local", &yes, e));
    IS_NULL("capability", kv_is_capable(s, NULL, &yes, e));
    IS_NULL("yes", kv_is_capable(s, "push", NULL, e));
    REFUSED(KV_E_USAGE, "there is no capability \"fly\"", kv_is_capable(s, "fly", &yes, e));
    IS_NULL("key", kv_find(s, NULL, &info, e));
    IS_NULL("info", kv_find(s, keys, NULL, e));
    IS_NULL("key", kv_await_key(s, NULL, &info, e));
    IS_NULL("info", kv_await_key(s, keys, NULL, e));
    IS_NULL("info", kv_info_at(s, 0, NULL, e));
    IS_NULL("visit", kv_visit_keys(s, NULL, NULL, NULL, e));
    IS_NULL("rule", kv_rule_new(NULL, "{ }", NULL, 0, 0, e));
    IS_NULL("text", kv_rule_new(&rule, NULL, NULL, 0, 0, e));
    IS_NULL("rule", kv_set_rule(s, NULL, NULL, 0, e));
    IS_NULL("name", kv_set_optimizer(s, NULL, NULL, 0, e));
    REFUSED(KV_E_USAGE, "there is no optimizer `fly`", kv_set_optimizer(s, "fly", NULL, 0, e));
    IS_NULL("path", kv_save(s, NULL, e));
    IS_NULL("store", kv_load(NULL, "x", e));
    IS_NULL("path", kv_load(&made, NULL, e));
    IS_NULL("store", kv_load_later(NULL, "x", e));
    IS_NULL("path", kv_load_later(&made, NULL, e));
    IS_NULL("path", kv_save_arrays(s, NULL, e));
    IS_NULL("path", kv_save_list(NULL, keys, 1, &out, e));
    IS_NULL("keys", kv_save_list("x", NULL, 1, &out, e));
    REFUSED(KV_E_VALUE, "a call cannot have -1 keys", kv_save_list("x", keys, -1, &out, e));
    IS_NULL("path", kv_load_list(NULL, see_array, NULL, e));
    IS_NULL("visit", kv_load_list("x", NULL, NULL, e));
    IS_NULL("name", kv_set_metadata(s, NULL, "x", e));
    IS_NULL("text", kv_set_metadata(s, "x", NULL, e));
    IS_NULL("key", kv_peek(s, NULL, &out, rounds, e));
    IS_NULL("out", kv_peek(s, keys, NULL, rounds, e));
    IS_NULL("rounds", kv_peek(s, keys, &out, NULL, e));
    IS_NULL("path", kv_save_states(s, NULL, 0, e));
    IS_NULL("path", kv_load_states(s, NULL, e));
    IS_NULL("topic", kv_describe(s, NULL, see, NULL, e));
    IS_NULL("visit", kv_describe(s, "store", NULL, NULL, e));
    REFUSED(KV_E_USAGE, "there is no description of \"fly\"",
            kv_describe(NULL, "fly", see, NULL, e));
    IS_NULL("path", kv_profile_start(NULL, e));
    IS_NULL("ops", kv_register_type(NULL, e));
    IS_NULL("name", kv_find_type(NULL, &ops, e));
    IS_NULL("ops", kv_find_type("local", NULL, e));
    IS_NULL("name", kv_register_name(NULL, NULL, e));
    IS_NULL("path", kv_load_plugin(NULL, e));
    CHECK(!kv_capability(-1));
    CHECK(!kv_optimizer_text(-1, NULL));
    CHECK(!kv_optimizer_text(1000, NULL));
    CHECK(kv_optimizer_text(0, NULL) != NULL);
    CHECK(!made && !rule && !out);
    kv_rule_free(NULL);
    kv_free(s);
    kv_array_unref(a);
}

TEST(null_arrays)
{
    const int64_t shape[] = {2}, row = 0;
    kv_ctx cpu = {0};
    own_array *a = ones(), *out = NULL;
    kv_dtype dtype;
    const void *read;
    void *write;
    IS_NULL("dtype", kv_dtype_parse(NULL, "float32", e));
    IS_NULL("name", kv_dtype_parse(&dtype, NULL, e));
    IS_NULL("out", kv_array_new(NULL, KV_FLOAT32, 1, shape, cpu, e));
    IS_NULL("shape", kv_array_new(&out, KV_FLOAT32, 1, NULL, cpu, e));
    REFUSED(KV_E_SHAPE, "an array has 0 to 32 axes, not -1",
            kv_array_new(&out, KV_FLOAT32, -1, shape, cpu, e));
    IS_NULL("out", kv_array_new_raw(NULL, KV_FLOAT32, 1, shape, cpu, e));
    IS_NULL("shape", kv_array_new_raw(&out, KV_FLOAT32, 1, NULL, cpu, e));
    IS_NULL("out", kv_array_wrap(NULL, &dtype, KV_FLOAT32, 0, NULL, cpu, NULL, NULL, e));
    IS_NULL("data", kv_array_wrap(&out, NULL, KV_FLOAT32, 1, shape, cpu, NULL, NULL, e));
    IS_NULL("shape", kv_array_wrap(&out, &dtype, KV_FLOAT32, 1, NULL, cpu, NULL, NULL, e));
    IS_NULL("a", kv_array_read(NULL, &read, e));
    IS_NULL("a", kv_array_await(NULL, 0, &(bool){false}, e));
    IS_NULL("there", kv_array_await(a, 0, NULL, e));
    REFUSED(KV_E_VALUE, "a wait of -1 ms", kv_array_await(a, -1, &(bool){false}, e));
    IS_NULL("data", kv_array_read(a, NULL, e));
    IS_NULL("a", kv_array_write(NULL, &write, e));
    IS_NULL("data", kv_array_write(a, NULL, e));
    IS_NULL("a", kv_array_read_rows(NULL, &read, e));
    IS_NULL("data", kv_array_read_rows(a, NULL, e));
    IS_NULL("a", kv_array_write_rows(NULL, &write, e));
    IS_NULL("data", kv_array_write_rows(a, NULL, e));
    IS_NULL("dst", kv_array_copy(NULL, a, e));
    IS_NULL("src", kv_array_copy(a, NULL, e));
    IS_NULL("out", kv_array_dup(NULL, a, KV_FLOAT32, cpu, e));
    IS_NULL("src", kv_array_dup(&out, NULL, KV_FLOAT32, cpu, e));
    IS_NULL("out", kv_array_view(NULL, a, 1, shape, e));
    IS_NULL("src", kv_array_view(&out, NULL, 1, shape, e));
    IS_NULL("shape", kv_array_view(&out, a, 1, NULL, e));
    IS_NULL("out", kv_array_new_sparse(NULL, KV_FLOAT32, 1, shape, 1, &row, cpu, e));
    IS_NULL("shape", kv_array_new_sparse(&out, KV_FLOAT32, 1, NULL, 1, &row, cpu, e));
    IS_NULL("row_ids", kv_array_new_sparse(&out, KV_FLOAT32, 1, shape, 1, NULL, cpu, e));
    REFUSED(KV_E_VALUE, "an array cannot hold -1 rows",
            kv_array_new_sparse(&out, KV_FLOAT32, 1, shape, -1, &row, cpu, e));
    IS_NULL("out", kv_array_to_dense(NULL, a, e));
    IS_NULL("src", kv_array_to_dense(&out, NULL, e));
    IS_NULL("out", kv_array_to_sparse(NULL, a, e));
    IS_NULL("src", kv_array_to_sparse(&out, NULL, e));
    CHECK(!out);
    CHECK(!kv_array_ref(NULL));
    kv_array_unref(NULL);
    /* An array of no elements needs no memory. */
    CHECK_OK(kv_array_wrap(&out, NULL, KV_FLOAT32, 1, (int64_t[]){0}, cpu, NULL, NULL, &e));
}

/* ---- Errors from further inside, which add hints, keys and places ---- */

/* The call fails, and without a kv_err as well, by the same code. */
#define FAILS(call)                                                                                \
    do {                                                                                           \
        kv_err err = {0}, *e = &err;                                                               \
        int code = call;                                                                           \
        CHECK(code != KV_OK);                                                                      \
        CHECK_INT(err.code, code);                                                                 \
        e = NULL;                                                                                  \
        CHECK_INT(call, code);                                                                     \
    } while (0)

TEST(null_error_of_values)
{
    own_array *a = ones(), *three = io_array(KV_FLOAT32, 1, (int64_t[]){3}, (double[]){1, 1, 1});
    kv_array *sparse = NULL, *two[] = {a, a}, *other[] = {three, a}, *same[] = {a, a};
    kv_key gone = id(7), text = name("1"), wrong[] = {id(1), name("b")};
    kv_info info;
    kv_err none = {0};
    int64_t rounds[] = {9, 9};
    own_kv *s = store_of_two(two), *plain = make("local"), *named = make("local");
    CHECK_INT(kv_init(named, &text, 1, two, NULL, &none), KV_OK);
    CHECK_INT(kv_array_new_sparse(&sparse, KV_FLOAT32, 1, (int64_t[]){2}, 0, NULL, cpu0, &none),
              KV_OK);
    FAILS(kv_init(s, keys, 2, two, NULL, e));
    FAILS(kv_init(s, &text, 1, two, NULL, e));
    FAILS(kv_init(s, wrong, 2, two, NULL, e));
    FAILS(kv_push(s, &gone, 1, two, NULL, e));
    FAILS(kv_push(s, &text, 1, two, NULL, e));
    FAILS(kv_push(named, keys, 1, two, NULL, e));
    FAILS(kv_push(s, keys, 1, other, NULL, e));
    FAILS(kv_push(s, keys, 1, two, &(kv_call){.flags = 1u << 30}, e));
    FAILS(kv_pull(s, &gone, 1, two, NULL, e));
    FAILS(kv_pull(s, keys, 1, other, NULL, e));
    FAILS(kv_pull_since(s, keys, 2, same, rounds, NULL, e));
    FAILS(kv_row_sparse_pull(s, keys, 1, other, two, NULL, e));
    FAILS(kv_row_sparse_pull(s, &gone, 1, two, &sparse, NULL, e));
    FAILS(kv_pushpull(s, &gone, 1, two, &gone, 1, two, NULL, e));
    FAILS(kv_pushpull(s, keys, 1, other, keys, 1, two, NULL, e));
    FAILS(kv_broadcast(s, keys, 1, two, keys, 1, two, NULL, e));
    FAILS(kv_peek(s, &gone, same, rounds, e));
    FAILS(kv_delete(s, &gone, 1, e));
    FAILS(kv_delete(s, &text, 1, e));
    FAILS(kv_rename(s, keys, keys + 1, e));
    FAILS(kv_rename(s, &gone, &text, e));
    FAILS(kv_find(s, &gone, &info, e));
    FAILS(kv_await_key(s, &gone, &info, e));
    FAILS(kv_info_at(s, 2, &info, e));
    FAILS(kv_visit_keys(s, &gone, see_key, NULL, e));
    kv_array_unref(sparse);
}

/* Parameters with names and values that are wrong, each in its own way. */
static const kv_opt wrong_params[] = {{"lernign_rate", "0.1"},
                                      {"learning_rate", "fast"},
                                      {"epsilon", "none"},
                                      {"beta1", "1.5"},
                                      {"momentum", "nan"},
                                      {"wd", "1e999"},
                                      {"lr_mult", "1=x"},
                                      {"lr_scheduler", "fac(1)"},
                                      {"lr_scheduler", "factor(x=1)"},
                                      {"lr_scheduler", "factor("},
                                      {"lr_scheduler", ""},
                                      {"lr_scheduler", "cosine(step=-1)"},
                                      {"clip_global_norm", "-0.5"},
                                      {"rescale_grad", "2bit"},
                                      {"multi_precision", "maybe"}};

static const char *const wrong_rules[] = {
    "", "{", "{ stored += }", "{ stored += input } x", "{ }",
    "{ stored = sum(stored, input, 3) }", "{ stored = fly(input) }", "{ stored += any(input) }",
    "{ stored = a }", "{ stored = dot(input) }", "{ stored = (input, 1) }",
    "{ stored = 1 if input else 2 }", "updater f(base_lr = 1) { stored += input }",
    "updater f(a = 1, a = 2) { stored += input }",
    "updater f(a = 1 in [2, 3]) { stored += input }",
    "updater { state m = input; stored += m }",
    "updater { state m = 0; state m = 0; stored += m }",
    "{ def f(x) { return f(x) }; stored = f(input) }", "\"\\q\""};

static int set_text(kv *s, const char *text, kv_err *e)
{
    own_rule *rule = NULL;
    int rc = kv_rule_new(&rule, text, NULL, 1, 1, e);
    if (rc == KV_OK)
        rc = kv_set_rule(s, rule, NULL, 0, e);
    return rc;
}

TEST(null_error_of_updaters)
{
    static const kv_opt compressions[] = {
        {"type", "3bit"}, {"threshold", "0.5"}, {"typ", "2bit"}, {"type", ""}};
    kv_array *a = ones(), *two[] = {a, a};
    own_rule *free_rule = NULL;
    kv_err none = {0};
    kv_opt unknown = {"beta", "1"}, negative[] = {{"type", "2bit"}, {"threshold", "-1"}};
    kv *s = store_of_two(two), *test = make("teststore"), *out = NULL;
    FAILS(kv_set_optimizer(s, "sdg", NULL, 0, e));
    for (size_t i = 0; i < sizeof wrong_params / sizeof *wrong_params; i++) {
        FAILS(kv_set_optimizer(s, "adam", &wrong_params[i], 1, e));
        if (i != 3 && i != 4) /* those of adam */
            FAILS(kv_update_optimizer(s, &wrong_params[i], 1, e));
    }
    for (size_t i = 0; i < sizeof wrong_rules / sizeof *wrong_rules; i++)
        FAILS(set_text(s, wrong_rules[i], e));
    CHECK_INT(kv_rule_new(&free_rule, "{ stored += input * rate }", "a.kvu", 1, 1, &none), KV_OK);
    FAILS(kv_set_rule(s, free_rule, NULL, 0, e));
    FAILS(kv_set_rule(s, free_rule, &unknown, 1, e));
    FAILS(kv_set_optimizer(test, "sgd", NULL, 0, e));
    FAILS(kv_set_rule(test, free_rule, NULL, 0, e));
    for (size_t i = 0; i < sizeof compressions / sizeof *compressions; i++)
        FAILS(kv_set_gradient_compression(s, &compressions[i], 1, e));
    FAILS(kv_set_gradient_compression(s, negative, 2, e));
    FAILS(kv_create("lokal", NULL, 0, &out, e));
    FAILS(kv_create("local", &unknown, 1, &out, e));
    CHECK(!out);
    kv_free(test);
    kv_free(s);
    kv_array_unref(a);
}

TEST(null_error_of_the_rest)
{
    kv_array *a = ones(), *two[] = {a, a}, *out = NULL;
    const char *missing = "gone/x.kvs", *odd = "odd.kvs";
    kv_dtype dtype;
    bool yes;
    const kv_type_ops *ops;
    kv *s = store_of_two(two), *loaded = NULL;
    IN_FOLDER(odd, odd);
    FILE *f = fopen(odd, "w");
    CHECK(f && fputs("{\"a\": [1, x]}", f) > 0 && fclose(f) == 0);
    FAILS(kv_commit(s, e));
    FAILS(kv_rollback(s, e));
    FAILS(kv_save(s, missing, e));
    FAILS(kv_save_arrays(s, missing, e));
    FAILS(kv_save_states(s, missing, 0, e));
    FAILS(kv_load(&loaded, missing, e));
    FAILS(kv_load(&loaded, odd, e));
    FAILS(kv_save_list(missing, keys, 2, two, e));
    FAILS(kv_load_list(missing, see_array, NULL, e));
    FAILS(kv_load_list(odd, see_array, NULL, e));
    FAILS(kv_load_states(s, missing, e));
    FAILS(kv_load_states(s, odd, e));
    FAILS(kv_is_capable(s, "fly", &yes, e));
    FAILS(kv_describe(s, "fly", see, NULL, e));
    FAILS(kv_set_virtual_gpus(-1, e));
    FAILS(kv_find_type("lokal", &ops, e));
    FAILS(kv_register_name("local", "device", e));
    FAILS(kv_load_plugin(missing, e));
    FAILS(kv_load_plugin(odd, e));
    FAILS(kv_profile_stop(e));
    FAILS(kv_dtype_parse(&dtype, "floot32", e));
    FAILS(kv_array_new(&out, KV_FLOAT32, 1, (int64_t[]){1}, (kv_ctx){KV_GPU, 99}, e));
    FAILS(kv_array_view(&out, a, 1, (int64_t[]){3}, e));
    CHECK(!out && !loaded);
    kv_free(s);
    kv_array_unref(a);
}
