/* store_file: whole stores to files and back, files of other tools, and files that are wrong. */
#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "core/store.h"
#include "kvstore.h"
#include "store_help.h"
#include "test_io.h"

#define FILE_NAME "w.kvs"

static void init_array(kv *s, kv_key key, kv_array *a)
{
    CHECK_OK(kv_init(s, &key, 1, &a, NULL, &e));
}

static double number_of(kv *s, kv_key key)
{
    own_array *a = pull_into(s, key, filled(-1));
    const float *data = array_elements(a);
    return (double)*data;
}

/* The i-th key in the order of updates. */
static kv_info info_at(kv *s, int64_t i)
{
    kv_info info;
    CHECK_OK(kv_info_at(s, i, &info, &e));
    return info;
}

/* ---- There and back ---- */

TEST(store_file_empty_store)
{
    IN_FOLDER(FILE_NAME, NULL);
    own_kv *s = save_and_load(make("device"), FILE_NAME);
    CHECK_TEXT(kv_type(s), "device");
    CHECK_INT(kv_num_keys(s), 0);
    init_with(s, name("w"), filled(1)); /* of either kind */
}

TEST(store_file_integer_keys)
{
    static const int64_t ids[] = {7, -3, INT64_MAX, 0, INT64_MIN, INT64_C(9007199254740993)};
    IN_FOLDER(FILE_NAME, NULL);
    own_kv *s = make("local");
    for (int i = 0; i < 6; i++) {
        init_with(s, id(ids[i]), filled(i));
        for (int j = 0; j < i; j++)
            push_one(s, id(ids[i]), filled(i));
    }
    s = save_and_load(save_and_load(s, FILE_NAME), FILE_NAME);
    CHECK_INT(kv_num_keys(s), 6);
    for (int i = 0; i < 6; i++) {
        kv_key key = id(ids[i]);
        check_key(s, key, i);
        CHECK_INT(info_of(s, key).pushes, i);
    }
}

/* Keys of the file are told from those that were made since. */
TEST(store_file_brings_keys)
{
    IN_FOLDER(FILE_NAME, NULL);
    own_kv *s = make("local");
    for (int i = 0; i < 3; i++)
        init_with(s, id(i), filled(i));
    s = save_and_load(s, FILE_NAME);
    init_with(s, id(3), filled(3));
    for (int i = 0; i < 4; i++)
        CHECK(info_at(s, i).loaded == (i < 3));
}

/* Text keys are updated in the order in which they were made, also after a save. */
TEST(store_file_text_keys_keep_their_order)
{
    static const char *const names[] = {"b", "c", "a", "", "__metadata__", "__key__/x", "x",
                                        "two words\n", "3", "\xC3\xA9"};
    enum { N = sizeof names / sizeof *names };
    IN_FOLDER(FILE_NAME, NULL);
    own_kv *s = make("local");
    for (int i = 0; i < N; i++)
        init_with(s, name(names[i]), filled(i));
    push_one(s, name("c"), filled(1));
    s = save_and_load(save_and_load(s, FILE_NAME), FILE_NAME);
    CHECK_INT(kv_num_keys(s), N);
    for (int i = 0; i < N; i++) {
        kv_info info = info_at(s, i);
        CHECK_TEXT(info.key.name, names[i]);
        CHECK_INT(info.pushes, i == 1);
        check_key(s, name(names[i]), i);
    }
}

TEST(store_file_rules)
{
    kv_opt params[] = {{"by", "0.5"}, {"bias", "2"}};
    IN_FOLDER(FILE_NAME, NULL);
    own_kv *s = make("local");
    init_with(s, id(3), filled(1));
    set_rule_with(s,
                  "updater scale(by = 2.0, bias = 0, more = 1) { stored += input * by + bias * t }",
                  params, 2);
    push_one(s, id(3), filled(4));
    check_key(s, id(3), 1 + 2 + 2);
    s = save_and_load(s, FILE_NAME);
    push_one(s, id(3), filled(4));
    check_key(s, id(3), 5 + 2 + 4); /* t is 2 */
    s = save_and_load(s, FILE_NAME);
    push_one(s, id(3), filled(4));
    check_key(s, id(3), 11 + 2 + 6);
    set_rule(s, "{ stored = input }");
    s = save_and_load(s, FILE_NAME);
    push_one(s, id(3), filled(4));
    check_key(s, id(3), 4);
}

TEST(store_file_refuses_callbacks)
{
    IN_FOLDER(FILE_NAME, NULL);
    own_kv *s = make("local");
    CHECK_OK(kv_set_updater(s, ignore_push, NULL, NULL, &e));
    int rc = kv_save(s, FILE_NAME, &e);
    CHECK_TEXT(e.hint, "save before kv_set_updater, or set a rule, whose text goes into the file");
    CHECK_FAILED(rc, KV_E_UNSUPPORTED,
                 "a file cannot hold an updater that is a function of the program");
    CHECK(access(FILE_NAME, F_OK) != 0);
}

TEST(store_file_device_keys_begin_on_the_cpu)
{
    IN_FOLDER(FILE_NAME, NULL);
    own_kv *s = make("device");
    CHECK_OK(kv_set_virtual_gpus(2, &e));
    init_with(s, id(3), filled(1));
    push_one(s, id(3), filled_as(KV_FLOAT32, 4, (kv_ctx){KV_GPU, 1}));
    s = save_and_load(s, FILE_NAME);
    CHECK_INT(info_at(s, 0).ctx.device, KV_CPU);
    check_key(s, id(3), 4);
}

/* The same store gives the same bytes, so that state files can be compared. */
TEST(store_file_same_bytes)
{
    own_text *one = NULL, *two = NULL;
    size_t n, m;
    IN_FOLDER(FILE_NAME, NULL);
    own_kv *s = make("local");
    for (int i = 0; i < 20; i++)
        init_with(s, id(i * 7 % 20), filled(i));
    CHECK_OK(kv_save(s, FILE_NAME, &e));
    CHECK_OK(file_read(FILE_NAME, &one, &n, &e));
    /* the sum of names and texts stays, or files of earlier versions are damaged */
    CHECK(memmem(one, n, "\"kvstore.xxh64\":\"5ec5c28f618d56ba\"", 34));
    s = save_and_load(s, FILE_NAME);
    CHECK_OK(kv_save(s, FILE_NAME, &e));
    CHECK_OK(file_read(FILE_NAME, &two, &m, &e));
    CHECK_INT(n, m);
    CHECK(memcmp(one, two, n) == 0);
}

/* ---- Files made by hand ---- */

/* The file is refused with this, behind its name. */
static void malformed(const char *why)
{
    char text[200];
    snprintf(text, sizeof text, FILE_NAME ": %s", why);
    check_load_fails(FILE_NAME, KV_E_FORMAT, text);
}

static void write_metadata(const safetensors_item *items, int64_t n, const checkpoint_text *pairs,
                           int64_t npairs)
{
    file_out out;
    CHECK_OK(file_out_open(&out, FILE_NAME, &e));
    CHECK_OK(safetensors_write(out.f, FILE_NAME, items, n, pairs, npairs, &e));
    CHECK_OK(file_out_commit(&out, &e));
}

/* What every store says of itself. */
#define METADATA(type, key_type, pushes, updates, order)                                           \
    {"kvstore.format", "1"}, {"kvstore.type", type}, {"kvstore.key_type", key_type},               \
        {"kvstore.pushes", pushes}, {"kvstore.updates", updates}, {"kvstore.order", order},        \
        {"kvstore.updater", "assign"}

/* A file of two keys, b and a, with one of its metadata replaced (by NULL: left out) or added. */
static void write_with(const char *key_type, const char *change, const char *to)
{
    checkpoint_text pairs[12] = {METADATA("local", key_type, "3 0", "2 0", "1 0")};
    own_array *a = filled(1);
    bool text = strcmp(key_type, "text") == 0;
    safetensors_item items[] = {{text ? "b" : "5", a}, {text ? "a" : "-1", a}};
    int n = 7;
    for (int i = 0; i < n; i++) {
        if (strcmp(pairs[i].name, change) == 0) {
            pairs[i] = to ? (checkpoint_text){change, to} : pairs[--n];
            change = "";
        }
    }
    if (*change)
        pairs[n++] = (checkpoint_text){change, to};
    write_metadata(items, 2, pairs, n);
}

/* Another tool may write the tensors in another order: the counts still find their keys. */
TEST(store_file_order_of_the_tensors_does_not_matter)
{
    IN_FOLDER(FILE_NAME, NULL);
    write_with("text", "", NULL);
    own_kv *s = MADE(kv, kv_load, FILE_NAME);
    CHECK_TEXT(info_at(s, 0).key.name, "b");
    CHECK_TEXT(info_at(s, 1).key.name, "a");
    CHECK_INT(info_at(s, 0).pushes, 0);
    CHECK_INT(info_at(s, 1).pushes, 3);
    kv_free(s);
    write_with("integer", "", NULL);
    CHECK_OK(kv_load(&s, FILE_NAME, &e));
    CHECK_INT(info_at(s, 0).key.id, -1);
    CHECK_INT(info_at(s, 0).pushes, 3);
}

TEST(store_file_of_another_tool)
{
    own_array *a = filled(1), *b = filled(2);
    safetensors_item items[] = {{"z", a}, {"3", b}, {"__odd", a}};
    checkpoint_text pairs[] = {{"format", "pt"}, {"author", "somebody"}};
    IN_FOLDER(FILE_NAME, NULL);
    write_metadata(items, 3, pairs, 2);
    kv *s = MADE(kv, kv_load, FILE_NAME);
    CHECK_TEXT(kv_type(s), "local");
    CHECK_TEXT(info_at(s, 0).key.name, "z");
    CHECK_TEXT(info_at(s, 1).key.name, "3");
    CHECK_TEXT(info_at(s, 2).key.name, "__odd");
    for (int i = 0; i < 3; i++)
        CHECK(info_at(s, i).loaded);
    check_key(s, name("3"), 2);

    /* what that tool wrote about the file stays in it */
    s = save_and_load(s, FILE_NAME);
    s = save_and_load(s, FILE_NAME);
    CHECK_TEXT(info_at(s, 2).key.name, "__odd");
    kv_free(s);
    own_checkpoint *f = MADE(checkpoint, checkpoint_open, FILE_NAME, NULL);
    CHECK_TEXT(checkpoint_metadata(f, "format"), "pt");
    CHECK_TEXT(checkpoint_metadata(f, "author"), "somebody");
}

/* A name that no key has is refused, and one as long as a key may be is taken. */
TEST(store_file_of_another_tool_with_long_names)
{
    static char text[KV_KEY_MAX + 2];
    own_array *a = filled(1);
    IN_FOLDER(FILE_NAME, NULL);
    memset(text, 'x', KV_KEY_MAX);
    safetensors_item item = {text, a};
    write_metadata(&item, 1, NULL, 0);
    kv *s = MADE(kv, kv_load, FILE_NAME);
    check_key(s, name(text), 1);
    kv_free(s);
    text[KV_KEY_MAX] = 'x';
    write_metadata(&item, 1, NULL, 0);
    CHECK_INT(kv_load(&s, FILE_NAME, &e), KV_E_FORMAT);
    CHECK(strncmp(e.text, "w.kvs: ", 7) == 0 && strstr(e.text, "4096"));
}

#define NOT_COUNTS(of) "\"kvstore." of "\" is not a list of 2 counts, one a key"

TEST(store_file_wrong_descriptions)
{
    static const struct {
        const char *key_type, *change, *to, *text;
    } cases[] = {
        {"text", "kvstore.format", "2", "a store in format \"2\", this version reads format 1"},
        {"text", "kvstore.format", NULL, "the metadata have no \"kvstore.format\""},
        {"text", "kvstore.type", NULL, "the metadata have no \"kvstore.type\""},
        {"text", "kvstore.residuals", "",
         "it holds \"kvstore.residuals\", which this version does not know"},
        {"text", "kvstore.key_type", "none", "\"kvstore.key_type\" is \"none\" for 2 keys"},
        {"text", "kvstore.key_type", "words", "\"kvstore.key_type\" is \"words\" for 2 keys"},
        {"text", "kvstore.key_type", "integer", "the tensor \"b\" is not an integer key"},
        {"text", "kvstore.pushes", "3", NOT_COUNTS("pushes")},
        {"text", "kvstore.pushes", "", NOT_COUNTS("pushes")},
        {"text", "kvstore.pushes", "3 ", NOT_COUNTS("pushes")},
        {"text", "kvstore.pushes", "3  1", NOT_COUNTS("pushes")},
        {"text", "kvstore.updates", "3 -1", NOT_COUNTS("updates")},
        {"text", "kvstore.pushes", "3 99999999999999999999", NOT_COUNTS("pushes")},
        {"text", "kvstore.pushes", "3 0 1",
         "\"kvstore.pushes\" has more counts than there are keys"},
        {"text", "kvstore.pushes", "3 0 ",
         "\"kvstore.pushes\" has more counts than there are keys"},
        {"text", "kvstore.order", "0 0", "\"kvstore.order\" does not name every key once"},
        {"text", "kvstore.order", "0 2", "\"kvstore.order\" does not name every key once"},
        {"text", "kvstore.order", NULL, "the metadata have no \"kvstore.order\""},
        {"text", "kvstore.updater", "magic",
         "\"kvstore.updater\" is \"magic\", not assign or rule"},
        {"text", "kvstore.updater", "rule", "the metadata have no \"kvstore.rule\""},
        {"text", "kvstore.rule", "{ stored = input }", "it holds a rule that nobody uses"},
        {"text", "kvstore.param.by", "1", "it holds a rule that nobody uses"},
    };
    IN_FOLDER(FILE_NAME, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_with(cases[i].key_type, cases[i].change, cases[i].to);
        malformed(cases[i].text);
    }
    write_with("text", "kvstore.type", "dist_sync");
    check_load_fails(FILE_NAME, KV_E_UNSUPPORTED,
                     "w.kvs: the type \"dist_sync\" needs the MPI plugin, which the "
                     "static library cannot load");
}

/* Also the first name of the metadata is looked at. */
TEST(store_file_wrong_first_names)
{
    checkpoint_text pairs[] = {
        {"kvstore.format", "1"}, {"kvstore.later", "1"}, {"kvstore.states", "1"}};
    own_array *a = filled(1);
    safetensors_item item = {"w", a};
    IN_FOLDER(FILE_NAME, NULL);
    write_metadata(&item, 1, pairs, 1); /* no file of another tool */
    malformed("the metadata have no \"kvstore.type\"");
    write_metadata(&item, 1, pairs + 1, 1);
    malformed("it holds \"kvstore.later\", which this version does not know");
    write_metadata(&item, 1, pairs + 2, 1);
    malformed("the states of an optimizer, not a store");
}

/* A key of all rows, and one of some rows, with the same name. */
TEST(store_file_keys_that_stand_in_it_twice)
{
    checkpoint_text pairs[] = {METADATA("local", NULL, "0 0", "0 0", "0 1"),
                               {"kvstore.rows.3", "4"}};
    own_array *ids = io_array(KV_INT64, 1, (int64_t[]){1}, (double[]){2}),
              *row = io_array(KV_FLOAT32, 1, (int64_t[]){1}, (double[]){5});
    safetensors_item items[] = {{"3", row}, {"__rows__/3/data", row}, {"__rows__/3/row_ids", ids}};
    IN_FOLDER(FILE_NAME, NULL);
    for (int text = 0; text < 2; text++) {
        pairs[2].text = text ? "text" : "integer";
        write_metadata(items, 3, pairs, 8);
        check_load_fails(FILE_NAME, KV_E_FORMAT,
                         text ? "w.kvs: the key \"3\" stands in it twice"
                              : "w.kvs: the key 3 stands in it twice");
    }
}

TEST(store_file_of_numbers_that_no_store_keeps)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]}}";
    kv *s = NULL;
    uint64_t n = sizeof header - 1;
    IN_FOLDER(FILE_NAME, NULL);
    FILE *f = fopen(FILE_NAME, "wb");
    CHECK(f && fwrite(&n, 8, 1, f) == 1 && fwrite(header, n, 1, f) == 1 &&
          fwrite("ab", 2, 1, f) == 1 && fclose(f) == 0);
    CHECK_INT(kv_load(&s, FILE_NAME, &e), KV_E_DTYPE);
    CHECK_TEXT(e.text, "w.kvs: tensor \"w\" is F8_E4M3, which no store keeps");
    CHECK_TEXT(e.hint, "init * @FILE takes its values as numbers of another dtype; kvctl convert "
                       "--dtype changes the file");
    CHECK(!s);
}

TEST(store_file_compresses_keys_that_cannot_be)
{
    checkpoint_text pairs[] = {METADATA("device", "text", "0", "0", "0"),
                               {"kvstore.compression", "2bit 0.5"}};
    kv *s = NULL;
    own_array *a = io_array(KV_FLOAT64, 0, NULL, (double[]){1});
    safetensors_item item = {"w", a};
    IN_FOLDER(FILE_NAME, NULL);
    write_metadata(&item, 1, pairs, 8);
    CHECK_INT(kv_load(&s, FILE_NAME, &e), KV_E_FORMAT);
    CHECK(strncmp(e.text, "w.kvs: ", 7) == 0 && strstr(e.text, "\"w\"") &&
          strstr(e.text, "float64"));
    CHECK(!s);
}

/* Values that are elsewhere cannot be saved, and no file is made. */
TEST(store_file_of_values_elsewhere)
{
    IN_FOLDER(NULL, NULL);
    own_kv *s = make("local");
    s->in_slots = false;
    CHECK_ERR(kv_save_arrays(s, FILE_NAME, &e), KV_E_UNSUPPORTED,
              "stores of type \"local\" cannot be saved");
    CHECK(access(FILE_NAME, F_OK) != 0);
}

/* Replaces each `from` by `to`, which is as long, in a file. */
static void change_file(const char *from, const char *to)
{
    size_t n, bytes = strlen(from), found = 0;
    own_text *data = file_text(FILE_NAME, &n);
    for (size_t i = 0; i + bytes <= n; i++)
        if (memcmp(data + i, from, bytes) == 0) {
            memcpy(data + i, to, bytes);
            found++;
        }
    CHECK(found > 0);
    file_fill(FILE_NAME, data, n);
}

/* A key that was updated without a master copy in float32 cannot get one afterwards; one that was
 * not updated yet can. */
TEST(store_file_without_a_master)
{
    static const kv_opt params[] = {{"momentum", "0.5"}, {"multi_precision", "0"}};
    for (int pushed = 0; pushed < 2; pushed++) {
        own_array *a = io_array(KV_FLOAT16, 0, NULL, &(double){1});
        const kv_key w = {.name = "w"};
        own_kv *s = make("local"), *again = NULL;
        enter_folder();
        CHECK_OK(kv_set_optimizer(s, "sgd", params, 2, &e));
        init_array(s, w, a);
        for (int i = 0; i < pushed; i++)
            CHECK_OK(kv_push(s, &w, 1, &a, NULL, &e));
        CHECK_OK(kv_save(s, FILE_NAME, &e));
        change_file("multi_precision\":\"0", "multi_precision\":\"1");
        change_file("kvstore.xxh64", "another.xxh64"); /* nobody sums it up then */
        if (pushed) {
            check_load_fails(FILE_NAME, KV_E_VALUE,
                             "w.kvs: key \"w\" was updated without multi_precision, the optimizer "
                             "in use has it on");
        } else {
            CHECK_OK(kv_load(&again, FILE_NAME, &e));
            CHECK_OK(kv_push(again, &w, 1, &a, NULL, &e));
        }
        leave_folder(FILE_NAME, NULL);
    }
}

TEST(store_file_wrong_keys_and_rules)
{
    checkpoint_text pairs[] = {METADATA("local", "text", "0", "0", "0"),
                               {"kvstore.rule", "{ stored ="}, {"kvstore.param.by", "1"}};
    pairs[6].text = "rule";
    own_array *a = filled(1);
    safetensors_item item = {"w", a};
    IN_FOLDER(FILE_NAME, NULL);
    write_metadata(&item, 1, pairs, 8);
    kv *s = NULL;
    CHECK_INT(kv_load(&s, FILE_NAME, &e), KV_E_FORMAT);
    CHECK(strncmp(e.text, "w.kvs: its rule: ", 17) == 0);
    pairs[7].text = "{ stored = input }";
    write_metadata(&item, 1, pairs, 9);
    e = (kv_err){0};
    CHECK_INT(kv_load(&s, FILE_NAME, &e), KV_E_FORMAT);
    CHECK(strncmp(e.text, "w.kvs: its rule: ", 17) == 0 && strstr(e.text, "by"));

    pairs[6].text = "assign";
    item.name = "__state__/w/m";
    write_metadata(&item, 1, pairs, 7);
    malformed("it holds states that nobody uses");
    item.name = "__odd__/w";
    write_metadata(&item, 1, pairs, 7);
    malformed("the tensor \"__odd__/w\" is not a key, and this version does not know it");
    pairs[2].text = "integer";
    static const char *const wrong[] = {"03", "-0", "+3", "3.0", "9223372036854775808", "", " 3"};
    for (int i = 0; i < 7; i++) {
        char text[100];
        item.name = wrong[i];
        write_metadata(&item, 1, pairs, 7);
        snprintf(text, sizeof text, "the tensor \"%s\" is not an integer key", wrong[i]);
        malformed(text);
    }
}

/* A file that is cut anywhere is refused; state_file_of_a_store_… changes its bits. */
TEST(store_file_cut)
{
    size_t n;
    IN_FOLDER(FILE_NAME, NULL);
    kv *s = make("local");
    init_with(s, name("b"), filled(1));
    init_with(s, name("a"), filled(2));
    set_rule(s, "updater f(by = 1) { stored += input * by }");
    CHECK_OK(kv_save(s, FILE_NAME, &e));
    kv_free(s);
    own_text *text = file_text(FILE_NAME, &n);
    for (size_t i = 0; i < n; i++) {
        file_fill(FILE_NAME, text, i);
        s = NULL;
        CHECK_INT(kv_load(&s, FILE_NAME, &e), KV_E_FORMAT);
        CHECK(s == NULL && strncmp(e.text, "w.kvs: ", 7) == 0);
        e = (kv_err){0};
    }
}

TEST(store_file_that_is_not_there)
{
    own_kv *s = make("local"), *t = NULL;
    IN_FOLDER(FILE_NAME, NULL);
    CHECK_ERR(kv_load(&t, FILE_NAME, &e), KV_E_IO,
              "cannot read \"w.kvs\": No such file or directory");
    CHECK_ERR(kv_save(s, "no/folder.kvs", &e), KV_E_IO,
              "cannot write \"no/folder.kvs\": No such file or directory");
    CHECK_ERR(kv_save(s, ".", &e), KV_E_IO, "cannot write \".\": Is a directory");
}

/* Texts of other tools, and files in their form. */
static int join_texts(void *arg, const kv_field *fields, int n, kv_err *e)
{
    char *all = arg;
    (void)e;
    CHECK_INT(n, 2);
    snprintf(all + strlen(all), 100 - strlen(all), "%s=%s ", fields[0].text, fields[1].text);
    return KV_OK;
}

/* Gives the store of arg another text in each call. */
static int add_text(void *arg, const kv_field *fields, int n, kv_err *e)
{
    static int calls;
    char text[20];
    (void)fields, (void)n;
    snprintf(text, sizeof text, "t%d", calls++);
    return kv_set_metadata(arg, text, text, e);
}

TEST(store_file_metadata_may_change_while_they_are_visited)
{
    char all[100] = "";
    own_kv *s = make("local");
    CHECK_OK(kv_set_metadata(s, "a", "b", &e));
    CHECK_OK(kv_describe(s, "metadata", add_text, s, &e));
    CHECK_OK(kv_describe(s, "metadata", join_texts, all, &e));
    CHECK_TEXT(all, "a=b t0=t0 ");
}

TEST(store_file_metadata_of_other_tools)
{
    char all[100] = "";
    IN_FOLDER(FILE_NAME, NULL);
    own_kv *s = make("local"), *t = NULL;
    init_with(s, name("w"), filled(1));
    CHECK(!kv_is_foreign(s));
    CHECK_OK(kv_set_metadata(s, "format", "tf", &e));
    CHECK_OK(kv_set_metadata(s, "author", "me", &e));
    CHECK_OK(kv_set_metadata(s, "format", "pt", &e));
    CHECK_ERR(kv_set_metadata(s, "kvstore.type", "x", &e), KV_E_VALUE,
              "the metadata \"kvstore.type\" are the store's own");
    CHECK_CODE(kv_set_metadata(s, "\xff", "x", &e), KV_E_VALUE);
    CHECK_ERR(kv_set_metadata(s, "author", "\xff", &e), KV_E_VALUE,
              "the metadata text \"author\" is not UTF-8");
    CHECK_OK(kv_save(s, FILE_NAME, &e));
    CHECK_OK(kv_load(&t, FILE_NAME, &e));
    CHECK(!kv_is_foreign(t));
    CHECK_OK(kv_describe(t, "metadata", join_texts, all, &e));
    CHECK_TEXT(all, "format=pt author=me ");
    kv_free(t);

    CHECK_OK(kv_save_arrays(s, FILE_NAME, &e));
    checkpoint *f = MADE(checkpoint, checkpoint_open, FILE_NAME, NULL);
    CHECK_INT(checkpoint_count(f), 1);
    CHECK_INT(checkpoint_metadata_count(f), 2);
    CHECK_TEXT(checkpoint_metadata(f, "format"), "pt");
    checkpoint_close(f);
    CHECK_OK(kv_load(&t, FILE_NAME, &e));
    CHECK(kv_is_foreign(t));
    check_key(t, name("w"), 1);
}

/* A key of two rows of four. */
static void init_rows(kv *s, kv_key key)
{
    own_array *a = MADE(kv_array, kv_array_new_sparse, KV_FLOAT32, 2, (int64_t[]){4, 1}, 2,
                        (int64_t[]){1, 3}, (kv_ctx){KV_CPU, 0});
    memcpy(row_data(a), (float[]){5, 6}, 8);
    init_array(s, key, a);
}

TEST(store_file_of_other_tools_holds_no_rows)
{
    IN_FOLDER(FILE_NAME, NULL);
    own_kv *s = make("local");
    init_rows(s, name("r"));
    CHECK_ERR(kv_save_arrays(s, FILE_NAME, &e), KV_E_UNSUPPORTED,
              "key \"r\" is row_sparse, which files of other tools cannot hold");
    CHECK(access(FILE_NAME, F_OK) != 0);
}

/* A name that is registered when a store is saved need not be when it is loaded, here by another
 * process. */
TEST(store_file_registered_name)
{
    kv *s = NULL;
    IN_FOLDER(FILE_NAME, NULL);
    IN_CHILD(NULL) {
        CHECK_OK(kv_register_name("Mine", "device", &e));
        CHECK_OK(kv_save(make("MINE"), FILE_NAME, &e));
    }
    CHECK_CODE(kv_create("mine", NULL, 0, &s, &e), KV_E_UNSUPPORTED);
    CHECK_OK(kv_load(&s, FILE_NAME, &e));
    CHECK_TEXT(kv_type(s), "Mine");
    s = save_and_load(s, FILE_NAME);
    CHECK_TEXT(kv_type(s), "Mine");
    kv_free(s);
    /* loading registers nothing */
    CHECK_INT(kv_create("mine", NULL, 0, &s, &e), KV_E_UNSUPPORTED);
}

/* ---- The first updater of a store that was loaded ---- */

/* A store whose file has the states of one push. */
static kv *trained(const char *rule, const kv_opt *params, int n)
{
    kv *s = make("local");
    CHECK_OK(kv_set_optimizer(s, rule, params, n, &e));
    init_with(s, name("w"), filled(0));
    push_one(s, name("w"), filled(1));
    CHECK_OK(kv_save(s, FILE_NAME, &e));
    kv_free(s);
    s = NULL;
    CHECK_OK(kv_load(&s, FILE_NAME, &e));
    return s;
}

TEST(store_file_other_updaters_drop_states)
{
    kv_opt params[] = {{"momentum", "0.5"}, {"multi_precision", "true"}};
    IN_FOLDER(FILE_NAME, NULL);
    own_rule *rule = MADE(kv_rule, kv_rule_new, "{ state mom; stored += mom }", NULL, 0, 0);
    for (int i = 0; i < 6; i++) {
        own_kv *s = trained("sgd", params, 1);
        if (i == 0)
            CHECK_OK(kv_set_optimizer(s, "nag", params, 1, &e));
        else if (i == 1)
            CHECK_OK(kv_set_optimizer(s, "sgd", params, 2, &e)); /* with a master beside mom */
        else if (i == 2)
            CHECK_OK(kv_set_rule(s, rule, NULL, 0, &e));
        else if (i == 3)
            CHECK_OK(kv_set_updater(s, NULL, NULL, NULL, &e));
        else
            CHECK(kv_keep_states(s, false));
        if (i >= 4)
            CHECK_OK(kv_set_optimizer(s, "sgd", params, 1, &e));
        CHECK_INT(kv_states_dropped(s), 1);
        CHECK(!kv_keep_states(s, true));
    }
}

/* Rules are the same when their texts differ in comments and blanks at most. */
TEST(store_file_rule_is_known_by_its_text)
{
    static const struct {
        const char *text;
        int dropped;
    } cases[] = {{"{ state m; m += input; stored += m }", 0},
                 {"{ # of old\n  state m\n  m += input # more\n stored+=m }", 0},
                 {"{ state m; m += input; stored -= m }", 1},
                 {"{ state m; m += input; stored += m; if t < 0 { fail 'a b' } }", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        own_kv *s = make("local"), *loaded = NULL;
        enter_folder();
        set_rule(s, cases[0].text);
        init_with(s, name("w"), filled(0));
        push_one(s, name("w"), filled(1));
        CHECK_OK(kv_save(s, FILE_NAME, &e));
        CHECK_OK(kv_load(&loaded, FILE_NAME, &e));
        set_rule(loaded, cases[i].text);
        CHECK_INT(kv_states_dropped(loaded), cases[i].dropped);
        leave_folder(FILE_NAME, NULL);
    }
}

/* Counts and the schedule stay where they stood: poly remains at its end, factor goes on. A
 * rollback gives back the right to it. */
TEST(store_file_first_optimizer_keeps_its_schedule)
{
    static const char *const schedules[] = {"poly(max_update=1, base_lr=1, final_lr=0.25)",
                                            "factor(step=1, factor=0.5)"};
    for (int i = 0; i < 2; i++) {
        kv_opt params[] = {{"lr_scheduler", schedules[i]}, {"learning_rate", "1"}, {"wd", "0"}};
        enter_folder();
        own_kv *s = trained("sgd", params, 3);
        double before = number_of(s, name("w"));
        CHECK_OK(kv_begin(s, &e));
        CHECK_OK(kv_set_optimizer(s, "adam", NULL, 0, &e));
        CHECK_OK(kv_rollback(s, &e));
        CHECK_OK(kv_set_optimizer(s, "sgd", params, 3, &e));
        push_one(s, name("w"), filled(1));
        CHECK(number_of(s, name("w")) == before - (i == 0 ? 0.25 : 0.5));
        leave_folder(FILE_NAME, NULL);
    }
}
