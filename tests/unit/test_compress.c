/* Gradient compression in a store: against a plain model, over later positions, contexts, changes
 * of the setting, transactions, files, and allocations that fail. */
#include "core/slot.h"
#include "core/store.h"
#include "kvstore.h"
#include "store_help.h"

/* SIZE is more than one part, and a tail; LARGE is written past the caches */
enum { SIZE = 70001, LARGE = (1 << 20) + 4101, MOST = 5 };

static const kv_key key = {.id = 3}, other = {.id = 1};
static const kv_opt two_bits[] = {{"type", "2bit"}, {"threshold", "0.5"}};
static const kv_opt one_bit[] = {{"type", "1bit"}, {"threshold", "0"}};
static const kv_opt none[] = {{"type", "none"}};
static const char path[] = "c.safetensors";

static float gradient(int64_t i, int seed)
{
    return (float)((i * 7919 + seed * 104729) % 2003 - 1001) / 1000;
}

static kv_array *array_of(kv_dtype dtype, int64_t n, int seed, kv_ctx ctx)
{
    return ARRAY_OF(dtype, 1, &n, ctx, seed ? gradient(i, seed) : 0);
}

static kv *make_sized(int64_t n)
{
    kv *s = make("device");
    kv_array *zeros = array_of(KV_FLOAT32, n, 0, (kv_ctx){0});
    CHECK_OK(kv_init(s, &key, 1, &zeros, NULL, &e));
    init_with(s, other, zeros);
    return s;
}

static void set(kv *s, const kv_opt params[2])
{
    CHECK_OK(kv_set_gradient_compression(s, params, 2, &e));
}

static void set_sum(kv *s)
{
    set_rule(s, "{ stored += input }");
}

/* Values seed, seed + 1, … for one key. */
static int push_to(kv *s, kv_key k, int64_t n, int nvalues, int seed, kv_ctx ctx, kv_err *e)
{
    kv_key keys[MOST] = {0};
    own_arrays *values[MOST + 1] = {0};
    for (int j = 0; j < nvalues; j++) {
        keys[j] = k;
        values[j] = array_of(KV_FLOAT32, n, seed + j, ctx);
    }
    return kv_push(s, keys, nvalues, values, NULL, e);
}

static void push(kv *s, int64_t n, int nvalues, int seed)
{
    CHECK_OK(push_to(s, key, n, nvalues, seed, (kv_ctx){0}, &e));
}

static void push_both(kv *s, kv *same, int64_t n, int nvalues, int seed)
{
    push(s, n, nvalues, seed);
    push(same, n, nvalues, seed);
}

/* Two stores that compress alike. */
#define TWO_STORES(n)                                                                              \
    own_kv *s = make_sized(n), *same = make_sized(n);                                              \
    set(s, two_bits);                                                                              \
    set(same, two_bits)

static kv_array *pulled(kv *s, kv_key k, int64_t n)
{
    kv_array *a = array_of(KV_FLOAT32, n, 0, (kv_ctx){0});
    CHECK_OK(kv_pull(s, &k, 1, &a, NULL, &e));
    return a;
}

/* Two stores hold the same bits, now and after more pushes. */
static void check_same(kv *a, kv *b, int64_t n)
{
    for (int t = 0; t < 4; t++) {
        kv_key both[] = {key, other};
        for (int k = 0; k < 2; k++) {
            own_array *x = pulled(a, both[k], n), *y = pulled(b, both[k], n);
            check_same_bytes(x, y);
            CHECK_OK(push_to(a, both[k], n, 3, 70 + t, (kv_ctx){0}, &e));
            CHECK_OK(push_to(b, both[k], n, 3, 70 + t, (kv_ctx){0}, &e));
        }
    }
}

/* The code of one value of a push, by the definition. */
static float model(float *residual, float g, bool one, float t)
{
    float r = *residual + g;
    float q = one ? (r > t ? 1 : -1) : r >= t ? t : r <= -t ? -t : 0;
    *residual = r - q;
    return q;
}

/* The ways in which a sum is applied. */
typedef enum updating { ASSIGN, RULE, CALLBACK } updating;

static void compare_model(updating how, const kv_opt params[2], bool one, float t, int64_t n,
                          int steps)
{
    kv_err e = {0};
    own_kv *s = make_sized(n);
    own_mem float *residual = mem_zalloc(MOST * n, sizeof *residual, &e);
    own_mem float *stored = mem_zalloc(n, sizeof *stored, &e);
    CHECK(residual && stored);
    if (how == RULE)
        set_sum(s);
    if (how == CALLBACK)
        CHECK_OK(kv_set_updater(s, add_input, NULL, NULL, &e));
    push(s, n, 2, 90); /* before it is set: as it is */
    for (int64_t i = 0; i < n; i++)
        stored[i] += gradient(i, 90) + gradient(i, 91);
    set(s, params);
    for (int step = 1; step <= steps; step++) {
        int nvalues = step % MOST + 1; /* positions come, go and come back */
        push(s, n, nvalues, 10 * step);
        for (int64_t i = 0; i < n; i++) {
            float sum = 0;
            for (int j = 0; j < nvalues; j++) {
                float q = model(&residual[j * n + i], gradient(i, 10 * step + j), one, t);
                sum = j ? sum + q : q;
            }
            stored[i] = how == ASSIGN ? sum : stored[i] + sum;
        }
        own_array *got = pulled(s, key, n);
        CHECK(memcmp(array_elements(got), stored, (size_t)n * 4) == 0);
    }
}

TEST(compress_model)
{
    static const kv_opt tenth[] = {{"threshold", "0.1"}, {"type", "2bit"}};
    static const kv_opt minus[] = {{"type", "1bit"}, {"threshold", "-0.25"}};
    for (updating how = ASSIGN; how <= CALLBACK; how++) {
        compare_model(how, two_bits, false, 0.5f, SIZE, 6);
        compare_model(how, one_bit, true, 0, SIZE, 6);
        compare_model(how, tenth, false, 0.1f, 37, 6);
        compare_model(how, minus, true, -0.25f, 37, 6);
        compare_model(how, two_bits, false, 0.5f, 0, 6);
    }
    compare_model(ASSIGN, one_bit, true, 0, LARGE, 2);
    compare_model(RULE, two_bits, false, 0.5f, LARGE, 2);
}

/* Residuals depend on the values alone, however the work of the updater is cut, and also without an
 * updater. */
TEST(compress_owes_the_same)
{
    static const char *const rules[] = {"{ stored = stored }", "{ stored += input }",
                                        "{ stored += input / (1 + sum(input)) }"};
    static const int64_t sizes[] = {100, SIZE, LARGE};
    for (int k = 0; k < 9; k++) {
        int64_t n = sizes[k / 3];
        own_kv *s = make_sized(n), *same = make_sized(n);
        set(s, two_bits);
        set(same, two_bits);
        set_rule(s, rules[k % 3]);
        for (int t = 0; t < 2; t++)
            push_both(s, same, n, 2, 4 * t + 1);
        const residuals *a = s->slots.items[0].residuals, *b = same->slots.items[0].residuals;
        CHECK_INT(a->n, 2);
        for (int j = 0; j < 2; j++)
            check_same_bytes(a->items[j], b->items[j]);
    }
}

/* Values of other dtypes become float32 first, in a new key the first value must be float32. */
TEST(compress_converts)
{
    TWO_STORES(5000);
    kv_key new = {.id = 9};
    own_array *wide = array_of(KV_FLOAT64, 5000, 4, (kv_ctx){0});
    CHECK_OK(kv_push(s, &key, 1, &wide, NULL, &e));
    push(same, 5000, 1, 4);
    check_same(s, same, 5000);
    CHECK_ERR(kv_push(s, &new, 1, &wide, NULL, &e), KV_E_DTYPE,
              "key 9 is float64, gradient compression takes float32 keys");
    CHECK_INT(kv_num_keys(s), 2);
}

/* Many values, some of which are converted first, and residuals that a transaction holds: the sum
 * takes several steps, and is that of the model. */
TEST(compress_many_values)
{
    enum { MANY = 37, LENGTH = 9001 };
    own_kv *s = make_sized(LENGTH);
    kv_key keys[MANY];
    kv_array *values[MANY];
    own_mem float *residual = mem_zalloc(MANY * LENGTH, sizeof *residual, &e);
    CHECK(residual != NULL);
    set(s, two_bits);
    for (int j = 0; j < MANY; j++)
        keys[j] = key;
    for (int step = 0; step < 3; step++) {
        for (int j = 0; j < MANY; j++)
            values[j] =
                array_of(j % 19 == 17 ? KV_FLOAT64 : KV_FLOAT32, LENGTH, step + j + 1, (kv_ctx){0});
        if (step == 1)
            CHECK_OK(kv_begin(s, &e));
        CHECK_OK(kv_push(s, keys, MANY, values, NULL, &e));
        if (step == 1)
            CHECK_OK(kv_commit(s, &e));
        own_array *got = pulled(s, key, LENGTH);
        for (int64_t i = 0; i < LENGTH; i++) {
            float sum = 0;
            for (int j = 0; j < MANY; j++)
                sum += model(&residual[j * LENGTH + i], gradient(i, step + j + 1), false, 0.5f);
            CHECK(((const float *)array_elements(got))[i] == sum);
        }
        for (int j = 0; j < MANY; j++)
            kv_array_unref(values[j]);
    }
}

/* A residual follows the values of its position to another device. */
TEST(compress_contexts)
{
    TWO_STORES(100);
    CHECK_OK(kv_set_virtual_gpus(2, &e));
    for (int t = 0; t < 4; t++) {
        CHECK_OK(push_to(s, key, 100, 2, t + 1, (kv_ctx){t % 2 ? KV_GPU : KV_CPU, t / 2}, &e));
        push(same, 100, 2, t + 1);
    }
    const residuals *r = s->slots.items[0].residuals;
    CHECK_INT(r->n, 2);
    CHECK(kv_array_ctx(r->items[1]).device == KV_GPU && kv_array_ctx(r->items[1]).id == 1);
    check_same(s, same, 100);
}

TEST(compress_error_tells_the_parameter)
{
    static const struct {
        kv_opt params[3];
        int n, option;
    } cases[] = {
        {{{"type", "3bit"}, {"threshold", "1"}}, 2, 1},
        {{{"threshold", "x"}, {"type", "2bit"}}, 2, 1},
        {{{"type", "2bit"}, {"threshold", "0"}}, 2, 2},
        {{{"type", "1bit"}, {"limit", "1"}}, 2, 2},
        {{{"type", "none"}, {"threshold", "1"}, {"pull", "true"}}, 3, 2},
        {{{"type", "none"}, {"pull", "true"}}, 2, 2},
        {{{"type", "2bit"}, {"threshold", "1"}, {"pull", "yes"}}, 3, 3},
        {{{"threshold", "1"}}, 1, 0}, /* none of them: the type is missing */
    };
    own_kv *s = make_sized(4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        e = (kv_err){0};
        CHECK(kv_set_gradient_compression(s, cases[i].params, cases[i].n, &e) != KV_OK);
        CHECK_INT(e.option, cases[i].option);
    }
    CHECK_ERR(kv_set_gradient_compression(s, cases[6].params, 3, &e), KV_E_VALUE,
              "pull is true or false, not \"yes\"");
    static const kv_opt off[] = {{"type", "none"}, {"pull", "false"}};
    CHECK_OK(kv_set_gradient_compression(s, off, 2, &e));
}

TEST(compress_setting)
{
    own_kv *s = make_sized(4);
    static const kv_opt half[] = {{"type", "2bit"}},
                        misspelt[] = {{"type", "2bit"}, {"treshold", "1"}};
    uint64_t before = kv_changes(s);
    CHECK_OK(kv_set_gradient_compression(s, none, 1, &e));
    CHECK_INT(kv_changes(s), before);
    CHECK_ERR(kv_set_gradient_compression(s, NULL, 0, &e), KV_E_USAGE,
              "gradient compression needs a type");
    CHECK_INT(kv_set_gradient_compression(s, misspelt, 2, &e), KV_E_USAGE);
    CHECK_TEXT(e.text, "gradient compression has no parameter \"treshold\"");
    CHECK_TEXT(e.hint, "did you mean threshold?");
    CHECK_INT(kv_set_gradient_compression(s, misspelt, 2, NULL), KV_E_USAGE);
    CHECK_INT(kv_set_gradient_compression(NULL, half, 1, NULL), KV_E_USAGE);
    CHECK_INT(kv_changes(s), before);
    CHECK_OK(kv_set_gradient_compression(s, half, 1, &e));
    CHECK_INT(kv_changes(s), before + 1);
    push(s, 4, 2, 1);
    set(s, two_bits); /* the same again: residuals stay */
    CHECK_INT(s->slots.items[0].residuals->n, 2);
    CHECK_INT(kv_changes(s), before + 2);
    set(s, one_bit);
    CHECK(s->slots.items[0].residuals == NULL);
}

TEST(compress_local)
{
    own_kv *s = make(NULL);
    CHECK_INT(kv_set_gradient_compression(s, two_bits, 2, &e), KV_E_UNSUPPORTED);
    CHECK_TEXT(e.text, "stores of type \"local\" do not compress gradients");
    CHECK_TEXT(e.hint, "the type device does, between its contexts");
}

TEST(compress_transactions)
{
    TWO_STORES(100);
    push_both(s, same, 100, 2, 1);
    CHECK_OK(kv_begin(s, &e));
    push(s, 100, 3, 5);
    CHECK_OK(push_to(s, other, 100, 1, 6, (kv_ctx){0}, &e));
    set(s, one_bit);
    push(s, 100, 1, 7);
    CHECK_OK(kv_rollback(s, &e));
    CHECK(s->compression.code == QUANTISE_2BIT && s->compression.threshold == 0.5f);
    CHECK_INT(s->slots.items[0].residuals->n, 2);
    check_same(s, same, 100);
    CHECK_OK(kv_begin(s, &e));
    push_both(s, same, 100, 3, 5);
    CHECK_OK(kv_commit(s, &e));
    check_same(s, same, 100);
}

/* Text keys, one of them with a slash and one that begins like our own names. */
TEST(compress_save_names)
{
    kv_key names[] = {{.name = "fc/0"}, {.name = "__residual__/fc/0"}};
    own_kv *s = NULL, *back = NULL;
    IN_FOLDER(path, NULL);
    CHECK_OK(kv_create("device", NULL, 0, &s, &e));
    set(s, one_bit);
    for (int i = 0; i < 2; i++)
        CHECK_OK(push_to(s, names[i], 10, i + 1, 3, (kv_ctx){0}, &e));
    CHECK_OK(kv_save(s, path, &e));
    CHECK_OK(kv_load(&back, path, &e));
    CHECK_INT(kv_num_keys(back), 2);
    for (int i = 0; i < 2; i++) {
        const residuals *a = s->slots.items[i].residuals, *b = back->slots.items[i].residuals;
        CHECK_INT(b->n, i + 1);
        for (int j = 0; j <= i; j++)
            check_same_bytes(a->items[j], b->items[j]);
    }
}

static kv *trained(const kv_opt how[2])
{
    kv *s = make_sized(100);
    CHECK_OK(kv_set_optimizer(s, "adam", NULL, 0, &e));
    if (how)
        set(s, how);
    push(s, 100, 2, 1);
    push(s, 100, 2, 3);
    return s;
}

/* A store with the weights of s and the same optimizer and compression, without what they keep. */
static kv *fresh_copy(kv *s, const kv_opt how[2])
{
    kv_key both[] = {key, other};
    kv *copy = make("device");
    for (int k = 0; k < 2; k++)
        init_with(copy, both[k], pulled(s, both[k], 100));
    CHECK_OK(kv_set_optimizer(copy, "adam", NULL, 0, &e));
    if (how)
        set(copy, how);
    return copy;
}

TEST(compress_save_states)
{
    IN_FOLDER(path, NULL);
    for (uint32_t flags = 0; flags <= KV_DUMP_OPTIMIZER; flags++) {
        own_kv *s = trained(two_bits), *copy = fresh_copy(s, two_bits);
        push(copy, 100, 4, 33); /* leaves residuals that the file does not have */
        CHECK_OK(kv_save_states(s, path, flags, &e));
        kv_free(copy);
        copy = fresh_copy(s, two_bits);
        CHECK_OK(kv_load_states(copy, path, &e));
        check_same(s, copy, 100);
    }
}

TEST(compress_states_of_another)
{
    own_kv *s = trained(two_bits), *plain = trained(NULL), *one = fresh_copy(s, one_bit);
    IN_FOLDER(path, NULL);
    CHECK_OK(kv_save_states(s, path, 0, &e));
    CHECK_ERR(kv_load_states(plain, path, &e), KV_E_VALUE,
              "c.safetensors: residuals of compression 2bit 0.5, that of this store is none");
    push(one, 100, 1, 2);
    CHECK_ERR(kv_load_states(one, path, &e), KV_E_VALUE,
              "c.safetensors: residuals of compression 2bit 0.5, that of this store is 1bit 0");
    CHECK_INT(one->slots.items[0].residuals->n, 1);
    /* a file without compression: nothing is owed any more */
    CHECK_OK(kv_save_states(plain, path, 0, &e));
    CHECK_OK(kv_load_states(s, path, &e));
    CHECK(s->slots.items[0].residuals == NULL);
    CHECK_INT(s->compression.code, QUANTISE_2BIT);
}

/* A file in which one text is replaced by another of the same length. */
static void edit(const char *from, const char *to)
{
    size_t n;
    CHECK(strlen(from) == strlen(to));
    own_text *text = file_text(path, &n);
    char *at = memmem(text, n, from, strlen(from));
    while (at && from[0] != '"' && at[-1] != '"') /* a checksum names it too */
        at = memmem(at + 1, n - (size_t)(at + 1 - text), from, strlen(from));
    CHECK(at != NULL);
    memcpy(at, to, strlen(to));
    /* The checksums become some other tool's texts. */
    for (at = text; (at = memmem(at, n - (size_t)(at - text), "\"kvstore.xxh64", 14)); at++)
        memcpy(at + 1, "another", 7);
    file_fill(path, text, n);
}

TEST(compress_malformed_files)
{
    static const struct {
        const char *from, *to, *text;
    } cases[] = {
        {"2bit 0.5", "2bit 0.0", "\"kvstore.compression\" is \"2bit 0.0\", no type and threshold"},
        {"2bit 0.5", "3bit 0.5", "\"kvstore.compression\" is \"3bit 0.5\", no type and threshold"},
        {"2bit 0.5", "2bit .50", "\"kvstore.compression\" is \"2bit .50\", no type and threshold"},
        {"__residual__/3/1", "__residual__/3/2", "the residual of key 3 at position 1 is missing"},
        {"__residual__/3/1", "__residual__/3/9",
         "the tensor \"__residual__/3/9\" is no position in a list of values"},
        {"__residual__/3/1", "__residual__/4/1",
         "the tensor \"__residual__/4/1\" is a residual of no key"},
        {"__residual__/3/1", "__residual__/3/x",
         "the tensor \"__residual__/3/x\" is not an integer key"},
        {"kvstore.compression", "kvstore.compressing",
         "it holds \"kvstore.compressing\", which this version does not know"},
        {"kvstore.compression", "another.compression",
         "the tensor \"__residual__/3/0\" is a residual that nobody uses"},
        {"\"device\"", "\"local\" ", "it compresses gradients, which the type \"local\" does not"},
    };
    own_kv *s = make_sized(6);
    IN_FOLDER(path, NULL);
    set(s, two_bits);
    push(s, 6, 2, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kv *back = NULL;
        char want[300];
        snprintf(want, sizeof want, "%s: %s", path, cases[i].text);
        CHECK_OK(kv_save(s, path, &e));
        edit(cases[i].from, cases[i].to);
        CHECK_ERR(kv_load(&back, path, &e), KV_E_FORMAT, want);
    }
}

/* Whichever allocation of a push fails: nothing changes, and the push that succeeds at last gives
 * what it would have given at once. */
TEST(compress_no_memory)
{
    TWO_STORES(100);
    set_sum(s);
    set_sum(same);
    push_both(s, same, 100, 1, 1);
    kv_key keys[] = {key, key, other};
    own_arrays *values[4] = {NULL};
    for (int i = 0; i < 3; i++)
        values[i] = array_of(KV_FLOAT32, 100, i + 5, (kv_ctx){0});
    CHECK_OK(kv_begin(s, &e)); /* so that residuals are shared and must be copied */
    CHECK(FAILURES(kv_push(s, keys, 3, values, NULL, &e)) > 8);
    CHECK_OK(kv_push(same, keys, 3, values, NULL, &e));
    CHECK_OK(kv_commit(s, &e));
    check_same(s, same, 100);
}
