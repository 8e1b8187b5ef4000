/* row_sparse keys and values in a store: init, push with every kind of updater, pull, errors. */

#include "kvstore.h"
#include "sparse_help.h"

static const kv_key key = {3, NULL};

/* A 5 x 2 default array, row k being x[k], x[k]. */
static kv_array *dense(const float *x)
{
    return ARRAY_OF(KV_FLOAT32, 2, ((int64_t[]){5, 2}), cpu0, x[i / 2]);
}

static kv *open_store(kv_array *first)
{
    kv *s = make("local");
    if (first)
        init_with(s, key, first);
    return s;
}

/* Pulls the key and compares its rows. */
static void check(kv *s, const float *want)
{
    own_array *out = MADE(kv_array, kv_array_new_raw, KV_FLOAT32, 2, (int64_t[]){5, 2}, cpu0);
    CHECK_OK(kv_pull(s, &key, 1, &out, NULL, &e));
    const float *data = array_elements(out);
    for (int i = 0; i < 10; i++)
        CHECK(data[i] == want[i / 2]);
}

static void check_bytes(kv *s, int64_t bytes)
{
    CHECK_INT(info_of(s, key).bytes, bytes);
}

/* One push of up to three values, which are given back. */
static void push(kv *s, kv_array *a, kv_array *b, kv_array *c)
{
    own_arrays *values[] = {a, b, c, NULL};
    kv_key keys[] = {key, key, key};
    CHECK_OK(kv_push(s, keys, c ? 3 : b ? 2 : 1, values, NULL, &e));
}

enum { ROW = 2 * 4 + 8, FULL = 5 * ROW, DENSE = 40 };

TEST(store_sparse_init_keeps_rows)
{
    own_array *a = rows("1=1 4=2");
    own_kv *s = open_store(kv_array_ref(a));
    void *data = row_data(a); /* the store has a copy */
    memset(data, 0, 16);
    check(s, (float[]){0, 1, 0, 0, 2});
    check_bytes(s, 2 * ROW);
}

TEST(store_sparse_assign)
{
    own_kv *s = open_store(NULL); /* a push creates the key */
    push(s, rows("1=1 4=2"), NULL, NULL);
    check(s, (float[]){0, 1, 0, 0, 2});
    check_bytes(s, 2 * ROW);
    push(s, rows("0=1 1=2"), rows(""), rows("1=-2 3=5"));
    check(s, (float[]){1, 0, 0, 5, 0});
    check_bytes(s, 3 * ROW); /* row 1 cancelled and stays */
    push(s, dense((float[]){0, 0, 7, 0, 8}), dense((float[]){0, 0, 1, 0, 0}), NULL);
    check(s, (float[]){0, 0, 8, 0, 8});
    check_bytes(s, 2 * ROW);
    push(s, rows(""), NULL, NULL);
    check(s, (float[]){0, 0, 0, 0, 0});
    check_bytes(s, 0);
    kv_free(s);
    s = open_store(dense((float[]){1, 2, 3, 4, 5}));
    push(s, rows("2=9"), NULL, NULL);
    check(s, (float[]){0, 0, 9, 0, 0});
    check_bytes(s, ROW);
}

TEST(store_sparse_rules)
{
    /* a constant rule reads zeros in absent rows */
    own_kv *s = open_store(dense((float[]){1, 2, 3, 4, 5}));
    set_rule(s, "{ stored = 2 * stored + input }");
    push(s, rows("1=10 4=20"), NULL, NULL);
    check(s, (float[]){2, 14, 6, 8, 30});
    check_bytes(s, DENSE);
    set_rule(s, "{ rows present; stored = 2 * stored + input }");
    push(s, rows("1=1 4=2"), rows("0=7"), NULL);
    check(s, (float[]){11, 29, 6, 8, 62});
    push(s, rows(""), NULL, NULL);
    check(s, (float[]){11, 29, 6, 8, 62});
    push(s, dense((float[]){1, 1, 1, 1, 1}), NULL, NULL); /* holds all rows */
    check(s, (float[]){23, 59, 13, 17, 125});
    kv_free(s);
    /* a row_sparse key holds all rows from the first update on */
    s = open_store(rows("1=5"));
    set_rule(s, "{ if sparse(stored) { stored = stored + input + 1 } else { stored = input } }");
    check_bytes(s, ROW);
    push(s, rows("3=1"), NULL, NULL);
    check(s, (float[]){1, 6, 1, 2, 1});
    check_bytes(s, FULL);
    push(s, dense((float[]){1, 0, 0, 0, 0}), NULL, NULL);
    check(s, (float[]){3, 7, 2, 3, 2});
    check_bytes(s, FULL);
}

/* The rate of LBSGD by norms is sqrt(8 / 2): all of the weight counts, not its present rows alone.
 */
TEST(store_sparse_lbsgd_norms)
{
    own_kv *s = open_store(dense((float[]){2, 0, 0, 0, 0}));
    kv_opt params[] = {{"learning_rate", "1"}, {"warmup_strategy", "lars"}};
    CHECK_OK(kv_set_optimizer(s, "lbsgd", params, 2, &e));
    push(s, rows("1=1"), NULL, NULL);
    check(s, (float[]){2, -2, 0, 0, 0});
}

/* Rows longer and shorter than the chunks in which a rule reads its input. */
TEST(store_sparse_long_rows)
{
    enum { N = 10000 };
    for (int wide = 0; wide < 2; wide++) {
        const int64_t n = wide ? 3 : N, m = wide ? N : 3, shape[] = {n, m};
        const int64_t ids[] = {n - 2, n - 1};
        own_kv *s = make("local");
        own_array *w = MADE(kv_array, kv_array_new, KV_FLOAT32, 2, shape, cpu0);
        own_array *g = MADE(kv_array, kv_array_new_sparse, KV_FLOAT32, 2, shape, 2, ids, cpu0);
        float *to = row_data(g);
        for (int64_t i = 0; i < 2 * m; i++)
            to[i] = (float)(i + 1);
        CHECK_OK(kv_init(s, &key, 1, &w, NULL, &e));
        set_rule(s, "{ stored = stored + input }");
        CHECK_OK(kv_push(s, &key, 1, &g, NULL, &e));
        set_rule(s, "{ rows present; stored = stored + input }");
        CHECK_OK(kv_push(s, &key, 1, &g, NULL, &e));
        CHECK_OK(kv_pull(s, &key, 1, &w, NULL, &e));
        const float *data = array_elements(w);
        for (int64_t i = 0; i < n * m; i++) {
            int64_t at = i - (n - 2) * m;
            CHECK(data[i] == (at < 0 ? 0 : (float)(2 * (at + 1))));
        }
    }
}

/* float16 keys with a float32 master that begins with the rows that are there. */
TEST(store_sparse_multi_precision)
{
    kv_array *a = rows("1=2"), *half = NULL;
    CHECK_OK(kv_array_dup(&half, a, KV_FLOAT16, cpu0, &e));
    kv_array_unref(a);
    own_kv *s = open_store(half);
    kv_opt params[] = {{"learning_rate", "1"}, {"multi_precision", "true"}};
    CHECK_OK(kv_set_optimizer(s, "sgd", params, 2, &e));
    push(s, rows("0=1 1=0.5"), NULL, NULL);
    check(s, (float[]){-1, 1.5f, 0, 0, 0});
}

static int add(void *arg, const kv_key *k, kv_array *input, kv_array *stored, kv_err *e)
{
    int *sparse = arg;
    const void *in = NULL;
    void *out = NULL;
    (void)k;
    *sparse = kv_array_storage(input) == KV_ROW_SPARSE;
    int rc = *sparse ? kv_array_read_rows(input, &in, e) : kv_array_read(input, &in, e);
    if (!rc)
        rc = kv_array_storage(stored) == KV_ROW_SPARSE ? kv_array_write_rows(stored, &out, e)
                                                       : kv_array_write(stored, &out, e);
    int64_t n = rc ? 0 : *sparse ? kv_array_nrows(input) : 5;
    for (int64_t i = 0; i < 2 * n; i++) {
        int64_t at = *sparse ? kv_array_row_ids(input)[i / 2] * 2 + i % 2 : i;
        ((float *)out)[at] += ((const float *)in)[i];
    }
    return rc;
}

TEST(store_sparse_callback)
{
    int sparse = 0;
    own_kv *s = open_store(rows("1=5"));
    CHECK_OK(kv_set_updater(s, add, &sparse, NULL, &e));
    push(s, rows("3=1"), rows("3=2"), NULL);
    CHECK_INT(sparse, 1);
    check(s, (float[]){0, 5, 0, 3, 0});
    check_bytes(s, FULL);
    push(s, dense((float[]){1, 1, 1, 1, 1}), NULL, NULL);
    CHECK_INT(sparse, 0);
    check(s, (float[]){1, 6, 1, 4, 1});
}

TEST(store_sparse_transactions)
{
    for (int rule = 0; rule < 2; rule++) {
        own_kv *s = open_store(rows("1=5 4=6"));
        if (rule)
            set_rule(s, "{ stored = stored + input }");
        CHECK_OK(kv_begin(s, &e));
        push(s, rows("3=1"), NULL, NULL);
        push(s, rows("3=1"), NULL, NULL);
        check(s, rule ? (float[]){0, 5, 0, 2, 6} : (float[]){0, 0, 0, 1, 0});
        CHECK_OK(kv_rollback(s, &e));
        check(s, (float[]){0, 5, 0, 0, 6});
        check_bytes(s, 2 * ROW);
    }
}

TEST(store_sparse_errors)
{
    own_kv *s = open_store(rows("1=5"));
    own_array *other = NULL;
    CHECK_OK(kv_array_new_sparse(&other, KV_FLOAT32, 2, (int64_t[]){5, 3}, 0, NULL, cpu0, &e));
    CHECK_ERR(kv_push(s, &key, 1, &other, NULL, &e), KV_E_SHAPE,
              "key 3 holds (5, 2), this value has shape (5, 3)");
    check(s, (float[]){0, 5, 0, 0, 0});
    check_bytes(s, ROW);
}

/* Values of both storages, in any order, are summed as default arrays. */
TEST(store_sparse_values_of_both_storages)
{
    kv_key keys[] = {key, key, key};
    own_array *a = dense((float[]){1, 2, 3, 4, 5}), *b = rows("1=5");
    own_kv *s = open_store(rows("1=5"));
    CHECK_OK(kv_push(s, keys, 3, (kv_array *[]){b, a, b}, NULL, &e));
    check(s, (float[]){1, 12, 3, 4, 5});
    set_rule(s, "{ stored = stored + input * 2 }");
    CHECK_OK(kv_push(s, keys, 2, (kv_array *[]){a, b}, NULL, &e));
    check(s, (float[]){3, 26, 9, 12, 15});
    kv_free(s);
    s = open_store(dense((float[]){1, 1, 1, 1, 1}));
    CHECK_OK(kv_push(s, keys, 2, (kv_array *[]){b, a}, NULL, &e));
    check(s, (float[]){1, 7, 3, 4, 5});
}

/* ---- Many rows ---- */

enum { MANY = 30011, SOME_ROWS = 7, WIDTH = 16 };

/* `nrows` rows, with gaps two of three; each is what row number id % SOME_ROWS would be. */
static kv_array *alike(int64_t nrows, bool gaps, float scale)
{
    kv_err e = {0};
    kv_array *a = NULL;
    int64_t *ids = mem_alloc(nrows, sizeof *ids, &e), n = 0;
    for (int64_t i = 0; i < nrows; i++)
        if (!gaps || i % 3)
            ids[n++] = i;
    CHECK_OK(kv_array_new_sparse(&a, KV_FLOAT32, 2, (int64_t[]){nrows, WIDTH}, n, ids, cpu0, &e));
    float *data = row_data(a);
    for (int64_t i = 0; i < n * WIDTH; i++)
        data[i] = scale * (float)(ids[i / WIDTH] % SOME_ROWS * WIDTH + i % WIDTH + 1);
    mem_free(ids);
    return a;
}

/* Two pushes to all rows that the values have; what comes out. */
static kv_array *updated(const char *optimizer, const kv_opt *params, int nparams, int64_t nrows,
                         bool gaps)
{
    own_kv *s = open_store(alike(nrows, false, 1));
    kv_array *out = NULL;
    CHECK_OK(kv_set_optimizer(s, optimizer, params, nparams, &e));
    for (int i = 1; i < 3; i++) {
        kv_array *value = alike(nrows, gaps, 0.37f * (float)i);
        push_one(s, key, value);
    }
    CHECK_OK(kv_array_new_raw(&out, KV_FLOAT32, 2, (int64_t[]){nrows, WIDTH}, cpu0, &e));
    CHECK_OK(kv_pull(s, &key, 1, &out, NULL, &e));
    CHECK_OK(kv_wait(s, &e));
    return out;
}

static void check_lazy(const char *optimizer, const kv_opt *params, int nparams)
{
    own_array *many = updated(optimizer, params, nparams, MANY, true);
    own_array *few = updated(optimizer, params, nparams, SOME_ROWS, false);
    const float *got = array_elements(many), *want = array_elements(few);
    for (int64_t i = 0; i < MANY; i++)
        for (int64_t j = 0; j < WIDTH; j++) {
            int64_t k = i % SOME_ROWS * WIDTH + j;
            float x = i % 3 ? want[k] : (float)(k + 1);
            CHECK(memcmp(&x, got + i * WIDTH + j, sizeof x) == 0);
        }
}

/* The present rows of a large key are shared by the threads: they become what they would alone, and
 * the absent ones stay. */
TEST(store_sparse_lazy_updates_of_many_rows)
{
    check_lazy("sgd", NULL, 0);
    check_lazy("sgd", (const kv_opt[]){{"momentum", "0.9"}}, 1);
    check_lazy("adam", NULL, 0);
    check_lazy("adagrad", NULL, 0);
}
