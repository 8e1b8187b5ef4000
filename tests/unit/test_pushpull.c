/* pushpull and broadcast: the two lists grouped apart, and that a call which fails has changed
 * nothing. The numbers of MXNet's test_kvstore_custom are in tests/cli/types-custom.kv. */

#include "kvstore.h"
#include "store_help.h"

static void unref_all(kv_array **a, int n)
{
    for (int i = 0; i < n; i++)
        kv_array_unref(a[i]);
}

static void check_all(kv_array **a, int n, double x)
{
    for (int i = 0; i < n; i++)
        check_array(a[i], x);
}

/* ---- The lists ---- */

/* The lists of values are given again as the lists of results, but shorter: the values beyond the
 * results stay as they are. So many small arrays are pushed in batches. */
TEST(pushpull_into_some_of_the_values)
{
    enum { N = 6000, NOUTS = 5000 };
    own_kv *s = make("local");
    OWN(test_free) kv_key *keys = calloc(N, sizeof *keys);
    kv_array **values = calloc(N, sizeof(kv_array *));
    CHECK(keys && values);
    for (int i = 0; i < N; i++) {
        keys[i] = id(i / 2);
        values[i] = filled(2);
    }
    CHECK_OK(kv_push(s, keys, N, values, NULL, &e));
    CHECK_OK(kv_pushpull(s, keys, N, values, keys, NOUTS, values, NULL, &e));
    check_all(values, NOUTS, 4);
    check_all(values + NOUTS, N - NOUTS, 2);
    unref_all(values, N);
    free(values);
}

TEST(pushpull_custom_store)
{
    own_kv *s = make("teststore");
    kv_key key = id(3), keys[2] = {id(3), id(3)};
    kv_array *one = filled(1), *out = filled(0), *pair[2] = {one, one};
    own_arrays *outs[3] = {NULL};
    bool yes = true;
    CHECK_OK(kv_broadcast(s, &key, 1, &one, &key, 1, &out, NULL, &e));
    check_array(out, 1);
    CHECK_OK(kv_is_capable(s, "optimizer", &yes, &e));
    CHECK(!yes);
    CHECK_OK(kv_broadcast(s, &key, 1, &one, &key, 1, &out, NULL, &e));
    outs[0] = filled(0), outs[1] = filled(0);
    CHECK_OK(kv_pushpull(s, keys, 2, pair, keys, 2, outs, NULL, &e));
    check_all(outs, 2, 2);
    kv_array *shared[2] = {outs[0], outs[0]};
    CHECK_OK(kv_pushpull(s, keys, 2, shared, NULL, 0, NULL, NULL, &e));
    check_array(outs[0], 4);
    CHECK_OK(kv_pushpull(s, keys, 1, shared, NULL, 0, NULL, NULL, &e)); /* one value: as it was */
    check_array(outs[0], 4);
    CHECK_TEXT(kv_type(s), "teststore");
    CHECK_INT(kv_rank(s), 0);
    CHECK_INT(kv_num_workers(s), 1);
    kv_array_unref(one);
    kv_array_unref(out);
}

TEST(pushpull_teststore_refuses)
{
    own_kv *s = make("teststore");
    kv_key keys[2] = {id(3), id(5)};
    kv_array *a = filled(1), *two[2] = {a, a}, *small = NULL, *sparse = NULL;
    CHECK_OK(kv_array_new(&small, KV_FLOAT32, 1, (int64_t[]){3}, (kv_ctx){0}, &e));
    CHECK_OK(kv_array_to_sparse(&sparse, a, &e));
    own_rule *rule = MADE(kv_rule, kv_rule_new, "{ stored += input }", NULL, 0, 0);
#define NONE(call, what)                                                                           \
    CHECK_ERR(call, KV_E_UNSUPPORTED, "stores of type \"teststore\" have no " what)
    CHECK_INT(kv_init(s, keys, 1, &a, NULL, &e), KV_E_UNSUPPORTED);
    CHECK_TEXT(e.hint, "types that have it: local, device");
    e = (kv_err){0};
    NONE(kv_init(s, keys, 1, &a, NULL, &e), "init");
    NONE(kv_push(s, keys, 1, &a, NULL, &e), "push");
    NONE(kv_pull(s, keys, 1, &a, NULL, &e), "pull");
    NONE(kv_set_optimizer(s, "sgd", NULL, 0, &e), "optimizer");
    NONE(kv_update_optimizer(s, NULL, 0, &e), "optimizer");
    NONE(kv_set_rule(s, rule, NULL, 0, &e), "updater");
    NONE(kv_save_states(s, "never", 0, &e), "states of an optimizer");
    NONE(kv_load_states(s, "never", &e), "states of an optimizer");
    NONE(kv_begin(s, &e), "transactions");
#undef NONE
    CHECK_CODE(kv_broadcast(s, keys, 2, two, keys, 2, two, NULL, &e), KV_E_VALUE);
    CHECK_ERR(kv_broadcast(s, keys, 1, &a, keys, 1, &small, NULL, &e), KV_E_SHAPE,
              "the first value has shape (4, 4), this array has (3,)");
    CHECK_ERR(kv_pushpull(s, keys, 2, (kv_array *[]){a, small}, NULL, 0, NULL, NULL, &e),
              KV_E_SHAPE, "the first value has shape (4, 4), this value has (3,)");
    CHECK_ERR(kv_pushpull(s, keys, 2, (kv_array *[]){a, sparse}, NULL, 0, NULL, NULL, &e),
              KV_E_UNSUPPORTED, "teststore takes no row_sparse arrays");
    check_array(a, 1);
    kv_array_unref(a);
    kv_array_unref(small);
    kv_array_unref(sparse);
}

/* ---- What comes out ---- */

TEST(pushpull_broadcasts_into_other_keys)
{
    own_kv *s = make("local");
    own_array *value = filled(1);
    own_arrays *outs[3] = {filled(0), filled(0)};
    kv_key more = id(12);
    init_with(s, id(1), filled(11));
    CHECK_OK(kv_broadcast(s, &more, 1, &value, (kv_key[]){id(12), id(1)}, 2, outs, NULL, &e));
    check_array(outs[0], 1);
    check_array(outs[1], 11);
}

static float factor = 2;

static int refuse_five(void *arg, const kv_key *key, kv_array *input, kv_array *held, kv_err *e)
{
    if (key->id == 5)
        return kv_err_set(e, KV_E_VALUE, "not five");
    return add_input(arg, key, input, held, e);
}

/* A key that a callback refuses keeps its value; outs receive that, and the error comes back. */
TEST(pushpull_with_a_key_that_is_refused)
{
    own_kv *s = make("local");
    kv_key keys[2] = {id(3), id(5)};
    kv_array *a = filled(1), *both[2] = {a, a};
    own_arrays *outs[3] = {filled(9), filled(9)};
    CHECK_OK(kv_init(s, keys, 2, both, NULL, &e));
    CHECK_OK(kv_set_updater(s, refuse_five, &factor, NULL, &e));
    int rc = kv_pushpull(s, keys, 2, both, keys, 2, outs, NULL, &e);
    if (rc == KV_OK)
        rc = kv_wait(s, &e);
    CHECK_INT(rc, KV_E_VALUE);
    check_array(outs[0], 3);
    check_array(outs[1], 1);
    kv_array_unref(a);
}

/* ---- Nothing changes when a call fails ---- */

TEST(pushpull_errors_change_nothing)
{
    own_kv *s = make("local");
    kv_key three = id(3), five = id(5), both[2] = {id(3), id(5)};
    own_array *one = filled(1), *out = filled(9), *small = NULL, *sparse = NULL;
    CHECK_OK(kv_array_new(&small, KV_FLOAT32, 1, (int64_t[]){3}, (kv_ctx){0}, &e));
    CHECK_OK(kv_array_to_sparse(&sparse, one, &e));
    CHECK_OK(kv_init(s, &three, 1, &one, NULL, &e));
    uint64_t before = kv_changes(s);
    kv_array *eight = filled(8), *two[2] = {eight, eight};
    CHECK_ERR(kv_pushpull(s, &three, 1, &eight, &three, 1, &small, NULL, &e), KV_E_SHAPE,
              "key 3 holds (4, 4), this array has shape (3,)");
    CHECK_CODE(kv_pushpull(s, &three, 1, &eight, &five, 1, &out, NULL, &e), KV_E_KEY);
    CHECK_CODE(kv_pushpull(s, &five, 1, &eight, &five, 1, &small, NULL, &e), KV_E_SHAPE);
    CHECK_ERR(kv_pushpull(s, both, 2, (kv_array *[]){eight, small}, both, 2,
                          (kv_array *[]){out, out}, NULL, &e),
              KV_E_SHAPE, "key 5 holds (3,), this array has shape (4, 4)");
    kv_key text = name("x");
    CHECK_ERR(kv_pushpull(s, &three, 1, &eight, &text, 1, &out, NULL, &e), KV_E_KEY,
              "this store holds integer keys, \"x\" is a text key");
    CHECK_ERR(kv_pushpull(s, &three, 1, &eight, &three, 1, (kv_array *[]){NULL}, NULL, &e),
              KV_E_VALUE, "key 3 has no array (NULL)");
    CHECK_CODE(kv_pushpull(s, &three, -1, &eight, NULL, 0, NULL, NULL, &e), KV_E_VALUE);
    CHECK_ERR(kv_pushpull(s, &three, 0, NULL, &three, 1, &out, NULL, &e), KV_E_VALUE,
              "there are 1 arrays for results, but no values");
    CHECK_ERR(kv_pushpull(s, &three, 1, &eight, NULL, 0, NULL, &(kv_call){.flags = 4}, &e),
              KV_E_VALUE, "this call has no flags 0x4");
    CHECK_CODE(kv_broadcast(s, &three, 1, &eight, &three, 1, &out, NULL, &e), KV_E_KEY);
    CHECK_ERR(kv_broadcast(s, &five, 1, &eight, &five, 1, &small, NULL, &e), KV_E_SHAPE,
              "key 5 holds (4, 4), this array has shape (3,)");
    CHECK_OK(kv_set_updater(s, add_input, &factor, NULL, &e));
    before++;
    CHECK_CODE(kv_pushpull(s, both, 2, two, both, 2, two, NULL, &e), KV_E_KEY);
    CHECK_CODE(kv_pushpull(NULL, both, 2, two, both, 2, two, NULL, &e), KV_E_USAGE);
    CHECK_INT(kv_changes(s), before);
    CHECK_INT(kv_num_keys(s), 1);
    check_key(s, three, 1);
    check_array(out, 9);
    check_array(eight, 8);
    CHECK_OK(kv_pushpull(s, NULL, 0, NULL, NULL, 0, NULL, NULL, &e)); /* an empty call */
    CHECK_OK(kv_broadcast(s, NULL, 0, NULL, NULL, 0, NULL, NULL, &e));
    kv_array_unref(eight);
}

/* The n-th allocation fails, for every n: the stored value and the outs stay as they were. */
static void without_memory(bool known, bool broadcasts)
{
    enum { KEYS = 40 };
    kv_err e = {0};
    own_kv *s = make("local");
    kv_key keys[KEYS], okeys[4 * KEYS];
    kv_array *ones = filled(1), *twos = filled(2), *out = filled(9), *value[KEYS], *outs[4 * KEYS];
    for (int i = 0; i < KEYS; i++)
        keys[i] = id(100 - i), value[i] = ones;
    if (known)
        CHECK_OK(kv_init(s, keys, KEYS, value, NULL, &e));
    for (int i = 0; i < KEYS; i++)
        value[i] = twos;
    for (int i = 0; i < 4 * KEYS; i++)
        okeys[i] = keys[i / 4], outs[i] = out;
    EACH_FAILURE((broadcasts ? kv_broadcast : kv_pushpull)(s, keys, KEYS, value, okeys, 4 * KEYS,
                                                           outs, NULL, &e))
    {
        CHECK_INT(kv_num_keys(s), known ? KEYS : 0);
        if (known)
            check_key(s, keys[0], 1);
        check_array(out, 9);
    }
    check_array(out, 2);
    check_key(s, keys[KEYS - 1], 2);
    kv_array_unref(ones);
    kv_array_unref(twos);
    kv_array_unref(out);
}

TEST(pushpull_without_memory)
{
    without_memory(true, false);
    without_memory(false, false);
    without_memory(false, true);
}

/* ---- In one pass ---- */

enum { KEYS = 3, VALUES = 2, PAIRS = KEYS * VALUES };

/* Element i of value number v, exact in every dtype and in sums. */
static kv_array *ramp(kv_dtype dtype, int64_t n, int v)
{
    return ARRAY_OF(dtype, 1, &n, cpu0, (i * 3 + v * 5) % 17 - (v + 3));
}

/* The cases of a pushpull: its rule, values and outs. */
typedef struct shape_of_call {
    const char *rule;     /* NULL: the sum is what is stored */
    kv_dtype value_dtype; /* of every other value */
    kv_dtype out_dtype;   /* of every other out */
    bool in_place;
    int order[PAIRS]; /* pair i gives to the array of pair order[i]: outs, or values */
} shape_of_call;

typedef struct side {
    kv *s;
    kv_array *values[PAIRS], *arrays[PAIRS], *outs[PAIRS];
} side;

static void make_side(side *x, const shape_of_call *how, int64_t n)
{
    x->s = make("local");
    for (int i = 0; i < PAIRS; i++) {
        x->values[i] = ramp(i % 2 ? how->value_dtype : KV_FLOAT32, n + i / VALUES, i);
        x->arrays[i] = ramp(i % 2 ? how->out_dtype : KV_FLOAT32, n + i / VALUES, 0);
    }
    for (int k = 0; k < KEYS; k++)
        init_with(x->s, id(k), ramp(KV_FLOAT32, n + k, 9));
    for (int i = 0; i < PAIRS; i++)
        x->outs[i] = how->in_place ? x->values[how->order[i]] : x->arrays[how->order[i]];
    if (how->rule)
        set_rule(x->s, how->rule);
}

static void free_side(side *x)
{
    unref_all(x->values, PAIRS);
    unref_all(x->arrays, PAIRS);
    kv_free(x->s);
}

/* pushpull beside a push and a pull, twice: also the second time, when states are there. */
static void as_two_calls(shape_of_call how, int64_t n)
{
    side one, two;
    kv_key keys[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        keys[i] = id(i / VALUES);
    make_side(&one, &how, n);
    make_side(&two, &how, n);
    for (int round = 0; round < 2; round++) {
        CHECK_OK(kv_pushpull(one.s, keys, PAIRS, one.values, keys, PAIRS, one.outs, NULL, &e));
        CHECK_OK(kv_push(two.s, keys, PAIRS, two.values, NULL, &e));
        CHECK_OK(kv_pull(two.s, keys, PAIRS, two.outs, NULL, &e));
        for (int i = 0; i < PAIRS; i++) {
            check_same_bytes(one.values[i], two.values[i]);
            check_same_bytes(one.arrays[i], two.arrays[i]);
        }
        own_array *a = pull_into(one.s, id(0), ramp(KV_FLOAT32, n, 0));
        own_array *b = pull_into(two.s, id(0), ramp(KV_FLOAT32, n, 0));
        check_same_bytes(a, b);
    }
    free_side(&one);
    free_side(&two);
}

#define IN_ORDER   {0, 1, 2, 3, 4, 5}
#define OTHER_KEYS {2, 3, 4, 5, 0, 1} /* an out is the value of a key that is summed later */
#define ONE_TWICE  {0, 0, 2, 2, 4, 4}

/* Small calls, calls of one part, calls of many. */
TEST(pushpull_is_a_push_and_a_pull)
{
    static const char momentum[] = "{ state m; m = 0.5 * m + input; stored -= m }";
    static const char norm[] = "{ stored += input / (1 + norm(input)) }"; /* a pass before */
    static const char *const rules[] = {NULL, "{ stored += input * 2 }", momentum, norm};
    static const int64_t sizes[] = {5, 20000, 180001}; /* the last go past the caches */
    for (int r = 0; r < 4; r++) {
        for (int k = 0; k < (r % 2 ? 2 : 3); k++) {
            const char *rule = rules[r];
            const kv_dtype f = KV_FLOAT32;
            as_two_calls((shape_of_call){rule, f, f, false, IN_ORDER}, sizes[k]);
            as_two_calls((shape_of_call){rule, f, f, true, IN_ORDER}, sizes[k]);
            as_two_calls((shape_of_call){rule, KV_FLOAT64, KV_INT32, false, IN_ORDER}, sizes[k]);
            as_two_calls((shape_of_call){rule, KV_FLOAT64, f, true, IN_ORDER}, sizes[k]);
            as_two_calls((shape_of_call){rule, f, f, false, ONE_TWICE}, sizes[k]);
            as_two_calls((shape_of_call){rule, f, f, true, ONE_TWICE}, sizes[k]);
        }
    }
}

/* Arrays of one shape, so that outs may belong to other keys. */
TEST(pushpull_outs_of_other_keys)
{
    static const int order[][PAIRS] = {OTHER_KEYS, {1, 0, 3, 2, 5, 4}, {0, 2, 1, 4, 3, 5}};
    enum { N = 100000 };
    kv_key keys[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        keys[i] = id(i / VALUES);
    for (int o = 0; o < 3; o++) {
        own_kv *s = make("local"), *other = make("local");
        kv_array *outs[PAIRS];
        own_arrays *values[PAIRS + 1] = {NULL}, *sum[KEYS + 1] = {NULL};
        for (int i = 0; i < PAIRS; i++)
            values[i] = ramp(KV_FLOAT32, N, i);
        for (int i = 0; i < PAIRS; i++)
            outs[i] = values[order[o][i]];
        CHECK_OK(kv_push(other, keys, PAIRS, values, NULL, &e));
        for (int k = 0; k < KEYS; k++)
            sum[k] = pull_into(other, id(k), ramp(KV_FLOAT32, N, 0));
        CHECK_OK(kv_pushpull(s, keys, PAIRS, values, keys, PAIRS, outs, NULL, &e));
        for (int i = 0; i < PAIRS; i++)
            check_same_bytes(outs[i], sum[i / VALUES]);
    }
}

/* Some keys have no outs, some more than values; lists in any order. */
TEST(pushpull_lists_that_differ)
{
    static const int64_t lists[][4] = {{0, 0, 0, 2}, {2, 0, 1, 1}, {1, 1, 1, 1}, {0, 1, 2, 2}};
    enum { N = 50000 };
    for (int l = 0; l < 4; l++) {
        own_kv *s = make("local");
        kv_key keys[4] = {id(0), id(1), id(2), id(2)}, okeys[4];
        own_arrays *values[5] = {NULL}, *outs[5] = {NULL}, *want[4] = {NULL};
        for (int i = 0; i < 4; i++) {
            values[i] = ramp(KV_FLOAT32, N, i);
            outs[i] = ramp(KV_FLOAT32, N, 0);
            okeys[i] = id(lists[l][i]);
        }
        CHECK_OK(kv_pushpull(s, keys, 4, values, okeys, 4, outs, NULL, &e));
        for (int k = 0; k < 3; k++)
            want[k] = pull_into(s, id(k), ramp(KV_FLOAT32, N, 0));
        check_same_bytes(want[1], values[1]);
        for (int i = 0; i < 4; i++)
            check_same_bytes(outs[i], want[lists[l][i]]);
    }
}
