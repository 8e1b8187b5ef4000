/* Calls of small arrays that run at once, on the caller's thread: what they refuse to take goes the
 * way of an operation, with the same results. */
#include "array/device.h"

#include "kvstore.h"
#include "store_help.h"

static const kv_key keys[] = {{.id = 1}, {.id = 2}, {.id = 3}};

static kv_array *of(kv_dtype dtype, int64_t n, double x)
{
    return array_full(dtype, 1, &n, x, cpu0);
}

static float first_of(kv_array *a)
{
    return *(const float *)array_elements(a);
}

static void check_holds(kv *s, int key, double x)
{
    own_array *out = pull_into(s, keys[key], of(KV_FLOAT32, 4, -1));
    check_array(out, x);
}

/* Keys 1 to 3 hold 1 to 3. */
static kv *store_of_three(void)
{
    kv *s = make("local");
    for (int i = 0; i < 3; i++)
        init_with(s, keys[i], of(KV_FLOAT32, 4, i + 1));
    return s;
}

static int64_t pushes_of(kv *s, int key)
{
    return info_of(s, keys[key]).pushes;
}

enum { EACH = 3, ALL = 3 * EACH };

/* Arrays of `first`, `first` + by, … for the keys, so many of each. */
static void fill_each(kv_key each[ALL], kv_array *arrays[ALL + 1], int first, int by)
{
    for (int i = 0; i < ALL; i++) {
        each[i] = keys[i / EACH];
        arrays[i] = of(KV_FLOAT32, 4, first + by * i);
    }
}

/* A call with an array of another shape and dtype in place of one left all as it was. */
static void check_untouched(kv *s, kv_array *const *arrays, int first, int by)
{
    for (int i = 0; i < ALL; i++)
        CHECK(first_of(arrays[i]) == (float)(first + by * i));
    for (int k = 0; k < 3; k++) {
        check_holds(s, k, k + 1);
        CHECK_INT(pushes_of(s, k), 0);
    }
}

/* The keys of many values and outs are restored, each with its own; a pushpull leaves keys, counts
 * and outs as they were. */
TEST(direct_restores_many)
{
    own_kv *s = store_of_three();
    own_array *wrong = of(KV_INT32, 5, 0);
    own_arrays *values[ALL + 1] = {NULL}, *outs[ALL + 1] = {NULL};
    kv_key each[ALL];
    fill_each(each, values, 10, 1);
    fill_each(each, outs, 0, -1);
    for (int bad = 0; bad < 2 * ALL; bad++) {
        kv_array **at = bad < ALL ? &values[bad] : &outs[bad - ALL], *right = *at;
        *at = wrong;
        if (bad < ALL)
            CHECK_CODE(kv_push(s, each, ALL, values, NULL, &e), KV_E_SHAPE);
        else
            CHECK_CODE(kv_pull(s, each, ALL, outs, NULL, &e), KV_E_SHAPE);
        CHECK_CODE(kv_pushpull(s, each, ALL, values, each, ALL, outs, NULL, &e), KV_E_SHAPE);
        *at = right;
        check_untouched(s, values, 10, 1);
        check_untouched(s, outs, 0, -1);
    }
    CHECK_OK(kv_pushpull(s, each, ALL, values, each, ALL, outs, NULL, &e));
    for (int i = 0; i < ALL; i++)
        CHECK(first_of(outs[i]) == (float)(33 + i / EACH * 9));
    CHECK_OK(kv_push(s, each, ALL, values, NULL, &e));
    check_holds(s, 2, 16 + 17 + 18);
}

/* All values are read before the first out is written: in place, an array of two keys, and outs of
 * other keys in any order. */
TEST(direct_pushpull_reads_before_it_writes)
{
    own_kv *s = store_of_three();
    own_array *a = of(KV_FLOAT32, 4, 10), *b = of(KV_FLOAT32, 4, 20);
    kv_array *in_place[] = {a, b, a}, *outs[] = {b, a, b};
    const kv_key down[] = {keys[2], keys[0], keys[1]};
    CHECK_OK(kv_pushpull(s, keys, 3, in_place, NULL, 0, NULL, NULL, &e));
    check_holds(s, 0, 10);
    check_holds(s, 1, 20);
    check_holds(s, 2, 10);
    CHECK(first_of(a) == 10 && first_of(b) == 20);
    CHECK_OK(kv_pushpull(s, keys, 1, &b, down, 3, outs, NULL, &e)); /* key 1 alone is pushed */
    check_holds(s, 0, 20);
    CHECK(first_of(a) == 20 && first_of(b) == 20);
    CHECK_INT(pushes_of(s, 0), 2);
    CHECK_INT(pushes_of(s, 2), 1);
}

/* A key that stands in the call twice, with another between, is one sum. */
TEST(direct_sums_keys_in_disorder)
{
    own_kv *s = store_of_three();
    kv_array *values[] = {of(KV_FLOAT32, 4, 10), of(KV_FLOAT32, 4, 20), of(KV_FLOAT32, 4, 40)};
    const kv_key order[] = {keys[1], keys[0], keys[1]}, down[] = {keys[2], keys[1], keys[0]};
    CHECK_OK(kv_push(s, order, 3, values, NULL, &e));
    check_holds(s, 0, 20);
    check_holds(s, 1, 50);
    CHECK_INT(pushes_of(s, 1), 1);
    CHECK_OK(kv_push(s, down, 3, values, NULL, &e));
    check_holds(s, 0, 40);
    check_holds(s, 2, 10);
    for (int i = 0; i < 3; i++)
        kv_array_unref(values[i]);
}

TEST(direct_pulls_an_array_twice)
{
    own_kv *s = store_of_three();
    kv_array *out = of(KV_FLOAT32, 4, -1), *outs[] = {out, out, out};
    CHECK_OK(kv_pull(s, keys, 3, outs, NULL, &e));
    CHECK(first_of(out) == 3);
    kv_array_unref(out);
}

static int end_nothing(engine_op *op, kv_err *e)
{
    (void)op;
    (void)e;
    return KV_OK;
}

/* An array that an operation uses makes the call an operation behind it. */
TEST(direct_waits_for_what_is_pending)
{
    own_kv *s = store_of_three();
    own_array *a = of(KV_FLOAT32, 4, 10);
    engine_use use = {.var = array_var(a), .write = true};
    engine_op busy = {.run = end_nothing, .uses = &use, .nuses = 1};
    CHECK(engine_try(&busy));
    CHECK_OK(kv_push(s, keys, 1, &a, NULL, &e));
    CHECK_INT(kv_num_keys(s), 3);
    CHECK(engine_pending(array_var(a)) == 2);
    a->data = memcpy(a->data, (float[]){7, 7, 7, 7}, 16); /* the writer ends only now */
    engine_finish(&busy);
    CHECK_OK(kv_wait(s, &e));
    check_holds(s, 0, 7);
}
