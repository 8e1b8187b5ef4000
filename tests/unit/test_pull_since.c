/* kv_pull_since in one process: whole copies, with the rounds that they are of. */

#include "kvstore.h"
#include "store_help.h"

static const int64_t shape[] = {3};
static kv_key keys[] = {{.id = 1}, {.id = 2}};

static kv *store_of_two(const char *type)
{
    kv *s = make(type);
    init_with(s, keys[0], array_full(KV_BFLOAT16, 1, shape, 1, cpu0));
    init_with(s, keys[1], array_full(KV_FLOAT32, 1, shape, 2, cpu0));
    return s;
}

TEST(pull_since_refuses)
{
    own_kv *s = store_of_two("device");
    int64_t rounds[] = {0, 1};
    own_arrays *outs[] = {array_full(KV_FLOAT32, 1, shape, 9, cpu0),
                          array_full(KV_FLOAT32, 1, shape, 9, cpu0), NULL};
    CHECK_ERR(kv_pull_since(s, keys, 2, outs, rounds, NULL, &e), KV_E_VALUE,
              "key 2 is at round 0, and this array would be at round 1");
    CHECK_INT(rounds[1], 1);
    check_array(outs[0], 9);
    rounds[1] = -7;
    CHECK_ERR(kv_pull_since(s, keys, 2, outs, rounds, NULL, &e), KV_E_VALUE,
              "a round is a number from 0 on, not -7");
    CHECK_CODE(kv_pull_since(s, &(kv_key){.id = 7}, 1, outs, rounds, NULL, &e), KV_E_KEY);
    CHECK_INT(kv_pull_since(s, keys, 2, outs, rounds, &(kv_call){.flags = KV_FILL_SPARSE}, &e),
              KV_E_VALUE);
    CHECK_OK(kv_pull_since(s, NULL, 0, NULL, NULL, NULL, NULL));
}

/* After a rollback the same round may have other bits, so that nothing may be left out. */
TEST(pull_since_behind_a_rollback)
{
    own_kv *s = store_of_two("local");
    int64_t round = KV_NO_ROUND;
    own_array *out = array_full(KV_FLOAT32, 1, shape, 9, cpu0);
    CHECK_OK(kv_begin(s, &e));
    push_one(s, keys[1], array_full(KV_FLOAT32, 1, shape, 5, cpu0));
    CHECK_OK(kv_pull_since(s, &keys[1], 1, &out, &round, NULL, &e));
    CHECK_OK(kv_rollback(s, &e));
    push_one(s, keys[1], array_full(KV_FLOAT32, 1, shape, 6, cpu0));
    CHECK_OK(kv_pull_since(s, &keys[1], 1, &out, &round, NULL, &e));
    CHECK_INT(round, 1);
    check_array(out, 6);
}

static int see(void *arg, const kv_field *f, int n, kv_err *e)
{
    int64_t *bytes = arg;
    (void)e;
    for (int i = 0; i < n; i++) {
        if (strcmp(f[i].name, "since_bytes") == 0)
            bytes[0] = f[i].number;
        if (strcmp(f[i].name, "whole_bytes") == 0)
            bytes[1] = f[i].number;
    }
    return KV_OK;
}

TEST(pull_since_counts_bytes)
{
    own_kv *s = store_of_two("local");
    int64_t bytes[2] = {-1, -1}, rounds[] = {0, 0};
    own_arrays *outs[] = {array_full(KV_FLOAT32, 1, shape, 9, cpu0),
                          array_full(KV_FLOAT32, 1, shape, 9, cpu0), NULL};
    CHECK_OK(kv_describe(s, "store", see, bytes, &e));
    CHECK_INT(bytes[1], -1);
    CHECK_OK(kv_pull_since(s, keys, 2, outs, rounds, NULL, &e));
    CHECK_OK(kv_describe(s, "store", see, bytes, &e));
    CHECK_INT(bytes[0], 3 * 2 + 3 * 4); /* those of the keys */
    CHECK_INT(bytes[1], 3 * 2 + 3 * 4);
}
