/* Calls of very many small arrays, which run in batches, beside the same pairs a few at a time. */

#include "kvstore.h"
#include "store_help.h"

enum { KEYS = 3000, SIZE = 5, PAIRS = 2 * KEYS };

typedef struct lists {
    kv_key keys[PAIRS], once[KEYS];
    kv_array *values[PAIRS], *outs[KEYS];
    kv *many, *few; /* both have the same history */
} lists;

static kv_array *counting(float x)
{
    return ARRAY_OF(KV_FLOAT32, 1, (int64_t[]){SIZE}, cpu0, x + (float)i);
}

static void begin(lists *l, const char *rule)
{
    for (int i = 0; i < PAIRS; i++) {
        l->keys[i] = (kv_key){.id = i / 2};
        l->values[i] = counting((float)i / 8);
    }
    for (int i = 0; i < KEYS; i++) {
        l->once[i] = (kv_key){.id = i};
        l->outs[i] = counting(-1);
    }
    for (int i = 0; i < 2; i++) {
        kv **s = i ? &l->few : &l->many;
        *s = make("local");
        CHECK_OK(kv_init(*s, l->once, KEYS, l->outs, NULL, &e));
        if (rule)
            CHECK_OK(kv_set_optimizer(*s, rule, NULL, 0, &e));
    }
}

static void end(lists *l)
{
    for (int i = 0; i < PAIRS; i++)
        kv_array_unref(l->values[i]);
    for (int i = 0; i < KEYS; i++)
        kv_array_unref(l->outs[i]);
    kv_free(l->many);
    kv_free(l->few);
}

/* Pulls all keys at once from one store and one by one from the other. */
static void compare(lists *l)
{
    own_array *one = counting(0);
    int different = 0;
    CHECK_OK(kv_pull(l->many, l->once, KEYS, l->outs, NULL, &e));
    for (int i = 0; i < KEYS; i++) {
        CHECK_OK(kv_pull(l->few, &l->once[i], 1, &one, NULL, &e));
        different +=
            memcmp(array_elements(one), array_elements(l->outs[i]), SIZE * sizeof(float)) != 0;
    }
    CHECK_INT(different, 0);
}

static void push_both(lists *l)
{
    CHECK_OK(kv_push(l->many, l->keys, PAIRS, l->values, NULL, &e));
    for (int i = 0; i < PAIRS; i += 100)
        CHECK_OK(kv_push(l->few, l->keys + i, 100, l->values + i, NULL, &e));
    compare(l);
}

static lists l;

TEST(batches_of_a_push)
{
    static const char *const rules[] = {NULL, "test", "sgd", "adam"};
    for (int r = 0; r < 4; r++) {
        begin(&l, rules[r]);
        for (int i = 0; i < 3; i++)
            push_both(&l);
        end(&l);
    }
}

TEST(batches_of_a_pushpull)
{
    begin(&l, NULL);
    CHECK_OK(kv_pushpull(l.many, l.keys, PAIRS, l.values, NULL, 0, NULL, NULL, &e));
    for (int i = 0; i < PAIRS; i++)
        CHECK(*(const float *)array_elements(l.values[i]) == (float)(i / 2 * 4 + 1) / 8);
    end(&l);
}

/* The last of the pairs, and an array that stands in the first batch and in a later one. */
TEST(batches_and_an_array_twice)
{
    begin(&l, NULL);
    CHECK_OK(kv_push(l.many, l.keys, PAIRS, l.values, NULL, &e));
    kv_array *last = l.outs[KEYS - 1];
    l.outs[KEYS - 1] = l.outs[0];
    CHECK_OK(kv_pull(l.many, l.once, KEYS, l.outs, NULL, &e));
    CHECK(*(const float *)array_elements(l.outs[0]) == (float)((KEYS - 1) * 4 + 1) / 8);
    l.outs[KEYS - 1] = last;
    end(&l);
}

static void swap_pairs(int i, int j)
{
    kv_key key = l.keys[i];
    kv_array *value = l.values[i];
    l.keys[i] = l.keys[j];
    l.values[i] = l.values[j];
    l.keys[j] = key;
    l.values[j] = value;
}

/* Values of one key that do not stand side by side are one sum all the same. */
TEST(batches_and_keys_in_disorder)
{
    begin(&l, NULL);
    CHECK_OK(kv_push(l.few, l.keys, PAIRS, l.values, NULL, &e));
    swap_pairs(1, PAIRS - 2);
    CHECK_OK(kv_push(l.many, l.keys, PAIRS, l.values, NULL, &e));
    compare(&l);
    end(&l);
}

/* An error at the last pair, and one at each allocation, leave every key as it was. */
TEST(batches_change_all_or_nothing)
{
    begin(&l, "test");
    push_both(&l);
    own_array *wrong = filled(0);
    kv_array *right = l.values[PAIRS - 1];
    l.values[PAIRS - 1] = wrong;
    CHECK_CODE(kv_push(l.many, l.keys, PAIRS, l.values, NULL, &e), KV_E_SHAPE);
    l.values[PAIRS - 1] = right;
    l.keys[PAIRS - 1] = (kv_key){.id = KEYS};
    CHECK_CODE(kv_push(l.many, l.keys, PAIRS, l.values, NULL, &e), KV_E_KEY);
    l.keys[PAIRS - 1] = (kv_key){.id = KEYS - 1};
    compare(&l);
    EACH_FAILURE(kv_push(l.many, l.keys, PAIRS, l.values, NULL, &e))
        compare(&l);
    CHECK_OK(kv_push(l.few, l.keys, PAIRS, l.values, NULL, &e));
    compare(&l);
    end(&l);
}
