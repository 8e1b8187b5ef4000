/* slot, slot_state: the table of slots and what a slot keeps, without a store around them. The
 * address sanitizer sees what is not given back. */
#include "core/slot.h"

#include <malloc.h>

#include "test_array.h"

static kv_key id(int64_t i)
{
    return (kv_key){.id = i};
}

static kv_key name(const char *text)
{
    return (kv_key){.name = text};
}

static kv_array *one(void)
{
    return array_numbers(1, (int64_t[]){2}, KV_FLOAT32);
}

static void add(slot_table *t, kv_key key)
{
    CHECK_OK(slot_add(t, &key, one(), &e));
}

static int64_t find(const slot_table *t, kv_key key)
{
    return slot_find(t, &key, -5);
}

/* ---- The table ---- */

TEST(slot_is_found_with_any_guess)
{
    OWN(slot_table_release) slot_table t = {0};
    for (int i = 0; i < 40; i++)
        add(&t, id(7 * i));
    for (int64_t guess = -3; guess < 44; guess++)
        for (int i = 0; i < 40; i++) {
            kv_key there = id(7 * i), gone = id(7 * i + 1);
            CHECK_INT(slot_find(&t, &there, guess), i);
            CHECK_INT(slot_find(&t, &gone, guess), -1);
        }
    slot_truncate(&t, 39); /* what lies behind the last slot is no key */
    kv_key last = id(7 * 39);
    CHECK_INT(slot_find(&t, &last, 39), -1);
    CHECK_INT(slot_find(&t, &last, 40), -1);
}

TEST(slot_of_the_other_kind)
{
    OWN(slot_table_release) slot_table numbers = {0}, texts = {0};
    kv_key three = id(3), w = name("w");
    CHECK_OK(slot_check_kind(&numbers, &w, &e)); /* an empty one takes both */
    add(&numbers, id(1));
    add(&texts, name("a"));
    CHECK_OK(slot_check_kind(&numbers, &three, &e));
    CHECK_OK(slot_check_kind(&texts, &w, &e));
    CHECK_INT(slot_check_kind(&numbers, &w, &e), KV_E_KEY);
    CHECK(e.has_key && e.key_is_text);
    CHECK_TEXT(e.key_name, "w");
    CHECK_TEXT(e.hint, "the keys of a store are all integers or all texts: kv_create makes "
                       "another store");
    CHECK_FAILED(e.code, KV_E_KEY, "this store holds integer keys, \"w\" is a text key");
    CHECK_INT(slot_check_kind(&texts, &three, &e), KV_E_KEY);
    CHECK(e.has_key && !e.key_is_text);
    CHECK_INT(e.key_id, 3);
    CHECK_FAILED(e.code, KV_E_KEY, "this store holds text keys, 3 is an integer key");
    kv_key quoted = name("3");
    CHECK_INT(slot_check_kind(&numbers, &quoted, &e), KV_E_KEY);
    CHECK_TEXT(e.hint, "in quotes it is a text; the integer key is 3");
    e = (kv_err){0};
    add(&texts, name("3"));
    CHECK_INT(slot_check_kind(&texts, &three, &e), KV_E_KEY);
    CHECK_TEXT(e.hint, "there is a text key of these digits: \"3\"");
}

TEST(slot_reserve_makes_room)
{
    enum { MANY = 100 };
    OWN(slot_table_release) slot_table t = {0};
    own_array *a = one();
    for (int begin = 0; begin < 2 * MANY; begin += MANY) {
        CHECK_OK(slot_reserve(&t, MANY, &e));
        mem_fail_at(1);
        for (int i = begin; i < begin + MANY; i++) {
            kv_key key = id(i);
            CHECK_OK(slot_add(&t, &key, kv_array_ref(a), &e));
        }
        mem_fail_at(0);
    }
}

/* Whichever allocation fails, the table stays as it was. */
TEST(slot_reserve_and_add_without_memory)
{
    for (int n = 1, rc = KV_E_MEMORY; rc; n++) {
        OWN(slot_table_release) slot_table t = {0};
        rc = WITHOUT_MEMORY(n, slot_reserve(&t, 10, &e));
        CHECK_INT(rc, n <= 2 ? KV_E_MEMORY : KV_OK);
    }
    slot_table t = {0};
    kv_key w = name("w");
    kv_array *a = one();
    for (int n = 1, rc = KV_E_MEMORY; rc; n++) {
        CHECK_INT(t.n, 0);
        CHECK_INT(find(&t, w), -1);
        /* alone: the next ones cannot report it */
        rc = WITHOUT_MEMORY(-n, slot_add(&t, &w, a, &e));
        CHECK_INT(rc, n <= 3 ? KV_E_MEMORY : KV_OK);
        if (rc)
            slot_table_release(&t);
    }
    CHECK_INT(t.n, 1);
    CHECK_INT(find(&t, w), 0);
    CHECK(t.items[0].key.name != w.name);
    slot_table_release(&t);
}

TEST(slot_many_are_added_and_taken_back)
{
    enum { MANY = 3000 };
    slot_table t = {0};
    for (int i = 0; i < MANY; i++)
        add(&t, id(i));
    for (int n = MANY - 1; n >= 0; n -= 123) {
        slot_truncate(&t, n);
        CHECK_INT(t.n, n);
        CHECK_INT(find(&t, id(n)), -1);
        CHECK_INT(find(&t, id(n - 1)), n - 1);
    }
    CHECK(!t.lost_keys); /* a call that failed had made them */
    slot_table_release(&t);
    CHECK(!t.items && !t.ascending && !t.n && !t.cap && !t.nascending && !t.index.cap);
}

TEST(slot_remove_leaves_gaps)
{
    OWN(slot_table_release) slot_table t = {0};
    for (int i = 0; i < 6; i++)
        add(&t, id(i)); /* a gap is all zero, as key 0 is */
    CHECK(!t.lost_keys);
    slot_remove(&t, 1);
    slot_remove(&t, 0);
    CHECK(t.lost_keys);
    CHECK_INT(slot_count(&t), 4);
    for (int64_t guess = -1; guess < 7; guess++)
        for (int i = 0; i < 6; i++) {
            kv_key key = id(i);
            CHECK_INT(slot_find(&t, &key, guess), i < 2 ? -1 : i);
        }
    slot_remove(&t, 4);
    slot_remove(&t, 5); /* the gap before the last slot goes with it */
    CHECK_INT(t.n, 4);
    CHECK_INT(t.ngone, 2);
    add(&t, id(0));
    CHECK_INT(find(&t, id(0)), 4);
    slot_settle(&t);
    CHECK_INT(t.n, 3);
    CHECK_INT(slot_count(&t), 3);
    CHECK_INT(find(&t, id(2)), 0);
    CHECK_INT(find(&t, id(3)), 1);
    CHECK_INT(find(&t, id(0)), 2);
    slot_settle(&t); /* nothing to do */
    CHECK_INT(find(&t, id(0)), 2);
    slot_remove(&t, 0);
    slot_truncate(&t, 1); /* takes back what stands behind a gap, and the gap stays */
    CHECK_INT(slot_count(&t), 0);
    kv_key text = name("w");
    CHECK_OK(slot_check_kind(&t, &text, &e)); /* without keys it takes both kinds */
    add(&t, text);
    kv_key three = id(3);
    CHECK_INT(slot_check_kind(&t, &three, &e), KV_E_KEY);
}

TEST(slot_rename_is_as_if_it_had_the_key_from_the_start)
{
    OWN(slot_table_release) slot_table t = {0}, same = {0};
    kv_key a = name("a"), c = name("c");
    add(&t, a);
    add(&t, name("b"));
    add(&same, c);
    for (int n = 1, rc = KV_E_MEMORY; rc; n++) {
        rc = WITHOUT_MEMORY(-n, slot_rename(&t, 0, &c, &e));
        CHECK_INT(rc, n <= 1 ? KV_E_MEMORY : KV_OK);
        CHECK(t.lost_keys == !rc);
        CHECK_INT(find(&t, a), rc ? 0 : -1);
        CHECK_INT(find(&t, c), rc ? -1 : 0);
    }
    CHECK_INT(find(&t, name("b")), 1);
    CHECK(slot_hash(&t.items[0].key) == slot_hash(&same.items[0].key));
    CHECK(slot_hash(&t.items[0].key) == slot_hash(&c));
}

/* The map has to grow for the new key, since the old one is removed after that. */
TEST(slot_rename_without_memory_for_the_map)
{
    int failed = 0;
    for (int keys = 1; keys < 40; keys++) {
        OWN(slot_table_release) slot_table t = {0};
        char text[8];
        for (int i = 0; i < keys; i++) {
            snprintf(text, sizeof text, "k%d", i);
            add(&t, name(text));
        }
        kv_key new = name("new"), old = name("k0");
        int rc = WITHOUT_MEMORY(-2, slot_rename(&t, 0, &new, &e));
        failed += rc == KV_E_MEMORY;
        CHECK_INT(find(&t, old), rc ? 0 : -1);
        CHECK_INT(find(&t, new), rc ? -1 : 0);
    }
    CHECK_INT(failed, 2); /* of 12 keys, and of 24 */
}

TEST(slot_in_the_order_of_updates)
{
    static const int64_t ids[] = {5, -3, 9, 0, INT64_MAX, 7, INT64_MIN};
    static const int64_t order[] = {6, 1, 3, 0, 5, 2, 4};
    slot_table t = {0};
    int64_t number;
    for (int i = 0; i < 7; i++)
        add(&t, id(ids[i]));
    for (int n = 1; n <= 2; n++)
        CHECK_INT(WITHOUT_MEMORY(-n, slot_in_order(&t, 0, &number, &e)), KV_E_MEMORY);
    mem_fail_at(0);
    for (int i = 0; i < 7; i++) {
        CHECK_OK(slot_in_order(&t, i, &number, &e));
        CHECK_INT(number, order[i]);
    }
    CHECK_INT(mem_fail_at(0), 2); /* sorted once, not at each question */
    slot_truncate(&t, 6);
    for (int i = 0; i < 6; i++) {
        CHECK_OK(slot_in_order(&t, i, &number, &e));
        CHECK_INT(number, order[i + 1]);
    }
    slot_truncate(&t, 1);
    CHECK_OK(slot_in_order(&t, 0, &number, &e));
    CHECK_INT(number, 0);
    slot_table_release(&t);
    add(&t, name("z"));
    add(&t, name("a"));
    CHECK_OK(slot_in_order(&t, 0, &number, &e)); /* texts: as they were made */
    CHECK_INT(number, 0);
    slot_table_release(&t);
}

/* An assertion does not hold: the code says so, and the number is one all the same. */
TEST(assert_slot_in_order_is_one_of_them)
{
#ifdef KV_COVERAGE
    test_skip("builds that count what tests reach ask no assertion");
#endif
    OWN(slot_table_release) slot_table t = {0};
    int64_t number = -5;
    add(&t, id(1));
    CHECK_INT(slot_in_order(&t, 1, &number, &e), KV_E_INTERNAL);
    CHECK_INT(number, 1);
    CHECK_INT(e.code, KV_E_INTERNAL);
}

TEST(slot_forgets_the_state_alone)
{
    slot_state state = {.have = 1};
    slot s = {.pushes = 4, .updates = 3};
    CHECK_OK(slot_state_share(&s.state, &state, &e));
    slot_forget(&s);
    CHECK(!s.state);
    CHECK_INT(s.updates, 0);
    CHECK_INT(s.pushes, 4);
}

/* ---- Keys ---- */

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

TEST(slot_hashes_differ)
{
    enum { MANY = 4096 };
    static uint64_t h[2 * MANY];
    for (int i = 0; i < MANY; i++) {
        char text[] = {(char)('a' + i % 16), (char)('a' + i / 16 % 16), (char)('a' + i / 256), 0};
        kv_key number = id(i), key = name(text);
        h[2 * i] = slot_hash(&number);
        h[2 * i + 1] = slot_hash(&key);
    }
    qsort(h, 2 * MANY, sizeof *h, ascending);
    for (int i = 1; i < 2 * MANY; i++)
        CHECK(h[i] != h[i - 1]);
}

/* All types of stores refuse a key with the same words. */
TEST(slot_refusals_name_the_key)
{
    kv_key three = id(3), w = name("w");
    CHECK_INT(slot_refuse_inited(&three, &e), KV_E_KEY);
    CHECK(e.has_key && !e.key_is_text);
    CHECK_INT(e.key_id, 3);
    CHECK_TEXT(e.hint, "init makes new keys; push changes this one");
    CHECK_FAILED(e.code, KV_E_KEY, "key 3 is initialised already");
    CHECK_INT(slot_refuse_unknown(&w, &e), KV_E_KEY);
    CHECK(e.has_key && e.key_is_text);
    CHECK_TEXT(e.key_name, "w");
    CHECK_TEXT(e.hint, "init it first");
    CHECK_FAILED(e.code, KV_E_KEY, "key \"w\" was never initialised");
}

TEST(slot_texts_of_keys)
{
    char out[SLOT_KEY_TEXT], want[SLOT_KEY_TEXT + 8], text[KV_KEY_MAX + 1];
    kv_key key = id(INT64_MIN);
    CHECK(slot_key_text(out, &key) == out);
    CHECK_TEXT(out, "-9223372036854775808");
    for (int n = 86; n < 100; n++) {
        memset(text, 'x', (size_t)n);
        text[n] = 0;
        key = name(text);
        snprintf(want, sizeof want, "\"%.*s%s\"", n < 90 ? n : 90, text, n > 90 ? "..." : "");
        CHECK(slot_key_text(out, &key) == out);
        CHECK_TEXT(out, want);
    }
}

/* ---- What a slot keeps ---- */

TEST(slot_state_is_shared)
{
    slot_state state = {.master = one(), .have = 0x8001}, *copy = &state;
    for (int i = 0; i < PLAN_MAX_STATES; i++)
        state.arrays[i] = one();
    CHECK_INT(WITHOUT_MEMORY(-1, slot_state_share(&copy, &state, &e)), KV_E_MEMORY);
    CHECK(!copy);
    CHECK_OK(slot_state_share(&copy, &state, &e));
    CHECK(memcmp(copy, &state, sizeof state) == 0);
    CHECK(malloc_usable_size(copy) < 2 * sizeof *copy); /* memory for one */
    slot_state_free(copy);
    CHECK_INT(kv_array_size(state.master), 2); /* still there */
    kv_array_unref(state.master);
    for (int i = 0; i < PLAN_MAX_STATES; i++) {
        CHECK_INT(kv_array_size(state.arrays[i]), 2);
        kv_array_unref(state.arrays[i]);
    }
    copy = &state;
    CHECK_OK(slot_state_share(&copy, NULL, &e));
    CHECK(!copy);
    slot_state_free(NULL);
}

TEST(residuals_have_places)
{
    kv_array **to = NULL;
    residuals *r = MADE(residuals, residuals_place, 2, &to);
    CHECK(r && to == &r->items[2]);
    CHECK_INT(r->n, 3);
    CHECK(malloc_usable_size(r) < 2 * sizeof *r);
    for (int i = 0; i < 3; i++)
        CHECK(!r->items[i]);
    *to = one();
    const kv_array *held = *to;
    CHECK_OK(residuals_place(&r, 0, &to, &e));
    CHECK(to == &r->items[0]);
    CHECK_INT(r->n, 3);
    for (int at = 3; at < 70; at++) {
        CHECK_OK(residuals_place(&r, at, &to, &e));
        CHECK(to == &r->items[at] && !*to);
        CHECK_INT(r->n, at + 1);
    }
    CHECK(r->items[2] == held);
    r->sum = one();
    residuals_free(r);
    residuals_free(NULL);
}

TEST(residuals_without_memory)
{
    residuals *r = NULL;
    kv_array **to = NULL;
    CHECK_INT(WITHOUT_MEMORY(-1, residuals_place(&r, 0, &to, &e)), KV_E_MEMORY);
    CHECK(!r && !to);
    CHECK_INT(WITHOUT_MEMORY(-2, residuals_place(&r, 5, &to, &e)), KV_E_MEMORY);
    CHECK(!to);
    CHECK(!r || r->n == 0);
    CHECK_OK(residuals_place(&r, 5, &to, &e));
    to = NULL;
    CHECK_INT(WITHOUT_MEMORY(-1, residuals_place(&r, 50, &to, &e)), KV_E_MEMORY);
    CHECK(!to);
    CHECK_INT(r->n, 6);
    residuals_free(r);
}

TEST(residuals_are_shared)
{
    residuals empty = {0}, *r = NULL, *copy = &empty;
    kv_array **to = NULL;
    CHECK_OK(residuals_share(&copy, NULL, &e));
    CHECK(!copy);
    copy = &empty;
    CHECK_OK(residuals_share(&copy, &empty, &e));
    CHECK(!copy);
    CHECK_OK(residuals_place(&r, 0, &to, &e));
    *to = one();
    for (int n = 1; n <= 2; n++) {
        copy = &empty;
        CHECK_INT(WITHOUT_MEMORY(-n, residuals_share(&copy, r, &e)), KV_E_MEMORY);
        CHECK(!copy);
    }
    CHECK_OK(residuals_share(&copy, r, &e)); /* of one */
    CHECK(copy && copy->n == 1 && copy->items[0] == r->items[0] && !copy->sum);
    residuals_free(copy);
    CHECK_OK(residuals_place(&r, 1, &to, &e)); /* a place without an array */
    CHECK_OK(residuals_place(&r, 20, &to, &e));
    *to = one();
    r->sum = one();
    CHECK_OK(residuals_share(&copy, r, &e));
    CHECK_INT(copy->n, 21);
    CHECK(malloc_usable_size(copy) < 2 * sizeof *copy);
    for (int i = 0; i < 21; i++)
        CHECK(copy->items[i] == r->items[i]);
    CHECK(!copy->sum);
    residuals_free(r);
    CHECK_INT(kv_array_size(copy->items[20]), 2); /* still there */
    residuals_free(copy);
}
