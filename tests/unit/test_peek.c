/* kv_peek and the topic "rounds", in one process: what a key holds, and how often it was pushed. */

#include "kvstore.h"
#include "store_help.h"

static const int64_t shape[] = {3};

static kv *store_of_two(void)
{
    kv *s = make("local");
    init_with(s, name("b"), array_full(KV_BFLOAT16, 1, shape, 1, cpu0));
    init_with(s, name("a"), array_full(KV_INT32, 1, shape, 2, cpu0));
    push_one(s, name("a"), array_full(KV_INT32, 1, shape, 5, cpu0));
    return s;
}

TEST(peek_gives_a_value_of_its_own)
{
    own_kv *s = store_of_two();
    kv_key key = name("a");
    own_array *a = NULL;
    int64_t rounds[2] = {-1, -1};
    uint64_t changes = kv_changes(s);
    CHECK_OK(kv_peek(s, &key, &a, rounds, &e));
    CHECK_INT(kv_array_dtype(a), KV_INT32);
    check_array(a, 5);
    CHECK_INT(rounds[0], 1);
    CHECK_INT(rounds[1], 1);
    CHECK(kv_changes(s) == changes);
    push_one(s, key, array_full(KV_INT32, 1, shape, 6, cpu0));
    check_array(a, 5);
}

TEST(peek_refuses)
{
    own_kv *s = store_of_two(), *none = make("teststore");
    kv_key other = name("c"), number = id(3);
    kv_array *a = NULL;
    int64_t rounds[2];
    CHECK_CODE(kv_peek(s, &other, &a, rounds, &e), KV_E_KEY);
    CHECK_CODE(kv_peek(s, &number, &a, rounds, &e), KV_E_KEY);
    CHECK_ERR(kv_peek(none, &number, &a, rounds, &e), KV_E_UNSUPPORTED,
              "stores of type \"teststore\" keep no values");
    CHECK(!a);
}

TEST(peek_fills_rows)
{
    static const int64_t two[] = {3, 2}, ids[] = {1};
    own_kv *s = make("local");
    kv_key key = id(3);
    own_array *sparse = NULL, *a = NULL;
    int64_t rounds[2];
    CHECK_OK(kv_array_new_sparse(&sparse, KV_FLOAT32, 2, two, 1, ids, cpu0, &e));
    memcpy(row_data(sparse), (float[]){4, 5}, 2 * sizeof(float));
    CHECK_OK(kv_init(s, &key, 1, &sparse, NULL, &e));
    CHECK_OK(kv_peek(s, &key, &a, rounds, &e));
    CHECK_INT(kv_array_storage(a), KV_DEFAULT);
    CHECK(memcmp(array_elements(a), (float[]){0, 0, 4, 5, 0, 0}, 6 * sizeof(float)) == 0);
}

static int visit(void *arg, const kv_field *f, int n, kv_err *e)
{
    char *to = arg;
    size_t at = strlen(to);
    (void)e;
    CHECK_INT(n, 6);
    snprintf(to + at, 256 - at, "%s %lld %lld %lld '%s' '%s'\n", f[0].text, (long long)f[1].number,
             (long long)f[2].number, (long long)f[3].number, f[4].text, f[5].text);
    return KV_OK;
}

TEST(rounds_of_one_process)
{
    own_kv *s = store_of_two();
    char all[256] = "";
    CHECK_OK(kv_describe(s, "rounds", visit, all, &e));
    CHECK_TEXT(all, "b 0 0 0 '' ''\na 1 1 0 '' ''\n");
    CHECK_INT(kv_describe(NULL, "rounds", visit, all, &e), KV_E_USAGE);
}
