/* States of optimizers in files: training goes on to the last bit, and what does not fit is refused
 * without a trace. */
#include "kvstore.h"

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "store_help.h"
#include "test_checkpoint.h"

enum { STEPS = 14 }; /* schedules change at 11 and 12 at the latest */

static const kv_key keys[] = {{.id = 7}, {.id = 2}};
static const char path[] = "states.safetensors";

/* An array whose numbers follow from seed alone. */
static kv_array *array(kv_dtype dtype, int ndim, const int64_t *shape, int seed)
{
    return ARRAY_OF(dtype, ndim, shape, cpu0, (double)((i * 7 + seed * 13) % 19 - 9) / 7);
}

static kv_array *weight(int which, kv_dtype dtype, int seed)
{
    static const int64_t shapes[][2] = {{3, 4}, {5, 1}};
    return array(dtype, 2, shapes[which], seed);
}

/* A store with both weights, those of another one if there is one. */
static kv *weights_of(kv *like, kv_dtype dtype)
{
    kv *s = make("local");
    for (int i = 0; i < 2; i++) {
        kv_array *w = weight(i, dtype, i);
        init_with(s, keys[i], like ? pull_into(like, keys[i], w) : w);
    }
    return s;
}

static kv *with(const char *optimizer, kv_dtype dtype, const kv_opt *params, int n)
{
    kv *s = weights_of(NULL, dtype);
    CHECK_OK(kv_set_optimizer(s, optimizer, params, n, &e));
    return s;
}

/* Key 0 has more steps than key 1. */
static void step(kv *s, kv_dtype dtype, int t)
{
    for (int i = 0; i < (t % 3 ? 2 : 1); i++)
        push_one(s, keys[i], weight(i, dtype, t + 3 * i));
}

/* The bytes of a key. */
static void look(kv *s, int which, kv_dtype dtype, void *bytes, size_t size)
{
    own_array *out = weight(which, dtype, 0);
    CHECK_OK(kv_pull(s, &keys[which], 1, &out, NULL, &e));
    const void *data = array_elements(out);
    CHECK((size_t)kv_array_bytes(out) <= size);
    memset(bytes, 0, size);
    memcpy(bytes, data, (size_t)kv_array_bytes(out));
}

static void check_same(kv *a, kv *b, kv_dtype dtype)
{
    char x[100], y[100];
    for (int i = 0; i < 2; i++) {
        look(a, i, dtype, x, sizeof x);
        look(b, i, dtype, y, sizeof y);
        CHECK(memcmp(x, y, sizeof x) == 0);
    }
}

/* A new store with the weights of s, and the states of the file. */
static kv *resume(kv *s, const char *optimizer, kv_dtype dtype, const kv_opt *params, int n)
{
    kv *next = weights_of(s, dtype);
    CHECK_OK(kv_set_optimizer(next, optimizer, params, n, &e));
    CHECK_OK(kv_load_states(next, path, &e));
    return next;
}

/* One step of either side, which must agree. */
static void both_step(kv *plain, kv *stopped, kv_dtype dtype, int t)
{
    step(plain, dtype, t);
    step(stopped, dtype, t);
    check_same(plain, stopped, dtype);
}

/* Another store goes on with what one has saved. */
static void go_on(kv **s, kv *next)
{
    kv_free(*s);
    *s = next;
}

/* Saved and loaded at every step, training gives the bits of a run that never stopped. */
static void check_run(const char *optimizer, kv_dtype dtype, const kv_opt *params, int n,
                      uint32_t flags)
{
    own_kv *plain = with(optimizer, dtype, params, n), *stopped = with(optimizer, dtype, params, n);
    for (int t = 0; t < STEPS; t++) {
        CHECK_OK(kv_save_states(stopped, path, flags, &e));
        /* the optimizer in the file wins over another one */
        go_on(&stopped, flags ? resume(stopped, "test", dtype, NULL, 0)
                              : resume(stopped, optimizer, dtype, params, n));
        both_step(plain, stopped, dtype, t);
    }
}

static void check_runs(const char *optimizer, const kv_opt *params, int n)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_BFLOAT16};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (uint32_t flags = 0; flags <= KV_DUMP_OPTIMIZER; flags++)
            check_run(optimizer, dtypes[d], params, n, flags);
}

TEST(state_file_every_optimizer_goes_on_to_the_last_bit)
{
    const char *name, *last = "";
    const kv_opt params[] = {{"multi_precision", "true"},
                             {"lr_scheduler", "factor(step=3, factor=0.7)"},
                             {"clip_gradient", "0.9"},
                             {"lr_mult", "2=0.5"}};
    IN_FOLDER(path, NULL);
    for (int i = 0; kv_optimizer_text(i, &name); i++) {
        if (strcmp(name, last) != 0)
            check_runs(name, params, 4);
        last = name;
    }
}

TEST(state_file_keeps_the_momentum_and_the_other_forms)
{
    static const struct {
        const char *optimizer, *param, *value;
    } runs[] = {{"sgd", "momentum", "0.9"},      {"nag", "momentum", "0.9"},
                {"lars", "momentum", "0.9"},     {"dcasgd", "momentum", "0.9"},
                {"lbsgd", "batch_scale", "4"},   {"lbsgd", "momentum", "0.5"},
                {"rmsprop", "centered", "true"}, {"signum", "wd_lh", "0.01"}};
    IN_FOLDER(path, NULL);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const kv_opt params[] = {{runs[i].param, runs[i].value},
                                 {"lr_scheduler", "multifactor(step=[3, 5, 11], factor=0.5)"},
                                 {"multi_precision", "true"},
                                 {"begin_num_update", "2"}};
        check_runs(runs[i].optimizer, params, 4);
    }
}

TEST(state_file_keeps_every_schedule_where_it_stands)
{
    static const char *const schedules[] = {
        "factor(step=2, factor=0.5, base_lr=0.3)", "multifactor(step=[2, 9], factor=0.1)",
        "poly(max_update=12, pwr=2, warmup_steps=3)", "cosine(max_update=12, final_lr=0.01)"};
    IN_FOLDER(path, NULL);
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        const kv_opt params[] = {{"lr_scheduler", schedules[i]}, {"momentum", "0.9"}};
        check_runs("sgd", params, 2);
    }
}

/* A rule with a state of every kind, two of them that come with the third update. */
static const char every_kind[] = "updater kinds {\n"
                                 "  state m = stored * 0.5\n"
                                 "  state row h\n"
                                 "  state key n = 0, f = 0.1, b = false, z = none\n"
                                 "  state shared total = 0.25\n"
                                 "  n += 1; f = f * 1.1 + n; b = not b; total += f / 7\n"
                                 "  m = 0.9 * m + input * f\n"
                                 "  h += rowmean(input * input)\n"
                                 "  if t > 2 { state late; late += input; stored += late / 3 }\n"
                                 "  if b { stored += m / (sqrt(h) + total) } else { stored -= m }\n"
                                 "}";

static kv *with_rule(kv *like, kv_dtype dtype)
{
    kv *s = weights_of(like, dtype);
    set_rule(s, every_kind);
    return s;
}

TEST(state_file_keeps_every_kind_of_state)
{
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_FLOAT16};
    IN_FOLDER(path, NULL);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        own_kv *plain = with_rule(NULL, dtypes[d]), *stopped = with_rule(NULL, dtypes[d]);
        for (int t = 0; t < STEPS; t++) {
            CHECK_OK(kv_save_states(stopped, path, 0, &e));
            kv *next = with_rule(stopped, dtypes[d]);
            CHECK_OK(kv_load_states(next, path, &e));
            go_on(&stopped, next);
            both_step(plain, stopped, dtypes[d], t);
        }
    }
}

/* Pushes some rows to key 0. */
static void sparse_step(kv *s, int t)
{
    int64_t shape[] = {3, 4}, rows[] = {t % 2, 2};
    own_array *full = MADE(kv_array, kv_array_new, KV_FLOAT32, 2, shape, (kv_ctx){0});
    float *data = array_data(full);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            data[rows[i] * 4 + j] = (float)(t + i - 5 * j) / 8;
    own_array *g = MADE(kv_array, kv_array_to_sparse, full);
    CHECK_OK(kv_push(s, &keys[0], 1, &g, NULL, &e));
}

/* Every optimizer again, with gradients of some rows. */
TEST(state_file_goes_on_with_rows)
{
    const char *name;
    int ran = 0;
    IN_FOLDER(path, NULL);
    for (; kv_optimizer_text(ran, &name); ran++) {
        own_kv *plain = with(name, KV_FLOAT32, NULL, 0), *stopped = with(name, KV_FLOAT32, NULL, 0);
        for (int t = 0; t < STEPS; t++) {
            CHECK_OK(kv_save_states(stopped, path, 0, &e));
            go_on(&stopped, resume(stopped, name, KV_FLOAT32, NULL, 0));
            sparse_step(plain, t);
            sparse_step(stopped, t);
            check_same(plain, stopped, KV_FLOAT32);
        }
    }
    CHECK(ran >= 21);
}

TEST(state_file_says_what_it_holds)
{
    IN_FOLDER(path, NULL);
    const kv_opt params[] = {{"lr_scheduler", "factor(step=1, factor=0.5, base_lr=0.1)"},
                             {"learning_rate", "none"}};
    own_kv *s = with("nadam", KV_FLOAT32, params, 2);
    step(s, KV_FLOAT32, 1);
    step(s, KV_FLOAT32, 3);
    CHECK_OK(kv_save_states(s, path, KV_DUMP_OPTIMIZER, &e));
    own_checkpoint *f = MADE(checkpoint, checkpoint_open, path, NULL);
    CHECK_INT(checkpoint_count(f), 4);
    CHECK(checkpoint_find(f, "7/m") >= 0 && checkpoint_find(f, "2/v") >= 0);
    CHECK_TEXT(checkpoint_metadata(f, "kvstore.states"), "1");
    CHECK_TEXT(checkpoint_metadata(f, "kvstore.optimizer"), "nadam");
    CHECK_TEXT(checkpoint_metadata(f, "kvstore.key_type"), "integer");
    CHECK_TEXT(checkpoint_metadata(f, "kvstore.key.7"), "2 float32 (3, 4)");
    CHECK_TEXT(checkpoint_metadata(f, "kvstore.key.2"), "1 float32 (5, 1)");
    CHECK_TEXT(checkpoint_metadata(f, "kvstore.states.7"), "m v");
    CHECK_TEXT(checkpoint_metadata(f, "kvstore.num_update"), "2");
    CHECK_TEXT(checkpoint_metadata(f, "kvstore.schedule_now"), "0.05 0 1");
    CHECK(strncmp(checkpoint_metadata(f, "kvstore.shared.m_schedule"), "float 0.0", 9) == 0);
    CHECK(strstr(checkpoint_metadata(f, "kvstore.rule"), "updater nadam") != NULL);
    CHECK_TEXT(checkpoint_metadata(f, "kvstore.param.learning_rate"), "none");
    checkpoint_close(f);
    CHECK_OK(kv_save_states(s, path, 0, &e));
    CHECK_OK(checkpoint_open(&f, path, NULL, &e));
    CHECK(checkpoint_metadata(f, "kvstore.rule") == NULL);
    CHECK_TEXT(checkpoint_metadata(f, "kvstore.schedule_now"), "0.05 0 1");
}

/* ---- Descriptions ---- */

TEST(state_file_describe_stops)
{
    seen_rows some = {.last = 2};
    own_kv *s = with_rule(NULL, KV_FLOAT32);
    step(s, KV_FLOAT32, 0);
    CHECK_ERR(kv_describe(s, "states", see_rows, &some, &e), KV_E_INTERRUPTED, "enough");
    CHECK_INT(some.rows, 2);
    CHECK_OK(kv_set_updater(s, NULL, NULL, NULL, &e));
    CHECK_CODE(kv_describe(s, "states", see_rows, &some, &e), KV_E_VALUE);
    CHECK_CODE(kv_describe(s, "optimizer", see_rows, &some, &e), KV_E_VALUE);
}

TEST(state_file_describe_without_memory)
{
    own_kv *s = with_rule(NULL, KV_FLOAT32);
    step(s, KV_FLOAT32, 1);
    for (int which = 0; which < 2; which++) {
        seen_rows got = {0};
        int64_t last = 0;
        EACH_FAILURE(kv_describe(s, which ? "states" : "optimizer", see_rows, &got, &e))
            CHECK(got.rows == 0 && (last = n));
        CHECK(last > 0);
    }
}

/* ---- What is refused ---- */

TEST(state_file_needs_an_optimizer)
{
    IN_FOLDER(path, NULL);
    own_kv *s = with("adam", KV_FLOAT32, NULL, 0);
    CHECK_OK(kv_save_states(s, path, 0, &e));
    CHECK_ERR(kv_save_states(s, path, 6, &e), KV_E_VALUE, "kv_save_states has no flags 0x6");
    CHECK_OK(kv_set_updater(s, NULL, NULL, NULL, &e));
    CHECK_CODE(kv_save_states(s, path, 0, &e), KV_E_VALUE);
    CHECK_CODE(kv_load_states(s, path, &e), KV_E_VALUE);
    CHECK_OK(kv_set_updater(s, ignore_push, NULL, NULL, &e));
    CHECK_CODE(kv_save_states(s, path, 0, &e), KV_E_UNSUPPORTED);
    CHECK_CODE(kv_load_states(s, path, &e), KV_E_UNSUPPORTED);
    CHECK_INT(kv_load_states(s, path, NULL), KV_E_UNSUPPORTED);
    CHECK_ERR(kv_save_states(s, "/no/such/folder/x", 0, &e), KV_E_UNSUPPORTED,
              "the updater is a function of the program, so there are no states");
}

/* s refuses the file with this, behind its name. */
static void refuses(kv *s, kv_code code, const char *why)
{
    char text[200];
    snprintf(text, sizeof text, "%s: %s", path, why);
    CHECK_ERR(kv_load_states(s, path, &e), code, text);
}

/* It does so, and trains on like one that never saw it. */
static void check_refused(const char *optimizer, kv_dtype dtype, kv_code code, const char *text)
{
    own_kv *s = with(optimizer, dtype, NULL, 0), *plain = with(optimizer, dtype, NULL, 0);
    both_step(s, plain, dtype, 1);
    uint64_t before = kv_changes(s);
    refuses(s, code, text);
    CHECK(kv_changes(s) == before);
    both_step(s, plain, dtype, 2);
}

static void save(const char *optimizer, kv_dtype dtype, const kv_opt *params, int n)
{
    own_kv *s = with(optimizer, dtype, params, n);
    step(s, dtype, 1);
    CHECK_OK(kv_save_states(s, path, 0, &e));
}

TEST(state_file_of_another_optimizer_or_dtype_is_refused)
{
    const kv_opt half = {"multi_precision", "true"};
    IN_FOLDER(path, NULL);
    save("adam", KV_FLOAT32, NULL, 0);
    check_refused("adamw", KV_FLOAT32, KV_E_VALUE, "states of adam, the optimizer in use is adamw");
    check_refused("adam", KV_FLOAT64, KV_E_DTYPE, "key 7 is float32 in it, float64 in this store");
    save("adam", KV_FLOAT16, &half, 1);
    check_refused("adam", KV_FLOAT16, KV_E_VALUE,
                  "key 7 was updated with multi_precision, the optimizer in use has it off");
    save("adam", KV_FLOAT16, NULL, 0);
    own_kv *s = with("adam", KV_FLOAT16, &half, 1);
    refuses(s, KV_E_VALUE,
            "key 7 was updated without multi_precision, the optimizer in use has it on");
}

TEST(state_file_of_other_keys_is_refused)
{
    static const kv_key other = {.id = 9}, text = {.name = "a/b"};
    IN_FOLDER(path, NULL);
    save("adam", KV_FLOAT32, NULL, 0);
    own_kv *s = make("local");
    CHECK_OK(kv_set_optimizer(s, "adam", NULL, 0, &e));
    refuses(s, KV_E_KEY, "it has the key \"7\", this store does not");
    own_array *w = weight(1, KV_FLOAT32, 0), *v = weight(0, KV_FLOAT32, 0);
    CHECK_OK(kv_init(s, &keys[0], 1, &w, NULL, &e));
    refuses(s, KV_E_SHAPE, "key 7 has shape (3, 4) in it, (5, 1) in this store");
    kv_free(s);
    s = with("adam", KV_FLOAT32, NULL, 0);
    CHECK_OK(kv_init(s, &other, 1, &w, NULL, &e));
    refuses(s, KV_E_KEY, "it has no states of key 9");
    kv_free(s);
    s = make("local");
    CHECK_OK(kv_set_optimizer(s, "adam", NULL, 0, &e));
    CHECK_OK(kv_init(s, &text, 1, &v, NULL, &e));
    refuses(s, KV_E_KEY, "states of integer keys, this store has text keys");
    CHECK_OK(kv_push(s, &text, 1, &v, NULL, &e));
    CHECK_OK(kv_save_states(s, path, 0, &e));
    CHECK_OK(kv_load_states(s, path, &e));
}

TEST(state_file_that_is_cut_or_no_such_file_is_refused)
{
    size_t n;
    IN_FOLDER(path, NULL);
    save("adam", KV_FLOAT32, NULL, 0);
    char *text = file_text(path, &n);
    own_kv *s = with("adam", KV_FLOAT32, NULL, 0);
    for (size_t cut = 0; cut < n; cut += cut < 40 || cut + 40 > n ? 1 : 17) {
        file_fill(path, text, cut);
        CHECK_CODE(kv_load_states(s, path, &e), KV_E_FORMAT);
    }
    mem_free(text);
    CHECK_OK(kv_save(s, path, &e));
    refuses(s, KV_E_FORMAT, "a whole store, not the states of an optimizer");
    remove(path);
    CHECK_INT(kv_load_states(s, path, &e), KV_E_IO);
}

/* The file with one text replaced, or left out when other is NULL, and without checksums. */
static void change(const char *name, const char *other)
{
    kv_array *arrays[16];
    safetensors_item items[16];
    checkpoint_text pairs[32];
    int64_t n = 0;
    file_out out;
    save("nadam", KV_FLOAT32, NULL, 0);
    own_checkpoint *f = MADE(checkpoint, checkpoint_open, path, NULL);
    CHECK_OK(load_all(arrays, f, &e));
    for (int64_t i = 0; i < checkpoint_count(f); i++)
        items[i] = (safetensors_item){checkpoint_at(f, i)->name, arrays[i]};
    for (int64_t i = 0; i < checkpoint_metadata_count(f); i++) {
        pairs[n] = *checkpoint_metadata_at(f, i);
        if (strcmp(pairs[n].name, name) == 0)
            pairs[n].text = other;
        if (strncmp(pairs[n].name, "kvstore.xxh64", 13) == 0)
            pairs[n].text = NULL;
        n += pairs[n].text != NULL;
    }
    CHECK_OK(file_out_open(&out, path, &e));
    CHECK_OK(safetensors_write(out.f, path, items, checkpoint_count(f), pairs, n, &e));
    CHECK_OK(file_out_commit(&out, &e));
    for (int64_t i = 0; i < checkpoint_count(f); i++)
        kv_array_unref(arrays[i]);
}

TEST(state_file_that_contradicts_itself_is_refused)
{
    static const struct {
        const char *name, *text;
        kv_code code;
        const char *error;
    } cases[] = {
        {"kvstore.states", "2", KV_E_FORMAT, "states in format \"2\", this version reads format 1"},
        {"kvstore.states", NULL, KV_E_FORMAT,
         "no states of an optimizer: the metadata have no \"kvstore.states\""},
        {"kvstore.optimizer", NULL, KV_E_FORMAT, "the metadata have no \"kvstore.optimizer\""},
        {"kvstore.num_update", "-1", KV_E_FORMAT, "\"kvstore.num_update\" is not a count"},
        {"kvstore.key.7", "x", KV_E_FORMAT, "\"kvstore.key.7\" is not a count, dtype and shape"},
        {"kvstore.key.7", NULL, KV_E_KEY, "it has no states of key 7"},
        {"kvstore.states.7", "m", KV_E_FORMAT, "\"7/v\" is not in the list of what the key keeps"},
        {"kvstore.states.7", "m v m_schedule", KV_E_VALUE,
         "key 7 has a state \"m_schedule\", which the optimizer in use does not have"},
        {"kvstore.states.7", "m v stored", KV_E_FORMAT, "the state \"stored\" of key 7 is missing"},
        {"kvstore.shared.m_schedule", "float 0x1", KV_E_FORMAT,
         "\"m_schedule\" is \"float 0x1\", which is not a number"},
    };
    IN_FOLDER(path, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        change(cases[i].name, cases[i].text);
        check_refused("nadam", KV_FLOAT32, cases[i].code, cases[i].error);
    }
}

/* ---- Damage ---- */

/* Loads every file that differs from data in one bit: it is refused, or gives what data gives. */
static void check_every_bit(char *data, size_t n, const char *optimizer)
{
    kv_err e = {0};
    int64_t refused = 0;
    own_kv *s = optimizer ? with(optimizer, KV_FLOAT32, NULL, 0) : NULL;
    for (size_t bit = 0; bit < 8 * n; bit++) {
        size_t m;
        own_kv *made = NULL;
        data[bit / 8] ^= (char)(1 << bit % 8);
        file_fill(path, data, n);
        data[bit / 8] ^= (char)(1 << bit % 8);
        if ((s ? kv_load_states(s, path, &e) : kv_load(&made, path, &e)) != KV_OK) {
            e = (kv_err){0};
            refused++;
            continue;
        }
        CHECK_OK(s ? kv_save_states(s, path, 0, &e) : kv_save(made, path, &e));
        own_text *again = file_text(path, &m);
        CHECK(m == n && memcmp(again, data, n) == 0);
    }
    CHECK(refused > (int64_t)(8 * n * 9 / 10));
}

TEST(state_file_with_any_bit_changed_is_refused)
{
    size_t n;
    IN_FOLDER(path, NULL);
    save("nadam", KV_FLOAT32, NULL, 0);
    own_text *data = file_text(path, &n);
    check_every_bit(data, n, "nadam");
}

TEST(state_file_of_a_store_with_any_bit_changed_is_refused)
{
    size_t n;
    IN_FOLDER(path, NULL);
    own_kv *s = with("adagrad", KV_BFLOAT16, NULL, 0);
    step(s, KV_BFLOAT16, 1);
    CHECK_OK(kv_save(s, path, &e));
    own_text *data = file_text(path, &n);
    check_every_bit(data, n, NULL);
}

TEST(state_file_says_what_is_damaged)
{
    char *data = NULL, *at;
    size_t n;
    IN_FOLDER(path, NULL);
    save("adam", KV_FLOAT32, NULL, 0);
    CHECK_OK(file_read(path, &data, &n, &e));
    data[n - 1] ^= 1;
    file_fill(path, data, n);
    check_refused("adam", KV_FLOAT32, KV_E_FORMAT,
                  "the file is damaged: the data of \"2/var\" are not what was "
                  "written");
    data[n - 1] ^= 1;
    CHECK((at = memmem(data, n, "num_update\":\"", 13)) != NULL);
    at[13] ^= 1;
    file_fill(path, data, n);
    check_refused("adam", KV_FLOAT32, KV_E_FORMAT,
                  "the file is damaged: its metadata are not what was written");
    mem_free(data);
}

TEST(state_file_without_checksums_is_loaded)
{
    IN_FOLDER(path, NULL);
    change("", NULL);
    own_kv *s = with("nadam", KV_FLOAT32, NULL, 0);
    CHECK_OK(kv_load_states(s, path, &e));
}

/* ---- Whole stores and transactions ---- */

TEST(state_file_a_whole_store_keeps_the_states)
{
    const char *name, *last = "";
    const kv_opt params[] = {{"multi_precision", "true"},
                             {"lr_scheduler", "factor(step=3, factor=0.7)"}};
    IN_FOLDER(path, NULL);
    for (int i = 0; kv_optimizer_text(i, &name); i++) {
        if (strcmp(name, last) == 0)
            continue;
        last = name;
        own_kv *plain = with(name, KV_FLOAT16, params, 2),
               *stopped = with(name, KV_FLOAT16, params, 2);
        for (int t = 0; t < 6; t++) {
            CHECK_OK(kv_save(stopped, path, &e));
            kv_free(stopped);
            CHECK_OK(kv_load(&stopped, path, &e));
            both_step(plain, stopped, KV_FLOAT16, t);
        }
    }
}

TEST(state_file_rollback_undoes_a_load)
{
    IN_FOLDER(path, NULL);
    for (uint32_t flags = 0; flags <= KV_DUMP_OPTIMIZER; flags++) {
        own_kv *other = with("nadam", KV_FLOAT32, NULL, 0);
        step(other, KV_FLOAT32, 5);
        CHECK_OK(kv_save_states(other, path, flags, &e));
        own_kv *s = with("nadam", KV_FLOAT32, NULL, 0), *plain = with("nadam", KV_FLOAT32, NULL, 0);
        both_step(s, plain, KV_FLOAT32, 1);
        CHECK_OK(kv_begin(s, &e));
        CHECK_OK(kv_load_states(s, path, &e));
        step(s, KV_FLOAT32, 2);
        CHECK_OK(kv_rollback(s, &e));
        check_same(s, plain, KV_FLOAT32);
        both_step(s, plain, KV_FLOAT32, 4);
    }
}

TEST(state_file_states_hold_no_texts)
{
    own_kv *s = weights_of(NULL, KV_FLOAT32);
    own_array *g = weight(0, KV_FLOAT32, 0);
    set_rule(s, "updater words { state key w = \"a\"; stored += input }");
    CHECK_ERR(kv_push(s, keys, 1, &g, NULL, &e), KV_E_DTYPE,
              "the state `w` holds a number, not a text");
}
