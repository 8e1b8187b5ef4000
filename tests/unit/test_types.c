/* Types: capabilities, names and tables of one's own, what a table leaves to the library, commands
 * to servers, the static library and plugins. */
#include "kvstore.h"
#include "store_help.h"

static kv_array *number(float x)
{
    return ARRAY_OF(KV_FLOAT32, 0, NULL, cpu0, x);
}

static double value_of(kv_array *a)
{
    return *(const float *)array_elements(a);
}

/* ---- Capabilities ---- */

/* Every capability and whether local, device, teststore have it. */
static const struct {
    const char *name;
    bool local, device, teststore;
} table[] = {
    {"init", true, true, false},         {"push", true, true, false},
    {"pull", true, true, false},         {"pushpull", true, true, true},
    {"broadcast", true, true, true},     {"updater", true, true, false},
    {"optimizer", true, true, false},    {"states", true, true, false},
    {"row_sparse", true, true, false},   {"gradient_compression", false, true, false},
    {"transactions", true, true, false}, {"files", true, true, false},
    {"delete", true, true, false},
};

static void check_capability(kv *s, const char *word, bool want)
{
    bool yes = !want;
    CHECK_OK(kv_is_capable(s, word, &yes, &e));
    CHECK_INT(yes, want);
}

TEST(types_capabilities)
{
    own_kv *local = make("local"), *device = make("device"), *test = make("teststore");
    int n = sizeof table / sizeof *table;
    for (int i = 0; i < n; i++) {
        CHECK_TEXT(kv_capability(i), table[i].name);
        check_capability(local, table[i].name, table[i].local);
        check_capability(device, table[i].name, table[i].device);
        check_capability(test, table[i].name, table[i].teststore);
        check_capability(NULL, table[i].name, false);
    }
    CHECK(kv_capability(n) == NULL && kv_capability(-1) == NULL);
    check_capability(local, "Optimizer", true);
    check_capability(local, "SPARSE", true);
    check_capability(local, "Row-Sparse", true);
    check_capability(local, "compression", false);
}

TEST(types_unknown_capability)
{
    bool yes = true;
    own_kv *s = make("local");
    CHECK_INT(kv_is_capable(s, "optimiser", &yes, &e), KV_E_USAGE);
    CHECK_TEXT(e.text, "there is no capability \"optimiser\"");
    CHECK_TEXT(e.hint, "did you mean optimizer?");
    e = (kv_err){0};
    CHECK_INT(kv_is_capable(s, "", &yes, &e), KV_E_USAGE);
    CHECK_TEXT(e.hint, "init, push, pull, pushpull, broadcast, updater, optimizer, states, "
                       "row_sparse, gradient_compression, transactions, files, delete");
    CHECK(yes);
}

/* ---- Names ---- */

TEST(types_register_name)
{
    const kv_type_ops *ops = NULL;
    char name[] = "MyStore", longest[66];
    CHECK_OK(kv_register_name(name, "Device", &e));
    name[0] = '?'; /* the text was copied */
    own_kv *s = make("mystore");
    CHECK_TEXT(kv_type(s), "MyStore");
    CHECK_CODE(kv_register_name("MYSTORE", NULL, &e), KV_E_NAME);
    CHECK_ERR(kv_register_name("Local_Update_CPU", NULL, &e), KV_E_NAME,
              "there is a store type \"local_update_cpu\" already");
    CHECK_ERR(kv_register_name("dist", NULL, &e), KV_E_NAME,
              "\"dist\" is the name of a type that the MPI plugin brings");
    CHECK_ERR(kv_register_name("", NULL, &e), KV_E_VALUE,
              "the name of a type is 1 to 64 letters, digits, _, - and ., not \"\"");
    CHECK_ERR(kv_register_name("a b", NULL, &e), KV_E_VALUE,
              "the name of a type is 1 to 64 letters, digits, _, - and ., not \"a b\"");
    memset(longest, 'x', 65);
    longest[65] = '\0';
    CHECK_INT(kv_register_name(longest, NULL, &e), KV_E_VALUE);
    longest[64] = '\0';
    CHECK_OK(kv_register_name(longest, "mystore", &e));
    CHECK_ERR(kv_register_name("new", "foo", &e), KV_E_UNSUPPORTED,
              "there is no store type \"foo\"");
    CHECK_ERR(kv_find_type("new", &ops, &e), KV_E_UNSUPPORTED, "there is no store type \"new\"");
    CHECK_OK(kv_find_type("MyStorE", &ops, &e));
    CHECK_TEXT(ops->names[0], "MyStore");
}

TEST(types_register_name_without_memory)
{
    const kv_type_ops *ops = NULL;
    EACH_FAILURE(kv_register_name("frugal", NULL, &e))
        CHECK_CODE(kv_find_type("frugal", &ops, &e), KV_E_UNSUPPORTED);
    kv_free(make("Frugal"));
}

/* ---- A table of one's own ---- */

/* Writes down which of its operations were called, in their order. */
static char calls[64];

static int open_recorder(kv *s, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    (void)s, (void)opts, (void)nopts, (void)e;
    *self = calls;
    return KV_OK;
}

static int note(void *self, const char *what)
{
    strcat(self, what);
    return KV_OK;
}

static int init(void *self, const kv_pairs *p, const kv_call *c, kv_err *e)
{
    (void)p, (void)c, (void)e;
    return note(self, "i");
}

static int push(void *self, const kv_pairs *p, const kv_call *c, kv_err *e)
{
    (void)p;
    note(self, "p");
    return c && c->priority < 0 ? kv_err_set(e, KV_E_PEER, "nobody there") : KV_OK;
}

static int pull(void *self, const kv_pairs *p, const kv_call *c, kv_err *e)
{
    (void)c, (void)e;
    return note(self, p->n == 2 ? "2" : "1");
}

static int barrier(void *self, kv_err *e)
{
    (void)e;
    return note(self, "b");
}

static int send_command(void *self, int head, const char *body, kv_err *e)
{
    note(self, body);
    return head == 13 ? kv_err_set(e, KV_E_VALUE, "unlucky") : KV_OK;
}

static int rank_two(void *self)
{
    (void)self;
    return 2;
}

TEST(types_table_without_pushpull)
{
    static const char *const names[] = {"Recorder", NULL};
    static const kv_type_ops ops = {.size = sizeof ops, .version = KV_TYPE_VERSION, .names = names,
                                    .open = open_recorder, .init = init, .push = push, .pull = pull,
                                    .rank = rank_two, .barrier = barrier,
                                    .send_command = send_command};
    CHECK_OK(kv_register_type(&ops, &e));
    CHECK_ERR(kv_register_type(&ops, &e), KV_E_NAME, "there is a store type \"Recorder\" already");
    own_kv *s = make("recorder");
    CHECK_TEXT(kv_type(s), "Recorder");
    CHECK_INT(kv_rank(s), 2);
    kv_key key = {.id = 1}, two[2] = {key, key};
    kv_array *a = number(1), *both[2] = {a, a};
    CHECK_OK(kv_pushpull(s, &key, 1, &a, two, 2, both, NULL, &e));
    CHECK_OK(kv_pushpull(s, &key, 1, &a, NULL, 0, NULL, NULL, &e));
    CHECK_OK(kv_broadcast(s, &key, 1, &a, two, 2, both, NULL, &e));
    CHECK_OK(kv_broadcast(s, &key, 1, &a, NULL, 0, NULL, NULL, &e));
    CHECK_TEXT(calls, "p2p1i2i");
    CHECK_ERR(kv_pushpull(s, &key, 1, &a, two, 2, both, &(kv_call){.priority = -1}, &e), KV_E_PEER,
              "nobody there");
    calls[0] = '\0';
    CHECK_OK(kv_barrier(s, &e));
    CHECK_OK(kv_send_command(s, 7, "text", &e));
    CHECK_OK(kv_send_command(s, 7, NULL, &e));
    CHECK_ERR(kv_send_command(s, 13, "!", &e), KV_E_VALUE, "unlucky");
    CHECK_TEXT(calls, "btext!");
    check_capability(s, "pushpull", true);
    check_capability(s, "broadcast", true);
    check_capability(s, "optimizer", false);
    check_capability(s, "files", false);
    CHECK_ERR(kv_set_optimizer(s, "sgd", NULL, 0, &e), KV_E_UNSUPPORTED,
              "stores of type \"Recorder\" have no optimizer");
    kv_array_unref(a);
}

static int ignore(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)arg, (void)fields, (void)n, (void)e;
    return KV_OK;
}

/* Its values and states are nowhere that the library can look, so it says so. */
TEST(types_table_without_slots)
{
    static const char *const names[] = {"holds", NULL};
    static const kv_type_ops ops = {.size = sizeof ops, .version = KV_TYPE_VERSION, .names = names,
                                    .open = open_recorder, .init = init, .push = push,
                                    .pull = pull};
    kv_array *a = number(1), *out = NULL;
    int64_t rounds[2] = {0};
    IN_FOLDER("w.kvs", NULL);
    IN_CHILD(NULL) { /* for which the type is another one, which can be saved */
        CHECK_OK(kv_register_name("holds", "local", &e));
        CHECK_OK(kv_save(make("holds"), "w.kvs", &e));
    }
    CHECK_OK(kv_register_type(&ops, &e));
    kv *s = make("holds"), *saved = NULL;
    kv_key key = {.id = 1};
    CHECK_ERR(kv_load(&saved, "w.kvs", &e), KV_E_UNSUPPORTED,
              "w.kvs: stores of type \"holds\" cannot be loaded");
    CHECK_ERR(kv_pull_since(s, &key, 1, &a, rounds, NULL, &e), KV_E_UNSUPPORTED,
              "stores of type \"holds\" count no rounds");
    CHECK_ERR(kv_peek(s, &key, &out, rounds, &e), KV_E_UNSUPPORTED,
              "stores of type \"holds\" keep no values");
    for (int i = 0; i < 2; i++)
        CHECK_ERR(kv_describe(s, i ? "states" : "optimizer", ignore, NULL, &e), KV_E_UNSUPPORTED,
                  "stores of type \"holds\" keep no states here");
    CHECK_ERR(kv_begin(s, &e), KV_E_UNSUPPORTED, "stores of type \"holds\" have no transactions");
    CHECK_ERR(kv_save(s, "w.kvs", &e), KV_E_UNSUPPORTED,
              "stores of type \"holds\" cannot be saved");
    kv_array_unref(a);
    kv_free(s);
}

static const kv_type_ops *local;

/* Doubles what is pushed, one value a key, then is local. */
static int push_double(void *self, const kv_pairs *values, const kv_call *call, kv_err *e)
{
    kv_key key[4];
    kv_array *value[4];
    CHECK(values->n == 2);
    for (int i = 0; i < 4; i++)
        key[i] = values->keys[i / 2], value[i] = values->arrays[i / 2];
    return local->push(self, &(kv_pairs){key, value, 4}, call, e);
}

TEST(types_copy_of_a_table)
{
    static const char *const names[] = {"doubling", NULL};
    static kv_type_ops ops;
    CHECK_OK(kv_find_type("local", &local, &e));
    ops = *local;
    ops.names = names;
    ops.push = push_double;
    ops.pushpull = NULL;
    CHECK_OK(kv_register_type(&ops, &e));
    own_kv *s = make("doubling");
    kv_key keys[2] = {{.id = 1}, {.id = 2}};
    own_arrays *a[3] = {number(3), number(4)};
    CHECK_OK(kv_pushpull(s, keys, 2, a, NULL, 0, NULL, NULL, &e));
    CHECK(value_of(a[0]) == 6 && value_of(a[1]) == 8);
    check_capability(s, "transactions", true);
    CHECK_OK(kv_begin(s, &e));
    CHECK_OK(kv_rollback(s, &e));
}

/* ---- One process ---- */

TEST(types_table_that_is_refused)
{
    kv_type_ops ops = {.size = sizeof ops, .version = KV_TYPE_VERSION,
                       .names = (const char *const[]){"Device", NULL}, .open = open_recorder,
                       .init = init, .push = push, .pull = pull};
    CHECK_ERR(kv_register_type(&ops, &e), KV_E_NAME, "there is a store type \"device\" already");
    ops.names = (const char *const[]){"new", NULL};
    ops.push = NULL;
    CHECK_ERR(kv_register_type(&ops, &e), KV_E_VALUE,
              "the table of a type needs a name, open, and init, push, pull or pushpull, "
              "broadcast");
}

TEST(types_of_another_version)
{
    char text[200];
    kv_type_ops ops = {.size = sizeof ops, .version = KV_TYPE_VERSION + 1};
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text,
                 "the table of a type has version %u and %u bytes, this library takes version %u "
                 "and %zu bytes",
                 ops.version, ops.size, KV_TYPE_VERSION, sizeof ops);
        CHECK_ERR(kv_register_type(&ops, &e), KV_E_VALUE, text);
        ops.version = KV_TYPE_VERSION;
        ops.size--;
    }
}

/* This program is linked with the static library. */
TEST(types_static_library_loads_no_plugin)
{
    CHECK_ERR(kv_load_plugin("average.so", &e), KV_E_UNSUPPORTED,
              "average.so cannot be loaded: this program has the static library, which loads no "
              "plugins");
    CHECK_ERR(kv_serve("local", &e), KV_E_UNSUPPORTED, "stores of type \"local\" have no servers");
}
